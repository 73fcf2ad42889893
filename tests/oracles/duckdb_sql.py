"""Exact answers of the same SQL text on the net rows, by DuckDB."""

from collections import Counter
from functools import cache

import duckdb
import pyarrow as pa


def net_rows(table, weights):
    """The net rows of a table of changes, each as often as its net multiplicity."""
    counts = Counter()
    for row, weight in zip(table.to_pylist(), weights, strict=True):
        counts[tuple(row.values())] += int(weight)
    rows = [
        dict(zip(table.column_names, row, strict=True)) for row, count in counts.items() for _ in range(count)
    ]
    return pa.Table.from_pylist(rows, schema=table.schema)


@cache
def database():
    """One empty database of this process: opening one takes longer than most queries of the tests."""
    return duckdb.connect()


def exact(text, tables):
    """The answer of a query by DuckDB; tables are the net rows."""
    return exact_answers([text], tables)[0]


def exact_answers(texts, tables):
    """The answers of some queries by DuckDB, over one connection, which alone sees the tables."""
    with database().cursor() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        values = [connection.sql(text).fetchall()[0][0] for text in texts]
    return [None if value is None else float(value) for value in values]
