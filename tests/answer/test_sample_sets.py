from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.answer.sets.query import read_sample_set
from eddyline.plan.size.specs import two_sided_z
from eddyline.sample.join import Join
from eddyline.sample.spec import COUNT, DictionarySpec, Node, Quantity, SampleSpec, Shape, View
from tests.oracles import sample_joins as naive
from tests.oracles.coverage import Coverage

EXPRESSIONS = {
    (0,): lambda a, b: a,
    (0, 1, "union"): lambda a, b: a | b,
    (0, 1, "intersect"): lambda a, b: a & b,
    (0, 1, "except"): lambda a, b: a - b,
}


def set_sample(members, expression, rates, seed):
    """Return the join of a set query over streams of (value, net count) pairs."""
    part = DictionarySpec((0,), 1, 0)
    views = [View(index, (0,), (), COUNT) for index in range(2)]
    term = Quantity(tuple(Node(view, view, (0,)) for view in views))
    shape = Shape("d", "set", (0,), {"set": term}, 1.0, expression)
    spec = SampleSpec((part, part), (part, part), (), (1,), (shape,), 1 << 30, 1 << 30)
    made = [naive.dictionary(part, [((u,), (False,), (n,)) for u, n in rows.items()]) for rows in members]
    return Join(naive.sample(spec, made, [rates], seed), shape)


counts = st.dictionaries(st.integers(0, 30), st.integers(-1, 2), max_size=20)


@given(
    counts,
    counts,
    st.sampled_from(sorted(EXPRESSIONS, key=str)),
    st.sampled_from([0.3, 0.6, 1.0]),
    st.integers(0, 20),
)
@settings(max_examples=100, deadline=None)
def test_followed_values_count_by_their_probability(left, right, expression, base, seed):
    own = {3: max(0.8, base), 4: 1.0} if base < 1 else {}
    join = set_sample((left, right), expression, (base, own), seed)
    present = [{u for u, n in rows.items() if n > 0} for rows in (left, right)]
    members = np.array(sorted(EXPRESSIONS[expression](*present)), dtype=np.int64)
    followed = np.ones(len(members), dtype=np.bool_)
    join.state.rosters[0].drop_unfollowed(members, followed)
    rates = join.state.rosters[0].probabilities(members[followed])
    found = read_sample_set(join, 0.95)
    assert found.value == pytest.approx((1 / rates).sum())
    assert found.witnesses == len(rates)
    assert found.witnesses <= found.low <= found.value <= found.high
    if base == 1.0:
        assert found.exact
        assert found.low == found.high == len(members)


def test_no_witness_leaves_what_would_have_been_seen():
    found = read_sample_set(set_sample(({}, {}), (0,), (0.01, {}), 1), 0.95)
    assert (found.value, found.low) == (0.0, 0.0)
    assert found.high == pytest.approx((1.1 * two_sided_z(0.95)) ** 2 * 99)


@pytest.mark.calibration
@pytest.mark.parametrize(("values", "base"), [(2000, 0.05), (200, 0.05), (60, 0.1)])
def test_coverage_and_unbiasedness(values, base):
    """200 samples, also with few witnesses."""
    rows = dict.fromkeys(range(values), 1)
    found = [read_sample_set(set_sample((rows, {}), (0,), (base, {}), seed), 0.95) for seed in range(200)]
    estimates = [each.value for each in found]
    coverage = Coverage()
    for seed, each in enumerate(found):
        coverage.add(seed, each.low <= values <= each.high)
    coverage.check()
    assert abs(np.mean(estimates) - values) < 3 * np.std(estimates) / sqrt(200)
