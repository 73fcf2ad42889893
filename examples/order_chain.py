"""Three streams in one join, planned by statistics: what the orders of one segment's customers weigh.

Customers, their orders and the items of these meet on keys. No Spark: everything from Arrow tables, with NumPy.
"""

import numpy as np
import pyarrow as pa

import eddyline as el

rng = np.random.default_rng(3)
customers = pa.table({"customer": np.arange(3_000), "segment": rng.integers(0, 5, 3_000).astype(np.int32)})
orders = pa.table({"order": np.arange(30_000), "customer": rng.integers(0, 3_000, 30_000)})
items = pa.table({"order": rng.integers(0, 30_000, 120_000), "grams": rng.integers(1, 900, 120_000)})
streams = {"customers": customers, "orders": orders, "items": items}

CHAIN = """FROM customers c JOIN orders o ON c.customer = o.customer JOIN items i ON o.order = i.order
WHERE c.segment = 2"""
w = el.Workload(budget="512 KB", seed=11)
w.stream("customers", "customer BIGINT, segment INT")
w.stream("orders", "`order` BIGINT, customer BIGINT").stream("items", "`order` BIGINT, grams BIGINT")
w.query("items_sold", f"SELECT COUNT(*) {CHAIN}")
w.query("grams_sold", f"SELECT SUM(i.grams) {CHAIN}")
w.query(
    "orders_placed",
    "SELECT COUNT(*) FROM customers c JOIN orders o ON c.customer = o.customer WHERE c.segment = 2",
)


def filled(plan: el.Plan) -> el.State:
    """Return the plan's state after all rows."""
    state = plan.empty()
    for name, table in streams.items():
        state.update(name, table)
    return state


statistics = filled(w.analysis()).statistics()  # on Spark: w.analyze(spark, frames)
plan = w.plan(statistics=statistics)
print(plan.explain(), end="\n\n")
state = filled(plan)

ordered_by = orders["customer"].to_numpy()
chosen = customers["segment"].to_numpy()[ordered_by] == 2
sold = chosen[items["order"].to_numpy()]
exact = {
    "items_sold": int(sold.sum()),
    "grams_sold": int(items["grams"].to_numpy()[sold].sum()),
    "orders_placed": int(chosen.sum()),
}
for name, value in exact.items():
    print(f"{name}: {state.answer(name)} | exact: {value:,}")
print(f"{state.nbytes:,} bytes for {sum(table.num_rows for table in streams.values()):,} rows")
