"""A stream with a column of every type, rows that are hard on it, and texts that are hard on queries."""

import datetime as dt
import re
from decimal import Decimal

import pyarrow as pa
from hypothesis import strategies as st

import eddyline as el

DDL = (
    "k BIGINT, j INT, s STRING, d DECIMAL(10,2), wide DECIMAL(38,0), t DATE, b BOOLEAN, "
    "x INT, p DECIMAL(8,2), f DOUBLE"
)
SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("j", pa.int32()),
        ("s", pa.string()),
        ("d", pa.decimal128(10, 2)),
        ("wide", pa.decimal128(38, 0)),
        ("t", pa.date32()),
        ("b", pa.bool_()),
        ("x", pa.int32()),
        ("p", pa.decimal128(8, 2)),
        ("f", pa.float64()),
    ]
)
STREAMS = ("r", "u", "v")
ROW = st.fixed_dictionaries(
    {
        "k": st.none() | st.sampled_from([-(2**63), 2**63 - 1, -1, 0, 1]),
        "j": st.none() | st.integers(-1, 1),
        "s": st.none() | st.sampled_from(["", "a", "é", "a "]),
        "d": st.none() | st.sampled_from([Decimal("0.00"), Decimal("-0.01"), Decimal("12345678.90")]),
        "wide": st.none() | st.sampled_from([Decimal(10**37), Decimal(10**37 + 1), Decimal(-1)]),
        "t": st.none() | st.sampled_from([dt.date(1969, 12, 31), dt.date(2024, 2, 29)]),
        "b": st.none() | st.booleans(),
        "x": st.none() | st.sampled_from([-(2**31), 2**31 - 1, 0, 1, -5]),
        "p": st.none() | st.decimals(-9, 9, places=2, allow_nan=False),
        "f": st.none() | st.sampled_from([-0.0, 0.5, -1.25, 3e6]),
    }
)

