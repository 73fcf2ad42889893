"""Streams declared by what has their columns: a table, a frame, a file."""

import datetime as dt
from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import eddyline as el

TABLE = pa.table(
    {
        "id": pa.array([1, 2], pa.int64()),
        "n": pa.array([1, 2], pa.int32()),
        "total": pa.array([Decimal("1.50"), Decimal("2.25")], pa.decimal128(12, 2)),
        "name": ["a", "b"],
        "at": pa.array([dt.datetime(2026, 1, 1, tzinfo=dt.UTC)] * 2, pa.timestamp("us", "UTC")),
        "tags": [["x"], []],
        "_change_type": ["insert", "insert"],
    }
)
DDL = "id BIGINT, n INT, total DECIMAL(12,2), name STRING, at TIMESTAMP"


def columns(given, **more):
    workload = el.Workload().stream("s", given, **more)
    return {column.name: str(column.type) for column in workload._streams["s"].columns}


EXPECTED = columns(DDL)


@pytest.mark.parametrize("form", ["schema", "table", "batch", "parquet", "path", "folder"])
def test_columns_come_from_arrow_and_from_parquet(form, tmp_path):
    path = tmp_path / "s.parquet"
    pq.write_table(TABLE, path)
    given = {
        "schema": TABLE.schema,
        "table": TABLE,
        "batch": TABLE.to_batches()[0],
        "parquet": str(path),
        "path": path,
        "folder": str(tmp_path),
    }[form]
    assert columns(given, changes="change_type") == EXPECTED
    assert columns(given) == {**EXPECTED, "_change_type": "STRING"}


def test_columns_come_from_pandas_and_csv(tmp_path):
    frame = pd.DataFrame({"id": [1], "x": [0.5], "name": ["a"]})
    expected = {"id": "BIGINT", "x": "DOUBLE", "name": "STRING"}
    assert columns(frame) == expected
    pc.write_csv(pa.Table.from_pandas(frame), tmp_path / "s.csv")
    assert columns(tmp_path / "s.csv") == expected


@pytest.mark.spark
def test_columns_come_from_a_frame_of_spark_and_it_is_counted(spark):
    frame = spark.createDataFrame(TABLE.drop(["tags", "_change_type"]).to_pandas()).selectExpr(
        "id", "CAST(n AS INT) AS n", "CAST(total AS DECIMAL(12,2)) AS total", "name", "at", "array(1) AS tags", "'insert' AS _change_type"
    )  # fmt: skip
    assert columns(frame, changes="change_type") == EXPECTED
    workload = (
        el.Workload().stream("s", frame, changes="change_type").query("sum", "SELECT SUM(total) FROM s")
    )
    assert workload.plan().sketch(spark, {"s": frame}).answer("sum").value == 3.75


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (7, "is declared by its columns, 'id BIGINT, total DECIMAL(12,2)', or by what has them"),
        ("nowhere.parquet", "the columns of 'nowhere.parquet' cannot be read"),
        (pa.schema([("tags", pa.list_(pa.string()))]), "no column of tags has a type that is read"),
        ("id", "the schema of stream 's'"),
    ],
)
def test_what_has_no_columns_gets_a_sentence(given, sentence):
    with pytest.raises(el.PlanError) as shown:
        columns(given)
    assert sentence in str(shown.value)
