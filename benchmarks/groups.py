"""How long a GROUP BY answer takes, theirs_shown DuckDB's exact answer over all rows in the same run.

    .venv/bin/python benchmarks/groups.py [--rows 3000000] [--shapes "both ends,one end"] [--patience 60]

    both ends      50 x 20 groups over a many-to-many chain of three streams, of the first and of the last
    one end        1,000 groups of the first stream of the same chain
    held           the same over as many rows as fit 8 MB, so that every group is exact
    star           50 regions x 12 months over customers, orders and items
    stream         groups of a single stream, of which about 100,000 are followed
    details        COUNT(DISTINCT ...) and MEDIAN for 50 groups of a join
    ad hoc         SQL that was not planned, over explored columns of orders and items

All but `held` overflow their 8 MB. In the chain groups have nothing to do with keys, so that nearly every followed
value stands in nearly every group: the worst that a query can ask. Prints the seconds of the first answer, in a process
that has answered the same text over a small state before (kernels are loaded then; `--cold` leaves that out); the best
first answer of some copies of the state; the seconds of a second answer of the same epoch, and of DuckDB, which is
stopped when patience ends. In brackets are those of all processors, which count where others use the machine as well.
"""

import argparse
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import eddyline as el

BATCH = 500_000
BUDGET = "8 MB"
COPIES = 5
Tables = dict[str, pa.Table]
CHAIN = {
    "o": "k BIGINT, g BIGINT, x BIGINT",
    "i": "k BIGINT, j BIGINT, q BIGINT",
    "s": "j BIGINT, h BIGINT",
}
SHOP = {
    "customers": "id BIGINT, region STRING",
    "orders": "id BIGINT, customer BIGINT, month INT, status STRING",
    "items": "order_id BIGINT, sku BIGINT, kind STRING, price BIGINT",
}
MEASURES = "COUNT(*) AS n, SUM(i.q) AS q, AVG(o.x) AS a FROM o JOIN i ON o.k = i.k JOIN s ON i.j = s.j"
SOLD = "FROM orders o JOIN items i ON o.id = i.order_id"


