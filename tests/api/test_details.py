"""Aggregates of single values: COUNT(DISTINCT ...) in groups and over many relations, quantiles, MIN and MAX."""

from collections import Counter
from datetime import timedelta
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import eddyline as el
from tests.data.changes import inserted_and_deleted
from tests.data.groups import STREAMS, big_orders, items, orders, plan_of, skus
from tests.oracles.coverage import Coverage
from tests.oracles.duckdb_sql import database
from tests.oracles.grouped import assert_same, exact_groups, intervals, values_by_group

CHAIN = "FROM orders o JOIN items i ON o.k = i.k JOIN skus s ON i.sku = s.sku"
QUERIES = {
    "stream": "SELECT region, COUNT(DISTINCT status) AS d, COUNT(*) AS n, MIN(amount) AS lo, MAX(amount) AS hi "
    "FROM orders GROUP BY region",
    "quantiles": "SELECT status, PERCENTILE_APPROX(amount, 0.3) AS p, MEDIAN(k) AS m, PERCENTILE(amount, 0.9) AS q, "
    "PERCENTILE_DISC(0.0) WITHIN GROUP (ORDER BY k) AS least FROM orders GROUP BY status",
    "join": "SELECT o.region, COUNT(DISTINCT i.sku) AS d, COUNT(DISTINCT o.k, i.qty) AS pairs, MEDIAN(i.qty) AS m, "
    "SUM(i.qty) AS q FROM orders o JOIN items i ON o.k = i.k GROUP BY o.region",
    "chain": f"SELECT s.kind, COUNT(DISTINCT o.region, i.qty) AS d, MAX(o.amount) AS hi {CHAIN} GROUP BY s.kind",
    "having": f"SELECT s.kind, COUNT(*) AS n {CHAIN} GROUP BY s.kind HAVING COUNT(DISTINCT o.region) > 2 AND COUNT(*) > 0",
    "many": f"SELECT COUNT(DISTINCT o.region, s.kind) {CHAIN}",
    "median": "SELECT MEDIAN(qty) FROM items WHERE sku > 's3'",
    "maximum": "SELECT MAX(o.amount) FROM orders o JOIN items i ON o.k = i.k",
    "both": "SELECT MIN(qty) AS lo, COUNT(DISTINCT sku) AS d FROM items",
    "left": "SELECT o.region, COUNT(DISTINCT i.sku) AS d, MEDIAN(i.qty) AS m, MAX(o.amount) AS hi FROM orders o "
    "LEFT JOIN items i ON o.k = i.k GROUP BY o.region",
    "maybe_missing": "SELECT i.sku, COUNT(DISTINCT o.status) AS d, COUNT(*) AS n FROM orders o LEFT JOIN items i "
    "ON o.k = i.k GROUP BY i.sku",
    "anti": "SELECT COUNT(DISTINCT o.status) FROM orders o WHERE NOT EXISTS (SELECT 1 FROM items i WHERE i.k = o.k)",
    "not_in": "SELECT MEDIAN(o.status) FROM orders o WHERE o.k NOT IN (SELECT k FROM items WHERE qty > 5)",
    "difference": "SELECT o.region, MEDIAN(o.status - i.qty) AS m, PERCENTILE(o.amount * i.qty, 0.9) AS p, "
    "MAX(o.status - i.qty) AS hi FROM orders o JOIN items i ON o.k = i.k GROUP BY o.region",
    "difference_along_a_chain": f"SELECT PERCENTILE_APPROX(o.status - i.qty, 0.3) AS p, COUNT(*) AS n {CHAIN}",
    "difference_filtered": "SELECT i.sku, MEDIAN(COALESCE(o.status - i.qty, 7)) FILTER (WHERE o.region > 'B') AS m "
    "FROM orders o JOIN items i ON o.k = i.k GROUP BY i.sku",
    "difference_of_a_missing_side": "SELECT o.region, MEDIAN(COALESCE(o.status - i.qty, 7)) AS m, MIN(o.status + i.qty) "
    "AS lo FROM orders o LEFT JOIN items i ON o.k = i.k GROUP BY o.region",
    "grouped_column": "SELECT region, COUNT(DISTINCT region) AS d, COUNT(DISTINCT region, status) AS e FROM orders "
    "GROUP BY region",
}


