"""Guarantees: sizes by the documents' theorems, and that the stated probability holds on data that are hard for each.

Each test runs enough seeds to see a chance to miss of 2 delta: it then fails with a chance of at least 95%
(`seeds_and_allowed`). If the code is right, it fails with a chance of at most 1 in 1,000:

| | delta | seeds | may miss | misses, measured | 1 in 1,000 is for |
| --- | --- | --- | --- | --- | --- |
| joins, set expressions | 0.25 | 30 | 10 | 0 of 82, each | a chance of delta / 2 (at delta itself, it fails in 11%) |
| distinct counts over joins | 0.4 | 32 | 21 | 7 and 5 of 32 | a chance of delta |

The theorems bound tails by Chebyshev and Chernoff, so that right sizes miss far less often than delta. For AGMS the
variance itself is tested as well, because it is what the theorem computes.
"""

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

import eddyline as el
from eddyline.plan.size.guarantee import checked_guarantee

JOIN = "SELECT COUNT(*) FROM r JOIN s ON r.k = s.k"
CHAIN = f"{JOIN} JOIN t ON s.c = t.c"
PAIRS = "SELECT COUNT(DISTINCT r.a, s.c) FROM r JOIN s ON r.k = s.k"
STREAMS = {"r": "k SMALLINT, a SMALLINT", "s": "k SMALLINT, c SMALLINT", "t": "c SMALLINT"}
WIDTHS = {"TINYINT": "i1", "SMALLINT": "i2"}
FALSE_ALARM, POWER = 0.001, 0.95


def asked(queries, guarantee, method="document", type_of_keys="SMALLINT", **settings):
    made = el.Workload(guarantee=guarantee, method=method, **{"seed": 1, "max_distinct": 1 << 8, **settings})
    for name, schema in STREAMS.items():
        made.stream(name, schema.replace("SMALLINT", type_of_keys))
    for name, sql in queries.items():
        made.query(name, sql)
    return made


def filled(plan, columns):
    state = plan.empty()
    for name, table in columns.items():
        types = {each.name: np.dtype(WIDTHS[str(each.type)]) for each in plan.layout.stream(name).columns}
        state.update(name, pa.table({key: table[key].astype(own) for key, own in types.items()}))
    return state


def statistics(self_joins, totals, size, text=JOIN):
    relations = {
        name: el.RelationStatistics(self_join, (), total)
        for (name, self_join), total in zip(self_joins.items(), totals, strict=True)
    }
    return el.Statistics(relations, {text: {"count": size}}, {}, {})


def within(make_plan, columns, query, truth, guarantee, error=None, of_right=None):
    """Check that few enough answers miss.

    error: what a miss exceeds, relative to the answer, if not epsilon. of_right: the chance to miss of right code, if
    not delta / 2.
    """
    epsilon, delta = guarantee
    seeds, allowed = seeds_and_allowed(delta, of_right or delta / 2)
    found = 0
    for seed in range(seeds):
        estimate = filled(make_plan(seed), columns).answer(query)
        found += estimate.value is None or abs(estimate.value - truth) > (error or epsilon) * truth
    assert found <= allowed, f"{found} of {seeds}"


def seeds_and_allowed(delta, of_right):
    """Return the fewest seeds, and how many may miss, for FALSE_ALARM at `of_right` and POWER at 2 delta."""
    for seeds in range(1, 1000):
        allowed = int(binom.isf(FALSE_ALARM, seeds, of_right))
        if binom.sf(allowed, seeds, 2 * delta) >= POWER:
            return seeds, allowed
    raise AssertionError(delta)


def flat(values, times):
    return np.repeat(np.arange(values), times)


def joined(counts):
    """Return the columns of r and s, and what statistics see, for how often each key is in r and in s."""
    keys = list(counts)
    left, right = (np.array([counts[key][side] for key in keys]) for side in (0, 1))
    columns = {
        name: {"k": np.repeat(keys, own), column: np.repeat(keys, own)}
        for name, column, own in (("r", "a", left), ("s", "c", right))
    }
    self_joins = {"r on (k)": float(left @ left), "s on (k)": float(right @ right)}
    totals = float(left.sum()), float(right.sum())
    return columns, statistics(self_joins, totals, float(left @ right)), float(left @ right)


def kept(plan, kind):
    return [each for each in plan.layout.kept if each.demand.kind == kind]


FLAT = dict.fromkeys(range(100), (3, 3))
"""Attains Lemma 3.2, 2 (SJ SJ - sum f^2 g^2), because J = SJ; without common keys the variance is half as large."""
APART = {key: (3, 0) if key < 40 else (0, 3) if key < 80 else (3, 3) for key in range(100)}
"""Large self-joins and a small join, which asks for more copies; the variance is 1.08 SJ SJ, of 2 that are allowed."""
UNDER_THRESHOLD = {0: (1130, 1130), 1: (1280, 0), 2: (0, 1280), **dict.fromkeys(range(10, 18), (98, 98))}
"""Eight keys are just under SKIMDENSE's threshold 8 n / s1 = 100, and keys far above it do not meet."""


@pytest.mark.calibration
@pytest.mark.parametrize("counts", [FLAT, APART], ids=["flat", "apart"])
@pytest.mark.parametrize("method", ["agms", "document"])
def test_a_join_of_flat_relations(method, counts):
    columns, known, truth = joined(counts)
    plan = lambda seed: asked({"q": JOIN}, (0.5, 0.25), method, seed=seed).plan(statistics=known)  # noqa: E731
    within(plan, columns, "q", truth, (0.5, 0.25))


