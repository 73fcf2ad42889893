"""A small shop: the same rows in an exact state, in one that is sampled, and in a real PostgreSQL."""

import contextlib
import socket

import numpy as np
import pyarrow as pa

import eddyline as el
from eddyline.serve.postgres.server import WireServer

QUERIES = {
    "by_region": "SELECT region, COUNT(*) AS n, SUM(total) AS money FROM orders GROUP BY region",
    "busiest": "SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer",
    "orders_kept": "SELECT COUNT(*) FROM orders",
    "visits_by_buyers": "SELECT COUNT(*) FROM orders o JOIN visits v ON o.customer = v.customer",
    "by_day": "SELECT day, COUNT(*) AS n FROM visits GROUP BY day",
}
TABLES = """
CREATE TABLE orders (customer bigint, region text, total numeric(12,2), is_paid boolean);
CREATE TABLE visits (customer bigint, seconds int, day date, at timestamp);
CREATE VIEW by_region AS SELECT region, count(*) AS n, sum(total) AS money FROM orders GROUP BY region;
"""


def orders(rows=3_000):
    rng = np.random.default_rng(1)
    cents = rng.integers(100, 20_000, rows)
    return pa.table(
        {
            "customer": (rng.zipf(1.3, rows) % 2_000).astype(np.int64),
            "region": np.array(["north", "south", "east", "west", 'O\'Hare \\ "x"'])[
                rng.integers(0, 5, rows)
            ],
            "total": pa.array([f"{c // 100}.{c % 100:02d}" for c in cents]).cast(pa.decimal128(12, 2)),
            "is_paid": rng.integers(0, 2, rows).astype(bool),
        }
    )


def visits(rows=3_000):
    rng = np.random.default_rng(2)
    days = np.datetime64("2024-02-27") + rng.integers(0, 5, rows)
    return pa.table(
        {
            "customer": (rng.zipf(1.3, rows) % 2_000).astype(np.int64),
            "seconds": rng.integers(0, 300, rows).astype(np.int32),
            "day": pa.array(days, pa.date32()),
            "at": pa.array(
                days.astype("datetime64[us]") + rng.integers(0, 86_400_000_000, rows), pa.timestamp("us")
            ),
        }
    )


def state(budget="4 MB"):
    w = el.Workload(budget=budget, seed=7, timezone="UTC")
    w.stream("orders", "customer BIGINT, region STRING, total DECIMAL(12,2), is_paid BOOLEAN")
    w.stream("visits", "customer BIGINT, seconds INT, day DATE, at TIMESTAMP_NTZ")
    for name, text in QUERIES.items():
        w.query(name, text)
    w.explore("orders", "region", "total", "is_paid")
    w.explore("visits", "seconds", "at")
    return w.plan().empty().update("orders", orders()).update("visits", visits())


@contextlib.contextmanager
def serving(kept, **settings):
    """The host and port of a server of a state."""
    server = WireServer(lambda: kept, socket.create_server(("127.0.0.1", 0)), **settings)
    server.start()
    try:
        yield server
    finally:
        server.stop()
