"""The Spark pass: bit-identical to the Arrow path, pruned, and merged before the driver."""

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as sf

import eddyline as el
from eddyline.ingest.projection import project
from eddyline.spark.batch import (
    BATCH_ROWS,
    TASKS_PER_CORE,
    cores_of,
    in_few_tasks,
    merge_tasks,
    tasks_per_core,
    unmeasured_batches,
)
from eddyline.spark.projection import project_frame
from eddyline.spark.tasks import MARK
from tests.data.frames import ALL_TYPES_DDL, all_types

pytestmark = pytest.mark.spark
KEYS = ["b", "i8", "i16", "i32", "i64", "dec", "big", "whole", "s", "bin", "d", "ts", "nts"]


def all_types_workload():
    workload = (
        el.Workload(budget="1 MB", seed=5, max_distinct=1 << 14, samples=False)
        .stream("l", ALL_TYPES_DDL)
        .stream("r", ALL_TYPES_DDL, changes="w")
    )
    for name in KEYS:
        workload.query(f"on_{name}", f"SELECT COUNT(*) FROM l JOIN r ON l.{name} = r.{name}")
    workload.query("mixed", "SELECT COUNT(*) FROM l JOIN r ON l.i8 = r.dec AND l.s = r.s AND l.d = r.d")
    workload.query("jvm", "SELECT COUNT(*) FROM l JOIN r ON l.i8 = r.i64 AND l.s = r.s AND l.ts = r.ts")
    workload.query(
        "sums", "SELECT SUM(l.dec * r.x) FROM l JOIN r USING (i8) WHERE l.x > -1.5 AND r.s LIKE '%5%'"
    )
    workload.query(
        "wide", "SELECT AVG(CAST(l.dec AS DECIMAL(30,4)) * 2) FROM l JOIN r USING (i8) WHERE NOT l.b"
    )
    workload.query(
        "chain", "SELECT SUM(m.i32) FROM l JOIN r ON l.i8 = r.i8 JOIN l m ON r.s = m.s WHERE m.x > -1.5"
    )
    workload.query("three", "SELECT STDDEV(r.x) FROM l, r, l m WHERE l.d = r.d AND r.d = m.d")
    workload.query("one", "SELECT SUM(i32) FROM l WHERE d < DATE '1970-01-01' OR s IS NULL")
    return workload


@pytest.fixture(scope="module")
def plan():
    return all_types_workload().plan()


@pytest.fixture(scope="module")
def tables():
    left, right = all_types(400, 1), all_types(600, 2)
    weights = np.random.default_rng(3).integers(-2, 4, 600)
    return {"l": left, "r": right.append_column("w", pa.array(weights))}


@pytest.fixture(scope="module")
def frames(spark, tables):
    return {
        "l": spark.createDataFrame(tables["l"], schema=ALL_TYPES_DDL),
        "r": spark.createDataFrame(tables["r"], schema=ALL_TYPES_DDL + ", w BIGINT"),
    }


@pytest.fixture(scope="module")
def arrow_state(plan, tables):
    return plan.empty().update("l", tables["l"]).update("r", tables["r"])


def test_one_pass_is_bit_identical_to_the_arrow_path(spark, plan, frames, arrow_state):
    state = plan.sketch(spark, frames)
    assert state == arrow_state
    assert state.snapshot.tallies == arrow_state.snapshot.tallies


def test_seven_partitions_and_merged_states_are_bit_identical(spark, plan, frames, arrow_state):
    spread = {name: frame.repartition(7) for name, frame in frames.items()}
    assert plan.sketch(spark, spread) == arrow_state
    halves = [
        {name: frame.where(f"pmod(xxhash64(s, i64), 2) = {half}") for name, frame in frames.items()}
        for half in (0, 1)
    ]
    assert plan.sketch(spark, halves[0]) + plan.sketch(spark, halves[1]) == arrow_state


def test_session_time_zone_and_ansi_mode_do_not_matter(spark, plan, frames, arrow_state):
    for setting, value in (
        ("spark.sql.session.timeZone", "Asia/Kolkata"),
        ("spark.sql.ansi.enabled", "false"),
    ):
        before = spark.conf.get(setting)
        spark.conf.set(setting, value)
        try:
            assert plan.sketch(spark, frames) == arrow_state
        finally:
            spark.conf.set(setting, before)


def test_only_referenced_columns_leave_parquet(spark, plan, frames, tmp_path):
    path = str(tmp_path / "l.parquet")
    frames["l"].write.parquet(path)
    narrow = (
        el.Workload(samples=False)
        .stream("l", ALL_TYPES_DDL)
        .query("q", "SELECT COUNT(*) FROM l a JOIN l b USING (i64) WHERE a.b")
        .plan()
    )
    projected = project_frame(
        narrow.layout.stream("l"), spark.read.parquet(path), project(narrow.layout.kept_for("l"))
    )
    assert sorted(projected.inputFiles()) != []
    explained = projected._jdf.queryExecution().executedPlan().toString()
    assert "ReadSchema: struct<b:boolean,i64:bigint>" in explained


