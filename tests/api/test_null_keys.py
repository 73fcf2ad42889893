"""Rows with a NULL key that no longer all fit: sampled by themselves, weighted, and never called exact."""

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import eddyline as el
from tests.oracles.coverage import Coverage

QUERIES = {
    "joined": "SELECT COUNT(*) FROM r JOIN s ON r.a = s.a",
    "kept": "SELECT COUNT(*) FROM r LEFT JOIN s ON r.a = s.a",
    "twice": "SELECT COUNT(*) FROM r LEFT JOIN s ON r.a = s.a LEFT JOIN t ON r.b = t.b",
    "full": "SELECT COUNT(*) FROM r FULL JOIN s ON r.a = s.a",
    "anti": "SELECT SUM(r.x) FROM r LEFT ANTI JOIN s ON r.a = s.a",
    "compared": "SELECT COUNT(*) FROM r JOIN s ON r.a = s.a WHERE r.x < s.a",
}
"""The last one makes every row with a NULL key an element of its own, because it compares `x`."""
GROUPS = "SELECT a, COUNT(*) AS n, SUM(x) AS total FROM r GROUP BY a"
AD_HOC = ("SELECT COUNT(*) FROM r WHERE x < 300", "SELECT COUNT(*) FROM r WHERE a IS NULL AND x < 500")


def tables(seed, share, rows=12_000):
    rng = np.random.default_rng(seed)
    a, b, x = rng.zipf(1.4, rows) % 3000, rng.integers(0, 800, rows), rng.integers(0, 1000, rows)
    r = {"a": pa.array(a, mask=rng.random(rows) < share), "b": pa.array(b, mask=rng.random(rows) < share / 2)}
    s = {"a": pa.array(rng.zipf(1.4, 4000) % 3000, mask=rng.random(4000) < share / 3)}
    return {"r": pa.table(r | {"x": x}), "s": pa.table(s), "t": pa.table({"b": rng.integers(0, 800, 2000)})}


