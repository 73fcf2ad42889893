"""Exact answers of the bank's queries, and the bytes that exact dictionaries of its streams need.

Answers are DuckDB's, over the rows that are never deleted. The result of a join of skewed streams may have more
than 10^12 rows, which no database enumerates in time. So joins are evaluated along their tree: each relation is
joined with what its subtrees sum up to for each key, and grouped by the key that leads to the rest. Sums are in
DOUBLE. `checked_answers` evaluates the texts themselves, for drawings that are small enough.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache

import duckdb
import numpy as np
import pyarrow as pa
import sqlglot

from bank.dataset import Data, pieces
from bank.queries import keys_of, measures_of, parsed, predicates_of
from eddyline.sql.query import Key, Query

WORD = 8


@lru_cache(maxsize=4)
def exact_answers(data: Data) -> dict[str, float]:
    """Return the exact answer of every query."""
    found = {}
    with connected(data) as connection:
        for name, query in parsed(data).items():
            text = along_the_tree(query) if isinstance(query, Query) else in_duckdb(data.queries[name])
            found[name] = float(connection.sql(text).fetchall()[0][0] or 0)
    return found


def checked_answers(data: Data) -> dict[str, float]:
    """Return the exact answers by the texts themselves: for small drawings."""
    with connected(data) as connection:
        return {
            name: float(connection.sql(in_duckdb(sql)).fetchall()[0][0] or 0)
            for name, sql in data.queries.items()
        }


def connected(data: Data) -> duckdb.DuckDBPyConnection:
    """Return a connection that has the rows of each stream that are never deleted."""
    connection = duckdb.connect(config={"threads": 1})
    for name, table in data.tables.items():
        connection.register(name, pa.table(table.net))
    return connection


def in_duckdb(sql: str) -> str:
    """Return a query or an expression as DuckDB spells it."""
    return sqlglot.transpile(sql, read="spark", write="duckdb")[0]


def along_the_tree(query: Query, conditions: Mapping[int, list[str]] | None = None) -> str:
    """Return SQL for the aggregate: from the root, relation 0, each relation sums up its subtrees.

    conditions: further ones on the rows of each relation, by index.
    """
    together = _summed(query, 0, None, conditions if conditions is not None else {})
    function = query.aggregate.function
    if function == "count":
        return f"SELECT SUM(_rows) FROM ({together})"
    return f"SELECT SUM(_sum){' / SUM(_rows)' if function == 'avg' else ''} FROM ({together})"


def _summed(query: Query, index: int, upwards: int | None, further: Mapping[int, list[str]]) -> str:
    """Return SQL of (_key, _sum, _rows): summed measures and joined rows for each key of the link towards the root.

    upwards: that link; None for the root, which has one key.
    """
    relation = query.relations[index]
    sums, counts, joins = ["1.0"], ["1.0"], []
    conditions = [in_duckdb(text) for text in relation.predicates] + further.get(index, [])
    for factor in query.aggregate.factors:
        if factor.relation == index:
            text = in_duckdb(factor.expression.text)
            sums.append(f"({text})::DOUBLE")
            conditions.append(f"({text}) IS NOT NULL")
    for link, child in _children(query, index, upwards):
        own = _own_key(query, link, index)
        joins.append(f"JOIN ({_summed(query, child, link, further)}) AS t{child} ON t{child}._key = {own}")
        sums.append(f"t{child}._sum")
        counts.append(f"t{child}._rows")
    key = "0" if upwards is None else _own_key(query, upwards, index)
    where = f"WHERE {' AND '.join(f'({each})' for each in conditions)}" if conditions else ""
    return (
        f"SELECT {key} AS _key, SUM({' * '.join(sums)}) AS _sum, SUM({' * '.join(counts)}) AS _rows "
        f"FROM {relation.stream} {' '.join(joins)} {where} GROUP BY ALL"
    )


def _children(query: Query, index: int, upwards: int | None) -> Iterator[tuple[int, int]]:
    """Yield (link, relation) of the subtrees below a relation; a link upwards belongs to the parent alone."""
    for number, link in enumerate(query.links):
        members = [member.relation for member in link.members]
        if number != upwards and index in members:
            yield from ((number, each) for each in members if each != index)


def _own_key(query: Query, link: int, index: int) -> str:
    key = next(member.key for member in query.links[link].members if member.relation == index)
    return key_in_duckdb(key)


def key_in_duckdb(key: Key) -> str:
    """Return a key as one value."""
    parts = [in_duckdb(column.text) for column in key.columns]
    return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"


@lru_cache(maxsize=4)
def exact_bytes(data: Data) -> int:
    """Return the bytes of exact dense dictionaries of all streams, at the time when they are largest.

    An element of a stream is the tuple of the keys that queries link or count it by, and of the truth values of the
    predicates that they put on it. It has 8 bytes for each key (a composite key is one), 1 byte for all predicates
    if there are any, 8 for its count, and 8 for each measure. Elements whose count is 0 are not kept. Rows are
    taken in the order of time, and looked at after each batch.
    """
    streams, rows, weights = data.ordered("by_time")
    elements = [_elements(data, stream) for stream in data.tables]
    sizes = [element_bytes(data, stream) for stream in data.tables]
    counts = [np.zeros(own.max(initial=-1) + 1, dtype=np.int64) for own in elements]
    most = 0
    for piece in pieces(len(rows)):
        for index, own in enumerate(elements):
            here = piece[streams[piece] == index]
            np.add.at(counts[index], own[rows[here]], weights[here])
        kept = (size * np.count_nonzero(count) for size, count in zip(sizes, counts, strict=True))
        most = max(most, int(sum(kept)))
    return most


def element_bytes(data: Data, stream: str) -> int:
    """Return the bytes of an element of a stream."""
    words = len(keys_of(data, stream)) + 1 + len(measures_of(data, stream))
    return WORD * words + bool(predicates_of(data, stream))


def _elements(data: Data, stream: str) -> np.ndarray:
    """Return the element of each row, by number."""
    rows = data.tables[stream].columns
    parts = [key_in_duckdb(key) for key in keys_of(data, stream)]
    parts += [f"coalesce({in_duckdb(text)}, false)" for text in predicates_of(data, stream)]
    if not parts:
        return np.zeros(len(next(iter(rows.values()))), dtype=np.int64)
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("changed", pa.table(rows))
        text = f"SELECT hash({', '.join(parts)}) AS h FROM changed"
        return np.unique(connection.sql(text).fetchnumpy()["h"], return_inverse=True)[1]
