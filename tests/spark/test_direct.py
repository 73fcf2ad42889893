"""Direct scans in Spark: equal to the pass through the JVM, taken where they can be, left where they cannot."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as sf

import eddyline as el
from eddyline.api.jobs import build_state
from eddyline.api.pipeline import load_pipeline
from eddyline.ingest.arrow_path import DIRECTLY
from tests.data.frames import ALL_TYPES, ALL_TYPES_DDL, all_types
from tests.spark.test_pass import all_types_workload

pytestmark = pytest.mark.spark
CODECS = ["none", "snappy", "gzip", "zstd"]


@pytest.fixture(scope="module")
def plan():
    return all_types_workload().plan()


def more_than_a_read(frame):
    """The same rows, by a condition that only Spark evaluates."""
    return frame.where("rand() >= 0")


def hard_rows():
    """Values at the ends of types and of calendars, and strings that are no text."""
    rows = {
        "b": True, "i8": -128, "i16": -(2**15), "i32": 2**31 - 1, "i64": -(2**63), "dec": Decimal("-9999999999.99"),
        "big": Decimal(10**38 - 1), "whole": Decimal(-999999999), "s": "\U0001f300\x00 ", "bin": b"\xff\x00", "d": dt.date(1, 1, 1),
        "ts": dt.datetime(1, 1, 1, tzinfo=dt.UTC), "nts": dt.datetime(9999, 12, 31, 23, 59, 59, 999999), "x": -0.0,
    }  # fmt: skip
    return pa.Table.from_pylist([rows, dict.fromkeys(rows)], schema=ALL_TYPES)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Many small files of all codecs, with dictionaries and without, in several row groups; one has no row."""
    made = {}
    for name, n in (("l", 400), ("r", 600)):
        folder = made[name] = tmp_path_factory.mktemp(name)
        table = pa.concat_tables([all_types(n, n), hard_rows()])
        if name == "r":
            weights = np.random.default_rng(3).integers(-2, 4, table.num_rows)
            table = table.append_column("w", pa.array(weights))
        for i, start in enumerate(range(0, table.num_rows, 60)):
            pq.write_table(
                table.slice(start, 60), folder / f"{i}.parquet", compression=CODECS[i % 4],
                use_dictionary=i % 3 > 0, row_group_size=25, data_page_version=("1.0", "2.0")[i % 2],
            )  # fmt: skip
        pq.write_table(table.slice(0, 0), folder / "empty.parquet")
        (folder / "_SUCCESS").touch()
    return made


@pytest.fixture(scope="module")
def frames(spark, folders):
    return {name: spark.read.parquet(str(folder)) for name, folder in folders.items()}


@pytest.fixture(scope="module")
def through_the_jvm(spark, plan, frames):
    """The state by frames that are no plain read."""
    state = plan.sketch(spark, {name: more_than_a_read(frame) for name, frame in frames.items()})
    assert {way.partition(":")[0] for way in state.ways.values()} == {"through the JVM"}
    return state


def test_frames_and_paths_give_the_state_of_the_jvm(spark, plan, frames, folders, through_the_jvm):
    renamed = frames["l"].withColumnRenamed("i8", "tiny").select("*").createOrReplaceTempView("renamed")
    renamed = spark.sql(
        "SELECT tiny AS i8, b, i16, i32, i64, dec, big, whole, s, bin, d, ts, nts, x FROM renamed"
    )
    for sources in (
        frames,
        {name: str(folder) for name, folder in folders.items()},
        {"l": renamed, "r": folders["r"].as_uri()},
    ):
        state = plan.sketch(spark, sources)
        assert state.ways == {"l": DIRECTLY, "r": DIRECTLY}
        assert state == through_the_jvm
        assert state.snapshot.tallies == through_the_jvm.snapshot.tallies
    assert f"l was read {DIRECTLY}" in state.explain()


def test_files_that_spark_wrote(spark, plan, frames, through_the_jvm, tmp_path):
    written = {}
    for name, frame in frames.items():
        frame.repartition(3).write.parquet(str(tmp_path / name))
        written[name] = spark.read.parquet(str(tmp_path / name))
    state = plan.sketch(spark, written)
    assert state == through_the_jvm
    assert set(state.ways.values()) == {DIRECTLY}


@pytest.fixture(scope="module")
def small(spark, tmp_path_factory):
    """A small plan, its file, and the state that every way to read it must give."""
    folder = tmp_path_factory.mktemp("small")
    table = all_types(80).select(["i64", "s", "d"])
    pq.write_table(table, folder / "t.parquet")
    workload = el.Workload(budget="64 KB").stream("t", "i64 BIGINT, s STRING, d DATE")
    plan = workload.query(
        "q", "SELECT COUNT(*) FROM t a JOIN t b USING (s) WHERE a.d > DATE '1969-12-20'"
    ).plan()
    return plan, folder, plan.empty().update("t", table)


