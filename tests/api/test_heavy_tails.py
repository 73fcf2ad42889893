"""Where intervals of sampled joins are known to be too narrow: heavy tails that no exact total shows.

These tests measure it, and keep it from getting worse; they do not say that it is good. Right 95% intervals would hold in
21 of 24 and more with a chance above 97%.
"""

import numpy as np
import pyarrow as pa
import pytest

import eddyline as el

pytestmark = pytest.mark.calibration
SEEDS = 24


def skewed(rng, rows, keys):
    """Keys by Zipf's law, the heavy ones in an order of their own."""
    share = 1.0 / np.arange(1, keys + 1)
    return rng.permutation(keys)[rng.choice(keys, rows, p=share / share.sum())]


def test_three_streams_on_one_key_fed_one_after_the_other():
    """21 of these 24 held at 4 KB, and 33 of 40 drawn otherwise: values that are heavy in later streams were let go.

    A heavy value that is followed at the base rate by luck makes up for others in the total of its relation, so that
    calibration sees nothing.
    """
    held = 0
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        streams = {name: skewed(rng, 20_000, 8_000) for name in "abc"}
        w = el.Workload(budget="4 KB", seed=seed)
        for name in streams:
            w.stream(name, "k BIGINT")
        w.query("q", "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k JOIN c ON a.k = c.k")
        state = w.plan().empty()
        for name, keys in streams.items():
            for start in range(0, 20_000, 1_000):
                state.update(name, {"k": keys[start : start + 1_000]})
        truth = float(
            np.prod([np.bincount(keys, minlength=8_000) for keys in streams.values()], axis=0).sum()
        )
        answer = state.answer("q")
        held += answer.low <= truth <= answer.high
    assert held >= 17, held


def test_variances_of_an_explored_column_with_a_heavy_tail():
    """20 of 24 held at 24 KB: a variance rests on the largest values, and the sample shows few of them."""
    held = 0
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        x = np.minimum(rng.pareto(2.2, 6_000) * 100, 10**7).astype(np.int64)
        keys = pa.array(rng.integers(0, 2_000, 6_000))
        w = el.Workload(budget="24 KB", seed=seed).stream("t", "k BIGINT, x BIGINT").stream("u", "k BIGINT")
        w.query("q", "SELECT COUNT(*) FROM t JOIN u ON t.k = u.k").explore("t", "x")
        state = (
            w.plan().empty().update("t", pa.table({"k": keys, "x": x})).update("u", {"k": np.arange(2_000)})
        )
        answer = state.answer("SELECT VAR_POP(t.x) FROM t JOIN u ON t.k = u.k")
        assert not answer.exact
        held += answer.low <= x.astype(np.float64).var() <= answer.high
    assert held >= 17, held
