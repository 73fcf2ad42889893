"""Through Spark: rows on which expressions fail, values of every type, and the most frequent ones."""

import re

import numpy as np
import pyarrow as pa
import pytest

import eddyline as el
from tests.data.failing import QUERIES, STREAMS, others, rows, workload
from tests.data.groups import orders, plan_of

pytestmark = pytest.mark.spark


def test_excluded_rows_are_evaluated_by_neither_path(spark):
    """The states are the same bit for bit, and the answers are Spark's own."""
    rng = np.random.default_rng(7)
    tables = {"u": rows(rng, 300), "v": others(rng, 300)}
    more = {"decimals": "SELECT SUM(m / b) FROM u WHERE b <> 0 AND a < 100 AND m < 5"}
    plan = workload(QUERIES).plan()
    frames = {name: spark.createDataFrame(table) for name, table in tables.items()}
    state, without = plan.sketch(spark, frames), plan.empty()
    for name, table in tables.items():
        without.update(name, table)
        frames[name].createOrReplaceTempView(name)
    assert state.snapshot == without.snapshot
    decimals = workload(more).plan().sketch(spark, frames)
    for name, text in {**QUERIES, **more}.items():
        if name in ("grouped", "joined_groups", "plain_groups", "conjuncts"):
            continue  # Spark itself fails on the last, whose conjuncts stand the other way round
        found = (decimals if name in more else state).answer(name)
        ((value,),) = spark.sql(text).collect()
        assert found.value == (None if value is None else pytest.approx(float(value), rel=1e-6)), name
    groups = {group: values for group, *values in spark.sql(QUERIES["grouped"]).collect()}
    shown = {row["g"]: [row["s"], row["v"]] for row in state.answer("grouped")}
    assert shown == {group: pytest.approx(values, rel=1e-6) for group, values in groups.items()}


def test_a_row_that_counts_fails_on_spark_too(spark):
    rng = np.random.default_rng(7)
    frames = {"u": spark.createDataFrame(rows(rng, 50)), "v": spark.createDataFrame(others(rng, 5))}
    plan = workload({"q": "SELECT SUM(a / b) FROM u WHERE a < 100", "p": QUERIES["division"]}).plan()
    with pytest.raises(
        el.PipelineError, match=r"^stream 'u': 'a / b' fails on a row: Division by zero; exclude such rows"
    ):
        plan.sketch(spark, frames)
    text = "SELECT COUNT(*) FROM u WHERE CAST(g AS INT) > 1"
    shown = re.escape("stream 'u': 'CAST(g AS INT) > 1' fails on a row: The value 'g")
    with pytest.raises(el.PipelineError, match=shown):
        workload({"q": text}).plan().sketch(spark, frames)
    tried = workload({"q": text.replace("CAST", "TRY_CAST")}).plan().sketch(spark, frames)
    assert tried.answer("q").value == 0


TYPES = {
    "floats": "SELECT g, MIN(f) AS lo, MAX(f) AS hi, PERCENTILE_APPROX(f, 0.4) AS p, MEDIAN(f) AS m FROM u GROUP BY g",
    "decimals": "SELECT g, MIN(m) AS lo, MAX(m) AS hi, PERCENTILE_APPROX(m, 0.4) AS p FROM u GROUP BY g",
    "times": "SELECT region, MIN(ts) AS lo, MAX(ts) AS hi, PERCENTILE_APPROX(ts, 0.4) AS p FROM orders GROUP BY region",
    "texts": "SELECT status, MIN(region) AS lo, MAX(region) AS hi FROM orders GROUP BY status",
}


def test_values_of_every_type_are_sparks_own(spark):
    rng = np.random.default_rng(3)
    tables = {"u": rows(rng, 200), "orders": orders(rng, 200, 20)}
    streams = {
        "u": STREAMS["u"],
        "orders": "k BIGINT, region STRING, status INT, amount DECIMAL(9,2), ts TIMESTAMP",
    }
    plan = plan_of(TYPES, streams=streams)
    frames = {name: spark.createDataFrame(table) for name, table in tables.items()}
    state, without = plan.sketch(spark, frames), plan.empty()
    for name, table in tables.items():
        without.update(name, table)
        frames[name].createOrReplaceTempView(name)
    assert state.snapshot == without.snapshot
    for name, text in TYPES.items():
        groups = state.answer(name)
        truth = spark.sql(text).toArrow()
        names = [*groups.group_columns, *groups.aggregates]
        shown = groups.to_arrow().select(names)
        shown = shown.cast(pa.schema([(each, truth.schema.field(each).type) for each in names]))
        order = [(names[0], "ascending")]
        assert str(shown.sort_by(order).to_pylist()) == str(truth.select(names).sort_by(order).to_pylist()), (
            name
        )


def test_the_most_frequent_values_are_sparks_own(spark):
    table = orders(np.random.default_rng(5), 300, 20)
    spark.createDataFrame(table).createOrReplaceTempView("orders")
    for text in (
        "SELECT APPROX_TOP_K(region) FROM orders",
        "SELECT APPROX_TOP_K(status, 3) FROM orders WHERE status > 0",
    ):
        state = plan_of(
            {"q": text},
            streams={"orders": "k BIGINT, region STRING, status INT, amount DECIMAL(9,2), ts TIMESTAMP"},
        )
        shown = [(row["item"], row["count"]) for row in state.empty().update("orders", table).answer("q")]
        ((items,),) = spark.sql(text).collect()
        assert sorted(shown, key=str) == sorted(map(tuple, items), key=str)
