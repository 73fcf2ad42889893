"""What fails on rows that WHERE excludes does not matter: divisions by zero, overflows, NaN in measures, keys and groups."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eddyline as el
from tests.data.failing import JOIN, QUERIES, others, rows, workload
from tests.oracles.grouped import assert_same, exact_groups

PLAN = workload(QUERIES).plan()


def in_duckdb(text):
    """The same text as DuckDB takes it, which says 0.5 for 0.5D."""
    return text.replace("0.0D", "0.0::DOUBLE").replace("0.5D", "0.5::DOUBLE")


def assert_exact(state, name, tables):
    found, text = state.answer(name), in_duckdb(QUERIES[name])
    assert found.exact, name
    if isinstance(found, el.Groups):
        assert_same(found, exact_groups(text, tables, len(found.group_columns)))
        return
    ((value,),) = exact_groups(text, tables, 0).values()
    assert found.value == (value if value is None else pytest.approx(value, rel=1e-6, abs=1e-4)), name


@given(seed=st.integers(0, 2**30), number=st.sampled_from([1, 40, 300]))
@settings(max_examples=8, deadline=None)
def test_answers_are_those_of_the_rows_that_count(seed, number):
    rng = np.random.default_rng(seed)
    tables = {"u": rows(rng, number), "v": others(rng, number)}
    state = PLAN.empty().update("u", tables["u"]).update("v", tables["v"])
    for name in QUERIES:
        assert_exact(state, name, tables)


@pytest.mark.parametrize("name", QUERIES)
def test_each_query_alone(name):
    rng = np.random.default_rng(4)
    tables = {"u": rows(rng, 60), "v": others(rng, 60)}
    plan = workload({name: QUERIES[name]}).plan()
    state = plan.empty()
    for stream, table in tables.items():
        if stream in state.snapshot.tallies:
            state.update(stream, table)
    assert_exact(state, name, tables)


def test_rows_that_fail_leave_no_trace_when_they_are_deleted():
    """Also those that came before the second stage and go in it: its dictionaries hold the same of a row."""
    rng = np.random.default_rng(1)
    first, more = rows(rng, 400), rows(rng, 9_000, 4_000)
    state = PLAN.empty().update("u", first)
    assert state.update("u", first, np.full(400, -1)) == PLAN.empty()
    small = workload(QUERIES, "60 KB").plan().empty().update("u", first)
    for each in small.snapshot.samples.values():
        assert not each.grouped
    small.update("u", more)
    for each in small.snapshot.samples.values():
        assert each.grouped
    small.update("u", pa.concat_tables([more, first]), np.full(9_400, -1))
    held = [len(part) for each in small.snapshot.samples.values() for part in each.dictionaries]
    assert sum(held) == 0


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("SELECT SUM(a / b) FROM u", "fails on a row: division by zero; exclude such rows"),
        (
            "SELECT SUM(a / b) FROM u WHERE a < 100",
            "fails on a row: division by zero; exclude such rows",
        ),
        (
            "SELECT COUNT(*) FROM u WHERE a / b > 1",
            "fails on a row: division by zero; exclude such rows",
        ),
        ("SELECT SUM(f) FROM u", "exclude such rows in WHERE"),
        ("SELECT a * 4 AS g, COUNT(*) FROM u GROUP BY a * 4", "overflow"),
        ("SELECT SUM(m) FROM u", "beyond 64 bits"),
    ],
)
def test_a_row_that_counts_still_refuses_the_update(text, sentence):
    state = workload({"q": text, "other": QUERIES["division"]}).plan().empty()
    before = state.to_bytes()
    with pytest.raises(el.EddylineError, match=sentence):
        state.update("u", rows(np.random.default_rng(4), 60))
    assert state.to_bytes() == before


def test_a_measure_is_not_read_where_it_was_not_evaluated():
    """Rows with b = 0 count in the join, and nothing is known of a / b there: no text gets a sum without them."""
    rng = np.random.default_rng(2)
    tables = {"u": rows(rng, 80), "v": others(rng, 80)}
    planned = {
        "q": f"SELECT SUM(u.a / u.b) {JOIN} WHERE u.b <> 0 AND u.a < 100",
        "all": f"SELECT COUNT(*) {JOIN}",
        "some": f"SELECT COUNT(*) {JOIN} WHERE u.a < 100",
        "groups": f"SELECT u.a * 4 AS g, COUNT(*) AS n {JOIN} WHERE u.a < 100 GROUP BY u.a * 4",
    }
    state = workload(planned).plan().empty().update("u", tables["u"]).update("v", tables["v"])
    again = state.answer(f"SELECT SUM(u.a / u.b) {JOIN} WHERE u.a < 100 AND u.b <> 0")
    assert again.value == state.answer("q").value
    for text in (
        f"SELECT SUM(u.a / u.b) {JOIN}",
        f"SELECT SUM(u.a / u.b) {JOIN} WHERE u.a < 100",
        f"SELECT u.a * 4 AS g, COUNT(*) AS n {JOIN} GROUP BY u.a * 4",
    ):
        with pytest.raises(el.PlanError, match="does not cover"):
            state.answer(text)


def test_texts_that_were_not_planned_are_evaluated_on_the_rows_that_they_count():
    rng = np.random.default_rng(3)
    tables = {"u": rows(rng, 80), "v": others(rng, 80)}
    made = workload({"q": f"SELECT COUNT(*) {JOIN}"}).explore("u", "a", "b", "f").explore("v", "h")
    state = made.plan().empty().update("u", tables["u"]).update("v", tables["v"])
    for name in (
        "division",
        "count",
        "average",
        "branch",
        "conjuncts",
        "not_a_number",
        "grouped",
        "joined",
        "joined_groups",
    ):
        found, text = state.answer(QUERIES[name]), in_duckdb(QUERIES[name])
        assert found.exact
        if isinstance(found, el.Groups):
            assert_same(found, exact_groups(text, tables, len(found.group_columns)))
        else:
            ((value,),) = exact_groups(text, tables, 0).values()
            assert found.value == pytest.approx(value, rel=1e-6), name
    with pytest.raises(el.PipelineError, match="fails on a row: division by zero; exclude such rows"):
        state.answer("SELECT SUM(a / b) FROM u")


def test_a_dictionary_may_have_values_that_no_row_has():
    """Slices of a table keep the dictionary of the whole: a value that another slice has was evaluated, and failed."""
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 10), pa.array([1, 2, 0]))
    made = el.Workload(budget="1 MB").stream("t", "b BIGINT").query("q", "SELECT SUM(6 / b) FROM t")
    assert made.plan().empty().update("t", pa.table({"b": column})).answer("q").value == 90
