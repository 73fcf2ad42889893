"""Which keys to keep when a sample is over its budget: those that matter most to the queries, per byte."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from eddyline.kernels.reduction import factors_of, gather_light, least_at, raise_to
from eddyline.sample.cost import joins_of, kind_of, records_after
from eddyline.sample.dictionary import Dictionary
from eddyline.sample.join import Join
from eddyline.sample.messages import Messages, added, set_values
from eddyline.sample.packing import IntArray, chunks, places_among, summed, united
from eddyline.sample.spec import COUNT, Quantity, Shape
from eddyline.sample.state import (
    ENTRY_BYTES,
    HASH_STEP,
    FloatArray,
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
    _add_all_importance(total, classes, nulls)
    _settle(classes)
    threshold = _threshold(held, classes, nulls, FILL * budget)
    rosters = (*(each.lowered(threshold) for each in classes), *(each.lowered(threshold) for each in nulls))
    del classes, nulls
    records = records_after(total, rosters)
    for _, dictionary in held:
        dictionary.forget_indexes()
    return [replace(pane.under(rosters), records=records) for pane in panes]


class _Nulls:
    """The elements of one dictionary that have a NULL link, and their total worth to the queries."""

    def __init__(self, roster: Roster, dictionary: Dictionary) -> None:
        self.roster = roster
        self.there = dictionary.null_links()
        self.bytes = float(dictionary.element_bytes) * int(self.there.sum())
        self.least = self.squares = 0.0
        if self.there.any():
            counts = np.abs(dictionary.total(COUNT)).astype(np.float64)
            shares = counts[self.there] / max(float(counts.sum()), 1.0)
            self.least = float(((_UNPLANNED * shares) ** 2).sum())

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
        self.values = united([d.values(key) for d, key in self.parts])[0]
        self.squares = np.zeros(len(self.values))
        self.worth = np.empty(0)
        self.typical = 0.0

    @property
    def costs(self) -> FloatArray:
        """The bytes of each value's own entry and of the elements that hold it."""
        costs = np.full(len(self.values), float(ENTRY_BYTES))
        for dictionary, key in self.parts:
            where = places_among(self.values, dictionary.values(key))
            elements = added(~dictionary.is_null(key), dictionary.places(key), len(where))
            for at in chunks(len(where)):
                costs[where[at]] += elements[at] * dictionary.element_bytes
        return costs

    def add(self, values: np.ndarray, shares: FloatArray, weight: float) -> None:
        """Add the squared shares of values in an answer."""
        # all of them if there are as many: values of an answer are held
        places = None if len(values) == len(self.values) else places_among(self.values, values)
        for at in chunks(len(values)):
            squares = shares[at] ** 2
            squares *= weight
            self.squares[at if places is None else places[at]] += squares

    def settle(self) -> None:
        """Compute the worth of each value per byte, and the expected worth of an unknown value.

        After that only the worth is held.
        """
        worth = self.squares / (costs := self.costs)
        np.sqrt(worth, out=worth)
        most, typical, mean = np.inf, 0.0, 0.0
        rates = np.empty(0) if self.roster.follows_all else self.roster.rates_of_held(self.values)
        space = np.empty(len(worth))
        for _ in range(6 if len(worth) else 0):
            number, squares, bytes_ = (
                float(space[: gather_light(column, rates, worth, most, space)].sum())
                for column in (np.empty(0), self.squares, costs)
            )
            typical = float(np.sqrt(squares / bytes_)) if bytes_ > 0 else 0.0
            mean = squares / number if number > 0 else 0.0
            if most == (most := _THETA * typical):
                break  # the same values count as before
        self.typical = max(_BASE_SHARE * typical, 1e-300)
        for at in chunks(len(worth)):
            alike = (worth[at] < _OWN_ENTRY * self.typical) | (self.squares[at] <= _MORE * mean)
            worth[at][alike] = self.typical
        self.worth, self.squares = worth, np.empty(0)

    def times(self, values: IntArray) -> FloatArray:
        """Return the factor from which on each of some values is followed."""
        times = np.empty(len(values))
        factors_of(values, self.values, self.worth, np.uint64(self.roster.seed), times)
        return times

    def lowered(self, threshold: float) -> Roster:
        """Return the roster under a factor."""
        base = min(self.roster.base, threshold * self.typical) if len(self.values) else self.roster.base
        base = base if base >= HASH_STEP else 0.0
        own = self.worth > self.typical  # few of all values: only their rates are computed
        values = self.values[own]
        rates = self.roster.rates_of_held(values)  # before the reduction
        wanted = np.minimum(rates, np.maximum(threshold * self.worth[own], base))
        followed = self.roster.hashes(values) < wanted
        return make_roster(self.roster.seed, base, values[followed], wanted[followed])


