"""Tasks of direct scans against the Arrow path: equal states, whatever the files look like inside."""

import datetime as dt
import shutil
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eddyline as el
from eddyline.errors import PipelineError
from eddyline.ingest.projection import project
from eddyline.spark.direct import files as direct_files
from eddyline.spark.direct import scan as direct_scan
from eddyline.spark.direct.files import DataFile, Doubt, Piece, in_tasks
from eddyline.spark.direct.planning import scan_of
from tests.data.frames import ALL_TYPES_DDL, all_types
from tests.spark.direct_tasks import scanned
from tests.store.conftest import s3, s3_server  # noqa: F401 - fixtures

LIKE = "SELECT COUNT(*) FROM t a JOIN t b USING (s) WHERE a.s LIKE '%5%' AND b.d < DATE '1970-01-01'"


def plan_of(*queries, samples=False, changes=None, schema=ALL_TYPES_DDL):
    workload = el.Workload(budget="64 KB", seed=5, max_distinct=1 << 10, samples=samples)
    workload.stream("t", schema, changes=changes)
    for i, text in enumerate(queries):
        workload.query(f"q{i}", text)
    return workload.plan()


@pytest.fixture(scope="module")
def plans():
    """Every type as a key, predicates and measures on them, with and without a stream sample, under inserts and weights."""
    keys = ["b", "i8", "i16", "i32", "i64", "dec", "big", "whole", "s", "bin", "d", "ts", "nts"]
    queries = [f"SELECT COUNT(*) FROM t a JOIN t b USING ({key})" for key in keys]
    queries += [
        "SELECT SUM(a.dec * b.x) FROM t a JOIN t b USING (i8) WHERE a.x > -1.5 AND b.s LIKE '%5%'",
        "SELECT COUNT(*) FROM t a JOIN t b ON upper(a.s) = lower(b.s) AND a.ts = b.ts",
        "SELECT SUM(i32) FROM t WHERE d < DATE '1970-01-01' OR s IS NULL",
        "SELECT COUNT(*) FROM t WHERE coalesce(s, 'none') = 'none'",
        LIKE,
    ]
    return [
        plan_of(*queries, samples=samples, changes=changes)
        for samples in (False, True)
        for changes in (None, "w")
    ]


@settings(max_examples=25)
@given(
    layout=st.lists(
        st.tuples(
            st.sampled_from(["none", "snappy", "gzip", "zstd"]),
            st.booleans(),
            st.sampled_from(["1.0", "2.0"]),
            st.integers(1, 400),
            st.booleans(),
        ),
        min_size=1,
        max_size=4,
    ),
    rows=st.integers(0, 400),
    tasks=st.integers(1, 5),
    batch=st.sampled_from([7, 1 << 18]),
    which=st.integers(0, 3),
)
def test_states_are_those_of_the_arrow_path(plans, tmp_path_factory, layout, rows, tasks, batch, which):
    table = all_types(400, seed=rows).slice(0, rows)
    weights = pa.array(np.random.default_rng(rows).integers(-2, 4, rows))
    plan = plans[which]
    table = table.append_column("w", weights)
    folder = tmp_path_factory.mktemp("scan")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(direct_scan, "SCAN_ROWS", batch)
        patch.setattr(direct_files, "TASK_BYTES", 64)
        patch.setattr(direct_files, "WHOLE_BYTES", 20_000)
        edges = np.linspace(0, rows, len(layout) + 1).astype(int)
        for i, (codec, dictionary, version, group, arrow) in enumerate(layout):
            pq.write_table(
                table.slice(edges[i], edges[i + 1] - edges[i]),
                folder / f"{i}.parquet",
                compression=codec,
                use_dictionary=dictionary,
                data_page_version=version,
                row_group_size=group,
                store_schema=arrow,
                write_page_checksum=dictionary,
            )
        state = scanned(plan, {"t": folder}, tasks)
    expected = plan.empty().update("t", table)
    assert state == expected
    assert state.snapshot.tallies == expected.snapshot.tallies
    shutil.rmtree(folder)


