"""Outer, semi and anti joins as they are read: roles, keys and predicates, and what is refused in one sentence."""

import pytest
import sqlglot

from eddyline.errors import SqlError, UnsupportedQuery
from eddyline.expressions.nodes import rejects_nulls, text_is_null_of_nulls
from eddyline.expressions.schema import parse_schema
from eddyline.sql.join_tree import sides_of
from eddyline.sql.parse import parse_query
from tests.data.outer_joins import STREAMS

SCHEMAS = {name: parse_schema(name, schema) for name, schema in STREAMS.items()}


def read(text):
    return parse_query(text, SCHEMAS)


def roles(text):
    """For each link (relation, key, role) of its members."""
    query = read(text)
    return [
        [(query.relations[m.relation].alias, str(m.key).replace("`", ""), m.role) for m in link.members]
        for link in query.links
    ]


def test_a_left_join_keeps_the_conditions_of_its_own_side_as_predicates_and_guards_the_other_sides_key():
    text = "SELECT COUNT(*) FROM a LEFT JOIN b ON a.k = b.k AND a.x > 1 AND b.y < 2 WHERE a.j > 3"
    assert roles(text) == [[("a", "(CASE WHEN x > 1 THEN k END)", "preserved"), ("b", "(k)", "outer")]]
    assert [relation.predicates for relation in read(text).relations] == [("`j` > 3",), ("`y` < 2",)]


def test_a_right_join_is_the_left_join_of_the_other_side():
    assert roles("SELECT COUNT(*) FROM a JOIN c ON a.j = c.j RIGHT JOIN b ON a.k = b.k AND b.y > 1") == [
        [("a", "(j)", "inner"), ("c", "(j)", "inner")],
        [("a", "(k)", "outer"), ("b", "(CASE WHEN y > 1 THEN k END)", "preserved")],
    ]


def test_sides_on_the_same_columns_meet_in_one_link_unless_one_hangs_on_the_other():
    side_by_side = (
        "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k LEFT JOIN c ON a.k = c.k LEFT ANTI JOIN c d ON d.j = a.k"
    )
    assert roles(side_by_side) == [
        [("a", "(k)", "preserved"), ("b", "(k)", "preserved"), ("c", "(k)", "outer"), ("d", "(j)", "anti")]
    ]
    chain = "SELECT COUNT(*) FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN c ON b.k = c.k"
    assert roles(chain) == [
        [("a", "(k)", "preserved"), ("b", "(k)", "outer")],
        [("b", "(k)", "preserved"), ("c", "(k)", "outer")],
    ]
    assert [sorted(side.relations) for side in sides_of(read(chain).links)] == [[1, 2], [2]]


MADE_INNER = [
    "SELECT COUNT(*) FROM a LEFT JOIN b ON a.k = b.k WHERE b.y = 1",
    "SELECT COUNT(*) FROM a LEFT JOIN b ON a.k = b.k WHERE b.k IS NOT NULL",
    "SELECT COUNT(*) FROM a LEFT JOIN b ON a.k = b.k WHERE NOT b.y BETWEEN 1 AND 2",
    "SELECT COUNT(*) FROM a LEFT JOIN b ON a.k = b.k WHERE b.h LIKE 'u%' OR upper(b.h) IN ('V', 'W')",
    "SELECT COUNT(*) FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN c ON b.j = c.j WHERE c.z + 1 > 2",
    "SELECT COUNT(*) FROM a RIGHT JOIN b ON a.k = b.k WHERE a.x > 1",
    "SELECT COUNT(*) FROM a FULL JOIN b ON a.k = b.k WHERE a.x > 1 AND b.y > 1",
    "SELECT COUNT(*) FROM a LEFT JOIN b ON a.k = b.k JOIN c ON c.j = b.j",
]


@pytest.mark.parametrize("text", MADE_INNER)
def test_conditions_that_no_null_meets_make_inner_joins(text):
    assert {role for link in roles(text) for _, _, role in link} == {"inner"}


def test_a_missing_join_column_makes_an_anti_join():
    assert roles("SELECT COUNT(*) FROM a LEFT JOIN b ON a.k = b.k WHERE b.k IS NULL") == [
        [("a", "(k)", "preserved"), ("b", "(k)", "anti")]
    ]


def test_relations_of_subqueries_have_names_of_their_own_and_see_the_query_around_them():
    text = "SELECT COUNT(*) FROM a WHERE k IN (SELECT k FROM a WHERE x > 1) AND EXISTS (SELECT x FROM a z WHERE z.j = a.j)"
    query = read(text)
    assert [relation.alias for relation in query.relations] == ["a", "a_2", "z"]
    assert query.relations[1].predicates == ("`x` > 1",)
    shadowed = read("SELECT SUM(x) FROM a WHERE EXISTS (SELECT 1 FROM b a WHERE a.y = x)")
    assert [str(member.key) for member in shadowed.links[0].members] == ["(`x`)", "(`y`)"]


