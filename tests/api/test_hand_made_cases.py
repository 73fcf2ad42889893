"""Hand-made cases that an adversary would try, against DuckDB: what is exact is right, and intervals hold.

Streams r(a, x, g) and s(a, x, g). Each case is the data of one seed, in batches, with queries of its own.
"""

from dataclasses import dataclass, field
from itertools import product

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import eddyline as el
from tests.data.arrivals import heavy_to_light, light_to_heavy, zipf
from tests.oracles.coverage import Coverage

pytestmark = pytest.mark.calibration
SCHEMA = "a BIGINT, x BIGINT, g BIGINT"
JOIN, LEFT = "FROM r JOIN s ON r.a = s.a", "FROM r LEFT JOIN s ON r.a = s.a"
SEEDS = 4


@dataclass
class Case:
    """Rows of both streams; order: "both" in turns, else the stream that comes first. again: bytes after each batch."""

    r: pa.Table
    s: pa.Table
    queries: list[str]
    budget: str = "12 KB"
    ad_hoc: list[str] = field(default_factory=list)
    batches: int = 6
    order: str = "both"
    again: bool = False
    merged: bool = False
    deleted: slice | None = None
    deletes_first: bool = False


def rows(rng, keys, x=None, nulls=0.0, groups=5):
    a = pa.array(keys, pa.int64(), mask=rng.random(len(keys)) < nulls)
    x = rng.integers(0, 1000, len(keys)) if x is None else x
    return pa.table({"a": a, "x": x, "g": rng.integers(0, groups, len(keys))})


def uniform(rng, n=9_000, low=0, high=3_000):
    return rng.integers(low, high, n)


def skewed(rng, n=9_000, exponent=1.1, arrive=None):
    names, draw = np.random.default_rng(5).permutation(3_000), zipf(rng, 3_000, exponent)
    return names[draw(n) if arrive is None else arrive(rng, n, draw).keys]


def pair(rng, arrive=None, exponent=1.1, x=None):
    return rows(rng, skewed(rng, 9_000, exponent, arrive), x), rows(rng, skewed(rng, 4_500, exponent, arrive))


def with_key(keys, key, chosen):
    keys[chosen] = key
    return keys


