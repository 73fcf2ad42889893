"""A query over the dictionaries of a state: the values of its links, its relations, and the role of each."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import numpy as np
from msgspec.structs import replace

from eddyline.kernels.doubles import as_floats
from eddyline.sample.dictionary import Dictionary
from eddyline.sample.packing import BoolArray, IntArray, united
from eddyline.sample.spec import COUNT, Node, Quantity, Shape, View
from eddyline.sample.state import FloatArray, Record, Roster, SampleState

# How a role (outer, semi or anti join) transforms a relation's message to a link.
#
# A message holds for each value of the link how often a row of the other relations meets the relation's side
# there. After the values, a link with roles has one place for each of its relations: it holds rows whose key
# is NULL, and no other relation has rows there.


class Turn(Enum):
    """How a message is transformed."""

    PLAIN = "the message itself"
    OUTER = "once where there is no match"
    FULL = "once where there is no match, but another relation"
    SEMI = "once where there is a match"
    ANTI = "once where there is no match, and not otherwise"
    ANTI_OF_VALUES = "the same, but never for NULL: NOT IN of rows without a NULL"
    NEVER = "nothing: NOT IN of rows with a NULL"


DECIDING = (Turn.SEMI, Turn.ANTI, Turn.ANTI_OF_VALUES, Turn.NEVER)
"""Turns that produce 0 or 1 from a message: it matters only whether a side has rows, not how many."""
KEEPS_NULL = ("preserved", "full")
"""Roles of relations whose rows stay if their key is NULL."""
_TURNS = {"outer": Turn.OUTER, "full": Turn.FULL, "semi": Turn.SEMI, "anti": Turn.ANTI}


def turn_of(role: str, *, has_rows: bool, has_null: bool) -> Turn:
    """Return how a role transforms messages; has_rows, has_null: of the side of a NOT IN, and its column there."""
    if role != "not in":
        return _TURNS.get(role, Turn.PLAIN)
    if has_null:
        return Turn.NEVER
    return Turn.ANTI_OF_VALUES if has_rows else Turn.ANTI


def turned(message: np.ndarray, turn: Turn, values: int, others: BoolArray | None = None) -> np.ndarray:
    """Return the transformed message.

    values: how many places are values; the others are for NULL. others: for FULL, where another relation has rows.
    """
    if turn is Turn.PLAIN:
        return message
    there = message > 0
    if turn is Turn.OUTER:
        return np.where(there, message, message.dtype.type(1) if message.dtype != object else 1)
    if turn is Turn.FULL:
        assert others is not None
        return np.where(there, message, others.astype(message.dtype))
    kept = (
        np.zeros(len(message), dtype=np.bool_)
        if turn is Turn.NEVER
        else there
        if turn is Turn.SEMI
        else ~there
    )
    if turn is Turn.ANTI_OF_VALUES:
        kept[values:] = False
    return kept.astype(message.dtype)


# The values of a query's links, and its relations by quantity.


@dataclass(frozen=True)
class Relation:
    """A relation of a join: the weight of each element, and the places of its values among those of its links.

    weights: floats, or integers as narrow as they are held, which overflow unless they are widened first. turns:
    how its message to each link is transformed, empty if all are passed on unchanged.
    """

    weights: np.ndarray
    variables: tuple[int, ...]
    places: tuple[np.ndarray, ...]
    turns: tuple[Turn, ...] = ()

    def turn(self, variable: int) -> Turn:
        """Return how its message to a link is transformed."""
        return self.turns[self.variables.index(variable)] if self.turns else Turn.PLAIN

    @property
    def only_decides(self) -> bool:
        """Whether it matters only if it has rows, not how many."""
        return any(turn in DECIDING for turn in self.turns)

    @property
    def may_be_missing(self) -> bool:
        """Whether rows of the other relations stay without it."""
        return any(turn in (Turn.OUTER, Turn.FULL) for turn in self.turns)

    def weighing(self, weights: np.ndarray) -> "Relation":
        """Return the relation with other weights."""
        return Relation(weights, self.variables, self.places, self.turns)


@dataclass(frozen=True)
class NullPlaces:
    """The places of a link for the rows of one relation whose key is NULL; dictionary: the one the relation reads.

    elements: those that have a place each, with their rate; None if they share one place and are all followed.
    """

    dictionary: int
    elements: IntArray | None
    rate: float

    def __len__(self) -> int:
        return 1 if self.elements is None else len(self.elements)

    @property
    def rates(self) -> FloatArray:
        """The inclusion probability of each place."""
        return np.full(len(self), 1.0 if self.elements is None else self.rate)


def _counts_null(node: Node) -> bool:
    """Return whether it matters to a query which rows of a relation have a NULL key."""
    return node.exact.null_is_value or any(role in KEEPS_NULL or role == "not in" for role in node.roles)


class Join:
    """A query over a state: the values of each link, their probabilities, and the relations of each quantity.

    filled: relations (by index) that have rows according to exact counters, whatever the state holds of them.
    """

    def __init__(self, state: SampleState, shape: Shape, filled: Collection[int] = ()) -> None:
        self.state = state
        self.shape = shape
        self.filled = filled
        self.first = next(iter(shape.quantities.values()))
        self._rows: dict[tuple[View, tuple[str, ...]], BoolArray] = {}
        self._whole: dict[Quantity, list[Relation]] = {}
        self._weights: dict[tuple[View, tuple[str, ...]], np.ndarray] = {}

    def only(self, quantities: Mapping[str, Quantity]) -> "Join":
        """Return the query with some of its quantities; what is known about its links and elements is shared."""
        made = Join(self.state, replace(self.shape, quantities=dict(quantities)), self.filled)
        made._rows, made._weights = self._rows, self._weights
        _ = self._places, self.probabilities  # known from now on, to both
        made.share(self)
        if made.null_kinds == self.null_kinds:
            made._whole = self._whole
        return made

    def share(self, other: "Join") -> None:
        """Use what another query over the same state knows of its links, if both have the same ones."""
        if (self.members, self.shape.classes) != (other.members, other.shape.classes):
            return
        shared = ["values", *(["_places", "probabilities"] if self.null_kinds == other.null_kinds else [])]
        self.__dict__ |= {name: other.__dict__[name] for name in shared if name in other.__dict__}

    def hold(self, values: Sequence[IntArray]) -> None:
        """Hold given columns in place of its own values where both are equal; they have all values of its links."""
        found = zip(self.values, values, strict=True)
        self.values = tuple(given if len(given) == len(own) else own for own, given in found)

    @cached_property
    def members(self) -> list[tuple[tuple[int, ...], int, tuple[int, ...]]]:
        """For each relation its links, its dictionary, and the keys there that these links are."""
        views = [(node, self.view(node)) for node in self.first.nodes]
        return [(node.variables, view.dictionary, view.keys) for node, view in views]

    @property
    def follows_all(self) -> bool:
        """Whether every value of every link of the query is followed, and every NULL that counts."""
        rosters = self.state.rosters
        return not self.state.grouped or (
            all(rosters[link].follows_all for link in self.shape.classes) and not self.samples_null
        )

    @cached_property
    def samples_null(self) -> bool:
        """Whether rows with a NULL link count and are only sampled."""
        nodes = (node for quantity in self.shape.quantities.values() for node in quantity.nodes)
        return any(_counts_null(node) and not self.nulls(node).follows_all for node in nodes)

    @property
    def record(self) -> Record:
        """The cost of reductions for the query."""
        return self.state.records.get(self.shape.name, Record())

    def nulls(self, node: Node) -> Roster:
        """Return the roster of the elements of a relation that have a NULL link."""
        return self.state.nulls(self.view(node).dictionary) if self.state.grouped else Roster(0)

    @property
    def is_known(self) -> bool:
        """Whether the held state gives the exact answer: everything is followed, or nothing can join."""
        return self.follows_all or self.is_surely_empty

    @cached_property
    def is_surely_empty(self) -> bool:
        """Whether no row passes, because a column of NOT IN has a NULL.

        The NOT IN has to belong to the whole query, and not to a side that may be missing.
        """
        relations = self.whole_relations(self.first)
        variables = [each.variables for each in relations]
        never = {i for i, each in enumerate(relations) if Turn.NEVER in each.turns}
        for i, each in enumerate(relations):
            for variable, turn in zip(each.variables, each.turns, strict=False):
                if turn in (Turn.OUTER, Turn.FULL):
                    never -= behind(variables, i, variable)
        return bool(never)

    @property
    def may_have_null(self) -> bool:
        """Whether a column of NOT IN may have a NULL that is not held, because its NULLs are only sampled."""
        relations = zip(self.first.nodes, self.whole_relations(self.first), strict=True)
        return any(
            "not in" in node.roles and Turn.NEVER not in each.turns and not self.nulls(node).follows_all
            for node, each in relations
        )

    @cached_property
    def may_be_empty(self) -> bool:
        """Whether no row of a NOT IN subquery is held, and nothing else shows that it has rows."""
        relations = zip(self.first.nodes, self.whole_relations(self.first), strict=True)
        return any(Turn.ANTI in each.turns and "not in" in node.roles for node, each in relations)

    def view(self, node: Node) -> View:
        """Return how a relation reads the dictionaries of this stage."""
        if not self.state.grouped:
            return node.exact
        assert node.kept is not None, "the second stage holds no dictionary for this relation"
        return node.kept

    def dictionary(self, node: Node) -> Dictionary:
        """Return the dictionary of a relation."""
        return self.state.dictionaries[self.view(node).dictionary]

    @cached_property
    def values(self) -> tuple[IntArray, ...]:
        """The values of each link that any of its relations holds, ascending."""
        return tuple(values for values, _ in self._links)

    @cached_property
    def _links(self) -> list[tuple[IntArray, list[np.ndarray]]]:
        """For each link its values, and for each relation there the places of its own among them.

        It is dropped once the places of elements are known.
        """
        found: list[list[IntArray]] = [[] for _ in self.shape.classes]
        for node in self.first.nodes:
            for variable, key in zip(node.variables, self.view(node).keys, strict=True):
                found[variable].append(self.dictionary(node).values(key))
        return [united(each) for each in found]

    @cached_property
    def null_places(self) -> tuple[int, ...]:
        """The number of places of each link after its values, for rows whose key is NULL: see roles above."""
        return tuple(sum(map(len, each)) for each in self.null_elements)

    @cached_property
    def null_elements(self) -> tuple[tuple[NullPlaces, ...], ...]:
        """For each link and each relation there, its places for rows whose key is NULL; none if no such row counts.

        One place holds all of them, or, if they are sampled, each element has its own place.
        """
        nodes = [node for quantity in self.shape.quantities.values() for node in quantity.nodes]
        used = {v for node in nodes if node.roles for v in node.variables if node.role(v) != "inner"}
        used |= {v for node in nodes if node.groups_null for v in node.variables}
        counting = {
            i for q in self.shape.quantities.values() for i, n in enumerate(q.nodes) if _counts_null(n)
        }
        found: list[list[NullPlaces]] = [[] for _ in self.shape.classes]
        for index, node in enumerate(self.first.nodes):
            roster, number = self.nulls(node), self.view(node).dictionary
            for variable, key in zip(node.variables, self.view(node).keys, strict=True):
                if variable in used:
                    apart = index in counting and not roster.follows_all
                    null = np.flatnonzero(self.dictionary(node).is_null(key)) if apart else None
                    found[variable].append(NullPlaces(number, null, roster.base))
        return tuple(map(tuple, found))

    @property
    def null_kinds(self) -> list[list[tuple[int, bool]]]:
        """For each link and each relation there, (its places for NULL, whether they are one for all elements)."""
        return [[(len(each), each.elements is None) for each in link] for link in self.null_elements]

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many places each link has."""
        return tuple(len(each) + nulls for each, nulls in zip(self.values, self.null_places, strict=True))

    @cached_property
    def probabilities(self) -> tuple[FloatArray, ...]:
        """The inclusion probability of each place of each link."""
        found = []
        for link, values, nulls in zip(self.shape.classes, self.values, self.null_elements, strict=True):
            roster = self.state.rosters[link]
            if roster.follows_all and not nulls:
                found.append(np.broadcast_to(1.0, len(values)))
                continue
            rates = roster.rates_of_held(values)
            found.append(np.concatenate([rates, *(each.rates for each in nulls)]) if nulls else rates)
        return tuple(found)

    @cached_property
    def _places(self) -> list[tuple[np.ndarray, ...]]:
        values = self.values  # kept, unlike `_links`
        found, left = [], [list(enumerate(places)) for _, places in self._links]
        for node in self.first.nodes:
            own = []
            for variable, key in zip(node.variables, self.view(node).keys, strict=True):
                member, at = left[variable].pop(0)
                places = self.dictionary(node).places(key)
                if len(at) < len(values[variable]) or self.null_places[variable]:
                    places = at[places]
                if self.null_places[variable]:
                    before = sum(map(len, self.null_elements[variable][:member]))
                    null, mine = self.dictionary(node).is_null(key), self.null_elements[variable][member]
                    places = places.astype(
                        np.promote_types(places.dtype, np.min_scalar_type(-self.sizes[variable]))
                    )
                    places[null] = len(values[variable]) + before
                    if mine.elements is not None:
                        places[mine.elements] += np.arange(len(mine))
                own.append(places)
            found.append(tuple(own))
        self.__dict__.pop("_links")
        return found

    def rows(self, node: Node) -> BoolArray:
        """Return which elements of a relation count: every flag is set, and no key is NULL that must not be.

        A key that is a group may be NULL, and so may one of a relation whose rows stay without a match.
        """
        view, dictionary = self.view(node), self.dictionary(node)
        if (view, node.roles) not in self._rows:
            counted = self._flagged(node)
            for key, variable in zip(view.keys, node.variables, strict=True):
                if not node.groups_null and node.role(variable) not in KEEPS_NULL:
                    counted &= ~dictionary.is_null(key)
            self._rows[view, node.roles] = counted
        return self._rows[view, node.roles]

    def _flagged(self, node: Node) -> BoolArray:
        """Return which elements of a relation carry all flags that its rows must have."""
        view, dictionary = self.view(node), self.dictionary(node)
        counted = np.ones(len(dictionary), dtype=np.bool_)
        for flag in view.flags:
            counted &= dictionary.flag(flag)
        return counted

    def whole_relations(self, quantity: Quantity) -> list[Relation]:
        """Return the relations of a quantity with their net weights, nothing scaled up."""
        if quantity not in self._whole:
            relations = []
            for index, (node, places) in enumerate(zip(quantity.nodes, self._places, strict=True)):
                weights = self._weights_of(node)
                relations.append(Relation(weights, node.variables, places, self._turns(index, node)))
            self._whole[quantity] = relations
        return self._whole[quantity]

    def _weights_of(self, node: Node) -> np.ndarray:
        """Return the net weight of each element of a relation, 0 if it does not count.

        Measures of several words are floats here, nearly as exact: `Quantity.digits` has them as integers.
        """
        view = self.view(node)
        if (view, node.roles) not in self._weights:
            dictionary = self.dictionary(node)
            totals = dictionary.totals[1 + view.measure]
            if view.number_words > 1:
                totals = as_floats([dictionary.total(each.measure) for each in view.digits], view.lowest)
            counted = self.rows(node)
            self._weights[view, node.roles] = (
                totals if counted.all() else np.where(counted, totals, totals.dtype.type(0))
            )
        return self._weights[view, node.roles]

    def digits(self, quantity: Quantity) -> list[tuple[Quantity, int]]:
        """Return the quantities that add up to `quantity`, each times 2 to an exponent, without all-zero digits."""
        wide = [k for k, node in enumerate(quantity.nodes) if node.exact.number_words > 1]
        first, *others = quantity.digits
        return [first] + [
            (part, exponent)
            for part, exponent in others
            if all(self._weights_of(part.nodes[k]).any() for k in wide)
        ]

    def is_rounded(self, quantity: Quantity) -> bool:
        """Return whether a row that counts has digits below the lowest that a measure of several words holds."""
        return any(
            bool(np.any(self.dictionary(node).total(self.view(node).measure)[self.rows(node)]))
            for node in quantity.nodes
            if self.view(node).number_words > 1
        )

    def _turns(self, index: int, node: Node) -> tuple[Turn, ...]:
        """Return how the roles of a relation transform its messages; NULLs of a NOT IN are all held."""
        if not node.roles:
            return ()
        has_rows = has_null = False
        if "not in" in node.roles:
            view, dictionary = self.view(node), self.dictionary(node)
            counts = np.where(self._flagged(node), dictionary.total(COUNT), 0)
            has_null = bool(counts[dictionary.is_null(view.keys[0])].sum() > 0)
            has_rows = index in self.filled or bool(counts.sum() > 0)
        return tuple(turn_of(role, has_rows=has_rows, has_null=has_null) for role in node.roles)

    @cached_property
    def root(self) -> int:
        """The link at which messages are added up: one of a relation that is not in any side of the query.

        A side consists of the relations behind one that may be missing, or that only decides. In a FULL JOIN both
        relations are sides, and meet in the only link.
        """
        relations = self.first.nodes
        below: set[int] = set()
        for quantity in self.shape.quantities.values():
            for index, node in enumerate(quantity.nodes):
                for variable in node.variables if node.roles else ():
                    if node.role(variable) not in ("inner", "preserved"):
                        below |= behind([each.variables for each in relations], index, variable)
        if not below:
            return 0
        return next((node.variables[0] for i, node in enumerate(relations) if i not in below), 0)

    def relations(self, quantity: Quantity) -> list[Relation]:
        """Return the relations of a quantity, corrected in floats for elements that hold one value twice.

        Such a value is included once, not once for each of its links.
        """
        made = []
        for relation in self.whole_relations(quantity):
            weights = relation.weights
            for i, variable in enumerate(relation.variables):
                again = self.repeated(relation, i)
                if again is not None:
                    rates = self.probabilities[variable][relation.places[i]]
                    weights = weights.astype(np.float64) * np.where(again, rates, 1.0)
            made.append(relation.weighing(weights))
        return made

    def repeated(self, relation: Relation, position: int) -> BoolArray | None:
        """Return which elements hold in one link the value that an earlier link of the same class already has.

        Or NULL in both, if elements with NULL are sampled. None if no earlier link of the relation can have the
        value.
        """
        variable = relation.variables[position]
        alike = [
            self.shape.classes[relation.variables[j]] == self.shape.classes[variable] for j in range(position)
        ]
        apart = [self.samples_single_nulls(relation.variables[j]) for j in range(position + 1)]
        if not any(alike) and not (apart[-1] and any(apart[:-1])):
            return None
        mine, is_value = self._values_of(relation, position)
        again = np.zeros(len(mine), dtype=np.bool_)
        for j in range(position):
            other, other_is_value = self._values_of(relation, j)
            if alike[j]:
                again |= (mine == other) & is_value & other_is_value
            if apart[j] and apart[position]:
                again |= ~is_value & ~other_is_value
        return again

    def samples_single_nulls(self, variable: int) -> bool:
        """Return whether a link has places of single elements, because rows with NULL there are sampled."""
        return any(each.elements is not None for each in self.null_elements[variable])

    def _values_of(self, relation: Relation, position: int) -> tuple[IntArray, BoolArray]:
        """Return (the value of each element in one of its links, whether it is a value and not NULL)."""
        values, places = self.values[relation.variables[position]], relation.places[position]
        is_value = places < len(values)
        return np.append(values, 0)[np.minimum(places, len(values))], is_value


def behind(variables: Sequence[tuple[int, ...]], start: int, without: int) -> set[int]:
    """Return the relations reachable from one without crossing a link; variables: the links of each."""
    reached, new = {start}, [start]
    while new:
        links = {v for v in variables[new.pop()] if v != without}
        near = [i for i, each in enumerate(variables) if i not in reached and links & set(each)]
        reached.update(near)
        new += near
    return reached


def different_quantities(join: Join, quantities: Sequence[Quantity]) -> tuple[list[Quantity], list[int]]:
    """Return (quantities with different weights, for each given quantity the index of its equal there)."""
    kept: list[Quantity] = []
    places = []
    for quantity in quantities:
        mine = join.whole_relations(quantity)
        for place, other in enumerate(kept):
            theirs = join.whole_relations(other)
            if all(_same(a, b) for a, b in zip(mine, theirs, strict=True)):
                places.append(place)
                break
        else:
            places.append(len(kept))
            kept.append(quantity)
    return kept, places


def _same(mine: Relation, other: Relation) -> bool:
    same = mine.weights is other.weights or np.array_equal(mine.weights, other.weights)
    return mine.turns == other.turns and same
