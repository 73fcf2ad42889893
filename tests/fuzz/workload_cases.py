"""Random workloads: streams with deletes, queries of every kind, and what they should answer."""

import re
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tests.oracles.duckdb_sql import database

SCHEMA = "k BIGINT, j BIGINT, v BIGINT, ts TIMESTAMP"
SECOND = 1_000_000
START = 1_700_000_000 * SECOND
WINDOW = {"window": "4 minutes", "slide": "1 minute"}
AGGREGATES = ("COUNT(*)", "SUM({0}.v)", "COUNT(*)", "AVG({0}.v)", "VAR_POP({0}.v)", "STDDEV({0}.v)")


@dataclass(frozen=True)
class Chain:
    """A join of three and more relations, which a dictionary answers: DuckDB would make all of its rows."""

    streams: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    measured: int
    function: str


@dataclass(frozen=True)
class WorkloadQuery:
    """One query of a random workload: its kind, its text, and how it is answered exactly."""

    kind: str
    sql: str
    chain: Chain | None = None
    windowed: bool = False


@dataclass
class Case:
    """A workload and its data: net rows by stream, and batches (stream, rows, weights) that come to them."""

    queries: dict[str, WorkloadQuery]
    net: dict[str, pa.Table]
    batches: list[tuple[str, pa.Table, np.ndarray]] = field(default_factory=list)


