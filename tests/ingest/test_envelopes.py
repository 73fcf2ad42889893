"""Debezium envelopes as text: columns that come and go, values that were not sent, and schemas of different versions."""

import base64
import datetime as dt
import json
from decimal import Decimal

from eddyline.expressions.schema import parse_schema
from eddyline.ingest.changes import UNAVAILABLE
from eddyline.ingest.debezium import EnvelopeReader

COLUMNS = parse_schema("s", "id BIGINT, x DECIMAL(8,2), note STRING, raw BINARY, at TIMESTAMP_NTZ")
DECIMAL = {"name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
NAMES = {"id": {}, "x": DECIMAL, "note": {}, "raw": {}, "at": {"name": "io.debezium.time.MicroTimestamp"}}
ROW = {"id": 1, "x": "AJY=", "note": "n", "raw": "AAE=", "at": 1_000_000}
READ = (1, Decimal("1.50"), "n", b"\0\1", dt.datetime(1970, 1, 1, 0, 0, 1))


def record(op, before, after, names=NAMES, key=None):
    fields = [{"field": name, "type": "t", "optional": True, **shown} for name, shown in names.items()]
    images = [{"field": side, "type": "struct", "fields": fields} for side in ("before", "after")]
    schema = {"type": "struct", "fields": [*images, {"field": "op", "type": "string"}], "name": "Envelope"}
    payload = {"op": op, "before": before, "after": after, "ts_ms": 5}
    return key, json.dumps({"schema": schema, "payload": payload}).encode()


def read(*records, names=tuple(NAMES), full=False):
    """(weight, values) of each image, or (None, reason)."""
    reader = EnvelopeReader(COLUMNS, names, dt.UTC, full=full)
    images = reader.read(*zip(*records, strict=True))
    values = zip(*(array.to_pylist() for array in reader.arrays(images)), strict=True)
    reasons = [None if why is None else json.loads(why)["reason"] for why in images.reasons]
    return [
        (weight, row if why is None else why)
        for weight, row, why in zip(images.weights, values, reasons, strict=True)
    ]


def test_fields_are_read_by_the_schema_beside_them():
    other = {
        **NAMES,
        "x": {**DECIMAL, "parameters": {"scale": "1"}},
        "at": {"name": "io.debezium.time.Timestamp"},
    }
    changed = (1, Decimal(15), "n", b"\0\1", dt.datetime(1970, 1, 1, 0, 16, 40))
    assert read(record("c", None, ROW), record("u", ROW, ROW, other), record("d", ROW, None)) == [
        (1, READ), (1, changed), (-1, changed), (-1, READ),
    ]  # fmt: skip


def test_columns_that_are_added_pass_and_those_that_are_gone_are_refused_if_they_are_read():
    more = {**ROW, "added": {"deep": [1]}}
    assert read(record("c", None, more, {**NAMES, "added": {}})) == [(1, READ)]
    left = {name: value for name, value in ROW.items() if name != "note"}
    gone = record("c", None, left, {name: shown for name, shown in NAMES.items() if name != "note"})
    assert read(gone) == [(None, "its after has no column note: it was dropped, renamed or left out")]
    assert read(gone, names=("id", "x")) == [(1, READ[:2])]
    assert read(record("c", None, {**ROW, "note": None})) == [(1, (*READ[:2], None, *READ[3:]))]


def test_values_that_were_not_sent_are_refused_by_name_if_they_are_read():
    large = base64.b64encode(UNAVAILABLE.encode()).decode()
    for name, value in (("note", UNAVAILABLE), ("raw", large)):
        change = record("u", None, {**ROW, name: value})
        ((weight, why),) = read(change)
        assert weight is None
        assert why.startswith(f"its after.{name} was too large")
        assert "REPLICA IDENTITY FULL" in why
        whole = record("u", ROW, {**ROW, name: value})
        assert read(whole, names=("id",)) == [(1, (1,)), (-1, (1,))]


def test_a_before_of_the_key_alone_is_refused():
    key = b'{"schema": {}, "payload": {"id": 1}}'
    alone = dict.fromkeys(ROW) | {"id": 1}
    for names in (("id",), tuple(NAMES)):
        ((_, why),) = read(record("d", alone, None, key=key), names=names)
        assert why.startswith("its before holds only the key")
        assert len(read(record("d", alone, None, key=key), names=names, full=True)) == 1
        assert read(record("d", {**alone, "at": 1}, None, key=key), names=("id",)) == [(-1, (1,))]
    assert read(record("d", alone, None, key=b"no columns"), names=("id",)) == [(-1, (1,))]


def test_so_is_one_whose_columns_that_are_not_null_were_filled():
    columns = parse_schema("s", "id BIGINT, x INT, name STRING, total DECIMAL(5,2)")
    reader = EnvelopeReader(columns, ("id", "x"), dt.UTC, full=False)
    for filled, refused in (
        ({"x": 0, "name": "", "total": "AA=="}, True),
        ({"x": 0, "name": "a", "total": "AA=="}, False),
    ):
        value = {"op": "d", "before": {"id": 1, **filled}, "after": None}
        images = reader.read([b'{"id": 1}'], [json.dumps(value).encode()])
        assert (images.reasons[0] is not None) == refused


def test_a_key_may_have_a_column_named_payload():
    columns = parse_schema("s", "payload BIGINT, x INT")
    reader = EnvelopeReader(columns, ("payload", "x"), dt.UTC, full=False)
    value = b'{"op": "d", "before": {"payload": 1, "x": null}, "after": null}'
    images = reader.read([b'{"payload": 1}'], [value])
    assert "its before holds only the key" in images.reasons[0]


def test_a_schema_that_does_not_fit_its_value_is_refused():
    scale = {**NAMES, "x": {**DECIMAL, "parameters": {"scale": "two"}}}
    time = {**NAMES, "note": {"name": "io.debezium.time.MicroTime"}}
    assert read(record("c", None, ROW, scale)) == [(None, "its schema has a decimal of scale 'two'")]
    assert read(record("c", None, ROW, time)) == [(None, "its after.note is not a time of a day")]


def test_what_is_no_envelope_is_refused():
    cases = {
        b"{not json": "not JSON",
        b'{"op": "c", "after": {"id": "five"}}': "Expected `int | null`, got `str`",
        b'{"op": "c", "after": {"id": 9223372036854775808}}': "not JSON of the declared columns",
        b'{"op": "c", "after": {"id": 1, "note": "\xff"}}': "not JSON of the declared columns",
        b'{"schema": 5, "payload": {"op": "c", "after": {}}}': "its schema is not one of Kafka Connect",
        b"[]": "not JSON of the declared columns",
        b"{}": "its op is not",
    }
    for text, sentence in cases.items():
        ((weight, why),) = read((None, text), names=("id",))
        assert weight is None
        assert sentence in why, why
    ((_, why),) = read((b"k", None))
    assert "does not follow the delete" in why
