"""Which forms of queries each system takes over streams whose rows are also deleted; nothing is run but the planner.

    python benchmarks/peers/supports.py eddyline|spark               # in the environment of eddyline
    build/peers/flink/bin/python benchmarks/peers/supports.py flink  # in that of Flink

Prints a line for each form: accepted, or why not. Flink's streams are Debezium's JSON, so they have deletes. Spark's
streams can only append: a delete is a row with a weight of -1, and all output modes are tried.
"""

import sys
import tempfile
from collections.abc import Callable

TABLES = {
    "customers": "c BIGINT, seg BIGINT",
    "orders": "o BIGINT, c BIGINT, amount BIGINT, t TIMESTAMP",
    "items": "i BIGINT, o BIGINT, qty BIGINT",
}
FORMS = {
    "SUM over one stream": "SELECT SUM(amount) FROM orders",
    "COUNT(DISTINCT ...)": "SELECT COUNT(DISTINCT c) FROM orders",
    "SUM over a join, for all time": "SELECT SUM(amount) FROM customers JOIN orders ON customers.c = orders.c",
    "SUM over a join of three": "SELECT SUM(qty) FROM customers JOIN orders ON customers.c = orders.c "
    "JOIN items ON orders.o = items.o",
    "COUNT(DISTINCT ...) over a join": "SELECT COUNT(DISTINCT customers.c) FROM customers JOIN orders "
    "ON customers.c = orders.c",
    "INTERSECT, counted": "SELECT COUNT(*) FROM (SELECT c FROM customers INTERSECT SELECT c FROM orders) AS s",
    "EXCEPT, counted": "SELECT COUNT(*) FROM (SELECT c FROM customers EXCEPT SELECT c FROM orders) AS s",
    "NOT EXISTS, counted": "SELECT COUNT(*) FROM customers WHERE NOT EXISTS "
    "(SELECT 1 FROM orders WHERE orders.c = customers.c)",
    "SUM in windows of an hour": "",
}
"""The forms; the last one has a syntax of its own in each system."""


def eddyline() -> Callable[[str], None]:
    """Return what plans a query, or raises."""
    import eddyline as el  # noqa: PLC0415 - each system is imported only in its environment

    def take(text: str) -> None:
        made = el.Workload(budget="1 MB", seed=1)
        for name, columns in TABLES.items():
            made.stream(name, columns, event_time="t" if name == "orders" else None)
        made.query("q", text or "SELECT SUM(amount) FROM orders", window=None if text else "1 hour")
        made.plan()

    return take


def spark() -> Callable[[str], None]:
    """Return what starts a query in any output mode, or raises."""
    from pyspark.sql import SparkSession  # noqa: PLC0415

    session = SparkSession.builder.master("local[1]").config("spark.log.level", "OFF").getOrCreate()
    for name, columns in TABLES.items():
        chosen = ", ".join(
            "timestamp AS t" if kind.startswith("t ") else f"value AS {kind.split()[0]}"
            for kind in columns.split(", ")
        )
        rate = session.readStream.format("rate").load()
        rate.selectExpr(*chosen.split(", "), "1 AS w").createOrReplaceTempView(name)

    def take(text: str) -> None:
        text = text or "SELECT window(t, '1 hour'), SUM(w * amount) FROM orders GROUP BY 1"
        errors = []
        for mode in ("update", "complete", "append"):
            with tempfile.TemporaryDirectory() as folder:
                out = session.sql(text).writeStream.format("noop").outputMode(mode)
                try:
                    out.option("checkpointLocation", folder).start().stop()
                except Exception as error:  # noqa: BLE001 - Py4J's and Spark's, by mode
                    errors.append(f"{mode}: {str(error).splitlines()[0]}")
                else:
                    return
        raise ValueError("; ".join(errors))

    return take


def flink() -> Callable[[str], None]:
    """Return what explains a query, or raises."""
    from pyflink.table import EnvironmentSettings, TableEnvironment  # noqa: PLC0415

    environment = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for name, columns in TABLES.items():
        made = columns.replace("t TIMESTAMP", "t TIMESTAMP(3), WATERMARK FOR t AS t - INTERVAL '1' MINUTE")
        environment.execute_sql(
            f"CREATE TABLE {name} ({made}) WITH "
            "('connector' = 'filesystem', 'path' = 'file:///nowhere', 'format' = 'debezium-json')"
        )
    window = (
        "SELECT window_start, SUM(amount) FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(t), INTERVAL '1' HOUR)) "
        "GROUP BY window_start, window_end"
    )

    def take(text: str) -> None:
        environment.explain_sql(text or window)

    return take


def main() -> None:
    """Ask one system, print."""
    take = {"eddyline": eddyline, "spark": spark, "flink": flink}[sys.argv[1]]()
    for name, text in FORMS.items():
        try:
            take(text)
        except Exception as error:  # noqa: BLE001 - every system has its own
            lines = [line for line in str(error).splitlines() if line.strip()]
            print(f"{name}: refused: {lines[0] if lines else type(error).__name__}", flush=True)
        else:
            print(f"{name}: accepted", flush=True)


if __name__ == "__main__":
    main()
