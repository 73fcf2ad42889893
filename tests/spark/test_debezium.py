"""Debezium JSON as Kafka delivers it: with and without wrapper, tombstones, keys only, bad records, dead letters."""

import json
import shutil

import pytest

import eddyline as el
from eddyline.expressions.schema import parse_schema
from eddyline.expressions.times import zone_info
from eddyline.ingest.debezium import EnvelopeReader

pytestmark = pytest.mark.spark
DDL = "id BIGINT, k STRING, x DECIMAL(8,2), at TIMESTAMP"


def plan(changes="debezium"):
    return (
        el.Workload(budget="64 KB", seed=2, samples=False)
        .stream("s", DDL, changes=changes)
        .query("pairs", "SELECT COUNT(*) FROM s a JOIN s b USING (k)")
        .query("total", "SELECT SUM(x) FROM s")
        .query("n", "SELECT COUNT(*) FROM s WHERE at >= TIMESTAMP '2024-01-01 00:00:00'")
        .plan()
    )


def row(number, k="a", x="1.50", at="2024-05-06T07:08:09Z"):
    return {"id": number, "k": k, "x": x, "at": at, "undeclared": {"deep": [1]}}


def record(op, before, after, *, wrapped=False, key=None):
    envelope = {"op": op, "before": before, "after": after, "ts_ms": 5, "source": {"table": "t"}}
    number = (after or before or {}).get("id") if key is None else key
    body = {"schema": {"type": "struct"}, "payload": envelope} if wrapped else envelope
    named = {"schema": {}, "payload": {"id": number}} if wrapped else {"id": number}
    return json.dumps(named).encode(), json.dumps(body).encode()


def kafka(spark, records):
    """One partition, so that records keep their order as they do in a Kafka partition."""
    return spark.createDataFrame(records, "key BINARY, value BINARY").coalesce(1)


def changes(*, wrapped):
    made = [
        record("r", None, row(1), wrapped=wrapped),
        record("c", None, row(2, "b"), wrapped=wrapped),
        record("c", None, row(3, "a", "2.25"), wrapped=wrapped),
        record("u", row(2, "b"), row(2, "a"), wrapped=wrapped),
        record("d", row(1), None, wrapped=wrapped),
    ]
    return [*made, (made[-1][0], None)]


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("with_key", [False, True])
def test_json_gives_the_net_rows(spark, wrapped, with_key):
    frame = kafka(spark, changes(wrapped=wrapped))
    state = plan().sketch(spark, {"s": frame if with_key else frame.select("value")})
    assert state.answer("total").value == 3.75
    assert state.answer("pairs").value == 4
    assert state.answer("n").value == 2
    assert (state.snapshot.tallies["s"].rows, state.snapshot.tallies["s"].deletes) == (6, 2)


def test_text_values_and_the_first_null_of_a_task_are_taken(spark):
    frame = kafka(spark, [(b'{"id":9}', None), *changes(wrapped=False)])
    state = plan().sketch(
        spark, {"s": frame.selectExpr("CAST(key AS STRING) key", "CAST(value AS STRING) value")}
    )
    assert state.answer("total").value == 3.75


BAD = {
    "not JSON": ((b"{}", b"{not json"), "not JSON"),
    "another type": (record("c", None, row(5) | {"id": "five"}), "not JSON of the declared"),
    "unknown op": (record("t", None, None), "op is not"),
    "update without before": (record("u", None, row(5)), "REPLICA IDENTITY FULL"),
    "delete with the key alone": (record("d", {"id": 5}, None), "REPLICA IDENTITY FULL"),
    "delete with NULLs next to the key": (
        record("d", row(5, None, None, None) | {"undeclared": None}, None),
        "only the key",
    ),
    "a column missing": (record("c", None, {"id": 5, "k": "z", "x": "1"}), "no column at"),
    "a time as a number": (record("c", None, row(5, at=1_700_000_000_000)), "ISO text"),
    "a NULL after an insert": ((b'{"id":2}', None), "does not follow the delete"),
}


def poisoned(spark, cases):
    """The changes, with bad records in between: each bad record after an insert."""
    good = changes(wrapped=False)
    bad = [record for case in cases for record in (BAD[case][0], record_pair(case))]
    return kafka(spark, [good[0], good[1], *bad, *good[2:]])


def record_pair(case):
    """A row of no consequence to the answers, so that the next bad record follows an insert."""
    return record("c", None, row(len(case) + 100, "z", "0.00", None))


@pytest.mark.parametrize("case", ["another type", "update without before", "a NULL after an insert"])
def test_poison_is_refused_with_its_reason(spark, case):
    with pytest.raises(el.ChangeError, match=BAD[case][1]):
        plan().sketch(spark, {"s": poisoned(spark, [case])})


