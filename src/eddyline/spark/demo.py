"""The demo: its queries, two skewed change logs with deletes, and the exact answers.

Orders are inserted, updated and deleted; visits are inserted and deleted. The live demo keeps all net rows in memory
to know the exact answers at every moment. A real stream does not have them. Importing this module needs no Spark.
"""

import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock, Thread
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ORDERS = "order_id BIGINT, customer BIGINT, region STRING, total DECIMAL(12,2)"
VISITS = "visit_id BIGINT, customer BIGINT, page STRING, seconds INT"
QUERIES = {
    "orders_kept": "SELECT COUNT(*) FROM orders",
    "revenue": "SELECT SUM(total) FROM orders WHERE region = 'north'",
    "visits_by_buyers": "SELECT COUNT(*) FROM orders o JOIN visits v ON o.customer = v.customer",
    "northern_long_visits": (
        "SELECT COUNT(*) FROM orders o JOIN visits v ON o.customer = v.customer "
        "WHERE o.region = 'north' AND v.seconds >= 60"
    ),
    "money_in_view": "SELECT SUM(o.total) FROM orders o JOIN visits v ON o.customer = v.customer",
    "mean_basket_in_view": "SELECT AVG(o.total) FROM orders o, visits v WHERE o.customer = v.customer",
    "orders_of_one_customer": "SELECT COUNT(*) FROM orders a JOIN orders b ON a.customer = b.customer",
    "buyers": "SELECT COUNT(DISTINCT customer) FROM orders",
    "never_seen_for_long": (
        "SELECT COUNT(*) FROM (SELECT customer FROM orders EXCEPT SELECT customer FROM visits WHERE seconds >= 240)"
    ),
}


Ints = npt.NDArray[np.int64]
CUSTOMERS, ROWS = 20_000, 2_000
REGIONS = np.array(["north", "south", "east", "west"])
LIVE_QUERIES = {
    **QUERIES,
    "visits_by_region": (
        "SELECT o.region, COUNT(*) AS visits FROM orders o JOIN visits v ON o.customer = v.customer GROUP BY o.region"
    ),
}
_KEPT_MOMENTS = 64
_MOST_ORDERS = 120_000


@dataclass(frozen=True)
class OrdersMoment:
    """The net orders after a file, by customer: their number, the number of northern ones, and their cents."""

    number: Ints
    northern: Ints
    cents: Ints
    northern_cents: int


@dataclass(frozen=True)
class VisitsMoment:
    """The net visits after a file, by customer: all, those from a minute on, and those from four minutes on."""

    number: Ints
    minute: Ints
    four_minutes: Ints


def exact_answers(orders: OrdersMoment, visits: VisitsMoment) -> dict[str, float]:
    """Return the exact answers of the demo's queries: sums of products by customer."""
    pairs = int(orders.number @ visits.number)
    money = int(orders.cents @ visits.number) / 100
    buyers = orders.number > 0
    return {
        "orders_kept": int(orders.number.sum()),
        "revenue": orders.northern_cents / 100,
        "visits_by_buyers": pairs,
        "northern_long_visits": int(orders.northern @ visits.minute),
        "money_in_view": money,
        "mean_basket_in_view": money / pairs if pairs else 0.0,
        "orders_of_one_customer": int(orders.number @ orders.number),
        "buyers": int(buyers.sum()),
        "never_seen_for_long": int((buyers & (visits.four_minutes == 0)).sum()),
    }


