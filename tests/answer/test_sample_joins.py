from dataclasses import replace
from math import inf, isnan, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.answer.joins.missing import relation_gaps
from eddyline.answer.joins.sampled import read_sample_join
from eddyline.answer.joins.sampled_values import SampledQuantity, SampledValues
from eddyline.sample.join import Join
from eddyline.sample.messages import exact_total
from eddyline.sample.reduction import shrink_to_fit
from eddyline.sample.spec import Quantity, Shape
from eddyline.sample.state import Roster, SampleState
from tests.oracles import sample_joins as naive
from tests.oracles.coverage import Coverage

FUNCTIONS = ("count", "sum", "avg", "var_pop", "var_samp", "stddev_pop", "stddev_samp")


def rows(keys, values, size):
    key = st.one_of(st.none(), st.integers(0, values - 1))
    counts = st.tuples(st.integers(-2, 4), st.integers(-5, 9), st.integers(0, 9))
    row = st.tuples(st.tuples(*[key] * keys), st.tuples(st.booleans()), counts)
    return st.lists(row, max_size=size)


@st.composite
def chains(draw, lengths=(2, 3, 4), function="count"):
    """A sampled chain: links of one or two classes, some relations of one table, with a measure on the first."""
    length = draw(st.sampled_from(lengths))
    classes = tuple(draw(st.sampled_from([0, 1])) for _ in range(length - 1))
    classes = classes if 0 in classes else (0,) * (length - 1)
    classes = tuple(sorted(set(classes)).index(link) for link in classes)
    tables = list(range(length))
    if length == 4 and classes[0] == classes[1] == classes[2] and draw(st.booleans()):
        tables = [0, 1, 1, 2]
    spec, shape = naive.chain(classes, tables, measures=(0,), function=function)
    size = 7 if length == 4 else 9
    made = [naive.dictionary(part, draw(rows(len(part.classes), 4, size))) for part in spec.kept]
    rate = st.sampled_from([0.25, 0.5, 0.7, 1.0])
    rates = [(draw(rate), draw(st.dictionaries(st.integers(0, 3), rate, max_size=2))) for _ in spec.seeds]
    rates = [(base, {u: max(p, base) for u, p in own.items()}) for base, own in rates]
    return Join(naive.sample(spec, made, rates, draw(st.integers(0, 50))), shape)


def totals_of(join):
    return {
        name: [float(each.weights.sum()) for each in join.whole_relations(term)]
        for name, term in join.shape.quantities.items()
    }


@given(chains(function="sum"))
@settings(max_examples=150, deadline=None)
def test_total_counts_every_distinct_value_once(join):
    sampled = SampledValues(join)
    for term in join.shape.quantities.values():
        slow = naive.slow_join(join, term)
        assert SampledQuantity.of(sampled, term).total == pytest.approx(slow, rel=1e-9, abs=1e-6)


def without(join, link, value):
    """The same sample without the elements that hold a value."""
    left = []
    for held in join.state.dictionaries:
        kept = np.ones(len(held), dtype=np.bool_)
        for key, own in enumerate(held.spec.classes):
            if own == link:
                kept &= held.is_null(key) | (held.key(key) != value)
        left.append(held.where(kept))
    return Join(replace(join.state, dictionaries=tuple(left)), join.shape)


@given(chains(lengths=(2, 3)))
@settings(max_examples=80, deadline=None)
def test_a_value_adds_what_is_gone_without_it(join):
    sampled = SampledValues(join)
    term = SampledQuantity.of(sampled, join.shape.quantities["count"])
    whole = naive.slow_join(join, join.shape.quantities["count"])
    for variable, link in enumerate(join.shape.classes):
        for value, place in zip(join.values[variable], sampled.places[variable], strict=True):
            rest = without(join, link, value)
            gone = whole - naive.slow_join(rest, rest.shape.quantities["count"])
            assert term.added[place] == pytest.approx(gone, rel=1e-9, abs=1e-6)


@given(chains(function="sum"))
@settings(max_examples=60, deadline=None)
def test_gaps_are_of_the_estimated_totals(join):
    sampled = SampledValues(join)
    term = join.shape.quantities["sum"]
    gaps = relation_gaps(SampledQuantity.of(sampled, term), [100.0] * len(term.nodes))
    for node, gap in zip(term.nodes, gaps, strict=True):
        alone = Join(join.state, replace_nodes(join.shape, (node,)))
        slow = naive.slow_join(alone, Quantity((node,)))
        assert gap.short == pytest.approx(1 - slow / 100.0, abs=1e-9)


def replace_nodes(shape, nodes):
    return Shape(shape.name, shape.kind, shape.classes, {"count": Quantity(nodes)})


@pytest.mark.parametrize("function", FUNCTIONS)
@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_everything_followed_is_exact(function, data):
    join = data.draw(chains(lengths=(2, 3), function=function))
    join = Join(whole_state(join), join.shape)
    found = read_sample_join(join, function, totals_of(join), 0.95)
    sums = {name: exact_total(join, term) for name, term in join.shape.quantities.items()}
    expected = plain_aggregate(function, sums)
    assert found.exact
    assert found.value == pytest.approx(expected, nan_ok=True)
    assert isnan(expected) or found.low == found.value == found.high


def whole_state(join):
    return replace(join.state, rosters=tuple(Roster(each.seed) for each in join.state.rosters))