LEFT = {
    "a filter by chance": (lambda f: f.where("rand() >= 0"), "not a condition on the columns"),
    "a filter of Spark alone": (lambda f: f.where("soundex(s) IS NULL OR length(s) >= 0"), "only be evaluated by Spark"),
    "a filter without columns": (lambda f: f.where("1 = 1"), "only be evaluated by Spark"),
    "a computed column": (lambda f: f.withColumn("i64", sf.col("i64") + 0), "computes columns"),
    "a cached frame": (lambda f: f.cache(), "more than a read"),
    "an option": (lambda f: f.sparkSession.read.option("mergeSchema", "true").parquet(f.inputFiles()[0]), "option mergeschema"),
    "a union": (lambda f: f.union(f.limit(0)), "more than a read"),
}  # fmt: skip


@pytest.mark.parametrize("case", LEFT)
def test_frames_that_are_more_are_left_to_the_jvm(spark, small, case):
    plan, folder, expected = small
    made, why = LEFT[case]
    frame = made(spark.read.parquet(str(folder)))
    state = plan.sketch(spark, {"t": frame})
    frame.unpersist()
    assert state == expected
    assert state.ways["t"].startswith("through the JVM: ")
    assert why in state.ways["t"]


FILTERS = {
    "integers": lambda f: f.where("i8 > 3 AND i64 <= 1000000000000000000 AND i16 <> 1500"),
    "integers of several widths": lambda f: f.where(sf.col("i8") < sf.col("i64")).where("i32 <> 3L"),
    "decimals": lambda f: f.where("dec >= 1.55 OR whole IS NULL").where("big IS NOT NULL"),
    "floats": lambda f: f.where("x > 0.5 OR x <= -3.0D OR x = 0"),
    "texts": lambda f: f.where("s >= 's' AND s NOT LIKE '%3 ' AND s <> 'it\\'s'"),
    "lists": lambda f: f.where(sf.col("i8").isin(1, 2, 3) | ~sf.col("s").isin("", "schlüssel 9 ")),
    "days": lambda f: f.where("d BETWEEN DATE '1969-12-24' AND DATE '2020-01-01' AND d <= '9999-12-31' AND i8 NOT BETWEEN 1 AND 3"),
    "times of the session's zone": lambda f: f.where("ts > TIMESTAMP '1970-01-01 00:30:00' OR hour(ts) = 3"),
    "times without a zone": lambda f: f.where("nts <= TIMESTAMP_NTZ '2001-01-01 00:00:00'"),
    "truth values and NULL": lambda f: f.where("b OR s IS NULL OR NOT (i8 <> 1)"),
    "a division that is guarded": lambda f: f.where("i64 % 2 = 0 OR 1 / (i64 % 2) > 0"),
    "NULL is not TRUE": lambda f: f.where("NOT (i8 > 3 AND i16 > 2)"),
    "renamed, filtered and named back": lambda f: f.withColumnRenamed("i8", "a").where("a < 5").withColumnRenamed("a", "i8"),
    "columns that take each other's name": lambda f: f.withColumnRenamed("i8", "a").withColumnRenamed("i16", "i8")
        .where("i8 > 300").withColumnRenamed("i8", "i16").withColumnRenamed("a", "i8"),
    "of a view": lambda f: (f.createOrReplaceTempView("v"), f.sparkSession.sql("SELECT * FROM v AS w WHERE w.i8 < 4"))[1],
}  # fmt: skip


@pytest.mark.parametrize("case", FILTERS)
def test_filtered_frames_are_scanned_directly(spark, frames, case):
    workload = el.Workload(budget="256 KB").stream("l", ALL_TYPES_DDL)
    workload.query("sum", "SELECT SUM(i16) FROM l").query(
        "all", "SELECT i8, i64, s, d, COUNT(*) FROM l GROUP BY ALL"
    )
    plan, zone = workload.plan(), spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        filtered = FILTERS[case](frames["l"])
        state, rows = plan.sketch(spark, {"l": filtered}), filtered.toArrow()
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    expected = plan.empty().update("l", rows)
    assert (state, state.ways["l"]) == (expected, DIRECTLY)
    assert state.snapshot.tallies == expected.snapshot.tallies
    assert 0 < rows.num_rows < 380


