"""Whether intervals hold as often as they say: one judge for all statistical tests.

A method whose intervals hold in `right` of all cases passes with a chance of 98% (99% for all answers together, 99% for
each by itself), and one that holds in only `wrong` of them fails with a chance of 90% or more. Trials that are too few for both are an error, so that no test claims what it
cannot tell: it then has more seeds, pools its answers, or says by `wrong=` what it can tell.

Answers of one state depend on each other. Their misses are taken as beta-binomial with a correlation: TOGETHER, or more
where several answers are read from the same numbers.
"""

from collections import defaultdict
from functools import cache, reduce

import numpy as np
from scipy.stats import betabinom

FALSE_ALARM, POWER = 0.01, 0.9
TOGETHER = 0.1
"""Chosen: where intervals of these tests miss, the correlation is -0.05 to 0.15, but for tests that give their own."""


class Coverage:
    """Which intervals held, by state (usually a seed) and by answer."""

    def __init__(self, together=TOGETHER):
        self.together = together
        self.held = defaultdict(lambda: defaultdict(list))

    def add(self, state, inside, name=""):
        self.held[name][state].append(bool(inside))

    @property
    def trials(self):
        return sum(len(inside) for states in self.held.values() for inside in states.values())

    @property
    def misses(self):
        return sum(inside.count(False) for states in self.held.values() for inside in states.values())

    def check(self, right=0.95, wrong=0.85):
        """Fail unless enough intervals held: of all answers, and of each by itself as far as its trials tell."""
        __tracebackhide__ = True
        by_state = defaultdict(list)
        for states in self.held.values():
            for state, inside in states.items():
                by_state[state] += inside
        sizes = tuple(len(inside) for inside in by_state.values())
        told = distinguishable(sizes, right, self.together)
        if told < wrong:
            raise ValueError(
                f"{sum(sizes)} intervals of {len(sizes)} states tell {right:.0%} only from {told:.0%}: "
                f"add seeds, pool answers or say wrong={told:.2f}"
            )
        missed = {state: inside.count(False) for state, inside in by_state.items() if not all(inside)}
        allowed = most_misses(sizes, right, self.together, FALSE_ALARM)
        assert self.misses <= allowed, (
            f"{self}: {self.misses} of {self.trials} intervals miss, {allowed} are allowed; misses by state: {missed}"
        )
        for name, states in self.held.items():
            sizes = tuple(len(inside) for inside in states.values())
            allowed = most_misses(sizes, right, self.together, FALSE_ALARM / len(self.held))
            misses = sum(inside.count(False) for inside in states.values())
            assert misses <= allowed, f"{self}: {misses} intervals of {name} miss, {allowed} are allowed"

    @property
    def shares(self):
        """The share of intervals that held, by answer."""
        return {
            name: float(np.mean([each for inside in states.values() for each in inside]))
            for name, states in self.held.items()
        }

    def __str__(self):
        return "held " + ", ".join(f"{name} {share:.1%}".strip() for name, share in self.shares.items())


@cache
def most_misses(sizes, right, together, false_alarm):
    """Return the fewest misses of states with `sizes` intervals that a right method exceeds with this chance at most."""
    at_most = np.cumsum(chances_of_misses(sizes, 1 - right, together))
    return int(np.searchsorted(at_most, 1 - false_alarm))


@cache
def distinguishable(sizes, right, together):
    """Return the highest share of intervals that hold, in whole percent, at which a method fails with POWER."""
    allowed = most_misses(sizes, right, together, FALSE_ALARM)
    for percent in range(round(100 * right) - 1, 0, -1):
        if chances_of_misses(sizes, 1 - percent / 100, together)[allowed + 1 :].sum() >= POWER:
            return percent / 100
    return 0.0


@cache
def chances_of_misses(sizes, chance, together):
    """Return the chance of 0, 1, ... misses of all states together, if one interval misses with `chance`."""
    scale = (1 - together) / together
    of_size = {
        size: betabinom.pmf(np.arange(size + 1), size, chance * scale, (1 - chance) * scale)
        for size in {*sizes}
    }
    return reduce(np.convolve, (of_size[size] for size in sizes))