def test_poison_is_skipped_and_counted_or_written_to_dead_letters(spark, tmp_path):
    frame = poisoned(spark, BAD)
    with plan().start(spark, {"s": frame}, store=tmp_path / "skip", on_bad="skip") as run:
        answer = run.answer("total")
        assert answer.value == 3.75
        assert (answer.freshness.rows, answer.freshness.bad) == (6 + len(BAD), len(BAD))
        assert f"{len(BAD)} rows of stream 's'" in answer.notes[-1]
        assert run.progress()["s"].bad == len(BAD)
    letters = str(tmp_path / "letters")
    for _ in range(2):  # the second time overwrites the first
        where = tmp_path / "dead"
        shutil.rmtree(where, ignore_errors=True)
        with plan().start(spark, {"s": frame}, store=where, on_bad="dead-letter", dead_letter=letters) as run:
            assert run.answer("total").value == 3.75
    files = (tmp_path / "letters").glob("s/batch/batch=0/*.txt")
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert len(lines) == len(BAD)
    for _, reason in BAD.values():
        assert any(reason in line["reason"] for line in lines), lines


def test_default_encodings_are_read_by_the_schema_and_values_not_sent_are_refused(spark):
    """The same envelopes as text with their schema, and as structs that somebody else decoded."""
    shown = {"x": {"name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}},
            "at": {"name": "io.debezium.time.MicroTimestamp"}}  # fmt: skip
    fields = [{"field": name, **shown.get(name, {})} for name in ("id", "k", "x", "at")]
    schema = {"fields": [{"field": side, "fields": fields} for side in ("before", "after")]}
    after = {"id": 1, "k": "a", "x": "AJY=", "at": 1_714_979_289_000_000}
    texts = [
        json.dumps({"schema": schema, "payload": {"op": "c", "after": row}}).encode()
        for row in (after, after | {"k": "__debezium_unavailable_value"})
    ]
    state = plan().sketch(spark, {"s": spark.createDataFrame([(texts[0],)], "value BINARY")})
    assert (state.answer("total").value, state.answer("n").value) == (1.5, 1)
    decoded = spark.sql(
        "SELECT 'c' AS op, image AS before, image AS after FROM (SELECT named_struct('id', 1L, 'k', "
        "'__debezium_unavailable_value', 'x', 1.50BD, 'at', TIMESTAMP '2024-05-06 07:08:09') AS image)"
    )
    for frame in (spark.createDataFrame([(texts[1],)], "value BINARY"), decoded):
        with pytest.raises(el.ChangeError, match=r"its after.k was too large .* REPLICA IDENTITY FULL"):
            plan().sketch(spark, {"s": frame})


def test_text_of_times_means_what_a_cast_in_the_sessions_zone_means(spark):
    texts = ["2024-05-06T07:08:09.123456", "2024-05-06 07:08:09Z", "2024-03-31T02:30:00", "2024-10-27T02:30:00",
             "1890-01-01T00:00:00", "2024-05-06", "2024-05-06T07:08:09.123456789+05:30"]  # fmt: skip
    before = spark.conf.get("spark.sql.session.timeZone")
    for zone in ("Europe/Berlin", "+05:30"):
        reader = EnvelopeReader(parse_schema("s", "at TIMESTAMP"), ["at"], zone_info(zone), full=False)
        images = reader.read(
            [None] * len(texts), [b'{"op": "c", "after": {"at": "%s"}}' % t.encode() for t in texts]
        )
        try:
            spark.conf.set("spark.sql.session.timeZone", zone)
            frame = spark.createDataFrame([(text,) for text in texts], "t STRING")
            cast = [row[0] for row in frame.selectExpr("unix_micros(CAST(t AS TIMESTAMP))").collect()]
        finally:
            spark.conf.set("spark.sql.session.timeZone", before)
        assert reader.arrays(images)[0].cast("int64").to_pylist() == cast


def test_rows_of_full_images_may_be_null_beside_their_key(spark):
    bad, _ = BAD["delete with NULLs next to the key"]
    insert = record("c", None, row(5, None, None, None))
    state = plan("debezium:full").sketch(spark, {"s": kafka(spark, [insert, bad])})
    assert state == plan("debezium:full").empty()
    with pytest.raises(el.PlanError, match="debezium:full"):
        plan("debezium:half")


def test_on_bad_is_checked(spark, tmp_path):
    for settings in ({"on_bad": "ignore"}, {"on_bad": "dead-letter"}, {"dead_letter": "x"}):
        with pytest.raises(el.PipelineError):
            plan().start(spark, {"s": kafka(spark, [])}, store=tmp_path / "s", **settings)
