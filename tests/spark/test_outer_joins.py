"""Outer, semi and anti joins through Spark: the same state as without it, and the same answers as Spark's own."""

import numpy as np
import pytest

import eddyline as el
from tests.data import outer_joins
from tests.data.outer_joins import STREAMS, made_table
from tests.oracles.grouped import values_by_group

pytestmark = pytest.mark.spark
QUERIES, GROUPED = outer_joins.QUERIES[::3], outer_joins.GROUPED[::3]
"""Some of the texts: DuckDB checks all of them, in less time."""


def test_answers_are_those_of_spark_and_of_the_arrow_path(spark):
    tables = {name: made_table(np.random.default_rng(6), name, 60, 9) for name in STREAMS}
    frames = {name: spark.createDataFrame(table) for name, table in tables.items()}
    workload = el.Workload(budget="4 MB", seed=6)
    for name, schema in STREAMS.items():
        workload.stream(name, schema)
    for i, text in enumerate([*QUERIES, *GROUPED]):
        workload.query(f"q{i}", text)
    plan = workload.plan()
    state, without = plan.sketch(spark, frames), plan.empty()
    for name, table in tables.items():
        without.update(name, table)
    assert state.snapshot == without.snapshot
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    for i, text in enumerate(QUERIES):
        found, value = state.answer(f"q{i}").value, spark.sql(text).collect()[0][0]
        assert (found is None) == (value is None), text
        assert found is None or found == pytest.approx(float(value)), text
    for i, text in enumerate(GROUPED, start=len(QUERIES)):
        groups = state.answer(f"q{i}")
        columns = len(groups.group_columns)
        truth = {
            tuple(row)[:columns]: [None if each is None else float(each) for each in tuple(row)[columns:]]
            for row in spark.sql(text).collect()
        }
        shown = values_by_group(groups)
        assert shown.keys() == truth.keys(), text
        for group, values in truth.items():
            assert list(shown[group]) == pytest.approx(values), text
