"""A store that moves on by real commits, without Spark: two streams of orders and visits with deletes."""

import numpy as np
import pyarrow as pa

import eddyline as el
from eddyline.api.durable import from_epoch, stamp
from eddyline.api.state import State
from eddyline.ingest.sections import to_sections
from eddyline.store import Store

REGIONS = ("north", "south", "east", "west")
QUERIES = {
    "orders_kept": "SELECT COUNT(*) FROM orders",
    "visits_by_buyers": "SELECT COUNT(*) FROM orders o JOIN visits v ON o.customer = v.customer",
    "money": "SELECT SUM(o.total) FROM orders o JOIN visits v ON o.customer = v.customer",
    "buyers": "SELECT COUNT(DISTINCT customer) FROM orders",
    "by_region": "SELECT region, COUNT(*) AS n, SUM(total) AS money FROM orders GROUP BY region",
    "busiest": "SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer",
}


def plan(queries=QUERIES, budget="32 KB", seed=7):
    workload = el.Workload(budget=budget, seed=seed)
    workload.stream("orders", "customer BIGINT, region STRING, total DECIMAL(12,2)", changes="w")
    workload.stream("visits", "customer BIGINT, seconds INT", changes="w")
    for name, text in queries.items():
        workload.query(name, text)
    return workload.plan()


def orders(number, rows=2_000, regions=REGIONS):
    rng = np.random.default_rng([number, 1])
    cents = rng.integers(100, 20_000, rows)
    return pa.table(
        {
            "customer": (rng.zipf(1.3, rows) % 5_000).astype(np.int64),
            "region": [regions[i] for i in rng.integers(0, len(regions), rows)],
            "total": pa.array([f"{c // 100}.{c % 100:02d}" for c in cents]).cast(pa.decimal128(12, 2)),
            "w": rng.choice([1, 1, 1, 1, -1], rows),
        }
    )


def visits(number, rows=2_000):
    rng = np.random.default_rng([number, 2])
    return pa.table(
        {
            "customer": (rng.zipf(1.3, rows) % 5_000).astype(np.int64),
            "seconds": rng.integers(0, 300, rows).astype(np.int32),
            "w": np.ones(rows, np.int64),
        }
    )


class MovingStore:
    """A writer that commits one batch of a stream at a time, as a run does."""

    def __init__(self, where, made=None):
        self.plan = made or plan()
        self.where = str(where)
        empty = to_sections(self.plan.empty().snapshot)
        self.store = Store.create(self.where, stamp(self.plan.layout), "tests", empty)
        self.batches = {stream.name: 0 for stream in self.plan.layout.streams}

    def commit(self, stream, table, *, bad=0, late=0):
        number = self.batches[stream]
        weights = table["w"].to_numpy()

        def added(epoch):
            return to_sections(State(from_epoch(epoch)).update(stream, table).snapshot)

        self.store.commit(
            stream,
            "tests",
            number,
            added,
            rows=len(table),
            deletes=int((weights < 0).sum()),
            bad=bad,
            late=late,
        )
        self.batches[stream] = number + 1

    def move(self, rows=2_000):
        """Commit the next batch of each stream."""
        for stream, table in (("orders", orders), ("visits", visits)):
            self.commit(stream, table(self.batches[stream], rows))

    def close(self):
        self.store.close()
