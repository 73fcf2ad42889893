"""The statement by which Iceberg's changes are asked for holds values of pipeline files as literals, and as no more."""

import pytest
import sqlglot
from sqlglot import exp

from eddyline.errors import PipelineError
from eddyline.spark.sources.lakes import changelog_call


def test_values_are_literals_of_one_call():
    text = changelog_call("orders", "lake", "db.orders", "changes", {"start-snapshot-id": "7"})
    assert text == (
        "CALL `lake`.system.create_changelog_view(table => 'db.orders', changelog_view => 'changes', "
        "options => map('start-snapshot-id', '7'))"
    )
    literals = [node.this for node in sqlglot.parse_one(text[5:], dialect="spark").find_all(exp.Literal)]
    assert literals == ["db.orders", "changes", "start-snapshot-id", "7"]


@pytest.mark.parametrize("value", ["x'); DROP TABLE t; --", "x\\", "`", 'a"b', "a\nb", "'"])
@pytest.mark.parametrize("place", ["catalog", "name", "key", "value"])
def test_what_could_end_a_literal_is_refused(place, value):
    given = {"catalog": "lake", "name": "db.orders", "key": "start-snapshot-id", "value": "7", place: value}
    with pytest.raises(PipelineError, match="has a quote, a backslash or a control character"):
        changelog_call("orders", given["catalog"], given["name"], "view", {given["key"]: given["value"]})