def test_no_value_leaves_the_jvm_twice(spark, frames):
    """One column for a key and its measures, parts for the key of both, bits for predicates, no weights of 1."""
    workload = el.Workload(samples=False, seed=7).stream("l", ALL_TYPES_DDL)
    workload.query("sum", "SELECT SUM(a.i32) FROM l a JOIN l b USING (i32) WHERE a.b AND b.x > 0")
    workload.query("dev", "SELECT STDDEV(a.i32) FROM l a JOIN l b USING (s) WHERE a.i8 < 3")
    workload.query("both", "SELECT COUNT(*) FROM l a JOIN l b USING (i32, s) WHERE a.i8 < 3 AND b.i8 > 3")
    workload.query("set", "SELECT COUNT(DISTINCT s) FROM l")
    plan = workload.plan()
    projected = project_frame(plan.layout.stream("l"), frames["l"], project(plan.layout.kept_for("l")))
    assert len(projected.columns) == 3
    assert dict(projected.dtypes) == dict.fromkeys(projected.columns, "bigint")


def test_more_flags_than_one_integer_has(spark, tables, frames):
    workload = el.Workload(budget="1 MB", samples=False, seed=8).stream("l", ALL_TYPES_DDL)
    for i in range(70):
        workload.query(f"q{i}", f"SELECT SUM(i32) FROM l WHERE i64 > {i - 35} OR s LIKE '%{i}'")
    plan = workload.plan()
    projected = project_frame(plan.layout.stream("l"), frames["l"], project(plan.layout.kept_for("l")))
    assert {"b0", "b1"} < set(projected.columns)
    assert plan.sketch(spark, {"l": frames["l"]}) == plan.empty().update("l", tables["l"])


def test_rows_that_are_only_counted(spark, tables, frames):
    plan = el.Workload(samples=False).stream("l", ALL_TYPES_DDL).query("n", "SELECT COUNT(*) FROM l").plan()
    state = plan.sketch(spark, {"l": frames["l"]})
    assert state.answer("n").value == 400
    assert state == plan.empty().update("l", tables["l"])


def test_the_driver_gets_each_chunk_once(spark, plan, frames):
    """Partials of 50 tasks reach the driver merged: one row per touched chunk, one report."""
    from functools import partial

    from eddyline.ingest.projection import stream_spec
    from eddyline.spark.tasks import DDL, encode_spec, merge_task, sketch_task

    kept = plan.layout.kept_for("l")
    projected = project_frame(plan.layout.stream("l"), frames["l"].repartition(50), project(kept))
    spec = encode_spec(stream_spec(plan.layout, "l"))
    partials = projected.mapInArrow(partial(sketch_task, spec), DDL)
    merged = partials.repartition(3, "name", "chunk").mapInArrow(partial(merge_task, spec), DDL)
    blocks = merged.where(~sf.col("name").startswith("r:") & (sf.col("piece") == 0))
    rows = blocks.groupBy("name", "chunk").count().collect()
    assert {row["count"] for row in rows} == {1}


LIMITS = ("spark.sql.execution.arrow.maxRecordsPerBatch", "spark.sql.execution.arrow.maxBytesPerBatch")


def test_limits_of_batches_are_the_sessions_own_again_after_a_pass(spark, frames):
    seen, own = [], [spark.conf.get(name) for name in LIMITS]
    with unmeasured_batches(frames["l"].select("i64", "i8")):
        seen.append([spark.conf.get(name) for name in LIMITS])
        with unmeasured_batches(frames["l"].select("i32")):  # a pass of another thread changes nothing
            pass
        seen.append([spark.conf.get(name) for name in LIMITS])
    assert seen == [[str(BATCH_ROWS), str(2**31 - 1)]] * 2
    with unmeasured_batches(frames["l"].select("i64", "s")):  # texts are of any size
        assert [spark.conf.get(name) for name in LIMITS] == own
    with pytest.raises(ZeroDivisionError), unmeasured_batches(frames["l"].select("i64")):
        raise ZeroDivisionError
    assert [spark.conf.get(name) for name in LIMITS] == own


