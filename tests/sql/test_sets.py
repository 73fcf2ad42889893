"""Set expressions and distinct counts over joins: what is read from the text, and what is refused."""

import pytest

from eddyline.errors import SqlError, UnsupportedQuery
from eddyline.expressions.schema import parse_schema
from eddyline.sql.parse import parse_query
from eddyline.sql.query import SetLeaf, SetNode

STREAMS = {
    "r": parse_schema("r", "a INT, b BIGINT, b2 STRING, x INT, f DOUBLE"),
    "s": parse_schema("s", "b INT, b2 STRING, c STRING, y INT, d DECIMAL(9,2)"),
}


def read(text):
    return parse_query(text, STREAMS)


def test_equal_selects_are_one_member_and_intersect_binds_tighter():
    query = read(
        "SELECT COUNT(*) FROM (SELECT a FROM r UNION SELECT b FROM s INTERSECT SELECT y FROM s EXCEPT (SELECT a FROM r))"
    )
    assert [member.stream for member in query.members] == ["r", "s", "s"]
    union = SetNode("union", SetLeaf(0), SetNode("intersect", SetLeaf(1), SetLeaf(2)))
    assert query.expression == SetNode("except", union, SetLeaf(0))
    for member in query.members:
        assert member.key.null_is_value


def test_distinct_counts_ignore_the_order_of_columns():
    one, other = read("SELECT COUNT(DISTINCT x, a) FROM r"), read("SELECT COUNT(DISTINCT a, x, a) FROM r")
    assert one.members == other.members
    assert not one.members[0].key.null_is_value


FORMS = {
    "SELECT COUNT(DISTINCT r.a, s.c) FROM r JOIN s ON r.b = s.b": ("two-sided", "(`a`)", "(`c`)"),
    "SELECT COUNT(DISTINCT a, s.b, c) FROM r JOIN s ON r.b = s.b": ("full", "(`a`)", "(`c`)"),
    "SELECT COUNT(DISTINCT a) FROM r JOIN s ON r.b = s.b": ("semi", "(`a`)", "(`b`)"),
    "SELECT COUNT(DISTINCT c) FROM r JOIN s ON r.b = s.b": ("semi", "(`c`)", "(`b`)"),
    "SELECT COUNT(DISTINCT a, s.b) FROM r JOIN s ON r.b = s.b": ("semi", "(`a`, `b`)", "(`b`)"),
    "SELECT COUNT(DISTINCT a, r.b2, c) FROM r JOIN s ON r.b = s.b AND r.b2 = s.b2": (
        "two-sided",
        "(`a`, `b2`)",
        "(`c`)",
    ),
    "SELECT COUNT(DISTINCT a) FROM r WHERE b IN (SELECT b FROM s WHERE y > 1)": ("semi", "(`a`)", "(`b`)"),
    "SELECT COUNT(DISTINCT a) FROM r WHERE (b, b2) IN (SELECT b, b2 FROM s)": (
        "semi",
        "(`a`)",
        "(`b2`, `b`)",
    ),
    "SELECT COUNT(DISTINCT a) FROM r WHERE EXISTS (SELECT * FROM s t WHERE t.b = r.b)": (
        "semi",
        "(`a`)",
        "(`b`)",
    ),
    "SELECT COUNT(DISTINCT a) FROM r WHERE b IN (SELECT x FROM r WHERE a > 1)": ("semi", "(`a`)", "(`x`)"),
    "SELECT COUNT(DISTINCT a) FROM r LEFT SEMI JOIN s ON r.b = s.b": ("semi", "(`a`)", "(`b`)"),
    "SELECT COUNT(*) FROM (SELECT DISTINCT a, c FROM r JOIN s USING (b))": ("two-sided", "(`a`)", "(`c`)"),
}


@pytest.mark.parametrize("text", FORMS)
def test_forms_are_recognized_from_the_text(text):
    query = read(text)
    assert (query.form, str(query.left), str(query.right)) == FORMS[text]


