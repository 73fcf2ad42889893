"""Joins along keys, for streams that are explored as a whole, so that any of these joins can be asked later.

Keys come from PRIMARY KEY and FOREIGN KEY in the schemas, otherwise from column names. Streams that keys connect
are planned as one hidden join, so that each has one dictionary with all its keys together. If the keys form a
cycle, that join does not hold all keys of some streams together; these streams get a hidden join of their own.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

from eddyline.expressions.schema import DeclaredKeys
from eddyline.plan.decide.elements import KEY_JOINS
from eddyline.plan.demands import WorkloadQuery
from eddyline.plan.layout import Stream
from eddyline.sql.parse import parse_query
from eddyline.types import Column

_BARE = {"id", "_id", "key", "pk", "uuid", "guid", "rowid", "row_id", "index", "number", "no"}
"""Names that tables use for their own key: two such columns are unrelated to each other."""
_KEY = re.compile(r"(id|key|code|uuid|guid|sku|isbn)$", re.IGNORECASE)
_NO_KEY = re.compile(
    r"score|count|total|amount|price|cost|weight|quantity|qty|size|value|rank|level|year|month|day|hour|age$|name|title"
    r"|text|body|type|status|state|kind|date|time|flag|view|comment|rate|page|^x$|^y$",
    re.IGNORECASE,
)
_PREFIX = re.compile(r"^[a-z]{1,2}_", re.IGNORECASE)
"""A short table name as a prefix of a column's own name, as in o_custkey."""
_MOST_RELATIONS = 32
"""Relations of one join: the most that a query may have."""


@dataclass(frozen=True, order=True)
class KeyJoin:
    """Two streams, and the columns of each that are equal for rows that belong together."""

    left: str
    left_columns: tuple[str, ...]
    right: str
    right_columns: tuple[str, ...]


def join_likelihood(left: str, mine: Column, right: str, theirs: Column) -> int:
    """Return how strongly the names of two columns of two streams suggest a join, 0 if they do not."""
    one, other = mine.name.lower(), theirs.name.lower()
    types = {kind.key_class for kind in (mine.type, theirs.type)}
    if len(types) > 1 or None in types or not all(_can_be_key(each) for each in (mine, theirs)):
        return 0
    if one in _BARE or other in _BARE:
        refers = (one in _BARE and _refers(other, left)) or (other in _BARE and _refers(one, right))
        return 3 if refers and one != other else 0
    if one != other:
        return 0
    if _KEY.search(one):
        return 4 if mine.type.is_integer else 2
    return 0 if _NO_KEY.search(one) else 1


def _can_be_key(column: Column) -> bool:
    return column.type.is_integer or column.type.kind == "string"


def _refers(name: str, stream: str) -> bool:
    """Return whether a column is named after the key of a stream: `OwnerUserId` for that of `users`."""
    singular = re.sub(r"(?<=[^aeious])ies$", "y", stream.lower().replace("_", ""))
    names = {singular, singular.removesuffix("s"), singular.removesuffix("es")} - {""}
    return any(name.replace("_", "").endswith(f"{each}{key}") for each in names for key in ("id", "key"))


def key_joins(streams: Sequence[Stream], declared: Mapping[str, DeclaredKeys]) -> list[KeyJoin]:
    """Return the joins of some streams along their keys: declared keys, otherwise keys that names suggest.

    Names are used only if neither of two streams declares a key that refers to another stream.
    """
    names = {stream.name.lower(): stream for stream in streams}
    found = [join for stream in streams for join in _declared_joins(stream, declared, names)]
    refers = {name for name, keys in declared.items() if keys.foreign}
    for left, right in combinations(streams, 2):
        if not {left.name, right.name} & refers:
            found += _named_joins(left, right)
    return list(dict.fromkeys(found))


def _declared_joins(
    stream: Stream, declared: Mapping[str, DeclaredKeys], names: Mapping[str, Stream]
) -> list[KeyJoin]:
    made = []
    for key in declared.get(stream.name, DeclaredKeys()).foreign:
        other = names.get(key.table.lower())
        if other is None:
            continue  # a table that is not a stream here
        primary = declared.get(other.name, DeclaredKeys()).primary
        columns = key.referred or primary
        if len(columns) == len(key.columns) and _can_join(stream, key.columns, other, columns):
            made.append(KeyJoin(stream.name, key.columns, other.name, columns))
    return made


