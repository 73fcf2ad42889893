"""Spark as the fuzzer's oracle: what it makes of many texts, in as few jobs as can be."""

import logging

import duckdb
from pyspark.errors import PySparkException

logging.getLogger("SQLQueryContextLogger").disabled = True
logging.getLogger("DataFrameQueryContextLogger").disabled = True


def refused_by_spark(spark, text):
    """Why Spark refuses a text, None where it takes it."""
    try:
        spark.sql(text).schema  # noqa: B018 - analyses it
    except PySparkException as error:
        return str(error).split("\n")[0]
    return None


def answers_of(spark, selects):
    """The answers of scalar expressions by name, run together; those that fail on a row are left out."""
    if not selects:
        return {}
    listed = ", ".join(f"{text} AS {name}" for name, (text, _) in selects.items())
    source = next(iter(selects.values()))[1]
    try:
        row = spark.sql(f"SELECT {listed}{source}").collect()[0]
    except PySparkException:
        if len(selects) == 1:
            return {}
        names = list(selects)
        halves = names[: len(names) // 2], names[len(names) // 2 :]
        return {
            key: value
            for half in halves
            for key, value in answers_of(spark, {n: selects[n] for n in half}).items()
        }
    return row.asDict()


def of_duckdb(text, tables):
    """The answer of DuckDB to a text, or an exception of its own where the dialects part."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, table in tables.items():
            connection.register(name, table)
        return connection.sql(text).fetchall()[0][0]
