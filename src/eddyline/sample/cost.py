"""What a reduction costs the answers of queries: their records, from the keys that are dropped."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from eddyline.kernels.reduction import COSTS, LEFT, SQUARES, VARIANCE, add_costs
from eddyline.sample.join import Join
from eddyline.sample.messages import Messages, accumulate, sampled_messages
from eddyline.sample.packing import chunks, dot, narrow, return_freed
from eddyline.sample.spec import Quantity, Shape
from eddyline.sample.state import FloatArray, Record, Roster, SampleState, probability_of

_LEAST_LEFT = 1e-9
"""The part that a reduction is assumed to leave of an answer if it leaves nothing: interval ends stay finite."""


def joins_of(total: SampleState, kind: Callable[[Join], Hashable]) -> Iterator[tuple[Join, list[Shape]]]:
    """Yield the queries of a state: successive ones of equal kind once, with what all of them are.

    Successive queries with the same links share what is known of these.
    """
    known = None
    for _, equal in groupby(total.spec.shapes, key=lambda shape: kind(Join(total, shape))):
        shapes = list(equal)
        join = Join(total, shapes[0])
        if known is not None:
            join.share(known)
        known = None  # nothing of the earlier query is held while this one is read, except what both share
        return_freed(total.nbytes)
        yield join, shapes
        known = join


def kind_of(join: Join, quantities: Sequence[Quantity]) -> Hashable:
    """Return what decides some quantities of a query: those of two queries of the same kind are equal."""
    nodes = [(node, join.view(node)) for quantity in quantities for node in quantity.nodes]
    return (
        join.shape.classes,
        tuple(join.members),
        tuple(map(tuple, join.null_kinds)),
        tuple(
            (node.roles, node.groups_null, view.flags, view.measure, view.number_words)
            for node, view in nodes
        ),
        tuple((node.variables, view.dictionary, view.keys) for node, view in nodes),
    )


def records_after(total: SampleState, rosters: Sequence[Roster]) -> dict[str, Record]:
    """Return the records of all queries after a reduction to some rosters."""

    def kind(join: Join) -> Hashable:
        return kind_of(join, [_counted(join)]) if _has_cost(join.shape) else None

    found = dict(total.records)
    for join, shapes in joins_of(total, kind):
        cost = _cost(join, _counted(join), rosters) if _has_cost(join.shape) else Record()
        for shape in shapes if cost != Record() else ():
            found[shape.name] = found.get(shape.name, Record()) + cost
    return found


def _has_cost(shape: Shape) -> bool:
    return shape.kind not in ("set", "pairs") and bool(shape.classes)


def _counted(join: Join) -> Quantity:
    return join.shape.quantities.get("count", join.first)


def _cost(join: Join, quantity: Quantity, rosters: Sequence[Roster]) -> Record:
    """Return what a reduction adds to the record of a query.

    Answers are corrected by the exact totals of their relations. So only what a key adds to the answer beyond what
    it adds to these totals counts: the residual of a regression, in which each key is weighted by the cost of the
    reduction. What it leaves of the estimate is computed link by link, as if links were independent of each other.
    """
    messages = sampled_messages(join, quantity)
    total, shares = _shares(messages)
    read = [k for k, mine in enumerate(messages.relations) if not mine.only_decides]
    rows = [_Rows.of_message(messages, k) for k in read]
    messages.forget()  # the next step needs as much memory again
    rows = [_Rows.of_elements(messages, k) if own is None else own for k, own in zip(read, rows, strict=True)]
    links = []
    for variable, link in enumerate(join.shape.classes):
        at = [place for place, own in enumerate(rows) if own is not None and variable in own.held]
        known = [own for place, own in enumerate(rows) if own is not None and place in at]
        links.append(_Link(join, variable, rosters[link], shares[variable], at, known))
    if total == 0.0:
        for each in links:
            each.shares = _expected_shares(each.known(slice(0, len(each.shares))), len(read))
    totals = [own.total for own in rows if own is not None]
    return _record_of(links, read, totals, len(join.first.nodes), reached=total != 0.0)


def _shares(messages: Messages) -> tuple[float, list[FloatArray]]:
    """Return the sum over the join, and the share of each value of each link in it."""
    shares: list[FloatArray] = [np.empty(0)] * len(messages.sizes)
    total = 0.0
    for variable in sorted(range(len(shares)), key=lambda each: each != messages.root):
        met = messages.own_met(variable)
        if variable == messages.root:
            total = dot(met, messages.factors[variable])
        for at in chunks(len(met)):
            met[at] *= messages.factors[variable][at]
            met[at] /= total or 1.0
        shares[variable] = met[: messages.values[variable]]
    return total, shares


@dataclass
class _Rows:
    """The rows of one relation at the values of its links, in all `total` rows, both scaled up.

    held: by link, what the relation holds there, narrow where it is integers, and the factor of each value: None if
    what it holds is scaled up already.
    """

    total: float
    held: dict[int, tuple[np.ndarray, FloatArray | None]]

    @classmethod
    def of_message(cls, messages: Messages, relation: int) -> "_Rows | None":
        """Return the rows of a relation with one link from what it sends there; None for one with several links."""
        mine = messages.relations[relation]
        if len(mine.variables) != 1:
            return None
        (variable,) = mine.variables
        own, factor = messages.own(relation, variable), messages.factors[variable]
        return cls(dot(own, factor) or 1.0, {variable: (_narrow(own), factor)})

    @classmethod
    def of_elements(cls, messages: Messages, relation: int) -> "_Rows":
        """Return the rows of a relation from its elements."""
        mine, total = messages.relations[relation], 0.0
        held = [np.zeros(messages.sizes[variable]) for variable in mine.variables]
        for at in chunks(len(mine.weights)):
            scaled = messages.scaled_weights(relation, at)
            total += float(scaled.sum())
            for own, places in zip(held, mine.places, strict=True):
                accumulate(scaled, places[at], own)
        return cls(
            total or 1.0, {v: (_narrow(own), None) for v, own in zip(mine.variables, held, strict=True)}
        )

    def shares(self, variable: int, at: slice) -> FloatArray:
        """Return the share of each of some values of a link in all rows."""
        held, factor = self.held[variable]
        share = held[at].astype(np.float64)
        if factor is not None:
            share *= factor[at]
        share /= self.total
        return share


def _narrow(held: FloatArray) -> np.ndarray:
    """Return numbers in narrow integers if they are integers of at most 32 bits."""
    if len(held) == 0 or not np.abs([held.min(), held.max()]).max() < 1 << 31:
        return held
    made = held.astype(np.int32)
    return narrow(made) if all(np.array_equal(made[at], held[at]) for at in chunks(len(held))) else held


@dataclass
class _Link:
    """One link of a query in a reduction to a roster: its values, and the share of each in the answer.

    rows: of the relations that are read and have this link; members: their places among all that are read.
    """

    join: Join
    variable: int
    roster: Roster
    shares: FloatArray
    members: list[int]
    rows: list[_Rows]

    def known(self, at: slice) -> np.ndarray:
        """Return the shares of some values in the rows of each member."""
        made = np.empty((len(self.rows), len(self.shares[at])))
        for out, rows in zip(made, self.rows, strict=True):
            out[:] = rows.shares(self.variable, at)
        return made

    def sums(self, slopes: FloatArray | None = None) -> FloatArray:
        """Return what the kernel `add_costs` adds up over all values of the link; slopes: of the members."""
        number = len(self.rows)
        sums, space = np.zeros((2, COSTS + number * (number + 3)))
        values, rates = self.join.values[self.variable], self.join.probabilities[self.variable]
        entered = probability_of(self.roster.ranks)
        for at in chunks(len(values)):  # a chunk has whole blocks of the kernel
            first, last = np.searchsorted(self.roster.values, (values[at][0], values[at][-1]))
            of_roster = slice(first, last + 1)
            add_costs(
                values[at],
                np.ascontiguousarray(rates[at]),
                np.uint64(self.roster.seed),
                self.roster.base,
                self.roster.values[of_roster],
                entered[of_roster],
                self.shares[at],
                self.known(at),
                np.empty(0) if slopes is None else slopes,
                slopes is not None,
                space,
                sums,
            )
        return sums


def _record_of(
    links: Sequence[_Link], read: Sequence[int], totals: Sequence[float], relations: int, *, reached: bool
) -> Record:
    """Return the record of a reduction, link by link; reached: whether the answer was not 0.

    read: the relations whose rows are known, of all `relations`; totals: the number of their rows.
    """
    number, left, heaviest = len(read), 1.0, np.zeros(len(read))
    met, few, gram = np.zeros(number), np.zeros(number), np.zeros((number, number))
    for link in links:
        own, mine = len(link.members), link.members
        sums = link.sums()
        left *= max(1.0 + float(sums[LEFT]), _LEAST_LEFT)
        parts = np.split(sums[COSTS:], [own, 2 * own, 3 * own])
        heaviest[mine] = np.maximum(heaviest[mine], parts[0])
        met[mine] += parts[1]
        few[mine] += parts[2]
        gram[np.ix_(mine, mine)] += parts[3].reshape(own, own)
    gone = np.zeros(relations)
    gone[list(read)] = heaviest * totals
    lost = tuple(gone.tolist()) if gone.any() else ()
    if not reached:
        return Record(left=left, heaviest=lost)
    slopes = _slopes(gram, met, few)
    sums_of = [link.sums(slopes[link.members]) for link in links]
    variance, squares = (float(sum(sums[place] for sums in sums_of)) for place in (VARIANCE, SQUARES))
    return Record(variance, squares, left, lost)


def _slopes(gram: np.ndarray, met: FloatArray, few: FloatArray) -> FloatArray:
    """Return the slopes of a regression on the relations that have rows, 0 for others.

    gram, met: the weighted products of what is known with itself and with the shares; few: the sums of the squares
    of the terms on the diagonal.
    """
    slopes = np.zeros(len(met))
    used = np.diag(gram) > 0.0
    if used.any():
        gram = gram[np.ix_(used, used)]
        # as answers are calibrated: see `answer.joins.calibration`
        gram[np.diag_indices_from(gram)] *= 1.0 + few[used] / np.diag(gram) ** 2
        slopes[used] = np.linalg.pinv(gram, hermitian=True) @ met[used]
    return slopes


def _expected_shares(known: np.ndarray, relations: int) -> FloatArray:
    """Return what each value of a link is expected to add to a join with a relation that has no rows yet.

    Relations without rows are assumed to be like those that have some. known: what values add to each relation.
    """
    there = [row for row in known if row.any()]
    if not there:
        return np.zeros(known.shape[1])
    # deletes may come before their rows: a value with a negative number of rows will have rows
    product = np.abs(np.prod(there, axis=0)) ** (relations / len(there))
    return np.asarray(product / (float(product.sum()) or 1.0))