TEXTS = {
    # keys of all types
    "bigint": "SELECT COUNT(*) FROM r JOIN u ON r.k = u.k",
    "boolean": "SELECT COUNT(*) FROM r JOIN u ON r.b = u.b",
    "boolean key and predicate": "SELECT COUNT(*) FROM r JOIN u ON r.b = u.b AND r.j = u.j WHERE r.b",
    "composite": "SELECT COUNT(*) FROM r JOIN u ON r.s = u.s AND r.j = u.j",
    "decimal": "SELECT COUNT(*) FROM r JOIN u ON r.d = u.d",
    "decimal of 38 digits": "SELECT COUNT(*) FROM r JOIN u ON r.wide = u.wide",
    "date": "SELECT COUNT(*) FROM r JOIN u ON r.t = u.t",
    "int against bigint": "SELECT COUNT(*) FROM r JOIN u ON r.j = u.k",
    "expression": "SELECT COUNT(*) FROM r JOIN u ON UPPER(r.s) = UPPER(u.s)",
    "one column twice": "SELECT COUNT(*) FROM r JOIN u ON r.k = u.k AND r.k = u.j",
    "both columns of either": "SELECT COUNT(*) FROM r JOIN u ON r.k = u.k AND r.j = u.k",
    "decimal against int": "SELECT COUNT(*) FROM r JOIN u ON r.d = u.j",
    "decimals of two scales": "SELECT COUNT(*) FROM r JOIN u ON r.p = CAST(u.j AS DECIMAL(12,1)) AND r.d = u.p",
    "minus": "SELECT COUNT(*) FROM r JOIN u ON -r.j = u.j",
    "key that is a condition": "SELECT COUNT(*) FROM r JOIN u ON (r.j > 0 OR r.b) = u.b",
    "key by CASE": "SELECT COUNT(*) FROM r JOIN u ON CASE WHEN r.b THEN r.j END = COALESCE(u.j, u.k)",
    "USING twice": "SELECT COUNT(j) FROM r JOIN u USING (j, b) JOIN v USING (j)",
    # aggregates and measures
    "count of a column": "SELECT COUNT(u.x) FROM r JOIN u ON r.k = u.k",
    "sum": "SELECT SUM(u.x) FROM r JOIN u ON r.k = u.k",
    "sum of decimals": "SELECT SUM(r.p) FROM r JOIN u ON r.k = u.k WHERE r.x > 0",
    "sum of doubles": "SELECT SUM(u.f) FROM r JOIN u ON r.k = u.k",
    "measures on both sides": "SELECT SUM(r.p * u.p) FROM r JOIN u ON r.j = u.j",
    "average": "SELECT AVG(u.p) FROM r JOIN u ON r.k = u.k",
    "average of a product": "SELECT AVG(r.p * u.j) FROM r JOIN u ON r.k = u.k",
    "sample variance": "SELECT VAR_SAMP(u.j) FROM r JOIN u ON r.k = u.k",
    "variance": "SELECT VAR_POP(u.p) FROM r JOIN u ON r.k = u.k",
    "deviation": "SELECT STDDEV_SAMP(u.p) FROM r JOIN u ON r.j = u.j",
    "deviation of a product": "SELECT STDDEV_POP(r.j * u.p) FROM r JOIN u ON r.k = u.k",
    # predicates
    "predicate that is NULL": "SELECT COUNT(*) FROM r JOIN u ON r.k = u.k WHERE r.x > NULL",
    "NULL alone": "SELECT SUM(u.x) FROM r JOIN u ON r.k = u.k WHERE NULL",
    "always": "SELECT COUNT(*) FROM r JOIN u ON r.k = u.k WHERE 1 = 1",
    "never": "SELECT AVG(u.x) FROM r JOIN u ON r.k = u.k WHERE 1 = 0",
    "IS NULL": "SELECT COUNT(*) FROM r JOIN u ON r.k = u.k WHERE r.x IS NULL AND u.s IS NOT NULL",
    "two predicates on one stream": "SELECT COUNT(*) FROM r y JOIN r z ON y.k = z.k WHERE y.x > 0 AND z.x <= 0",
    "one predicate on two": "SELECT COUNT(*) FROM r y JOIN r z ON y.k = z.k WHERE y.x > 0 AND z.x > 0",
    "NOT IN a list with NULL": "SELECT COUNT(*) FROM r JOIN u ON r.k = u.k WHERE r.j NOT IN (1, NULL)",
    "NOT IN": "SELECT COUNT(*) FROM r JOIN u ON r.k = u.k WHERE NOT (r.j IN (1, -1) OR r.b) AND u.j NOT IN (1)",
    "NOT BETWEEN with NULL": "SELECT COUNT(*) FROM r JOIN u ON r.k = u.k WHERE r.j NOT BETWEEN 0 AND NULL",
    "NOT LIKE": "SELECT COUNT(*) FROM r JOIN u ON r.k = u.k WHERE r.s NOT LIKE 'a%' AND u.s LIKE '_'",
    "CASE without ELSE": "SELECT COUNT(*) FROM r JOIN u ON r.k = u.k WHERE NOT CASE WHEN r.j > 0 THEN r.b END",
    "booleans compared": "SELECT COUNT(*) FROM r JOIN u ON r.k = u.k WHERE (r.j > 0) = r.b AND NOT u.b = (u.j = 0)",
    "one value of a key": "SELECT COUNT(*) FROM r JOIN u ON r.j = u.j AND r.j = 1 AND u.j = 0",
    "spread of one value": "SELECT VARIANCE(r.j) FROM r JOIN u ON r.k = u.k WHERE r.j = 1",
    # shapes
    "self-join": "SELECT COUNT(*) FROM r y JOIN r z ON y.k = z.k",
    "one relation three times": "SELECT COUNT(*) FROM r x JOIN r y ON x.k = y.k JOIN r z ON y.k = z.k",
    "path over one table": "SELECT COUNT(*) FROM r x JOIN r y ON x.j = y.k JOIN r z ON y.j = z.k",
    "star": "SELECT SUM(v.p) FROM r JOIN u ON r.k = u.k JOIN v ON r.s = v.s",
    "three at one link": "SELECT COUNT(*) FROM r JOIN u ON r.k = u.k JOIN v ON u.k = v.k WHERE v.x IS NOT NULL",
    "four relations": "SELECT SUM(x.j) FROM r x JOIN r y ON x.k = y.k JOIN u ON y.j = u.j JOIN v ON u.s = v.s",
    "five relations": (
        "SELECT COUNT(*) FROM u JOIN r y ON y.k = u.k JOIN r z ON z.j = u.j JOIN v ON v.s = u.s "
        "JOIN u w ON w.t = u.t"
    ),
    # conditions between relations
    "predicate over two": "SELECT COUNT(*) FROM r JOIN u ON r.k = u.k WHERE r.x > 0 OR u.x > 0",
    "comparison with NULLs": "SELECT COUNT(*) FROM r JOIN u ON r.k = u.k WHERE NOT (r.p <= u.d) AND r.s <> u.s",
    "comparison of times": "SELECT SUM(u.x) FROM r JOIN u ON r.k = u.k AND r.t >= u.t",
    "cycle": "SELECT COUNT(*) FROM r JOIN u ON r.k = u.k JOIN v ON u.j = v.j AND v.d = r.d",
    "cycle over one table": "SELECT COUNT(*) FROM r x JOIN r y ON x.j = y.k JOIN r z ON y.j = z.k AND z.j = x.k",
    # distinct counts, sets, semi-joins
    "distinct": "SELECT COUNT(DISTINCT k) FROM r",
    "distinct booleans": "SELECT COUNT(DISTINCT b) FROM r WHERE x > 0",
    "distinct tuples": "SELECT COUNT(DISTINCT k, s) FROM r",
    "distinct rows": "SELECT COUNT(*) FROM (SELECT DISTINCT j, b FROM r)",
    "intersection": "SELECT COUNT(*) FROM (SELECT k FROM r INTERSECT SELECT k FROM u)",
    "difference under a predicate": "SELECT COUNT(*) FROM (SELECT k, j FROM r EXCEPT SELECT k, j FROM u WHERE x > 0)",
    "union of strings": "SELECT COUNT(*) FROM (SELECT s FROM r UNION SELECT s FROM u)",
    "disjoint parts of one stream": (
        "SELECT COUNT(*) FROM (SELECT k FROM r WHERE x > 0 INTERSECT SELECT k FROM r WHERE x <= 0)"
    ),
    "three sets": "SELECT COUNT(*) FROM ((SELECT j FROM r UNION SELECT j FROM v) EXCEPT SELECT j FROM u)",
    "distinct of one column twice": "SELECT COUNT(DISTINCT j, j) FROM r",
    "distinct conditions": "SELECT COUNT(DISTINCT CASE WHEN b THEN j END, x > 0) FROM r",
    "sets bind as in SQL": "SELECT COUNT(*) FROM (SELECT j FROM r EXCEPT SELECT j FROM u UNION SELECT j FROM v INTERSECT SELECT k FROM u)",
    "difference of a difference": "SELECT COUNT(*) FROM (SELECT s FROM r EXCEPT (SELECT s FROM u EXCEPT SELECT s FROM v))",
    "a set without itself": "SELECT COUNT(*) FROM (SELECT s, b FROM r EXCEPT SELECT s, b FROM r)",
    "NULL alone in a set": (
        "SELECT COUNT(*) FROM (SELECT j FROM r WHERE j IS NULL INTERSECT SELECT j FROM u WHERE j IS NULL OR j = 1)"
    ),
    "numbers of three types in a set": "SELECT COUNT(*) FROM (SELECT j FROM r UNION SELECT d FROM u UNION SELECT k FROM v)",
    "pairs of swapped columns": "SELECT COUNT(*) FROM (SELECT k, j FROM r INTERSECT SELECT j, k FROM u)",
    "semi-join with itself": "SELECT COUNT(DISTINCT s) FROM r WHERE k IN (SELECT j FROM r WHERE b)",
    "semi-join on pairs": "SELECT COUNT(DISTINCT s) FROM r WHERE (k, j) IN (SELECT k, j FROM u) AND NOT b",
    "semi-join by EXISTS": (
        "SELECT COUNT(DISTINCT j) FROM r WHERE EXISTS (SELECT 1 FROM u WHERE u.k = r.k AND u.b AND r.x > 0)"
    ),
    "pairs of one stream": "SELECT COUNT(DISTINCT y.j, z.s) FROM r y JOIN r z ON y.k = z.k WHERE y.b AND NOT z.b",
    "pairs": "SELECT COUNT(DISTINCT r.j, u.s) FROM r JOIN u ON r.k = u.k",
    "pairs and the key": "SELECT COUNT(DISTINCT r.j, r.k, u.s) FROM r JOIN u ON r.k = u.k",
    "one side": "SELECT COUNT(DISTINCT r.s) FROM r JOIN u ON r.k = u.k WHERE u.x > 0",
    "semi-join by IN": "SELECT COUNT(DISTINCT r.j) FROM r WHERE r.k IN (SELECT k FROM u WHERE x > 0)",
    "semi-join": "SELECT COUNT(DISTINCT r.s) FROM r LEFT SEMI JOIN u ON r.k = u.k",
    "semi-join without DISTINCT": "SELECT COUNT(*) FROM r WHERE k IN (SELECT k FROM u)",
    "outer join on a guarded key": "SELECT SUM(r.x) FROM r LEFT JOIN u ON r.k = u.k AND r.b AND u.x > 0",
    "anti-join by NOT IN": "SELECT COUNT(*) FROM r WHERE j NOT IN (SELECT j FROM u WHERE j IS NOT NULL)",
    "full join": "SELECT COUNT(*) FROM r FULL JOIN u ON r.k = u.k",
    "distinct rows of a join": "SELECT COUNT(*) FROM (SELECT DISTINCT r.b, u.s FROM r JOIN u ON r.j = u.j)",
}
"""Texts that are answered."""

