"""What refusals advise: asked as they say, it has the answer that the refused text has by DuckDB."""

import pyarrow as pa
import pytest

import eddyline as el
from eddyline.errors import UnsupportedQuery
from tests.oracles.duckdb_sql import exact

A = pa.table({"k": [1, 1, 2, 3, None, 4], "x": [1, None, 3, 4, 5, None]})
B = pa.table({"k": [1, 2, 2, None, 4], "y": [None, 2, 3, 4, 7]})
TABLES = {"a": A, "b": B}
ON = "ON a.k = b.k"
ADVICE = [
    # refused, what the sentence says, what to ask: the answers are added up
    (f"SELECT COUNT(*) FROM a LEFT JOIN b {ON} WHERE b.y IS NULL", "by JOIN and the same WHERE, those without by LEFT ANTI JOIN",
     [f"SELECT COUNT(*) FROM a JOIN b {ON} WHERE b.y IS NULL", f"SELECT COUNT(*) FROM a LEFT ANTI JOIN b {ON}"]),
    (f"SELECT SUM(a.x) FROM a LEFT JOIN b {ON} WHERE COALESCE(b.y, 0) < 3", "by JOIN and the same WHERE",
     [f"SELECT SUM(a.x) FROM a JOIN b {ON} WHERE COALESCE(b.y, 0) < 3", f"SELECT SUM(a.x) FROM a LEFT ANTI JOIN b {ON}"]),
    (f"SELECT SUM(COALESCE(b.y, 0)) FROM a LEFT JOIN b {ON}", "A SUM is the same without its COALESCE",
     [f"SELECT SUM(b.y) FROM a LEFT JOIN b {ON}"]),
    (f"SELECT COUNT(*) FILTER (WHERE b.k IS NULL), COUNT(*) FROM a LEFT JOIN b {ON}", "count rows without a match by LEFT ANTI JOIN",
     [f"SELECT COUNT(*) FROM a LEFT ANTI JOIN b {ON}"]),
    ("SELECT COUNT(*) FROM (SELECT x FROM a WHERE k > 1)", "leave the subquery out", ["SELECT COUNT(*) FROM a WHERE k > 1"]),
    ("SELECT COUNT(*) FROM (SELECT k FROM a GROUP BY k)", "SELECT DISTINCT of what it groups by",
     ["SELECT COUNT(*) FROM (SELECT DISTINCT k FROM a)"]),
    ("SELECT COUNT(*) FROM (SELECT k FROM a UNION ALL SELECT k FROM b)", "each counted in a query of its own",
     ["SELECT COUNT(*) FROM a", "SELECT COUNT(*) FROM b"]),
    (f"SELECT COUNT(*), COUNT_IF(a.x < b.y) FROM a JOIN b {ON}", "ask the aggregate alone", None),
]  # fmt: skip


def workload(text):
    made = (
        el.Workload(budget="2 MB", seed=1).stream("a", "k BIGINT, x BIGINT").stream("b", "k BIGINT, y BIGINT")
    )
    return made.query("q", text)


@pytest.mark.parametrize(("refused", "sentence", "asked"), ADVICE)
def test_advice_has_the_answer_of_what_is_refused(refused, sentence, asked):
    with pytest.raises(UnsupportedQuery, match=sentence):
        workload(refused)
    found = 0
    for text in asked or [f"SELECT COUNT_IF(a.x < b.y) FROM a JOIN b {ON}"]:
        answer = workload(text).plan().empty().update("a", A).update("b", B).answer("q")
        assert answer.exact
        found += answer.value
    truth = refused if asked else refused.replace("COUNT(*), ", "")
    assert found == exact(truth, TABLES)


def test_not_exists_is_not_in_only_without_null():
    text = "SELECT COUNT(*) FROM a WHERE (k, x) NOT IN (SELECT k, y FROM b)"
    with pytest.raises(UnsupportedQuery, match="the same result only if none of the columns is NULL"):
        workload(text)
    instead = "SELECT COUNT(*) FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.y = a.x)"
    whole = {
        name: table.filter(pa.compute.is_valid(table[1])).filter(
            pa.compute.is_valid(table.filter(pa.compute.is_valid(table[1]))[0])
        )
        for name, table in TABLES.items()
    }
    assert exact(text, whole) == exact(instead, whole)
    assert exact(text, TABLES) != exact(instead, TABLES)


@pytest.mark.parametrize("function", ["STDDEV", "VARIANCE"])
def test_a_spread_of_one_row_says_that_it_takes_two(function):
    state = workload(f"SELECT {function}(x) FROM a").plan().empty()
    for note in state.answer("q").notes:
        assert "take two" not in note
    one = state.update("a", A.slice(0, 1)).answer("q")
    assert (one.value, one.exact) == (None, True)
    assert any("of one row has no variance" in note for note in one.notes), one.notes
    assert not state.update("a", A.slice(2, 1)).answer("q").notes


@pytest.mark.parametrize(
    "condition",
    ["p = s LIKE 'x%'", "a >= b NOT IN (1, 2)", "p = a < b", "a <> b RLIKE 'x'"],
)
def test_comparisons_and_tests_in_one_row_are_refused(condition):
    """Spark reads `p = s LIKE 'x'` as `(p = s) LIKE 'x'`, the parser as `p = (s LIKE 'x')`, which is another number."""
    w = el.Workload(budget="8 KB").stream("t", "a BIGINT, b BIGINT, p BOOLEAN, s STRING")
    with pytest.raises(el.UnsupportedQuery, match="write parentheses around what belongs together"):
        w.query("q", f"SELECT COUNT(*) FROM t WHERE {condition}")


@pytest.mark.parametrize(
    "condition", ["p = (s LIKE 'x%')", "a < b = p", "p = (a < b)", "a = b AND s LIKE 'x'"]
)
def test_comparisons_whose_order_is_clear_are_read(condition):
    w = el.Workload(budget="8 KB").stream("t", "a BIGINT, b BIGINT, p BOOLEAN, s STRING")
    w.query("q", f"SELECT COUNT(*) FROM t WHERE {condition}").plan()