@dataclass(frozen=True)
class Shape:
    """A query over streams, and their rows; planned: the query that is planned in its place if it is ad hoc."""

    streams: dict[str, str]
    text: str
    rows: Callable[[np.random.Generator, int], Tables]
    planned: str = ""
    explored: tuple[tuple[str, ...], ...] = ()

    def state(self, tables: Tables) -> el.State:
        """Return the state after all rows, the streams taking turns by the batch."""
        w = el.Workload(budget=BUDGET, seed=1)
        for name, schema in self.streams.items():
            w.stream(name, schema)
        for name, *columns in self.explored:
            w.explore(name, *columns)
        state = w.query("q", self.planned or self.text).plan().empty()
        longest = max(table.num_rows for table in tables.values())
        steps = max(-(-longest // BATCH), 1)
        for step in range(steps):
            for name, table in tables.items():
                first, last = (table.num_rows * at // steps for at in (step, step + 1))
                state.update(name, table.slice(first, last - first))
        return state

    def ask(self, state: el.State) -> el.Groups:
        """Return the groups."""
        return state.answer(self.text if self.planned else "q")


def skewed(rng: np.random.Generator, rows: int, values: int) -> np.ndarray:
    """Return keys of which small ones are frequent."""
    return (values * rng.random(rows) ** 3).astype(np.int64)


def chain(groups: int, share: float = 1.0) -> Callable[[np.random.Generator, int], Tables]:
    """Return what draws the rows of the chain; share: of as many rows and keys."""

    def drawn(rng: np.random.Generator, rows: int) -> Tables:
        n = int(rows * share)
        few, k, j = max(n // 10, 1), max(int(400_000 * share), 10), max(int(100_000 * share), 10)
        o = {"k": skewed(rng, n, k), "g": rng.integers(0, groups, n), "x": rng.integers(0, 100, n)}
        i = {"k": skewed(rng, n, k), "j": skewed(rng, n, j), "q": rng.integers(0, 9, n)}
        s = {"j": skewed(rng, few, j), "h": rng.integers(0, 20, few)}
        return {"o": pa.table(o), "i": pa.table(i), "s": pa.table(s)}

    return drawn


def words(rng: np.random.Generator, rows: int, prefix: str, number: int) -> pa.Array:
    """Return one of a given number of texts for each row."""
    values = pa.array([f"{prefix} {each}" for each in range(number)])
    return values.take(pa.array(rng.integers(0, number, rows)))


def shop(rng: np.random.Generator, rows: int) -> Tables:
    """Return customers, orders and items: every order has a customer, every item an order."""
    orders, customers = max(rows // 3, 1), max(rows // 30, 1)
    return {
        "customers": pa.table({"id": np.arange(customers), "region": words(rng, customers, "region", 50)}),
        "orders": pa.table(
            {
                "id": np.arange(orders),
                "customer": skewed(rng, orders, customers),
                "month": rng.integers(1, 13, orders).astype(np.int32),
                "status": words(rng, orders, "status", 5),
            }
        ),
        "items": pa.table(
            {
                "order_id": rng.integers(0, orders, rows),
                "sku": skewed(rng, rows, 10_000),
                "kind": words(rng, rows, "kind", 20),
                "price": rng.integers(1, 1000, rows),
            }
        ),
    }


def events(rng: np.random.Generator, rows: int) -> Tables:
    """Return a single stream of skewed groups."""
    g = pc.binary_join_element_wise(
        "account", pa.array(skewed(rng, rows, max(rows // 4, 1))).cast("string"), "/"
    )
    return {"e": pa.table({"g": g, "x": rng.integers(0, 100, rows)})}


SHAPES = {
    "both ends": Shape(CHAIN, f"SELECT o.g, s.h, {MEASURES} GROUP BY o.g, s.h", chain(50)),
    "one end": Shape(CHAIN, f"SELECT o.g, {MEASURES} GROUP BY o.g", chain(1000)),
    "held": Shape(CHAIN, f"SELECT o.g, {MEASURES} GROUP BY o.g", chain(1000, 0.08)),
    "star": Shape(
        SHOP,
        f"SELECT c.region, o.month, COUNT(*) AS n, SUM(i.price) AS revenue, AVG(i.price) AS mean {SOLD} "
        "JOIN customers c ON o.customer = c.id GROUP BY c.region, o.month",
        shop,
    ),
    "stream": Shape(
        {"e": "g STRING, x BIGINT"},
        "SELECT g, COUNT(*) AS n, SUM(x) AS s, AVG(x) AS a FROM e GROUP BY g",
        events,
    ),
    "details": Shape(
        SHOP,
        f"SELECT o.month, o.status, COUNT(*) AS n, COUNT(DISTINCT i.sku) AS skus, MEDIAN(i.price) AS middle {SOLD} "
        "GROUP BY o.month, o.status",
        shop,
    ),
    "ad hoc": Shape(
        SHOP,
        f"SELECT o.month, i.kind, COUNT(*) AS n, SUM(i.price) AS revenue {SOLD} WHERE o.status <> 'status 1' "
        "GROUP BY o.month, i.kind",
        shop,
        f"SELECT COUNT(*) {SOLD}",
        (("orders", "month", "status"), ("items", "kind", "price")),
    ),
}


@dataclass(frozen=True)
class Clocked:
    """The seconds that something took, and those of all processors."""

    wall: float
    processors: float

    def __str__(self) -> str:
        return f"{self.wall:.3f} s ({self.processors:.3f})"


def clocked(ask: Callable[[], object]) -> Clocked:
    """Return how long something takes."""
    wall, processors = time.perf_counter(), time.process_time()
    ask()
    return Clocked(time.perf_counter() - wall, time.process_time() - processors)


def peer(text: str, tables: Tables, patience: float) -> Clocked | None:
    """Return how long DuckDB takes, None where it is not done in time."""
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        alarm = threading.Timer(patience, connection.interrupt)
        alarm.start()
        try:
            return clocked(lambda: connection.sql(text).to_arrow_table())
        except duckdb.InterruptException:
            return None
        finally:
            alarm.cancel()


def measured(shape: Shape, rows: int, patience: float, *, cold: bool) -> str:
    """Return the line that is printed for a shape."""
    if not cold:
        shape.ask(shape.state(shape.rows(np.random.default_rng(2), 300_000)))
    tables = shape.rows(np.random.default_rng(1), rows)
    state = shape.state(tables)
    first, again = (clocked(lambda: shape.ask(state)) for _ in range(2))
    copies = [el.State.from_bytes(state.to_bytes()) for _ in range(COPIES)]
    best = min((clocked(lambda copy=copy: shape.ask(copy)) for copy in copies), key=lambda each: each.wall)
    found, theirs = shape.ask(state), peer(shape.text, tables, patience)
    kind = "exact" if found.exact else found.method
    theirs_shown = f"over {patience:.0f} s"
    if theirs is not None:
        theirs_shown = f"{theirs}, {theirs.wall / first.wall:.1f} times ours"
    shown = f"first {first}, best of {COPIES} copies {best}, again {1000 * again.wall:.2f} ms"
    return f"{len(found):,} groups ({kind}), {shown}; DuckDB {theirs_shown}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=3_000_000)
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--patience", type=float, default=60.0)
    parser.add_argument("--cold", action="store_true")
    asked = parser.parse_args()
    for name in asked.shapes.split(","):
        print(f"{name:10} {measured(SHAPES[name], asked.rows, asked.patience, cold=asked.cold)}", flush=True)


if __name__ == "__main__":
    main()