CASES = {
    "NULL keys and an outer join": lambda rng: Case(
        rows(rng, uniform(rng), nulls=0.8), rows(rng, uniform(rng, 4_000)),
        [f"SELECT COUNT(*) {LEFT}", f"SELECT SUM(r.x) {LEFT}", "SELECT a, COUNT(*) AS n FROM r GROUP BY a"], "16 KB",
    ),
    "a NULL group of mixed measures": lambda rng: Case(
        rows(rng, uniform(rng), rng.integers(-500, 500, 9_000), nulls=0.6), rows(rng, uniform(rng, 4_000)),
        [f"SELECT COUNT(*) {JOIN}", "SELECT a, SUM(x) AS v FROM r GROUP BY a"], "16 KB",
    ),
    "NULL keys on both sides of a full join": lambda rng: Case(
        rows(rng, uniform(rng), nulls=0.5), rows(rng, uniform(rng), nulls=0.5),
        ["SELECT COUNT(*) FROM r FULL JOIN s ON r.a = s.a", "SELECT SUM(r.x) FROM r FULL JOIN s ON r.a = s.a"], "20 KB",
    ),
    "NULL keys and an anti join of negative measures": lambda rng: Case(
        rows(rng, uniform(rng, high=6_000), -rng.integers(0, 1000, 9_000), nulls=0.4),
        rows(rng, uniform(rng, 4_000), nulls=0.4),
        ["SELECT COUNT(*) FROM r ANTI JOIN s ON r.a = s.a", "SELECT SUM(r.x) FROM r ANTI JOIN s ON r.a = s.a"], "16 KB",
    ),
    "negative measures": lambda rng: Case(
        *pair(rng, x=-rng.integers(0, 1000, 9_000)), [f"SELECT SUM(r.x) {JOIN}", f"SELECT AVG(r.x) {JOIN}"],
        ad_hoc=[f"SELECT SUM(r.x * 2) {JOIN}"],
    ),
    "measures of both signs": lambda rng: Case(
        *pair(rng, x=rng.integers(-1000, 1000, 9_000)),
        [f"SELECT SUM(r.x) {JOIN}", f"SELECT SUM(r.x * s.x) {JOIN}", f"SELECT SUM(r.x) {LEFT}"],
    ),
    "light to heavy": lambda rng: Case(
        *pair(rng, light_to_heavy), [f"SELECT COUNT(*) {JOIN} WHERE r.x < s.x", f"SELECT COUNT(*) {LEFT}"]
    ),
    "heavy to light": lambda rng: Case(
        *pair(rng, heavy_to_light), [f"SELECT COUNT(*) {JOIN} WHERE r.x < s.x", f"SELECT r.g, SUM(r.x) AS v {JOIN} GROUP BY r.g"]
    ),
    "a late key with nine tenths of the rows": lambda rng: Case(
        rows(rng, with_key(uniform(rng), 17, slice(900, None))), rows(rng, with_key(uniform(rng, 4_000), 17, slice(0, 50))),
        [f"SELECT SUM(r.x) {LEFT}", f"SELECT COUNT(*) {JOIN} WHERE r.x < s.x", f"SELECT AVG(r.x) {LEFT}"], order="s",
    ),
    "one large batch": lambda rng: Case(
        rows(rng, skewed(rng, 30_000, 0.9)), rows(rng, skewed(rng, 15_000, 0.9)), [f"SELECT COUNT(*) {JOIN}", f"SELECT SUM(r.x) {LEFT}"],
        "16 KB", batches=1,
    ),
    "deletes before their inserts": lambda rng: Case(
        rows(rng, uniform(rng)), rows(rng, uniform(rng, 4_000)),
        [f"SELECT COUNT(*) {JOIN}", f"SELECT SUM(r.x) {LEFT}", "SELECT g, COUNT(*) AS n FROM r GROUP BY g"],
        "16 KB", deleted=slice(0, 4_000), deletes_first=True,
    ),
    "nearly all rows deleted": lambda rng: Case(
        rows(rng, uniform(rng)), rows(rng, uniform(rng, 4_000)),
        [f"SELECT COUNT(*) {JOIN}", f"SELECT SUM(r.x) {LEFT}", "SELECT COUNT(*) FROM r"], deleted=slice(30, None),
    ),
    "an odd budget": lambda rng: Case(
        rows(rng, uniform(rng, 6_000)), rows(rng, uniform(rng, 3_000)), [f"SELECT COUNT(*) {LEFT}", f"SELECT AVG(r.x) {JOIN}"], "4999"
    ),
    "groups that do not fit an odd budget": lambda rng: Case(
        rows(rng, uniform(rng, 6_000, high=500), groups=300), rows(rng, uniform(rng, 600, high=500)),
        [f"SELECT r.g, COUNT(*) AS n, SUM(r.x) AS v {JOIN} GROUP BY r.g"], "7777",
    ),
    "bytes after each batch": lambda rng: Case(
        *pair(rng, exponent=1.3), [f"SELECT COUNT(*) {JOIN}", f"SELECT SUM(r.x) {LEFT}"],
        ad_hoc=[f"SELECT SUM(r.x) {JOIN} WHERE r.g < 2"], again=True,
    ),
    "two states added": lambda rng: Case(
        *pair(rng, exponent=1.3), [f"SELECT COUNT(*) {JOIN}", f"SELECT SUM(r.x) {LEFT}", f"SELECT COUNT(*) {JOIN} WHERE r.x < s.x"], merged=True
    ),
    "a foreign key": lambda rng: Case(
        rows(rng, skewed(rng, exponent=1.3)), rows(rng, np.arange(3_000)), [f"SELECT COUNT(*) {JOIN}", f"SELECT AVG(s.x) {JOIN}"],
        ad_hoc=[f"SELECT SUM(s.x) {JOIN} WHERE s.g = 1"], order="r",
    ),
    "one key": lambda rng: Case(
        rows(rng, np.full(6_000, 7)), rows(rng, np.full(300, 7)),
        [f"SELECT COUNT(*) {JOIN} WHERE r.x < s.x", f"SELECT SUM(r.x) {JOIN}", f"SELECT r.g, COUNT(*) AS n {JOIN} GROUP BY r.g"],
        "8 KB", [f"SELECT SUM(r.x) {JOIN} WHERE r.g = 1"],
    ),
    "keys that never meet": lambda rng: Case(
        rows(rng, uniform(rng, 6_000)), rows(rng, uniform(rng, 3_000, 10_000, 13_000)),
        [f"SELECT COUNT(*) {JOIN}", f"SELECT SUM(r.x) {JOIN}", f"SELECT COUNT(*) {LEFT}", f"SELECT VARIANCE(r.x) {JOIN}"], "8 KB",
    ),
    "one key that meets": lambda rng: Case(
        rows(rng, with_key(uniform(rng, 6_000), 11, slice(0, 40)), -rng.integers(1, 1000, 6_000)),
        rows(rng, with_key(uniform(rng, 3_000, 10_000, 13_000), 11, slice(5, 6))),
        [f"SELECT COUNT(*) {JOIN}", f"SELECT SUM(r.x) {JOIN}", f"SELECT VARIANCE(r.x) {JOIN}"], "8 KB",
    ),
    "measures near the largest integers": lambda rng: Case(
        rows(rng, uniform(rng, 8_000), rng.choice([-1, 1], 8_000) * (1 << 52)), rows(rng, uniform(rng, 3_000)),
        [f"SELECT SUM(r.x) {JOIN}", f"SELECT AVG(r.x) {JOIN}"], ad_hoc=[f"SELECT SUM(r.x) {JOIN} WHERE r.g = 2"],
    ),
    "measures that are nearly all 0": lambda rng: Case(
        rows(rng, uniform(rng), np.where(rng.random(9_000) < 0.003, 100_000, 0)), rows(rng, uniform(rng, 3_000)),
        [f"SELECT SUM(r.x) {LEFT}", f"SELECT AVG(r.x) {JOIN}"], ad_hoc=[f"SELECT SUM(r.x) {JOIN} WHERE r.g < 3"],
    ),
}  # fmt: skip


