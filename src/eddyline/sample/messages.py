"""Joins of dictionaries: sums of products over a tree of links, without making the joined rows."""

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np

from eddyline.kernels.elements import add_at
from eddyline.sample.join import Join, Relation, Turn, turned
from eddyline.sample.packing import FEW, BoolArray, chunks, dot
from eddyline.sample.spec import COUNT, Quantity
from eddyline.sample.state import FloatArray

# A relation sends to each of its links, for every value there, the sum of its elements' weights times what
# reaches them through their other links; a link passes on the product of what the other relations sent,
# times 1/pi of the value if values are sampled. The product of all messages at a value of a link is what
# joins through it.


_WHOLE = 2.0**62
_WHOLE_FLOAT = 2.0**53

Raise = Callable[[FloatArray], FloatArray]


class Messages:
    """What the relations of a quantity send to its links, and the links to its relations.

    raised: how each message is transformed. absolute: weights count in absolute value. Weights are widened to the
    number type of the factors, a chunk of elements at a time.
    """

    def __init__(
        self,
        relations: Sequence[Relation],
        join: Join,
        factors: Sequence[np.ndarray],
        raised: Raise | None = None,
        *,
        absolute: bool = False,
    ) -> None:
        self.relations = relations
        self.kind = np.result_type(np.int64, *(each.weights for each in relations), *factors)
        self.sizes = join.sizes
        self.values = [len(each) for each in join.values]
        self.root = join.root
        self.factors = factors
        self.raised = raised
        self.absolute = absolute
        self._own: dict[tuple[int, int], np.ndarray] = {}
        self._up: dict[tuple[int, int], np.ndarray] = {}
        self._down: dict[tuple[int, int], np.ndarray] = {}

    def sent(self, relation: int, variable: int) -> np.ndarray:
        """Return what a relation sends to the places of a link, transformed by its role there."""
        key = (relation, variable)
        if key not in self._up:
            turn = self.relations[relation].turn(variable)
            others = None
            if turn is Turn.FULL:
                others = np.logical_or.reduce(
                    [self.own(other, variable) != 0 for other in self.members(variable) if other != relation]
                )
            total = turned(self.own(relation, variable), turn, self.values[variable], others)
            self._up[key] = total if self.raised is None else self.raised(total)
            if self.raised is not None and turn is not Turn.FULL:
                del self._own[key]  # another relation of a FULL JOIN requests it again
        return self._up[key]

    def own(self, relation: int, variable: int) -> np.ndarray:
        """Return what a relation holds at the places of a link: the sums of its weights times what reaches them."""
        key = (relation, variable)
        if key not in self._own:
            mine = self.relations[relation]
            others = [
                (self.passed(other, relation), places)
                for other, places in zip(mine.variables, mine.places, strict=True)
                if other != variable
            ]
            totals = np.zeros(self.sizes[variable], dtype=self.kind)
            places = mine.places[mine.variables.index(variable)]
            for at in chunks(len(places)):
                weights = self._widened(mine.weights[at])
                for passed, reached in others:
                    weights = weights * passed[reached[at]]
                accumulate(weights, places[at], totals)
            self._own[key] = totals
        return self._own[key]

    def _widened(self, weights: np.ndarray) -> np.ndarray:
        wide = weights.astype(self.kind, copy=False)
        return np.abs(wide) if self.absolute else wide

    def members(self, variable: int) -> list[int]:
        """Return the relations that meet at a link."""
        return [i for i, each in enumerate(self.relations) if variable in each.variables]

    @property
    def most_members(self) -> int:
        """The number of relations at the link where most meet."""
        return max((len(self.members(variable)) for variable in range(len(self.sizes))), default=0)

    def passed(self, variable: int, relation: int) -> np.ndarray:
        """Return what a link passes on to a relation: the product of what the others sent, scaled up."""
        key = (variable, relation)
        if key in self._down:
            return self._down[key]
        product, members = self.factors[variable], self.members(variable)
        for other in members:
            if other != relation:
                product = product * self.sent(other, variable)
        if len(members) > 2:  # one product of two columns takes less time than their memory
            self._down[key] = product
        return product

    def met(self, variable: int) -> np.ndarray:
        """Return what joins through each value of a link, before the value's own scaling."""
        members = self.members(variable)
        product = self.sent(members[0], variable)
        for other in members[1:]:
            product = product * self.sent(other, variable)
        return product

    def own_met(self, variable: int) -> np.ndarray:
        """Return the same as an array of its own, which may be changed."""
        met = self.met(variable)
        return met.copy() if len(self.members(variable)) == 1 else met

    def forget_last(self, variable: int) -> None:
        """Drop what was sent to a link and what no other link needs."""
        members = self.members(variable)
        for relation in members:
            if all(len(self.relations[other].variables) == 1 for other in members if other != relation):
                self._up.pop((relation, variable), None)

    def forget(self) -> None:
        """Drop what was sent so far: it is computed again when requested."""
        for held in (self._own, self._up, self._down):
            held.clear()

    def scaled_weights(self, relation: int, at: slice = slice(None)) -> FloatArray:
        """Return the weight of each element of a relation (at: of some), times 1/pi for each value that it holds."""
        mine = self.relations[relation]
        scaled = mine.weights[at].astype(np.float64)
        for variable, places in zip(mine.variables, mine.places, strict=True):
            held = places[at]
            for some in chunks(len(scaled)):
                scaled[some] *= self.factors[variable][held[some]]
        return scaled

    def total(self) -> float:
        """Return the sum over the join."""
        if not self.sizes:
            return float(self._widened(self.relations[0].weights).sum())
        return dot(self.met(self.root), self.factors[self.root])

    @property
    def largest(self) -> float:
        """The largest absolute value that any relation sent so far."""
        return max((float(np.abs(each).max(initial=0.0)) for each in self._up.values()), default=0.0)


