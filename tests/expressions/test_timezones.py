"""Time zones: part of the plan where an expression depends on them."""

import datetime as dt

import pyarrow as pa
import pytest
from msgspec import json

import eddyline as el
from eddyline.errors import PlanError
from eddyline.expressions.arrow_eval import evaluate
from eddyline.expressions.schema import parse_schema
from eddyline.expressions.times import depends_on_zone, machine_zone, normal_zone, zone_info
from eddyline.plan.layout import Layout

COLUMNS = parse_schema("t", "a BIGINT, ts TIMESTAMP, t2 TIMESTAMP, n TIMESTAMP_NTZ, d DATE, c STRING")
NEW_YEAR = pa.table({"ts": pa.array([dt.datetime(2000, 12, 31, 23, 30)], pa.timestamp("us", "UTC"))})
QUERIES = {
    "year": "SELECT COUNT(*) FROM t WHERE year(ts) = 2001 AND month(ts) = 1 AND day(ts) = 1",
    "hour": "SELECT SUM(hour(ts)) FROM t",
    "date": "SELECT COUNT(*) FROM t WHERE CAST(ts AS DATE) = DATE '2001-01-01'",
    "literal": "SELECT COUNT(*) FROM t WHERE ts >= TIMESTAMP '2001-01-01 00:00:00'",
    "zoned": "SELECT COUNT(*) FROM t WHERE ts >= TIMESTAMP '2001-01-01 00:00:00Z'",
}


def workload(zone):
    asked = el.Workload(timezone=zone).stream("t", "a BIGINT, ts TIMESTAMP")
    for name, text in QUERIES.items():
        asked.query(name, text)
    return asked


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        ("UTC", [0, 23, 0, 0, 0]),
        ("Europe/Berlin", [1, 0, 1, 1, 0]),
        ("-03:30", [0, 20, 0, 0, 0]),
        ("GMT+1", [1, 0, 1, 1, 0]),
    ],
)
def test_years_days_and_hours_are_those_of_the_zone(zone, expected):
    state = workload(zone).plan().empty().update("t", NEW_YEAR)
    assert [state.answer(name).value for name in QUERIES] == expected


def test_the_zone_travels_with_the_plan_and_its_states(monkeypatch):
    plan = workload("Asia/Kolkata").plan()
    assert json.decode(json.encode(plan.layout), type=Layout).timezone == "Asia/Kolkata"
    state = el.State.from_bytes(plan.empty().to_bytes()).update("t", NEW_YEAR)
    assert state.answer("year").value == 1
    monkeypatch.setenv("TZ", "America/New_York")
    assert workload(None).plan(keep=plan).layout.timezone == "Asia/Kolkata"
    with pytest.raises(PlanError, match="Asia/Kolkata"):
        workload("UTC").plan(keep=plan)


def test_plans_without_times_are_the_same_everywhere():
    plans = [
        el.Workload(timezone=zone)
        .stream("t", "a BIGINT, ts TIMESTAMP")
        .query("n", "SELECT COUNT(DISTINCT ts) FROM t WHERE a > 1")
        .plan()
        for zone in ("UTC", "Europe/Berlin")
    ]
    assert plans[0].layout == plans[1].layout


def test_the_default_is_the_zone_of_the_machine(monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")
    assert machine_zone() == "America/New_York"
    monkeypatch.setenv("TZ", "no such zone")
    machine_zone()


def test_one_spelling_for_each_zone():
    assert [normal_zone(name) for name in ("Etc/UTC", "Z", "+00:00", "UTC+1", "+0530", "Europe/Paris")] == [
        "UTC", "UTC", "UTC", "+01:00", "+05:30", "Europe/Paris",
    ]  # fmt: skip
    for wrong in ("Mars/Olympus", "+25:00", "", "../etc/passwd"):
        with pytest.raises(PlanError, match="timezone"):
            el.Workload(timezone=wrong)


@pytest.mark.parametrize(
    ("text", "depends"),
    [
        ("`ts`", False), ("`ts` > `t2` AND NOT `ts` IS NULL", False), ("year(`d`) = 1", False), ("`n` > `d`", False),
        ("year(`ts`) = 1", True), ("`ts` > '2001-01-01'", True), ("`ts` = `n`", True), ("`ts` > `d`", True),
        ("CAST(`d` AS TIMESTAMP) = `ts`", True), ("hour(`c`) = 1", True), ("`a` > 1", False),
    ],
)  # fmt: skip
def test_which_expressions_depend_on_a_zone(text, depends):
    assert depends_on_zone(text, COLUMNS) is depends


@pytest.mark.parametrize(("column", "second"), [("ts", 0), ("n", 0), ("d", -3600)])
def test_unix_timestamp_reads_a_time_without_a_zone_as_one_in_utc(column, second):
    w = el.Workload(timezone="Europe/Berlin").stream("t", "ts TIMESTAMP, n TIMESTAMP_NTZ, d DATE")
    state = w.query("q", f"SELECT SUM(unix_timestamp({column})) FROM t").plan().empty()
    table = {
        "ts": pa.array([-500_000], pa.timestamp("us", "UTC")),  # half a second before 1970, which is cut off
        "n": pa.array([-500_000], pa.timestamp("us")),
        "d": pa.array([0], pa.date32()),
    }
    assert state.update("t", table).answer("q").value == second


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "+05:30"])
def test_summer_time_has_no_last_year(zone):
    days = [dt.datetime(year, 1, 1) + dt.timedelta(days=9 * i) for year in (1999, 2037, 2038, 2099, 2100, 2500, 9998) for i in range(40)]  # fmt: skip
    table = pa.table({"ts": pa.array([*days, None], pa.timestamp("us", "UTC"))})
    shown = [each.replace(tzinfo=dt.UTC).astimezone(zone_info(zone)).replace(tzinfo=None) for each in days]
    hours = evaluate("hour(ts)", table, COLUMNS, zone).to_pylist()
    assert hours == [*(each.hour for each in shown), None]
    clocks = pa.table({"n": pa.array([*shown, None], pa.timestamp("us"))})
    moments = evaluate("CAST(n AS TIMESTAMP)", clocks, COLUMNS, zone)
    assert moments.to_pylist() == table["ts"].to_pylist()
    assert evaluate("TIMESTAMP '2050-07-01 12:00:00'", table, COLUMNS, zone)[0].as_py() == dt.datetime(2050, 7, 1, 12, tzinfo=zone_info(zone))  # fmt: skip
