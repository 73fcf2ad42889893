"""Fields in the encodings of Kafka Connect and Debezium, against slow decoders; what does not fit is refused."""

import base64
import datetime as dt
import json
from decimal import Context, Decimal
from fractions import Fraction

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import eddyline as el
from eddyline.ingest.changes import UNAVAILABLE
from eddyline.ingest.debezium import FieldSchema, field_array, field_reader, json_type
from eddyline.types import SqlType
from tests.oracles.connect_values import base64_integer, in_decimal, wall_time

CONNECT, DEBEZIUM = "org.apache.kafka.connect.data.", "io.debezium.time."
DECIMALS = st.integers(1, 38).flatmap(lambda p: st.tuples(st.just(p), st.integers(0, p)))
UNITS = {f"{DEBEZIUM}Timestamp": "ms", f"{CONNECT}Timestamp": "ms", f"{DEBEZIUM}MicroTimestamp": "us",
         f"{DEBEZIUM}NanoTimestamp": "ns"}  # fmt: skip
WIDE = Context(prec=80)
ZONE = dt.timezone(dt.timedelta(hours=2))


def read(kind, value, name=None, *, schema=True, **parameters):
    """The value that an Arrow array has for a field, or REFUSED."""
    shown = FieldSchema("x", name, parameters or None) if schema else None
    row = msgspec.defstruct("Row", [("x", json_type(kind))])
    try:
        given = msgspec.json.decode(b'{"x": %s}' % json.dumps(value).encode(), type=row).x
        reader = field_reader(kind, shown, ZONE, schema=schema)
        return field_array(kind, [given if reader is None else reader(given)])[0].as_py()
    except el.ChangeError as refused:
        return str(refused)


def units(kind, value):
    """A decimal that was read as a given number of units of its scale, None if it was refused."""
    return None if isinstance(value, str) else int(value.scaleb(kind.scale, WIDE))


@given(DECIMALS, st.binary(min_size=1, max_size=20), st.integers(0, 40))
@example((38, 0), (-(10**38) + 1).to_bytes(16, "big", signed=True), 0)
@example((38, 38), (10**38 - 1).to_bytes(16, "big", signed=True), 38)
@example((5, 2), (12300).to_bytes(2, "big", signed=True), 4)
@example((5, 2), (12301).to_bytes(2, "big", signed=True), 4)
def test_decimals_in_bytes_are_exact_or_refused(declared, data, scale):
    kind = SqlType("decimal", *declared)
    text = base64.b64encode(data).decode()
    expected = in_decimal(Fraction(base64_integer(text), 10**scale), *declared)
    assert units(kind, read(kind, text, f"{CONNECT}Decimal", scale=str(scale))) == expected
    variable = {"scale": scale, "value": text}
    for schema in (True, False):
        name = "io.debezium.data.VariableScaleDecimal"
        assert units(kind, read(kind, variable, name, schema=schema)) == expected


@given(DECIMALS, st.decimals(allow_nan=False, allow_infinity=False, places=5) | st.integers().map(Decimal))
def test_decimals_in_text_are_exact_or_refused(declared, number):
    kind = SqlType("decimal", *declared)
    expected = in_decimal(Fraction(number), *declared)
    assert units(kind, read(kind, str(number))) == expected
    assert units(kind, read(kind, format(number, "f"), schema=False)) == expected


@given(DECIMALS, st.floats(allow_nan=False, allow_infinity=False))
@example((12, 2), 12.34)
@example((12, 2), 1.5e9)
def test_decimals_as_doubles_have_the_digits_that_json_has(declared, number):
    kind = SqlType("decimal", *declared)
    assert units(kind, read(kind, number)) == in_decimal(Fraction(repr(number)), *declared)


def test_numbers_of_a_decimal_field_are_no_base64():
    """The JSON converter writes numbers with decimal.format=NUMERIC: 1234 is one, and "1234" three bytes."""
    kind = SqlType("decimal", 12, 2)
    assert read(kind, 1234, f"{CONNECT}Decimal", scale="2") == 1234
    assert read(kind, "1234", f"{CONNECT}Decimal", scale="2") == Decimal(base64_integer("1234")) / 100
    assert "decimal.handling.mode=string" in read(kind, "AJY=", schema=False)
    for value in ("NaN", "Infinity", "1e99999999", "", "1_000", True, [1], {"scale": 2.0, "value": "AJY="}):
        assert "holds exactly" in read(kind, value), value
    assert read(kind, None, f"{CONNECT}Decimal", scale="2") is None