@pytest.mark.calibration
def test_a_join_of_values_around_the_threshold():
    columns, known, truth = joined(UNDER_THRESHOLD)
    plan = lambda seed: asked({"q": JOIN}, (0.5, 0.25), seed=seed).plan(statistics=known)  # noqa: E731
    (width,) = {each.spec.width for each in kept(plan(0), "dyadic")}
    rows = sum(left for left, _ in UNDER_THRESHOLD.values())
    assert 98 < 8 * rows / width < 1130  # without skimming, twice as many counters would be needed
    within(plan, columns, "q", truth, (0.5, 0.25))


@pytest.mark.calibration
def test_a_chain_of_three():
    # every key of r with every key of t: 7.4 of the 10 SJ SJ SJ that Lemma 3.2 allows, and no data of this shape has more
    ends, columns, known = chain(20)
    plan = lambda seed: asked({"q": CHAIN}, (0.5, 0.25), seed=seed).plan(statistics=known)  # noqa: E731
    within(plan, columns, "q", len(ends) ** 2, (0.5, 0.25))


def chain(keys):
    ends = np.arange(keys)
    k, c = np.repeat(ends, keys), np.tile(ends, keys)
    columns = {"r": {"k": ends, "a": ends}, "s": {"k": k, "c": c}, "t": {"c": ends}}
    sizes = {"r on (k)": float(keys), "s on (c) x (k)": float(keys**2), "t on (c)": float(keys)}
    return ends, columns, statistics(sizes, tuple(sizes.values()), float(keys**2), CHAIN)


@pytest.mark.calibration
@pytest.mark.parametrize(("shape", "share"), [("flat", 0.99), ("chain", 0.741)])
def test_copies_have_the_variance_that_sizes_them(shape, share):
    # share: of the variance that the lemma allows, by its formula on these data. The mean of 30 seeds of all copies
    # is off by 4% (flat) and 6% (chain) of itself, so that this fails with a chance below 1 in 10,000
    if shape == "flat":
        (columns, known, truth), text = joined(FLAT), JOIN
    else:
        (ends, columns, known), text = chain(20), CHAIN
        truth = float(len(ends) ** 2)
    found = []
    for seed in range(30):
        plan = asked({"q": text}, (0.5, 0.25), "agms", seed=seed).plan(statistics=known)
        state = filled(plan, columns)
        copies = np.prod(
            [state.snapshot.counters[each.id].astype(float) for each in kept(plan, "agms")], axis=0
        )
        found.append(np.mean((copies - truth) ** 2))
    width = kept(plan, "agms")[0].spec.width
    allowed = (0.5 * truth) ** 2 / 8 * width  # a mean of `width` copies may have (epsilon J)^2 / 8
    assert np.mean(found) / allowed == pytest.approx(share, rel=0.25)


@pytest.mark.calibration
@pytest.mark.parametrize("method", ["document", "document-copies"])
@pytest.mark.parametrize("expression", ["UNION", "INTERSECT"])
def test_a_union_and_an_intersection(method, expression):
    # half of the union is common: of all expressions, the share of witnesses then varies the most
    columns = {
        "r": {"k": np.arange(150), "a": np.arange(150)},
        "s": {"k": np.arange(50, 200), "c": np.arange(150)},
    }
    text = f"SELECT COUNT(*) FROM (SELECT k FROM r {expression} SELECT k FROM s)"
    plan = lambda seed: asked({"q": text}, (0.4, 0.25), method, seed=seed).plan()  # noqa: E731
    truth = 200 if expression == "UNION" else 100
    within(plan, columns, "q", truth, (0.4, 0.25), error=0.4 * 200 / truth)  # relative to the union


@pytest.mark.calibration
@pytest.mark.parametrize("shape", ["one to one", "four by four"])
def test_distinct_pairs_of_a_join(shape):
    # one to one: every other value of b in the buckets of a pair is common, as e(p) = 2 assumes. four by four: the
    # 16 pairs of a join value share their a and c, which the theorem does not allow for
    if shape == "one to one":
        ones = np.arange(40)
        r, s = {"k": np.concatenate([ones, ones + 40]), "a": np.tile(ones, 2)}, {"k": ones, "c": ones}
        truth = 40
    else:
        r, s = ({"k": flat(8, 4), column: np.arange(32)} for column in "ac")
        truth = 8 * 16

    def plan(seed):
        return asked({"q": PAIRS}, (0.45, 0.4), "document", "TINYINT", seed=seed, max_distinct=1 << 6).plan()

    within(plan, {"r": r, "s": s}, "q", truth, (0.45, 0.4), of_right=0.4)


def test_seeds_are_those_of_the_table_above():
    assert seeds_and_allowed(0.25, 0.125) == (30, 10)
    assert seeds_and_allowed(0.4, 0.4) == (32, 21)


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


def test_a_guarantee_of_many_gigabytes_needs_a_budget():
    def planned(**settings):
        made = el.Workload(guarantee=(0.2, 0.1), method="document", max_distinct=1 << 16, **settings)
        made.stream("r", "k BIGINT, a BIGINT").stream("s", "k BIGINT, c BIGINT")
        return made.query("q", PAIRS).plan()

    with pytest.raises(
        el.PlanError, match=r"guarantees take 72,\d{3},\d{3},\d{3} bytes, .* query 'q'.*max_distinct"
    ):
        planned()
    assert planned(budget="80 GB").layout.queries[0].guarantee.nbytes > 7e10
