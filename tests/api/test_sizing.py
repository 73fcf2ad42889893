"""`Workload.size`: what it says of budgets, against states that are built at these budgets and DuckDB's answers."""

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import eddyline as el
from eddyline.api.operations.part_rows import allotted
from eddyline.api.operations.sizing import smallest_exact

ROWS, KEYS = 40_000, 8_000
QUERIES = {
    "joined": "SELECT COUNT(*) AS x FROM a JOIN b ON a.k = b.k",
    "total": "SELECT SUM(a.v) AS x FROM a JOIN b ON a.k = b.k WHERE b.v < 50",
    "rows": "SELECT COUNT(*) AS x FROM a",
    "by_group": "SELECT b.g AS g, COUNT(*) AS x FROM a JOIN b ON a.k = b.k GROUP BY b.g",
}


def drawn(seed, rows=ROWS, keys=KEYS):
    rng = np.random.default_rng(seed)
    share = 1.0 / np.arange(1, keys + 1) ** 0.8
    own = rng.choice(keys, rows, p=share / share.sum())
    return pa.table({"k": own, "v": rng.integers(0, 100, rows), "g": own % 5})


TABLES = {"a": drawn(1), "b": drawn(2)}


def asking(queries=QUERIES, **settings):
    workload = el.Workload(**{"seed": 50, **settings})
    workload.stream("a", "k BIGINT, v BIGINT, g BIGINT").stream("b", "k BIGINT, v BIGINT, g BIGINT")
    for name, sql in queries.items():
        workload.query(name, sql)
    return workload


def built(budget, seed, tables=TABLES, **settings):
    state = asking(budget=budget, seed=seed, **settings).plan().empty()
    for start in range(
        0, ROWS, 4_000
    ):  # streams arrive together: the order of rows decides what is dropped when
        for name, table in tables.items():
            state.update(name, table.slice(start, 4_000))
    return state


@pytest.fixture(scope="module")
def whole():
    return asking().size(TABLES, budgets=["32 KB", "96 KB", "2 MB"], seeds=5)


def by_duckdb(sql):
    with duckdb.connect() as connection:
        for name, table in TABLES.items():
            connection.register(name, table)
        return connection.execute(sql).fetchall()


def test_widths_and_errors_are_those_of_states_under_other_seeds(whole):
    exact = {name: float(by_duckdb(QUERIES[name])[0][0]) for name in ("joined", "total")}
    for budget in (32_000, 96_000):
        answers = [built(budget, seed) for seed in range(900, 910)]
        for name, value in exact.items():
            found = [state.answer(name) for state in answers]
            width = np.median([(each.high - each.low) / 2 for each in found]) / value
            error = np.sqrt(np.mean([(float(each.value) / value - 1.0) ** 2 for each in found]))
            shown = whole.expected[name][budget]
            assert not shown.exact
            assert 0.6 < shown.half_width / width < 1.7
            assert 0.25 < shown.error / error < 4.0


def test_groups_are_measured_together(whole):
    shown = whole.expected["by_group"][32_000]
    state = built(32_000, 50)
    groups = {row["g"]: row for row in state.answer("by_group")}
    exact = dict(by_duckdb(QUERIES["by_group"]))
    width = sum((groups[g]["x_high"] - groups[g]["x_low"]) / 2 for g in exact) / sum(exact.values())
    assert 0.4 < shown.half_width / width < 2.5


def test_the_smallest_exact_budget_is_one(whole):
    for each in whole.expected.values():
        assert each[2_000_000].exact
    for name, each in whole.expected.items():
        assert each[32_000].exact == (name == "rows")
    at = whole.exact_budget
    for name in QUERIES:
        assert built(at, 1).answer(name).exact
    assert not built(int(0.95 * at), 1).answer("joined").exact
    assert whole.exact_bytes == pytest.approx(built(at, 1).nbytes, rel=0.02)


def test_exact_by_chance_is_not_called_exact():
    """A sample that drops keys of one link may hold all of another one, under some seeds."""
    rng = np.random.default_rng(7)
    own = pa.table(
        {"k": rng.integers(0, 20, ROWS), "v": rng.integers(0, 10**9, ROWS), "g": rng.integers(0, 9, ROWS)}
    )
    queries = {
        "few": "SELECT COUNT(*) AS x FROM a JOIN b ON a.k = b.k",
        "many": "SELECT COUNT(*) AS x FROM a JOIN b ON a.v = b.v",
    }
    shown = asking(queries).size({"a": own, "b": own}, budgets=["64 KB", "8 MB"])
    assert shown.expected["few"][8_000_000].exact
    assert shown.expected["few"][64_000].half_width == 0.0
    assert not shown.expected["few"][64_000].exact
    assert "< 0.01%" in str(shown)


def test_a_peak_counts_for_exactness():
    """Rows that came and went again needed memory while they were there."""
    gone = drawn(3, 20_000, 400_000)
    weights = np.concatenate([np.ones(len(gone)), -np.ones(len(gone))]).astype("i8")
    table = pa.concat_tables([gone, gone]).append_column("w", pa.array(weights))
    workload = el.Workload(seed=50)
    workload.stream("a", "k BIGINT, v BIGINT, g BIGINT", changes="w")
    workload.query("n", "SELECT COUNT(DISTINCT k) FROM a")
    sizing = workload.size({"a": table}, budgets=["64 KB"])
    assert sizing.exact_bytes < 10_000
    assert sizing.exact_budget > 80_000


