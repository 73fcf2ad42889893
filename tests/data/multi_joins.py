"""Four streams of a shop, queries that join them, and a workload of sketches that answers them."""

from decimal import Decimal

import numpy as np
import pyarrow as pa

import eddyline as el

SCHEMAS = {
    "customers": "ck BIGINT, segment STRING, nation INT",
    "orders": "ok BIGINT, ck INT, day INT, total DECIMAL(10,2)",
    "items": "ok BIGINT, part INT, qty INT, price DOUBLE",
    "nations": "nation INT, name STRING",
}
CHAIN = "FROM customers c JOIN orders o ON c.ck = o.ck JOIN items i ON o.ok = i.ok"
QUERIES = {
    "chain": f"SELECT COUNT(*) {CHAIN} WHERE c.segment = 'a' AND o.day < 50",
    "revenue": f"SELECT SUM(i.qty * o.total) {CHAIN} WHERE c.segment = 'a'",
    "mean": f"SELECT AVG(i.price) {CHAIN} WHERE o.day < 50",
    "spread": f"SELECT STDDEV(o.total) {CHAIN}",
    "var": f"SELECT VAR_POP(i.price) {CHAIN}",
    "priced": f"SELECT COUNT(i.price) {CHAIN}",
    "four": f"SELECT COUNT(*) {CHAIN} JOIN nations n ON n.nation = c.nation WHERE n.name <> 'n3'",
    "one_link": "SELECT COUNT(*) FROM orders a, orders b, items i WHERE a.ok = b.ok AND b.ok = i.ok",
    "aliases": "SELECT COUNT(*) FROM orders o, orders p, customers c WHERE o.day = p.day AND p.ck = c.ck",
    "composite": "SELECT COUNT(*) FROM orders o, orders p, items i WHERE o.ck = p.ck AND o.day = p.day AND p.ok = i.ok",
}


def tables(seed=1, rows=3000):
    rng = np.random.default_rng(seed)
    orders = rows // 3
    total = [Decimal(int(each)).scaleb(-2) for each in rng.integers(100, 99_999, orders)]
    price = np.round(rng.gamma(2.0, 20.0, rows), 2)
    return {
        "customers": pa.table(
            {
                "ck": np.arange(100),
                "segment": pa.array(np.array(["a", "b"])[rng.integers(0, 2, 100)]),
                "nation": rng.integers(0, 7, 100).astype(np.int32),
            }
        ),
        "orders": pa.table(
            {
                "ok": np.arange(orders),
                "ck": (120 * rng.random(orders) ** 2).astype(np.int32),
                "day": rng.integers(0, 100, orders).astype(np.int32),
                "total": pa.array(total, pa.decimal128(10, 2)),
            }
        ),
        "items": pa.table(
            {
                "ok": (1.1 * orders * rng.random(rows) ** 1.5).astype(np.int64),
                "part": rng.integers(0, 40, rows).astype(np.int32),
                "qty": rng.integers(1, 9, rows).astype(np.int32),
                "price": pa.array(price, mask=rng.random(rows) < 0.1),
            }
        ),
        "nations": pa.table({"nation": np.arange(7, dtype=np.int32), "name": [f"n{i}" for i in range(7)]}),
    }


def workload(seed=0, budget="1 MB", queries=QUERIES, **options):
    made = el.Workload(budget=budget, seed=seed, max_distinct=1 << 16, samples=False)
    for name, schema in SCHEMAS.items():
        made.stream(name, schema)
    for name, text in queries.items():
        made.query(name, text, **options)
    return made


def filled(plan, data):
    state = plan.empty()
    for name, table in data.items():
        half = table.num_rows // 2
        state.update(name, table)
        state.update(name, table.slice(0, half))
        state.update(name, table.slice(0, half), weights=-np.ones(half, dtype=np.int64))
    return state
