"""What else a state with stream samples is asked: ad hoc texts, frequencies, statistics, explain, distinct samples."""

import numpy as np
import pytest

import eddyline as el
from tests.data.stream_samples import CHAIN, DDL, PAIRS, STREAMS, filled, rows, skewed, workload
from tests.oracles.duckdb_sql import exact

ASKED = {
    "pairs": PAIRS,
    "chain": CHAIN,
    "sum": "SELECT SUM(a.x) FROM a JOIN b ON a.k = b.k WHERE b.x > 0",
    "kinds": "SELECT COUNT(DISTINCT j) FROM c",
    "tuples": "SELECT COUNT(DISTINCT a.j, b.j) FROM a JOIN b ON a.k = b.k",
}
COVERED = [
    "SELECT COUNT(*) FROM b JOIN a ON a.k = b.k",
    "SELECT COUNT(*) FROM a p JOIN a q ON p.k = q.k",
    "SELECT COUNT(*) FROM b JOIN c ON b.j = c.j JOIN a ON a.k = b.k",
    "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k WHERE b.x > 0",
    "SELECT SUM(y.x) FROM a y JOIN b ON y.k = b.k WHERE b.x > 0",
    "SELECT SUM(y.x) FROM a y JOIN a z ON y.k = z.k",
    "SELECT COUNT(DISTINCT k) FROM b",
    "SELECT COUNT(*) FROM (SELECT DISTINCT j FROM c)",
    "SELECT COUNT(*) FROM (SELECT k FROM a EXCEPT SELECT k FROM b)",
    "SELECT COUNT(DISTINCT b.j, a.j) FROM a JOIN b ON a.k = b.k",
]
NOT_COVERED = [
    "SELECT COUNT(*) FROM a JOIN c ON a.k = c.k",
    "SELECT COUNT(*) FROM a JOIN b ON a.j = b.j",
    "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k WHERE b.x > 1",
    "SELECT SUM(b.x) FROM a JOIN b ON a.k = b.k",
    "SELECT AVG(a.j) FROM a JOIN b ON a.k = b.k",
    "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k AND a.j = b.j",
    "SELECT COUNT(*) FROM (SELECT k FROM a INTERSECT SELECT k FROM c)",
    "SELECT COUNT(DISTINCT a.x, b.j) FROM a JOIN b ON a.k = b.k",
]


@pytest.fixture(scope="module")
def plan():
    return workload(ASKED, "1 MB").plan()


@pytest.fixture(scope="module")
def small(plan):
    """A state that holds everything."""
    return filled(plan, 60, 12)


@pytest.fixture(scope="module")
def large():
    """A state that has overflowed, without the distinct tuples, which need much memory."""
    return filled(
        workload({n: t for n, t in ASKED.items() if n != "tuples"}, "24 KB").plan(), 9000, 8000, skewed
    )


def net(count, values, make=rows):
    return {name: make(seed, count, values) for seed, name in enumerate(STREAMS)}


@pytest.mark.parametrize("text", COVERED)
def test_covered_texts_are_exact_while_everything_is_held(small, text):
    answer = small.answer(text)
    tuples = "SELECT COUNT(*) FROM (SELECT DISTINCT a.j, b.j FROM a JOIN b ON a.k = b.k)"
    truth = exact(tuples if "b.j, a.j" in text else text, net(60, 12))
    assert answer.exact
    assert answer.value == (None if truth is None else pytest.approx(truth))


@pytest.mark.parametrize("text", [text for text in COVERED if "DISTINCT b.j" not in text])
def test_covered_texts_are_estimated_from_what_is_followed(large, text):
    answer = large.answer(text)
    assert not answer.exact
    assert answer.low <= answer.value <= answer.high


@pytest.mark.parametrize("text", NOT_COVERED)
def test_other_texts_are_refused_in_whole_sentences(small, large, text):
    for state in (small, large):
        with pytest.raises(el.PlanError, match=r"does not cover this query.*\.$"):
            state.answer(text)


