"""Rosters: a value is followed iff its hash is below its probability, and the set of followed values only shrinks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.sample.state import ENTRY_BYTES, Roster, make_roster, probability_of, ranks_below

SEED = 17
KEYS = np.concatenate([np.arange(-50, 50), np.array([-(2**63), 2**63 - 1, 2**40])])
PROBABILITIES = st.floats(0.0, 1.0) | st.sampled_from([0.0, 1.0, 0.5, 1e-300, 1e-9, 2.0**-25.5, 2.0**-26])
ROSTERS = st.builds(
    lambda base, entries: make_roster(
        SEED,
        base,
        np.array(sorted(entries), dtype=np.int64),
        np.array([entries[value] for value in sorted(entries)]),
    ),
    PROBABILITIES,
    st.dictionaries(st.sampled_from(KEYS.tolist()), PROBABILITIES, max_size=12),
)


def follows(roster):
    """The followed keys by the definition."""
    hashes = Roster(SEED).hashes(KEYS)
    own = dict(zip(roster.values.tolist(), probability_of(roster.ranks).tolist(), strict=True))
    return [
        hashed < (1.0 if roster.base >= 1.0 else own.get(key, roster.base))
        for key, hashed in zip(KEYS.tolist(), hashes.tolist(), strict=True)
    ]


def kept_by(roster):
    kept = np.ones(len(KEYS), dtype=bool)
    roster.drop_unfollowed(KEYS, kept)
    return kept.tolist()


@given(ROSTERS)
def test_dropping_is_the_definition(roster):
    assert kept_by(roster) == follows(roster)
    assert roster.nbytes == (0 if roster.base >= 1.0 else 8 + ENTRY_BYTES * len(roster.values))


@given(ROSTERS)
def test_what_was_dropped_before_stays_dropped(roster):
    kept = np.arange(len(KEYS)) % 2 == 0
    roster.drop_unfollowed(KEYS, kept)
    assert not kept[1::2].any()


@given(ROSTERS, ROSTERS)
def test_the_lower_of_two_follows_at_most_what_both_follow(one, other):
    lower = one.lowered(other)
    both = [a and b for a, b in zip(follows(one), follows(other), strict=True)]
    for mine, b in zip(follows(lower), both, strict=True):
        assert b or not mine
    assert lower.same(other.lowered(one))
    assert lower.lowered(one).same(lower)
    assert lower.lowered(other).same(lower)
    values = np.union1d(one.values, other.values)
    limit = np.minimum(one.probabilities(values), other.probabilities(values))
    assert (lower.probabilities(values) <= limit).all()


@given(ROSTERS, ROSTERS, ROSTERS)
def test_rosters_are_lowered_in_any_order(one, two, three):
    assert one.lowered(two).lowered(three).same(one.lowered(two.lowered(three)))


@given(ROSTERS)
def test_no_entry_lies_below_the_base(roster):
    assert (probability_of(roster.ranks) > roster.base).all()
    assert (roster.probabilities(KEYS) >= roster.base).all()
    assert (np.diff(roster.values.astype(object)) > 0).all()


@given(st.lists(PROBABILITIES, min_size=1))
def test_ranks_round_down(chances):
    wanted = np.array(chances)
    ranks = ranks_below(wanted)
    rounded = probability_of(ranks)
    assert (rounded <= wanted)[ranks < 255].all()
    assert (rounded >= 0.93 * wanted).all()
    assert (ranks_below(rounded) == ranks).all()


def test_every_rank_is_its_own():
    ranks = np.arange(256).astype(np.uint8)
    assert (ranks_below(probability_of(ranks)) == ranks).all()


def test_a_roster_that_follows_nothing_stays_empty():
    nothing = Roster(SEED, 0.0)
    some = make_roster(SEED, 0.1, np.arange(10), np.full(10, 0.5))
    lower = nothing.lowered(some)
    assert len(lower.values) == 0
    assert not any(kept_by(lower))


def test_hashes_are_uniform_and_differ_by_seed():
    keys = np.arange(200_000)
    for seed in (0, 1, 2**63 + 5):
        hashes = Roster(seed).hashes(keys)
        assert hashes.min() >= 0.0
        assert hashes.max() < 1.0
        counts = np.bincount((hashes * 100).astype(int), minlength=100)
        assert ((counts - 2000) ** 2 / 2000).sum() < 160  # chi-squared, 99 degrees: 1 in 10,000; seeds fixed
    both = np.corrcoef(Roster(0).hashes(keys), Roster(1).hashes(keys))[0, 1]
    assert abs(both) < 0.012  # 5 standard errors


@pytest.mark.parametrize("base", [1.0, 1.5])
def test_a_base_of_one_follows_everything(base):
    assert all(kept_by(Roster(SEED, base)))
    assert Roster(SEED, base).follows_all
