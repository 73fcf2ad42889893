"""Columns with spaces, dots and umlauts in their names: declared and asked between backticks, on every path."""

import json
from decimal import Decimal

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import eddyline as el
from eddyline.spark.sources import SparkSource
from eddyline.spark.sources.frames import read_frame

SCHEMA = "`Net Total (€)` DECIMAL(12,2), `a.b` BIGINT, größe INT, `line item` STRING"
TABLE = pa.table(
    {
        "Net Total (€)": pa.array([Decimal("1.50"), Decimal("2.25"), Decimal("9.00")], pa.decimal128(12, 2)),
        "a.b": [1, 2, 2],
        "größe": pa.array([1, 2, 3], pa.int32()),
        "line item": ["x", "y", "y"],
        "my weight": pa.array([1, 1, -1], pa.int32()),
    }
)
QUERIES = {
    "total": ("SELECT SUM(`Net Total (€)`) FROM s", Decimal("-5.25")),
    "pairs": (
        "SELECT COUNT(*) FROM s l JOIN s r ON l.`a.b` = r.`a.b` WHERE l.größe < 3 AND r.`größe` < 3",
        2,
    ),
    "items": ("SELECT COUNT(DISTINCT `line item`) FROM s WHERE s.`a.b` > 0", 1),
}


def plan():
    w = el.Workload(budget="64 KB").stream("s", SCHEMA, changes="my weight")
    for name, (text, _) in QUERIES.items():
        w.query(name, text)
    w.query("by_item", "SELECT `line item`, SUM(größe) AS g FROM s GROUP BY `line item`")
    return w.explore("s", "line item", "größe").plan()


def check(state):
    for name, (_, expected) in QUERIES.items():
        assert state.answer(name).value == expected, name
    assert {row["line item"]: row["g"] for row in state.answer("by_item")}["x"] == 1
    assert state.answer("SELECT SUM(größe) FROM s WHERE `line item` = 'x'").value == 1


def test_arrow_tables_and_bytes():
    state = plan().empty().update("s", TABLE)
    check(state)
    check(el.State.from_bytes(state.to_bytes()))


@pytest.mark.spark
@pytest.mark.parametrize("form", ["parquet", "path", "json", "csv"])
def test_sources_of_spark(spark, tmp_path, form):
    path = str(tmp_path / f"s.{form}")
    if form in ("parquet", "path"):
        pq.write_table(TABLE, path)
    elif form == "csv":
        pc.write_csv(TABLE, path, pc.WriteOptions(include_header=False))
    else:
        rows = [row | {"Net Total (€)": float(row["Net Total (€)"])} for row in TABLE.to_pylist()]
        (tmp_path / "s.json").write_text("\n".join(map(json.dumps, rows)))
    frame = path if form == "path" else read_frame(spark, SparkSource("s", form, path, SCHEMA, "my weight"))
    check(plan().sketch(spark, {"s": frame}))


def test_dotless_names_are_scanned_directly():
    w = (
        el.Workload()
        .stream("s", SCHEMA)
        .query("n", "SELECT SUM(`Net Total (€)`) FROM s WHERE `line item` = 'x'")
    )
    assert "s: directly from Parquet files" in w.plan().explain()


@pytest.mark.parametrize("name", ["a``b", "a\tb"])
def test_names_that_cannot_be_quoted_are_refused(name):
    with pytest.raises(el.PlanError, match="has a backtick or a control character"):
        el.Workload().stream("s", f"`{name}` BIGINT")