def in_duckdb(text):
    """The same text as DuckDB writes it."""
    for ours, theirs in {
        "PERCENTILE_APPROX(amount, 0.3)": "quantile_disc(amount, 0.3)",
        "PERCENTILE(amount, 0.9)": "quantile_cont(amount::DOUBLE, 0.9)",
        "PERCENTILE(o.amount * i.qty, 0.9)": "quantile_cont((o.amount * i.qty)::DOUBLE, 0.9)",
        "PERCENTILE_DISC(0.0) WITHIN GROUP (ORDER BY k)": "MIN(k)",
        "PERCENTILE_APPROX": "quantile_disc",
    }.items():
        text = text.replace(ours, theirs)
    for pair in ("o.k, i.qty", "o.region, i.qty", "o.region, s.kind", "region, status"):
        present = " AND ".join(f"{column} IS NOT NULL" for column in pair.split(", "))
        text = text.replace(f"COUNT(DISTINCT {pair})", f"COUNT(DISTINCT ({pair})) FILTER (WHERE {present})")
    return text


def assert_exact(state, net, queries):
    for name, text in queries.items():
        found = state.answer(name)
        assert found.exact, name
        if isinstance(found, el.Groups):
            assert_same(found, exact_groups(in_duckdb(text), net, len(found.group_columns)))
            continue
        ((value,),) = exact_groups(in_duckdb(text), net, 0).values()
        assert (found.value is None) == (value is None), name
        assert value is None or found.value == pytest.approx(value, rel=1e-9), name


@given(seed=st.integers(0, 2**30), rows=st.sampled_from([0, 1, 30, 300]), keys=st.sampled_from([3, 60]))
@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
def test_every_form_is_exact_while_everything_is_held(seed, rows, keys):
    """Deletes before inserts, NULLs, merged states and stored ones among it."""
    rng = np.random.default_rng(seed)
    made = {"orders": orders(rng, rows, keys), "items": items(rng, rows, keys), "skus": skus(rng)}
    left, right, net = inserted_and_deleted(rng, plan_of(QUERIES), made, 0.4)
    assert_exact(el.State.from_bytes((right + left).to_bytes()), net, QUERIES)


def test_texts_that_nobody_planned_find_details_that_are_held():
    made = {"orders": orders(np.random.default_rng(1), 200, 20)}
    state = plan_of({"q": QUERIES["stream"]}).empty().update("orders", made["orders"])
    text = "SELECT region, MAX(amount) AS hi FROM orders GROUP BY region"
    assert_same(state.answer(text), exact_groups(text, made, 1))
    with pytest.raises(el.PlanError, match="does not cover"):
        state.answer("SELECT region, MEDIAN(k) AS m FROM orders GROUP BY region")


SAMPLED = {
    "customers": "SELECT region, COUNT(DISTINCT k) AS d FROM orders GROUP BY region",
    "spread": "SELECT region, PERCENTILE_APPROX(k, 0.5) AS d FROM orders GROUP BY region",
    "joined": "SELECT o.region, PERCENTILE_APPROX(i.qty, 0.75) AS d FROM orders o JOIN items i ON o.k = i.k GROUP BY o.region",
    "seen": "SELECT o.region, COUNT(DISTINCT i.sku) AS d FROM orders o JOIN items i ON o.k = i.k GROUP BY o.region",
    "difference": "SELECT o.region, PERCENTILE_APPROX(i.qty - o.status, 0.5) AS d FROM orders o JOIN items i "
    "ON o.k = i.k GROUP BY o.region",
    "linked": "SELECT o.region, COUNT(DISTINCT i.k) AS d FROM orders o JOIN items i ON o.k = i.k GROUP BY o.region",
}


def sampled_answer(name, seed, budget):
    """A grouped detail of 6,000 rows by 8 regions at a small budget, and the truth."""
    rng = np.random.default_rng(seed)
    made = {"orders": big_orders(rng, 6_000, 2_000, 8)}
    if "items" in SAMPLED[name]:
        table = items(rng, 6_000, 2_000)
        skus_of = pa.array([f"s{x}" for x in rng.integers(0, 400, 6_000)])
        qty = pa.array(rng.integers(0, 1_000, 6_000), pa.int32())
        made["items"] = table.set_column(1, "sku", skus_of).set_column(2, "qty", qty)
    w = el.Workload(budget=budget, seed=seed)
    for stream in made:
        w.stream(stream, STREAMS[stream])
    state = w.query("q", SAMPLED[name]).plan().empty()
    for stream, table in made.items():
        state.update(stream, table)
    return state.answer("q"), exact_groups(in_duckdb(SAMPLED[name]), made, 1)