def _threshold(
    held: Sequence[tuple[int, Dictionary]], classes: Sequence[_Class], nulls: Sequence[_Nulls], budget: float
) -> float:
    """Return the largest factor under which the elements that stay, and the rosters, fit the budget.

    held: the dictionaries of all panes, each with its index among those of its pane.
    """
    own = [np.flatnonzero(each.worth > each.typical) for each in classes]  # few of all values
    first = [np.full(len(each), np.inf) for each in own]

    def entries(counted: Sequence[tuple[int, Dictionary]]) -> Iterator[Part]:
        for place, dictionary in counted:
            yield Part(_latest(dictionary, nulls[place], classes), float(dictionary.element_bytes))
        for earliest in first:
            yield Part(earliest, float(ENTRY_BYTES))

    fitting, counted = Fitting(), [(place, d) for place, d in held if len(d)]
    for (_, dictionary), part in zip(counted, entries(counted), strict=False):
        fitting.count(part)
        for key, link in enumerate(dictionary.spec.classes):
            if link >= 0:
                values = dictionary.values(key)
                earliest = np.full(len(values), np.inf)
                least_at(part.factors, dictionary.is_null(key), dictionary.places(key), earliest)
                wanted = classes[link].values[own[link]]
                at = np.minimum(np.searchsorted(values, wanted), len(values) - 1)
                there = values[at] == wanted
                first[link][there] = np.minimum(first[link][there], earliest[at[there]])
    for part in entries([]):
        fitting.count(part)
    return fitting.factor(entries(counted), budget - 8.0 * (len(classes) + len(nulls)))


def _latest(dictionary: Dictionary, nulls: _Nulls, classes: Sequence[_Class]) -> FloatArray:
    """Return the factor from which on each element stays: the largest of its values, or its own if one is NULL."""
    latest, alone = np.zeros(len(dictionary)), dictionary.null_links()
    if alone.any():
        latest[alone] = nulls.roster.hashes(dictionary.codes(alone)) / nulls.worth
    for key, link in enumerate(dictionary.spec.classes):
        if link >= 0:
            times = classes[link].times(dictionary.values(key))
            raise_to(times, dictionary.is_null(key), dictionary.places(key), latest)
    return latest


def _raise(message: FloatArray) -> FloatArray:
    """Return a message raised by half its mean, so that a value without a partner yet is not worthless."""
    size = np.abs(message)
    there = size > 0
    sent = size if there.all() else size[there]
    if len(sent) == 0:
        return np.ones(len(message))
    size += _RAISED * float(sent.mean())
    return size


def _raised_messages(join: Join, quantity: Quantity) -> Messages:
    factors = [each if np.all(each == 1.0) else 1.0 / each for each in join.probabilities]
    return Messages(join.relations(quantity), join, factors, _raise, absolute=True)


def _settle(classes: Sequence[_Class]) -> None:
    """Compute the worth of all values of all classes."""
    for each in classes:
        each.settle()


def _add_all_importance(total: SampleState, classes: Sequence[_Class], nulls: Sequence[_Nulls]) -> None:
    """Add what every query says of the worth of values and of NULLs."""

    def kind(join: Join) -> Hashable:
        shape = join.shape
        apart = (
            shape.name if shape.repeats_classes else ""
        )  # rounding errors depend on the order of its links
        return shape.kind, shape.expression, apart, kind_of(join, _read(shape) or [join.first])

    for join, shapes in joins_of(total, kind):
        join.hold([classes[link].values for link in join.shape.classes])
        _add_importance(join, shapes, classes)
        if join.shape.kind not in ("set", "pairs") and any(join.null_places):
            for shape in shapes:
                _add_null_importance(shape, join, nulls)


def _read(shape: Shape) -> list[Quantity]:
    """Return the quantities of a query that decide what values are worth to it."""
    return list(shape.quantities.values())[: {"set": 0, "pairs": 0, "join": 1}.get(shape.kind, 2)]


def _add_importance(join: Join, shapes: Sequence[Shape], classes: Sequence[_Class]) -> None:
    """Add to every class the squared share of each of its values in the answer of each of some equal queries."""
    messages = [_raised_messages(join, each) for each in _read(join.shape)]
    for variable, link in enumerate(join.shape.classes):
        shares = _shares(join.shape, join, messages, variable)
        for each in messages:
            each.forget_last(variable)
        if shares is None:
            continue
        for shape in shapes:
            values = join.values[variable]
            weight = shape.weight * (_PAIRS_WEIGHT if shape.kind == "pairs" else 1.0)
            classes[link].add(values, shares[: len(values)], weight)  # NULL comes after them


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
    first = _normalized(messages[0].own_met(variable), join, variable)
    if shape.kind == "join":
        return first
    other = _normalized(messages[1].own_met(variable), join, variable)
    np.abs(np.subtract(first, other, out=other), out=other)
    first *= _RATIO_SHARE
    other += first
    return other


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
    """Return what each value adds to the answer, relative to the answer, in place."""
    rates = join.probabilities[variable]
    total = summed(len(met), lambda at: met[at] / rates[at])
    if total > 0:
        met /= total
    else:
        met[:] = 0.0
    return met


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
