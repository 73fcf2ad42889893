"""The demo: two generated change streams with skew and real deletes, asked beside the exact answers."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

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

_ORDERS_SQL = """
SELECT id AS order_id, {customer} AS customer,
       element_at(array('north', 'south', 'east', 'west'), 1 + CAST(pmod(xxhash64(id, 3), 4) AS INT)) AS region,
       CAST(5 + pmod(xxhash64(id, 4), 20000) / 100 AS DECIMAL(12,2)) AS total
FROM range({rows})
"""
_VISITS_SQL = """
SELECT id AS visit_id, {customer} AS customer, concat('page-', pmod(xxhash64(id, 5), 50)) AS page,
       CAST(pmod(xxhash64(id, 6), 300) AS INT) AS seconds
FROM range({rows})
"""


def _skewed(salt: int, shift: int, domain: int = 20_000) -> str:
    """Return SQL for a customer drawn from a skewed law by a hash of the row's id, so that it repeats exactly."""
    uniform = f"pmod(xxhash64(id, {salt}), 1000000007) / 1000000007.0D"
    return f"CAST(pmod(floor({domain} * pow({uniform}, 2.5D)) + {shift}, {domain}) AS BIGINT)"


def write_streams(spark: SparkSession, folder: Path, rows: int) -> dict[str, DataFrame]:
    """Return frames of both change streams, written to Parquet: every ninth order is updated, every fifth deleted.

    Orders carry `_change_type`, visits a signed weight; a tenth of the visits is taken back.
    """
    orders = spark.sql(_ORDERS_SQL.format(customer=_skewed(1, 0), rows=rows))
    visits = spark.sql(_VISITS_SQL.format(customer=_skewed(2, 7), rows=rows))
    updated, deleted = (
        orders.where("order_id % 9 = 0"),
        orders.where("order_id % 5 = 1 AND order_id % 9 != 0"),
    )
    orders.selectExpr("*", "'insert' AS _change_type").unionAll(
        updated.selectExpr("*", "'update_preimage' AS _change_type")
    ).unionAll(
        updated.selectExpr(
            "order_id",
            "customer",
            "region",
            "CAST(total + 1 AS DECIMAL(12,2)) AS total",
            "'update_postimage'",
        )
    ).unionAll(deleted.selectExpr("*", "'delete' AS _change_type")).write.parquet(str(folder / "orders"))
    visits.selectExpr("*", "1 AS weight").unionAll(
        visits.where("visit_id % 10 = 3").selectExpr("*", "-1 AS weight")
    ).write.parquet(str(folder / "visits"))
    return {name: spark.read.parquet(str(folder / name)) for name in ("orders", "visits")}


def net_views(frames: dict[str, DataFrame]) -> None:
    """Make the net rows of both streams temporary views under the streams' names: what exact SQL runs on."""
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


def exact_answers(spark: SparkSession) -> Iterator[Exact]:
    """Yield the exact answer of every demo query, by Spark on the net rows."""
    for name, text in QUERIES.items():
        start = perf_counter()
        value = spark.sql(text).collect()[0][0]
        yield Exact(name, float(value), perf_counter() - start)
