"""A workload with explored columns of every type, its rows, and random ad hoc SQL."""

from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

import eddyline as el
from tests.data.groups import with_nulls

STREAMS = {
    "orders": "k BIGINT, region STRING, status INT, amount DECIMAL(9,2), whole DECIMAL(12,0), flag BOOLEAN, x DOUBLE, "
    "f FLOAT, code BINARY, ts TIMESTAMP, wall TIMESTAMP_NTZ",
    "items": "k BIGINT, sku STRING, qty INT, day DATE, small SMALLINT",
    "skus": "sku STRING, kind STRING, tiny TINYINT",
}
EXPLORED = {
    "orders": "region status amount whole flag x f code ts wall".split(),  # noqa: SIM905
    "items": ["qty", "day", "small"],
    "skus": ["kind", "tiny"],
}
CHAIN = "SELECT COUNT(*) FROM orders o JOIN items i ON o.k = i.k JOIN skus s ON i.sku = s.sku"
JOINS = {
    "o": "orders o",
    "i": "items i",
    "s": "skus s",
    "oi": "orders o JOIN items i ON o.k = i.k",
    "is": "items i JOIN skus s ON i.sku = s.sku",
    "oo": "orders o JOIN orders p ON o.k = p.k",
    "oip": "orders o JOIN items i ON o.k = i.k JOIN orders p ON i.k = p.k",
    "ois": "orders o JOIN items i ON o.k = i.k JOIN skus s ON i.sku = s.sku",
}
PREDICATES = {
    "o": [
        "o.region = 'EMEA'", "o.region IS NULL", "o.region LIKE 'E%'", "o.status IN (1, 3)", "NOT o.status = 2",
        "o.amount > 0.5", "o.amount BETWEEN -1 AND 1.25", "o.whole <> 3", "o.flag", "NOT o.flag", "o.x > 0.25",
        "o.x = o.f", "o.f <= 1", "o.status < o.amount", "o.k > 4", "COALESCE(o.region, 'none') = 'none'", "o.ts IS NULL",
    ],
    "i": ["i.qty > 1", "i.qty IS NULL", "i.day >= DATE '1969-06-01'", "year(i.day) = 1969", "i.small + i.qty < 4"],
    "s": ["s.kind = 'kind 1'", "s.tiny < 1", "s.kind <> 'kind 0' OR s.tiny IS NULL"],
    "p": ["p.status = 1"],
}  # fmt: skip
MEASURES = {
    "o": [
        "o.amount",
        "o.status",
        "o.amount * o.status",
        "o.x",
        "o.whole",
        "CASE WHEN o.flag THEN o.status END",
    ],
    "i": ["i.qty", "i.small - i.qty"],
    "s": ["s.tiny"],
    "p": ["p.status"],
}
GROUPS = {
    "o": ["o.region", "o.status", "o.amount", "o.whole", "o.flag", "o.code", "o.wall", "upper(o.region)", "o.status > 1"],
    "i": ["i.day", "month(i.day)", "i.qty"],
    "s": ["s.kind"],
    "p": ["p.status"],
}  # fmt: skip
FUNCTIONS = ["COUNT", "SUM", "AVG", "VAR_POP", "STDDEV_SAMP"]


def plan(budget="8 MB", seed=5, timezone="UTC"):
    w = el.Workload(budget=budget, seed=seed, timezone=timezone)
    for name, schema in STREAMS.items():
        w.stream(name, schema)
        w.explore(name, *EXPLORED[name])
    return w.query("chain", CHAIN).plan()


@st.composite
def texts(draw):
    """A random aggregate, or groups, over explored columns of one stream or a join."""
    aliases = draw(st.sampled_from(list(JOINS)))
    aliases, join = list(dict.fromkeys("op" if aliases == "oo" else aliases)), JOINS[aliases]
    where = draw(
        st.lists(st.sampled_from([p for a in aliases for p in PREDICATES[a]]), max_size=3, unique=True)
    )
    conditions = f" WHERE {' AND '.join(f'({each})' for each in where)}" if where else ""
    aggregates = draw(st.lists(st.builds(_aggregate, *_measured(aliases)), min_size=1, max_size=3))
    by = draw(st.lists(st.sampled_from([g for a in aliases for g in GROUPS[a]]), max_size=2, unique=True))
    if not by:
        return f"SELECT {aggregates[0]} AS v FROM {join}{conditions}", 0
    named = [f"{each} AS g{i}" for i, each in enumerate(by)] + [
        f"{a} AS v{i}" for i, a in enumerate(aggregates)
    ]
    return f"SELECT {', '.join(named)} FROM {join}{conditions} GROUP BY {', '.join(by)}", len(by)


