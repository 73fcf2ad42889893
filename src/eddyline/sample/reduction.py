"""Which keys to keep when a sample is over its budget: those that matter most to the queries, per byte."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from eddyline.kernels.reduction import COSTS, LEFT, SQUARES, VARIANCE, add_costs, least_at
from eddyline.sample.dictionary import Dictionary
from eddyline.sample.join import Join
from eddyline.sample.messages import Messages, accumulate, added, sampled_messages, set_values
from eddyline.sample.packing import BoolArray, chunks, places_among, return_freed, united
from eddyline.sample.spec import COUNT, Quantity, Shape
from eddyline.sample.state import (
    ENTRY_BYTES,
    HASH_STEP,
    FloatArray,
    Record,
    Roster,
    SampleState,
    make_roster,
    probability_of,
    ranks_below,
)

# The factor that makes elements fit a budget, found without sorting or holding the factors of all elements.


_SHIFT = 48
"""A bucket is given by the highest 16 bits of a float: all values within a sixteenth of a power of two."""


class Part(NamedTuple):
    """Elements of one size: the factor from which on each of them stays, not negative, and the bytes of each."""

    factors: FloatArray
    bytes: float


class Fitting:
    """Finds the factor that makes elements fit, in two passes: one to count, one over those near the factor."""

    def __init__(self) -> None:
        self.counts: list[np.ndarray] = []
        self.sizes: list[float] = []

    def count(self, part: Part) -> None:
        """Count the elements of a part, bucket by bucket."""
        counts = np.zeros(1 << (64 - _SHIFT), dtype=np.int64)
        for at in chunks(len(part.factors)):
            counts += np.bincount(_buckets(part.factors[at]), minlength=len(counts))
        self.counts.append(counts)
        self.sizes.append(part.bytes)

    def factor(self, parts: Iterable[Part], budget: float) -> float:
        """Return the factor of the first element that does not fit in the order of factors; parts: same as before.

        The largest factor if all fit, 0 if there are no elements.
        """
        bytes_ = sum((c * size for c, size in zip(self.counts, self.sizes, strict=True)), np.zeros(1))
        filled = np.flatnonzero(sum(self.counts, np.zeros(1, dtype=np.int64)))
        if len(filled) == 0:
            return 0.0
        ends = np.cumsum(bytes_[filled])
        place = min(int(np.searchsorted(ends, budget, side="right")), len(filled) - 1)
        bucket, before = int(filled[place]), float(ends[place - 1]) if place else 0.0
        near = [Part(_of_bucket(part.factors, bucket), part.bytes) for part in parts]
        when = np.concatenate([part.factors for part in near])
        sizes = np.repeat([part.bytes for part in near], [len(part.factors) for part in near])
        order = np.argsort(when, kind="stable")
        fits = int(np.searchsorted(before + np.cumsum(sizes[order]), budget, side="right"))
        return float(when[order][min(fits, len(order) - 1)])


def _buckets(factors: FloatArray) -> np.ndarray:
    """Return the bucket of each factor: floats that are not negative are ordered as their bits are."""
    return factors.view(np.int64) >> _SHIFT


def _of_bucket(factors: FloatArray, bucket: int) -> FloatArray:
    """Return the factors of one bucket, in their original order."""
    found = [factors[at][_buckets(factors[at]) == bucket] for at in chunks(len(factors))]
    return np.concatenate([np.empty(0), *found])


# A value's best inclusion probability is proportional to its share in the answers over the root of its
# bytes (Neyman). One factor for all links is found such that what is left fits. A value that was never seen
# is expected to be worth as much as the present values without the heaviest, and enters at the base rate
# that follows from that. Elements with a NULL link join nothing there and are thinned separately, at one
# rate for each dictionary, by the same rule. The thresholds do not depend on the hash of the value that
# they decide on, so that estimates stay unbiased.


FILL = 0.9
"""A reduction lowers the bytes to this part of the budget."""
_THETA = 3.0
"""Values worth more than this many times the typical one do not count towards the worth of an unknown value."""
_BASE_SHARE = 0.7
_OWN_ENTRY = 1.5
"""A value gets its own entry if it is worth this many times more than an unknown one ..."""
_MORE = 2.0
"""... and if its square in the answers is this many times the mean: being cheaper is not enough for an entry."""
_RAISED = 0.5
_RATIO_SHARE = 0.3
_OUTSIDE, _MANY = 0.1, 0.2
_LEAST_LEFT = 1e-9
"""The part that a reduction is assumed to leave of an answer if it leaves nothing: interval ends stay finite."""
_PAIRS_WEIGHT = 1 / 16
"""The weight of a distinct count over a join relative to other queries: it needs far more bytes for the same error.
With 1 it takes them from the others: figures/distinct_joins.py at 256 KB, .003 instead of .0006. Set by three
seeds."""
_UNPLANNED = 0.1
"""The least worth of elements with a NULL link, for ad hoc queries: this part of their share of the rows."""


def reduced(panes: Sequence[SampleState], budget: int) -> list[SampleState]:
    """Return states with one roster (the panes of a window, or one state) that together fit a budget."""
    total = panes[0]
    for pane in panes[1:]:
        total = total.combined(pane)
    held = [(place, d) for pane in panes for place, d in enumerate(pane.dictionaries)]
    classes = [
        _Class(link, total.rosters[link], [d for _, d in held]) for link in range(len(total.spec.seeds))
    ]
    nulls = [_Nulls(total.nulls(place), d) for place, d in enumerate(total.dictionaries)]
    for join in _joins(total, total.spec.shapes):
        _add_importance(join.shape, join, classes, nulls)
    for each in classes:
        each.settle()
    threshold = _threshold(held, classes, nulls, FILL * budget)
    rosters = (*(each.lowered(threshold) for each in classes), *(each.lowered(threshold) for each in nulls))
    del classes, nulls
    records = _records(total, rosters)
    return [replace(pane.under(rosters), records=records) for pane in panes]


def _records(total: SampleState, rosters: Sequence[Roster]) -> dict[str, Record]:
    """Return the records of all queries after a reduction to some rosters."""
    found = dict(total.records)
    for join in _joins(total, total.spec.shapes):
        cost = _cost(join, rosters)
        if cost != Record():
            name = join.shape.name
            found[name] = found.get(name, Record()) + cost
    return found


def _joins(total: SampleState, shapes: Iterable[Shape]) -> Iterator[Join]:
    """Yield each query over the state: successive queries with the same links share what is known of them."""
    known = None
    for shape in shapes:
        join = Join(total, shape)
        if known is not None:
            join.share(known)
        known = None  # nothing of the earlier query is held while this one is read, except what both share
        return_freed(total.nbytes)
        yield join
        known = join


def _cost(join: Join, rosters: Sequence[Roster]) -> Record:
    """Return what a reduction adds to the record of a query.

    Answers are corrected by the exact totals of their relations. So only what a key adds to the answer beyond what
    it adds to these totals counts: the residual of a regression, in which each key is weighted by the cost of the
    reduction. What it leaves of the estimate is computed link by link, as if links were independent of each other.
    """
    shape = join.shape
    if shape.kind in ("set", "pairs") or not shape.classes:
        return Record()
    messages = sampled_messages(join, shape.quantities.get("count", join.first))
    total = messages.total()
    shares = []
    for variable, values in enumerate(join.values):
        share = messages.met(variable)
        share = share * messages.factors[variable]
        share /= total or 1.0
        shares.append(share[: len(values)])
        del share
    messages.forget()
    read = [k for k, mine in enumerate(messages.relations) if not mine.only_decides]
    known, totals = _relation_shares(messages, read)
    del messages  # the next step needs as much memory again
    if total == 0.0:
        shares = [
            _expected_shares(rows[:, : len(each)], len(read))
            for rows, each in zip(known, join.values, strict=True)
        ]
    links = [
        _Link(join, variable, rosters[link], shares[variable], known[variable])
        for variable, link in enumerate(shape.classes)
    ]
    return _record_of(links, read, totals, len(join.first.nodes), reached=total != 0.0)


class _Link(NamedTuple):
    """One link of a query in a reduction to a roster: its values, and the share of each in the answer.

    known: its shares of the rows of each relation that is read, 0 for relations without this link; those of the
    places for NULL come after them.
    """

    join: Join
    variable: int
    roster: Roster
    shares: FloatArray
    known: np.ndarray

    def add(self, slopes: FloatArray, sums: FloatArray) -> None:
        """Add up what the kernel `add_costs` does, over all values of the link."""
        values = self.join.values[self.variable]
        add_costs(
            values,
            self.join.probabilities[self.variable],
            np.uint64(self.roster.seed),
            self.roster.base,
            self.roster.values,
            probability_of(self.roster.ranks),
            self.shares,
            self.known,
            slopes,
            np.empty(len(sums)),
            sums,
        )


def _record_of(
    links: Sequence[_Link], read: Sequence[int], totals: Sequence[float], relations: int, *, reached: bool
) -> Record:
    """Return the record of a reduction, link by link; reached: whether the answer was not 0.

    read: the relations whose rows are known, of all `relations`; totals: the number of their rows.
    """
    number, left, heaviest = len(read), 1.0, np.zeros(len(read))
    sums = np.zeros((len(links), COSTS + number * (number + 3)))
    for link, own in zip(links, sums, strict=True):
        link.add(np.zeros(number), own)
        left *= max(1.0 + float(own[LEFT]), _LEAST_LEFT)
        np.maximum(heaviest, own[COSTS : COSTS + number], out=heaviest)
    gone = np.zeros(relations)
    gone[read] = heaviest * totals
    lost = tuple(gone.tolist()) if gone.any() else ()
    if not reached:
        return Record(left=left, heaviest=lost)
    added = sums[:, COSTS + number :].sum(axis=0)
    met, few, gram = added[:number], added[number : 2 * number], added[2 * number :].reshape(number, number)
    slopes = _slopes(gram, met, few)
    sums[:] = 0.0
    for link, own in zip(links, sums, strict=True):
        link.add(slopes, own)
    return Record(float(sums[:, VARIANCE].sum()), float(sums[:, SQUARES].sum()), left, lost)


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


def _relation_shares(messages: Messages, read: Sequence[int]) -> tuple[list[np.ndarray], list[float]]:
    """Return (for each link, each place's share of the rows of each relation; the number of rows of each)."""
    known, totals = [np.zeros((len(read), size)) for size in messages.sizes], []
    for row, relation in enumerate(read):
        mine, total = messages.relations[relation], 0.0
        for at in chunks(len(mine.weights)):
            scaled = messages.scaled_weights(relation, at)
            total += float(scaled.sum())
            for variable, places in zip(mine.variables, mine.places, strict=True):
                accumulate(scaled, places[at], known[variable][row])
        totals.append(total or 1.0)
        for variable in mine.variables:
            known[variable][row] /= totals[-1]
    return known, totals


class _Nulls:
    """The elements of one dictionary that have a NULL link, and their total worth to the queries."""

    def __init__(self, roster: Roster, dictionary: Dictionary) -> None:
        self.roster = roster
        self.there = dictionary.null_links()
        self.bytes = float(dictionary.element_bytes) * int(self.there.sum())
        counts = np.abs(dictionary.total(COUNT)).astype(np.float64)
        shares = counts[self.there] / max(float(counts.sum()), 1.0)
        self.least = float(((_UNPLANNED * shares) ** 2).sum())
        self.squares = 0.0

    def add(self, shares: FloatArray, weight: float) -> None:
        """Add the squared shares of the elements in an answer."""
        self.squares += weight * float((shares**2).sum())

    @property
    def worth(self) -> float:
        """The average worth of an element per byte."""
        return max(float(np.sqrt((self.squares + self.least) / self.bytes)), 1e-300) if self.bytes else np.inf

    def lowered(self, threshold: float) -> Roster:
        """Return the roster under a factor, with a rate that a rank represents."""
        if not self.bytes:
            return self.roster
        wanted = min(self.roster.base, threshold * self.worth)
        rank = ranks_below(np.array([wanted]))
        rate = float(probability_of(rank)[0])
        return replace(self.roster, base=rate if rate <= wanted else 0.0)


class _Class:
    """The held values of one link class, what they cost and what they are worth."""

    def __init__(self, link: int, roster: Roster, held: Sequence[Dictionary]) -> None:
        self.link = link
        self.roster = roster
        self.parts = [(d, key) for d in held for key, own in enumerate(d.spec.classes) if own == link]
        self.values = united([d.index(key)[0] for d, key in self.parts])[0]
        self.squares = np.zeros(len(self.values))
        self.worth = np.empty(0)
        self.typical = 0.0

    @property
    def hashes(self) -> FloatArray:
        """The hash of each value."""
        return self.roster.hashes(self.values)

    @property
    def probabilities(self) -> FloatArray:
        """The inclusion probability of each value, before the reduction."""
        return self.roster.rates_of_held(self.values)

    @property
    def costs(self) -> FloatArray:
        """The bytes of each value's own entry and of the elements that hold it."""
        costs = np.full(len(self.values), float(ENTRY_BYTES))
        for dictionary, key in self.parts:
            values, places = dictionary.index(key)
            elements = added(~dictionary.is_null(key), places, len(values)).astype(np.float64)
            elements *= dictionary.element_bytes
            costs[places_among(self.values, values)] += elements
        return costs

    def add(self, values: np.ndarray, shares: FloatArray, weight: float) -> None:
        """Add the squared shares of values in an answer."""
        squares = shares**2
        squares *= weight
        if len(values) == len(self.values):  # all of them: values of an answer are held
            self.squares += squares
        else:
            self.squares[places_among(self.values, values)] += squares

    def settle(self) -> None:
        """Compute the worth of each value per byte, and the expected worth of an unknown value.

        After that only the worth is held.
        """
        worth = self.squares / (costs := self.costs)
        np.sqrt(worth, out=worth)
        counted = np.ones(len(worth), dtype=np.bool_)
        typical = mean = 0.0
        probabilities = None if self.roster.follows_all else self.probabilities
        for _ in range(6 if len(worth) else 0):
            number = float(_over(np.broadcast_to(1.0, len(worth)), probabilities, counted).sum())
            squares = float(_over(self.squares, probabilities, counted).sum())
            bytes_ = float(_over(costs, probabilities, counted).sum())
            typical = np.sqrt(squares / bytes_) if bytes_ > 0 else 0.0
            mean = squares / number if number > 0 else 0.0
            counted = worth <= _THETA * typical
        self.typical = max(_BASE_SHARE * float(typical), 1e-300)
        worth[(worth < _OWN_ENTRY * self.typical) | (self.squares <= _MORE * mean)] = self.typical
        self.worth, self.squares = worth, np.empty(0)

    @property
    def times(self) -> FloatArray:
        """The factor from which on each value is followed."""
        times = self.hashes
        times /= self.worth
        return times

    def lowered(self, threshold: float) -> Roster:
        """Return the roster under a factor."""
        base = min(self.roster.base, threshold * self.typical) if len(self.values) else self.roster.base
        base = base if base >= HASH_STEP else 0.0
        own = self.worth > self.typical  # few of all values: only their rates are computed
        values = self.values[own]
        wanted = np.minimum(self.probabilities[own], np.maximum(threshold * self.worth[own], base))
        followed = self.roster.hashes(values) < wanted
        return make_roster(self.roster.seed, base, values[followed], wanted[followed])


def _over(column: FloatArray, probabilities: FloatArray | None, counted: BoolArray) -> FloatArray:
    """Return the counted entries of a column, each over its probability; probabilities: None if all are 1."""
    return column[counted] if probabilities is None else column[counted] / probabilities[counted]


def _threshold(
    held: Sequence[tuple[int, Dictionary]], classes: Sequence[_Class], nulls: Sequence[_Nulls], budget: float
) -> float:
    """Return the largest factor under which the elements that stay, and the rosters, fit the budget.

    held: the dictionaries of all panes, each with its index among those of its pane.
    """
    first = [np.full(len(each.values), np.inf) for each in classes]
    times = [each.times for each in classes]

    def entries(counted: Sequence[tuple[int, Dictionary]]) -> Iterator[Part]:
        for place, dictionary in counted:
            yield Part(_latest(dictionary, nulls[place], classes, times), float(dictionary.element_bytes))
        for each, earliest in zip(classes, first, strict=True):
            yield Part(earliest[each.worth > each.typical], float(ENTRY_BYTES))

    fitting, counted = Fitting(), [(place, d) for place, d in held if len(d)]
    for (_, dictionary), part in zip(counted, entries(counted), strict=False):
        fitting.count(part)
        for key, link in enumerate(dictionary.spec.classes):
            if link >= 0:
                values, places = dictionary.index(key)
                earliest = np.full(len(values), np.inf)
                least_at(part.factors, dictionary.is_null(key), places, earliest)
                where = places_among(classes[link].values, values)
                first[link][where] = np.minimum(first[link][where], earliest)
    for part in entries([]):
        fitting.count(part)
    return fitting.factor(entries(counted), budget - 8.0 * (len(classes) + len(nulls)))


def _latest(
    dictionary: Dictionary, nulls: _Nulls, classes: Sequence[_Class], times: Sequence[FloatArray]
) -> FloatArray:
    """Return the factor from which on each element stays: the largest of its values, or its own if one is NULL."""
    latest, alone = np.zeros(len(dictionary)), dictionary.null_links()
    if alone.any():
        latest[alone] = nulls.roster.hashes(dictionary.codes(alone)) / nulls.worth
    for key, link in enumerate(dictionary.spec.classes):
        if link >= 0:
            values, places = dictionary.index(key)
            of_values = times[link][places_among(classes[link].values, values)]
            null = dictionary.is_null(key)
            for at in chunks(len(latest)):
                np.maximum(latest[at], of_values[places[at]], out=latest[at], where=~null[at])
    return latest


def _raise(message: FloatArray) -> FloatArray:
    """Return a message raised by half its mean, so that a value without a partner yet is not worthless."""
    size = np.abs(message)
    sent = size > 0
    return size + _RAISED * float(size[sent].mean()) if sent.any() else np.ones(len(message))


def _raised_messages(join: Join, quantity: Quantity) -> Messages:
    factors = [each if np.all(each == 1.0) else 1.0 / each for each in join.probabilities]
    return Messages(join.relations(quantity), join, factors, _raise, absolute=True)


def _add_importance(shape: Shape, join: Join, classes: Sequence[_Class], nulls: Sequence[_Nulls]) -> None:
    """Add to every class the squared share of each of its values in the answer of one query, and of NULLs."""
    read = {"set": 0, "pairs": 0, "join": 1}.get(shape.kind, 2)
    messages = [_raised_messages(join, each) for each in list(shape.quantities.values())[:read]]
    for variable, link in enumerate(shape.classes):
        shares = _shares(shape, join, messages, variable)
        if shares is not None:
            values = join.values[variable]
            weight = shape.weight * (_PAIRS_WEIGHT if shape.kind == "pairs" else 1.0)
            classes[link].add(values, shares[: len(values)], weight)  # NULL comes after them
    if shape.kind not in ("set", "pairs") and any(join.null_places):
        _add_null_importance(shape, join, nulls)


def _add_null_importance(shape: Shape, join: Join, nulls: Sequence[_Nulls]) -> None:
    """Add what elements with a NULL link are worth to a query in which they count."""
    messages = _raised_messages(join, join.first)
    total = float(messages.met(messages.root) @ messages.factors[messages.root])
    for relation, node in zip(range(len(messages.relations)), join.first.nodes, strict=True):
        mine, own = messages.relations[relation], nulls[join.view(node).dictionary]
        rows = np.abs(mine.weights.astype(np.float64)) * own.there
        if total <= 0 or not rows.any():
            continue
        for variable, places in zip(mine.variables, mine.places, strict=True):
            rows = rows * messages.passed(variable, relation)[places]
        rate = own.roster.base if own.roster.base > 0 else 1.0
        own.add(rows * rate / total, shape.weight)


def _shares(shape: Shape, join: Join, messages: Sequence[Messages], variable: int) -> FloatArray | None:
    if len(join.values[variable]) == 0:
        return None
    if shape.kind == "set":
        return _normalized(_set_worth(join), join, variable)
    if shape.kind == "pairs":
        return _normalized(_pairs_worth(join), join, variable)
    first = _normalized(messages[0].met(variable), join, variable)
    if shape.kind == "join":
        return first
    other = _normalized(messages[1].met(variable), join, variable)
    return np.abs(first - other) + _RATIO_SHARE * first


def _pairs_worth(join: Join) -> FloatArray:
    """Return the worth of each value for a distinct count over a join: the pairs that meet at it."""
    worth = np.ones(len(join.values[0]))
    for relation in join.whole_relations(join.first):
        worth *= _raise(added(relation.weights > 0, relation.places[0], len(worth)).astype(np.float64))
    return worth


def _set_worth(join: Join) -> FloatArray:
    """Return the worth of each value for a set expression: less for those outside, if few are inside.

    If many are inside, all are worth the same: their own rates would take more memory than they save.
    """
    inside = set_values(join)
    number, among = (
        float(each.sum()) for each in (inside / join.probabilities[0], 1 / join.probabilities[0])
    )
    return np.where(inside, 1.0, 1.0 if number > _MANY * among else _OUTSIDE)


def _normalized(met: FloatArray, join: Join, variable: int) -> FloatArray:
    """Return what each value adds to the answer, relative to the answer."""
    total = float((met / join.probabilities[variable]).sum())
    return met / total if total > 0 else np.zeros(len(met))


def shrink_to_fit(panes: Sequence[SampleState], budget: int) -> list[SampleState]:
    """Return states that together fit a budget; nothing changes if they already do."""
    states = list(panes)
    while bytes_of(states) > budget:
        before = bytes_of(states)
        states = reduced(states, budget)
        if bytes_of(states) >= before:
            return [_emptied(state) for state in states]
    return states


def bytes_of(states: Sequence[SampleState]) -> int:
    """Return the bytes of panes that share their rosters."""
    return sum(d.nbytes for state in states for d in state.dictionaries) + sum(
        roster.nbytes for roster in states[0].rosters
    )


def _emptied(state: SampleState) -> SampleState:
    """Return a state that follows nothing: for budgets below a single element."""
    return replace(
        state,
        dictionaries=tuple(Dictionary.empty(d.spec) for d in state.dictionaries),
        rosters=tuple(Roster(r.seed, 0.0) for r in state.rosters),
    )
