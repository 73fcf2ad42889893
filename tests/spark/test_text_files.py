"""CSV and JSON: columns of folders keep their names, no line is dropped silently, and no decimal is rounded."""

import datetime as dt
from decimal import Decimal

import pytest

from eddyline.errors import PipelineError
from eddyline.spark.sources import SparkSource
from eddyline.spark.sources.frames import read_frame

pytestmark = pytest.mark.spark
FILES = {
    "csv": ("x,id\n2,1\n", {"header": "true"}),
    "csv without header": ("1,2\n", {}),
    "json": ('{"x": 2, "ID": 1}\n', {}),
}


@pytest.mark.parametrize("form", FILES)
@pytest.mark.parametrize("declared", ["", ", day DATE"])
def test_columns_of_folders_come_by_their_names(spark, tmp_path, form, declared):
    text, options = FILES[form]
    (tmp_path / "day=2024-01-01").mkdir()
    (tmp_path / "day=2024-01-01" / "1.txt").write_text(text)
    form = form.split()[0]
    frame = read_frame(
        spark, SparkSource("s", form, str(tmp_path), f"id BIGINT, x INT{declared}", options=options)
    )
    (row,) = frame.select("id", "x", "day", "_corrupt_record").collect()
    assert (row.id, row.x, row["_corrupt_record"]) == (1, 2, None)
    assert str(row.day) == "2024-01-01"
    if declared:
        assert row.day == dt.date(2024, 1, 1)


def test_lines_are_not_dropped_in_silence(spark, tmp_path):
    (tmp_path / "1.csv").write_text("1,2\nmany,2\n")
    with pytest.raises(PipelineError, match=r"drops lines silently.*on_bad = \"skip\""):
        read_frame(
            spark,
            SparkSource("s", "csv", str(tmp_path), "id BIGINT, x INT", options={"mode": "dropMalformed"}),
        )


@pytest.mark.parametrize("form", ["csv", "json"])
def test_a_decimal_that_its_column_would_round_is_reported(spark, tmp_path, form):
    texts = ["1.2", "-9999.9", "1.20", "7", "1.25", "99999.95", "-0.01"]
    lines = [f'{{"d": {text}, "k": 1}}' if form == "json" else f"{text},1" for text in texts]
    (tmp_path / f"1.{form}").write_text("\n".join(lines))
    rows = read_frame(spark, SparkSource("s", form, str(tmp_path), "d DECIMAL(5,1), k INT")).collect()
    assert [row.d for row in rows[:4]] == [Decimal(text) for text in ("1.2", "-9999.9", "1.2", "7")]
    for row in rows[:4]:
        assert row["_corrupt_record"] is None
    assert rows[4]["_corrupt_record"] == "d is 1.25, which DECIMAL(5,1) does not hold"
    for row in rows[4:]:
        assert row["_corrupt_record"] is not None
