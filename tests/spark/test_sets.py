"""Set expressions on Spark: bit-identical to the Arrow path, and exact as Spark's own answer of the same text."""

import numpy as np
import pyarrow as pa
import pytest

import eddyline as el
from tests.data.distinct_joins import FORMS, R_SCHEMA, S_SCHEMA, R, S
from tests.data.frames import ALL_TYPES_DDL, all_types
from tests.data.sets import DDL, SCHEMA, SETS

pytestmark = pytest.mark.spark


def rows(seed, n=400):
    rng = np.random.default_rng(seed)
    pick = lambda values: [values[i] for i in rng.integers(0, len(values), n)]  # noqa: E731
    return pa.table(
        {
            "a": pa.array(pick([None, *range(40)]), pa.int32()),
            "b": pa.array(pick([None, "x", "y", "z"])),
            "d": pa.array(pick([None, *range(30)]), pa.int64())
            .cast(pa.decimal128(19, 0))
            .cast(SCHEMA.field("d").type, safe=False),
        }
    )


def test_spark_gives_the_same_exact_answers(spark):
    workload = el.Workload(budget="1 MB", seed=3, samples=False)
    for name in "rst":
        workload.stream(name, DDL)
    for name, text in SETS.items():
        workload.query(name, text)
    tables = {name: rows(seed) for seed, name in enumerate("rst")}
    plan = workload.plan()
    frames = {name: spark.createDataFrame(table, schema=DDL) for name, table in tables.items()}
    state = plan.sketch(spark, frames)
    arrow = plan.empty()
    for name, table in tables.items():
        arrow.update(name, table)
        frames[name].createOrReplaceTempView(name)
    assert state == arrow
    for name, text in SETS.items():
        estimate = state.answer(name)
        assert (estimate.exact, estimate.value) == (True, spark.sql(text).collect()[0][0]), name


def test_elements_of_every_type_are_the_same_on_both_paths(spark):
    names = [part.split()[0] for part in ALL_TYPES_DDL.split(", ") if not part.endswith("DOUBLE")]
    workload = el.Workload(budget="4 MB", seed=3, samples=False).stream("t", ALL_TYPES_DDL)
    for name in names:
        workload.query(f"of_{name}", f"SELECT COUNT(*) FROM (SELECT DISTINCT {name} FROM t)")
    workload.query("all_of_it", f"SELECT COUNT(*) FROM (SELECT DISTINCT {', '.join(names)} FROM t)")
    plan, table = workload.plan(), all_types(300, 4)
    frame = spark.createDataFrame(table, schema=ALL_TYPES_DDL)
    assert plan.sketch(spark, {"t": frame}) == (state := plan.empty().update("t", table))
    for name in names:
        assert state.answer(f"of_{name}").value == frame.select(name).distinct().count()


def test_distinct_counts_over_joins_are_exact_as_spark_has_them(spark):
    workload = (
        el.Workload(budget="4 MB", seed=2, max_distinct=1 << 14, samples=False).stream("r", R).stream("s", S)
    )
    for name, text in FORMS.items():
        workload.query(name, text)
    rng = np.random.default_rng(4)
    pick = lambda values: [values[i] for i in rng.integers(0, len(values), 120)]  # noqa: E731
    tables = {
        "r": pa.table(
            {"a": pick([None, *range(9)]), "b": pick([None, *range(30)]), "d": pick([None, "u", "x"])},
            schema=R_SCHEMA,
        ),
        "s": pa.table(
            {"b": pick([None, *range(30)]), "c": pick([None, *"xyz"]), "d": pick([None, "u", "x"])},
            schema=S_SCHEMA,
        ),
    }
    plan, frames = workload.plan(), {}
    arrow = plan.empty()
    for (name, table), schema in zip(tables.items(), (R, S), strict=True):
        arrow.update(name, table)
        frames[name] = spark.createDataFrame(table, schema=schema)
        frames[name].createOrReplaceTempView(name)
    state = plan.sketch(spark, frames)
    assert state == arrow
    for name, text in FORMS.items():
        assert state.answer(name).value == spark.sql(text).collect()[0][0], name
