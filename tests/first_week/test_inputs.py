"""Inputs that are not what their stream was declared as: the mistakes, and the sentence that each gets."""

import datetime as dt
import json
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eddyline as el
from eddyline.answer import notes
from eddyline.api.durable import from_epoch
from eddyline.api.jobs import HowToRun, prepare_run
from eddyline.api.pipeline import batch_source, load_pipeline
from eddyline.api.run import StartOptions, open_store
from eddyline.ingest.sections import to_sections
from eddyline.spark.sources.frames import read_frame

DAY = 86_400
NOW = int(time.time())


def plan(schema="id BIGINT, customer BIGINT, price INT", where="", **more):
    w = el.Workload(budget="64 KB", seed=1).stream("s", schema, **more)
    return w.query("n", f"SELECT COUNT(*) FROM s {where}").query("sum", "SELECT SUM(price) FROM s").plan()


def table(**columns):
    return {"id": [1, 2, 3], "customer": [7, 8, 9], "price": [1, 2, 3], **columns}


# Columns without a value


def test_a_column_that_is_always_null_is_told_by_the_answers_that_read_it():
    state = plan(where="WHERE customer > 5").empty()
    state.update("s", table(customer=pa.nulls(3, pa.int64())))
    sentence = "column 'customer' of stream 's' is NULL in all 3 rows: is it spelled in the schema as it is in the data?"
    assert state.answer("n").notes == (sentence,)
    assert state.answer("sum").notes == ()
    assert f"input check: {sentence}" in state.explain()
    assert state.update("s", table()).answer("n").notes == ()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT SUM(x) FROM s",
        "SELECT AVG(x + y) FROM s",
        "SELECT COUNT(x) FROM s",
        "SELECT COUNT(DISTINCT x) FROM s",
        "SELECT x, COUNT(*) AS n FROM s GROUP BY x",
        "SELECT COUNT(*) FROM s JOIN t USING (x)",
        "SELECT COUNT(*) FROM s JOIN t ON s.x = t.x AND s.y = t.y",
        "SELECT COUNT(*) FROM s WHERE x = 1 OR y = 2",
        "SELECT SUM(COALESCE(x, y)) FROM s",
        "SELECT COUNT(*) FROM (SELECT x, y FROM s EXCEPT SELECT x, y FROM t)",
    ],
)
def test_wherever_it_is_read(sql):
    made = el.Workload(budget="64 KB").stream("s", "x INT, y INT").stream("t", "x INT, y INT").query("q", sql)
    state = made.plan().empty().update("t", {"x": [1], "y": [1]})
    state.update("s", {"x": pa.nulls(2, pa.int32()), "y": [1, 2]})
    assert [
        n for n in state.answer("q").notes if n.startswith("column 'x' of stream 's' is NULL in all 2 rows")
    ]
    assert not [note for note in state.answer("q").notes if "'y'" in note]


def test_what_was_striking_adds_up_and_outlives_bytes_and_stores(tmp_path):
    made = plan()
    nulls, values = table(price=pa.nulls(3, pa.int32())), table()
    one, other = made.empty().update("s", nulls), made.empty().update("s", nulls)
    assert "NULL in all 6 rows" in (one + other).answer("sum").notes[0]
    assert (one + made.empty().update("s", values)).answer("sum").notes == ()
    assert "NULL in all 3 rows" in el.State.from_bytes(one.to_bytes()).answer("sum").notes[0]
    with open_store(made.layout, str(tmp_path), StartOptions()) as store:

        def deliver(batch, rows):
            def change(epoch):
                return to_sections(el.State(from_epoch(epoch)).update("s", rows).snapshot)

            store.commit("s", "query", batch, change, rows=3)

        deliver(0, nulls)
        deliver(1, nulls)
        assert "NULL in all 6 rows" in el.open(tmp_path).answer("sum").notes[0]
        deliver(2, values)
        assert el.open(tmp_path).answer("sum").notes == ()


# Changes that are not read


