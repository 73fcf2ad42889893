"""How a COUNT over a join is estimated: the product, samples and sketches at equal bytes, planners of databases."""

import json
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[2] / "figures"))
import duckdb
from bank.dataset import Data, Table
from queries import Count
from universe_baseline import universe_answers

import eddyline as el
from data import Database

WORD = 8
MEDIANS = 5


@dataclass(frozen=True)
class Answer:
    """An estimate; low and high where the method has an interval."""

    value: float
    low: float = float("nan")
    high: float = float("nan")
    seconds: float = float("nan")


@dataclass(frozen=True)
class Result:
    """The answers of one method: bytes that it kept, and seconds to build them."""

    answers: dict[str, Answer]
    bytes: float = float("nan")
    build: float = float("nan")


def _workload(data: Database, budget: int) -> el.Workload:
    made = el.Workload(budget=budget, seed=1)
    for name, table in data.tables.items():
        made.stream(name, ", ".join(f"{column} BIGINT" for column in table.column_names))
    return made


def _fed(data: Database, made: el.Workload) -> tuple[el.State, float]:
    start = time.perf_counter()
    state = made.plan().empty()
    for name, table in data.tables.items():
        for batch in table.to_batches(100_000):
            state.update(name, batch)
    return state, time.perf_counter() - start


def _asked(state: el.State, texts: dict[str, str]) -> dict[str, Answer]:
    found = {}
    for name, text in texts.items():
        start = time.perf_counter()
        try:
            answer = state.answer(text)
        except el.EddylineError as error:
            print(f"refused: {text}: {error}")
            continue
        took = time.perf_counter() - start
        found[name] = Answer(float(answer), float(answer.low), float(answer.high), took)
    return found


def planned(data: Database, queries: list[Count], budget: int) -> Result:
    """Return the product's answers when all queries are known beforehand: one workload, one budget for all of them."""
    made = _workload(data, budget)
    for query in queries:
        made.query(query.name, query.sql)
    state, took = _fed(data, made)
    return Result(_asked(state, {query.name: query.name for query in queries}), state.nbytes, took)


def ad_hoc(data: Database, queries: list[Count], budget: int) -> Result:
    """Return the product's answers when only keys and columns are known.

    Columns are explored, and a query is planned for each set of keys of a table: it joins another table on each key.
    """
    made = _workload(data, budget)
    with_key = {key: [n for n, t in data.tables.items() if key in t.column_names] for key in data.keys}
    for name, table in data.tables.items():
        own = [key for key in data.keys if key in table.column_names]
        for number in range(1, len(own) + 1):
            for keys in combinations(own, number):
                others = [next(other for other in with_key[key] if other != name) for key in keys]
                joined = " AND ".join(f"t.{key} = o{i}.{key}" for i, key in enumerate(keys))
                tables = ", ".join([f"{name} t", *(f"{other} o{i}" for i, other in enumerate(others))])
                made.query(f"{name}_{'_'.join(keys)}", f"SELECT COUNT(*) FROM {tables} WHERE {joined}")
    for name, table in data.tables.items():
        made.explore(name, *(column for column in table.column_names if column not in data.keys))
    state, took = _fed(data, made)
    return Result(_asked(state, {query.name: query.sql for query in queries}), state.nbytes, took)


def universe(data: Database, queries: list[Count], budget: int) -> Result:
    """Return the answers of a universe sample: figures/universe_baseline.py, one rate, the best in hindsight."""
    tables = {}
    for name, table in data.tables.items():
        columns = {c: table[c].fill_null(-1).to_numpy() for c in table.column_names}
        born = np.zeros(table.num_rows)
        schema = ", ".join(f"{column} BIGINT" for column in table.column_names)
        tables[name] = Table(schema, columns, born, np.full(table.num_rows, np.inf))
    asked = {q.name: q.sql + _keys_there(q) for q in queries}
    start = time.perf_counter()
    found = universe_answers(Data(tables, asked, 1), budget, 1)
    took = time.perf_counter() - start
    answers = {name: Answer(value or 0.0, seconds=took / len(queries)) for name, value in found.items()}
    return Result(answers, budget)


def _keys_there(query: Count) -> str:
    """Return the condition that keys are not NULL, which that script has as -1; ranges never reach -1 from below."""
    keys = {(side, edge.key) for edge in query.edges for side in (edge.parent, edge.child)}
    return "".join(f" AND t{side}.{key} >= 0" for side, key in sorted(keys))


def bernoulli(data: Database, queries: list[Count], budget: int) -> Result:
    """Return the answers of a Bernoulli sample of all rows: eight bytes for each value, one rate for all tables."""
    whole = sum(table.num_rows * table.num_columns * WORD for table in data.tables.values())
    rate = min(1.0, budget / whole)
    start = time.perf_counter()
    with data.connected() as connection:
        for name in data.tables:
            connection.execute(
                f"CREATE OR REPLACE TABLE {name} AS FROM {name} WHERE hash(rowid, 7) < {rate * 2.0**64}"
            )
        built = time.perf_counter() - start
        answers = {}
        for query in queries:
            start = time.perf_counter()
            counted = float(connection.sql(query.along_the_tree()).fetchall()[0][0])
            value = counted / rate ** len(query.tables)
            answers[query.name] = Answer(value, seconds=time.perf_counter() - start)
    return Result(answers, rate * whole, built)


