"""Orders, items and their kinds: three streams with groups, NULLs and every type that a group may have."""

from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa

import eddyline as el

STREAMS = {
    "orders": "k BIGINT, region STRING, status INT, amount DECIMAL(9,2), ts TIMESTAMP",
    "items": "k BIGINT, sku STRING, qty INT, day DATE",
    "skus": "sku STRING, kind STRING",
}
QUERIES = {
    "one_column": "SELECT region, COUNT(*) AS n, SUM(amount) AS s, AVG(status) AS a FROM orders GROUP BY region",
    "two_columns": "SELECT region, status, COUNT(amount) AS n FROM orders WHERE status < 3 GROUP BY region, status",
    "numbers": "SELECT amount, COUNT(*) AS n, VAR_POP(status) AS v FROM orders GROUP BY amount",
    "expression": "SELECT CASE WHEN qty > 2 THEN 'many' ELSE 'few' END AS size, year(day) AS y, SUM(qty) AS q "
    "FROM items GROUP BY 1, 2",
    "join": "SELECT o.region, i.sku, COUNT(*) AS n, SUM(i.qty) AS q, STDDEV_SAMP(i.qty) AS d "
    "FROM orders o JOIN items i ON o.k = i.k GROUP BY o.region, i.sku",
    "join_key": "SELECT o.k, COUNT(*) AS n, SUM(o.amount * i.qty) AS s FROM orders o JOIN items i ON o.k = i.k "
    "WHERE i.qty > 0 GROUP BY o.k",
    "chain": "SELECT o.status, s.kind, COUNT(*) AS n, AVG(o.amount) AS a FROM orders o JOIN items i ON o.k = i.k "
    "JOIN skus s ON i.sku = s.sku GROUP BY o.status, s.kind",
    "all_rows": "SELECT COUNT(*) AS n, SUM(qty) AS q FROM items",
    "whole_join": "SELECT COUNT(*) AS n, AVG(i.qty) AS q FROM orders o JOIN items i ON o.k = i.k",
    "times": "SELECT ts, COUNT(*) AS n FROM orders GROUP BY ts",
    "days": "SELECT day, MONTH(day) AS m, COUNT(*) AS n FROM items GROUP BY day, MONTH(day)",
}


def with_nulls(rng, values, kind, share=0.1):
    return pa.array(values, kind, mask=rng.random(len(values)) < share)


def orders(rng, rows, keys):
    return pa.table(
        {
            "k": with_nulls(rng, rng.integers(0, keys, rows), pa.int64()),
            "region": with_nulls(rng, rng.choice(["EMEA", "APAC", "", "ä"], rows), pa.string()),
            "status": with_nulls(rng, rng.integers(0, 5, rows), pa.int32()),
            "amount": with_nulls(
                rng, [Decimal(int(x)) / 4 for x in rng.integers(-9, 9, rows)], pa.decimal128(9, 2)
            ),
            "ts": with_nulls(
                rng,
                [datetime(2024, 1, int(d), tzinfo=UTC) for d in rng.integers(1, 9, rows)],
                pa.timestamp("us", "UTC"),
            ),
        }
    )


def items(rng, rows, keys):
    return pa.table(
        {
            "k": with_nulls(rng, rng.integers(0, keys, rows), pa.int64()),
            "sku": with_nulls(rng, [f"s{x}" for x in rng.integers(0, 12, rows)], pa.string()),
            "qty": with_nulls(rng, rng.integers(-2, 7, rows), pa.int32()),
            "day": with_nulls(rng, [date(1969, int(m), 3) for m in rng.integers(1, 13, rows)], pa.date32()),
        }
    )


def skus(rng):
    return pa.table({"sku": [f"s{x}" for x in range(12)], "kind": [f"kind {x % 3}" for x in range(12)]})


def plan_of(queries, budget="8 MB", streams=STREAMS, **settings_):
    w = el.Workload(budget=budget, seed=5, **settings_)
    for name, schema in streams.items():
        w.stream(name, schema)
    for name, text in queries.items():
        w.query(name, text)
    return w.plan()


def big_orders(rng, rows, keys, groups):
    return pa.table(
        {
            "k": (keys * rng.random(rows) ** 2).astype(np.int64),
            "region": [f"g{int(x)}" for x in groups * rng.random(rows) ** 3],
            "status": rng.integers(0, 5, rows).astype(np.int32),
            "amount": pa.array([Decimal(int(x)) for x in rng.integers(0, 90, rows)], pa.decimal128(9, 2)),
            "ts": pa.nulls(rows, pa.timestamp("us", "UTC")),
        }
    )
