"""Dates and times: Arrow says what Spark says, in every zone, where clocks skip an hour and where they show one twice."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from eddyline.expressions.arrow_eval import evaluate
from eddyline.expressions.nodes import Source, bare, text
from eddyline.expressions.schema import parse_schema
from eddyline.expressions.typing import infer
from eddyline.spark.changes import from_spark
from tests.data.select import parsed_expression

pytestmark = pytest.mark.spark
DDL = "a BIGINT, b BIGINT, c INT, s SMALLINT, x DOUBLE, y FLOAT, m DECIMAL(9,2), n DECIMAL(7,3), d DATE, t TIMESTAMP, w TIMESTAMP_NTZ"
COLUMNS = parse_schema("r", DDL)
ZONES = ["UTC", "Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe", "+05:30", "America/New_York"]
FIELDS = ["year", "quarter", "month", "day", "dayofmonth", "dayofweek", "dayofyear", "weekofyear", "weekday"]
EXPRESSIONS = [
    *(f"{field}({column})" for field in FIELDS for column in "dtw"),
    *(f"{field}({column})" for field in ("hour", "minute", "second") for column in "tw"),
    *(f"date_trunc('{unit}', t)" for unit in ("YEAR", "quarter", "MM", "week", "DAY", "hour", "MINUTE", "SECOND", "MILLISECOND")),
    *(f"date_trunc('{unit}', {column})" for unit in ("MONTH", "DAY", "HOUR") for column in "dw"),
    *(f"trunc({column}, '{unit}')" for unit in ("YEAR", "QUARTER", "MONTH", "WEEK") for column in "dtw"),
    *(f"extract({field} FROM t)" for field in ("YEAR", "QTR", "MON", "WEEK", "D", "DOW", "DOW_ISO", "DOY", "HOURS", "MIN")),
    "date_part('dow', d)", "date(t)", "date(w)", "to_date(t)", "to_date(d)", "CAST(d AS TIMESTAMP)", "CAST(w AS TIMESTAMP)",
    "CAST(t AS TIMESTAMP_NTZ)", "CAST(d AS TIMESTAMP_NTZ)", "date_add(d, c)", "date_add(t, 3)", "date_sub(d, c)", "date_sub(w, 1)",
    "d + c", "d - s", "datediff(d, t)", "datediff(w, d)", "last_day(d)", "last_day(t)", "unix_timestamp(t)", "unix_timestamp(d)", "unix_timestamp(w)",
    "unix_seconds(t)", "unix_millis(t)", "unix_micros(t)", "timestamp_seconds(c)", "timestamp_millis(a)", "timestamp_micros(b)",
    *(f"{column} {sign} INTERVAL {length}" for column in "dtw" for sign in "+-"
      for length in ("1 HOUR", "30 MINUTES", "1 DAY", "2 WEEKS", "24 HOURS", "49 HOURS", "-1 DAY", "7 SECONDS", "5 MILLISECONDS")),
    "INTERVAL 3 HOURS + t", "INTERVAL '1' DAY + d",
    *(f"{left} {compare} {right}" for compare in ("<", ">=", "=") for left, right in ("dt", "td", "dw", "wd")),
    "d <= TIMESTAMP '2024-10-27 02:30:00'", "d > TIMESTAMP '2018-11-04 01:30:00'", "d = TIMESTAMP '2018-11-04 01:00:00'", "coalesce(d, w)", "coalesce(t, d)",
    "w BETWEEN d AND w", "w IN (d, w)", "t > DATE '2024-10-27'", "t >= DATE '2018-11-04'", "w < DATE '2018-11-04'",
]  # fmt: skip
NUMBERS = [
    "a % b", "mod(a, 7)", "a % -3", "c % b", "s % 3", "x % 2", "x % y", "y % 3", "m % n", "m % 7", "n % m", "a % n", "m % x",
    "a DIV b", "c DIV 3", "nullif(a, b)", "nullif(c, 3)", "try_divide(a, nullif(b, 3))", "try_divide(x, c)", "a / nullif(b, 1)",
    *(f"{function}({column})" for function in ("floor", "ceil") for column in "acsxymn"), "floor(-m) * 3", "ceil(x / 7) + 1",
]  # fmt: skip


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(4)
    rows = 400
    seconds = rng.integers(-2_000_000_000, 2_000_000_000, rows)
    changes = [dt.datetime(2024, 3, 31, 1), dt.datetime(2024, 10, 27, 0, 30), dt.datetime(2018, 11, 4, 3), dt.datetime(2018, 2, 18, 1),
               dt.datetime(2024, 10, 5, 15, 30), dt.datetime(2024, 4, 6, 14, 45), dt.datetime(2024, 3, 10, 6, 59, 59)]  # fmt: skip
    epoch = dt.datetime(1970, 1, 1)
    near = [int((each - epoch).total_seconds()) for each in changes]
    seconds[:280] = np.repeat(near, 40) + rng.integers(-9000, 9000, 280)
    micros = seconds * 1_000_000 + rng.integers(0, 1_000_000, rows)
    clock = [epoch + dt.timedelta(microseconds=int(each)) for each in micros]
    skipped = [
        dt.datetime(2024, 3, 31, 2, 30),
        dt.datetime(2018, 11, 4, 0, 20),
        dt.datetime(2024, 10, 6, 2, 15),
        dt.datetime(2024, 10, 27, 2, 30),
    ]
    divisors = rng.choice([-9, -2, 1, 3, 1000], rows)
    return pa.table(
        {
            "a": pa.array(rng.integers(-(2**40), 2**40, rows), mask=rng.random(rows) < 0.1),
            "b": pa.array(divisors, pa.int64(), mask=rng.random(rows) < 0.1),
            "c": pa.array(rng.integers(-400, 400, rows) | 1, pa.int32(), mask=rng.random(rows) < 0.1),
            "s": pa.array(rng.integers(-30, 30, rows), pa.int16()),
            "x": pa.array(rng.integers(-99, 99, rows) / 8 + 0.1),
            "y": pa.array((rng.integers(1, 99, rows) / 7).astype(np.float32)),
            "m": pa.array([Decimal(int(v)) / 100 for v in rng.integers(-999, 999, rows) | 1], pa.decimal128(9, 2)),
            "n": pa.array([Decimal(int(v)) / 1000 for v in rng.integers(-9999, 9999, rows) | 1], pa.decimal128(7, 3)),
            "d": pa.array([each.date() for each in clock], mask=rng.random(rows) < 0.1),
            "t": pa.array(clock, pa.timestamp("us", "UTC"), mask=rng.random(rows) < 0.1),
            "w": pa.array([*skipped, *clock[4:]], pa.timestamp("us"), mask=rng.random(rows) < 0.05),
        }
    )  # fmt: skip


@pytest.mark.parametrize("zone", ZONES)
def test_every_function_says_what_spark_says(spark, table, zone):
    """Types and values, of the text as the plan stores it and as it was written."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        frame = spark.createDataFrame(table, schema=DDL).coalesce(1)
        asked = EXPRESSIONS + (NUMBERS if zone == "UTC" else [])
        source = (Source("r", "r", COLUMNS),)
        nodes = [parsed_expression(each) for each in asked]
        stored = [text(bare(node, source)) for node in nodes]
        columns = [f"{each} AS c{i}" for i, each in enumerate([*asked, *stored])]
        made = frame.selectExpr(*columns)
        kinds = [from_spark(field.dataType) for field in made.schema.fields]
        found = [column.to_pylist() for column in made.toArrow().columns]
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    for i, written in enumerate(asked):
        ours = evaluate(stored[i], table, COLUMNS, zone).to_pylist()
        assert infer(nodes[i], source) == kinds[i] == kinds[len(asked) + i], written
        wrong = [
            (row, one, other)
            for row, one, other, again in zip(
                table.to_pylist(), ours, found[i], found[len(asked) + i], strict=True
            )
            if not one == other == again
        ]
        assert not wrong, (written, len(wrong), wrong[:2])