@pytest.mark.parametrize(
    ("columns", "spelling"),
    [
        ({"_change_type": ["insert"] * 3, "_commit_version": [1, 1, 2]}, "change_type"),
        ({"op": ["c"] * 3, "before": [None] * 3, "after": [{"id": 1}] * 3}, "debezium"),
    ],
)
def test_change_data_without_changes_is_refused(columns, spelling):
    with pytest.raises(el.ChangeError) as shown:
        plan().empty().update("s", table(**columns))
    assert str(shown.value) == (
        f"the rows of stream 's' say what they change ({', '.join(columns)}), and all would count as inserts: declare "
        f'the stream with changes="{spelling}", or with changes="inserts" if that is what you mean.'
    )
    assert plan(changes="inserts").empty().update("s", table(**columns)).answer("n").value == 3


def test_a_column_that_a_query_reads_is_no_change_that_nobody_reads():
    made = plan("id BIGINT, price INT, _change_type STRING", "WHERE _change_type = 'insert'")
    rows = table(_change_type=["insert", "delete", "insert"], _commit_version=[1, 2, 3])
    answer = made.empty().update("s", rows).answer("n")
    assert answer.value == 2


@pytest.mark.parametrize(
    ("columns", "say"),
    [
        ({"w": [1, -1, 1]}, 'say changes="w" if it does, and changes="inserts" if they are.'),
        ({"_change_type": ["insert"] * 3}, 'say changes="change_type" if it does'),
        ({"row_kind": ["+I"] * 3}, 'say changes="flink" if it does'),
        ({"_commit_version": [1, 2, 3]}, 'inserts: changes="inserts" if they are.'),
    ],
)
def test_a_column_that_looks_like_a_change_is_noted(columns, say):
    state = plan().empty().update("s", table(**columns))
    (name,) = columns
    (note,) = state.answer("n").notes
    assert note.startswith(
        f"stream 's' has a column {name!r} that seems to hold the change type of a row, and all rows were"
    )
    assert say in note
    assert state.update("s", table(**columns)).answer("n").notes == (note,)
    assert plan(changes="inserts").empty().update("s", table(**columns)).answer("n").notes == ()


@pytest.mark.parametrize("column", [[1, 1, 1], [1, -1, 0], [1, -1, 5]])
def test_other_numbers_are_no_changes(column):
    state = plan().empty().update("s", table(w=column))
    assert state.answer("n").notes == ()
    late = plan().empty().update("s", table(w=[1, -1, 1])).update("s", table(w=column))
    assert late.answer("n").notes == () or column == [1, 1, 1]
    assert plan().empty().update("s", table(w=[1, -1, 1]), np.array([1, -1, 1])).answer("n").notes == ()


# Event times


def timed(*seconds):
    made = el.Workload(budget="64 KB").stream("s", "id BIGINT, at TIMESTAMP", event_time="at")
    made.query("recent", "SELECT COUNT(*) FROM s", window="1 hour").query("all", "SELECT COUNT(*) FROM s")
    times = pa.array([int(each * 1_000_000) for each in seconds], pa.timestamp("us", "UTC"))
    return made.plan().empty().update("s", {"id": range(len(seconds)), "at": times})


def test_milliseconds_read_as_seconds_are_refused():
    with pytest.raises(el.PipelineError) as shown:
        timed(1_767_225_600_000)
    assert str(shown.value) == (
        "stream 's' has event times in the year 57971, beyond what a calendar shows; nothing was applied. If these are "
        "milliseconds since 1970 that were read as seconds, divide by 1,000 where the column is made: "
        "timestamp_millis(at) in Spark, a cast to timestamp('ms') in Arrow."
    )


def test_times_in_the_future_are_noted_with_windowed_answers():
    state = timed(NOW, NOW + 3 * DAY)
    (_, note) = state.answer("recent").notes
    at = dt.datetime.fromtimestamp(NOW + 3 * DAY, dt.UTC).isoformat(" ")
    assert note.startswith(
        f"event times of stream 's' go up to {at}, which is in the future: windows end there"
    )
    assert state.answer("all").notes == ()
    assert note in state.explain()