def sampled_messages(join: Join, quantity: Quantity) -> Messages:
    """Return the messages of a quantity in which each sampled value counts 1/pi times."""
    factors = [each if np.all(each == 1.0) else 1.0 / each for each in join.probabilities]
    return Messages(join.relations(quantity), join, factors)


def exact_total(join: Join, quantity: Quantity) -> int:
    """Return the sum over the join of everything that is held, as an integer of any size.

    It is in units of 2^lowest of the quantity. Below 2^53 floats are exact, and fastest; up to 2^62 machine
    integers are.
    """
    if len(quantity.digits) > 1:
        return sum(exact_total(join, part) << exponent for part, exponent in join.digits(quantity))
    relations = join.whole_relations(quantity)
    bound, linear = bound_of(join, relations)
    if bound < _WHOLE_FLOAT:
        if linear and all(bool(np.all(r.weights >= 0)) for r in relations):
            return int(bound)
        return int(_with_ones(join, relations, np.float64).total())
    kind = np.int64 if bound < _WHOLE else np.object_
    if not join.shape.classes:
        return int(relations[0].weights.sum())
    messages = _with_ones(join, relations, kind)
    return int(messages.met(messages.root).sum())


def _with_ones(join: Join, relations: Sequence[Relation], kind: type, *, absolute: bool = False) -> Messages:
    """Return messages of some number type in which every place counts once."""
    ones: list[np.ndarray] = [np.broadcast_to(np.ones(1, dtype=kind), size) for size in join.sizes]
    return Messages(relations, join, ones, absolute=absolute)


def bound_of(join: Join, relations: Sequence[Relation]) -> tuple[float, bool]:
    """Return (a bound of the sum over a join in absolute value, whether the join has only plain messages).

    If messages are compared with 0, it also bounds each message, none of which may overflow: there every side
    counts at least once.
    """
    linear = not any(r.turns for r in relations)
    once = [Relation(r.weights, r.variables, r.places, _at_least_once(r.turns)) for r in relations]
    messages = _with_ones(join, once, np.float64, absolute=True)
    bound = messages.total()
    return (bound if linear else max(bound, messages.largest)), linear


def _at_least_once(turns: tuple[Turn, ...]) -> tuple[Turn, ...]:
    return tuple(turn if turn is Turn.PLAIN else Turn.OUTER for turn in turns)


def added(weights: np.ndarray, places: np.ndarray, size: int) -> np.ndarray:
    """Return the sums of weights by place, in 64-bit integers or in the weights' own number type."""
    totals = np.zeros(size, dtype=np.result_type(np.int64, weights))
    for at in chunks(len(places)):
        accumulate(weights[at].astype(totals.dtype), places[at], totals)
    return totals


def accumulate(weights: np.ndarray, places: np.ndarray, totals: np.ndarray) -> None:
    """Add weights to the totals at their places, one after the other."""
    if len(weights) < FEW or weights.dtype == np.object_:
        np.add.at(totals, places, weights)
    else:
        add_at(weights, places, totals)


# What a sampled join counts too often if two of its links that share no relation hold the same value.
#
# In a path such as e1-e2-e3-e4 over one table of edges, the first and the third link are of one class.
# If both hold the value u, its inclusion is one event of probability pi(u), but the sum-product scales
# such rows up by 1/pi(u) twice. Links that share a relation are corrected element by element in
# `Join.relations`; this module corrects the pairs of links at distance two, which share a neighboring
# link.
#
# This is approximate: each pair is corrected separately, so rows in which several pairs coincide at once are
# correct only to first order; links at a distance of three or more are not corrected.


def coinciding_excess(join: Join, messages: Messages) -> float:
    """Return the correction of a sampled total that scales coinciding values up once (mostly negative)."""
    return float(sum(float(excess.sum()) for _, excess in coinciding_pairs(join, messages)))