LEFT = "SELECT COUNT(*) FROM a LEFT JOIN b ON a.k = b.k"
REFUSED = {
    f"{LEFT} WHERE b.y IS NULL": "only '<join column> IS NULL'",
    f"{LEFT} WHERE COALESCE(b.y, 0) = 0": "leaves 'b' missing",
    f"{LEFT} WHERE b.y > 1 OR b.k IS NULL": "leaves 'b' missing",
    f"{LEFT} WHERE CASE WHEN b.y > 1 THEN TRUE ELSE FALSE END": "leaves 'b' missing",
    f"{LEFT} WHERE b.y <=> 1": "leaves 'b' missing",
    f"{LEFT} WHERE isnull(b.k)": "leaves 'b' missing",
    f"{LEFT} LEFT JOIN c ON b.j = c.j WHERE c.j IS NULL": "leaves 'c' missing",
    f"{LEFT} WHERE a.x > 1 OR b.y > 1": "over inner joins alone",
    f"{LEFT} LEFT ANTI JOIN c ON b.j = c.j": "tests that no row of 'b' matches",
    f"{LEFT} WHERE NOT EXISTS (SELECT 1 FROM c WHERE c.j = b.j)": "tests that no row of 'b' matches",
    f"{LEFT} WHERE b.j NOT IN (SELECT j FROM c)": "tests that no row of 'b' matches",
    f"{LEFT} LEFT JOIN c ON COALESCE(b.j, 0) = c.j": "only columns are supported there",
    f"{LEFT} JOIN c ON COALESCE(b.j, 0) = c.j": "leaves 'b' missing",
    f"{LEFT} LEFT JOIN c ON a.j = c.j AND b.k = c.k": "several relations at once",
    f"{LEFT} LEFT JOIN c ON a.j = c.j AND b.y > 1": "a relation that it does not join",
    f"{LEFT} LEFT JOIN c ON a.j = c.j AND a.k = b.j": "whether there is a match",
    "SELECT COUNT(*) FROM a LEFT JOIN b ON a.k < b.k": "something other than one equality",
    "SELECT COUNT(*) FROM a LEFT JOIN b ON a.k <=> b.k": "something other than one equality",
    "SELECT COUNT(*) FROM a LEFT JOIN b ON a.x > 1": "no equality joins",
    "SELECT COUNT(*) FROM a LEFT JOIN b": "no equality joins",
    "SELECT COUNT(*) FROM a, c RIGHT JOIN b ON c.k = b.k WHERE a.k = c.k": "comma",
    "SELECT COUNT(*) FROM a LEFT JOIN (b JOIN c ON b.k = c.k) ON a.k = b.k": "is not a stream",
    "SELECT COUNT(*) FROM a NATURAL LEFT JOIN b": "NATURAL LEFT",
    "SELECT COUNT(*) FROM a RIGHT ANTI JOIN b ON a.k = b.k": "RIGHT ANTI",
    "SELECT COUNT(*) FROM a FULL JOIN b ON a.k = b.k JOIN c ON a.k = c.k": "between two relations",
    "SELECT COUNT(*) FROM a JOIN c ON a.k = c.k FULL JOIN b ON a.k = b.k": "between two relations",
    "SELECT COUNT(*) FROM a FULL JOIN b ON a.k = b.k WHERE b.k IS NULL": "leaves 'b' missing",
    "SELECT COUNT(*) FROM a FULL JOIN b USING (k) WHERE k > 1": "is ambiguous after a FULL JOIN",
    "SELECT COUNT(*) FROM a FULL JOIN b ON a.k = b.k WHERE NOT EXISTS (SELECT 1 FROM c WHERE c.k = a.k)": "tests that no row of",
    "SELECT SUM(7) FROM a FULL JOIN b ON a.k = b.k": "may have a value",
    "SELECT SUM(COALESCE(b.y, 0)) FROM a LEFT JOIN b ON a.k = b.k": "may have a value",
    "SELECT COUNT(CASE WHEN b.y > 1 THEN 1 ELSE 0 END) FROM a LEFT JOIN b ON a.k = b.k": "may have a value",
    "SELECT b.y IS NULL AS m, COUNT(*) AS n FROM a LEFT JOIN b ON a.k = b.k GROUP BY 1": "the group",
    "SELECT COUNT(*) FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.y > 1)": "no equality joins",
    "SELECT COUNT(*) FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k < a.k)": "something other than one equality",
    "SELECT COUNT(*) FROM a WHERE EXISTS (SELECT MAX(y) FROM b WHERE b.k = a.k)": "selects an aggregate",
    "SELECT COUNT(*) FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k LIMIT 1)": "LIMIT",
    "SELECT COUNT(*) FROM a WHERE EXISTS (SELECT 1 FROM b LEFT JOIN c ON b.k = c.k WHERE b.k = a.k)": "JOIN ... ON",
    "SELECT COUNT(*) FROM a WHERE k IN (SELECT k FROM b WHERE j IN (SELECT j FROM c))": "the subquery in",
    "SELECT COUNT(*) FROM a WHERE x > 1 OR k IN (SELECT k FROM b)": "the subquery in",
    "SELECT COUNT(*) FROM a WHERE k IN (SELECT k FROM b UNION SELECT k FROM c)": "the subquery in",
    "SELECT COUNT(*) FROM a WHERE (k, j) NOT IN (SELECT k, j FROM b)": "the same result only if none of the columns is NULL",
    "SELECT COUNT(*) FROM a WHERE k NOT IN (SELECT k FROM b WHERE b.j = a.j)": "the same result only if none of the columns is NULL",
    "SELECT COUNT(*) FROM a WHERE k NOT IN (SELECT b.k FROM b JOIN c ON b.j = c.j)": "the same result only if none of the columns is NULL",
    "SELECT COUNT(*) FROM a WHERE (k, j) IN (SELECT k FROM b)": "compares 2 columns with 1",
    "SELECT COUNT(*) FROM (SELECT DISTINCT a.x FROM a LEFT JOIN b ON a.k = b.k)": "an inner join or a semi-join of two streams",
    "SELECT COUNT(*) FROM (SELECT x FROM a WHERE k IN (SELECT k FROM b) UNION SELECT y FROM b)": "reads one stream",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_outside_the_class_is_refused_in_one_sentence(text):
    with pytest.raises(UnsupportedQuery) as caught:
        read(text)
    assert REFUSED[text] in str(caught.value)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


HIDDEN = {
    "SELECT SUM(b.y) FROM a LEFT SEMI JOIN b ON a.k = b.k": "only its ON can see",
    "SELECT COUNT(*) FROM a LEFT ANTI JOIN b ON a.k = b.k WHERE b.y > 1": "only its ON can see",
    "SELECT b.h, COUNT(*) AS n FROM a LEFT SEMI JOIN b ON a.k = b.k GROUP BY b.h": "only its ON can see",
    "SELECT SUM(b.y) FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k)": "cannot see",
    "SELECT SUM(y) FROM a WHERE k IN (SELECT k FROM b)": "'y' is a column of 'b', a relation of a subquery",
    "SELECT SUM(w) FROM a WHERE k IN (SELECT k FROM b)": "there is no column 'w'",
    "SELECT SUM(b.y) FROM a LEFT JOIN b ON a.k = b.k WHERE b.k IS NULL": "NULL in every row",
    "SELECT SUM(c.z) FROM a LEFT JOIN b ON a.k = b.k LEFT JOIN c ON b.j = c.j WHERE b.k IS NULL": "NULL in every row",
    "SELECT COUNT(*) FROM a WHERE EXISTS (SELECT 1 FROM b, c WHERE b.k = a.k AND j = 1)": "ambiguous",
}


@pytest.mark.parametrize("text", HIDDEN)
def test_columns_that_the_query_cannot_see_are_no_columns_of_it(text):
    with pytest.raises(SqlError, match=HIDDEN[text]):
        read(text)


def test_what_is_null_where_all_columns_are():
    assert all(
        map(
            text_is_null_of_nulls,
            ["`x`", "`x` + 1", "upper(`x`)", "CASE WHEN `x` > 1 THEN 1 END", "NOT `x` = 1"],
        )
    )
    not_null = [
        "1",
        "COALESCE(`x`, 1)",
        "CASE WHEN `x` IS NULL THEN 1 END",
        "`x` IS NULL",
        "concat_ws(',', `x`)",
        "`x` <=> 1",
    ]
    assert not any(map(text_is_null_of_nulls, not_null))


def test_rejecting_null_is_decided_on_the_safe_side():
    def rejects(text):
        return rejects_nulls(sqlglot.parse_one(text, dialect="spark"))

    assert all(
        map(rejects, ["x = 1 AND y IS NULL", "x = 1 OR y = 2", "x IS NOT NULL", "x NOT IN (1, 2)", "x"])
    )
    assert not any(
        map(
            rejects, ["x IS NULL", "x = 1 OR y IS NULL", "NOT (x = 1 AND y IS NULL)", "nvl(x, 1) = 1", "TRUE"]
        )
    )