def test_seconds_read_as_milliseconds_are_noted():
    (_, note) = timed(NOW / 1_000).answer("recent").notes
    assert note.startswith("event times of stream 's' go back to 1970-01-2")
    assert "before 1990: if these are seconds since 1970 that were read as milliseconds" in note
    assert len(timed(NOW - 3_600, NOW).answer("recent").notes) == 1


def test_rows_without_an_event_time_are_noted():
    made = el.Workload(budget="64 KB").stream("s", "id BIGINT, at TIMESTAMP", event_time="at")
    made.query("recent", "SELECT COUNT(*) FROM s", window="1 hour")
    state = made.plan().empty().update("s", {"id": [1], "at": pa.nulls(1, pa.timestamp("us", "UTC"))})
    assert any(
        note.startswith("column 'at' of stream 's' is NULL") for note in state.answer("recent").notes
    ), state.answer("recent").notes


@pytest.mark.parametrize("end", [1_767_225_600_000_000_000, -(2**63), 2**63])
def test_a_window_of_an_older_store_that_lies_beyond_the_calendar_is_reported(end):
    assert "the year " in notes.window((end - 3_600_000_000, end))


# Streams without rows


def test_a_stream_without_a_row_beside_others_is_noted():
    made = el.Workload(budget="64 KB").stream("s", "k BIGINT").stream("t", "k BIGINT")
    made.query("pairs", "SELECT COUNT(*) FROM s JOIN t USING (k)").query("n", "SELECT COUNT(*) FROM s")
    state = made.plan().empty()
    assert state.answer("pairs").notes == ()
    state.update("s", {"k": [1, 2]})
    sentence = "no row of stream 't' has arrived, while other streams have rows: is its source correct?"
    assert state.answer("pairs").notes == (sentence,)
    assert state.answer("n").notes == ()
    assert f"input check: {sentence}" in state.explain()


# Files that Spark reads

PIPELINE = """
[workload]
budget = "64 KB"
store = "state"
[streams.s]
schema = "id BIGINT, name STRING"
format = "{form}"
path = "s"
options = {{ {options} }}
[queries]
n = "SELECT COUNT(*) FROM s"
sum = "SELECT SUM(id) FROM s"
names = "SELECT COUNT(*) FROM s WHERE name LIKE 'a%'"
kinds = "SELECT COUNT(DISTINCT name) FROM s"
"""


def pipeline(folder, form, files, options=""):
    (folder / "s").mkdir()
    (folder / "p.toml").write_text(PIPELINE.format(form=form, options=options))
    for number, text in enumerate(files):
        (folder / "s" / f"{number}.{form}").write_text(text)
    return load_pipeline(folder / "p.toml")


def taken(spark, loaded):
    with prepare_run(loaded, HowToRun(once=True)).start(spark) as run:
        run.await_termination()
        return run


def frame(spark, loaded, **more):
    return read_frame(spark, replace(batch_source(loaded, "s"), **more))


@pytest.mark.spark
def test_csv_columns_go_by_the_header(spark, tmp_path):
    loaded = pipeline(tmp_path, "csv", [",NAME, id,extra\n0,ann,1,x\n1,bob,2,y\n"], 'header = "true"')
    run = taken(spark, loaded)
    assert [run.answer(name).value for name in ("n", "sum", "names")] == [2, 3, 1]
    (tmp_path / "s" / "1.csv").write_text("id,NAME,,extra\n5,al,,x\n")
    with pytest.raises(
        el.PipelineError,
        match=r"header of .*1.csv has id, NAME, , extra where other files have , NAME,  id, extra; noth",
    ):
        loaded.plan().sketch(spark, {"s": frame(spark, loaded)})
    (tmp_path / "s" / "1.csv").write_text(",name, id,extra\n3,al,5,x\n")
    once = loaded.plan().sketch(spark, {"s": frame(spark, loaded)})
    assert [once.answer(name).value for name in ("n", "sum", "names")] == [3, 8, 2]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("text", "options", "sentence"),
    [
        ("id,nam\n1,ann\n", 'header = "true"', r"the header of .* has no column 'name'; it has id, nam\."),
        (
            "name,id\nann,1\n",
            "",
            r"first line of .* is a header \(name, id\), which would count as a row: add header",
        ),
    ],
)
def test_csv_files_with_another_header_are_refused(spark, tmp_path, text, options, sentence):
    with pytest.raises(el.PipelineError, match=sentence):
        frame(spark, pipeline(tmp_path, "csv", [text], options))


