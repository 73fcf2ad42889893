"""APPROX_TOP_K: the most frequent values of a column, as the table of groups that it is read as."""

import numpy as np
import pytest

import eddyline as el
from tests.data.changes import inserted_and_deleted
from tests.data.groups import STREAMS, big_orders, items, orders, plan_of
from tests.oracles.grouped import exact_groups, intervals

JOIN = "FROM orders o JOIN items i ON o.k = i.k"
TOP = {
    "SELECT APPROX_TOP_K(region) FROM orders": ("region", "FROM orders", 5),
    "SELECT APPROX_TOP_K(status, 2) FROM orders": ("status", "FROM orders", 2),
    "SELECT APPROX_TOP_K(ts, 3, 100) AS top FROM orders WHERE status > 1": (
        "ts",
        "FROM orders WHERE status > 1",
        3,
    ),
    f"SELECT APPROX_TOP_K(i.sku, 4) {JOIN} WHERE o.status < 4": ("i.sku", f"{JOIN} WHERE o.status < 4", 4),
}


def counts_of(column, source, tables):
    """How often each value of a column occurs, by DuckDB."""
    text = f"SELECT {column}, COUNT(*) {source} GROUP BY {column}"
    return {value: count for (value,), (count,) in exact_groups(text, tables, 1).items()}


@pytest.mark.parametrize("text", TOP)
def test_the_most_frequent_values_are_exact_while_everything_is_held(text):
    """NULL is a value, as it is for Spark; of values that are equally frequent any may be returned."""
    column, source, k = TOP[text]
    rng = np.random.default_rng(5)
    made = {"orders": orders(rng, 300, 40), "items": items(rng, 300, 40)}
    streams = {name: STREAMS[name] for name in made}
    left, right, net = inserted_and_deleted(rng, plan_of({"q": text}, streams=streams), made, 0.3)
    found, truth = (left + right).answer("q"), counts_of(column, source, net)
    assert isinstance(found, el.Groups)
    assert found.exact
    rows = found.to_arrow().to_pylist()
    assert [row["count"] for row in rows] == sorted(truth.values(), reverse=True)[:k]
    for row in rows:
        assert truth[row["item"]] == row["count"]


def test_a_text_that_was_planned_otherwise_is_the_same_question():
    table = orders(np.random.default_rng(1), 200, 20)
    text = "SELECT region AS item, COUNT(*) AS count FROM orders GROUP BY region ORDER BY count DESC LIMIT 2"
    state = plan_of({"q": text}, streams={"orders": STREAMS["orders"]}).empty().update("orders", table)
    top = state.answer("SELECT APPROX_TOP_K(region, 2) FROM orders")
    assert top.to_arrow() == state.answer("q").to_arrow()


def test_sampled_values_have_intervals():
    """One seed of a skewed join in which nothing fits: 95% intervals of the ten first hold in at least seven."""
    rng = np.random.default_rng(4)
    made = {"orders": big_orders(rng, 6_000, 2_000, 40), "items": items(rng, 6_000, 2_000)}
    text = f"SELECT APPROX_TOP_K(o.region, 10) {JOIN}"
    state = plan_of({"q": text}, "20 KB", {name: STREAMS[name] for name in made}).empty()
    for stream, table in made.items():
        state.update(stream, table)
    found, truth = state.answer("q"), counts_of("o.region", JOIN, made)
    assert not found.exact
    assert len(found) == 10
    held = sum(low <= truth[group] <= high for (group,), (low, high) in intervals(found, "count").items())
    assert held >= 7


@pytest.mark.parametrize("first", [0, 6_000])
def test_values_are_only_said_to_be_among_the_first_if_none_that_is_unseen_can_push_them_out(first):
    """The heaviest value comes last, when the memory is full: it may be missing, and those before it are not certain.

    One that has more rows than all that is unseen is certain, with any seed.
    """
    for seed in range(8):
        rng = np.random.default_rng(seed)
        often = np.sort((4_000 * rng.random(5_000) ** 3).astype(np.int64))[::-1]
        keys = np.concatenate([np.full(first, 8_000), often, np.full(700, 9_000)])
        state = plan_of({"q": "SELECT APPROX_TOP_K(k, 3) FROM t"}, "3 KB", {"t": "k BIGINT"}).empty()
        for start in range(0, len(keys), 300):
            state.update("t", {"k": keys[start : start + 300]})
        values, numbers = np.unique(keys, return_counts=True)
        threshold = np.sort(numbers)[-3]
        found = state.answer("q")
        assert not found.exact
        shown = {row["item"]: row["selected"] for row in found}
        for item, word in shown.items():
            if word == "in":
                assert numbers[values == item][0] >= threshold
        assert shown.get(8_000, "in") == "in"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("SELECT APPROX_TOP_K(k, 0) FROM orders", "whole numbers of 1 or more"),
        ("SELECT APPROX_TOP_K(k, status) FROM orders", "whole numbers of 1 or more"),
        ("SELECT APPROX_TOP_K(k, 5, 4) FROM orders", "tracked, 4, must be at least k, which is 5"),
        ("SELECT APPROX_TOP_K(k, 20000) FROM orders", "tracked, 10,000, must be at least k"),
        ("SELECT APPROX_TOP_K(k, 5, 2000000) FROM orders", "at most 1,000,000"),
        (
            "SELECT region, APPROX_TOP_K(k, 3) FROM orders GROUP BY region",
            r"ask SELECT region, k, COUNT\(\*\) AS count ... GROUP BY region, k ORDER BY count DESC",
        ),
        ("SELECT APPROX_TOP_K(k), COUNT(*) FROM orders", r"ask SELECT k, COUNT\(\*\) AS count"),
        ("SELECT APPROX_TOP_K(k)[0] FROM orders", "is supported as the only column"),
        (
            "SELECT COUNT(*), APPROX_TOP_K(k) FILTER (WHERE k > 1) FROM orders",
            "is supported as the only column",
        ),
        ("SELECT APPROX_TOP_K(DISTINCT k) FROM orders", "only COUNT takes it"),
        ("SELECT APPROX_TOP_K(k) FROM orders LIMIT 3", "its own order and limit"),
        ("SELECT APPROX_TOP_K(COUNT(k)) FROM orders", "is an aggregate"),
    ],
)
def test_what_is_not_answered_is_refused_in_one_sentence(text, sentence):
    with pytest.raises(el.SqlError, match=sentence):
        plan_of({"q": text})


def test_it_has_no_contributors():
    state = plan_of({"q": "SELECT APPROX_TOP_K(region) FROM orders"}).empty()
    with pytest.raises(el.PlanError, match="ask its groups instead"):
        state.contributors("q", "region")