def convolution(data: Database, queries: list[Count], budget: int) -> Result:
    """Return the answers of count sketches that are joined by FFT (docs/references.md, "convolution sketches").

    Each edge of a query has hash functions of its own. A row is added at the sum of its buckets, with the product of
    its signs. The sketches of one side of the bipartite tree are convolved with each other, those of the other side,
    too, and the inner product of both is the estimate: the median of five. Sketches see only the rows that meet the
    query's predicates, so they are built for each query in a scan of the tables. Every query has the whole budget for
    itself.
    """
    answers = {}
    largest = {key: 1 + max(_largest(t, key) for t in data.tables.values()) for key in data.keys}
    with data.connected() as connection:
        for query in queries:
            start = time.perf_counter()
            size = max(16, budget // (WORD * MEDIANS * len(query.tables)))
            rows = [_filtered(query, at, connection) for at in range(len(query.tables))]
            found = [_convolved(query, rows, size, largest, seed) for seed in range(MEDIANS)]
            answers[query.name] = Answer(
                max(float(np.median(found)), 0.0), seconds=time.perf_counter() - start
            )
    return Result(answers, budget)


def _largest(table: pa.Table, key: str) -> int:
    if key not in table.column_names:
        return 0
    return int(table[key].drop_null().to_numpy().max(initial=0))


def _filtered(
    query: Count, at: int, connection: duckdb.DuckDBPyConnection
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the keys that a relation is joined on, of the rows that meet its predicates, and how often each occurs."""
    keys = sorted({edge.key for edge in query.edges if at in (edge.parent, edge.child)})
    own = [text.replace("@", "") for text in query.predicates[at]] + [f"{key} IS NOT NULL" for key in keys]
    text = f"SELECT {', '.join(keys)}, COUNT(*) AS n FROM {query.tables[at]} WHERE {' AND '.join(own)} GROUP BY ALL"
    found = connection.sql(text).fetchnumpy()
    return {key: np.asarray(found[key], np.int64) for key in keys}, np.asarray(found["n"], np.float64)


def _convolved(query: Count, rows: list, size: int, largest: dict[str, int], seed: int) -> float:
    rng = np.random.default_rng([seed, 99])
    hashed = [
        (rng.integers(0, size, largest[edge.key] + 1), rng.choice([-1.0, 1.0], largest[edge.key] + 1))
        for edge in query.edges
    ]
    side = [0] * len(query.tables)
    for edge in query.edges:
        side[edge.child] = 1 - side[edge.parent]
    spectra = [np.ones(size // 2 + 1, complex), np.ones(size // 2 + 1, complex)]
    for at, (keys, counts) in enumerate(rows):
        bucket, sign = np.zeros(len(counts), np.int64), counts.copy()
        for (buckets, signs), edge in zip(hashed, query.edges, strict=True):
            if at in (edge.parent, edge.child):
                bucket += buckets[keys[edge.key]]
                sign *= signs[keys[edge.key]]
        spectra[side[at]] *= np.fft.rfft(np.bincount(bucket % size, sign, size))
    one, other = (np.fft.irfft(each, size) for each in spectra)
    return float(one @ other)


def duckdb_planner(data: Database, queries: list[Count], _budget: int) -> Result:
    """Return the cardinalities that DuckDB's planner expects."""
    answers = {}
    with data.connected() as connection:
        connection.execute("ANALYZE")
        for query in queries:
            start = time.perf_counter()
            text = f"EXPLAIN (FORMAT json) {query.sql.replace('COUNT(*)', '*')}"
            plan = json.loads(connection.sql(text).fetchall()[0][1])
            answers[query.name] = Answer(_expected(plan), seconds=time.perf_counter() - start)
    return Result(answers)


def _expected(plan: list | dict) -> float:
    """Return the estimate of the join nearest to the root."""
    nodes = plan if isinstance(plan, list) else [plan]
    while nodes:
        for node in nodes:
            if "JOIN" in node.get("name", ""):
                return float(str(node["extra_info"]["Estimated Cardinality"]))
        nodes = [child for node in nodes for child in node.get("children", [])]
    return 1.0


def postgres_planner(connect: Callable[[], object], data: Database, queries: Iterable[Count]) -> Result:
    """Return the cardinalities that PostgreSQL's planner expects, after ANALYZE at its default statistics target."""
    answers = {}
    start = time.perf_counter()
    with connect() as connection, connection.cursor() as cursor:  # type: ignore[attr-defined]
        for name, table in data.tables.items():
            cursor.execute(f"CREATE TABLE {name} ({', '.join(f'{c} BIGINT' for c in table.column_names)})")
            with cursor.copy(f"COPY {name} FROM STDIN") as copy:
                for row in zip(*(table[c].to_pylist() for c in table.column_names), strict=True):
                    copy.write_row(row)
        cursor.execute("ANALYZE")
        cursor.execute("SET join_collapse_limit = 1")
        cursor.execute("SET from_collapse_limit = 1")
        built = time.perf_counter() - start
        for query in queries:
            start = time.perf_counter()
            cursor.execute(f"EXPLAIN (FORMAT json) {query.sql.replace('COUNT(*)', '*')}")
            value = float(cursor.fetchone()[0][0]["Plan"]["Plan Rows"])
            answers[query.name] = Answer(value, seconds=time.perf_counter() - start)
    return Result(answers, build=built)


METHODS = {
    "eddyline planned": planned,
    "eddyline ad hoc": ad_hoc,
    "universe sample": universe,
    "Bernoulli sample": bernoulli,
    "convolution sketches": convolution,
    "convolution sketches x10": lambda data, queries, budget: convolution(data, queries, 10 * budget),
    "DuckDB planner": duckdb_planner,
}
