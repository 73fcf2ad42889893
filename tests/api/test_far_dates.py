"""Dates and times beyond Python's calendar: texts in Python, values in Arrow, and never a foreign exception."""

import datetime as dt
import json

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eddyline as el
from eddyline.expressions.arrow_values import python_rows, python_values
from eddyline.spark.direct.files import holds_signs

_LAST, _FIRST = 2_932_896, -719_162  # 9999-12-31 and 0001-01-01, in days since 1970
_MICROS = 86_400_000_000
_DAYS = [_LAST, _LAST, 0, _FIRST - 1, 100]
_ROWS = pa.table(
    {
        "k": [1, 2, 1, 1, 2],
        "d": pa.array(_DAYS, pa.int32()).cast(pa.date32()),
        "t": pa.array([day * _MICROS + _MICROS - 1 for day in _DAYS], pa.int64()).cast(
            pa.timestamp("us", "UTC")
        ),
        "n": pa.array([(day + 1) * _MICROS for day in _DAYS], pa.int64()).cast(pa.timestamp("us")),
    }
)
_QUERIES = {
    "rows": "SELECT COUNT(*) FROM s",
    "days": "SELECT date_add(d, 1) AS g, COUNT(*) AS c FROM s GROUP BY date_add(d, 1) ORDER BY g",
    "last": "SELECT MAX(date_add(d, 1)) FROM s",
    "first": "SELECT MIN(d) AS a, MAX(n) AS b, MIN(t) AS c FROM s",
    "zoned": "SELECT CAST(t AS DATE) AS g, MAX(t) AS m FROM s GROUP BY CAST(t AS DATE) ORDER BY m DESC LIMIT 2",
    "share": "SELECT k, PERCENTILE_APPROX(date_add(d, 1), 0.9) AS p FROM s GROUP BY k HAVING COUNT(*) > 1 ORDER BY p",
    "of_n": "SELECT n, MIN(d) AS a, COUNT(DISTINCT d) AS c FROM s GROUP BY n",
}


@pytest.fixture(scope="module")
def state() -> el.State:
    w = el.Workload(budget="256 KB", seed=3, timezone="Asia/Kolkata")
    w.stream("s", "k BIGINT, d DATE, t TIMESTAMP, n TIMESTAMP_NTZ")
    w.explore("s", "d", "n")
    for name, sql in _QUERIES.items():
        w.query(name, sql)
    return w.plan().empty().update("s", _ROWS)


def test_values_are_written_as_spark_writes_them() -> None:
    # these texts are Spark's own: CAST(date_add(DATE'9999-12-31', 1) AS STRING), and so on
    days = pa.array([_LAST + 1, _FIRST - 1, _FIRST - 367, _FIRST - 4_000_000, None], pa.int32()).cast(
        pa.date32()
    )
    assert python_values(days) == ["+10000-01-01", "0000-12-31", "-0001-12-31", "-10951-05-17", None]
    times = pa.array([(_LAST + 1) * _MICROS + 1, _LAST * _MICROS], pa.int64())
    assert python_values(times.cast(pa.timestamp("us"))) == [
        "+10000-01-01 00:00:00.000001",
        dt.datetime(9999, 12, 31),
    ]
    assert python_values(times.cast(pa.timestamp("us", "UTC")))[0] == "+10000-01-01 00:00:00.000001+00:00"


def test_far_dates_are_those_of_another_calendar() -> None:
    days = np.random.default_rng(5).integers(-3_000_000, 6_000_000, 500)
    shown = python_values(pa.array(days, pa.int32()).cast(pa.date32()))
    asked = (
        "SELECT year(d), month(d), day(d) FROM (SELECT DATE '1970-01-01' + CAST(n AS INTEGER) AS d FROM t)"
    )
    fields = duckdb.sql(
        asked.replace("FROM t", f"FROM (VALUES {', '.join(f'({n})' for n in days)}) t(n)")
    ).fetchall()
    for value, (year, month, day) in zip(shown, fields, strict=True):
        if isinstance(value, dt.date):
            assert (value.year, value.month, value.day) == (year, month, day)
        else:
            sign = "+" if year > 9999 else "-" if year < 0 else ""
            assert value == f"{sign}{abs(year):04}-{month:02}-{day:02}"


