"""What is asked of a query of any kind, and its form in plans on disk."""

import msgspec
import pytest

from eddyline.expressions.schema import parse_schema
from eddyline.plan.layout import PlannedQuery
from eddyline.sql.parse import parse_query

STREAMS = {name: parse_schema(name, "k BIGINT, x INT, g STRING") for name in "ab"}
JOIN = "FROM a JOIN b ON a.k = b.k"
LEFT = "FROM a LEFT JOIN b ON a.k = b.k"
KINDS = {
    "SELECT SUM(x) FROM a": ("join", {"is_scalar", "is_total"}),
    "SELECT COUNT(*) FROM a": ("join", {"is_scalar", "is_total", "is_count"}),
    f"SELECT COUNT(*) {JOIN}": ("join", {"is_scalar", "is_count"}),
    f"SELECT AVG(a.x) {JOIN}": ("ratio", {"is_scalar"}),
    f"SELECT CORR(a.x, b.x) {JOIN}": ("ratio", {"is_scalar", "needs_sample"}),
    f"SELECT COUNT(*) {LEFT}": ("join", {"is_scalar", "is_count", "needs_sample"}),
    f"SELECT COUNT(*) AS n, SUM(a.x) AS s {JOIN}": ("join", {"is_table", "needs_sample"}),
    f"SELECT AVG(a.x) {JOIN} WHERE a.x < b.x": ("join", {"is_table", "needs_sample", "needs_single_links"}),
    "SELECT COUNT(*) FROM a GROUP BY ALL": ("join", {"is_table", "needs_sample"}),
    "SELECT g, COUNT(*) AS n FROM a GROUP BY g": ("join", {"is_table", "needs_sample", "needs_single_links"}),
    "SELECT MEDIAN(x) FROM a": ("join", {"is_table", "needs_sample"}),
    "SELECT COUNT(DISTINCT k) FROM a": ("set", {"is_distinct", "is_count"}),
    "SELECT COUNT(*) FROM (SELECT k FROM a EXCEPT SELECT k FROM b)": ("set", {"is_distinct", "is_count"}),
    f"SELECT COUNT(DISTINCT a.x) {JOIN}": ("pairs", {"is_distinct", "is_count"}),
}
PROPERTIES = (
    "is_scalar",
    "is_table",
    "is_total",
    "is_distinct",
    "is_count",
    "needs_sample",
    "needs_single_links",
)


@pytest.mark.parametrize("text", KINDS)
def test_every_kind_of_query_has_the_same_properties(text):
    query = parse_query(text, STREAMS)
    assert (query.kind, {name for name in PROPERTIES if getattr(query, name)}) == KINDS[text]
    assert len(query.streams) == len(query.relations) == 1 + (" b" in text)
    assert len(query.parts) == len(query.details)


@pytest.mark.parametrize("text", KINDS)
def test_a_query_survives_a_plan_on_disk(text):
    planned = PlannedQuery("q", parse_query(text, STREAMS), "skimmed", {})
    read = msgspec.json.decode(msgspec.json.encode(planned), type=PlannedQuery)
    assert read == planned
    assert read.query == parse_query(text, STREAMS)


def test_a_scalar_query_is_written_as_in_the_first_stores():
    text = "SELECT COUNT(*) FROM a"
    written = {
        "type": "join",
        "text": text,
        "aggregate": {"function": "count", "factors": []},
        "relations": [{"alias": "a", "stream": "a", "predicates": []}],
        "links": [],
    }
    planned = PlannedQuery("q", parse_query(text, STREAMS), "skimmed", {})
    assert msgspec.json.decode(msgspec.json.encode(planned))["query"] == written
