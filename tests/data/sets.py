"""Distinct counts and set expressions over three streams of one schema."""

import pyarrow as pa

SETS = {
    "distinct": "SELECT COUNT(DISTINCT a) FROM r",
    "pairs": "SELECT COUNT(DISTINCT b, a) FROM r WHERE a > 1",
    "rows": "SELECT COUNT(*) FROM (SELECT DISTINCT a, b FROM r)",
    "both": "SELECT COUNT(*) FROM (SELECT a FROM r INTERSECT SELECT a FROM s)",
    "either": "SELECT COUNT(*) FROM (SELECT a, b FROM r UNION SELECT a, b FROM s) u",
    "seen_not_there": (
        "SELECT COUNT(*) FROM ((SELECT a FROM r UNION SELECT a FROM s) EXCEPT SELECT a FROM t WHERE b <> 'x')"
    ),
    "precedence": "SELECT COUNT(*) FROM (SELECT a FROM r UNION SELECT a FROM s INTERSECT SELECT a FROM t)",
    "twice": "SELECT COUNT(*) FROM (SELECT a FROM r WHERE b = 'x' EXCEPT (SELECT a FROM r WHERE b = 'y'))",
    "scales": "SELECT COUNT(*) FROM (SELECT a FROM r INTERSECT SELECT d FROM t)",
}
DDL = "a INT, b STRING, d DECIMAL(6,1)"
SCHEMA = pa.schema([("a", pa.int32()), ("b", pa.string()), ("d", pa.decimal128(6, 1))])
