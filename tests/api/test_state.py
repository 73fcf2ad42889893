"""States: three ways in give the same counters, they combine linearly, and bad input changes nothing."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import eddyline as el


def workload(**settings):
    return (
        el.Workload(samples=False, **{"budget": "64 KB", "seed": 3, **settings})
        .stream("orders", "id BIGINT, customer STRING, total DECIMAL(12,2), score DOUBLE")
        .stream("visits", "customer STRING, seconds INT")
        .query("pairs", "SELECT COUNT(*) FROM orders o JOIN visits v ON o.customer = v.customer")
        .query(
            "long",
            "SELECT SUM(o.total) FROM orders o JOIN visits v ON o.customer = v.customer WHERE v.seconds > 9",
        )
        .query("mean", "SELECT AVG(o.score) FROM orders o JOIN visits v ON o.customer = v.customer")
        .query("n", "SELECT COUNT(*) FROM orders")
    )


@pytest.fixture
def plan():
    return workload().plan()


def orders(rng, n):
    return pa.table(
        {
            "id": rng.integers(0, 10**6, n),
            "customer": pa.array([f"c{i}" for i in rng.integers(0, 50, n)]),
            "total": pa.array(rng.integers(1, 10**6, n))
            .cast(pa.decimal128(19, 0))
            .cast(pa.decimal128(12, 2), safe=False),
            "score": rng.normal(size=n),
        }
    )


def visits(rng, n):
    return pa.table(
        {
            "customer": pa.array([f"c{i}" for i in rng.integers(0, 50, n)]),
            "seconds": pa.array(rng.integers(0, 99, n), pa.int32()),
        }
    )


@pytest.fixture
def tables():
    rng = np.random.default_rng(5)
    return orders(rng, 3000), visits(rng, 4000)


def filled(plan, tables):
    return plan.empty().update("orders", tables[0]).update("visits", tables[1])


def test_a_record_batch_is_rows_like_a_table():
    table = pa.table({"k": [1, 2, 2]})
    plan = (
        el.Workload(budget="8 KB")
        .stream("s", "k BIGINT")
        .query("q", "SELECT COUNT(DISTINCT k) FROM s")
        .plan()
    )
    batch = table.to_batches()[0]
    assert plan.empty().update("s", batch) == plan.empty().update("s", table)


def test_parts_equal_the_whole_in_any_order(plan, tables):
    whole = filled(plan, tables)
    parts = [
        plan.empty().update(name, table.slice(start, 700))
        for name, table in zip(("orders", "visits"), tables, strict=True)
        for start in range(0, table.num_rows, 700)
    ]
    total = plan.empty()
    for part in reversed(parts):
        total = part + total
    assert total == whole
    assert whole - parts[0] + parts[0] == whole
    assert whole.answer("pairs") == filled(plan, tables).answer("pairs")


def test_insert_then_delete_is_bit_identical(plan, tables):
    whole = filled(plan, tables)
    churn = orders(np.random.default_rng(6), 500)
    busy = filled(plan, tables).update("orders", churn).update("orders", churn, np.full(500, -1))
    assert busy == whole
    assert busy.to_bytes() != b""


def test_bytes_round_trip_with_the_plan_inside(plan, tables):
    state = filled(plan, tables)
    again = el.State.from_bytes(state.to_bytes())
    assert again == state
    assert again.answer("long") == state.answer("long")
    damaged = bytearray(state.to_bytes())
    damaged[len(damaged) // 2] ^= 1
    with pytest.raises(el.CorruptState):
        el.State.from_bytes(bytes(damaged))


def test_states_of_different_plans_do_not_combine(plan):
    for other in (workload(seed=4), workload(budget="80 KB")):
        with pytest.raises(el.IncompatibleSpecs, match="different plans"):
            plan.empty() + other.plan().empty()


def test_any_covered_sql_is_answered_and_the_rest_says_what_is_missing(plan, tables):
    state = filled(plan, tables)
    text = "SELECT COUNT(*) FROM visits JOIN orders USING (customer)"
    assert state.answer(text).value == pytest.approx(state.answer("pairs").value, rel=1e-9)
    with pytest.raises(el.PlanError, match=r"hash on \(customer\) where seconds < 5"):
        state.answer(
            "SELECT COUNT(*) FROM orders o JOIN visits v ON o.customer = v.customer WHERE v.seconds < 5"
        )
    with pytest.raises(el.PlanError, match="its queries are long, mean, n, pairs"):
        state.answer("nope")


def test_all_answers_are_one_table_groups_and_refusals_among_them():
    w = (
        el.Workload(budget="1 MB", seed=1)
        .stream("t", "k BIGINT, g STRING, d DATE, x BIGINT")
        .stream("u", "k BIGINT")
    )
    w.query("n", "SELECT COUNT(*) FROM t JOIN u ON t.k = u.k")
    w.query("last", "SELECT MAX(d) FROM t")
    w.query("groups", "SELECT g, COUNT(*) AS n, AVG(x) AS a FROM t GROUP BY g")
    days = pa.array([1, 2, 3, 4], pa.int32()).cast(pa.date32())
    rows = pa.table({"k": [1, 1, 2, 3], "g": ["a", "b", "a", None], "d": days, "x": [4, 8, 6, None]})
    state = w.plan().empty().update("t", rows).update("u", {"k": np.array([1, 2])})
    table = state.answers()
    rows = {(r["query"], tuple(r["group"] or ()), r["aggregate"]): r for r in table.to_pylist()}
    assert len(rows) == table.num_rows == 2 + 3 * 2
    only = rows["n", (), None]
    assert (only["value"], only["low"], only["high"], only["exact"], only["answer"]) == (
        3,
        3,
        3,
        True,
        "3 (exact)",
    )
    assert rows["last", (), None]["value"] is None
    assert rows["last", (), None]["answer"] == "1970-01-05 (exact)"
    assert rows["groups", (("g", "a"),), "a"]["value"] == 5.0
    assert rows["groups", (("g", "NULL"),), "n"]["value"] == 1
    assert rows["groups", (("g", "NULL"),), "a"]["value"] is None
    assert w.plan().empty().answers().schema.equals(table.schema)


def test_a_query_that_is_no_longer_answered_is_told_among_all_answers():
    w = el.Workload(budget="4 KB", seed=1).stream("t", "k BIGINT, x BIGINT").stream("u", "k BIGINT")
    w.query("n", "SELECT COUNT(*) FROM t JOIN u ON t.k = u.k").query(
        "most", "SELECT MAX(t.x) FROM t JOIN u ON t.k = u.k"
    )
    keys = np.arange(5_000)
    state = w.plan().empty().update("t", {"k": keys, "x": keys}).update("u", {"k": keys})
    with pytest.raises(el.PlanError) as refused:
        state.answer("most")
    shown = {row["query"]: row for row in state.answers().to_pylist()}
    assert shown["most"]["answer"] == "refused"
    assert shown["most"]["notes"] == [str(refused.value)]
    assert shown["n"]["low"] <= 5_000 <= shown["n"]["high"]
    assert not shown["n"]["exact"]


def test_methods_can_be_compared_on_one_state(plan, tables):
    state = filled(plan, tables)
    assert state.answer("pairs", method="hash").method == "hash"
    with pytest.raises(el.PlanError, match="agms"):
        state.answer("pairs", method="agms")
    with pytest.raises(el.PlanError, match="skimmed, hash, agms"):
        state.answer("pairs", method="best")


BAD_UPDATES = {
    "no such stream": (lambda s, t: s.update("nope", t[0]), el.PlanError, "orders, visits"),
    "missing column": (
        lambda s, t: s.update("orders", t[0].drop_columns(["customer"])),
        el.PipelineError,
        "'customer'",
    ),
    "type clash": (
        lambda s, t: s.update("visits", {"customer": np.arange(3), "seconds": np.arange(3)}),
        el.PipelineError,
        "declared STRING",
    ),
    "wider value": (
        lambda s, t: s.update(
            "visits", t[1].set_column(1, "seconds", pc.add(t[1]["seconds"].cast(pa.int64()), 1 << 40))
        ),
        el.PipelineError,
        "declared INT",
    ),
    "columns of different length": (
        lambda s, t: s.update(
            "visits", {"customer": np.array(["a"]), "seconds": np.arange(3, dtype=np.int32)}
        ),
        el.PipelineError,
        "dict of columns of one length",
    ),
    "a row instead of columns": (
        lambda s, t: s.update("visits", {"customer": "a", "seconds": 3}),
        el.PipelineError,
        "dict of columns",
    ),
    "no table": (lambda s, t: s.update("visits", None), el.PipelineError, "give a pyarrow.Table"),
    "no query": (lambda s, t: s.answer(None), el.PlanError, "the name of a query or a SQL string"),
    "no state": (lambda s, t: s + 3, TypeError, "unsupported operand"),
    "wrong number of weights": (
        lambda s, t: s.update("orders", t[0], np.ones(2, int)),
        el.SketchError,
        "3000",
    ),
    "weights beyond 64 bits": (
        lambda s, t: s.update("orders", t[0], np.full(3000, 2**64 - 1, dtype=np.uint64)),
        el.SketchError,
        "18446744073709551615",
    ),
    "two columns that differ in case": (
        lambda s, t: s.update("visits", t[1].append_column("Seconds", t[1]["seconds"])),
        el.PipelineError,
        "2 columns 'seconds'",
    ),
    "two columns of one name": (
        lambda s, t: s.update("visits", t[1].append_column("seconds", t[1]["seconds"])),
        el.PipelineError,
        "2 columns 'seconds'",
    ),
    "fractional weights": (lambda s, t: s.update("orders", t[0], np.ones(3000)), el.SketchError, "float64"),
    "weights that overflow": (
        lambda s, t: s.update("orders", t[0], np.full(3000, 2**60)),
        el.SketchError,
        "overflow",
    ),
    "NaN measure": (
        lambda s, t: s.update("orders", t[0].set_column(3, "score", pa.array([float("nan")] * 3000))),
        el.PipelineError,
        "NaN",
    ),
    "infinite measure": (
        lambda s, t: s.update("orders", t[0].set_column(3, "score", pa.array([float("-inf")] * 3000))),
        el.PipelineError,
        "NaN",
    ),
}


def test_a_table_without_rows_may_have_a_list_of_no_weights():
    workload = el.Workload(seed=1).stream("t", "a BIGINT").query("n", "SELECT COUNT(*) FROM t")
    state = workload.plan().empty().update("t", {"a": np.empty(0, np.int64)}, [])
    assert state.answer("n").value == 0


@pytest.mark.parametrize("case", BAD_UPDATES)
def test_bad_input_is_one_clear_error_and_changes_nothing(plan, tables, case):
    action, error, words = BAD_UPDATES[case]
    state = filled(plan, tables)
    with pytest.raises(error, match=words):
        action(state, tables)
    assert state == filled(plan, tables)


@pytest.mark.parametrize(
    ("unit", "value"), [("ns", 1_001), ("s", 2**60)], ids=["less than a microsecond", "far future"]
)
def test_times_that_microseconds_cannot_hold_are_one_clear_error(unit, value):
    asked = el.Workload(seed=1, timezone="UTC").stream("s", "at TIMESTAMP", changes="w")
    state = asked.query("q", "SELECT COUNT(DISTINCT at) FROM s").plan().empty()
    times = pa.array([value], pa.timestamp(unit, "UTC"))
    with pytest.raises(el.PipelineError, match="'at' is declared TIMESTAMP"):
        state.update("s", pa.table({"at": times, "w": [1]}))
    with pytest.raises(el.ChangeError, match="weight beyond 64 bits"):
        state.update("s", pa.table({"at": times, "w": pa.array([2**63], pa.uint64())}))


def test_the_advice_on_nan_measures_works():
    asked = el.Workload(seed=1, samples=False).stream("s", "x DOUBLE")
    asked.query("q", "SELECT SUM(CASE WHEN x < 1e12 THEN x END) FROM s")
    rows = {"x": np.array([1.5, np.nan, np.inf])}
    assert asked.plan().empty().update("s", rows).answer("q").value == 1.5
    asked.query("filtered", "SELECT SUM(x) FROM s WHERE x < 1e12")
    assert asked.plan().empty().update("s", rows).answer("filtered").value == 1.5
    asked.query("bare", "SELECT SUM(x) FROM s")
    with pytest.raises(el.PipelineError, match="exclude such rows in WHERE, sum CASE WHEN"):
        asked.plan().empty().update("s", rows)


def test_empty_tables_null_keys_and_zero_weights_count_for_nothing(plan, tables):
    state = filled(plan, tables)
    before = el.State.from_bytes(state.to_bytes())
    state.update("visits", tables[1].slice(0, 0))
    state.update("visits", tables[1], np.zeros(4000, dtype=np.int64))
    assert state == before
    nulls = pa.table({"customer": pa.nulls(9, pa.string()), "seconds": pa.array([50] * 9, pa.int32())})
    assert state.update("visits", nulls).answer("pairs") == before.answer("pairs")


def test_negative_net_counts_are_flagged(plan, tables):
    state = plan.empty().update("orders", tables[0], np.full(3000, -1))
    (note,) = state.answer("n").notes
    assert "-3,000" in note


def test_minus_zero_and_null_measures(plan):
    rows = pa.table(
        {
            "id": [1, 2, 3],
            "customer": ["a", "a", "a"],
            "total": pa.nulls(3, pa.decimal128(12, 2)),
            "score": pa.array([-0.0, None, 3.0]),
        }
    )
    state = (
        plan.empty()
        .update("orders", rows)
        .update("visits", {"customer": np.array(["a"]), "seconds": np.array([10], np.int32)})
    )
    assert state.answer("mean").value == pytest.approx(1.5)
    assert state.answer("pairs").value == 3
    assert state.answer("long").value == 0


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        (lambda: el.Workload(budget="1 KB", error=0.1, samples=False), el.PlanError, "not both"),
        (lambda: el.Workload(budget="lots", samples=False), el.PlanError, "'64 KB'"),
        (lambda: el.Workload(budget=-1, samples=False), el.PlanError, "size"),
        (lambda: el.Workload(confidence=1.5, samples=False), el.PlanError, "confidence"),
        (lambda: el.Workload(hash="md5", samples=False), el.PlanError, "mix"),
        (lambda: workload(error=2.0, budget=None).plan(), el.PlanError, "between 0 and 1"),
        (lambda: workload(budget="1 KB").plan(), el.PlanError, "at least"),
        (lambda: el.Workload(samples=False).stream("s", "a INT").plan(), el.PlanError, "no query"),
        (lambda: el.Workload(samples=False).stream("s", "a INT").stream("S", "a INT"), el.PlanError, "twice"),
        (lambda: el.Workload(samples=False).stream("a b", "a INT"), el.PlanError, "identifier"),
        (
            lambda: el.Workload(samples=False).stream("s", "a INT", changes="no`such"),
            el.PlanError,
            "debezium",
        ),
        (lambda: workload().query("n", "SELECT COUNT(*) FROM orders"), el.PlanError, "twice"),
        (lambda: workload().query("m", "SELECT COUNT(*) FROM orders", method="x"), el.PlanError, "method"),
        (lambda: workload().query("m", "SELECT FIRST(id) FROM orders"), el.UnsupportedQuery, "query 'm'"),
    ],
)
def test_bad_workloads_are_refused(build, error, words):
    with pytest.raises(error, match=words):
        build()


def test_plans_stay_within_budget_and_ignore_the_order_of_queries():
    for budget in (20_000, 64_000, 10**6, 7 * 10**6):
        plan = workload(budget=budget).plan()
        assert 0.85 * budget < plan.nbytes <= budget
        assert plan.nbytes == plan.empty().nbytes
    a = (
        el.Workload(seed=1, samples=False)
        .stream("s", "x INT")
        .query("p", "SELECT COUNT(*) FROM s")
        .query("q", "SELECT SUM(x) FROM s")
    )
    b = (
        el.Workload(seed=1, samples=False)
        .stream("s", "x INT")
        .query("q", "SELECT SUM(x) FROM s")
        .query("p", "SELECT COUNT(*) FROM s")
    )
    assert a.plan().layout == b.plan().layout


def test_error_sizes_the_plan(plan):
    small, large = workload(budget=None, error=0.1).plan(), workload(budget=None, error=0.02).plan()
    assert 15 < large.nbytes / small.nbytes < 35
    assert "relative error of 0.02" in large.explain()


def test_explain_shows_who_shares_what(plan):
    text = plan.explain()
    assert "read by" in text
    assert "update cost" in text
    assert "long [skimmed] reads" in text


def test_estimates_read_well(plan, tables):
    state = filled(plan, tables)
    estimate = state.answer("pairs")
    assert estimate.low <= estimate.value <= estimate.high
    assert "95%" in str(estimate)
    assert "exact" in repr(state.answer("n"))
    assert "<b" in estimate._repr_html_()
    assert state.answer("pairs", confidence=0.99).high >= estimate.high