def _measured(aliases):
    measures = [m for a in aliases for m in MEASURES[a]]
    filters = st.none() | st.sampled_from([p for a in aliases for p in PREDICATES[a]])
    return st.sampled_from(FUNCTIONS), st.sampled_from(["*", *measures]), filters


def _aggregate(function, measure, condition):
    made = "COUNT(*)" if measure == "*" else f"{function}({measure})"
    return made if condition is None else f"{made} FILTER (WHERE {condition})"


def orders(rng, rows, keys):
    days = rng.integers(1, 9, rows)
    return pa.table(
        {
            "k": with_nulls(rng, rng.integers(0, keys, rows), pa.int64()),
            "region": with_nulls(rng, rng.choice(["EMEA", "APAC", "", "ä"], rows), pa.string()),
            "status": with_nulls(rng, rng.integers(0, 5, rows), pa.int32()),
            "amount": with_nulls(
                rng, [Decimal(int(x)) / 4 for x in rng.integers(-9, 9, rows)], pa.decimal128(9, 2)
            ),
            "whole": with_nulls(
                rng, [Decimal(int(x)) for x in rng.integers(-5, 5, rows)], pa.decimal128(12, 0)
            ),
            "flag": with_nulls(rng, rng.random(rows) < 0.5, pa.bool_()),
            "x": with_nulls(rng, rng.integers(-4, 5, rows) / 4, pa.float64()),
            "f": with_nulls(rng, rng.integers(-4, 5, rows) / 4, pa.float32()),
            "code": with_nulls(rng, [bytes([x]) for x in rng.integers(0, 3, rows)], pa.binary()),
            "ts": with_nulls(
                rng, [datetime(2024, 1, int(d), tzinfo=UTC) for d in days], pa.timestamp("us", "UTC")
            ),
            "wall": with_nulls(rng, [datetime(2024, 1, int(d)) for d in days], pa.timestamp("us")),
        }
    )


def items(rng, rows, keys):
    return pa.table(
        {
            "k": with_nulls(rng, rng.integers(0, keys, rows), pa.int64()),
            "sku": with_nulls(rng, [f"s{x}" for x in rng.integers(0, 12, rows)], pa.string(), 0.3),
            "qty": with_nulls(rng, rng.integers(-2, 7, rows), pa.int32()),
            "day": with_nulls(rng, [date(1969, int(m), 3) for m in rng.integers(1, 13, rows)], pa.date32()),
            "small": with_nulls(rng, rng.integers(-2, 7, rows), pa.int16()),
        }
    )


def skus(rng):
    return pa.table(
        {
            "sku": [f"s{x}" for x in range(12)],
            "kind": with_nulls(rng, [f"kind {x % 3}" for x in range(12)], pa.string()),
            "tiny": with_nulls(rng, rng.integers(-2, 3, 12), pa.int8()),
        }
    )


SALES = {
    "sales": "id BIGINT, customer BIGINT, product BIGINT, region STRING, status INT, amount DECIMAL(9,2)",
    "visits": "customer BIGINT, page STRING, sec INT",
    "products": "product BIGINT, kind STRING",
}


def sales(seed, rows=8000, customers=2000):
    """Skewed streams for statistical tests; many customers and products are NULL."""
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, customers + 1) ** 0.6
    share /= share.sum()
    regions = rng.choice(["a", "b", "c", "d", "e"], rows, p=[0.4, 0.3, 0.2, 0.07, 0.03])
    amounts = np.exp(rng.normal(6, 0.7, rows))
    return {
        "sales": pa.table(
            {
                "id": np.arange(rows),
                "customer": with_nulls(rng, rng.choice(customers, rows, p=share), pa.int64(), 0.05),
                "product": with_nulls(rng, rng.integers(0, 400, rows), pa.int64(), 0.4),
                "region": with_nulls(rng, regions, pa.string()),
                "status": pa.array(rng.integers(0, 4, rows), pa.int32()),
                "amount": pa.array([Decimal(int(v)) / 100 for v in amounts], pa.decimal128(9, 2)),
            }
        ),
        "visits": pa.table(
            {
                "customer": rng.choice(customers, rows * 3 // 4, p=share),
                "page": rng.choice(["p", "q", "r"], rows * 3 // 4),
                "sec": rng.integers(0, 60, rows * 3 // 4).astype(np.int32),
            }
        ),
        "products": pa.table({"product": np.arange(400), "kind": rng.choice(["x", "y"], 400)}),
    }
