"""Types and time zones against Spark itself: what it refuses we refuse, and both paths read one clock."""

import datetime as dt
import logging

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

import eddyline as el
from eddyline.errors import PipelineError, SqlError, UnsupportedQuery
from eddyline.expressions.schema import parse_schema
from eddyline.sql.parse import parse_query
from tests.data.frames import ALL_TYPES_DDL

pytestmark = pytest.mark.spark
COLUMNS = parse_schema("t", ALL_TYPES_DDL)
VALUES = ["b", "i8", "i64", "dec", "x", "s", "bin", "d", "ts", "nts", "NULL", "1.5"]
ONE = [
    "NOT {0}", "-{0} = 1", "abs({0}) = 1", "upper({0}) = 'X'", "year({0}) = 1", "hour({0}) = 1", "{0} IS NOT TRUE",
    "{0} NOT LIKE 'x'", "CAST({0} AS DATE) = d", "CAST({0} AS DECIMAL(9,2)) = 1", "CAST({0} AS BOOLEAN)", "CASE {0} WHEN 1 THEN b END",
]  # fmt: skip
TWO = [
    "{0} = {1}", "{0} + {1} = 1", "{0} * {1} = 1", "{0} OR {1}", "COALESCE({0}, {1}) IS NULL", "{0} IN ({1}, NULL)",
    "{0} BETWEEN {1} AND {1}", "CASE WHEN b THEN {0} ELSE {1} END IS NULL", "{0} % {1} = 1",
]  # fmt: skip


def refuses(text):
    try:
        parse_query(f"SELECT COUNT(*) FROM t WHERE {text}", {"t": COLUMNS})
    except UnsupportedQuery:
        return None
    except SqlError:
        return True
    return False


@pytest.mark.parametrize("form", [*ONE, *TWO])
def test_what_spark_refuses_is_refused_and_nothing_else(spark, form):
    logging.getLogger("SQLQueryContextLogger").disabled = True
    spark.createDataFrame([], ALL_TYPES_DDL).createOrReplaceTempView("t")
    pairs = [(a, b) for a in VALUES for b in VALUES[:: 1 if "{1}" in form else len(VALUES)]]
    wrong = []
    for text in dict.fromkeys(form.format(*pair) for pair in pairs):
        try:
            spark.sql(f"SELECT COUNT(*) FROM t WHERE {text}")
            theirs = False
        except AnalysisException:
            theirs = True
        if refuses(text) not in (theirs, None):
            wrong.append((text, theirs))
    assert not wrong


TIMES = pa.table(
    {
        "ts": pa.array(
            [
                dt.datetime(2000, 12, 31, 23, 30),
                dt.datetime(2024, 3, 31, 1, 0),
                dt.datetime(1969, 12, 31, 23, 59, 59, 999999),
                None,
            ],
            pa.timestamp("us", "UTC"),
        )
    }
)
ASKED = {
    "years": "SELECT SUM(year(ts) * 10000 + month(ts) * 100 + day(ts)) FROM t",
    "hours": "SELECT SUM(hour(ts) * 60 + minute(ts)) FROM t",
    "dates": "SELECT COUNT(DISTINCT CAST(ts AS DATE)) FROM t WHERE CAST(ts AS DATE) >= DATE '1970-01-01'",
    "literals": "SELECT COUNT(*) FROM t WHERE ts >= TIMESTAMP '2001-01-01 00:00:00' OR ts < TIMESTAMP '1970-01-01 00:00:00Z'",
}


@pytest.fixture
def in_zone(spark):
    """Sets the session's zone for one test."""
    before = spark.conf.get("spark.sql.session.timeZone")
    yield lambda zone: spark.conf.set("spark.sql.session.timeZone", zone)
    spark.conf.set("spark.sql.session.timeZone", before)


def asked(**settings):
    workload = el.Workload(**settings).stream("t", "ts TIMESTAMP")
    for name, text in ASKED.items():
        workload.query(name, text)
    return workload


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "+05:30"])
def test_both_paths_read_the_clock_of_the_session_at_plan_time(spark, in_zone, zone):
    in_zone(zone)
    frame = spark.createDataFrame(TIMES, schema="ts TIMESTAMP")
    frame.createOrReplaceTempView("t")
    plan = asked().plan()
    assert plan.layout.timezone == zone
    on_spark, on_arrow = plan.sketch(spark, {"t": frame}), plan.empty().update("t", TIMES)
    assert on_spark == on_arrow
    for name, text in ASKED.items():
        assert on_spark.answer(name).value == spark.sql(text).collect()[0][0], name


def test_a_session_of_another_zone_is_refused_where_it_matters(spark, in_zone):
    frame = spark.createDataFrame(TIMES, schema="ts TIMESTAMP")
    in_zone("Asia/Kolkata")
    with pytest.raises(PipelineError, match=r"Europe/Berlin.*Asia/Kolkata"):
        asked(timezone="Europe/Berlin").plan().sketch(spark, {"t": frame})
    plain = (
        el.Workload(timezone="Europe/Berlin")
        .stream("t", "ts TIMESTAMP")
        .query("n", "SELECT COUNT(DISTINCT ts) FROM t")
        .plan()
    )
    assert plain.sketch(spark, {"t": frame}).answer("n").value == 3


def test_a_row_on_which_spark_fails_is_an_error_of_ours(spark):
    frame = spark.createDataFrame([("x",)], "s STRING")
    plan = el.Workload().stream("t", "s STRING").query("n", "SELECT COUNT(*) FROM t WHERE s = 1").plan()
    with pytest.raises(PipelineError, match="stream 't'"):
        plan.sketch(spark, {"t": frame})
