"""Set expressions as values: members of streams under UNION, INTERSECT and EXCEPT, nested in any way.

`holds` is the document's Boolean condition B(E) on which of the streams hold an element: union becomes
"or", intersection "and", difference "and not".
Paper: set expressions, paragraphs 0059-0063.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Member:
    """The elements of the stream with this index."""

    stream: int


@dataclass(frozen=True)
class Union:
    """The elements of either side."""

    left: "Condition"
    right: "Condition"


@dataclass(frozen=True)
class Intersect:
    """The elements of both sides."""

    left: "Condition"
    right: "Condition"


@dataclass(frozen=True)
class Except:
    """The elements of the left side that are not in the right one."""

    left: "Condition"
    right: "Condition"


Condition = Member | Union | Intersect | Except


def occurrences(condition: Condition) -> tuple[int, ...]:
    """Return the index of the stream of each member, from left to right."""
    if isinstance(condition, Member):
        return (condition.stream,)
    return occurrences(condition.left) + occurrences(condition.right)


def streams_of(condition: Condition) -> tuple[int, ...]:
    """Return the indices of all streams in the expression, ascending, each once."""
    return tuple(sorted(set(occurrences(condition))))


def holds(condition: Condition, present: frozenset[int]) -> bool:
    """Return whether an element that is in exactly the streams `present` is in the expression: B(E).

    >>> holds(Except(Union(Member(0), Member(1)), Member(2)), frozenset({1}))
    True
    """
    match condition:
        case Member(stream):
            return stream in present
        case Union(left, right):
            return holds(left, present) or holds(right, present)
        case Intersect(left, right):
            return holds(left, present) and holds(right, present)
        case Except(left, right):
            return holds(left, present) and not holds(right, present)


def renamed(condition: Condition, names: dict[int, int]) -> Condition:
    """Return the expression with every stream index replaced by its new name."""
    if isinstance(condition, Member):
        return Member(names[condition.stream])
    return type(condition)(renamed(condition.left, names), renamed(condition.right, names))


def truth_table(condition: Condition, streams: tuple[int, ...]) -> tuple[bool, ...]:
    """Return B(E) for every subset of the streams: entry `mask` has streams[j] present where bit j is set."""
    subsets = (
        frozenset(stream for j, stream in enumerate(streams) if mask >> j & 1)
        for mask in range(1 << len(streams))
    )
    return tuple(holds(condition, subset) for subset in subsets)


def only_unions(condition: Condition) -> bool:
    """Return whether the expression is made of unions alone, so that adding its sketches gives its own."""
    if isinstance(condition, Member):
        return True
    return isinstance(condition, Union) and only_unions(condition.left) and only_unions(condition.right)


def without(condition: Condition, empty: frozenset[int]) -> Condition | None:
    """Return the expression where the streams `empty` hold nothing, or None where it then holds nothing."""
    if isinstance(condition, Member):
        return None if condition.stream in empty else condition
    left, right = without(condition.left, empty), without(condition.right, empty)
    if left is None:
        return right if isinstance(condition, Union) else None
    if right is None:
        return None if isinstance(condition, Intersect) else left
    return type(condition)(left, right)