def test_a_filter_reads_columns_that_the_stream_does_not_have(spark, small, tmp_path):
    plan, _, _ = small
    table = all_types(3000).select(["i64", "s", "d"])
    more = table.append_column("day", pa.array(np.arange(3000) // 100))
    pq.write_table(more, tmp_path / "t.parquet", row_group_size=500)
    frame = spark.read.parquet(str(tmp_path)).where("day >= 22").drop("day")
    state = plan.sketch(spark, {"t": frame})
    assert state.ways["t"] == DIRECTLY
    assert state == plan.empty().update("t", table.slice(2200))


def test_a_filter_of_folder_names_is_left_to_the_jvm(spark, small, tmp_path):
    plan, folder, expected = small
    spark.read.parquet(str(folder)).withColumn("p", sf.lit(1)).write.partitionBy("p").parquet(
        str(tmp_path / "p")
    )
    state = plan.sketch(spark, {"t": spark.read.parquet(str(tmp_path / "p")).where("p = 1")})
    assert state == expected
    assert "a column of its folders' names" in state.ways["t"]


def test_settings_that_change_what_spark_reads_are_heeded(spark, small):
    plan, folder, expected = small
    frame = spark.read.parquet(str(folder))
    for setting, value, other in [
        ("spark.sql.ansi.enabled", "false", "true"),
        ("spark.sql.parquet.datetimeRebaseModeInRead", "EXCEPTION", "CORRECTED"),
    ]:
        spark.conf.set(setting, value)
        try:
            state = plan.sketch(spark, {"t": frame})
        finally:
            spark.conf.set(setting, other)
        assert state == expected
        assert state.ways["t"].startswith("through the JVM")


def test_partitions_are_read_directly_unless_their_columns_are_asked_for(spark, small, tmp_path):
    plan, folder, expected = small
    spark.read.parquet(str(folder)).withColumn("p", sf.expr("coalesce(i64 > 0, false)")).write.partitionBy(
        "p"
    ).parquet(str(tmp_path / "p"))
    frame = spark.read.parquet(str(tmp_path / "p"))
    state = plan.sketch(spark, {"t": frame})
    assert (state, state.ways["t"]) == (expected, DIRECTLY)
    asked = (
        el.Workload(budget="64 KB")
        .stream("t", "p STRING")
        .query("q", "SELECT COUNT(*) FROM t WHERE p = 'true'")
        .plan()
    )
    counted = asked.sketch(spark, {"t": frame})
    assert counted.answer("q").value == frame.where("p = 'true'").count()
    assert "no column 'p'" in counted.ways["t"]
    assert "folders in it" in plan.sketch(spark, {"t": str(tmp_path / "p")}).ways["t"]


def test_a_bad_file_is_one_sentence_that_names_it(spark, small, tmp_path):
    plan, folder, _ = small
    data = (folder / "t.parquet").read_bytes()
    for name in "abc":
        (tmp_path / f"{name}.parquet").write_bytes(data)
    frame = spark.read.parquet(str(tmp_path))
    for content in (data[:-30], b"k,s\n1,2\n" * 20):
        (tmp_path / "b.parquet").write_bytes(content)
        for source in (frame, str(tmp_path)):
            with pytest.raises(el.PipelineError, match=r"b\.parquet") as caught:
                plan.sketch(spark, {"t": source})
            assert "\n" not in str(caught.value)
    (tmp_path / "b.parquet").unlink()
    with pytest.raises(el.PipelineError, match=r"b\.parquet"):
        plan.sketch(spark, {"t": frame})
    with pytest.raises(el.PipelineError, match="does not exist"):
        plan.sketch(spark, {"t": str(tmp_path / "gone")})


def test_types_that_differ_from_file_to_file_are_left_to_the_jvm(spark, small, tmp_path):
    plan, folder, _ = small
    table = pq.read_table(folder / "t.parquet")
    pq.write_table(table, tmp_path / "a.parquet")
    pq.write_table(table.drop_columns(["s"]), tmp_path / "b.parquet")
    state = plan.sketch(
        spark, {"t": spark.read.schema("i64 BIGINT, s STRING, d DATE").parquet(str(tmp_path))}
    )
    hidden = table.set_column(1, "s", pa.nulls(len(table), pa.string()))
    assert state == plan.empty().update("t", table).update("t", hidden)
    assert "no column 's'" in state.ways["t"]


def test_pipeline_files_of_parquet_are_scanned_directly(spark, small, tmp_path):
    folder = small[1]
    file = tmp_path / "pipeline.toml"
    file.write_text(
        f'[workload]\nbudget = "64 KB"\n[streams.t]\nschema = "i64 BIGINT, s STRING"\nformat = "parquet"\npath = "{folder}"\n'
        '[queries]\nq = "SELECT COUNT(*) FROM t a JOIN t b USING (s)"\n'
    )
    pipeline = load_pipeline(file)
    state = build_state(spark, pipeline, pipeline.plan())
    assert state.ways == {"t": DIRECTLY}
    assert state.snapshot.tallies["t"].rows == 80


def test_a_run_tells_which_way_a_batch_frame_came(spark, small, tmp_path):
    plan, folder, expected = small
    with plan.start(spark, {"t": spark.read.parquet(str(folder))}, store=tmp_path / "store") as run:
        assert run.progress()["t"].way == DIRECTLY
        assert run.state() == expected
