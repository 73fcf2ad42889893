"""Exact aggregates of many groups at once are those of one group after the other, bit for bit."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.aggregates.catalog import moment_named
from eddyline.answer.aggregates import aggregate_value
from eddyline.answer.groups.columns import column_of_numbers, exact_column, sampled_column
from eddyline.answer.groups.sampled import GroupIntervals
from eddyline.api.workload import Workload

FUNCTIONS = ["COUNT", "SUM", "AVG", "VAR_SAMP", "VAR_POP", "STDDEV_SAMP", "STDDEV_POP"]
SMALL, LARGE = st.integers(-(10**6), 10**6), st.integers(-(2**80), 2**80)


def single(function, kind):
    """An aggregate of a column."""
    w = Workload(budget="1 MB").stream("e", f"g INT, x {kind}")
    layout = w.query("q", f"SELECT g, {function}(x) AS a FROM e GROUP BY g").plan().layout
    (planned,) = layout.queries
    return planned.query.aggregates[0].aggregate


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("kind", ["BIGINT", "DECIMAL(12,2)", "DOUBLE"])
def test_exact_columns_are_those_of_single_groups(function, kind):
    aggregate = single(function, kind)

    @given(st.lists(st.tuples(st.integers(-2, 9), SMALL | LARGE, SMALL | LARGE), max_size=5))
    def check(rows):
        fits = all(abs(each) < 2**62 for row in rows for each in row)
        totals = {
            name: np.array([row[i] for row in rows], dtype=np.int64 if fits else np.object_)
            for i, name in enumerate(("count", "sum", "squares"))
        }
        found = exact_column(aggregate, totals)[0].to_pylist()
        truth = [_as_column(aggregate_value(aggregate, dict(zip(totals, row, strict=True)))) for row in rows]
        assert list(map(repr, found)) == list(map(repr, truth)) or _same(found, truth)

    check()


def _as_column(value):
    """A sum of decimals is one number with all its digits; a column of many has floats."""
    return float(value) if isinstance(value, Decimal) else value


def _same(found, truth):
    """Integers beyond 64 bits come back as decimals, and sums of decimals keep digits that a float has not."""
    return len(found) == len(truth) and all(
        float(one) == other
        if isinstance(one, Decimal) and isinstance(other, float)
        else one == other and isinstance(one, float) == isinstance(other, float)
        for one, other in zip(found, truth, strict=True)
    )


def test_counts_of_a_sample_are_integers_where_no_end_is_open():
    ends = GroupIntervals(np.array([1.5, 2.5, 7.0]), np.array([-3.0, 2.2, 7.0]), np.array([9.1, 2.6, np.inf]))
    shown, none = np.array([True, True, False]), np.zeros(3, dtype=bool)
    value, low, high = sampled_column(ends, moment_named("count"), 1.0, shown, none)
    assert [each.type for each in (value, low, high)] == [pa.int64()] * 3
    assert [each.to_pylist() for each in (value, low, high)] == [[2, 2], [0, 2], [10, 3]]
    shown[:] = True
    assert sampled_column(ends, moment_named("count"), 1.0, shown, none)[2].to_pylist() == [10.0, 3.0, np.inf]


def test_counts_beyond_64_bits_and_missing_measures_are_told():
    ends = GroupIntervals(*(np.array([2.0**70, np.nan]) for _ in range(3)))
    everything, none = np.ones(2, dtype=bool), np.array([False, True])
    assert sampled_column(ends, moment_named("count"), 1.0, everything, none)[0].to_pylist() == [2**70, None]
    assert sampled_column(ends, moment_named("sum"), 0.5, everything, none)[0].to_pylist() == [2.0**69, None]
    assert column_of_numbers([1, None, 2.5]).to_pylist() == [1.0, None, 2.5]
