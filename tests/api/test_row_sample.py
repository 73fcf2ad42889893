"""Rows of a stream sample with their weights: TABLESAMPLE and LIMIT in `state.sql`."""

import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import eddyline as el
from tests.data.groups import orders
from tests.oracles.duckdb_sql import database

COLUMNS = "k BIGINT, region STRING, status INT, amount DECIMAL(9,2), ts TIMESTAMP, size DOUBLE, photo BINARY"
ROWS = 3_000


def table(seed=3):
    rng = np.random.default_rng(seed)
    made = orders(rng, ROWS, 400).append_column("size", pa.array(rng.integers(0, 9, ROWS) / 4))
    return made.append_column("photo", pa.array([b"x"] * ROWS))


def state_of(budget, seed=7, given=None):
    w = el.Workload(budget=budget, seed=seed, timezone="UTC").stream("orders", COLUMNS)
    w.stream("items", "k BIGINT, qty INT").explore("orders")
    w.query("joined", "SELECT COUNT(*) FROM orders o JOIN items i ON o.k = i.k").explore("items")
    return w.plan().empty().update("orders", table() if given is None else given)


@pytest.fixture(scope="module")
def exact():
    items = {"k": np.arange(400), "qty": (np.arange(400) % 5).astype(np.int32)}
    return state_of("8 MB").update("items", items)


@pytest.fixture(scope="module")
def sampled():
    return state_of("24 KB")


def notes(found):
    return " ".join(json.loads(found.schema.metadata[b"eddyline.notes"]))


def weights(found):
    """The rows with their total weights."""
    made = Counter()
    for row in found.to_pylist():
        *values, weight = row.values()
        made[tuple(values)] += weight
    return made


@pytest.mark.parametrize(
    "text",
    [
        "SELECT region, status, size FROM orders {} WHERE amount > 1",
        "SELECT ts, amount * 2 AS twice, upper(region) AS name FROM orders {}",
        "SELECT o.region, i.qty FROM orders o {} JOIN items i ON o.k = i.k WHERE o.status < i.qty",
    ],
)
def test_all_held_rows_are_those_of_the_stream_with_their_numbers(exact, text):
    found = exact.sql(text.format("TABLESAMPLE (100 PERCENT)"))
    assert found.schema.metadata[b"eddyline.exact"] == b"true"
    items = pa.table({"k": np.arange(400), "qty": np.arange(400) % 5})
    with database().cursor() as connection:
        connection.register("orders", table())
        connection.register("items", items)
        rows = connection.sql(text.format("")).fetchall()
    assert weights(found) == Counter(rows)


def test_limit_takes_some_rows_and_scales_their_weights(exact):
    found = exact.sql("SELECT * FROM orders LIMIT 50")
    assert found.column_names == ["k", "region", "status", "amount", "ts", "size", "weight"]
    assert found.num_rows == 50
    assert found.schema.metadata[b"eddyline.exact"] == b"false"
    assert "photo" in notes(found)
    assert sum(found["weight"].to_pylist()) == pytest.approx(ROWS, rel=0.2)
    with database().cursor() as connection:
        connection.register("orders", table())
        real = set(connection.sql("SELECT k, region, status, amount, ts, size FROM orders").fetchall())
    assert set(weights(found)) <= real


def test_samples_repeat_and_seeds_differ(exact):
    of = [
        exact.sql(f"SELECT k, ts FROM orders TABLESAMPLE (20 ROWS) REPEATABLE ({seed})") for seed in (1, 1, 2)
    ]
    assert of[0].equals(of[1])
    assert not of[0].equals(of[2])


def test_first_rows_in_an_order_need_all_rows(exact, sampled):
    found = exact.sql("SELECT amount, k FROM orders WHERE amount IS NOT NULL ORDER BY amount DESC, 2 LIMIT 4")
    with database().cursor() as connection:
        connection.register("orders", table())
        rows = connection.sql(
            "SELECT DISTINCT amount, k FROM orders WHERE amount IS NOT NULL ORDER BY 1 DESC, k NULLS FIRST LIMIT 4"
        ).fetchall()
    assert [(row["amount"], row["k"]) for row in found.to_pylist()] == rows
    with pytest.raises(el.UnsupportedQuery, match="not all rows are held"):
        sampled.sql("SELECT amount, k FROM orders ORDER BY amount LIMIT 4")


def test_weights_of_sampled_rows_add_up_to_the_rows_on_average():
    """32 seeds: the mean of SUM(weight) of each of five groups is off by less than 4.5 standard errors, a tenth at most."""
    given = table()
    sums: list[Counter] = []
    for seed in range(32):
        found = state_of("24 KB", seed, given).sql(
            "SELECT k, region, size FROM orders TABLESAMPLE (100 PERCENT)"
        )
        assert found.num_rows < ROWS / 2
        sums.append(Counter())
        for row in found.to_pylist():
            sums[-1][row["region"]] += row["weight"]
    for region, rows in Counter(given["region"].to_pylist()).items():
        off = np.array([each[region] / rows - 1.0 for each in sums])
        error = off.std(ddof=1) / np.sqrt(len(sums))
        assert abs(off.mean()) < min(4.5 * error, 0.1), (region, off.mean(), error)


REFUSED = {
    "SELECT * FROM orders": r"TABLESAMPLE \(100 ROWS\)",
    "SELECT region, amount FROM (SELECT * FROM orders LIMIT 5) WHERE amount > 1": "rows are not kept",
    "SELECT * FROM orders ORDER BY amount + 1 LIMIT 5": "ordered by columns that it selects",
    "SELECT photo FROM orders LIMIT 5": "photo",
    "SELECT o.status + i.qty AS s FROM orders o JOIN items i ON o.k = i.k LIMIT 5": "read of one stream",
    "SELECT * FROM orders TABLESAMPLE (BUCKET 1 OUT OF 4)": r"write TABLESAMPLE \(100 ROWS\)",
    "SELECT COUNT(*) AS n FROM orders TABLESAMPLE (10 PERCENT)": "next to aggregates",
    "SELECT region AS weight FROM orders LIMIT 5": "'weight'",
    "SELECT region FROM orders LIMIT 5 OFFSET 5": "rows are not kept|OFFSET",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_a_sample_of_rows_does_not_answer_is_refused(exact, text):
    with pytest.raises(el.EddylineError, match=REFUSED[text]):
        exact.sql(text)