def test_a_part_says_what_the_whole_takes_and_which_range_to_expect():
    budgets = ["96 KB", "4 MB"]
    tables = {name: drawn(seed, 160_000, 30_000) for name, seed in (("a", 1), ("b", 2))}
    part = {name: table.slice(0, 40_000) for name, table in tables.items()}
    shown = asking().size(part, rows=dict.fromkeys(tables, 160_000), budgets=budgets, seeds=5)
    real = asking().size(tables, budgets=budgets, seeds=5)
    assert not shown.is_whole
    assert shown.exact_bytes == pytest.approx(real.exact_bytes, rel=0.4)
    assert shown.exact_budget == pytest.approx(real.exact_budget, rel=0.4)
    assert 0.2 < shown.share < 0.8
    for name in ("joined", "total"):
        own, width = shown.expected[name][96_000], real.expected[name][96_000].half_width
        assert 0.33 * np.sqrt(shown.share) * own.half_width < width < 3.0 * own.half_width
        assert shown.expected[name][4_000_000].exact
    text = str(shown)
    assert "a: the first 40,000 of 160,000 rows were read" in text
    assert f"with {shown.share:.2g} of each budget" in text
    assert " to " in next(line for line in text.splitlines() if line.startswith("joined"))


def test_the_text_says_what_was_read_and_how(whole):
    text = str(whole)
    assert "a: all 40,000 rows were read" in text
    assert f"An exact state of all rows takes {whole.exact_bytes:,} bytes" in text
    assert "the median of 5 seeds" in text
    row = next(line for line in text.splitlines() if line.startswith("joined"))
    assert row.endswith("exact")
    assert "%" in row
    plain = whole.to_dict()["expected"]
    assert len(plain) == len(QUERIES) * 3
    assert {each["query"] for each in plain} == set(QUERIES)


def test_sketches_alone_are_measured_with_all_of_the_budget():
    queries = {"joined": QUERIES["joined"], "rows": QUERIES["rows"]}
    part = {name: table.slice(0, 10_000) for name, table in TABLES.items()}
    shown = asking(queries, samples=False).size(part, rows=dict.fromkeys(TABLES, ROWS), budgets=["64 KB"])
    assert shown.share == 1.0
    assert shown.exact_budget is None
    assert shown.expected["joined"][64_000].half_width > 0.0
    assert shown.expected["rows"][64_000].exact
    assert "without samples no budget keeps one" in str(shown)


def test_what_is_not_answered_once_sampled_says_why():
    queries = {"least": "SELECT MIN(a.v) AS x FROM a JOIN b ON a.k = b.k"}
    shown = asking(queries).size(TABLES, budgets=["32 KB", "4 MB"])
    assert shown.expected["least"][4_000_000].exact
    assert shown.expected["least"][32_000].why
    assert "[1]" in str(shown)
    assert f"[1] {shown.expected['least'][32_000].why}" in str(shown)


def test_windows_need_all_rows():
    workload = el.Workload(seed=50)
    workload.stream("a", "k BIGINT, t TIMESTAMP", event_time="t")
    workload.query("n", "SELECT COUNT(DISTINCT k) FROM a", window="1 hour", slide="30 minutes")
    times = pa.array(np.linspace(1.7e15, 1.7e15 + 7.2e9, ROWS).astype("i8"), pa.timestamp("us", "UTC"))
    table = TABLES["a"].select(["k"]).append_column("t", times)
    whole = workload.size({"a": table}, budgets=["16 KB", "4 MB"])
    assert whole.expected["n"][16_000].half_width > 0.0
    assert whole.expected["n"][4_000_000].exact
    part = workload.size({"a": table.slice(0, 5_000)}, rows={"a": ROWS}, budgets=["4 MB"])
    assert "window" in part.expected["n"][4_000_000].why


def test_a_part_too_small_for_a_budget_says_so():
    part = {name: table.slice(0, 1_000) for name, table in TABLES.items()}
    shown = asking().size(part, rows=dict.fromkeys(TABLES, 100_000_000), budgets=["64 KB"])
    assert "read more rows" in shown.expected["joined"][64_000].why


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"tables": {"a": TABLES["a"]}}, "no rows of stream 'b'"),
        ({"tables": {**TABLES, "c": TABLES["a"]}}, "there is no stream 'c'"),
        ({"tables": {name: table.slice(0, 0) for name, table in TABLES.items()}}, "no stream has a row"),
        ({"tables": TABLES, "budgets": []}, "at least one budget"),
        ({"tables": TABLES, "budgets": ["much"]}, "budget 'much' is not a size"),
        ({"tables": TABLES, "seeds": 0}, "one seed"),
        ({"tables": TABLES, "rows": {"z": 1}}, "there is no stream 'z'"),
    ],
)
def test_wrong_input_is_refused_in_a_sentence(given, sentence):
    with pytest.raises(el.PlanError, match=sentence):
        asking().size(given.pop("tables"), **given)


def test_a_workload_without_queries_is_refused():
    with pytest.raises(el.PlanError, match="has no query"):
        asking({}).size(TABLES)


def test_small_streams_are_read_whole():
    taken = allotted({"facts": 9_000_000, "more": 1_000_000, "few": 500}, 1_000_000)
    assert taken["few"] == 500
    assert (
        allotted({"facts": 9_000, "half": 4_500, "tenth": 900}, 1_000)["tenth"] < 100
    )  # it would take too much
    assert allotted({"facts": 9_000, "half": 4_500, "tenth": 900}, 2_000)["tenth"] == 900
    assert taken["facts"] == pytest.approx(9 * taken["more"], rel=0.01)
    assert sum(taken.values()) <= 1_000_000
    assert allotted({"a": 10, "b": 20}, 30) == {"a": 10, "b": 20}


def test_the_search_ends_where_nothing_needs_memory():
    assert smallest_exact(lambda budget: asking({"rows": QUERIES["rows"]}).layout_at(budget), {}) < 1_000