@pytest.mark.calibration
def test_intervals_of_sampled_details_hold():
    """16 seeds of 8 groups of each query.

    Distinct counts whose tuples have several followed values are bounded from above, and hold more often.
    """
    tally, coverage = Counter(), Coverage()
    for name, seed in product(SAMPLED, range(16)):
        groups, truth = sampled_answer(name, seed, "12 KB" if "items" in SAMPLED[name] else "8 KB")
        assert not groups.exact
        for group, (low, high) in intervals(groups, "d").items():
            value = values_by_group(groups)[group][0]
            coverage.add((name, seed), low <= truth[group][0] <= high, name)
            tally["finite", name] += np.isfinite(low) and np.isfinite(high)
            tally["near", name] += abs(value - truth[group][0]) <= 0.5 * abs(truth[group][0])
            tally["all", name] += 1
    coverage.check()
    for name in SAMPLED:
        assert tally["finite", name] >= 0.9 * tally["all", name], tally
        assert tally["near", name] >= 0.8 * tally["all", name], tally


TIMES = {
    "planned": "SELECT PERCENTILE_APPROX(b.t - a.t, 0.5) AS m FROM a JOIN b ON a.k = b.k",
    "median": "SELECT MEDIAN(b.t - a.t) AS m, MAX(b.n - a.n) AS hi, MIN(b.e - a.e) AS lo FROM a JOIN b ON a.k = b.k",
}


def two_logs(rows):
    rng = np.random.default_rng(5)

    def log():
        micros = pa.array(rng.integers(0, 10**12, rows), pa.int64())
        return pa.table(
            {
                "k": rng.integers(0, 9, rows),
                "t": micros.cast(pa.timestamp("us", "UTC")),
                "n": micros.cast(pa.timestamp("us")),
                "e": pa.array(rng.integers(0, 400, rows), pa.int32()).cast(pa.date32()),
            }
        )

    return {"a": log(), "b": log()}


def test_quantiles_of_times_between_two_streams_are_intervals():
    """MEDIAN of whole microseconds is cut off as in Spark, towards zero."""
    made = two_logs(60)
    w = el.Workload(budget="2 MB", seed=7, timezone="UTC")
    for name in made:
        w.stream(name, "k BIGINT, t TIMESTAMP, n TIMESTAMP_NTZ, e DATE")
        w.explore(name)
    state = w.query("planned", TIMES["planned"]).plan().empty()
    for name, table in made.items():
        state.update(name, table)
    state = el.State.from_bytes(state.to_bytes())
    with database().cursor() as connection:
        for name, table in made.items():
            connection.register(name, table)
        ((least, median, most, days),) = connection.sql(
            "SELECT quantile_disc(epoch_us(b.t) - epoch_us(a.t), 0.5), trunc(median(epoch_us(b.t) - epoch_us(a.t))), "
            "MAX(epoch_us(b.n) - epoch_us(a.n)), MIN(b.e - a.e) FROM a JOIN b ON a.k = b.k"
        ).fetchall()
    assert state.answer("planned").value == timedelta(microseconds=least)
    assert str(state.answer("planned")).endswith("(exact)")
    (found,) = state.answer(TIMES["median"])
    assert found["m"] == timedelta(microseconds=int(median))
    assert (found["hi"], found["lo"]) == (timedelta(microseconds=most), timedelta(days=days))
    around = state.sql(f"SELECT 2 * m AS twice FROM ({TIMES['median']})")
    assert around.column("twice").to_pylist() == [2 * timedelta(microseconds=int(median))]
    with pytest.raises(el.UnsupportedQuery, match="CAST one side"):
        state.answer("SELECT MEDIAN(b.t - a.n) FROM a JOIN b ON a.k = b.k")


