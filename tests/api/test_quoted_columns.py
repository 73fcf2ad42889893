"""A column's name in double quotes is a text in Spark SQL: refused where it makes a condition constant, else noted."""

import pyarrow as pa
import pytest

import eddyline as el

_ROWS = pa.table({"location": ["London", "Paris", "location"], "x": [1, 2, 3]})
_NOTE = '"location" in double quotes is a text in Spark SQL'


def _workload(sql: str = "SELECT COUNT(*) FROM s") -> el.Workload:
    w = el.Workload(budget="64 KB", seed=1)
    w.stream("s", "location STRING, x BIGINT")
    w.explore("s", "location", "x")
    w.query("q", sql)
    return w


@pytest.mark.parametrize(
    "condition",
    [
        "\"location\" = 'London'",
        "'London' = \"Location\"",
        "x > 1 AND \"location\" IN ('London', 'Paris')",
        '"x" = 3',
        '"location" IS NULL',
        "LOWER(\"location\") LIKE 'l%'",
    ],
)
def test_a_constant_condition_that_names_a_column_is_refused(condition: str) -> None:
    sql = f"SELECT COUNT(*) FROM s WHERE {condition}"
    with pytest.raises(el.SqlError, match=r"double quotes is a text in Spark SQL, not the column"):
        _workload(sql)
    with pytest.raises(el.SqlError, match=r"compares constants only"):
        _workload().plan().empty().answer(sql)


def test_texts_in_double_quotes_have_a_note_wherever_the_query_is_shown() -> None:
    sql = 'SELECT COUNT(*) FROM s WHERE location = "location"'
    plan = _workload(sql).plan()
    assert f"warning: {_NOTE}" in plan.explain()
    state = plan.empty().update("s", _ROWS)
    found = state.answer("q")
    assert (found.value, found.exact) == (1, True)
    assert any(_NOTE in note for note in found.notes), found.notes
    assert any(_NOTE in note for note in state.answers()["notes"][0].as_py())
    asked = _workload().plan().empty().update("s", _ROWS).answer(sql)
    assert asked.value == 1
    assert any(_NOTE in note for note in asked.notes), asked.notes
    groups = state.answer('SELECT "location" AS g, COUNT(*) AS n FROM s GROUP BY "location"')
    assert any(_NOTE in note for note in groups.notes), groups.notes


@pytest.mark.parametrize(
    "sql",
    [
        'SELECT COUNT(*) FROM s WHERE location = "London"',
        "SELECT COUNT(*) FROM s WHERE location = 'location'",
        "SELECT COUNT(*) FROM s WHERE 'location' = 'London'",
        "SELECT COUNT(*) FROM s WHERE `location` = 'London'",
        'SELECT SUM(x) AS "x" FROM s',
    ],
)
def test_other_texts_and_names_have_none(sql: str) -> None:
    plan = _workload(sql).plan()
    assert "double quotes" not in plan.explain()
    assert plan.empty().update("s", _ROWS).answer("q").notes == ()
