"""Keys that the sample does not follow: what exact totals show to be missing is in the interval of every answer."""

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import eddyline as el
from eddyline.answer.joins import sampled, sampled_ratios
from eddyline.answer.joins.missing import Missing
from tests.oracles.coverage import Coverage

SCHEMAS = {"r": "a BIGINT, x BIGINT, m BIGINT, d BIGINT, u BIGINT", "s": "a BIGINT, x BIGINT"}
JOINS = {
    "count": "SELECT COUNT(*) FROM r JOIN s ON r.a = s.a",
    "negative": "SELECT SUM(r.m) FROM r JOIN s ON r.a = s.a",
    "mixed": "SELECT SUM(r.d) FROM r JOIN s ON r.a = s.a",
    "average": "SELECT AVG(r.x) FROM r JOIN s ON r.a = s.a",
}
OPTIONAL = {
    "left": "SELECT COUNT(*) FROM r LEFT JOIN s ON r.a = s.a",
    "left negative": "SELECT SUM(r.m) FROM r LEFT JOIN s ON r.a = s.a",
    "left average": "SELECT AVG(r.x) FROM r LEFT JOIN s ON r.a = s.a",
    "anti": "SELECT COUNT(*) FROM r LEFT ANTI JOIN s ON r.a = s.a",
    "semi negative": "SELECT SUM(r.m) FROM r LEFT SEMI JOIN s ON r.a = s.a",
}
CONDITIONS = {
    "condition": "SELECT COUNT(*) FROM r JOIN s ON r.a = s.a WHERE r.x < s.x",
    "condition negative": "SELECT SUM(r.m) FROM r JOIN s ON r.a = s.a WHERE r.x < s.x",
    "condition average": "SELECT AVG(r.x) FROM r JOIN s ON r.a = s.a WHERE r.x < s.x",
}
AD_HOC = {
    "ad hoc negative": "SELECT SUM(-x) FROM r WHERE u < 1000000",
    "ad hoc mixed": "SELECT SUM(x - 500) FROM r",
}


def tables(seed, heavy_share, *, late, rows=8000):
    """Rows of r of which a share has one key, at the end where it comes late; s has 300 rows of that key."""
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, 2000, rows)
    heavy = np.arange(rows) >= rows * (1 - heavy_share) if late else rng.random(rows) < heavy_share
    keys[heavy] = 77
    x = rng.integers(0, 1000, rows)
    r = {"a": keys, "x": x, "m": -x - 1, "d": rng.integers(-50, 50, rows), "u": rng.integers(0, 10**9, rows)}
    other = np.concatenate([rng.integers(0, 2000, 3000), np.full(0 if late else 300, 77)])
    return {"r": pa.table(r), "s": pa.table({"a": other, "x": rng.integers(0, 1200, len(other))})}


def filled(held, queries, budget, seed, *, explored=()):
    w = el.Workload(budget=budget, seed=seed)
    for name, schema in SCHEMAS.items():
        w.stream(name, schema)
    for place, text in enumerate(queries.values()):
        w.query(f"q{place}", text)
    if explored:
        w.explore("r", *explored)
    state = w.plan().empty().update("s", held["s"])
    for start in range(0, len(held["r"]), 1000):
        state.update("r", held["r"].slice(start, 1000))
    return state


def covered(found, case, queries, budget, seeds, *, ad_hoc=None, explored=(), data=None):
    """Add which intervals hold DuckDB's answers."""
    for seed in range(seeds):
        held = (data or tables)(1000 + seed, **case)
        state = filled(held, queries, budget, seed, explored=explored)
        connection = duckdb.connect()
        for name, table in held.items():
            connection.register(name, table)
        for name, text in {**queries, **(ad_hoc or {})}.items():
            spelled = text.replace("LEFT ANTI", "ANTI").replace("LEFT SEMI", "SEMI")
            truth = float(connection.execute(spelled).fetchall()[0][0] or 0)
            answer = state.answer(text)
            if answer.exact:
                assert answer.value == pytest.approx(truth), name
            else:
                inside = answer.value is None or answer.low - 1e-6 <= truth <= answer.high + 1e-6
                found.add((budget, *queries, seed), inside, name)


@pytest.mark.calibration
def test_a_key_with_nine_tenths_of_the_rows_that_does_not_fit_is_in_every_interval():
    """Negative sums held in none of 30 seeds before."""
    case, coverage = {"heavy_share": 0.9, "late": False}, Coverage()
    for queries, explored in ((OPTIONAL, ("u",)), (CONDITIONS, ())):
        covered(coverage, case, queries, "12 KB", 30, explored=explored)
    covered(coverage, case, JOINS, "12 KB", 30, explored=("u",))
    coverage.check()
    ad_hoc = Coverage()
    covered(ad_hoc, case, JOINS, "12 KB", 30, ad_hoc=AD_HOC, explored=("u", "x"))
    ad_hoc.check(wrong=0.84)