def test_a_value_of_several_relations_that_is_not_answered_says_why():
    state = plan_of({"q": QUERIES["join"]}).empty()
    with pytest.raises(el.UnsupportedQuery, match="mixes columns of several relations"):
        state.answer(
            "SELECT COUNT(DISTINCT o.status - i.qty) AS d, COUNT(*) AS n FROM orders o JOIN items i ON o.k = i.k"
        )
    with pytest.raises(el.UnsupportedQuery, match="cannot work out"):
        state.answer("SELECT MEDIAN(SQRT(o.status - i.qty)) FROM orders o JOIN items i ON o.k = i.k")


EXTREME = {
    "stream": ("SELECT region, PERCENTILE_APPROX(k, {}) AS d FROM orders GROUP BY region", "8 KB"),
    "join": (
        "SELECT o.region, PERCENTILE_APPROX(i.qty, {}) AS d FROM orders o JOIN items i ON o.k = i.k GROUP BY o.region",
        "12 KB",
    ),
}


@pytest.mark.calibration
def test_quantiles_near_the_ends_hold_or_say_that_they_are_open():
    """8 seeds of 8 groups.

    Of one stream's 0.999 quantiles 10% held, when the largest value that was seen was taken for the largest.
    """
    coverage = Coverage()
    for (name, (text, budget)), share, seed in product(EXTREME.items(), (0.01, 0.99, 0.999), range(8)):
        rng = np.random.default_rng(seed)
        made = {"orders": big_orders(rng, 6_000, 2_000, 8)}
        if name == "join":
            qty = pa.array(rng.integers(0, 1_000, 6_000), pa.int32())
            made["items"] = items(rng, 6_000, 2_000).set_column(2, "qty", qty)
        state = plan_of({"q": text.format(share)}, budget, {each: STREAMS[each] for each in made}).empty()
        for stream, table in made.items():
            state.update(stream, table)
        truth = exact_groups(in_duckdb(text.format(share)), made, 1)
        for group, (low, high) in intervals(state.answer("q"), "d").items():
            coverage.add((name, share, seed), low <= truth[group][0] <= high, f"{share} of {name}")
    coverage.check()


def test_groups_of_which_no_sampled_tuple_is_seen_have_room_for_some():
    """4 seeds of 200 small groups: a fifth of the intervals missed without an allowance."""
    coverage = Coverage()
    text = "SELECT region, COUNT(DISTINCT k) AS d FROM orders GROUP BY region"
    for seed in range(4):
        table = big_orders(np.random.default_rng(seed), 2_500, 2_000, 200)
        groups = plan_of({"q": text}, "6 KB").empty().update("orders", table).answer("q")
        truth = exact_groups(text, {"orders": table}, 1)
        for group, (low, high) in intervals(groups, "d").items():
            coverage.add(seed, low <= truth[group][0] <= high)
    assert coverage.misses <= 0.07 * coverage.trials
    coverage.check(wrong=0.69)


def test_a_sample_refuses_min_and_max_and_offers_a_quantile():
    table = big_orders(np.random.default_rng(2), 6_000, 4_000, 30)
    plan = plan_of({"q": "SELECT region, MAX(k) AS hi FROM orders GROUP BY region"}, "4 KB")
    with pytest.raises(
        el.PlanError, match=r"the MAX of the missing rows is unknown.* PERCENTILE_APPROX\(..., 0.999\)"
    ):
        plan.empty().update("orders", table).answer("q")


def test_a_stream_without_groups_has_exact_counts_beside_a_sampled_median():
    table = big_orders(np.random.default_rng(3), 6_000, 4_000, 30)
    plan = plan_of({"q": "SELECT COUNT(*) AS n, MEDIAN(k) AS m FROM orders"}, "3 KB")
    found = plan.empty().update("orders", table).answer("q")
    ((_, (n, m)),) = exact_groups("SELECT COUNT(*), MEDIAN(k) FROM orders", {"orders": table}, 0).items()
    (row,) = found
    assert (row["n"], row["n_low"], row["n_high"]) == (n, n, n)
    assert row["m_low"] <= m <= row["m_high"]
    assert not found.exact


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("SELECT PERCENTILE_APPROX(k, array(0.1, 0.2)) FROM orders", "one number from 0 to 1"),
        ("SELECT PERCENTILE_APPROX(k, 1.5) FROM orders", "one number from 0 to 1"),
        ("SELECT MEDIAN(region) FROM orders", "of type STRING: quantiles are supported for numbers, dates"),
        ("SELECT MEDIAN(ts) FROM orders", "of type TIMESTAMP: of these Spark takes PERCENTILE_APPROX alone"),
        (
            "SELECT PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY ts) FROM orders",
            "Spark takes PERCENTILE_APPROX alone",
        ),
        ("SELECT region, COUNT(*) FROM orders GROUP BY region HAVING MAX(ts) > 5", "which is not a number"),
        ("SELECT MAX(DISTINCT k) FROM orders", "only COUNT takes it"),
        ("SELECT MIN(k, 2) FROM orders", "take one column"),
        ("SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY k DESC) FROM orders", "one column, ascending"),
        (
            "SELECT COUNT(DISTINCT o.k + i.qty) AS d, COUNT(*) AS n FROM orders o JOIN items i ON o.k = i.k",
            "mixes columns",
        ),
        ("SELECT region, COUNT(DISTINCT 1) FROM orders GROUP BY region", "name a column"),
        ("SELECT region, MAX(COUNT(*)) FROM orders GROUP BY region", "aggregate of an aggregate"),
    ],
)
def test_what_is_not_answered_is_refused_in_one_sentence(text, sentence):
    with pytest.raises(el.SqlError, match=sentence):
        plan_of({"q": text})


