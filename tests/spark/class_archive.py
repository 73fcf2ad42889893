"""Load the classes of Spark that tests need, so that the JVM can archive them when it ends.

scripts/test runs it with `-XX:ArchiveClassesAtExit`. A JVM that starts with the archive neither parses nor verifies
them again: a session with its first queries takes about two thirds of the time.

    python -m tests.spark.class_archive
"""

import tempfile

import eddyline as el
from eddyline.spark.session import local_session

TEXT = "SELECT g, COUNT(*) AS n, SUM(v) AS v FROM a JOIN b USING (k) GROUP BY g"


def main():
    spark = local_session()
    rows = spark.range(1000).selectExpr(
        "id % 10 AS k", "CAST(id AS STRING) AS g", "CAST(id AS DECIMAL(12, 2)) AS v"
    )
    workload = el.Workload(budget="64 KB")
    workload.stream("a", "k BIGINT, g STRING").stream("b", "k BIGINT, v DECIMAL(12, 2)").query("q", TEXT)
    plan = workload.plan()
    with tempfile.TemporaryDirectory() as folder:
        rows.write.parquet(f"{folder}/rows")
        read = spark.read.parquet(f"{folder}/rows")
        plan.sketch(spark, {"a": read.filter("k > 2"), "b": rows})
        read.select("k", "g").createOrReplaceTempView("a")
        rows.select("k", "v").createOrReplaceTempView("b")
        spark.sql(TEXT + " ORDER BY n LIMIT 3").toArrow()
        stream = spark.readStream.schema(read.schema).parquet(f"{folder}/rows")
        frames = {"a": stream.select("k", "g"), "b": stream.select("k", "v")}
        run = plan.start(spark, frames, store=f"{folder}/store", trigger="available now")
        run.await_termination(120.0)
        run.stop()
    gateway = spark.sparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM ends, and writes the archive
    gateway.proc.wait()


if __name__ == "__main__":
    main()
