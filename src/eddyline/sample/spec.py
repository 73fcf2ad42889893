"""What a stream sample holds, as plain numbers: dictionaries, their columns, and how queries read them."""

from itertools import combinations, product

import msgspec
from msgspec.structs import replace

from eddyline.kernels.doubles import BITS

COUNT = -1
"""Used instead of a measure: the net number of rows."""


class DictionarySpec(msgspec.Struct, frozen=True):
    """The columns of one dictionary.

    classes: the link class of each key, -1 for a key that no link uses. flags: number of bits that each element
    carries. measures: the number of sums besides the count. labelled: keys whose values are kept next to their
    codes. counted: only rows that carry all flags of one of these are held; all rows if it is empty. wide: (first
    sum, words) of each number that takes several sums: see `kernels.doubles`.
    """

    classes: tuple[int, ...]
    flags: int = 0
    measures: int = 0
    labelled: tuple[int, ...] = ()
    counted: tuple[tuple[int, ...], ...] = ()
    wide: tuple[tuple[int, int], ...] = ()

    @property
    def keys(self) -> int:
        """The number of key columns."""
        return len(self.classes)

    @property
    def flag_words(self) -> int:
        """The words that hold, bit by bit, which keys are NULL and then the flags."""
        return -(-(self.keys + self.flags) // 63)

    @property
    def words(self) -> int:
        """The words of an element."""
        return self.keys + self.flag_words


class Regrouped(msgspec.Struct, frozen=True):
    """How a dictionary is derived from the exact one of its stream: which keys, flags and measures it takes."""

    source: int
    keys: tuple[int, ...]
    flags: tuple[int, ...]
    measures: tuple[int, ...]


class View(msgspec.Struct, frozen=True):
    """How a relation of a query reads a dictionary: its keys, the flags that must be set, what is summed.

    null_is_value: NULL is one of the values of its key, as in set operations and groups. groups: the keys that it
    is grouped by. number_words: how many sums the measure takes, from `measure` on; if several, the first counts
    rounded rows, and the others are digits, the lowest of which counts 2^lowest.
    """

    dictionary: int
    keys: tuple[int, ...]
    flags: tuple[int, ...] = ()
    measure: int = COUNT
    null_is_value: bool = False
    groups: tuple[int, ...] = ()
    number_words: int = 1
    lowest: int = 0

    @property
    def digits(self) -> tuple["View", ...]:
        """The same rows, once with each digit of a measure of several words; otherwise the view itself."""
        if self.number_words == 1:
            return (self,)
        places = range(self.measure + 1, self.measure + self.number_words)
        return tuple(replace(self, measure=place, number_words=1, lowest=0) for place in places)


class Node(msgspec.Struct, frozen=True, omit_defaults=True):
    """A relation of a query: how it reads the exact dictionaries, and those of the second stage.

    variables: the link of the query that each of its keys belongs to. roles: the role of the relation in each of
    these links, as in `sql.query.Member`; empty if it is "inner" in all of them.
    """

    exact: View
    kept: View | None
    variables: tuple[int, ...]
    roles: tuple[str, ...] = ()

    @property
    def groups_null(self) -> bool:
        """Whether NULL is one of the groups that its only link represents."""
        return self.exact.null_is_value and bool(self.exact.groups)

    def of_every_row(self) -> "Node":
        """Return the relation with all of its rows, each counted once."""
        kept = None if self.kept is None else _every_row(self.kept)
        return replace(self, exact=_every_row(self.exact), kept=kept)

    @property
    def digits(self) -> tuple["Node", ...]:
        """The same relation, once with each digit of its measure."""
        if self.exact.number_words == 1:
            return (self,)
        kept = [None] * len(self.exact.digits) if self.kept is None else self.kept.digits
        pairs = zip(self.exact.digits, kept, strict=True)
        return tuple(replace(self, exact=exact, kept=own) for exact, own in pairs)

    def role(self, variable: int) -> str:
        """Return the role of the relation in one of its links."""
        return self.roles[self.variables.index(variable)] if self.roles else "inner"


def _every_row(view: View) -> View:
    return replace(view, flags=(), measure=COUNT, number_words=1, lowest=0)


class Quantity(msgspec.Struct, frozen=True):
    """A quantity of a query: the sum over the join of the product of its relations' weights."""

    nodes: tuple[Node, ...]

    @property
    def lowest(self) -> int:
        """The exponent of two of the unit if measures of several words are read as integers."""
        return sum(node.exact.lowest for node in self.nodes)

    @property
    def digits(self) -> tuple[tuple["Quantity", int], ...]:
        """The quantities whose sum it is, each times 2 to an exponent: one for each digit of its measures."""
        if all(node.exact.number_words == 1 for node in self.nodes):
            return ((self, 0),)
        places = product(*(enumerate(node.digits) for node in self.nodes))
        return tuple((Quantity(tuple(n for _, n in each)), BITS * sum(p for p, _ in each)) for each in places)

    def of_every_row(self) -> "Quantity":
        """Return the number of all rows, whatever flags they carry."""
        return Quantity(tuple(each.of_every_row() for each in self.nodes))


class Shape(msgspec.Struct, frozen=True):
    """A query as the sample sees it.

    kind: "join" sums products; "ratio" divides by its second quantity; "set" counts values of its only variable;
    "pairs" counts distinct values of its relations' groups that meet. variables: the link class of each link.
    members: for a set, the condition for a value: see `messages.set_values`.
    """

    name: str
    kind: str
    classes: tuple[int, ...]
    quantities: dict[str, Quantity]
    weight: float = 1.0
    expression: tuple["int | str", ...] = ()

    @property
    def relations(self) -> int:
        """The number of relations of its first quantity."""
        return len(next(iter(self.quantities.values())).nodes)

    @property
    def repeats_classes(self) -> bool:
        """Whether one column occurs in two links: its values are followed once, and join twice."""
        return len(set(self.classes)) < len(self.classes)

    @property
    def has_distant_repeats(self) -> bool:
        """Whether one column occurs in two links that share no relation."""
        nodes = next(iter(self.quantities.values())).nodes
        return any(
            self.classes[one] == self.classes[other]
            and not any({one, other} <= set(node.variables) for node in nodes)
            for one, other in combinations(range(len(self.classes)), 2)
        )

    @property
    def has_deep_sides(self) -> bool:
        """Whether a side that may be missing, or only decides, joins other relations behind its own.

        Following the values of one link does not show which of its rows are missing through another, so that is
        known only while everything is followed.
        """
        return any(
            set(node.roles) - {"inner", "preserved"} and len(node.variables) > 1
            for quantity in self.quantities.values()
            for node in quantity.nodes
        )

    @property
    def groups_missing_keys(self) -> bool:
        """Whether a group column is the key of a side that may be missing: a link's value, or NULL for many."""
        return any(
            node.role(variable) in ("outer", "full") and key in node.exact.groups
            for quantity in self.quantities.values()
            for node in quantity.nodes
            for variable, key in zip(node.variables, node.exact.keys, strict=True)
        )


class SampleSpec(msgspec.Struct, frozen=True):
    """Everything that a stream sample holds and the bytes that it may take.

    exact: one dictionary for each stream, the first stage. kept: the dictionaries of the second stage, each made
    from an exact one according to `regrouped`. seeds: one for each link class. budget: bytes of the first stage;
    kept_budget: bytes of the second, with sketches alongside.
    """

    exact: tuple[DictionarySpec, ...]
    kept: tuple[DictionarySpec, ...]
    regrouped: tuple[Regrouped, ...]
    seeds: tuple[int, ...]
    shapes: tuple[Shape, ...]
    budget: int
    kept_budget: int
