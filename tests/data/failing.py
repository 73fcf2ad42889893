"""Rows on which expressions fail, and queries whose WHERE excludes them."""

from math import inf, nan

import numpy as np
import pyarrow as pa

import eddyline as el

STREAMS = {"u": "k INT, a BIGINT, b BIGINT, f DOUBLE, m DECIMAL(30,2), g STRING", "v": "k INT, h INT"}
JOIN = "FROM u JOIN v ON u.k = v.k"
QUERIES = {
    "division": "SELECT SUM(a / b) FROM u WHERE b <> 0",
    "count": "SELECT COUNT(a / b) FROM u WHERE b <> 0 AND a < 100",
    "average": "SELECT AVG(a / b) FROM u WHERE b > 0 AND a < 100",
    "branch": "SELECT SUM(CASE WHEN b <> 0 AND a / b < 1000 THEN a / b ELSE 0.0D END) FROM u",
    "otherwise": "SELECT SUM(COALESCE(CASE WHEN b = 0 THEN 0.5D END, a / b)) FROM u WHERE a < 100",
    "conjuncts": "SELECT COUNT(*) FROM u WHERE a / b > 2 AND b <> 0",
    "disjuncts": "SELECT COUNT(*) FROM u WHERE b = 0 OR a / b > 2",
    "not_a_number": "SELECT SUM(f) FROM u WHERE f < 100",
    "squares": "SELECT VAR_POP(a) FROM u WHERE a < 100",
    "overflow": "SELECT SUM(a * 4) FROM u WHERE a < 100",
    "wide": "SELECT SUM(m) FROM u WHERE a < 100",
    "grouped": "SELECT a * 4 AS g, SUM(a / b) AS s, AVG(f) AS v FROM u WHERE b <> 0 AND a < 100 AND f < 100 GROUP BY a * 4",
    "distinct": "SELECT COUNT(DISTINCT a * 4) FROM u WHERE a < 100",
    "joined": f"SELECT SUM(u.a / u.b) {JOIN} WHERE u.b <> 0 AND u.a < 100",
    "joined_groups": f"SELECT v.h, MAX(u.a / u.b) AS m, SUM(u.f) AS s {JOIN} WHERE u.b <> 0 AND u.f < 100 GROUP BY v.h",
    "linked": "SELECT COUNT(*) FROM u JOIN v ON u.a * 4 = v.k WHERE u.a < 100",
    "everything": f"SELECT COUNT(*) {JOIN}",
    "plain_groups": "SELECT g, COUNT(*) AS n FROM u GROUP BY g",
}


def rows(rng, number, keys=30):
    """Rows of u, a third of which fail in some expression: divisors of 0, values near 2^63, NaN, infinities."""
    bad = rng.random(number) < 0.3
    large = bad & (rng.random(number) < 0.5)
    money = [10**24 * int(x) for x in large]
    return pa.table(
        {
            "k": pa.array(rng.integers(0, keys, number), pa.int32(), mask=rng.random(number) < 0.1),
            "a": pa.array(np.where(large, 2**62, rng.integers(0, 20, number)), mask=rng.random(number) < 0.1),
            "b": pa.array(np.where(bad, 0, rng.choice([1, 2, 4], number)), mask=rng.random(number) < 0.1),
            "f": pa.array(
                np.where(bad, rng.choice([nan, inf, 1e200], number), rng.integers(0, 9, number) / 4)
            ),
            "m": pa.array(money, pa.decimal128(30, 2)),
            "g": pa.array([f"g{x}" for x in rng.integers(0, 5, number)]),
        }
    )


def others(rng, number, keys=30):
    """Rows of v."""
    return pa.table(
        {
            "k": pa.array(rng.integers(0, keys, number), pa.int32()),
            "h": pa.array(rng.integers(0, 3, number), pa.int32()),
        }
    )


def workload(queries, budget="4 MB"):
    """A workload of some of the queries."""
    made = el.Workload(budget=budget, seed=3)
    for stream, schema in STREAMS.items():
        made.stream(stream, schema)
    for name, text in queries.items():
        made.query(name, text)
    return made