AD_HOC = {
    "groups": "SELECT region, COUNT(DISTINCT status) AS d, MEDIAN(status) AS m, MAX(amount) AS hi FROM orders "
    "WHERE status > 0 GROUP BY region",
    "one": "SELECT COUNT(DISTINCT o.status) AS d, MEDIAN(o.status) AS m FROM orders o JOIN items i ON o.k = i.k",
}


def explored_state(table, more, budget="8 MB"):
    w = el.Workload(budget=budget, seed=4)
    w.stream("orders", STREAMS["orders"]).stream("items", STREAMS["items"])
    w.query("q", "SELECT COUNT(*) FROM orders o JOIN items i ON o.k = i.k")
    w.explore("orders", "region", "status", "amount")
    return w.plan().empty().update("orders", table).update("items", more)


def test_details_of_explored_columns_are_answered_though_nobody_planned_them():
    rng = np.random.default_rng(6)
    made = {"orders": orders(rng, 300, 30), "items": items(rng, 300, 30)}
    state = explored_state(made["orders"], made["items"])
    for text in AD_HOC.values():
        found = state.answer(text)
        assert found.exact
        assert_same(found, exact_groups(text, made, len(found.group_columns)))


def test_sampled_details_of_explored_columns_hold():
    coverage = Coverage()
    for seed in range(8):
        rng = np.random.default_rng(seed)
        made = {"orders": big_orders(rng, 6_000, 3_000, 8), "items": items(rng, 6_000, 3_000)}
        state = explored_state(made["orders"], made["items"], "60 KB")
        groups = state.answer(AD_HOC["one"])
        truth = exact_groups(AD_HOC["one"], made, 0)
        for column, name in enumerate(("d", "m")):
            for group, (low, high) in intervals(groups, name).items():
                coverage.add(seed, low <= truth[group][column] <= high, name)
        text = "SELECT region, COUNT(DISTINCT status) AS d, MEDIAN(status) AS m FROM orders GROUP BY region"
        groups, truth = state.answer(text), exact_groups(text, made, 1)
        assert not groups.exact
        for column, name in enumerate(("d", "m")):
            for group, (low, high) in intervals(groups, name).items():
                coverage.add(seed, low <= truth[group][column] <= high, f"{name} by region")
    coverage.check(wrong=0.75)


def test_quantiles_of_more_rows_than_a_float_tells_apart():
    """Two values with as many rows each: the median lies between them, however many rows there are."""
    streams = {"r": "k BIGINT, x BIGINT", "s": "k BIGINT"}
    texts = {
        "m": "SELECT MEDIAN(r.x) FROM r JOIN s ON r.k = s.k",
        "d": "SELECT PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY x) FROM r",
        "p": "SELECT PERCENTILE(x, 0.07) FROM r",
    }
    w = el.Workload(budget="64 KB", seed=1)
    for name, schema in streams.items():
        w.stream(name, schema)
    for name, text in texts.items():
        w.query(name, text)
    for rows in (10**5, 10**9, 2**40):
        state = w.plan().empty().update("s", {"k": [1]}, weights=[rows])
        state.update("r", {"k": [1, 1], "x": [3, 4]}, weights=[rows, rows])
        assert [state.answer(name).value for name in texts] == [3.5, 3, 3]
        state.update("r", {"k": [1], "x": [4]}, weights=[1])
        assert [state.answer(name).value for name in texts] == [4, 4, 3]
        assert all(state.answer(name).exact for name in texts)


