"""Expressions made of expressions: operators of one never bind into another."""

import pyarrow as pa
import pytest

import eddyline as el
from eddyline.errors import PipelineError, SqlError, UnsupportedQuery
from eddyline.expressions.nodes import equal
from eddyline.expressions.schema import parse_schema
from eddyline.plan.partition.histograms import ValueRange
from eddyline.sql.parse import parse_query
from tests.oracles.duckdb_sql import exact

STREAMS = {
    "t": parse_schema("t", "a BIGINT, b BIGINT, c STRING, p BOOLEAN, q BOOLEAN, m DECIMAL(12,2), x DOUBLE"),
    "u": parse_schema("u", "a BIGINT, b BIGINT, z INT"),
}
T = pa.table(
    {
        "a": [1, 2, None, 4, 2],
        "b": [1, None, 2, 2, 1],
        "c": ["x", "it's", None, "y%", "xy"],
        "p": [True, False, None, None, True],
        "q": [None, True, None, False, True],
        "x": [0.3, 0.1, 1.1, None, 2.0],
    },
    pa.schema(
        [
            ("a", pa.int64()),
            ("b", pa.int64()),
            ("c", pa.string()),
            ("p", pa.bool_()),
            ("q", pa.bool_()),
            ("x", pa.float64()),
        ]
    ),
)
U = pa.table({"a": [5, None, 7], "b": [1, 2, 2]}, pa.schema([("a", pa.int64()), ("b", pa.int64())]))


def answers(texts):
    workload = el.Workload(budget="1 MB").stream(
        "t", "a BIGINT, b BIGINT, c STRING, p BOOLEAN, q BOOLEAN, x DOUBLE"
    )
    workload.stream("u", "a BIGINT, b BIGINT")
    for i, text in enumerate(texts):
        workload.query(f"q{i}", text)
    state = workload.plan().empty().update("t", T).update("u", U)
    return [state.answer(f"q{i}").value for i in range(len(texts))]


@pytest.mark.parametrize(
    "argument", ["p AND q", "p OR q", "NOT p", "a > 1 AND b > 1", "p = q", "a IS NULL", "a + b", "(a)"]
)
def test_count_of_any_expression_counts_what_is_not_null(argument):
    texts = [
        f"SELECT COUNT({argument}) FROM t",
        f"SELECT COUNT(t.{argument.replace('(a)', 'a')}) FROM t JOIN u ON t.b = u.b",
    ]
    texts = texts if argument == "(a)" else texts[:1]
    assert answers(texts) == [exact(text, {"t": T, "u": U}) for text in texts]


def test_counts_and_signs_of_products_over_a_join():
    texts = [
        "SELECT COUNT(t.a * u.a) FROM t JOIN u ON t.b = u.b",
        "SELECT COUNT(t.a + u.a > 3) FROM t JOIN u ON t.b = u.b",
        "SELECT COUNT(t.p OR t.q) FROM t JOIN u ON t.b = u.b",
        "SELECT SUM(-(t.a * u.a)) FROM t JOIN u ON t.b = u.b",
        "SELECT SUM(-(-t.a * -u.a) * 2) FROM t JOIN u ON t.b = u.b",
        "SELECT COUNT(NULL) FROM t",
        "SELECT COUNT(NULL) FROM t JOIN u ON t.b = u.b",
    ]
    assert answers(texts) == [exact(text, {"t": T, "u": U}) for text in texts]


@pytest.mark.parametrize("source", ["t", "t WHERE a > 1", "t JOIN u ON t.b = u.b"])
@pytest.mark.parametrize(
    "constant",
    ["1", "-1.5", "TRUE", "'x'", "1 + 1", "NULLIF(1, 1)", "NULLIF(1, 2)", "CASE WHEN FALSE THEN 100 END",
     "CASE WHEN TRUE THEN 100 END", "CASE WHEN FALSE THEN 1 ELSE 2 END", "COALESCE(NULL, 1)"],
)  # fmt: skip
def test_count_of_a_constant_is_zero_where_it_is_null(constant, source):
    texts = [
        f"SELECT COUNT({constant}) FROM {source}",
        f"SELECT COUNT({constant}) FILTER (WHERE t.p) FROM {source}",
    ]
    assert answers(texts) == [exact(text, {"t": T, "u": U}) for text in texts]


def test_constants_in_a_distinct_list_tell_nothing_apart():
    texts = [
        "SELECT COUNT(DISTINCT a, 1) FROM t",
        "SELECT COUNT(DISTINCT a, NULL) FROM t",
        "SELECT COUNT(DISTINCT 'x') FROM t",
        "SELECT COUNT(DISTINCT t.a, 7) FROM t JOIN u ON t.b = u.b",
        "SELECT COUNT(*) FROM (SELECT DISTINCT a, NULL FROM t)",
    ]
    assert answers(texts) == [3, 0, 1, 3, 4]