def test_dictionaries_are_hashed_by_value_and_give_the_same(tmp_path):
    """Many rows of few strings, so that pages of dictionaries are read as such; one group of them has NULLs only."""
    names = pa.array([f"number {i}" for i in range(50)])
    rows = np.random.default_rng(1).integers(0, 50, 20_000)
    column = names.take(pa.array(rows, mask=rows % 7 == 0))
    table = pa.table({"s": pa.concat_arrays([column, pa.nulls(500, pa.string())])})
    table = table.append_column("d", pa.array(np.arange(20_500) % 9 - 4, pa.int32()).cast(pa.date32()))
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=20_000)
    plan = plan_of(LIKE, "SELECT COUNT(*) FROM t WHERE s IS NULL", schema="s STRING, d DATE")
    expected = plan.empty().update("t", table)
    assert scanned(plan, {"t": tmp_path}) == expected
    assert plan.empty().update("t", table.set_column(0, "s", table["s"].dictionary_encode())) == expected


def test_rows_without_columns_are_counted(tmp_path):
    pq.write_table(all_types(300), tmp_path / "t.parquet", row_group_size=100)
    state = scanned(plan_of("SELECT SUM(2) FROM t"), {"t": tmp_path})
    assert (state.answer("q0").value, state.snapshot.tallies["t"].rows) == (600, 300)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("SELECT COUNT(*) FROM t", 0),
        ("SELECT COUNT(*) FROM t WHERE i64 < 1000", 1),
        ("SELECT COUNT(*) FROM t WHERE 2500 <= i64 AND i64 < 3500", 2),
        ("SELECT COUNT(*) FROM t WHERE i64 BETWEEN 4000 AND 4999.5", 1),
        ("SELECT COUNT(*) FROM t WHERE i64 = 7777", 1),
        ("SELECT COUNT(*) FROM t WHERE i64 > 9999", 0),
        ("SELECT COUNT(*) FROM t WHERE d < DATE '1970-01-02'", 1),
        ("SELECT COUNT(*) FROM t WHERE s >= 'k09'", 1),
        ("SELECT COUNT(*) FROM t WHERE x > 1e9", 10),
        ("SELECT COUNT(*) FROM t WHERE i64 < 1000 OR i64 > 9000", 10),
        ("SELECT SUM(i64) FROM t", 10),
    ],
)
def test_row_groups_in_which_no_row_counts_are_not_read(tmp_path, monkeypatch, text, read):
    """Ten groups in order; floats have a NaN, which is greater than what their statistics say."""
    n = np.arange(10_000)
    table = pa.table(
        {
            "i64": pa.array(n, mask=n % 11 == 0),
            "d": pa.array(n // 1000, pa.int32()).cast(pa.date32()),
            "s": pa.array([f"k{i // 1000:02d}" for i in n]),
            "x": pa.array(np.where(n % 1000 == 1, np.nan, 1.0), from_pandas=False),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=1000)
    fed = []
    feed = direct_scan.project_table
    monkeypatch.setattr(direct_scan, "project_table", lambda *given: fed.append(1) or feed(*given))
    plan = plan_of(text, schema="i64 BIGINT, d DATE, s STRING, x DOUBLE")
    state, expected = scanned(plan, {"t": tmp_path}), plan.empty().update("t", table)
    assert state == expected
    assert state.snapshot.tallies == expected.snapshot.tallies
    assert len(fed) == read


def test_groups_are_read_where_deletes_or_samples_have_to_see_every_row(tmp_path):
    rows = pa.table({"k": [1, 2, 3, 4], "w": [1, -1, 1, -1]})
    pq.write_table(rows, tmp_path / "t.parquet", row_group_size=2)
    for samples in (False, True):
        for changes in (None, "w"):
            plan = plan_of(
                "SELECT COUNT(*) FROM t a JOIN t b USING (k) WHERE a.k > 9 AND b.k > 9",
                samples=samples, changes=changes, schema="k BIGINT",
            )  # fmt: skip
            state, expected = scanned(plan, {"t": tmp_path}), plan.empty().update("t", rows)
            assert state == expected
            assert state.snapshot.tallies == expected.snapshot.tallies


def test_every_row_group_belongs_to_one_task():
    sizes = [5, 1 << 20, 40 << 20, 1, 9 << 20, 300 << 20, 8 << 20]
    files = [DataFile(str(i), size) for i, size in enumerate(sizes)]
    for most in (1, 2, 7, 64):
        tasks = in_tasks(files, most)
        assert len(tasks) == min(most, -(-sum(sizes) // direct_files.TASK_BYTES))
        pieces = [piece for task in tasks for piece in task]
        for file in files:
            ranges = sorted((p.start, p.end) for p in pieces if p.file == file)
            assert ranges[0][0] == 0
            assert ranges[-1][1] == file.size
            for a, b in pairwise(ranges):
                assert a[1] == b[0]
        loads = [sum(piece.end - piece.start for piece in task) for task in tasks]
        assert max(loads) - min(loads) <= 2 * direct_files.WHOLE_BYTES


def test_groups_of_a_cut_file_are_shared_out(tmp_path):
    pq.write_table(pa.table({"k": np.arange(1000)}), tmp_path / "t.parquet", row_group_size=250)
    metadata, size = pq.read_metadata(tmp_path / "t.parquet"), (tmp_path / "t.parquet").stat().st_size
    file = DataFile("t", size)
    halves = [
        direct_scan.row_groups(metadata, Piece(file, *ends)) for ends in ((0, size // 2), (size // 2, size))
    ]
    assert halves == [[0, 1], [2, 3]]


def test_paths_of_object_stores(s3):  # noqa: F811 - a fixture
    from pyarrow import fs

    filesystem, root = fs.FileSystem.from_uri(s3)
    table = all_types(200)
    for i in range(2):
        pq.write_table(table.slice(100 * i, 100), f"{root}/{i}.parquet", filesystem=filesystem)
    plan = plan_of("SELECT COUNT(*) FROM t a JOIN t b USING (s)")
    assert scanned(plan, {"t": s3}) == plan.empty().update("t", table)
    with pytest.raises(Doubt) as caught:
        scanned(plan, {"t": s3.replace("?", "/nothing?")})
    assert "secret" not in str(caught.value)


def write(path, table=None, **how):
    pq.write_table(all_types(20) if table is None else table, path, **how)


def truncate(path):
    data = path.read_bytes()
    path.write_bytes(data[:-9])


def damage(path):
    """Turn over bits in the pages, which checksums detect."""
    data = bytearray(path.read_bytes())
    for i in range(60, 90):
        data[i] ^= 0xFF
    path.write_bytes(bytes(data))


def int96(path):
    write(path, use_deprecated_int96_timestamps=True)


def legacy(path, key=b"org.apache.spark.legacyDateTime", version=b"3.5.0"):
    table = all_types(20).replace_schema_metadata({b"org.apache.spark.version": version, key: b""})
    write(path, table)


DOUBTS = {
    "truncated": (truncate, "b.parquet cannot be read by Arrow"),
    "foreign": (lambda path: path.write_text("s,i64\nx,1\n" * 9), "b.parquet cannot be read by Arrow"),
    "another type": (lambda p: write(p, all_types(20).set_column(8, "s", all_types(20)["bin"])), "'s' is STRING in some"),
    "column gone": (lambda p: write(p, all_types(20).drop_columns(["s"])), "no column 's'"),
    "two in other case": (lambda p: write(p, all_types(20).append_column("S", all_types(20)["i64"])), "case only"),
    "nested": (lambda p: write(p, all_types(20).set_column(8, "s", pa.array([["x"]] * 20))), "'s' is stored as"),
    "nanoseconds": (lambda p: write(p, all_types(20).set_column(11, "ts", pa.array([1] * 20, pa.timestamp("ns", "UTC")))), "'ts' is stored as"),
    "INT96": (int96, "96 bits of the old calendar"),
    "legacy calendar": (legacy, "old calendar"),
    "written by Spark 2": (lambda path: legacy(path, b"x", b"2.4.8"), "old calendar"),
    "a folder": (lambda path: (path.unlink(), path.mkdir()), "folders in it"),
}  # fmt: skip


@pytest.mark.parametrize("case", DOUBTS)
@pytest.mark.parametrize("looked_at", [True, False])
def test_doubtful_files_are_left_to_spark(tmp_path, monkeypatch, case, looked_at):
    """Whether the driver looked at the file beforehand, or a task meets it first."""
    spoil, words = DOUBTS[case]
    for name in "abc":
        write(tmp_path / f"{name}.parquet")
    if not looked_at:
        from eddyline.spark.direct import planning

        monkeypatch.setattr(planning, "_LOOKED_AT", 2)
    spoil(tmp_path / "b.parquet")
    plan = plan_of("SELECT COUNT(*) FROM t a JOIN t b USING (s) WHERE a.ts IS NOT NULL")
    with pytest.raises(Doubt, match=words):
        scanned(plan, {"t": tmp_path})


def test_damaged_pages_are_noticed_by_their_checksums(tmp_path):
    write(
        tmp_path / "t.parquet",
        all_types(300).select(["i64"]),
        write_page_checksum=True,
        compression="none",
        use_dictionary=False,
    )
    damage(tmp_path / "t.parquet")
    with pytest.raises(Doubt, match=r"t.parquet cannot be read"):
        scanned(plan_of("SELECT COUNT(*) FROM t a JOIN t b USING (i64)"), {"t": tmp_path})


def test_bad_changes_and_expressions_of_spark_are_left_to_it(tmp_path):
    table = all_types(30).append_column("w", pa.array([1] * 29 + [None]))
    write(tmp_path / "t.parquet", table)
    join = "SELECT COUNT(*) FROM t a JOIN t b USING (i8)"
    for text, changes, words in [
        (join, "w", "carry a change that cannot be read"),
        (join, "change_type", "no column '_change_type'"),
        (join, "debezium", "Debezium"),
        (join + " WHERE a.s RLIKE 'x'", None, "only be evaluated by Spark"),
    ]:
        with pytest.raises(Doubt, match=words):
            scanned(plan_of(text, changes=changes), {"t": tmp_path})


def test_patterns_and_empty_folders_are_left_to_spark(tmp_path):
    plan = plan_of("SELECT COUNT(*) FROM t")
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".hidden").mkdir()
    for path, words in [
        (tmp_path, "no files"),
        (tmp_path / "*.parquet", "pattern"),
        (tmp_path / "gone", "listed"),
    ]:
        with pytest.raises(Doubt, match=words):
            scanned(plan, {"t": path})


def test_the_files_of_a_delta_table_are_refused(tmp_path):
    write(tmp_path / "t.parquet")
    (tmp_path / "_delta_log").mkdir()
    with pytest.raises(PipelineError, match="Delta table"):
        scanned(plan_of("SELECT COUNT(*) FROM t"), {"t": tmp_path})


def test_errors_of_the_pass_itself_are_told_as_they_are(tmp_path):
    write(tmp_path / "t.parquet", pa.table({"x": [1.0, float("nan")]}))
    with pytest.raises(PipelineError, match="NaN"):
        scanned(plan_of("SELECT SUM(x) FROM t", schema="x DOUBLE"), {"t": tmp_path})


def test_old_dates_are_those_of_todays_calendar(tmp_path):
    old = pa.table({"d": pa.array([dt.date(1582, 10, 4), dt.date(1, 1, 1), dt.date(1969, 12, 31)])})
    write(tmp_path / "t.parquet", old)
    plan = plan_of("SELECT COUNT(*) FROM t a JOIN t b USING (d)", schema="d DATE")
    assert scanned(plan, {"t": tmp_path}) == plan.empty().update("t", old)


def test_dates_beyond_pythons_calendar_are_read(tmp_path):
    days = pa.array([2_932_897, 0, -719_163, 5], pa.int32()).cast(
        pa.date32()
    )  # of 10000-01-01 and of the year 0
    rows = pa.table({"d": days})
    pq.write_table(rows, tmp_path / "t.parquet", row_group_size=2)
    plan = plan_of("SELECT COUNT(*) FROM t WHERE d > DATE '1970-01-02'", schema="d DATE")
    state = scanned(plan, {"t": tmp_path})
    assert state == plan.empty().update("t", rows)
    assert state.answer("q0").value == 2


def test_there_are_no_more_tasks_than_row_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(direct_files, "TASK_BYTES", 64)
    for name in "ab":
        write(tmp_path / f"{name}.parquet", pa.table({"k": np.arange(100)}), row_group_size=50)
    stream = plan_of("SELECT COUNT(*) FROM t", schema="k BIGINT").layout.stream("t")
    scan = scan_of(stream, project([]), None, str(tmp_path), 64, our_calendar=True)
    assert len(scan.tasks) == 4
