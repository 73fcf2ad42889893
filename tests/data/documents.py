"""Three streams with few distinct keys, and a query of every kind that `method="document"` answers.

`i` and `l` are `b`, spread over all INT and BIGINT keys: too many to try each, so that dense ones are searched for.
"""

import numpy as np
import pyarrow as pa

import eddyline as el
from tests.oracles.duckdb_sql import exact

SCHEMAS = {
    "r": "a SMALLINT, b SMALLINT, i INT, l BIGINT",
    "s": "b SMALLINT, c SMALLINT, i INT, l BIGINT",
    "t": "c SMALLINT, x DOUBLE",
}
JOINED = "FROM r JOIN s ON r.b = s.b"
QUERIES = {
    "two": f"SELECT COUNT(*) {JOINED}",
    "sum": f"SELECT SUM(s.c) {JOINED} WHERE r.a > 5",
    "mean": f"SELECT AVG(s.c) {JOINED}",
    "itself": "SELECT COUNT(*) FROM r r1 JOIN r r2 ON r1.b = r2.b",
    "wide": "SELECT SUM(t.x) FROM s JOIN t ON s.c = t.c",
    "ints": "SELECT COUNT(*) FROM r JOIN s ON r.i = s.i",
    "longs": "SELECT SUM(s.c) FROM r JOIN s ON r.l = s.l WHERE s.c > 1",
    "chain": f"SELECT COUNT(*) {JOINED} JOIN t ON s.c = t.c",
    "distinct": "SELECT COUNT(DISTINCT a) FROM r",
    "union": "SELECT COUNT(*) FROM (SELECT b FROM r UNION SELECT b FROM s)",
    "both": "SELECT COUNT(*) FROM (SELECT b FROM r INTERSECT SELECT b FROM s)",
    "except": "SELECT COUNT(*) FROM (SELECT b FROM r EXCEPT SELECT b FROM s)",
    "nested": "SELECT COUNT(*) FROM ((SELECT b FROM r EXCEPT SELECT b FROM s) UNION SELECT c FROM t)",
    "pairs": f"SELECT COUNT(DISTINCT r.a, s.c) {JOINED}",
    "semi": f"SELECT COUNT(DISTINCT r.a) {JOINED}",
    "tuples": f"SELECT COUNT(DISTINCT r.a, r.b) {JOINED}",
    "full": f"SELECT COUNT(DISTINCT r.a, r.b, s.c) {JOINED}",
    "rows": "SELECT COUNT(*) FROM r",
}


def spread(keys):
    """Return the columns of wide keys: as many values as `keys`, half of them negative."""
    words = keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return {"i": (words >> np.uint64(32)).astype(np.uint32).view(np.int32), "l": words.view(np.int64)}


def drawn(seed, rows=700):
    rng = np.random.default_rng(seed)
    few = lambda most: (rng.zipf(1.3, rows) % most).astype(np.int16)  # noqa: E731 - three columns of one shape
    c = np.where(rng.random(rows) < 0.02, None, few(300))
    a, left, right = rng.integers(-300, 300, rows).astype(np.int16), few(700), few(500)
    return {
        "r": pa.table({"a": a, "b": left, **spread(left)}),
        "s": pa.table({"b": right, "c": pa.array(c, pa.int16()), **spread(right)}),
        "t": pa.table({"c": few(300), "x": rng.random(rows)}),
    }


def asked(queries=QUERIES, **settings):
    options = {"budget": "16 MB", "seed": 5, "samples": False, "method": "document", "max_distinct": 1 << 10}
    workload = el.Workload(**{**options, **settings})
    for name, schema in SCHEMAS.items():
        workload.stream(name, schema)
    for name, sql in queries.items():
        workload.query(name, sql)
    return workload


def by_duckdb(sql, tables):
    """Return the exact answer; Spark's COUNT(DISTINCT x, y) leaves out rows in which either is NULL."""
    for columns in ("r.a, s.c", "r.a, r.b, s.c", "r.a, r.b"):
        known = " AND ".join(f"{column} IS NOT NULL" for column in columns.split(", "))
        sql = sql.replace(f"DISTINCT {columns})", f"DISTINCT CASE WHEN {known} THEN ({columns}) END)")
    return exact(sql, tables)


def filled(plan, tables, weight=1):
    state = plan.empty()
    for name, table in tables.items():
        state.update(name, table, np.full(table.num_rows, weight))
    return state