def steps(case):
    """The changes of a case in their order: stream, rows, weights."""
    parts = {}
    for name, table in (("r", case.r), ("s", case.s)):
        size = -(-len(table) // case.batches)
        parts[name] = [(name, table.slice(at, size), None) for at in range(0, len(table), size)]
    if case.order == "both":
        made = [each for both in zip(parts["r"], parts["s"], strict=True) for each in both]
    else:
        made = parts[case.order] + parts["s" if case.order == "r" else "r"]
    if case.deleted is None:
        return made
    gone = case.r.take(np.arange(len(case.r))[case.deleted])
    deletes = [("r", gone, np.full(len(gone), -1))]
    return deletes + made if case.deletes_first else made + deletes


def filled(case, seed):
    w = el.Workload(budget=case.budget, seed=seed).stream("r", SCHEMA).stream("s", SCHEMA)
    for place, text in enumerate(case.queries):
        w.query(f"q{place}", text.replace(" ANTI", " LEFT ANTI"))
    if case.ad_hoc:
        w.explore("r", "x", "g").explore("s", "x", "g")
    plan = w.plan()
    states = [plan.empty(), plan.empty()]
    for place, (name, table, weights) in enumerate(steps(case)):
        at = place % 2 if case.merged else 0
        states[at].update(name, table, weights=weights)
        if case.again:
            states[at] = el.State.from_bytes(states[at].to_bytes())
    return states[0] + states[1]


def holds(exact, value, low, high, truth):
    """Whether one number holds; a wrong one that is called exact is an error, not a miss."""
    if exact:
        assert (value or 0) == pytest.approx(truth or 0), (value, truth)
    slack = 1e-9 * abs(truth or 0) + 1e-9
    unknown = value is None or truth is None
    return unknown or ((low is None or low - slack <= truth) and (high is None or truth <= high + slack))


def which_hold(found, right):
    """Which intervals of an answer hold, without numbers that are exact; right: DuckDB's rows."""
    if isinstance(found, el.Estimate):
        inside = holds(found.exact, found.value, found.low, found.high, right[0][0])
        return [] if found.exact else [inside]
    truths, names = {row[0]: row[1:] for row in right}, found.aggregates
    shown = [
        (row, dict(zip(names, truths.get(row[found.group_columns[0]], (0,) * 9), strict=False)))
        for row in found
    ]
    each = [
        (row["exact"], holds(row["exact"], row[name], row[f"{name}_low"], row[f"{name}_high"], truth[name]))
        for row, truth in shown
        for name in names
    ]
    return [inside for exact, inside in each if not exact]


def test_hand_made_cases():
    """4 seeds of each case: most intervals of each query hold (two of four miss once in 70 times), and 95% of all."""
    coverage = Coverage()
    for name, seed in product(CASES, range(SEEDS)):
        case = CASES[name](np.random.default_rng([77, seed]))
        state = filled(case, seed)
        with duckdb.connect() as connection:
            net = case.r
            if case.deleted is not None:
                net = net.filter(~np.isin(np.arange(len(net)), np.arange(len(net))[case.deleted]))
            connection.register("r", net)
            connection.register("s", case.s)
            for text in [*case.queries, *case.ad_hoc]:
                answer = state.answer(text.replace(" ANTI", " LEFT ANTI"))
                for inside in which_hold(answer, connection.sql(text).fetchall()):
                    coverage.add((name, seed), inside, f"{name}: {text}")
    coverage.check(wrong=0.77)
    assert min(coverage.shares.values()) > 0.5, coverage