def coinciding_pairs(join: Join, messages: Messages) -> list[tuple[int, FloatArray]]:
    """Return for each pair of links at distance two (one of its links, the correction for each value of it)."""
    found = []
    for middle in range(len(join.shape.classes)):
        for left, right in combinations(messages.members(middle), 2):
            for first in messages.relations[left].variables:
                for second in messages.relations[right].variables:
                    if middle in (first, second) or first == second:
                        continue
                    if join.shape.classes[first] == join.shape.classes[second]:
                        found.append((first, _pair(join, messages, (left, first), middle, (right, second))))
    return found


def _pair(
    join: Join, messages: Messages, left: tuple[int, int], middle: int, right: tuple[int, int]
) -> FloatArray:
    """Return for each value u of the first link (pi(u) - 1) times the rows that hold u in both links."""
    (one, first), (other, second) = left, right
    values = join.values[first]
    both, at, there = np.intersect1d(values, join.values[second], assume_unique=True, return_indices=True)
    excess = np.zeros(join.sizes[first])
    probability = join.probabilities[first][at]
    if len(both) == 0 or bool(np.all(probability >= 1.0)):
        return excess
    ours = _by_two_keys(messages, one, (first, middle), at)
    theirs = _by_two_keys(messages, other, (second, middle), there)
    keys, i, j = np.intersect1d(ours[0], theirs[0], assume_unique=True, return_indices=True)
    value, place = np.divmod(keys, messages.sizes[middle])
    between = messages.factors[middle].copy()
    for third in messages.members(middle):
        if third not in (one, other):
            between *= messages.sent(third, middle)
    joined = ours[1][i] * between[place] * theirs[1][j]
    if join.shape.classes[middle] == join.shape.classes[first]:
        middle_values = np.append(join.values[middle], 0)[np.minimum(place, len(join.values[middle]))]
        alike = (both[value] == middle_values) & (place < len(join.values[middle]))
        joined[alike] = 0.0  # three equal links: already correct
    excess[at] = np.bincount(value, weights=joined, minlength=len(both)) * (probability - 1.0)
    return excess


def _by_two_keys(
    messages: Messages, relation: int, links: tuple[int, int], chosen: np.ndarray
) -> tuple[np.ndarray, FloatArray]:
    """Return (pairs of a chosen value of the outer link and a value of the middle one, what a relation adds there).

    A relation adds its elements' weights times what reaches them, except through the middle link.
    """
    outer, middle = links
    mine = messages.relations[relation]
    weights = mine.weights.astype(np.float64)
    for variable, places in zip(mine.variables, mine.places, strict=True):
        if variable != middle:
            weights = weights * messages.passed(variable, relation)[places]
    number = np.full(messages.sizes[outer], -1, dtype=np.int64)
    number[chosen] = np.arange(len(chosen))
    value = number[mine.places[mine.variables.index(outer)]]
    kept = (value >= 0) & (weights != 0)
    pairs = value[kept] * messages.sizes[middle] + mine.places[mine.variables.index(middle)][kept]
    keys, where = np.unique(pairs, return_inverse=True)
    return keys, np.bincount(where, weights=weights[kept], minlength=len(keys)).astype(np.float64)


# Set queries over dictionaries: which values their members hold, and which satisfy the expression.


def set_members(join: Join) -> list[BoolArray]:
    """Return for each member of a set query which values of its variable it holds: net count above 0."""
    present = []
    for relation in join.whole_relations(join.first):
        counts = added(relation.weights, relation.places[0], len(join.values[0]))
        present.append(counts > 0)
    return present


def set_values(join: Join) -> BoolArray:
    """Return which values satisfy the expression of a set query."""
    return _evaluated(join, set_members(join))


def null_in_set(join: Join) -> tuple[bool, bool]:
    """Return whether NULL satisfies the expression of a set query, and whether that is certain."""
    held, certain = list[BoolArray](), True
    for node in join.first.nodes:
        view, dictionary = join.view(node), join.dictionary(node)
        counted = dictionary.is_null(view.keys[0]) & view.null_is_value
        for flag in view.flags:
            counted &= dictionary.flag(flag)
        held.append(np.array([dictionary.total(COUNT)[counted].sum() > 0]))
        certain &= not view.null_is_value or join.nulls(node).follows_all or bool(held[-1][0])
    return bool(_evaluated(join, held)[0]), certain


def _evaluated(join: Join, members: list[BoolArray]) -> BoolArray:
    """Return the expression of a set query, given in postfix order, evaluated on what its members hold."""
    stack = list[BoolArray]()
    for part in join.shape.expression:
        if isinstance(part, int):
            stack.append(members[part])
            continue
        right, left = stack.pop(), stack.pop()
        stack.append({"union": left | right, "intersect": left & right, "except": left & ~right}[part])
    return stack[0]
