"""Tables of the pipeline: the estimates now, every epoch that was seen, and those that are not exact."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()
store = spark.conf.get("spark.eddyline.store")


@dp.materialized_view
def estimates() -> DataFrame:
    """Return the answers of all queries at the newest epoch of the store."""
    return spark.read.format("eddyline").load(store)


@dp.table
def estimates_over_time() -> DataFrame:
    """Return the answers of each epoch that an update of the pipeline finds; they are appended."""
    answers = spark.readStream.format("eddyline").load(store)
    return answers.selectExpr("query", "value", "low", "high", "freshness.epoch AS epoch")
