"""Rows and settings as people give them: what can be taken is taken, all else gets one sentence."""

import datetime as dt

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import eddyline as el

NOW = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
ROWS = [{"k": 1, "x": 2, "t": NOW, "n": "a"}, {"k": 2, "x": 3, "t": NOW, "n": "b"}]


def plan():
    w = el.Workload(budget="64 KB", seed=1).stream("s", "k BIGINT, x INT, t TIMESTAMP, n STRING")
    w.query("n", "SELECT COUNT(*) FROM s WHERE x > 0 AND n <> 'q'").query(
        "kinds", "SELECT COUNT(DISTINCT k) FROM s"
    )
    return w.query("late", "SELECT COUNT(*) FROM s WHERE t > TIMESTAMP '2020-01-01 00:00:00'").plan()


class Foreign:
    """A frame of a library that we do not know, which gives itself as Arrow does: polars and many others."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    "rows",
    [
        ROWS,
        pd.DataFrame(ROWS),
        pd.DataFrame(ROWS).astype({"t": "datetime64[ns, UTC]", "x": "int8"}),
        pa.RecordBatch.from_pylist(ROWS),
        pa.Table.from_pylist(ROWS),
        Foreign(pa.Table.from_pylist(ROWS)),
        {"k": np.array([1, 2], np.uint8), "x": np.array([2, 3]), "t": [NOW, NOW], "n": np.array(["a", "b"])},
        {"k": [1, 2], "x": [2, 3], "t": [NOW, NOW], "n": pa.array(["a", "b"], pa.string_view())},
    ],
    ids=["dicts", "pandas", "pandas ns", "batch", "table", "foreign", "numpy", "views"],
)
def test_rows_come_in_many_forms_and_count_the_same(rows):
    state = plan().empty().update("s", rows)
    assert state == plan().empty().update("s", pa.Table.from_pylist(ROWS))
    assert [state.answer(name).value for name in ("n", "kinds", "late")] == [2, 2, 2]


def columns(**changed):
    return {"k": [1], "x": [1], "t": [NOW], "n": ["a"], **changed}


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (
            columns(x=np.array([2**40])),
            "column 'x' is declared INT and the table's int64 holds values that it cannot",
        ),
        (
            columns(k=[2**70]),
            "are not a table: give a pyarrow.Table or RecordBatch, a pandas or polars DataFrame",
        ),
        (columns(k=[1, 2]), "a dict of columns of one length"),
        (columns(k=["1"]), "column 'k' is declared BIGINT and the table has string: cast it in the table"),
        (
            columns(t=pd.to_datetime(["2024-01-01"])),
            "column 't' is declared TIMESTAMP and the table has timestamp",
        ),
        ("a string", "they are of type str"),
        (7, "they are of type int"),
        ([1, 2], "they are of type list"),
        ({"k": [1]}, "the table has no column"),
    ],
)
def test_rows_that_are_none_get_a_sentence_and_nothing_is_counted(rows, sentence):
    state = plan().empty()
    with pytest.raises(el.PipelineError) as shown:
        state.update("s", rows)
    assert sentence in str(shown.value)
    assert state == plan().empty()


def stream():
    return el.Workload().stream("s", "k BIGINT, t TIMESTAMP", event_time="t")


@pytest.mark.parametrize(
    ("make", "kind", "sentence"),
    [
        (lambda: el.Workload(seed="7"), el.PlanError, "seed='7' is not a whole number"),
        (lambda: el.Workload(seed=1.5), el.PlanError, "seed=1.5 is not a whole number"),
        (lambda: el.Workload(seed=-1), el.PlanError, "seed=-1 is not a whole number from 0 to 2^63 - 1"),
        (lambda: el.Workload(error="x"), el.PlanError, "error='x' is not a relative error between 0 and 1"),
        (lambda: stream().query("d", "SELECT COUNT(DISTINCT k) FROM s") and el.Workload(error=0).stream("s", "k BIGINT").query("d", "SELECT COUNT(DISTINCT k) FROM s").plan(), el.PlanError, "error=0 is not"),
        (lambda: el.Workload(budget=[]), el.PlanError, "budget [] is not a size: write a number of bytes"),
        (lambda: el.Workload(budget="64 Z"), el.PlanError, "budget '64 Z' is not a size"),
        (lambda: el.Workload().stream(None, "k BIGINT"), el.PlanError, "stream name None is not a plain identifier"),
        (lambda: el.Workload().stream("s", None), el.PlanError, "is declared by its columns"),
        (lambda: stream().query(None, "SELECT COUNT(*) FROM s"), el.PlanError, "query name None"),
        (lambda: stream().query("n", None), el.PlanError, "takes a SQL string, not None"),
        (lambda: stream().query("n", "SELECT COUNT(*) FROM s", window="1 fortnight"), el.PlanError, "not a length of time"),
        (lambda: el.State.from_bytes(None), el.CorruptState, "from the bytes that to_bytes() wrote, not from NoneType"),
        (lambda: el.open(None), el.StoreError, "named by its directory or URI, not by None"),
        (lambda: plan().empty().answer("n", confidence="0.9"), el.PlanError, "confidence='0.9' is not a number"),
        (lambda: plan().empty().answer(None), el.PlanError, "takes the name of a query or a SQL string"),
        (lambda: plan().sketch(None, {"s": "x"}), el.PipelineError, "takes a Spark session, then a dict"),
        (lambda: plan().sketch({"s": "x"}, None), el.PipelineError, "takes a Spark session, then a dict"),
    ],
)  # fmt: skip
def test_settings_that_are_none_get_a_sentence(make, kind, sentence):
    with pytest.raises(kind) as shown:
        make()
    assert sentence in str(shown.value)


@pytest.mark.parametrize("size", ["64K", "64 kb", "64KB", "64 k", "0.064 M", 64_000])
def test_sizes_are_spelled_in_many_ways(size):
    assert el.Workload(budget=size)._settings.budget == 64_000


@pytest.mark.parametrize(
    "window", ["5 min", "5m", "300 s", "300s", "300 sec", "5 minutes", "5 Minutes", "300000 ms"]
)
def test_lengths_of_time_are_spelled_in_many_ways(window):
    from eddyline.plan.windows import parse_duration

    assert parse_duration(window) == 300_000_000


@pytest.mark.spark
def test_frames_that_are_none_get_a_sentence(spark):
    frame = spark.createDataFrame(ROWS, "k BIGINT, x INT, t TIMESTAMP, n STRING")
    for given, sentence in (
        (pd.DataFrame(ROWS), "stream 's' is given as DataFrame: give a Spark DataFrame"),
        (frame.groupBy("k"), "stream 's' is given as GroupedData"),
        (spark.readStream.format("rate").load(), "is a streaming one: keep it current with plan.start"),
        (7, "stream 's' is given as int"),
    ):
        with pytest.raises(el.PipelineError) as shown:
            plan().sketch(spark, {"s": given})
        assert sentence in str(shown.value)
    assert plan().sketch(spark, {"s": frame}).answer("n").value == 2