def test_far_dates_are_answered_in_every_form(state: el.State) -> None:
    last = state.answer("last")
    assert (last.value, last.exact) == ("+10000-01-01", True)
    days = state.answer("days")
    assert days.to_arrow()["g"].cast(pa.int32()).to_pylist() == [_FIRST, 1, 101, _LAST + 1]
    assert [row["g"] for row in days] == [
        dt.date(1, 1, 1),
        dt.date(1970, 1, 2),
        dt.date(1970, 4, 12),
        "+10000-01-01",
    ]
    assert days["+10000-01-01"]["c"].value == 2
    assert "+10000-01-01" in str(days)
    assert list(days.to_pandas()["g"])[-1] == "+10000-01-01"
    first = python_rows(state.answer("first").to_arrow())[0]
    assert (first["a"], first["b"]) == ("0000-12-31", "+10000-01-01 00:00:00")
    assert first["c"] == "0000-12-31 23:59:59.999999+00:00"
    zoned = state.answer("zoned")  # five and a half hours later it is another day
    assert [row["g"] for row in zoned] == ["+10000-01-01", dt.date(1970, 4, 12)]
    assert [row["p"] for row in state.answer("share")] == ["+10000-01-01", "+10000-01-01"]
    assert len(state.answer("of_n")) == 4
    asked = state.answer("SELECT n, COUNT(*) AS c FROM s WHERE d > DATE '2000-01-01' GROUP BY n")
    assert [(row["n"], row["c"]) for row in asked] == [("+10000-01-01 00:00:00", 2)]


def test_far_dates_do_not_take_other_answers_down(state: el.State) -> None:
    table = state.answers()
    assert set(table["query"].to_pylist()) == set(_QUERIES)
    assert "refused" not in table["answer"].to_pylist()
    assert "rows: exact" in state.explain()
    for name in _QUERIES:
        answer = state.answer(name)
        json.dumps(answer.to_dict())
        assert answer._repr_html_()
    assert state._repr_html_()


def test_lookups_tell_far_dates() -> None:
    w = el.Workload(budget="256 KB", seed=3)
    w.stream("s", "d DATE").stream("r", "d DATE").sample("s", "d", size=100)
    w.query("j", "SELECT COUNT(*) FROM s JOIN r ON s.d = r.d")
    rows = _ROWS.select(["d"])
    state = w.plan().empty().update("s", rows).update("r", rows)
    assert state.answer("j").value == 7
    assert [each.value for each in state.frequent("s", "d", top=1)] == [dt.date(9999, 12, 31)]
    assert "0000-12-31" in (state.sample("s", "d").values or ())
    w.plan(statistics=state.statistics())


def test_bad_rows_with_far_dates_are_shown() -> None:
    w = el.Workload(budget="64 KB", seed=3)
    w.stream("s", "d DATE, w BIGINT", changes="w").query("q", "SELECT COUNT(*) FROM s")
    rows = pa.table({"d": _ROWS["d"].slice(3, 1), "w": pa.array([None], pa.int64())})
    with pytest.raises(el.ChangeError, match="0000-12-31"):
        w.plan().empty().update("s", rows)


def test_far_dates_in_parquet_footers(tmp_path) -> None:
    pq.write_table(_ROWS.select(["d"]), tmp_path / "a.parquet")
    assert not holds_signs([pq.read_metadata(tmp_path / "a.parquet")], "d")


def test_one_query_that_fails_does_not_take_others_down() -> None:
    w = el.Workload(budget="512 KB", samples=False, max_distinct=64)
    w.stream("s", "a BIGINT").stream("r", "a BIGINT")
    w.query("both", "SELECT COUNT(*) FROM (SELECT a FROM s INTERSECT SELECT a FROM r)")
    w.query("rows", "SELECT COUNT(*) FROM s")
    values = {"a": np.arange(2_000_000)}
    state = w.plan().empty().update("s", values).update("r", values)
    with pytest.raises(el.SketchError, match="capacity exceeded"):
        state.answer("both")
    found = {row["query"]: row for row in state.answers().to_pylist()}
    assert found["rows"]["value"] == 2_000_000
    assert found["both"]["answer"] == "refused"
    assert "capacity exceeded" in found["both"]["notes"][0]
    assert "rows: exact" in state.explain()
    assert state._repr_html_()