@pytest.mark.parametrize("method", ["skimmed", "hash", "agms"])
@pytest.mark.parametrize("query", ["pairs", "kinds", "tuples", "chain", COVERED[0]])
def test_a_method_that_is_asked_for_answers_or_says_what_is_missing(small, large, query, method):
    for state in (small, large):
        try:
            answer = state.answer(query, method=method)
        except el.EddylineError as error:
            assert str(error).endswith(".")  # noqa: PT017 - either an answer or a sentence
        else:
            assert answer.low <= answer.value <= answer.high


def test_frequencies_are_exact_while_everything_is_held(small):
    keys = np.concatenate([net(60, 12)["a"]["k"].to_numpy()])
    for value in range(-1, 13):
        found = small.frequency("a", {"k": value})
        assert found.exact
        assert found.value == int((keys == value).sum())
    counts = np.bincount(keys)
    top = small.frequent("a", "k", top=4)
    assert [each.count.value for each in top] == sorted(counts, reverse=True)[:4]
    for each in top:
        assert each.count.exact
    above = small.frequent("a", "k", threshold=6)
    assert sorted(each.value for each in above) == np.nonzero(counts >= 6)[0].tolist()
    with pytest.raises(el.PlanError, match="NULL key"):
        small.frequency("a", {"k": None})
    with pytest.raises(el.PlanError, match=r"\.$"):
        small.frequency("a", {"x": 1})


def test_states_explain_themselves_in_both_stages(small, large):
    assert "first stage, everything is held and exact" in small.explain()
    assert "at a rate of" in large.explain()
    assert "exact" in small.explain()
    for state in (small, large):
        for name in state.snapshot.layout.query_names:
            assert name in state.explain()


def test_statistics_of_both_stages_plan_again(small, large):
    for state in (small, large):
        found = state.statistics()
        assert found.rows["a"] > 0
        again = workload({"pairs": PAIRS, "chain": CHAIN}, "48 KB").plan(statistics=found)
        assert filled(again, 10, 5).answer("pairs").exact
        assert el.Statistics.from_json(found.to_json()) == found
    assert small.statistics().sizes


def test_distinct_samples_stand_beside_stream_samples():
    made = workload({"pairs": PAIRS}, "256 KB").sample("a", "k", size=100)
    state = filled(made.plan(), 200, 30)
    sample = state.sample("a", "k")
    assert sample.rate == 1.0
    assert len(sample) == len(set(rows(0, 200, 30)["k"].to_pylist()))
    assert state.nbytes <= made.plan().nbytes


def test_fourteen_queries_plan_in_64_kilobytes():
    texts = {
        f"q{number}": text
        for number, text in enumerate(
            [
                PAIRS,
                CHAIN,
                "SELECT COUNT(*) FROM a JOIN c ON a.k = c.k",
                "SELECT SUM(a.x) FROM a JOIN b ON a.k = b.k",
                "SELECT AVG(a.x) FROM a JOIN b ON a.k = b.k JOIN c ON b.j = c.j",
                "SELECT VAR_SAMP(b.x) FROM a JOIN b ON a.k = b.k",
                "SELECT COUNT(*) FROM a JOIN b ON a.j = b.j",
                "SELECT COUNT(*) FROM a p JOIN a q ON p.k = q.k JOIN a r ON q.j = r.j",
                "SELECT COUNT(DISTINCT k) FROM a",
                "SELECT COUNT(DISTINCT j) FROM b WHERE x > 0",
                "SELECT COUNT(*) FROM (SELECT k FROM a INTERSECT SELECT k FROM b)",
                "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k WHERE a.x > 0",
                "SELECT SUM(c.x) FROM a JOIN b ON a.k = b.k JOIN c ON b.k = c.k WHERE a.x < 0",
                "SELECT COUNT(*) FROM a",
            ]
        )
    }
    for settings in ({}, {"objective": "largest"}):
        plan = workload(texts, "64 KB", **settings).plan()
        state = filled(plan, 3000, 2000)
        assert state.nbytes <= plan.nbytes <= 64_000
        for name in texts:
            answer = state.answer(name)
            assert answer.value is None or answer.low <= answer.value <= answer.high


def test_plans_for_an_error():
    made = el.Workload(error=0.05, seed=1)
    for name in STREAMS:
        made.stream(name, DDL)
    plan = made.query("pairs", PAIRS).query("chain", CHAIN).plan()
    assert filled(plan, 100, 10).answer("chain").exact
    assert max(plan.expected_errors().values()) <= 0.05


