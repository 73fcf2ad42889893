"""Conditions between relations through Spark: the same state as without it, and the same numbers as Spark's own."""

import numpy as np
import pytest

from tests.data.cross_conditions import QUERIES, plan_of, tables
from tests.oracles.grouped import values_by_group

pytestmark = pytest.mark.spark
SOME = (
    "less", "texts", "decimals", "arithmetic", "either_pair", "case", "sum_product", "groups", "triangle",
    "triangle_groups", "closed_by_decimals", "square_chord", "ends_of_a_chain", "edges_ordered",
)  # fmt: skip


def test_they_are_those_of_spark_and_of_the_arrow_path(spark):
    made = tables(np.random.default_rng(12), 250, 6)
    frames = {name: spark.createDataFrame(table) for name, table in made.items()}
    plan = plan_of({name: QUERIES[name] for name in SOME})
    state, without = plan.sketch(spark, frames), plan.empty()
    for name, table in made.items():
        without.update(name, table)
    assert state.snapshot == without.snapshot
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    for name in SOME:
        found, rows = state.answer(name), spark.sql(QUERIES[name]).collect()
        assert found.exact
        if "GROUP BY" not in QUERIES[name]:
            assert found.value == pytest.approx(float(rows[0][0]), rel=1e-9), name
            continue
        columns = len(found.group_columns)
        truth = {
            tuple(row)[:columns]: [float(each) for each in tuple(row)[columns:] if each is not None]
            for row in rows
        }
        shown = {
            group: [each for each in values if each is not None]
            for group, values in values_by_group(found).items()
        }
        assert shown.keys() == truth.keys()
        for group, values in truth.items():
            assert shown[group] == pytest.approx(values, rel=1e-9, abs=1e-6), (
                name
            )  # Spark rounds AVG of a DECIMAL
