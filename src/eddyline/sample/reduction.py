"""Which keys to keep when a sample is over its budget: those that matter most to the queries, per byte."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from eddyline.sample.dictionary import Dictionary
from eddyline.sample.join import Join
from eddyline.sample.messages import Messages, added, sampled_messages, set_values
from eddyline.sample.packing import chunks, mixed, places_among, times, united
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
        _Class.of(link, total.rosters[link], [d for _, d in held]) for link in range(len(total.spec.seeds))
    ]
    nulls = [_Nulls(total.nulls(place), d) for place, d in enumerate(total.dictionaries)]
    for shape in total.spec.shapes:
        _add_importance(shape, Join(total, shape), classes, nulls)
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
    for shape in total.spec.shapes:
        cost = _cost(Join(total, shape), rosters)
        if cost != Record():
            found[shape.name] = found.get(shape.name, Record()) + cost
    return found


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
    total, ends = messages.total(), np.cumsum([0, *(len(each) for each in join.values)])
    shares, scaled, rates = np.empty(ends[-1]), np.empty(ends[-1]), np.empty(ends[-1])
    stays = np.ones(ends[-1], dtype=np.bool_)
    for variable, link in enumerate(shape.classes):
        values, at = join.values[variable], slice(ends[variable], ends[variable + 1])
        share = messages.met(variable) * messages.factors[variable] / (total or 1.0)
        shares[at] = share[: len(values)]
        new = np.maximum(rosters[link].rates_of_held(values), HASH_STEP)
        rates[at] = join.probabilities[variable][: len(values)]
        scaled[at] = rates[at] / new
        rosters[link].drop_unfollowed(values, stays[at])
    messages.forget()
    read = [k for k, mine in enumerate(messages.relations) if not mine.only_decides]
    known = np.zeros((len(read), ends[-1]))
    heaviest = [0.0] * len(messages.relations)
    for relation, row in zip(read, known, strict=True):
        total_rows = _add_relation_shares(messages, relation, np.split(row, ends[1:-1]))
        heaviest[relation] = float((row * rates * ~stays).max(initial=0.0)) * total_rows
    gone = tuple(heaviest) if any(heaviest) else ()
    del join, messages  # the next step needs as much memory again
    if total == 0.0:
        shares = _expected_shares(known, ends)
    left = 1.0
    for first, last in pairwise(ends.tolist()):
        kept = stays[first:last] * scaled[first:last]
        left *= max(1.0 + float(shares[first:last] @ (kept - 1.0)), _LEAST_LEFT)
    if total == 0.0:
        return Record(left=left, heaviest=gone)
    terms = _residuals(shares, known, np.maximum(scaled - 1.0, 0.0, out=scaled))
    return Record(float(terms.sum()), float((terms**2).sum()), left, gone)


def _expected_shares(known: np.ndarray, ends: np.ndarray) -> FloatArray:
    """Return what each value is expected to add to a join with a relation that has no rows yet, link by link.

    Relations without rows are assumed to be like those that have some. known: what values add to each relation.
    """
    shares = np.zeros(ends[-1])
    for first, last in pairwise(ends.tolist()):
        there = [row[first:last] for row in known if row[first:last].any()]
        if there:
            # deletes may come before their rows: a value with a negative number of rows will have rows
            product = np.abs(np.prod(there, axis=0)) ** (len(known) / len(there))
            shares[first:last] = product / (float(product.sum()) or 1.0)
    return shares


def _add_relation_shares(messages: Messages, relation: int, shares: Sequence[FloatArray]) -> float:
    """Write, link by link, each value's share of the rows of a relation, and return the number of these rows."""
    mine = messages.relations[relation]
    scaled = messages.scaled_weights(relation)
    total = float(scaled.sum()) or 1.0
    for variable, places in zip(mine.variables, mine.places, strict=True):
        held = added(scaled, places, messages.sizes[variable])
        np.divide(held[: len(shares[variable])], total, out=shares[variable])
    return total


