"""Which keys to keep when a sample is over its budget: those that matter most to the queries, by the byte.

A value's best inclusion probability is proportional to its share in the answers over the root of its bytes
(Neyman). One factor for all links is found such that what is left fits; a value that was never seen is expected to
be worth what those present are worth, without the heaviest, and enters at the base rate that follows from that.
Elements with a NULL link join nothing there and are thinned by themselves, at one rate for each dictionary, by the
same rule. The thresholds do not depend on the hash of the value that they decide on, so that estimates stay unbiased.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from eddyline.sample.dictionary import Dictionary
from eddyline.sample.join import Join
from eddyline.sample.messages import Messages, sampled_messages
from eddyline.sample.roster import (
    ENTRY_BYTES,
    HASH_STEP,
    FloatArray,
    Roster,
    make_roster,
    probability_of,
    ranks_below,
)
from eddyline.sample.set_members import set_values
from eddyline.sample.sorting import distinct
from eddyline.sample.spec import COUNT, Quantity, Shape
from eddyline.sample.state import Record, SampleState
from eddyline.sample.sums import mixed, times

FILL = 0.9
"""A reduction brings the bytes down to this part of the budget."""
_THETA = 3.0
"""Values worth more than so many times the typical one do not count towards what an unknown value is worth."""
_BASE_SHARE = 0.7
_OWN_ENTRY = 1.5
"""A value gets an entry of its own if it is worth so many times more than an unknown one ..."""
_MORE = 2.0
"""... and if its square in the answers is so many times the mean: being cheaper alone does not pay for an entry."""
_RAISED = 0.5
_RATIO_SHARE = 0.3
_OUTSIDE, _MANY = 0.1, 0.2
_UNPLANNED = 0.1
"""What elements with a NULL link are worth at least, for ad hoc queries: this part of their share of the rows."""


def reduced(panes: Sequence[SampleState], budget: int) -> list[SampleState]:
    """Return states of one roster (the panes of a window, or one state) that fit a budget together."""
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
    records = _records(total, rosters)
    return [replace(pane.under(rosters), records=records) for pane in panes]


def _records(total: SampleState, rosters: Sequence[Roster]) -> dict[str, Record]:
    """Return the records of all queries after a reduction to some rosters."""
    found = dict(total.records)
    for shape in total.spec.shapes:
        cost = _cost(Join(total, shape), rosters)
        if cost.variance > 0.0:
            found[shape.name] = found.get(shape.name, Record()) + cost
    return found


def _cost(join: Join, rosters: Sequence[Roster]) -> Record:
    """Return what a reduction adds to the record of a query.

    Answers are corrected by the exact totals of their relations, so that only what a key adds to the answer beyond what
    it adds to these counts: the residual of a regression, in which each key weighs as much as the reduction costs.
    """
    shape = join.shape
    if shape.kind == "set" or not shape.classes:
        return Record()
    messages = sampled_messages(join, shape.quantities.get("count", join.first))
    total, sizes = messages.total(), [len(each) for each in join.values]
    if total == 0.0:
        return Record()
    shares, lost = list[FloatArray](), list[FloatArray]()
    for variable, link in enumerate(shape.classes):
        values = join.values[variable]
        added = messages.met(variable) * messages.factors[variable] / total
        new = np.maximum(rosters[link].rates_of_held(values), HASH_STEP)
        shares.append(added[: len(values)])
        lost.append(np.maximum(join.probabilities[variable][: len(values)] / new - 1.0, 0.0))
    known = [
        _relation_shares(messages, k, sizes)
        for k, mine in enumerate(messages.relations)
        if not mine.only_decides
    ]
    terms = _residuals(np.concatenate(shares), known, np.concatenate(lost))
    return Record(float(terms.sum()), float((terms**2).sum()))


def _relation_shares(messages: Messages, relation: int, sizes: Sequence[int]) -> FloatArray:
    """Return what the values of all links add to the rows of a relation, over all of them."""
    mine = messages.relations[relation]
    scaled = mine.weights.astype(np.float64)
    for variable, places in zip(mine.variables, mine.places, strict=True):
        scaled = scaled * messages.factors[variable][places]
    made = [np.zeros(size) for size in sizes]
    for variable, places in zip(mine.variables, mine.places, strict=True):
        held = np.bincount(places, weights=scaled, minlength=messages.sizes[variable])
        made[variable] = held[: sizes[variable]] / (float(scaled.sum()) or 1.0)
    return np.concatenate(made)


def _residuals(shares: FloatArray, known: Sequence[FloatArray], weights: FloatArray) -> FloatArray:
    """Return the weighted squares of what is left of shares when what is known is taken off by regression."""
    used = [each for each in known if (weights * each**2).sum() > 0.0]
    if used:
        z = np.stack(used)
        gram = times(z * weights, z)
        few = np.diag(gram) ** 2 / (((z**2) * weights) ** 2).sum(axis=1)
        gram[np.diag_indices_from(gram)] *= (
            1.0 + 1.0 / few
        )  # as answers are calibrated: see `answer.joins.calibration`
        slopes = np.linalg.pinv(gram, hermitian=True) @ times(z * weights, shares)
        shares = shares - mixed(slopes, z)
    return np.asarray(weights * shares**2)


class _Nulls:
    """The elements of one dictionary that have a NULL link, and what they are worth to the queries together."""

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
        """What an element is worth by the byte, on the average."""
        return max(float(np.sqrt((self.squares + self.least) / self.bytes)), 1e-300) if self.bytes else np.inf

    def lowered(self, threshold: float) -> Roster:
        """Return the roster under a factor, its rate one that a rank stands for."""
        if not self.bytes:
            return self.roster
        wanted = min(self.roster.base, threshold * self.worth)
        rank = ranks_below(np.array([wanted]))
        rate = float(probability_of(rank)[0])
        return replace(self.roster, base=rate if rate <= wanted else 0.0)


class _Class:
    """The values of one link class that are held, what they cost and what they are worth."""

    def __init__(self, link: int, roster: Roster, values: np.ndarray, costs: FloatArray) -> None:
        self.link = link
        self.roster = roster
        self.values = values
        self.costs = costs
        self.squares = np.zeros(len(values))
        self.hashes = roster.hashes(values)
        self.probabilities = roster.rates_of_held(values)
        self.worth = np.zeros(len(values))
        self.typical = 0.0

    @classmethod
    def of(cls, link: int, roster: Roster, held: Sequence[Dictionary]) -> "_Class":
        """Return the class with the bytes of the elements that hold each value."""
        parts = [(d, key) for d in held for key, own in enumerate(d.spec.classes) if own == link]
        found = [d.index(key)[0] for d, key in parts]
        values = distinct(found)
        costs = np.full(len(values), float(ENTRY_BYTES))
        for dictionary, key in parts:
            own, places = dictionary.index(key)
            elements = np.bincount(places[~dictionary.is_null(key)], minlength=len(own)).astype(np.float64)
            costs[np.searchsorted(values, own)] += elements * dictionary.element_bytes
        return cls(link, roster, values, costs)

    def add(self, values: np.ndarray, shares: FloatArray, weight: float) -> None:
        """Add the squared shares of values in an answer."""
        self.squares[np.searchsorted(self.values, values)] += weight * shares**2

    def settle(self) -> None:
        """Work out what each value is worth by the byte, and what an unknown value is expected to be."""
        if len(self.values) == 0:
            return
        worth = np.sqrt(self.squares / self.costs)
        counted = np.ones(len(worth), dtype=np.bool_)
        typical = mean = 0.0
        for _ in range(6):
            number = float((1.0 / self.probabilities)[counted].sum())
            squares = float((self.squares / self.probabilities)[counted].sum())
            costs = float((self.costs / self.probabilities)[counted].sum())
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
        own = self.worth > self.typical
        wanted = np.minimum(self.probabilities, np.maximum(threshold * self.worth, base))
        followed = own & (self.hashes < wanted)
        return make_roster(self.roster.seed, base, self.values[followed], wanted[followed])


def _threshold(
    held: Sequence[tuple[int, Dictionary]], classes: Sequence[_Class], nulls: Sequence[_Nulls], budget: float
) -> float:
    """Return the largest factor under which the elements that stay, and the rosters, fit the budget.

    held: the dictionaries of all panes, each with its place among those of its pane.
    """
    times: list[FloatArray] = []
    sizes: list[FloatArray] = []
    first = [np.full(len(each.values), np.inf) for each in classes]
    for place, dictionary in held:
        if len(dictionary) == 0:
            continue
        latest = np.zeros(len(dictionary))
        alone = dictionary.null_links()
        if alone.any():
            latest[alone] = nulls[place].roster.hashes(dictionary.codes(alone)) / nulls[place].worth
        linked = [(key, link) for key, link in enumerate(dictionary.spec.classes) if link >= 0]
        for key, link in linked:
            own, places = dictionary.index(key)
            at = classes[link].times[np.searchsorted(classes[link].values, own)][places]
            latest = np.maximum(latest, np.where(dictionary.is_null(key), 0.0, at))
        for key, link in linked:
            values, places = dictionary.index(key)
            earliest = np.full(len(values), np.inf)
            np.minimum.at(earliest, places, np.where(dictionary.is_null(key), np.inf, latest))
            where = np.searchsorted(classes[link].values, values)
            first[link][where] = np.minimum(first[link][where], earliest)
        times.append(latest)
        sizes.append(np.full(len(dictionary), float(dictionary.element_bytes)))
    for each, earliest in zip(classes, first, strict=True):
        entered = each.worth > each.typical
        times.append(earliest[entered])
        sizes.append(np.full(int(entered.sum()), float(ENTRY_BYTES)))
    when, bytes_ = np.concatenate(times), np.concatenate(sizes)
    if len(when) == 0:
        return 0.0
    order = np.argsort(when, kind="stable")
    rosters = 8.0 * (len(classes) + len(nulls))
    fits = int(np.searchsorted(np.cumsum(bytes_[order]), budget - rosters, side="right"))
    return float(when[order][min(fits, len(order) - 1)])


def _raise(message: FloatArray) -> FloatArray:
    """Return a message raised by half its mean, so that a value without a partner yet is not worthless."""
    size = np.abs(message)
    sent = size > 0
    return size + _RAISED * float(size[sent].mean()) if sent.any() else np.ones(len(message))


def _raised_messages(join: Join, quantity: Quantity) -> Messages:
    relations = [r.weighing(np.abs(r.weights)) for r in join.relations(quantity)]
    return Messages(relations, join, [1.0 / each for each in join.probabilities], _raise)


def _add_importance(shape: Shape, join: Join, classes: Sequence[_Class], nulls: Sequence[_Nulls]) -> None:
    """Add to every class the squared share of each of its values in the answer of one query, and of NULLs."""
    for variable, link in enumerate(shape.classes):
        shares = _shares(shape, join, variable)
        if shares is not None:
            values = join.values[variable]
            classes[link].add(values, shares[: len(values)], shape.weight)  # behind them stands NULL
    if shape.kind != "set" and any(join.null_places):
        _add_null_importance(shape, join, nulls)


def _add_null_importance(shape: Shape, join: Join, nulls: Sequence[_Nulls]) -> None:
    """Add what elements with a NULL link are worth to a query in which they count."""
    messages = _raised_messages(join, join.first)
    total = float(messages.met(messages.root) @ messages.factors[messages.root])
    for relation, node in zip(range(len(messages.relations)), join.first.nodes, strict=True):
        mine, own = messages.relations[relation], nulls[join.view(node).dictionary]
        rows = np.abs(mine.weights) * own.there
        if total <= 0 or not rows.any():
            continue
        for variable, places in zip(mine.variables, mine.places, strict=True):
            rows = rows * messages.passed(variable, relation)[places]
        rate = own.roster.base if own.roster.base > 0 else 1.0
        own.add(rows * rate / total, shape.weight)


def _shares(shape: Shape, join: Join, variable: int) -> FloatArray | None:
    if len(join.values[variable]) == 0:
        return None
    if shape.kind == "set":
        return _normalized(_set_worth(join), join, variable)
    quantities = list(shape.quantities.values())
    first = _normalized(_raised_messages(join, quantities[0]).met(variable), join, variable)
    if shape.kind == "join":
        return first
    other = _normalized(_raised_messages(join, quantities[1]).met(variable), join, variable)
    return np.abs(first - other) + _RATIO_SHARE * first


def _set_worth(join: Join) -> FloatArray:
    """Return what each value is worth to a set expression: those outside less, where few are inside.

    Where many are, all are worth the same: rates of their own would take more memory than they save.
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
    """Return states that fit a budget together; nothing changes where they do already."""
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
