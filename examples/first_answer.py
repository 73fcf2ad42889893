"""A first answer, without Spark: two streams, a join, deletes, and an interval that holds."""

import numpy as np

import eddyline as el

w = el.Workload(budget="64 KB", seed=7)
w.stream("orders", "order_id BIGINT, customer BIGINT")
w.stream("visits", "customer BIGINT, seconds INT")
w.query("visits_by_buyers", "SELECT COUNT(*) FROM orders o JOIN visits v ON o.customer = v.customer")
w.query("buyers", "SELECT COUNT(DISTINCT customer) FROM orders")
plan = w.plan()

rng = np.random.default_rng(0)
buyers = (5_000 * rng.random(100_000) ** 3).astype(np.int64)
visitors = (5_000 * rng.random(100_000) ** 3).astype(np.int64)
state = plan.empty()
state.update("orders", {"order_id": np.arange(100_000), "customer": buyers})
state.update("visits", {"customer": visitors, "seconds": rng.integers(0, 300, 100_000, dtype=np.int32)})

# a fifth of the orders is canceled: a delete is a weight of -1
state.update("orders", {"order_id": np.arange(20_000), "customer": buyers[:20_000]}, np.full(20_000, -1))

exact = int(np.bincount(buyers[20_000:], minlength=5_000) @ np.bincount(visitors, minlength=5_000))
print(state.answer("visits_by_buyers"), "| exact:", f"{exact:,}")
print(state.answer("buyers"), "| exact:", f"{len(np.unique(buyers[20_000:])):,}")
print(state.frequent("orders", "customer", top=3)[0])
print(f"{state.nbytes:,} bytes")
