"""GROUP BY through Spark: the same state as without it, and the same groups as Spark's own."""

import numpy as np
import pytest

from tests.data.groups import QUERIES, items, orders, plan_of, skus
from tests.oracles.grouped import values_by_group

pytestmark = pytest.mark.spark


def test_groups_are_those_of_spark_and_of_the_arrow_path(spark):
    rng = np.random.default_rng(11)
    tables = {"orders": orders(rng, 900, 60), "items": items(rng, 900, 60), "skus": skus(rng)}
    frames = {name: spark.createDataFrame(table) for name, table in tables.items()}
    plan = plan_of(QUERIES)
    state, without = plan.sketch(spark, frames), plan.empty()
    for name, table in tables.items():
        without.update(name, table)
    assert state.snapshot == without.snapshot
    for name, frame in frames.items():
        frame.createOrReplaceTempView(name)
    for name, text in QUERIES.items():
        groups = state.answer(name)
        columns = len(groups.group_columns)
        truth = {
            tuple(row)[:columns]: [None if each is None else float(each) for each in tuple(row)[columns:]]
            for row in spark.sql(text).collect()
        }
        shown = values_by_group(groups)
        if name == "times":  # Spark collects local times
            shown, truth = sorted(map(tuple, shown.values())), sorted(map(tuple, truth.values()))
            assert shown == truth
            continue
        assert shown.keys() == truth.keys()
        for group, values in truth.items():
            for found, value in zip(shown[group], values, strict=True):
                assert (found is None) == (value is None)
                assert found is None or found == pytest.approx(
                    value, rel=1e-9, abs=1e-6
                )  # Spark rounds AVG of a DECIMAL