@given(st.sampled_from(sorted(UNITS)), st.integers(-(2**63), 2**63 - 1))
@example(f"{DEBEZIUM}MicroTimestamp", 9223372036825200000)  # PostgreSQL's infinity
@example(f"{DEBEZIUM}NanoTimestamp", -1)
@example(f"{DEBEZIUM}Timestamp", 253402300799999)
def test_timestamps_have_the_unit_of_their_name(name, number):
    try:
        expected = wall_time(number, UNITS[name])
    except OverflowError:
        expected = None
    wall = read(SqlType("timestamp_ntz"), number, name)
    moment = read(SqlType("timestamp"), number, name)
    if expected is None:
        assert "is not a TIMESTAMP" in moment
        assert "is not a TIMESTAMP_NTZ" in wall
    else:
        assert wall == expected
        assert moment == expected.replace(tzinfo=dt.UTC)


@given(st.integers(-(2**31), 2**31 - 1), st.sampled_from([f"{DEBEZIUM}Date", f"{CONNECT}Date"]))
def test_dates_are_days(days, name):
    try:
        expected = dt.date(1970, 1, 1) + dt.timedelta(days=days)
    except OverflowError:
        expected = None
    found = read(SqlType("date"), days, name)
    assert found == expected or (expected is None and "is not a DATE" in found)


@given(st.times(), st.sampled_from(["Time", "MicroTime", "NanoTime"]))
def test_times_of_day_are_text(time, name):
    unit = {"Time": 1000, "MicroTime": 1, "NanoTime": 1}[name]
    micros = (time.hour * 3600 + time.minute * 60 + time.second) * 10**6 + time.microsecond
    number = micros // unit * (1000 if name == "NanoTime" else 1)
    expected = (dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=micros // unit * unit)).time()
    found = read(SqlType("string"), number, f"{DEBEZIUM}{name}")
    assert dt.time.fromisoformat(found) == expected
    assert not ("." in found and found.endswith("0"))


def test_text_of_times_is_read_as_a_cast_reads_it():
    moment, wall, day = SqlType("timestamp"), SqlType("timestamp_ntz"), SqlType("date")
    zoned = f"{DEBEZIUM}ZonedTimestamp"
    utc = dt.datetime(2024, 5, 6, 7, 8, 9, 123456, dt.UTC)
    assert read(moment, "2024-05-06T07:08:09.123456Z", zoned) == utc
    assert read(moment, "2024-05-06T09:08:09.123456789+02:00") == utc
    assert read(moment, "2024-05-06 09:08:09.123456", schema=False) == utc  # in the session's zone
    assert read(wall, "2024-05-06T07:08:09.123456Z", zoned) == utc.replace(tzinfo=None)
    assert read(wall, "2024-05-06Z") == dt.datetime(2024, 5, 6)
    for text in ("2024-05-06", "2024-05-06Z", "2024-05-06T07:08:09"):
        assert read(day, text, f"{DEBEZIUM}IsoDate") == dt.date(2024, 5, 6)


@pytest.mark.parametrize("kind", ["date", "timestamp", "timestamp_ntz"])
def test_what_is_no_time_is_refused(kind):
    for value in ("2024", "19700", "2024-13-01", "20240506", "x", True, 1.5, {}, 5):
        assert f"is not a {kind.upper()}" in read(SqlType(kind), value), value
    shown = read(SqlType(kind), 19_700, schema=False)
    assert "schemas.enable=true" in shown
    assert "isostring" in shown
    for other in (f"{DEBEZIUM}MicroTime", f"{DEBEZIUM}{'MicroTimestamp' if kind == 'date' else 'Date'}"):
        assert "is not a" in read(SqlType(kind), 5, other)


def test_text_that_is_encoded_or_was_not_sent_is_refused():
    text, data = SqlType("string"), SqlType("binary")
    assert read(text, "plain") == "plain"
    assert read(text, {"a": [1]}) == '{"a":[1]}'
    for name in (f"{CONNECT}Decimal", f"{DEBEZIUM}Date", f"{DEBEZIUM}MicroTimestamp"):
        assert f"is encoded as {name}" in read(text, "AJY=", name)
    encoded = base64.b64encode(UNAVAILABLE.encode()).decode()
    for kind, value in (
        (text, UNAVAILABLE), (text, [UNAVAILABLE]), (text, {UNAVAILABLE: UNAVAILABLE}), (text, encoded), (data, encoded),
    ):  # fmt: skip
        assert "REPLICA IDENTITY FULL" in read(kind, value), value
    assert read(text, f"why is there {UNAVAILABLE}?") == f"why is there {UNAVAILABLE}?"