def test_negative_net_counts_are_reported(plan):
    state = plan.empty().update("a", rows(0, 5, 3), np.full(5, -1)).update("b", rows(1, 5, 3))
    answer = state.answer("pairs")
    assert answer.exact
    assert answer.value <= 0
    assert "net count of -5" in answer.notes[0]


@pytest.mark.parametrize(("predicates", "budget"), [(70, "1 MB"), (65, "12 KB")])
def test_more_predicates_on_a_stream_than_bits_in_a_word(predicates, budget):
    asked = {
        f"q{number}": f"SELECT COUNT(*) FROM a JOIN b ON a.k = b.k WHERE a.j > {number}"
        for number in range(predicates)
    }
    plan = workload(asked, budget).plan()
    state = filled(plan, 900, predicates)
    tables = net(900, predicates)
    assert el.State.from_bytes(state.to_bytes()) == state
    assert state.nbytes <= plan.nbytes
    for name in list(asked)[::7]:
        answer = state.answer(name)
        if predicates == 70:
            assert answer.exact
        if answer.exact:
            assert answer.value == exact(asked[name], tables)


def test_many_links_fit_or_are_refused_with_the_budget_that_they_take():
    columns = ", ".join(f"c{number} INT" for number in range(150))

    def planned(budget):
        made = el.Workload(budget=budget, seed=1).stream("a", columns).stream("b", columns)
        for number in range(150):
            made.query(f"q{number}", f"SELECT COUNT(*) FROM a JOIN b ON a.c{number} = b.c{number}")
        return made.plan()

    with pytest.raises(el.PlanError, match=r"150 links.*raise it to 7,216 bytes"):
        planned(3_600)
    plan = planned(7_216)
    rng = np.random.default_rng(1)
    state = plan.empty()
    for name in "ab":
        state.update(name, {f"c{number}": rng.integers(0, 99, 200).astype(np.int32) for number in range(150)})
        assert state.nbytes <= plan.nbytes
    assert not state.answer("q3").exact


def test_variances_of_small_doubles_are_not_negative():
    made = el.Workload(budget="64 KB", seed=1).stream("a", "k INT, f DOUBLE").stream("b", "k INT")
    made.query("join", "SELECT VAR_SAMP(a.f) FROM a JOIN b ON a.k = b.k").query(
        "one", "SELECT VAR_POP(f) FROM a"
    )
    state = made.plan().empty()
    ones = np.ones(3, dtype=np.int32)
    state.update("a", {"k": ones, "f": np.array([1e-4, 2e-4, 3e-4])}).update("b", {"k": ones})
    assert state.answer("join").value >= 0
    assert state.answer("one").value >= 0


def test_too_many_pairs_are_estimated_from_an_exact_state(small, monkeypatch):
    exactly = small.answer("tuples")
    monkeypatch.setattr("eddyline.answer.distinct_joins.query.MOST_PAIRS", 3)
    answer = small.answer("tuples")
    assert answer.method in ("join-distinct", "exact")
    assert answer.low <= exactly.value <= answer.high


def test_pairs_without_room_for_their_synopsis_are_read_from_followed_values():
    made = el.Workload(budget="64 KB").stream("r", "a BIGINT, k BIGINT").stream("s", "k BIGINT, b BIGINT")
    made.query("pairs", "SELECT COUNT(DISTINCT r.a, s.b) FROM r JOIN s ON r.k = s.k")
    made.query("rows", "SELECT COUNT(*) FROM r JOIN s ON r.k = s.k")
    plan = made.plan()
    assert "join-distinct" not in plan.explain()
    state = plan.empty()
    state.update("r", {"a": np.arange(9), "k": np.arange(9)}).update(
        "s", {"k": np.arange(9), "b": np.ones(9, int)}
    )
    assert state.answer("pairs").exact
    assert state.answer("pairs").value == 9
    state.update("r", {"a": np.arange(50_000), "k": np.arange(50_000)})
    assert state.nbytes <= plan.nbytes
    pairs = state.answer("pairs")
    assert pairs.low <= 9 <= pairs.high
    assert not pairs.exact
    assert pairs.method == "sample"
    assert state.answer("rows").low <= 18 <= state.answer("rows").high