@pytest.mark.spark
def test_a_misspelt_field_of_json_is_told_and_case_does_not_matter(spark, tmp_path):
    lines = "".join(json.dumps({"ID": i, "nmae": "ann"}) + "\n" for i in range(3))
    loaded = pipeline(tmp_path, "json", [lines])
    run = taken(spark, loaded)
    sentence = (
        "column 'name' of stream 's' is NULL in all 3 rows, which have nmae: spell it in the schema as it is in the "
        "data."
    )
    assert run.answer("sum").value == 3
    assert run.answer("names").notes == (sentence,)
    assert run.answer("kinds").notes == (sentence,)
    assert run.progress()["s"].notes == (sentence,)
    assert el.open(tmp_path / "state").answer("names").notes == (sentence,)


@pytest.mark.spark
def test_change_data_in_files_is_refused_or_noted(spark, tmp_path):
    envelope = json.dumps({"id": 1, "name": "a", "op": "c", "before": None, "after": {"id": 1}, "source": {}})
    with pytest.raises(el.ChangeError, match=r'declare the stream with changes="debezium"'):
        taken(spark, pipeline(tmp_path, "json", [envelope]))
    rows = pa.table({"id": [1, 2], "name": ["a", "b"], "w": pa.array([1, -1], pa.int8())})
    pq.write_table(rows, tmp_path / "rows.parquet")
    made = plan("id BIGINT, name STRING, price INT", "WHERE name = 'a'")
    with pytest.raises(el.PipelineError, match="no column 'price'"):
        made.sketch(spark, {"s": str(tmp_path / "rows.parquet")})
    made = el.Workload(budget="64 KB").stream("s", "id BIGINT").query("n", "SELECT SUM(id) FROM s").plan()
    direct = made.sketch(spark, {"s": str(tmp_path / "rows.parquet")})
    assert (
        "stream 's' has a column 'w' that seems to hold the change type of a row"
        in direct.answer("n").notes[0]
    )
    with pytest.raises(el.ChangeError, match="_change_type, _commit_version"):
        made.sketch(
            spark, {"s": spark.sql("SELECT 1L AS id, 'delete' AS _change_type, 2 AS _commit_version")}
        )


@pytest.mark.spark
def test_milliseconds_read_as_seconds_by_spark_are_refused_and_nulls_are_seen_in_flags(spark):
    made = el.Workload(budget="64 KB").stream("s", "a STRING, b STRING, at TIMESTAMP", event_time="at")
    made.query("recent", "SELECT COUNT(*) FROM s WHERE a = 'x' AND b = 'y'", window="1 hour")
    rows = "SELECT 'x' AS a, CAST(NULL AS STRING) AS b, CAST({} AS TIMESTAMP) AS at FROM range(10)"
    with pytest.raises(el.PipelineError, match=r"stream 's' has event times in the year 57971"):
        made.plan().sketch(spark, {"s": spark.sql(rows.format(1_767_225_600_000))})
    answer = made.plan().sketch(spark, {"s": spark.sql(rows.format(NOW))}).answer("recent")
    assert [note for note in answer.notes if "NULL" in note] == [
        "column 'b' of stream 's' is NULL in all 10 rows: is it spelled in the schema as it is in the data?"
    ]
