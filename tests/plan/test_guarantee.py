"""Guarantees: sizes by the documents' theorems, and that the stated probability holds on data that are hard for each.

Each test runs a number of seeds at (epsilon, delta) and allows as many misses as a binomial of that delta exceeds with a
chance of 1 in 1,000: a right size misses far less often, because the theorems are upper bounds.
"""

import numpy as np
import pyarrow as pa
import pytest

import eddyline as el
from eddyline.plan.size.guarantee import checked_guarantee

JOIN = "SELECT COUNT(*) FROM r JOIN s ON r.k = s.k"
STREAMS = {"r": "k SMALLINT, a SMALLINT", "s": "k SMALLINT, c SMALLINT", "t": "c SMALLINT"}


def asked(queries, guarantee, method="document", **settings):
    made = el.Workload(guarantee=guarantee, method=method, **{"seed": 1, "max_distinct": 1 << 8, **settings})
    for name, schema in STREAMS.items():
        made.stream(name, schema)
    for name, sql in queries.items():
        made.query(name, sql)
    return made


def filled(plan, columns):
    state = plan.empty()
    for name, table in columns.items():
        state.update(name, pa.table({key: values.astype(np.int16) for key, values in table.items()}))
    return state


def statistics(self_joins, totals, size, text=JOIN):
    relations = {
        name: el.RelationStatistics(self_join, (), total)
        for (name, self_join), total in zip(self_joins.items(), totals, strict=True)
    }
    return el.Statistics(relations, {text: {"count": size}}, {}, {})


def misses(make_plan, columns, query, truth, epsilon, seeds):
    found = 0
    for seed in range(seeds):
        estimate = filled(make_plan(seed), columns).answer(query)
        found += estimate.value is None or abs(estimate.value - truth) > epsilon * truth
    return found


def flat(values, times):
    return np.repeat(np.arange(values), times)


@pytest.mark.calibration
@pytest.mark.parametrize("method", ["agms", "document"])
def test_a_join_of_flat_relations_that_meet_little(method):
    # Lemma 3.2's variance is attained where self-joins are large and the join is small: 32 values, 8 of them in common
    left, right = flat(32, 6), np.concatenate([flat(8, 6), 1000 + flat(24, 6)])
    columns = {"r": {"k": left, "a": left}, "s": {"k": right, "c": right}}
    known = statistics({"r on (k)": 32 * 36.0, "s on (k)": 32 * 36.0}, (192.0, 192.0), 8 * 36.0)
    plan = lambda seed: asked({"q": JOIN}, (0.5, 0.2), method, seed=seed).plan(statistics=known)  # noqa: E731
    assert misses(plan, columns, "q", 288, 0.5, 20) <= 9  # binomial(20, 0.2)


@pytest.mark.calibration
def test_a_join_of_which_dense_values_do_not_meet():
    # without skimming, the two dense values would ask for 16 * 40,060^2 / 30^2 counters a row: 28 million
    left, right = (np.concatenate([np.full(200, dense), np.arange(10, 70)]) for dense in (1, 2))
    columns = {"r": {"k": left, "a": left}, "s": {"k": right, "c": right}}
    known = statistics({"r on (k)": 40_060.0, "s on (k)": 40_060.0}, (260.0, 260.0), 60.0)
    plan = lambda seed: asked({"q": JOIN}, (0.5, 0.2), seed=seed).plan(statistics=known)  # noqa: E731
    assert {kept.spec.width for kept in plan(0).layout.kept if kept.demand.kind == "dyadic"} == {1 << 16}
    assert misses(plan, columns, "q", 60, 0.5, 5) <= 4  # binomial(5, 0.2)


@pytest.mark.calibration
def test_a_chain_of_flat_relations():
    text = f"{JOIN} JOIN t ON s.c = t.c"
    k, c = flat(12, 4), np.tile(np.arange(4), 12)
    columns = {"r": {"k": k, "a": k}, "s": {"k": k, "c": c}, "t": {"c": flat(4, 3)}}
    self_joins = {"r on (k)": 12 * 16.0, "s on (c) x (k)": 48.0, "t on (c)": 36.0}
    known = statistics(self_joins, (48.0, 48.0, 12.0), 12 * 4 * 4 * 3.0, text)
    plan = lambda seed: asked({"q": text}, (0.5, 0.2), seed=seed).plan(statistics=known)  # noqa: E731
    assert misses(plan, columns, "q", 576, 0.5, 15) <= 8  # binomial(15, 0.2)


