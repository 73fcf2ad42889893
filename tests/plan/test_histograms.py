"""Histograms hold the rows they were built of, and keep them when two are cut to common buckets."""

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.errors import PlanError
from eddyline.plan.partition.histograms import Histogram, aligned, equi_depth

COLUMNS = st.dictionaries(st.integers(-50, 200), st.integers(1, 1000), min_size=1, max_size=60)


def built(column: dict[int, int], buckets: int) -> Histogram:
    return equi_depth(np.array(list(column)), np.array(list(column.values())), buckets)


@settings(max_examples=80, deadline=None)
@given(COLUMNS, st.integers(1, 12))
def test_each_bucket_counts_the_values_from_its_low_bound_to_the_next(column, buckets):
    histogram = built(column, buckets)
    assert len(histogram.lows) <= buckets
    ends = (*histogram.lows[1:], max(column) + 1)
    for index, (low, end) in enumerate(zip(histogram.lows, ends, strict=True)):
        inside = [count for value, count in column.items() if low <= value < end]
        assert histogram.rows[index] == sum(inside)
        assert histogram.distinct[index] == len(inside)
        assert histogram.self_joins()[index] == sum(count**2 for count in inside)
    assert histogram.lows[0] == min(column)
    assert histogram.high == max(column)


@settings(max_examples=80, deadline=None)
@given(COLUMNS, st.integers(1, 12))
def test_no_bucket_is_deeper_than_its_share_and_its_deepest_value(column, buckets):
    histogram = built(column, buckets)
    limit = sum(column.values()) / buckets + max(column.values())
    assert max(histogram.rows) <= limit


@settings(max_examples=80, deadline=None)
@given(COLUMNS, COLUMNS, st.integers(1, 8), st.integers(1, 8))
def test_aligned_histograms_have_the_same_buckets_and_lose_nothing(one, two, fine, coarse):
    before = built(one, fine), built(two, coarse)
    after = aligned(*before)
    assert after[0].lows == after[1].lows
    assert after[0].high == after[1].high
    for old, new in zip(before, after, strict=True):
        assert sum(new.rows) == pytest.approx(sum(old.rows))
        assert sum(new.distinct) == pytest.approx(sum(old.distinct))
        assert new.self_joins().sum() == pytest.approx(old.self_joins().sum())
        for low, rows in zip(old.lows, old.rows, strict=True):
            end = old.lows.index(low) + 1
            later = [new.lows.index(old.lows[end])] if end < len(old.lows) else [len(new.lows)]
            assert sum(new.rows[new.lows.index(low) : later[0]]) == pytest.approx(rows)


def test_a_bucket_of_integers_is_cut_by_how_many_of_them_lie_on_either_side():
    left, right = aligned(
        Histogram((0, 10), 19, (10.0, 100.0), (10, 5)), Histogram((5,), 30, (26.0,), (26,), (52.0,))
    )
    assert left == Histogram((0, 5, 10), 30, (5.0, 5.0, 100.0), (5.0, 5.0, 5.0))
    assert right == Histogram((0, 5, 10), 30, (0.0, 5.0, 21.0), (0.0, 5.0, 21.0), (0.0, 10.0, 42.0))


def test_dates_are_cut_by_days_and_other_strings_by_their_bytes():
    year = equi_depth(np.array(["2024-01-01", "2024-12-31"], dtype="M8[D]"), np.array([365, 1]), 1)
    assert (year.lows, year.high) == (("2024-01-01",), "2024-12-31")
    spring = Histogram(("2024-04-01",), "2024-05-31", (61.0,), (61,))
    assert aligned(year, spring)[0].rows[0] == pytest.approx(366 * 91 / 365)
    words = aligned(Histogram(("aa",), "ac", (10.0,), (5,)), Histogram(("ab",), "ad", (1.0,), (1,)))
    assert words[0].rows == pytest.approx((5.0, 5.0))


def test_a_bucket_of_one_value_is_not_smeared():
    left, _ = aligned(
        Histogram((0.5, 7.5), 7.5, (1.0, 90.0), (1, 1)), Histogram((0.5, 8.0), 9.5, (1.0, 1.0), (1, 1))
    )
    assert left.rows == (1.0, 90.0, 0.0)


def test_large_integers_keep_their_differences():
    left, _ = aligned(
        Histogram((2**62,), 2**62 + 9, (10.0,), (10,)), Histogram((2**62 + 3,), 2**62 + 4, (1.0,), (1,))
    )
    assert left.rows == pytest.approx((3.0, 7.0))


@pytest.mark.parametrize("values", [[3, 1, 2], [0.25, -1.5, 9.0], ["b", "a", "ü"]])
def test_histograms_are_stored_as_json(values):
    histogram = equi_depth(np.array(values), np.array([5, 1, 2]), 2)
    assert msgspec.json.decode(msgspec.json.encode(histogram), type=Histogram) == histogram


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (lambda: Histogram((2, 1), 3, (1.0, 1.0), (1, 1)), "ascend"),
        (lambda: Histogram((1, 2), 1, (1.0, 1.0), (1, 1)), "ascend"),
        (lambda: Histogram((1, "b"), 3, (1.0, 1.0), (1, 1)), "all strings or all numbers"),
        (lambda: Histogram((1, 2), 3, (1.0,), (1, 1)), "each of its buckets"),
        (lambda: equi_depth(np.array([]), np.array([]), 3), "at least one value"),
        (lambda: equi_depth(np.array([1.0, np.inf]), np.array([1, 1]), 3), "finite"),
        (lambda: aligned(Histogram((1,), 2, (1.0,), (1,)), Histogram(("a",), "b", (1.0,), (1,))), "both as"),
    ],
)
def test_what_cannot_be_a_histogram_is_refused(bad, says):
    with pytest.raises(PlanError, match=says):
        bad()