def test_not_like_null_conditions_and_quotes_without_spark():
    texts = [
        "SELECT COUNT(*) FROM t WHERE c NOT LIKE 'x%'",
        "SELECT COUNT(*) FROM t WHERE NOT c NOT LIKE 'x%'",
        r"SELECT COUNT(*) FROM t WHERE c LIKE 'y\%'",
        "SELECT COUNT(*) FROM t WHERE c = 'it''s'",
        "SELECT COUNT(*) FROM t WHERE NULL",
        "SELECT COUNT(*) FROM t WHERE NOT NULL",
        "SELECT COUNT(*) FROM t WHERE NULL OR p",
        "SELECT SUM(CASE WHEN NULL THEN 1 ELSE 2 END) FROM t",
        "SELECT COUNT(*) FROM t WHERE x = 0.3 OR x IN (1.1, 2)",
    ]
    assert answers(texts) == [2, 2, 1, 1, 0, 0, 2, 10, 3]


def test_what_only_spark_evaluates_is_refused_by_name():
    plan = (
        el.Workload()
        .stream("t", "a BIGINT, c STRING")
        .query("n", "SELECT COUNT(*) FROM t WHERE upper(a) = '1'")
        .plan()
    )
    with pytest.raises(PipelineError, match="Spark"):
        plan.empty().update("t", pa.table({"a": [1]}))


def test_built_texts_keep_their_operands_together():
    assert equal("`p` OR `q`", "`a` = 1") == "(`p` OR `q`) = (`a` = 1)"
    assert ValueRange(True, None).predicate("`p` OR `q`") == "(`p` OR `q`) >= True"
    assert ValueRange(1, 5).predicate("`a`") == "`a` >= 1 AND `a` < 5"


@pytest.mark.parametrize(
    "inner",
    ["SELECT COUNT(*) FROM u WHERE u.a = t.a", "SELECT MAX(b) FROM u WHERE u.a = t.a", "SELECT 1 + SUM(b) FROM u WHERE u.a = t.a",
     "SELECT 1 FROM u WHERE u.a = t.a LIMIT 0", "SELECT 1 FROM u WHERE u.a = t.a GROUP BY b", "SELECT 1 FROM u WHERE u.a = t.a HAVING COUNT(*) > 3",
     "SELECT rand() FROM u WHERE u.a = t.a"],
)  # fmt: skip
def test_exists_takes_rows_of_a_stream_and_nothing_else(inner):
    with pytest.raises(UnsupportedQuery):
        parse_query(f"SELECT COUNT(DISTINCT t.a) FROM t WHERE EXISTS ({inner})", STREAMS)


def test_where_does_not_see_the_right_side_of_a_semi_join():
    for condition in ("u.b > 1", "z > 1", "t.a > 0 AND u.a = 3"):
        with pytest.raises(SqlError, match="into ON"):
            parse_query(
                f"SELECT COUNT(DISTINCT t.a) FROM t LEFT SEMI JOIN u ON t.b = u.b WHERE {condition}", STREAMS
            )
    read = parse_query(
        "SELECT COUNT(DISTINCT t.c) FROM t LEFT SEMI JOIN u ON t.b = u.b AND u.b > 1 WHERE a > 1", STREAMS
    )
    assert [relation.predicates for relation in read.relations] == [("`a` > 1",), ("`b` > 1",)]


def test_a_number_whose_spelling_decides_a_division_is_refused():
    with pytest.raises(UnsupportedQuery, match="DECIMAL"):
        parse_query("SELECT SUM(m / 3L) FROM t", STREAMS)
    (factor,) = parse_query("SELECT SUM(m * 1.50BD) FROM t", STREAMS).aggregate.factors
    assert factor.expression.text == "`m` * 1.50"


def test_analysis_without_a_join_counts_rows():
    workload = el.Workload().stream("t", "a BIGINT").query("n", "SELECT COUNT(DISTINCT a) FROM t")
    state = workload.analysis().empty().update("t", pa.table({"a": [1, 2, 2]}))
    assert state.statistics().rows == {"t": 3}
    assert workload.plan(statistics=state.statistics()).layout.queries


def test_null_is_a_condition_only_where_one_is_needed():
    """CASE a WHEN NULL compares a with NULL, which as a BOOLEAN Spark would refuse; CASE WHEN NULL is a condition."""
    for text, stored in {
        "CASE a WHEN 1 THEN p WHEN NULL THEN q END": "CASE `a` WHEN 1 THEN `p` WHEN NULL THEN `q` END",
        "CASE WHEN NULL THEN p ELSE q END": "CASE WHEN CAST(NULL AS BOOLEAN) THEN `p` ELSE `q` END",
    }.items():
        (relation,) = parse_query(f"SELECT COUNT(*) FROM t WHERE {text}", STREAMS).relations
        assert relation.predicates == (stored,)