@pytest.mark.calibration
@pytest.mark.parametrize("method", ["document", "document-copies"])
def test_a_union_and_an_intersection(method):
    columns = {
        "r": {"k": np.arange(150), "a": np.arange(150)},
        "s": {"k": np.arange(50, 200), "c": np.arange(150)},
    }
    texts = {
        "u": "SELECT COUNT(*) FROM (SELECT k FROM r UNION SELECT k FROM s)",
        "i": "SELECT COUNT(*) FROM (SELECT k FROM r INTERSECT SELECT k FROM s)",
    }
    union = lambda seed: asked({"u": texts["u"]}, (0.4, 0.2), method, seed=seed).plan()  # noqa: E731
    assert misses(union, columns, "u", 200, 0.4, 20) <= 9  # binomial(20, 0.2)
    both = lambda seed: asked({"i": texts["i"]}, (0.5, 0.3), method, seed=seed).plan()  # noqa: E731
    # epsilon is relative to the union: 0.5 * 200 = 1.0 * 100
    assert misses(both, columns, "i", 100, 1.0, 10) <= 7  # binomial(10, 0.3)


@pytest.mark.calibration
def test_distinct_pairs_of_a_one_to_one_join():
    # pairs that share no value are independent, as the theorem has it; dense pairs are not, whatever the size
    text = "SELECT COUNT(DISTINCT r.a, s.c) FROM r JOIN s ON r.k = s.k"
    columns = {"r": {"k": np.arange(40), "a": np.arange(40)}, "s": {"k": np.arange(40), "c": np.arange(40)}}
    plan = lambda seed: asked({"q": text}, (0.4, 0.3), seed=seed, max_distinct=1 << 6).plan()  # noqa: E731
    assert misses(plan, columns, "q", 40, 0.4, 8) <= 6  # binomial(8, 0.3)


def test_sizes_are_those_of_the_theorems():
    known = statistics({"r on (k)": 2304.0, "s on (k)": 2304.0}, (384.0, 384.0), 288.0)
    (agms,) = {
        kept.spec
        for kept in asked({"q": JOIN}, (0.5, 0.2), "agms").plan(statistics=known).layout.kept
        if kept.demand.kind == "agms"
    }
    # one join: 8 * ((2 - 1)^2 + 1) * 2304^2 / (0.5 * 288)^2, and 2 log2(5)
    assert (agms.width, agms.depth) == (4096, 6)
    plan = asked({"q": JOIN}, (0.5, 0.2)).plan(statistics=known)
    (skimmed,) = {kept.spec for kept in plan.layout.kept if kept.demand.kind == "dyadic"}
    assert skimmed.hash == "poly4"
    assert skimmed.width == 4096  # the smaller of 16 * 2304^2 / 144^2 = 4096 and 16 * 384^2 / 144 = 16384
    assert skimmed.depth == 11  # log2(2^8 / 0.2)
    assert "guaranteed: within 50% but for a chance of 0.2 (skimmed, paragraph 0072)" in plan.explain()
    given = plan.layout.queries[0].guarantee
    assert given.nbytes == 8 * sum(
        kept.spec.words for kept in plan.layout.kept if kept.demand.kind == "dyadic"
    )
    assert 0 < given.calibrated < given.nbytes


def test_a_guarantee_that_cannot_be_given_is_refused():
    with pytest.raises(el.PlanError, match="needs self-join sizes"):
        asked({"q": JOIN}, (0.5, 0.2)).plan()
    with pytest.raises(
        el.PlanError, match="method='skimmed' has no guarantee; those with one are agms, document"
    ):
        asked({"q": JOIN}, (0.5, 0.2), "skimmed")
    with pytest.raises(el.PlanError, match="two numbers between 0 and 1"):
        checked_guarantee((0.1, 2))
    with pytest.raises(el.PlanError, match=r"a guarantee needs sketches alone"):
        el.Workload().stream("r", "k INT").query("d", "SELECT COUNT(DISTINCT k) FROM r", guarantee=(0.1, 0.1))
    with pytest.raises(el.PlanError, match="raise it to that"):
        asked({"d": "SELECT COUNT(DISTINCT k) FROM r"}, (0.1, 0.1), budget="1 MB").plan()