def filled(held, budget, seed, batches=6):
    w = el.Workload(budget=budget, seed=seed)
    w.stream("r", "a BIGINT, b BIGINT, x BIGINT").stream("s", "a BIGINT").stream("t", "b BIGINT")
    for name, text in QUERIES.items():
        w.query(name, text)
    w.query("groups", GROUPS).explore("r", "x")
    state = w.plan().empty()
    size = -(-len(held["r"]) // batches)
    for start in range(0, len(held["r"]), size):
        state.update("r", held["r"].slice(start, size))
    return state.update("s", held["s"]).update("t", held["t"])


def truths(held):
    connection = duckdb.connect()
    for name, table in held.items():
        connection.register(name, table)

    def one(text):
        return connection.execute(text.replace("LEFT ANTI", "ANTI")).fetchall()

    nulls = next(row[1:] for row in one(GROUPS) if row[0] is None)
    return {text: float(one(text)[0][0]) for text in (*QUERIES.values(), *AD_HOC)}, nulls


def null_group(state):
    return next((row for row in state.answer("groups").to_arrow().to_pylist() if row["a"] is None), None)


@pytest.mark.parametrize(
    ("share", "budget"), [(0.3, "64 KB"), (0.6, "32 KB"), (0.6, "12 KB"), (0.1, "48 KB")]
)
def test_nothing_is_exact_that_was_thinned(share, budget):
    held = tables(1, share)
    exact, nulls = truths(held)
    state = filled(held, budget, 1)
    for text in exact:
        answer = state.answer(text)
        assert not answer.exact or answer.value == exact[text]
    row = null_group(state)
    assert not row["exact"] or (row["n"], row["total"]) == nulls
    assert row["n_low"] <= row["n_high"] <= len(held["r"])
    for exact_row in (each for each in state.answer("groups").to_arrow().to_pylist() if each["exact"]):
        key = -1 if exact_row["a"] is None else exact_row["a"]
        assert exact_row["n"] == int(np.sum(np.asarray(held["r"]["a"].fill_null(-1)) == key))


@pytest.mark.parametrize("share", [0.3, 0.6])
def test_null_rows_do_not_starve_other_keys(share):
    state = filled(tables(2, share), "64 KB", 2)
    (sample,) = state.snapshot.samples.values()
    for roster in sample.rosters:
        assert roster.base > 0.001
    assert sample.nbytes > 0.4 * sample.spec.kept_budget
    assert "rows with NULL in (`a`)" in state.explain()


def test_null_rows_that_fit_stay_exact():
    rng = np.random.default_rng(3)
    keys = pa.array(rng.integers(0, 4000, 30_000), mask=rng.random(30_000) < 0.3)
    w = el.Workload(budget="24 KB", seed=1).stream("r", "a BIGINT").stream("s", "a BIGINT")
    w.query("kept", "SELECT COUNT(*) FROM r LEFT JOIN s ON r.a = s.a")
    w.query("groups", "SELECT a, COUNT(*) AS n FROM r GROUP BY a")
    state = w.plan().empty().update("r", pa.table({"a": keys})).update("s", {"a": np.arange(4000)})
    row = null_group(state)
    assert row["exact"]
    assert row["n"] == keys.null_count
    assert not state.answer("kept").exact


def test_sampled_null_rows_survive_bytes_merges_and_deletes():
    held = tables(4, 0.5)
    state = filled(held, "32 KB", 4)
    assert el.State.from_bytes(state.to_bytes()) == state
    half = len(held["r"]) // 2
    first, second = (filled(held | {"r": part}, "32 KB", 4) for part in (held["r"][:half], held["r"][half:]))
    merged = first + second
    assert merged == second + first
    row, count = null_group(merged), held["r"]["a"].null_count
    assert row["n_low"] <= count <= row["n_high"]
    state.update("r", held["r"], weights=np.full(len(held["r"]), -1))
    assert null_group(state) is None
    assert state.answer("groups").rest["n"].value == 0


@pytest.mark.parametrize("join", ["LEFT JOIN", "LEFT ANTI JOIN"])
def test_a_null_group_of_an_outer_join_by_its_own_column_is_not_called_exact(join):
    """The groups of a join column are known whole where they are shown; sampled rows with NULL are not such a group."""
    held = tables(7, 0.3, rows=6000)
    w = (
        el.Workload(budget="24 KB", seed=1)
        .stream("r", "a BIGINT, b BIGINT, x BIGINT")
        .stream("s", "a BIGINT")
    )
    w.query("q", f"SELECT r.a, COUNT(*) AS n FROM r {join} s ON r.a = s.a GROUP BY r.a")
    w.query("compared", QUERIES["compared"])
    state = w.plan().empty().update("r", held["r"]).update("s", held["s"])
    groups = state.answer("q")
    assert not [row for row in groups.to_arrow().to_pylist() if row["a"] is None]
    assert any("NULL group is not shown" in note for note in groups.notes), groups.notes
    assert groups.rest["n"].high >= held["r"]["a"].null_count


def test_not_in_is_refused_where_a_null_may_be_unseen():
    rng = np.random.default_rng(5)
    w = el.Workload(budget="8 KB", seed=1).stream("r", "a BIGINT").stream("s", "a BIGINT, x BIGINT")
    w.query("missing", "SELECT COUNT(*) FROM r WHERE a NOT IN (SELECT a FROM s)")
    w.query("compared", "SELECT COUNT(*) FROM r JOIN s ON r.a = s.a WHERE s.x < r.a")
    state = w.plan().empty().update("r", {"a": rng.integers(0, 5000, 3000)})
    keys = pa.array(rng.integers(0, 5000, 20_000), mask=rng.random(20_000) < 0.3)
    held = pa.table({"a": keys, "x": rng.integers(0, 10**9, 20_000)})
    state.update("s", held)
    assert state.answer("missing").value == 0
    nulls = held.filter(keys.is_null())
    state.update("s", nulls, weights=np.full(len(nulls), -1))
    with pytest.raises(el.PlanError, match="has no NULL of the subquery of NOT IN"):
        state.answer("missing")


def test_a_set_knows_to_within_one_whether_it_has_null():
    rng = np.random.default_rng(6)
    keys = pa.array(rng.integers(0, 300, 9000), mask=rng.random(9000) < 0.4)
    held = pa.table({"a": keys, "x": rng.integers(0, 10**9, 9000)})
    w = el.Workload(budget="16 KB", seed=1).stream("r", "a BIGINT, x BIGINT").stream("s", "a BIGINT")
    w.query("only", "SELECT COUNT(*) FROM (SELECT a FROM r EXCEPT SELECT a FROM s)")
    w.query("compared", QUERIES["compared"])
    state = w.plan().empty().update("r", held).update("s", {"a": np.arange(100)})
    truth = len(set(keys.to_pylist()) - set(range(100)))
    answer = state.answer("only")
    assert answer.low <= truth <= answer.high
    assert not answer.exact or answer.value == truth


@pytest.mark.calibration
@pytest.mark.parametrize(("share", "budget"), [(0.3, "48 KB"), (0.6, "24 KB")])
def test_sampled_null_rows_are_unbiased_and_intervals_hold(share, budget):
    """30 seeds of nine answers."""
    coverage, errors = Coverage(), {}
    for seed in range(30):
        held = tables(100 + seed, share)
        exact, nulls = truths(held)
        state = filled(held, budget, seed)
        found = [(text, truth, state.answer(text)) for text, truth in exact.items()]
        found = [(text, truth, each.value, each.low, each.high) for text, truth, each in found]
        row = null_group(state)
        found += [
            (name, float(truth), row[name], row[name + "_low"], row[name + "_high"])
            for name, truth in zip(("n", "total"), nulls, strict=True)
        ]
        for name, truth, value, low, high in found:
            coverage.add(seed, low <= truth <= high, name)
            errors.setdefault(name, []).append((value - truth) / truth)
    coverage.check()
    for name in ("n", "total", *AD_HOC):
        off = np.array(errors[name])
        assert abs(off.mean()) < 3.5 * off.std() / np.sqrt(len(off)), (name, off.mean())


@pytest.mark.parametrize("seed", range(3))
def test_null_rows_of_which_none_is_sampled_are_unseen_at_their_own_rate(seed):
    """The upper end of no NULL row seen was that of other keys, whose rate is a hundred times as high."""
    rng = np.random.default_rng(seed)
    null, x = rng.random(12_000) < 0.6, rng.integers(-500, 300, 12_000)
    held = {
        "r": pa.table({"a": pa.array(rng.zipf(1.5, 12_000) % 1500, mask=null), "x": x}),
        "s": pa.table({"a": rng.zipf(1.5, 3000) % 1500, "y": rng.integers(-100, 900, 3000)}),
    }
    w = (
        el.Workload(budget="8 KB", seed=seed)
        .stream("r", "a BIGINT, x BIGINT")
        .stream("s", "a BIGINT, y BIGINT")
    )
    w.query("n", "SELECT SUM(r.x) FROM r JOIN s ON r.a = s.a WHERE r.x < s.y - 600")
    state = w.plan().empty().update("s", held["s"]).update("r", held["r"])
    for start in range(-500, 300, 100):
        found = state.answer(f"SELECT COUNT(*) FROM r WHERE a IS NULL AND x >= {start} AND x < {start + 100}")
        truth = int((null & (x >= start) & (x < start + 100)).sum())
        assert not found.exact
        assert found.value > 0 or found.high >= truth