REFUSED = {
    "SELECT COUNT(*) FROM (SELECT a FROM r UNION ALL SELECT b FROM s)": "ALL",
    "SELECT COUNT(*) FROM (SELECT a FROM r EXCEPT ALL SELECT b FROM s)": "ALL",
    "SELECT COUNT(*) FROM (SELECT * FROM r UNION SELECT * FROM s)": "star",
    "SELECT COUNT(*) FROM (SELECT a FROM r)": "duplicates",
    "SELECT COUNT(a) FROM (SELECT a FROM r UNION SELECT b FROM s)": "COUNT(*)",
    "SELECT SUM(a) FROM (SELECT a FROM r UNION SELECT b FROM s)": "not a stream",
    "SELECT COUNT(*) FROM (SELECT a FROM r UNION SELECT b FROM s) WHERE a > 1": "WHERE",
    "SELECT COUNT(*) FROM (SELECT a FROM r UNION SELECT b FROM s LIMIT 3)": "LIMIT",
    "SELECT COUNT(*) FROM (SELECT a FROM r GROUP BY a UNION SELECT b FROM s)": "GROUP BY",
    "SELECT COUNT(*) FROM (SELECT r.a FROM r JOIN s USING (b) UNION SELECT b FROM s)": "one stream",
    "SELECT COUNT(*) FROM (SELECT f FROM r UNION SELECT f FROM r)": "DOUBLE",
    "SELECT COUNT(*) FROM (VALUES (1))": "VALUES",
    "SELECT COUNT(DISTINCT f) FROM r": "DOUBLE",
    "SELECT COUNT(DISTINCT a + y) FROM r JOIN s USING (b)": "one relation",
    "SELECT COUNT(*) FROM (SELECT DISTINCT a FROM r WHERE b IN (SELECT b FROM s) AND b2 IN (SELECT b2 FROM s))": "of two",
    "SELECT COUNT(*) FROM (SELECT DISTINCT a FROM r WHERE b NOT IN (SELECT b FROM s))": "of two",
    "SELECT COUNT(DISTINCT a) FROM r WHERE b IN (SELECT MAX(b) FROM s)": "MAX",
    "SELECT COUNT(DISTINCT a) FROM r WHERE EXISTS (SELECT 1 FROM s)": "cross product",
}


@pytest.mark.parametrize(
    "condition",
    [
        "b IN (SELECT b FROM s) AND b2 IN (SELECT b2 FROM s)",
        "b IN (SELECT s.b FROM s JOIN s t ON s.y = t.y)",
        "NOT EXISTS (SELECT 1 FROM s WHERE s.b = r.b)",
        "b IN (SELECT b FROM s) AND x > 1 AND b2 NOT IN (SELECT b2 FROM s)",
    ],
)
def test_a_distinct_count_over_any_other_join_is_one_of_the_single_values_of_a_group(condition):
    query = read(f"SELECT COUNT(DISTINCT a) FROM r WHERE {condition}")
    assert [detail.function for detail in query.details] == ["distinct"]
    assert query.links


@pytest.mark.parametrize("text", REFUSED)
def test_outside_the_class_is_refused(text):
    with pytest.raises(UnsupportedQuery) as caught:
        read(text)
    assert REFUSED[text].lower() in str(caught.value).lower()


WRONG = {
    "SELECT COUNT(*) FROM (SELECT a FROM r UNION SELECT c FROM s)": "CAST",
    "SELECT COUNT(*) FROM (SELECT a, b FROM r UNION SELECT c FROM s)": "2 and 1 columns",
    "SELECT COUNT(DISTINCT nope) FROM r": "no column",
    "SELECT COUNT(DISTINCT s.c) FROM r LEFT SEMI JOIN s ON r.b = s.b": "only its ON can see",
    "SELECT COUNT(DISTINCT s.c) FROM r WHERE b IN (SELECT b FROM s)": "cannot see",
}


@pytest.mark.parametrize("text", WRONG)
def test_wrong_text_says_what_and_where(text):
    with pytest.raises(SqlError) as caught:
        read(text)
    assert WRONG[text].lower() in str(caught.value).lower()