@pytest.mark.parametrize("name", ["spark.sql.warehouse.dir", "spark.sql.no.such.setting"])
def test_a_session_that_refuses_a_setting_keeps_its_limits(spark, frames, monkeypatch, name):
    """Serverless platforms refuse most settings; a local session refuses static and unknown ones."""
    monkeypatch.setattr("eddyline.spark.batch._BYTES", name)
    own, ran = [spark.conf.get(limit) for limit in LIMITS], False
    with unmeasured_batches(frames["l"].select("i64")):
        ran = True
    assert ran
    assert [spark.conf.get(limit) for limit in LIMITS] == own
    with pytest.raises(ZeroDivisionError), unmeasured_batches(frames["l"].select("i64")):
        raise ZeroDivisionError


def test_empty_and_all_null_frames(spark, plan, frames):
    empty = {name: frame.limit(0) for name, frame in frames.items()}
    assert plan.sketch(spark, empty) == plan.empty()
    state = plan.sketch(
        spark,
        {**frames, "l": frames["l"].select(*(sf.lit(None).cast(t).alias(n) for n, t in frames["l"].dtypes))},
    )
    assert state.answer("on_i64").value == 0
    assert state.answer("one").value is None


BAD_FRAMES = {
    "a frame is missing": (lambda f: {"l": f["l"]}, el.PipelineError, "exactly one frame per stream"),
    "two columns that differ in case": (
        lambda f: {**f, "l": f["l"].select("*", sf.col("i64").alias("I64"))},
        el.PipelineError,
        "2 columns 'i64'",
    ),
    "missing column": (lambda f: {**f, "l": f["l"].drop("i64")}, el.PipelineError, "'i64'"),
    "type clash": (
        lambda f: {**f, "l": f["l"].withColumn("s", sf.lit(1))},
        el.PipelineError,
        "declared STRING",
    ),
    "narrower declaration": (
        lambda f: {**f, "l": f["l"].withColumn("i8", sf.lit(1))},
        el.PipelineError,
        "declared TINYINT",
    ),
    "no weight column": (lambda f: {**f, "r": f["r"].drop("w")}, el.ChangeError, "'w'"),
    "weight is a string": (
        lambda f: {**f, "r": f["r"].withColumn("w", sf.lit("1"))},
        el.ChangeError,
        "not an integer",
    ),
    "NULL weight": (
        lambda f: {**f, "r": f["r"].withColumn("w", sf.when(sf.col("i8") == 3, None).otherwise(1))},
        el.ChangeError,
        '"i8":3',
    ),
    "NaN measure": (
        lambda f: {**f, "r": f["r"].withColumn("x", sf.lit(float("nan")))},
        el.PipelineError,
        "NaN",
    ),
    "huge weights": (lambda f: {**f, "r": f["r"].withColumn("w", sf.lit(2**61))}, el.SketchError, "overflow"),
}


@pytest.mark.parametrize("case", BAD_FRAMES)
def test_bad_frames_are_one_clear_error(spark, plan, frames, case):
    spoil, error, words = BAD_FRAMES[case]
    with pytest.raises(error, match=words):
        plan.sketch(spark, spoil(frames))


def test_overflow_only_in_the_merge_is_noticed(spark, plan, frames):
    heavy = frames["r"].where("i64 IS NOT NULL").limit(4).repartition(4).withColumn("w", sf.lit(2**62 - 1))
    with pytest.raises(el.SketchError, match="overflow"):
        plan.sketch(spark, {**frames, "r": heavy})


def test_many_partitions_become_a_few_tasks_for_each_core(spark):
    cores = spark.sparkContext.defaultParallelism
    frame = spark.range(0, 1000, 1, 300)
    assert cores_of(spark) == cores
    assert in_few_tasks(frame, 1 << 20, cores).rdd.getNumPartitions() == TASKS_PER_CORE * cores
    assert in_few_tasks(frame, 64 << 20, cores).rdd.getNumPartitions() == cores
    assert in_few_tasks(spark.range(0, 1000, 1, 3), 1 << 20, cores).rdd.getNumPartitions() == 3


@pytest.mark.parametrize("megabytes", [0.001, 1, 8, 64, 1000])
@pytest.mark.parametrize("cores", [1, 2, 1000])
def test_no_merging_task_gets_nothing_or_much(megabytes, cores):
    nbytes = int(megabytes * 2**20)
    tasks, merging = cores * tasks_per_core(nbytes), merge_tasks(nbytes, cores)
    assert 1 <= merging <= TASKS_PER_CORE * cores
    assert merging == 1 or nbytes // merging >= 1 << 15, "a chunk or so for each"
    assert cores > 2 or tasks * nbytes / merging < max(33 << 20, nbytes)


def test_records_that_tombstones_follow_keep_their_partitions(spark):
    frame = spark.range(0, 100, 1, 50).withColumn(MARK, sf.lit(0))
    assert in_few_tasks(frame, 1, 2).rdd.getNumPartitions() == 50
