"""Streams that form cycles and carry columns to compare: dates, texts, decimals of different scale, NULLs everywhere."""

from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa

import eddyline as el
from tests.data.groups import with_nulls

STREAMS = {
    "r": "a BIGINT, b BIGINT, day DATE, price DECIMAL(9,2), name STRING, vip BOOLEAN",
    "s": "b BIGINT, c INT, day DATE, cost DECIMAL(12,4), name STRING, n INT",
    "t": "c BIGINT, a DECIMAL(10,0), d BIGINT, ts TIMESTAMP, m INT",
    "u": "d BIGINT, a BIGINT, name STRING",
    "e": "src BIGINT, dst BIGINT, w INT",
}
RS = "FROM r JOIN s ON r.b = s.b"
TRIANGLE = "FROM r JOIN s ON r.b = s.b JOIN t ON s.c = t.c AND t.a = r.a"
SQUARE = "FROM r, s, t, u WHERE r.b = s.b AND s.c = t.c AND t.d = u.d AND u.a = r.a"
EDGES = "FROM e x JOIN e y ON x.dst = y.src JOIN e z ON y.dst = z.src AND z.dst = x.src"
QUERIES = {
    "less": f"SELECT COUNT(*) {RS} WHERE r.day < s.day",
    "at_most": f"SELECT COUNT(*) {RS} AND r.day <= s.day",
    "other": f"SELECT COUNT(*) {RS} WHERE r.name <> s.name",
    "texts": f"SELECT COUNT(*) {RS} WHERE r.name > s.name",
    "decimals": f"SELECT COUNT(*) {RS} WHERE r.price >= s.cost",
    "decimal_with_int": f"SELECT COUNT(*) {RS} WHERE r.price < s.n",
    "arithmetic": f"SELECT COUNT(*) {RS} WHERE r.a + 1 <= s.n",
    "mixed_sides": f"SELECT COUNT(*) {RS} WHERE r.a + s.n > r.price",
    "mixed_equality": f"SELECT COUNT(*) {RS} WHERE r.a + s.n = 5",
    "between": f"SELECT COUNT(*) {RS} WHERE r.a BETWEEN s.c AND s.n",
    "not_between": f"SELECT COUNT(*) {RS} WHERE NOT (r.a BETWEEN s.c AND s.n)",
    "in_list": f"SELECT COUNT(*) {RS} WHERE r.a IN (s.c, s.n, 7)",
    "either": f"SELECT COUNT(*) {RS} WHERE r.vip OR s.n > 3",
    "either_pair": f"SELECT COUNT(*) {RS} WHERE (r.name = 'x' AND s.name = 'y') OR (r.name = 'y' AND s.name = 'x')",
    "null_test": f"SELECT COUNT(*) {RS} WHERE r.name IS NULL OR s.n IS NULL",
    "coalesce": f"SELECT COUNT(*) {RS} WHERE COALESCE(r.a, s.n) = 2",
    "case": f"SELECT COUNT(*) {RS} WHERE CASE WHEN r.vip THEN r.a ELSE s.n END > 2",
    "negated": f"SELECT COUNT(*) {RS} WHERE NOT r.day = s.day",
    "years": f"SELECT COUNT(*) {RS} WHERE year(r.day) = year(s.day) AND month(r.day) <> month(s.day)",
    "two": f"SELECT COUNT(*) {RS} WHERE r.day < s.day AND r.price > s.cost AND r.name <> s.name",
    "count_of": f"SELECT COUNT(s.n) {RS} WHERE r.day < s.day",
    "sum": f"SELECT SUM(r.price) {RS} WHERE r.day < s.day",
    "sum_product": f"SELECT SUM(r.price * s.n) {RS} WHERE r.day <> s.day AND s.n > 0",
    "avg": f"SELECT AVG(s.n) {RS} WHERE r.a < s.c",
    "variance": f"SELECT VARIANCE(s.n) {RS} WHERE r.a < s.c",
    "stddev": f"SELECT STDDEV_POP(r.price) {RS} WHERE r.day >= s.day",
    "distinct": f"SELECT COUNT(DISTINCT r.name) {RS} WHERE r.day < s.day",
    "median": f"SELECT MEDIAN(s.n) {RS} WHERE r.day < s.day",
    "extremes": f"SELECT MIN(s.n) AS lo, MAX(r.a) AS hi, COUNT(*) AS n {RS} WHERE r.day < s.day",
    "never": f"SELECT COUNT(*) {RS} WHERE r.a < s.n AND r.a > s.n",
    "comma": "SELECT COUNT(*) FROM r, s WHERE r.day < s.day AND s.b = r.b",
    "groups": f"SELECT r.name, COUNT(*) AS n, SUM(s.n) AS q, AVG(r.price) AS p {RS} WHERE r.day < s.day GROUP BY r.name",
    "compared_groups": f"SELECT r.day, s.day AS d, COUNT(*) AS n {RS} WHERE r.day < s.day GROUP BY r.day, s.day",
    "by_join_column": f"SELECT r.b, COUNT(*) AS n {RS} WHERE r.day < s.day GROUP BY r.b",
    "having": f"SELECT r.name, COUNT(*) AS n {RS} WHERE r.a <> s.n GROUP BY r.name HAVING COUNT(*) > 2 AND SUM(s.n) > 1",
    "having_of_rows": f"SELECT r.a, s.n, COUNT(*) AS k {RS} GROUP BY r.a, s.n HAVING r.a < s.n",
    "group_details": f"SELECT s.name, COUNT(DISTINCT r.a) AS d, MEDIAN(r.a) AS m {RS} WHERE r.a <> s.n GROUP BY s.name",
    "composite": "SELECT COUNT(*) FROM r JOIN s ON r.b = s.b AND r.name = s.name WHERE r.day < s.day",
    "one_link_of_three": "SELECT COUNT(*) FROM r JOIN t ON r.a = t.a JOIN u ON u.a = t.a WHERE r.b < t.d AND t.d <> u.d",
    "triangle": f"SELECT COUNT(*) {TRIANGLE}",
    "triangle_sum": f"SELECT SUM(r.price * t.m) {TRIANGLE}",
    "triangle_compared": f"SELECT COUNT(*) {TRIANGLE} WHERE s.n < t.m AND r.vip OR s.n = 4",
    "triangle_groups": f"SELECT s.name, t.m, COUNT(*) AS n, AVG(r.price) AS p {TRIANGLE} GROUP BY s.name, t.m",
    "triangle_of_closing": f"SELECT s.c, COUNT(*) AS n {TRIANGLE} GROUP BY s.c",
    "triangle_composite": "SELECT COUNT(*) FROM r JOIN s ON r.b = s.b AND r.day = s.day JOIN t ON t.c = s.c AND t.a = r.a",
    "closed_by_decimals": "SELECT COUNT(*) FROM r JOIN s ON r.b = s.b JOIN t ON r.a = t.a AND t.d = s.cost",
    "closed_by_texts": "SELECT COUNT(*) FROM r JOIN s ON r.b = s.b JOIN u ON r.a = u.a AND u.name = s.name",
    "square": f"SELECT COUNT(*) {SQUARE}",
    "square_chord": f"SELECT COUNT(*) {SQUARE} AND r.name <> u.name AND s.n <= t.m",
    "square_diagonal": f"SELECT COUNT(*) {SQUARE} AND s.name = u.name",
    "square_groups": f"SELECT u.name, COUNT(*) AS n {SQUARE} GROUP BY u.name",
    "three_relations": "SELECT COUNT(*) FROM r JOIN s ON r.b = s.b JOIN t ON s.c = t.c WHERE r.a + s.n > t.m",
    "ends_of_a_chain": "SELECT COUNT(*) FROM r JOIN s ON r.b = s.b JOIN t ON s.c = t.c WHERE r.day < CAST(t.ts AS DATE)",
    "own_pairs": "SELECT COUNT(*) FROM e x JOIN e y ON x.src = y.src AND x.dst < y.dst",
    "edges": f"SELECT COUNT(*) {EDGES}",
    "edges_ordered": f"SELECT COUNT(*) {EDGES} WHERE x.src < y.src AND y.src < z.src",
    "edges_weighed": f"SELECT x.w, SUM(y.w * z.w) AS s {EDGES} GROUP BY x.w",
    "walks": "SELECT COUNT(*) FROM e x JOIN e y ON x.dst = y.src JOIN e z ON y.dst = z.src WHERE x.src <> z.dst",
}


