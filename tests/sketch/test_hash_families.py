"""The hash families have the independence that the theory asks for.

Chance of failing: every bound is 5 standard errors of a mean over fixed seeds, so that a correct family would
fail a test of this file with a chance below 1e-4; seeds are fixed, so a pass stays a pass.
"""

import itertools

import numpy as np
import pytest

from eddyline.errors import SketchError
from eddyline.sketch.counters import key_array
from eddyline.sketch.hash_sketch import HashSketchSpec
from eddyline.sketch.keys import derive_seed, parameters

FUNCTIONS = 4000
GOLDEN_SEED = 17406508172216586042
KEY_SETS = {
    "contiguous": np.arange(8),
    "powers of two": 2 ** np.arange(8) << 40,
    "one bit apart, negative": np.array([-1, -2, -3, -5, -9, -17, -33, -65]),
}


@pytest.fixture(params=["mix", "poly4"])
def family(request):
    return request.param


def located(family, keys, width=16, functions=FUNCTIONS):
    return HashSketchSpec(width, functions, (11,), family).locate(key_array(keys.astype(np.int64)))


@pytest.mark.parametrize("keys", KEY_SETS.values(), ids=KEY_SETS)
def test_products_of_up_to_four_signs_have_mean_zero(family, keys):
    _, signs = located(family, keys)
    for size in (1, 2, 3, 4):
        for chosen in itertools.combinations(range(len(keys)), size):
            mean = signs[:, chosen].prod(axis=1).mean()
            assert abs(mean) < 5 / np.sqrt(FUNCTIONS), (size, chosen)


@pytest.mark.parametrize("keys", KEY_SETS.values(), ids=KEY_SETS)
def test_two_keys_meet_in_a_bucket_as_often_as_chance_has_it(family, keys):
    width = 16
    buckets, signs = located(family, keys, width)
    rate = 1 / width
    for a, b in itertools.combinations(range(len(keys)), 2):
        together = buckets[:, a] == buckets[:, b]
        assert abs(together.mean() - rate) < 5 * np.sqrt(rate * (1 - rate) / FUNCTIONS)
        assert abs((together * signs[:, a] * signs[:, b]).mean()) < 5 * np.sqrt(rate / FUNCTIONS)


def test_buckets_and_signs_of_one_function_are_even(family):
    buckets, signs = located(family, np.arange(100_000), width=64, functions=4)
    for p in range(4):
        counts = np.bincount(buckets[p], minlength=64)
        chi_square = ((counts - 100_000 / 64) ** 2 / (100_000 / 64)).sum()
        assert abs(chi_square - 63) < 5 * np.sqrt(2 * 63)
        assert abs(signs[p].mean(dtype=float)) < 5 / np.sqrt(100_000)


def test_the_families_agree_on_the_variance_of_a_self_join(family):
    """Row estimates of F2 on contiguous keys: mean F2 and variance 2 (F2^2 - F4) / width."""
    weights, width, rows = 1 + np.arange(200) % 7, 32, 2000
    buckets, signs = located(family, np.arange(200), width, rows)
    sketch = np.zeros((rows, width))
    for p in range(rows):
        np.add.at(sketch[p], buckets[p], signs[p] * weights)
    estimates = (sketch**2).sum(axis=1)
    f2, f4 = (weights**2).sum(), (weights**4).sum()
    variance = 2 * (f2**2 - f4) / width
    assert abs(estimates.mean() - f2) < 5 * np.sqrt(variance / rows)
    assert 0.8 < estimates.var() / variance < 1.25


def test_seeds_are_stable_and_labels_matter():
    assert derive_seed(7, "edge", 0) == GOLDEN_SEED
    seeds = {derive_seed(s, label, i) for s in range(10) for label in ("edge", "egde", "") for i in range(10)}
    assert len(seeds) == 300


def test_unknown_family_is_refused():
    with pytest.raises(SketchError, match="mix"):
        parameters("md5", (1,), 1)