def _residuals(shares: FloatArray, known: np.ndarray, weights: FloatArray) -> FloatArray:
    """Return the weighted squares of the residuals of shares after a regression on what is known."""
    used = [float((weights * each**2).sum()) > 0.0 for each in known]
    if any(used):
        z = known if all(used) else known[used]
        weighted = z * weights
        gram = times(weighted, z)
        few = np.diag(gram) ** 2 / np.array([((each**2 * weights) ** 2).sum() for each in z])
        gram[np.diag_indices_from(gram)] *= (
            1.0 + 1.0 / few
        )  # as answers are calibrated: see `answer.joins.calibration`
        slopes = np.linalg.pinv(gram, hermitian=True) @ times(weighted, shares)
        del weighted
        for at in chunks(len(shares)):
            shares[at] -= mixed(slopes, z[:, at])
    return np.asarray(weights * shares**2)


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

    def __init__(self, link: int, roster: Roster, values: np.ndarray, costs: FloatArray) -> None:
        self.link = link
        self.roster = roster
        self.values = values
        self.costs = costs
        self.squares = np.zeros(len(values))
        self.worth = np.zeros(len(values))
        self.typical = 0.0

    @property
    def hashes(self) -> FloatArray:
        """The hash of each value."""
        return self.roster.hashes(self.values)

    @property
    def probabilities(self) -> FloatArray:
        """The inclusion probability of each value, before the reduction."""
        return self.roster.rates_of_held(self.values)

    @classmethod
    def of(cls, link: int, roster: Roster, held: Sequence[Dictionary]) -> "_Class":
        """Return the class with the bytes of the elements that hold each value."""
        parts = [(d, key) for d in held for key, own in enumerate(d.spec.classes) if own == link]
        values, where = united([d.index(key)[0] for d, key in parts])
        costs = np.full(len(values), float(ENTRY_BYTES))
        for (dictionary, key), at in zip(parts, where, strict=True):
            elements = added(~dictionary.is_null(key), dictionary.index(key)[1], len(at)).astype(np.float64)
            costs[at] += elements * dictionary.element_bytes
        return cls(link, roster, values, costs)

    def add(self, values: np.ndarray, shares: FloatArray, weight: float) -> None:
        """Add the squared shares of values in an answer."""
        self.squares[places_among(self.values, values)] += weight * shares**2

    def settle(self) -> None:
        """Compute the worth of each value per byte, and the expected worth of an unknown value."""
        if len(self.values) == 0:
            return
        worth = np.sqrt(self.squares / self.costs)
        counted = np.ones(len(worth), dtype=np.bool_)
        typical = mean = 0.0
        probabilities = self.probabilities
        for _ in range(6):
            number = float((1.0 / probabilities)[counted].sum())
            squares = float((self.squares / probabilities)[counted].sum())
            costs = float((self.costs / probabilities)[counted].sum())
            typical = np.sqrt(squares / costs) if costs > 0 else 0.0
            mean = squares / number if number > 0 else 0.0
            counted = worth <= _THETA * typical
        self.typical = max(_BASE_SHARE * float(typical), 1e-300)
        plain = (worth < _OWN_ENTRY * self.typical) | (self.squares <= _MORE * mean)
        self.worth = np.where(plain, self.typical, worth)

    @property
    def times(self) -> FloatArray:
        """The factor from which on each value is followed."""
        return self.hashes / self.worth

    def lowered(self, threshold: float) -> Roster:
        """Return the roster under a factor."""
        base = min(self.roster.base, threshold * self.typical) if len(self.values) else self.roster.base
        base = base if base >= HASH_STEP else 0.0
        own = self.worth > self.typical  # few of all values: only their rates are computed
        values = self.values[own]
        wanted = np.minimum(self.probabilities[own], np.maximum(threshold * self.worth[own], base))
        followed = self.roster.hashes(values) < wanted
        return make_roster(self.roster.seed, base, values[followed], wanted[followed])


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
                there = ~dictionary.is_null(key)
                np.minimum.at(earliest, places[there], part.factors[there])
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
    factors = [1.0 / each for each in join.probabilities]
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