def _days(rng, rows):
    return with_nulls(
        rng, [date(2020 + int(x) % 2, 1 + int(x) % 12, 3) for x in rng.integers(0, 24, rows)], pa.date32()
    )


def _numbers(rng, rows, values, kind=None):
    return with_nulls(rng, rng.integers(0, values, rows), kind or pa.int64())


def _decimals(rng, rows, divisor, kind):
    return with_nulls(rng, [Decimal(int(x)) / divisor for x in rng.integers(-20, 40, rows)], kind)


def _names(rng, rows):
    return with_nulls(rng, rng.choice(["x", "y", "", "ä", "yx"], rows), pa.string())


def tables(rng, rows, keys):
    """Rows of all streams."""
    stamps = [
        datetime(2020 + int(x) % 2, 1 + int(x) % 12, 3, 23, tzinfo=UTC) for x in rng.integers(0, 24, rows)
    ]
    whole = [Decimal(int(x)) for x in rng.integers(0, keys, rows)]
    return {
        "r": pa.table(
            {
                "a": _numbers(rng, rows, keys),
                "b": _numbers(rng, rows, keys),
                "day": _days(rng, rows),
                "price": _decimals(rng, rows, 4, pa.decimal128(9, 2)),
                "name": _names(rng, rows),
                "vip": with_nulls(rng, rng.random(rows) < 0.3, pa.bool_()),
            }
        ),
        "s": pa.table(
            {
                "b": _numbers(rng, rows, keys),
                "c": _numbers(rng, rows, keys, pa.int32()),
                "day": _days(rng, rows),
                "cost": _decimals(rng, rows, 8, pa.decimal128(12, 4)),
                "name": _names(rng, rows),
                "n": _numbers(rng, rows, 9, pa.int32()),
            }
        ),
        "t": pa.table(
            {
                "c": _numbers(rng, rows, keys),
                "a": with_nulls(rng, whole, pa.decimal128(10, 0)),
                "d": _numbers(rng, rows, keys),
                "ts": with_nulls(rng, stamps, pa.timestamp("us", "UTC")),
                "m": _numbers(rng, rows, 9, pa.int32()),
            }
        ),
        "u": pa.table(
            {"d": _numbers(rng, rows, keys), "a": _numbers(rng, rows, keys), "name": _names(rng, rows)}
        ),
        "e": pa.table(
            {
                "src": _numbers(rng, rows, keys),
                "dst": _numbers(rng, rows, keys),
                "w": _numbers(rng, rows, 4, pa.int32()),
            }
        ),
    }


def plan_of(queries, budget="8 MB", streams=STREAMS, **settings):
    w = el.Workload(budget=budget, seed=5, timezone="UTC", **settings)
    for name, schema in streams.items():
        w.stream(name, schema)
    for name, text in queries.items():
        w.query(name, text)
    return w.plan()


SKEWED = {
    "r": "a BIGINT, b BIGINT, x INT, g INT",
    "s": "b BIGINT, c BIGINT, y INT",
    "t": "c BIGINT, a BIGINT, z INT",
}


def skewed_tables(rng, rows=4_000, keys=300, closing=60):
    """Rows of three streams that form a triangle, some keys far more frequent than others."""

    def key(values):
        return (values * rng.random(rows) ** 2).astype(np.int64)

    def small(values):
        return rng.integers(0, values, rows).astype(np.int32)

    return {
        "r": pa.table({"a": key(keys), "b": key(keys), "x": small(30), "g": small(6)}),
        "s": pa.table({"b": key(keys), "c": key(closing), "y": small(30)}),
        "t": pa.table({"c": key(closing), "a": key(keys), "z": small(30)}),
    }