def _can_join(left: Stream, mine: Collection[str], right: Stream, theirs: Collection[str]) -> bool:
    """Return whether two lists of columns exist and have types that can be joined."""
    kinds = []
    for stream, columns in ((left, mine), (right, theirs)):
        known = {column.name.lower(): column.type.key_class for column in stream.columns}
        kinds.append([known.get(name.lower()) for name in columns])
    return None not in kinds[0] and kinds[0] == kinds[1]


def _named_joins(left: Stream, right: Stream) -> list[KeyJoin]:
    """Return the joins of two streams that their column names suggest most strongly."""
    likely: dict[tuple[str, str], int] = {}
    for mine, theirs in product(left.columns, right.columns):
        score = join_likelihood(left.name, mine, right.name, theirs)
        bare = [_PREFIX.sub("", column.name.lower()) for column in (mine, theirs)]
        prefixed = all(_PREFIX.match(column.name) for column in (mine, theirs)) and bare[0] == bare[1]
        if not score and prefixed and _KEY.search(bare[0]) and bare[0] not in _BARE:
            score = 4 if mine.type.key_class == theirs.type.key_class is not None else 0
        if score > 1:
            likely[mine.name, theirs.name] = score
    best = max(likely.values(), default=0)
    return [
        KeyJoin(left.name, (mine,), right.name, (theirs,))
        for (mine, theirs), s in likely.items()
        if s == best
    ]


def key_join_queries(streams: Sequence[Stream], joins: Sequence[KeyJoin]) -> list[WorkloadQuery]:
    """Return the hidden joins that keep the keys of streams together."""
    declared = {stream.name: stream.columns for stream in streams}
    component = {stream.name: stream.name for stream in streams}
    trees: dict[str, list[KeyJoin]] = {}
    left_over: list[KeyJoin] = []
    for join in joins:
        one, two = component[join.left], component[join.right]
        merged = [*trees.get(one, ()), *trees.get(two, ()), join]
        if one == two or len(merged) >= _MOST_RELATIONS:
            left_over.append(join)
            continue
        component = {name: one if each == two else each for name, each in component.items()}
        trees.pop(two, None)
        trees[one] = merged
    texts = {f"of {name}": _tree_text(tree) for name, tree in trees.items()}
    for name in dict.fromkeys(side for join in left_over for side in (join.left, join.right)):
        own = [join for join in joins if name in (join.left, join.right)]
        texts[f"around {name}"] = _star_text(name, own)
    return [WorkloadQuery(f"{KEY_JOINS} {name}", parse_query(text, declared)) for name, text in texts.items()]


def _tree_text(tree: Sequence[KeyJoin]) -> str:
    """Return the SQL of a join of streams in which each stream occurs once."""
    seen = [tree[0].left]
    clauses, waiting = [f"`{tree[0].left}`"], list(tree)
    while waiting:
        join = next(each for each in waiting if each.left in seen or each.right in seen)
        waiting.remove(join)
        new = join.right if join.left in seen else join.left
        seen.append(new)
        clauses.append(f"JOIN `{new}` ON {_condition(join, join.left, join.right)}")
    return f"SELECT COUNT(*) FROM {' '.join(clauses)}"


def _star_text(name: str, joins: Sequence[KeyJoin]) -> str:
    """Return the SQL of a stream joined with all streams that its keys refer to or that refer to it."""
    clauses = [f"`{name}` s0"]
    for place, join in enumerate(joins, 1):
        turned = join.left != name
        other = join.left if turned else join.right
        left, right = (f"s{place}", "s0") if turned else ("s0", f"s{place}")
        clauses.append(f"JOIN `{other}` s{place} ON {_condition(join, left, right)}")
    return f"SELECT COUNT(*) FROM {' '.join(clauses)}"


def _condition(join: KeyJoin, left: str, right: str) -> str:
    pairs = zip(join.left_columns, join.right_columns, strict=True)
    return " AND ".join(f"`{left}`.`{mine}` = `{right}`.`{theirs}`" for mine, theirs in pairs)