@pytest.mark.calibration
@pytest.mark.parametrize("budget", ["8 KB", "24 KB"])
def test_a_key_that_comes_late_is_in_every_interval(budget):
    """Before, LEFT and anti joins and averages over them held in half of the cases."""
    coverage = Coverage()
    for queries in (JOINS, OPTIONAL, CONDITIONS):
        covered(coverage, {"heavy_share": 0.2, "late": True}, queries, budget, 30)
    coverage.check()


def together(seed, late):
    """Rows of r and s, twelve of each for every key; where late, the last fifth of r has one key."""
    rng, rows = np.random.default_rng(seed), 12_000
    keys = rng.integers(0, 1000, rows)
    if late:
        keys[rows * 4 // 5 :] = 77
    r = {name: rng.integers(0, 1000, rows) for name in ("x", "m", "d", "u")}
    s = {"a": rng.integers(0, 1000, rows), "x": rng.integers(0, 1000, rows)}
    return {"r": pa.table({"a": keys, **r}), "s": pa.table(s)}


SEVERAL = {"count": JOINS["count"], "left": OPTIONAL["left"], "condition": CONDITIONS["condition"]}


@pytest.mark.calibration
def test_what_the_sample_holds_of_one_stream_shows_what_is_missing_of_another():
    """Too many followed keys hide a late one: r seems complete, but s has more than all of its rows.

    By the gap of r alone, COUNT and LEFT JOIN held in 14 of 20 seeds.
    """
    coverage = Coverage()
    covered(coverage, {"late": True}, SEVERAL, "10 KB", 20, data=together)
    coverage.check(wrong=0.78)


def test_where_no_key_is_late_intervals_stay_narrow():
    """One state in twenty shows rows to be missing by chance; the other ones must not be wider for it."""
    widths = []
    for seed in range(5):
        answer = filled(together(seed, late=False), SEVERAL, "10 KB", seed).answer(SEVERAL["count"])
        widths.append((answer.high - answer.low) / answer.value)
    assert 0.0 < np.median(widths) < 0.2


@pytest.mark.slow
def test_without_missing_rows_late_keys_are_outside(monkeypatch):
    """The scenario above finds the fault: without the fix anti joins held in 8 of 20 seeds, LEFT joins in 14."""
    for module in (sampled, sampled_ratios):
        monkeypatch.setattr(module, "missing_of", lambda *_, **__: Missing())
    found = Coverage()
    covered(found, {"heavy_share": 0.2, "late": True}, OPTIONAL, "8 KB", 20)
    assert min(found.shares.values()) <= 0.75, found


def test_no_count_goes_beyond_the_exact_numbers_of_rows():
    held = tables(1, 0.9, late=False)
    state = filled(held, OPTIONAL | CONDITIONS, "8 KB", 1, explored=("u",))
    rows, others = len(held["r"]), len(held["s"])
    assert state.answer(OPTIONAL["anti"]).high <= rows
    assert rows <= state.answer(OPTIONAL["left"]).low
    assert state.answer(CONDITIONS["condition"]).high <= rows * others
    for text in (
        "SELECT COUNT(*) FROM r WHERE u < 1000",
        "SELECT COUNT(*) FROM r LEFT SEMI JOIN s ON r.a = s.a",
    ):
        assert state.answer(text).high <= rows
    groups = state.answer("SELECT u % 5 AS g, COUNT(*) AS n FROM r GROUP BY u % 5").to_arrow()
    assert max(groups["n_high"].to_pylist()) <= rows


@pytest.mark.parametrize("batches", [1, 7, 40])
def test_rows_that_are_netted_in_one_batch_leave_no_trace(batches):
    """However many changes come at once: what is left fits, so that it is exact."""
    rng = np.random.default_rng(batches)
    w = el.Workload(budget="16 KB", seed=1).stream("r", "a BIGINT", changes="w").stream("s", "a BIGINT")
    w.query("count", JOINS["count"])
    state = w.plan().empty().update("s", {"a": np.arange(100)})
    for _ in range(batches):
        gone = rng.integers(0, 10**6, 60_000 // batches)
        keys = np.concatenate([gone, gone, np.arange(50)])
        weights = np.concatenate([np.ones(len(gone)), -np.ones(len(gone)), np.ones(50)]).astype(np.int64)
        state.update("r", {"a": keys, "w": weights})
    answer = state.answer("count")
    assert (answer.value, answer.exact) == (50 * batches, True)


def unlinked(seed, late, budget, asked):
    """Rows of r and s, of which the last `late` have one key, and a state over them; asked: what each plan asks."""
    rng = np.random.default_rng(900 + seed)
    workload = el.Workload(budget=budget, seed=seed).stream("r", "k BIGINT, x BIGINT")
    workload.stream("s", "k BIGINT, y BIGINT").query("n", asked)
    if asked == PLAIN:
        workload.explore("r", "x").explore("s", "y")
    state, rows = workload.plan().empty(), {}
    for name, counted in (("r", "x"), ("s", "y")):
        keys = np.concatenate([rng.integers(0, 5000, 6000 - late), np.full(late, 7777)])
        rows[name] = pa.table({"k": keys, counted: rng.integers(0, 2000, 6000)})
    for start in range(0, 6000, 1500):
        for name, table in rows.items():
            state.update(name, table.slice(start, 1500))
    return rows, state


PLAIN = "SELECT COUNT(*) FROM r JOIN s ON r.k = s.k"
PAIRS = "SELECT COUNT(DISTINCT r.x, s.y) FROM r JOIN s ON r.k = s.k"


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("ad_hoc", [False, True], ids=["planned", "ad hoc"])
@pytest.mark.parametrize(
    ("asked", "exact"),
    [
        (PAIRS, "COUNT(DISTINCT (r.x, s.y))"),
        (PAIRS + " WHERE r.x < 1000", "COUNT(DISTINCT (r.x, s.y)) FILTER (r.x < 1000)"),
        (
            "SELECT COUNT(*) FROM (SELECT DISTINCT r.x, r.k, s.y FROM r JOIN s ON r.k = s.k)",
            "COUNT(DISTINCT (r.x, r.k, s.y))",
        ),
    ],
)
def test_distinct_counts_over_a_join_allow_for_a_key_that_comes_late(asked, exact, ad_hoc, seed):
    """Nearly all pairs are of the late key, which is not followed: without its rows, no interval holds."""
    tables, state = unlinked(seed, 1200, "24 KB" if ad_hoc else "12 KB", PLAIN if ad_hoc else asked)
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        truth = connection.sql(f"SELECT {exact} FROM r JOIN s ON r.k = s.k").fetchall()[0][0]
    found = state.answer(asked)
    assert not found.exact
    assert found.low <= truth <= found.high, f"{found} for {truth}"


@pytest.mark.parametrize("seed", range(3))
def test_rows_that_an_ad_hoc_predicate_excludes_are_not_missing(seed):
    """Exact totals are those of all rows. A group of 300 rows had an upper end of 200,000, with every tenth row held."""
    _, state = unlinked(seed, 0, "24 KB", PLAIN)
    groups = state.answer(f"SELECT s.y % 3, COUNT(*) AS n {PLAIN[16:]} WHERE r.x < 100 GROUP BY s.y % 3")
    high, number = (groups.to_arrow()[name].to_numpy() for name in ("n_high", "n"))
    assert not groups.to_arrow()["exact"].to_pylist()[0]
    assert (high < 4 * number).all()
    pairs = state.answer(PAIRS + " WHERE r.x < 1000")
    assert pairs.high < 1.5 * pairs.value


@pytest.mark.parametrize("seed", range(4))
def test_a_distinct_count_without_a_followed_row_allows_for_all_rows(seed):
    """No key fits: 0 pairs are seen, and upper ends were 8 and 39, whatever the exact totals said."""
    rng = np.random.default_rng(seed)
    state = (
        el.Workload(budget="3 KB", seed=seed)
        .stream("r", "k BIGINT, x BIGINT")
        .stream("s", "k BIGINT, y BIGINT")
    )
    state = state.query("n", PAIRS).plan().empty()
    for name, counted in (("r", "x"), ("s", "y")):
        state.update(name, {"k": rng.integers(0, 4, 3000), counted: rng.permutation(3000)})
    found = state.answer("n")
    assert (found.value, found.exact) == (0, False)
    assert found.high >= 2_000_000  # about 2,250,000 pairs


@pytest.mark.parametrize("seed", range(3))
def test_a_stream_of_which_no_row_is_followed_is_missing_as_a_whole(seed):
    """The only key of s does not fit: nothing showed how much a row of s sends, so nothing seemed to be missing."""
    rng = np.random.default_rng(seed)
    keys = np.concatenate([np.ones(3000, dtype=np.int64), rng.integers(2, 3000, 3000)])
    workload = el.Workload(budget="12 KB", seed=seed).stream("r", "k BIGINT, x BIGINT")
    workload.stream("s", "k BIGINT, y BIGINT").query("n", PLAIN).explore("r", "x").explore("s", "y")
    state = workload.plan().empty()
    state.update("r", {"k": keys, "x": rng.permutation(6000)})
    state.update("s", {"k": np.ones(3000, dtype=np.int64), "y": rng.permutation(3000)})
    for asked, truth in ((PLAIN, 9_000_000), (f"{PLAIN} WHERE r.x >= 0", 9_000_000)):
        found = state.answer(asked)
        assert not found.exact
        assert found.low <= truth <= found.high, f"{found}"
