"""Multi-join COUNT queries, drawn with fixed seeds by the recipes of published benchmarks.

`light` is in the manner of JOB-light: a star of 2 to 5 relations on one key, equalities on attributes. `ranges` is in
that of JOB-light-ranges: the same stars with ranges. `ceb` is in that of STATS-CEB: a tree of 2 to 8 relations over all
keys, joins that are not to a unique key among them, ranges and equalities.

1. A tree grows from a random relation, each time by a random table that shares a key with a random member of it.
2. Each relation has predicates with probability 2/3, on one or two of its attributes. A predicate is drawn around the
   value of a random row: an equality, or a range whose share of the table is log-uniform from 1/1000 to 1.
3. A query is kept if its answer is at least 1 and its selectivity, the answer over that without predicates, is 10^-5
   or more.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import numpy as np

from data import Database

FAMILIES = {"light": (2, 5), "ranges": (2, 5), "ceb": (2, 8)}
LEAST = 1e-5


@dataclass(frozen=True)
class Edge:
    """A relation, by number, joined to an earlier one on a column of that name."""

    parent: int
    child: int
    key: str


@dataclass(frozen=True)
class Count:
    """A COUNT(*) over a tree of relations. `exact` is DuckDB's answer, `full` that without predicates."""

    name: str
    tables: tuple[str, ...]
    edges: tuple[Edge, ...]
    predicates: tuple[tuple[str, ...], ...]
    exact: float = 0.0
    full: float = 0.0

    @property
    def sql(self) -> str:
        """The query."""
        conditions = [f"t{e.parent}.{e.key} = t{e.child}.{e.key}" for e in self.edges]
        conditions += [text.replace("@", f"t{i}.") for i, own in enumerate(self.predicates) for text in own]
        tables = ", ".join(f"{table} t{i}" for i, table in enumerate(self.tables))
        return f"SELECT COUNT(*) FROM {tables} WHERE {' AND '.join(conditions)}"

    def along_the_tree(self, rows: str = "1", further: str = "true", *, filtered: bool = True) -> str:
        """Return SQL that counts without enumerating the join: each relation sums what its subtrees have for a key.

        rows: what a row counts. further: a condition on every row. Both may use the alias `r`.
        """
        return f"SELECT coalesce(sum(n), 0) FROM ({self._summed(0, None, rows, further, filtered)})"

    def _summed(self, at: int, key: str | None, rows: str, further: str, filtered: bool) -> str:
        own = [text.replace("@", "r.") for text in self.predicates[at]] if filtered else []
        below, joins = [f"({rows})::DOUBLE"], []
        for edge in self.edges:
            if edge.parent == at:
                inner = self._summed(edge.child, edge.key, rows, further, filtered)
                joins.append(f"JOIN ({inner}) AS s{edge.child} ON s{edge.child}.k = r.{edge.key}")
                below.append(f"s{edge.child}.n")
        return (
            f"SELECT {'0' if key is None else f'r.{key}'} AS k, sum({' * '.join(below)}) AS n "
            f"FROM {self.tables[at]} AS r {' '.join(joins)} WHERE {' AND '.join([further, *own])} GROUP BY 1"
        )


def draw(data: Database, family: str, number: int, seed: int) -> list[Count]:
    """Return queries of a family: as many of each number of relations, as far as the database has trees of it."""
    low, high = FAMILIES[family]
    high = min(high, len(data.tables))
    found: list[Count] = []
    with data.connected() as connection:
        for relations in range(low, high + 1):
            rng = np.random.default_rng([seed, sorted(FAMILIES).index(family), relations])
            wanted = number // (high - low + 1) + (relations < low + number % (high - low + 1))
            for query in _candidates(data, family, relations, rng):
                if wanted == 0:
                    break
                exact = _counted(connection, query, filtered=True)
                full = _counted(connection, query, filtered=False) if exact else 1.0
                if exact >= max(1.0, LEAST * full):
                    name = f"{family}_{len(found)}"
                    found.append(Count(name, query.tables, query.edges, query.predicates, exact, full))
                    wanted -= 1
    return found


def _counted(connection: duckdb.DuckDBPyConnection, query: Count, *, filtered: bool) -> float:
    return float(connection.sql(query.along_the_tree(filtered=filtered)).fetchall()[0][0])


def _candidates(data: Database, family: str, relations: int, rng: np.random.Generator) -> Iterator[Count]:
    for _ in range(500):
        tables, edges = _tree(data, family, relations, rng)
        if len(tables) == relations:
            drawn = tuple(_predicates(data, table, family, rng) for table in tables)
            yield Count("", tuple(tables), tuple(edges), drawn)


def _tree(
    data: Database, family: str, relations: int, rng: np.random.Generator
) -> tuple[list[str], list[Edge]]:
    names = list(data.tables)
    tables, edges = [names[rng.integers(len(names))]], []
    shared = [key for key in data.keys if key in data.tables[tables[0]].column_names]
    star = shared[rng.integers(len(shared))]
    for _ in range(8 * relations):
        if len(tables) == relations:
            break
        at = 0 if family != "ceb" else int(rng.integers(len(tables)))
        table = names[rng.integers(len(names))]
        keys = [
            key
            for key in data.keys
            if key in data.tables[table].column_names and key in data.tables[tables[at]].column_names
        ]
        keys = keys if family == "ceb" or data.name == "flights" else [key for key in keys if key == star]
        if table not in tables and keys:
            edges.append(Edge(at, len(tables), keys[rng.integers(len(keys))]))
            tables.append(table)
    return tables, edges


def _predicates(data: Database, table: str, family: str, rng: np.random.Generator) -> tuple[str, ...]:
    attributes = [name for name in data.tables[table].column_names if name not in data.keys]
    if not attributes or rng.random() < 1 / 3:
        return ()
    chosen = rng.choice(attributes, size=min(len(attributes), 1 + int(rng.random() < 1 / 3)), replace=False)
    made = []
    for column in map(str, chosen):
        ordered = data.ordered(table, column)
        if not len(ordered):
            continue
        value = int(ordered[rng.integers(len(ordered))])
        if family == "light" or (family == "ceb" and rng.random() < 1 / 4):
            made.append(f"@{column} = {value}")
            continue
        share = 10 ** (-3 * rng.random())
        at = int(np.searchsorted(ordered, value))
        low = max(0, at - int(share * len(ordered) / 2))
        high = min(len(ordered) - 1, low + int(share * len(ordered)))
        shape = rng.integers(3)
        bounds = [f"@{column} >= {int(ordered[low])}", f"@{column} <= {int(ordered[high])}"]
        made.append(" AND ".join(bounds) if shape == 0 else bounds[shape - 1])
    return tuple(made)