def random_case(rng, most_rows=None):
    """A workload of 1 to 4 streams and 1 to 8 queries, with its data."""
    names = [f"s{i}" for i in range(int(rng.integers(1, 5)))]
    data = {name: _rows(rng).slice(0, most_rows) for name in names}
    asked = {f"q{i}": _query(rng, names) for i in range(int(rng.integers(1, 9)))}
    case = Case(asked, data)
    for name, net in data.items():
        gone = (
            net.take(rng.integers(0, net.num_rows, net.num_rows // 4))
            if rng.random() < 0.5
            else net.slice(0, 0)
        )
        if rng.random() < 0.5:
            gone = gone.set_column(0, "k", pa.array(rng.integers(10**6, 10**6 + 500, gone.num_rows)))
        both = pa.concat_tables([net, gone])
        order = rng.permutation(both.num_rows)
        cut = int(rng.integers(0, both.num_rows + 1))
        for part in (order[:cut], order[cut:]):
            case.batches.append((name, both.take(part), np.ones(len(part), dtype=np.int64)))
        case.batches.append((name, gone, -np.ones(gone.num_rows, dtype=np.int64)))
    return case


def _rows(rng):
    """Rows of one stream: keys uniform, Zipf, apart from all others, or one following the other."""
    n, values = int(rng.choice([50, 500, 3000, 8000, 20_000])), int(rng.choice([10, 300, 5000]))
    start = int(rng.choice([0, 0, 0, rng.integers(1, 50) * 10_000]))
    k = _values(rng, n, values) + start
    j = (k * 7 + rng.integers(0, 3, n)) % values if rng.random() < 0.3 else _values(rng, n, values)
    times = START + rng.integers(0, 600, n) * SECOND
    stamps = pa.array(times.astype("datetime64[us]"), pa.timestamp("us", "UTC"))
    return pa.table({"k": k, "j": j, "v": rng.integers(-5, 60, n), "ts": stamps})


def _values(rng, n, values):
    if rng.random() < 0.5:
        return rng.integers(0, values, n)
    return rng.zipf(float(rng.choice([1.2, 1.6, 2.5])), n) % values


def _query(rng, names):
    makers = (_single, _pair, _pair, _chain, _chain, _set, _distinct, _join_distinct, _semi)
    made = makers[rng.integers(len(makers))](rng, names)
    windowed = made.chain is None and rng.random() < 0.15
    return WorkloadQuery(made.kind + (" in a window" if windowed else ""), made.sql, made.chain, windowed)


def one_of(rng, names):
    return names[rng.integers(len(names))]


def column_of(rng):
    return ("k", "j")[rng.integers(2)]


def _aggregate(rng, alias):
    return AGGREGATES[rng.integers(len(AGGREGATES))].format(alias)


def _function(aggregate):
    name = aggregate.split("(")[0].lower()
    return {"var_pop": "variance", "stddev": "variance"}.get(name, name)


def where_of(rng, alias):
    return f" WHERE {alias}.v < {rng.integers(0, 60)}" if rng.random() < 0.4 else ""


def _single(rng, names):
    aggregate = _aggregate(rng, "a")
    return WorkloadQuery(
        f"{_function(aggregate)} of a stream",
        f"SELECT {aggregate} FROM {one_of(rng, names)} a{where_of(rng, 'a')}",
    )


def _pair(rng, names):
    aggregate = _aggregate(rng, "a")
    joined = f"{one_of(rng, names)} a JOIN {one_of(rng, names)} b ON a.{column_of(rng)} = b.{column_of(rng)}"
    return WorkloadQuery(
        f"{_function(aggregate)} of a join", f"SELECT {aggregate} FROM {joined}{where_of(rng, 'b')}"
    )


def _chain(rng, names):
    streams = tuple(one_of(rng, names) for _ in range(int(rng.integers(3, 6))))
    columns = tuple((column_of(rng), column_of(rng)) for _ in streams[1:])
    measured = int(rng.integers(len(streams)))
    aggregate = ("COUNT(*)", "SUM(r{0}.v)", "AVG(r{0}.v)")[rng.integers(3)].format(measured)
    text = f"SELECT {aggregate} FROM {streams[0]} r0"
    for i, (left, right) in enumerate(columns):
        text += f" JOIN {streams[i + 1]} r{i + 1} ON r{i}.{left} = r{i + 1}.{right}"
    chain = Chain(streams, columns, measured, _function(aggregate))
    return WorkloadQuery(f"{chain.function} of a chain", text, chain)


def _set(rng, names):
    column, parts = column_of(rng), [one_of(rng, names) for _ in range(int(rng.integers(2, 4)))]
    text = f"SELECT {column} FROM {parts[0]}"
    for name in parts[1:]:
        text += f" {('UNION', 'INTERSECT', 'EXCEPT')[rng.integers(3)]} SELECT {column} FROM {name}"
    return WorkloadQuery("set expression", f"SELECT COUNT(*) FROM ({text})")


def _distinct(rng, names):
    columns = ("k", "j", "k, j")[rng.integers(3)]
    return WorkloadQuery(
        "distinct", f"SELECT COUNT(DISTINCT {columns}) FROM {one_of(rng, names)} a{where_of(rng, 'a')}"
    )


def _join_distinct(rng, names):
    columns = ("a.j, b.v", "a.j", "a.j, a.k, b.j")[rng.integers(3)]
    joined = f"{one_of(rng, names)} a JOIN {one_of(rng, names)} b ON a.k = b.k"
    return WorkloadQuery("distinct over a join", f"SELECT COUNT(DISTINCT {columns}) FROM {joined}")


def _semi(rng, names):
    inner = f"SELECT {column_of(rng)} FROM {one_of(rng, names)}"
    return WorkloadQuery(
        "distinct over a semi-join",
        f"SELECT COUNT(DISTINCT a.j) FROM {one_of(rng, names)} a WHERE a.k IN ({inner})",
    )


def exact_answer(asked, net, bounds):
    """The exact answer on the net rows; bounds: from and to microseconds of a windowed query."""
    tables = net
    if bounds is not None:
        tables = {name: _within(table, *bounds) for name, table in net.items()}
    if asked.chain is not None:
        return _chain_answer(asked.chain, tables)
    with database().cursor() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        # DuckDB counts distinct tuples as rows; without NULLs that is the same
        text = re.sub(r"DISTINCT ([^()]*,[^()]*)\)", r"DISTINCT (\1))", asked.sql)
        return connection.sql(text).fetchall()[0][0]


def _within(table, start, end):
    times = table["ts"].cast(pa.int64()).to_numpy()
    return table.filter(pa.array((times >= start) & (times < end)))


def _chain_answer(chain, tables):
    count = _chain_total(chain, tables, 0)
    if chain.function == "count":
        return count
    total = _chain_total(chain, tables, 1)
    return total if chain.function == "sum" else (total / count if count else None)


def _chain_total(chain, tables, power):
    """The sum of measure^power over a chain, from its last relation to its first; in Python integers."""
    message = None
    for i in reversed(range(len(chain.streams))):
        table = tables[chain.streams[i]]
        weights = table["v"].to_pylist() if power and i == chain.measured else [1] * table.num_rows
        if message is not None:
            keys = table[chain.columns[i][0]].to_pylist()
            weights = [w * message.get(key, 0) for w, key in zip(weights, keys, strict=True)]
        if i == 0:
            return sum(weights)
        message = {}
        for key, weight in zip(table[chain.columns[i - 1][1]].to_pylist(), weights, strict=True):
            message[key] = message.get(key, 0) + weight
    return 0