REFUSED = {
    "double as key": "SELECT COUNT(*) FROM r JOIN u ON r.f = u.f",
    "distinct doubles": "SELECT COUNT(DISTINCT f) FROM r",
    "predicate over two of an outer join": "SELECT COUNT(*) FROM r LEFT JOIN u ON r.k = u.k WHERE r.x > 0 OR u.x > 0",
    "doubles compared": "SELECT COUNT(*) FROM r JOIN u ON r.k = u.k WHERE r.f < u.f",
    "cross product": "SELECT COUNT(*) FROM r JOIN u ON 1 = 1",
    "cycle next to an outer join": (
        "SELECT COUNT(*) FROM r JOIN u ON r.k = u.k JOIN v ON u.j = v.j AND v.d = r.d LEFT JOIN u w ON w.k = r.k"
    ),
}

_TUPLES = re.compile(r"SELECT COUNT\(DISTINCT ([^)]*,[^)]*)\)(.*)")


def for_duckdb(text):
    """The text as DuckDB reads it: it has no COUNT(DISTINCT a, b) of tuples without NULL."""
    text = text.replace("LEFT SEMI JOIN", "SEMI JOIN")
    found = _TUPLES.match(text)
    if found is None:
        return text
    columns = [column.strip() for column in found[1].split(",")]
    there = " AND ".join(f"{column} IS NOT NULL" for column in columns)
    joint = "AND" if "WHERE" in found[2] else "WHERE"
    return f"SELECT COUNT(*) FROM (SELECT DISTINCT {', '.join(columns)}{found[2]} {joint} {there})"


def workload(texts, budget, **settings):
    """A workload of texts, by number."""
    made = el.Workload(budget=budget, timezone="UTC", **{"seed": 1, **settings})
    for name in STREAMS:
        made.stream(name, DDL)
    for number, text in enumerate(texts):
        made.query(f"q{number}", text)
    return made
