"""The largest error least, then the next: against all possible sizes, and through the public face."""

from itertools import product

import numpy as np
import pytest

import eddyline as el
from eddyline.plan.layout import Demand
from eddyline.plan.size.allocation import Bundle, BundleReader, minimise_errors_in_turn

STEPS = (10, 20, 40, 80)


def error_of(reader, sizes):
    return max(reader.weight * share / sizes[d] for bundle in reader.bundles for d, share in bundle.members)


def instance(seed):
    rng = np.random.default_rng(seed)
    demands = [Demand(f"s{i}", "distinct") for i in range(4)]
    readers = []
    for i in range(3):
        chosen = rng.choice(4, size=rng.integers(1, 3), replace=False)
        weight = float(rng.integers(1, 40))
        readers.append(
            BundleReader(f"q{i}", weight, tuple(Bundle(((demands[j], 1.0),)) for j in sorted(chosen)))
        )
    used = {d for reader in readers for bundle in reader.bundles for d, _ in bundle.members}
    return readers, sorted(used), int(rng.integers(40, 250))


@pytest.mark.parametrize("seed", range(40))
def test_no_other_sizes_have_a_smaller_largest_error_and_none_can_be_lowered_alone(seed):
    readers, demands, words = instance(seed)
    least = dict.fromkeys(demands, STEPS[0])
    words = max(words, sum(least.values()))
    found = minimise_errors_in_turn(readers, least, words, lambda _: STEPS)
    assert sum(found.values()) <= words
    assert set(found.values()) <= set(STEPS)
    best = min(
        max(error_of(reader, dict(zip(demands, sizes, strict=True))) for reader in readers)
        for sizes in product(STEPS, repeat=len(demands))
        if sum(sizes) <= words
    )
    assert max(error_of(reader, found) for reader in readers) == pytest.approx(best)
    for reader in readers:
        lower = error_of(reader, found) * 0.999
        raised = dict(found)
        for bundle in reader.bundles:
            for demand, _ in bundle.members:
                fitting = [step for step in STEPS if step >= min(reader.weight / lower, STEPS[-1])]
                raised[demand] = max(raised[demand], fitting[0])
        assert sum(raised.values()) > words or error_of(reader, raised) >= error_of(reader, found)


def test_sizes_without_steps_give_all_queries_one_error():
    one, other = Demand("a", "hash"), Demand("b", "hash")
    readers = [
        BundleReader("q", 3.0, (Bundle(((one, 1.0),)),)),
        BundleReader("p", 1.0, (Bundle(((other, 1.0),)),)),
    ]
    assert minimise_errors_in_turn(readers, {one: 10, other: 10}, 4000, lambda _: None) == {
        one: pytest.approx(3000, abs=1),
        other: pytest.approx(1000, abs=1),
    }


def errors(objective, budget):
    w = el.Workload(samples=False, budget=budget, seed=1, objective=objective)
    w.stream("r", "a BIGINT, x BIGINT").stream("s", "a BIGINT, b BIGINT").stream("t", "b BIGINT, y BIGINT")
    w.query("pairs", "SELECT COUNT(DISTINCT r.x, s.b) FROM r JOIN s ON r.a = s.a")
    w.query("n", "SELECT COUNT(*) FROM r JOIN s ON r.a = s.a")
    w.query("total", "SELECT SUM(t.y) FROM s JOIN t ON s.b = t.b")
    w.query("distinct", "SELECT COUNT(DISTINCT a) FROM r")
    plan = w.plan()
    assert plan.nbytes <= budget
    return plan.expected_errors()


@pytest.mark.parametrize("budget", [400_000, 600_000, 1_000_000, 2_000_000, 5_000_000])
def test_a_query_that_cannot_be_lowered_takes_nothing_from_the_others(budget):
    average, largest = (
        sorted(errors(each, budget).values(), reverse=True) for each in ("average", "largest")
    )
    first = next(
        (pair for pair in zip(largest, average, strict=True) if not np.isclose(*pair, rtol=0.05)), (0, 1)
    )
    assert first[0] < first[1]
