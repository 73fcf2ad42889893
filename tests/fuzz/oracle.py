"""Spark as the fuzzer's oracle: what it makes of many texts, in as few jobs as can be."""

import logging

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tests.oracles.duckdb_sql import database

logging.getLogger("SQLQueryContextLogger").disabled = True
logging.getLogger("DataFrameQueryContextLogger").disabled = True

_FAILURES = (PySparkException, Py4JError)
"""How Spark fails on a query. An exception of its own optimizer reaches Python as a Py4JError."""


def refused_by_spark(spark, text):
    """Why Spark refuses a text, None where it takes it."""
    try:
        spark.sql(text).schema  # noqa: B018 - analyses it
    except PySparkException as error:
        return str(error).split("\n")[0]
    return None


def rows_of(spark, view, expressions):
    """For each name the values of its (condition, argument) on a view's rows; those that fail on a row are left out.

    A view of few rows is evaluated where Spark plans, without a job.
    """
    if not expressions:
        return {}
    names = list(expressions)
    listed = ", ".join(
        f"{condition} AS c{i}, {argument} AS v{i}"
        for i, (condition, argument) in enumerate(expressions.values())
    )
    try:
        rows = spark.sql(f"SELECT {listed} FROM {view}").collect()
    except _FAILURES:
        if len(names) == 1:
            return {}
        halves = names[: len(names) // 2], names[len(names) // 2 :]
        return {
            name: found
            for half in halves
            for name, found in rows_of(spark, view, {name: expressions[name] for name in half}).items()
        }
    return {name: [(row[2 * i], row[2 * i + 1]) for row in rows] for i, name in enumerate(names)}


def aggregated(function, rows):
    """COUNT, SUM or AVG of the arguments of the rows that meet the condition."""
    values = [value for condition, value in rows if condition and value is not None]
    if function == "COUNT":
        return len(values)
    if not values:
        return None
    return sum(values) if function == "SUM" else float(sum(values)) / len(values)


def answers_of(spark, texts):
    """The answers of whole queries by name, run together; those that fail on a row are left out."""
    if not texts:
        return {}
    try:
        return (
            spark.sql("SELECT " + ", ".join(f"({text}) AS {name}" for name, text in texts.items()))
            .collect()[0]
            .asDict()
        )
    except _FAILURES:
        names = list(texts)
        halves = (names[: len(names) // 2], names[len(names) // 2 :]) if len(names) > 1 else ()
        return {
            name: found
            for half in halves
            for name, found in answers_of(spark, {name: texts[name] for name in half}).items()
        }


def of_duckdb(text, tables):
    """The answer of DuckDB to a text, or an exception of its own where the dialects part."""
    with database().cursor() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for name, table in tables.items():
            connection.register(name, table)
        return connection.sql(text).fetchall()[0][0]