def plain_aggregate(function, sums):
    count = sums["count"]
    if function in ("count", "sum"):
        return float(sums[function])
    rows = count - 1 if function.endswith("_samp") else count
    if (rows <= 0 and function != "avg") or count == 0:
        return float("nan")
    if function == "avg":
        return sums["sum"] / count
    variance = max(sums["squares"] * count - sums["sum"] ** 2, 0) / count / rows
    return sqrt(variance) if function.startswith("stddev") else variance


@pytest.mark.parametrize("function", FUNCTIONS)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_intervals_hold_the_value_and_confidence_widens_them(function, data):
    join = data.draw(chains(function=function))
    totals = totals_of(join)
    narrow, wide = (read_sample_join(join, function, totals, each) for each in (0.8, 0.99))
    if isnan(narrow.value):
        assert isnan(wide.value)
        return
    assert narrow.value == wide.value
    assert wide.low <= narrow.low <= narrow.value <= narrow.high <= wide.high


@given(chains(function="sum"), st.sampled_from([2, 3, 10]))
@settings(max_examples=60, deadline=None)
def test_scaling_the_measure_scales_the_answer(join, factor):
    scaled = []
    for held in join.state.dictionaries:
        total = list(held.totals)
        total[1] = total[1].astype(np.int64) * factor
        scaled.append(replace(held, totals=tuple(total), _indexes={}))
    other = Join(replace(join.state, dictionaries=tuple(scaled)), join.shape)
    totals = {name: [5.0] * len(term.nodes) for name, term in join.shape.quantities.items()}
    larger = {"sum": [5.0 * factor, *totals["sum"][1:]], "count": totals["count"]}
    one = read_sample_join(join, "sum", totals, 0.95)
    more = read_sample_join(other, "sum", larger, 0.95)
    for a, b in ((one.value, more.value), (one.low, more.low), (one.high, more.high)):
        assert b == pytest.approx(factor * a, rel=1e-6, abs=1e-6)


@given(chains(function="sum"), st.randoms())
@settings(max_examples=60, deadline=None)
def test_the_order_of_relations_does_not_matter(join, random):
    order = list(range(len(next(iter(join.shape.quantities.values())).nodes)))
    random.shuffle(order)
    shape = Shape(
        "q",
        "join",
        join.shape.classes,
        {name: Quantity(tuple(term.nodes[k] for k in order)) for name, term in join.shape.quantities.items()},
    )
    totals = {name: [7.0 + k for k in order] for name in shape.quantities}
    straight = {name: sorted(each) for name, each in totals.items()}
    one = read_sample_join(join, "sum", straight, 0.95)
    other = read_sample_join(Join(join.state, shape), "sum", totals, 0.95)
    assert other.value == pytest.approx(one.value, rel=1e-6, abs=1e-6)
    assert other.low == pytest.approx(one.low, rel=1e-6, abs=1e-6)
    assert other.high == pytest.approx(one.high, rel=1e-6, abs=1e-6)


def test_an_empty_sample_says_what_it_could_miss():
    spec, shape = naive.chain((0,), [0, 1])
    empty = SampleState.empty(spec, grouped=True)
    empty = replace(empty, rosters=tuple(Roster(r.seed, 0.01) for r in empty.rosters))
    found = read_sample_join(Join(empty, shape), "count", {"count": [50.0, 20.0]}, 0.95)
    assert (found.value, found.low, found.high) == (0.0, 0.0, 1000.0)
    assert read_sample_join(Join(empty, shape), "count", {}, 0.95).high == inf
    assert read_sample_join(Join(empty, shape), "count", {"count": [50.0, 0.0]}, 0.95).high == 0.0
    assert isnan(
        read_sample_join(
            Join(empty, naive.chain((0,), [0, 1], (0,), function="avg")[1]), "avg", {}, 0.95
        ).value
    )


def zipf_chain(seed):
    """Two Zipf relations and one between them, 3,000 rows each, as whole dictionaries."""
    spec, shape = naive.chain((0, 1), [0, 1, 2])
    random = np.random.default_rng(seed)
    chance = np.arange(1, 501) ** -0.8
    draw = lambda: random.choice(500, 3000, p=chance / chance.sum())  # noqa: E731
    columns = [(draw(),), (draw(), draw()), (draw(),)]
    made = []
    for part, keys in zip(spec.kept, columns, strict=True):
        made.append(
            naive.dictionary(
                part, [(tuple(map(int, k)), (False,), (1, 0, 0)) for k in zip(*keys, strict=True)]
            )
        )
    return spec, shape, made


@pytest.mark.calibration
def test_coverage_and_unbiasedness_over_seeds():
    """120 samples of one chain at a sixth of its bytes.

    The mean of the uncalibrated estimates is within three standard errors of the answer (chance of failing: 0.3%).
    """
    spec, shape, made = zipf_chain(3)
    whole = naive.sample(spec, made, [(1.0, {}), (1.0, {})])
    answer = exact_total(Join(whole, shape), shape.quantities["count"])
    totals = totals_of(Join(whole, shape))
    coverage, plain, errors = Coverage(), [], []
    for seed in range(120):
        links = tuple(Roster(100 * seed + link) for link in range(2))
        start = replace(whole, rosters=(*links, *whole.rosters[2:]))
        join = Join(shrink_to_fit([start], whole.nbytes // 6)[0], shape)
        found = read_sample_join(join, "count", totals, 0.95)
        coverage.add(seed, found.low <= answer <= found.high)
        plain.append(read_sample_join(join, "count", {}, 0.95).value)
        errors.append(found.value - answer)
    spread = float(np.std(plain, ddof=1))
    coverage.check()
    assert abs(np.mean(plain) - answer) < 3 * spread / sqrt(120)
    assert np.std(errors) < spread
