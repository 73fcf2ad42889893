import pytest

from eddyline.errors import UnsupportedQuery
from eddyline.expressions.schema import parse_schema
from eddyline.sql.parse import parse_query

STREAMS = {name: parse_schema(name, "x INT, y BIGINT, z INT, w STRING") for name in "abcd"}


def links(text):
    query = parse_query(f"SELECT COUNT(*) FROM {text}", STREAMS)
    spelled = [
        [(query.relations[m.relation].alias, str(m.key).replace("`", "")) for m in link.members]
        for link in query.links
    ]
    return spelled, [relation.predicates for relation in query.relations]


def test_a_chain_has_a_link_for_each_join():
    assert links("a JOIN b ON a.x = b.x JOIN c ON b.y = c.y")[0] == [
        [("a", "(x)"), ("b", "(x)")],
        [("b", "(y)"), ("c", "(y)")],
    ]


@pytest.mark.parametrize(
    "text",
    [
        "a, b, c WHERE a.x = b.x AND b.x = c.x",
        "a, b, c WHERE a.x = b.x AND a.x = c.x",
        "a, b, c WHERE a.x = b.x AND b.x = c.x AND c.x = a.x",
        "a JOIN b USING (x) JOIN c USING (x)",
    ],
)
def test_relations_that_meet_on_one_value_meet_in_one_link(text):
    assert links(text)[0] == [[("a", "(x)"), ("b", "(x)"), ("c", "(x)")]]


def test_an_equality_in_all_branches_of_an_or_joins():
    found, predicates = links("a, b WHERE (a.x = b.x AND a.z > 1) OR (b.x > 9 AND a.x = b.x)")
    assert found == [[("a", "(x)"), ("b", "(x)")]]
    assert predicates == [(), ()], "what is left reads both relations"
    found, predicates = links("a, b WHERE (a.x = b.x AND a.z > 1) OR (a.x = b.x AND a.z < 0) OR a.x = b.x")
    assert found == [[("a", "(x)"), ("b", "(x)")]]
    assert predicates == [(), ()], "a branch without more makes the others say nothing"


def test_composite_keys_are_one_link_and_their_parts_may_be_shared_further():
    assert links("a, b, c WHERE a.x = b.x AND a.y = b.y AND c.y = b.y")[0] == [
        [("a", "(x, y)"), ("b", "(x, y)")],
        [("a", "(y)"), ("c", "(y)")],
    ]


def test_a_relation_that_holds_all_keys_breaks_the_cycle_of_the_others():
    spelled, _ = links(
        "a, b, c, d WHERE a.x = d.x AND a.y = d.y AND b.y = d.y AND b.z = d.z AND c.x = d.x AND c.z = d.z"
    )
    assert [[alias for alias, _ in link] for link in spelled] == [["a", "d"], ["b", "d"], ["c", "d"]]


def test_equal_columns_of_one_relation_become_its_predicate():
    spelled, predicates = links("a, b WHERE a.x = b.x AND a.y = b.x")
    assert spelled == [[("a", "(x)"), ("b", "(x)")]]
    assert predicates == [("`x` = `y`",), ()]


def test_aliases_of_one_stream_are_relations_of_their_own():
    assert links("a p, a q, a r WHERE p.x = q.y AND q.x = r.y")[0] == [
        [("p", "(x)"), ("q", "(y)")],
        [("q", "(x)"), ("r", "(y)")],
    ]


def closing(text):
    query = parse_query(f"SELECT COUNT(*) FROM {text}", STREAMS)
    return [condition.written for condition in query.conditions if condition.comparison == "="]


@pytest.mark.parametrize(
    ("text", "equalities"),
    [
        ("a, b, c WHERE a.x = b.x AND b.y = c.y AND c.z = a.z", ["a.z = c.z"]),
        ("a, b, c WHERE c.z = a.z AND b.y = c.y AND a.x = b.x", ["a.x = b.x"]),
        ("a, b, c, d WHERE a.x = b.x AND b.y = c.y AND c.z = d.z AND d.w = a.w", ["a.w = d.w"]),
        ("a p, a q, a r WHERE p.x = q.y AND q.x = r.y AND r.x = p.y", ["p.y = r.x"]),
        ("a, b, c WHERE a.x = b.x AND a.y = b.y AND b.z = c.z AND c.x = a.z", ["a.z = c.x"]),
        (
            "a, b, c, d WHERE a.x = b.x AND b.y = c.y AND c.z = a.z AND a.y = d.y AND d.x = c.x",
            ["a.z = c.z", "c.x = d.x"],
        ),
    ],
)
def test_of_a_cycle_the_equality_that_is_written_last_is_left_over(text, equalities):
    assert sorted(closing(text)) == equalities


def test_of_equal_columns_that_the_tree_does_not_connect_two_are_compared():
    """a.w, c.w and d.w are equal: a and d meet on it, and c, which hangs on b by two columns, is compared with a."""
    text = "a, b, c, d WHERE a.x = b.x AND b.y = c.y AND b.z = c.z AND a.w = c.w AND c.w = d.w"
    assert closing(text) == ["a.w = c.w"]


@pytest.mark.parametrize("text", ["a, b, c WHERE a.x = b.x", "a, b"])
def test_what_is_not_joined_is_refused(text):
    with pytest.raises(UnsupportedQuery, match="cross product"):
        links(text)