class Orders:
    """The current orders, and files of their changes."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng([seed, 1])
        self._next = 0
        self._there = {name: np.empty(0, np.int64) for name in ("order_id", "customer", "region", "cents")}

    def step(self, rows: int) -> pa.Table:
        """Return the changes of one step: new orders, a ninth of as many updates, and deletes."""
        rng, there = self._rng, self._there
        size = len(there["order_id"])
        chosen = rng.permutation(size)
        deletes = chosen[: rows // 5 if size < _MOST_ORDERS else rows + rng.integers(0, rows // 4)]
        updates = chosen[len(deletes) : len(deletes) + rows // 9]
        new = {
            "order_id": np.arange(self._next, self._next + rows),
            "customer": skewed(rng, rows, 0),
            "region": rng.integers(0, len(REGIONS), rows),
            "cents": rng.integers(500, 20_500, rows),
        }
        self._next += rows
        before = {name: column[updates] for name, column in there.items()}
        after = {**before, "cents": before["cents"] + 100}
        parts = [(new, "insert"), (before, "update_preimage"), (after, "update_postimage")]
        parts.append(({name: column[deletes] for name, column in there.items()}, "delete"))
        there["cents"][updates] += 100
        self._there = {
            name: np.concatenate([np.delete(column, deletes), new[name]]) for name, column in there.items()
        }
        return pa.concat_tables([_orders_table(rows_of, change) for rows_of, change in parts])

    def moment(self) -> OrdersMoment:
        """Return the net orders."""
        there, north = self._there, self._there["region"] == 0
        cents = np.zeros(CUSTOMERS, np.int64)
        np.add.at(cents, there["customer"], there["cents"])
        number = np.bincount(there["customer"], minlength=CUSTOMERS)
        northern = np.bincount(there["customer"][north], minlength=CUSTOMERS)
        return OrdersMoment(number, northern, cents, int(there["cents"][north].sum()))


class Visits:
    """The current visits, and files of their changes; a tenth of each file is deleted by the next."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng([seed, 2])
        self._next = 0
        self._last: _VisitColumns | None = None
        self._counts = [np.zeros(CUSTOMERS, np.int64) for _ in range(3)]

    def step(self, rows: int) -> pa.Table:
        """Return the changes of one step."""
        rng = self._rng
        new = _VisitColumns(
            np.arange(self._next, self._next + rows),
            skewed(rng, rows, 7),
            rng.integers(0, 50, rows),
            rng.integers(0, 300, rows),
        )
        self._next += rows
        parts = [self._change(new, 1)]
        if self._last is not None:
            parts.append(self._change(self._last.first(rows // 10), -1))
        self._last = new
        return pa.concat_tables(parts)

    def _change(self, rows: "_VisitColumns", weight: int) -> pa.Table:
        for counts, least in zip(self._counts, (0, 60, 240), strict=True):
            np.add.at(counts, rows.customer[rows.seconds >= least], weight)
        return rows.table(weight)

    def moment(self) -> VisitsMoment:
        """Return the net visits."""
        return VisitsMoment(*(counts.copy() for counts in self._counts))


def skewed(rng: np.random.Generator, rows: int, shift: int) -> Ints:
    """Return customers from a skewed distribution."""
    return (np.floor(CUSTOMERS * rng.random(rows) ** 2.5).astype(np.int64) + shift) % CUSTOMERS


def _orders_table(rows: Mapping[str, Ints], change: str) -> pa.Table:
    cents = pa.array(rows["cents"]).cast(pa.decimal128(19, 0))
    total = pa.Array.from_buffers(pa.decimal128(19, 2), len(cents), cents.buffers()).cast(
        pa.decimal128(12, 2)
    )
    return pa.table(
        {
            "order_id": rows["order_id"],
            "customer": rows["customer"],
            "region": REGIONS[rows["region"]],
            "total": total,
            "_change_type": pa.array([change] * len(total), pa.string()),
        }
    )


@dataclass(frozen=True)
class _VisitColumns:
    """Some visits."""

    visit: Ints
    customer: Ints
    page: Ints
    seconds: Ints

    def first(self, rows: int) -> "_VisitColumns":
        return _VisitColumns(self.visit[:rows], self.customer[:rows], self.page[:rows], self.seconds[:rows])

    def table(self, weight: int) -> pa.Table:
        return pa.table(
            {
                "visit_id": self.visit,
                "customer": self.customer,
                "page": [f"page-{number}" for number in self.page],
                "seconds": self.seconds.astype(np.int32),
                "weight": np.full(len(self.visit), weight, np.int32),
            }
        )


class LiveStreams:
    """Files of both streams, one of each every few moments, and the exact answers for the rows read so far.

    The number of its rows that were read identifies a moment of a stream. The moments of the last files are kept.
    """

    def __init__(self, folder: Path, seed: int = 7) -> None:
        self._folder = folder
        self._streams: dict[str, Orders | Visits] = {"orders": Orders(seed), "visits": Visits(seed)}
        self._moments: dict[str, OrderedDict[int, OrdersMoment | VisitsMoment]] = {
            "orders": OrderedDict(),
            "visits": OrderedDict(),
        }
        self._rows = dict.fromkeys(self._streams, 0)
        self._files = 0
        self._turn = Lock()
        self._ended = Event()
        for name in self._streams:
            (folder / name).mkdir(parents=True, exist_ok=True)

    def write(self, rows: int = ROWS) -> None:
        """Write the next file of each stream."""
        for name, stream in self._streams.items():
            table = stream.step(rows)
            with self._turn:
                self._rows[name] += len(table)
                moments = self._moments[name]
                moments[self._rows[name]] = stream.moment()
                while len(moments) > _KEPT_MOMENTS:
                    moments.popitem(last=False)
            path = self._folder / name / f"{self._files:06d}.parquet"
            half = self._folder / f"{name}.tmp"
            pq.write_table(table, half)
            half.rename(path)
        self._files += 1

    def write_all(self, rows: int) -> None:
        """Write `rows` new rows of each stream in ten files, with the updates and deletes that go with them."""
        for _ in range(10):
            self.write(rows // 10)

    def exact_of_all(self) -> dict[str, float]:
        """Return the exact answers after everything that was written."""
        return self.exact(self._rows)

    def exact(self, read: Mapping[str, int]) -> dict[str, float]:
        """Return the exact answers after the rows of each stream in `read`; empty if that moment is not kept."""
        with self._turn:
            orders = self._moments["orders"].get(read.get("orders", 0))
            visits = self._moments["visits"].get(read.get("visits", 0))
        if isinstance(orders, OrdersMoment) and isinstance(visits, VisitsMoment):
            return exact_answers(orders, visits)
        return {}

    def start(self, every: float = 1.0) -> None:
        """Write continuously in a thread, until `stop`."""

        def go() -> None:
            while not self._ended.wait(every):
                wave = 1 + 0.6 * np.sin(time.monotonic() / 12)
                self.write(int(ROWS * wave))

        Thread(target=go, name="eddyline-demo", daemon=True).start()

    def stop(self) -> None:
        """Stop writing."""
        self._ended.set()


def net_views(frames: "dict[str, DataFrame]") -> None:
    """Register the net rows of both streams as temporary views under the streams' names, for exact SQL."""
    weight = "IF(_change_type IN ('insert', 'update_postimage'), 1, -1)"
    orders = frames["orders"].selectExpr("*", f"{weight} AS weight").drop("_change_type")
    for name, frame in (("orders", orders), ("visits", frames["visits"])):
        columns = [column for column in frame.columns if column != "weight"]
        net = frame.groupBy(*columns).sum("weight").where("`sum(weight)` > 0").select(*columns)
        net.cache().createOrReplaceTempView(name)


@dataclass(frozen=True)
class Exact:
    """An exact answer and the seconds it took."""

    query: str
    value: float
    seconds: float


def exact_by_spark(spark: "SparkSession") -> Iterator[Exact]:
    """Yield the exact answer of every demo query, computed by Spark on the net rows."""
    for name, text in QUERIES.items():
        start = perf_counter()
        value = spark.sql(text).collect()[0][0]
        yield Exact(name, float(value), perf_counter() - start)