def test_medians_of_groups_that_are_whole_lie_between_values():
    """Groups by the join column are shown whole once sampled: their medians are those of all their rows."""
    rng, n = np.random.default_rng(1), 9_000
    made = {
        "r": pa.table({"b": rng.integers(0, 3_000, n), "x": rng.integers(-20, 50, n)}),
        "s": pa.table({"b": rng.integers(0, 4_000, n)}),
    }
    text = "SELECT r.b, MEDIAN(r.x) AS m FROM r JOIN s ON r.b = s.b GROUP BY r.b"
    state = (
        el.Workload(budget="12 KB", seed=1)
        .stream("r", "b BIGINT, x BIGINT")
        .stream("s", "b BIGINT")
        .query("q", text)
    )
    state = state.plan().empty()
    for name, table in made.items():
        state.update(name, table)
    truth, groups = exact_groups(text, made, 1), state.answer("q")
    assert 100 < len(groups) < 2_000
    assert [row["m"] for row in groups] == [truth[(row["b"],)][0] for row in groups]


@pytest.mark.calibration
@pytest.mark.parametrize("planned", [True, False])
def test_distinct_counts_of_a_followed_column_are_as_sure_beside_others_as_alone(planned):
    """40 seeds: every value of the column is one followed value, so that its count is unbiased next to COUNT(*), too.

    Half the width was 14 times the error, and 25 to 136 times for rows per value.
    """
    texts = {
        "alone": "SELECT COUNT(DISTINCT a) FROM r",
        "both": "SELECT COUNT(*) AS n, COUNT(DISTINCT a) AS d FROM r",
        "ratio": "SELECT COUNT(*) / COUNT(DISTINCT a) FROM r",
    }
    halves, errors = ({name: [] for name in texts} for _ in range(2))
    coverage = Coverage()
    for seed in range(40):
        rng = np.random.default_rng([3, seed])
        share = np.arange(1, 9_001) ** -0.7
        a = rng.choice(9_000, 25_000, p=share / share.sum())
        w = el.Workload(budget="20 KB", seed=seed).stream("r", "a BIGINT, g BIGINT").stream("s", "a BIGINT")
        w.query("join", "SELECT COUNT(*) FROM r JOIN s ON r.a = s.a")
        for name, text in texts.items() if planned else ():
            w.query(name, text)
        state = w.explore("r", "g").plan().empty().update("r", {"a": a, "g": rng.integers(0, 3, 25_000)})
        state.update("s", {"a": rng.integers(0, 9_000, 25_000)})
        number, inside = len(np.unique(a)), []
        for name, text in texts.items():
            found = state.answer(name if planned else text)
            answer = found[()]["d"] if name == "both" else found
            truth = 25_000 / number if name == "ratio" else number
            inside.append(answer.low <= truth <= answer.high)
            halves[name].append((answer.high - answer.low) / 2)
            errors[name].append(answer.value - truth)
        coverage.add(seed, all(inside))
    coverage.check(wrong=0.75)
    for name in texts:
        assert np.median(halves[name]) <= 3 * np.sqrt(np.mean(np.square(errors[name]))), name


def test_a_tuple_with_several_followed_values_is_counted_with_room_above():
    """COUNT(DISTINCT g) of a stream that is followed by another column: what is seen is its lower end."""
    rng = np.random.default_rng(8)
    w = el.Workload(budget="12 KB", seed=2).stream("r", "a BIGINT, g BIGINT").stream("s", "a BIGINT")
    w.query("join", "SELECT COUNT(*) FROM r JOIN s ON r.a = s.a").explore("r", "g")
    g = rng.integers(0, 3_000, 20_000)
    state = w.plan().empty().update("r", {"a": rng.integers(0, 9_000, 20_000), "g": g})
    state.update("s", {"a": np.arange(9_000)})
    answer = state.answer("SELECT COUNT(*) AS n, COUNT(DISTINCT g) AS d FROM r")[()]["d"]
    assert answer.low <= len(np.unique(g)) <= answer.high
    assert answer.low < answer.value
