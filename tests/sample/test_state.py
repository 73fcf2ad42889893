"""States of stream samples: linear under their rosters, in either stage, combined in any order."""

from dataclasses import replace
from functools import reduce
from itertools import permutations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eddyline.sample.state import Roster, SampleState, followed, fresh_rosters, make_roster, under_one_roster
from eddyline.sketch.keys import chain
from tests.data.dictionaries import dictionary, one_stream_spec, plain, state
from tests.oracles import stream_samples as naive

SPEC = one_stream_spec(links=2)
KEYS = st.none() | st.integers(-4, 4)
ROWS = st.lists(
    st.tuples(
        st.builds(naive.element, st.tuples(KEYS, KEYS), st.just(())),
        st.tuples(st.integers(-2, 3), st.integers(-5, 5)),
    ),
    max_size=12,
)
CHANCES = st.dictionaries(st.integers(-4, 4), st.sampled_from([0.3, 0.5, 0.8, 0.99]), max_size=4)
RATES = st.tuples(st.sampled_from([1.0, 0.6, 0.3, 0.0]), CHANCES)


def roster(link, rate):
    base, entries = rate
    values = np.array(sorted(entries), dtype=np.int64)
    return make_roster(SPEC.seeds[link], base, values, np.array([entries[v] for v in values.tolist()]))


def rosters_of(one, other, null_rate):
    """The rosters of both links, and that of rows with a NULL link."""
    nulls = replace(fresh_rosters(SPEC)[2], base=null_rate)
    return roster(0, one), roster(1, other), nulls


NULL_RATES = st.sampled_from([1.0, 0.5, 0.0])
STATES = st.builds(
    lambda rows, grouped, *rates: (
        state(SPEC, rows).in_second_stage().under(rosters_of(*rates)) if grouped else state(SPEC, rows)
    ),
    ROWS,
    st.booleans(),
    RATES,
    RATES,
    NULL_RATES,
)


def is_followed(each, rosters):
    *links, nulls = rosters
    for key, mine in zip(each[0], links, strict=True):
        if key is not None and not follows(mine, key):
            return False
    return None not in each[0] or follows(nulls, code_of(each))


def follows(mine, key):
    kept = np.ones(1, dtype=bool)
    mine.drop_unfollowed(np.array([key]), kept)
    return bool(kept[0])


def code_of(each):
    """The hash of an element: its keys, 0 for NULL, and a word that says which of them are NULL."""
    nulls = sum((key is None) << place for place, key in enumerate(each[0]))
    return int(chain([np.array([0 if key is None else key]) for key in (*each[0], nulls)])[0])


def under(held, rosters):
    return {each: totals for each, totals in held.items() if is_followed(each, rosters)}


@given(ROWS, RATES, RATES, NULL_RATES)
def test_elements_stay_whose_link_values_are_all_followed(rows, one, other, null_rate):
    rosters = rosters_of(one, other, null_rate)
    held = dictionary(SPEC.kept[0], rows)
    assert plain(followed(held, rosters, rosters[2])) == under(naive.net(rows), rosters)


@given(STATES, STATES, st.sampled_from([1, -1]))
def test_two_states_are_combined_under_the_lower_of_their_rosters(left, right, sign):
    total = left.combined(right, sign)
    rosters = tuple(a.lowered(b) for a, b in zip(left.rosters, right.rosters, strict=True))
    for a, b in zip(total.rosters, rosters, strict=True):
        assert a.same(b)
    mine, theirs = (plain(each.dictionaries[0]) for each in (left, right))
    both = naive.net([*mine.items(), *theirs.items()]) if sign > 0 else naive.minus(mine, theirs)
    assert plain(total.dictionaries[0]) == (under(both, rosters) if total.grouped else both)
    assert total.grouped == (left.grouped or right.grouped)


@given(STATES, STATES, STATES)
def test_states_are_combined_in_any_order(one, two, three):
    totals = [reduce(SampleState.combined, order) for order in permutations((one, two, three))]
    for total in totals:
        assert total.same(totals[0])
    assert one.combined(two.combined(three)).same(totals[0])


@given(STATES, STATES)
def test_what_is_followed_is_bit_identical_after_adding_and_subtracting(one, two):
    there_and_back = one.combined(two).combined(two, -1)
    alone = one.in_second_stage() if there_and_back.grouped else one
    assert there_and_back.same(alone.under(there_and_back.rosters))


@given(ROWS, ROWS, RATES)
def test_a_batch_under_an_older_roster_is_brought_up_to_date(old, late, rate):
    rosters = rosters_of(rate, (1.0, {}), 0.5)
    reduced = state(SPEC, old).in_second_stage().under(rosters)
    fresh = state(SPEC, late)
    whole = state(SPEC, [*old, *late]).in_second_stage().under(rosters)
    assert reduced.combined(fresh).same(whole)
    assert fresh.combined(reduced).same(whole)


@given(st.lists(STATES, min_size=1, max_size=4))
def test_panes_come_under_one_roster(states):
    grouped = [each.in_second_stage() for each in states]
    made = under_one_roster(grouped)
    for before, after in zip(grouped, made, strict=True):
        for a, b in zip(after.rosters, made[0].rosters, strict=True):
            assert a.same(b)
        assert after.same(before.under(made[0].rosters))


@given(ROWS)
def test_the_second_stage_is_entered_once(rows):
    first = state(SPEC, rows)
    second = first.in_second_stage()
    assert second.grouped
    assert second.follows_all
    assert second.in_second_stage() is second
    assert plain(second.dictionaries[0]) == naive.net(rows)
    assert first.nbytes == second.nbytes == sum(each.nbytes for each in first.dictionaries)


def test_states_differ_by_stage_rosters_and_rows():
    rows = [(naive.element((1, 2), ()), (1, 1))]
    one = state(SPEC, rows)
    assert one.same(state(SPEC, rows))
    assert not one.same(state(SPEC, []))
    assert not one.same(one.in_second_stage())
    lower = replace(one.in_second_stage(), rosters=(Roster(SPEC.seeds[0], 0.5), *one.rosters[1:]))
    assert not lower.same(one.in_second_stage())
