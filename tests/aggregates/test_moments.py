"""Every aggregate of sums: its exact value, its linear form, its NULL, against definitions and finite differences."""

from fractions import Fraction
from math import isnan, prod

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from eddyline.aggregates.catalog import moment_named, moment_of_sql, value_aggregate_named, written_names
from eddyline.aggregates.moments import signed_root
from eddyline.sql.query import Aggregate, Detail
from tests.oracles.moments import ORACLES

MOMENTS = [moment_of_sql([name]) for name in written_names()]
RATIOS = [each for each in MOMENTS if not each.is_sum]
NUMBERS = st.integers(-50, 50)


def sums_of(moment, rows):
    return {
        name: sum(prod(value**power for value, power in zip(row, powers, strict=False)) for row in rows)
        for name, powers in moment.sums.items()
    }


@pytest.mark.parametrize("moment", RATIOS, ids=lambda each: each.name)
def test_the_linear_form_is_the_derivative(moment):
    random = np.random.default_rng(5)
    rows = random.normal(2.0, 1.0, (200, 2)) @ np.array([[1.0, 0.6], [0.0, 1.0]]) ** 2
    sums = {name: float(each) for name, each in sums_of(moment, rows.tolist()).items()}
    factors = moment.factors(sums)
    size = float(moment.size(sums))
    assert sum(factor * sums[name] for name, factor in factors.items()) == pytest.approx(0.0, abs=1e-9 * size)
    for name, factor in factors.items():
        step = 1e-6 * abs(sums[name])
        ends = [moment.population(sums | {name: sums[name] + side * step}) for side in (-1, 1)]
        slope = (ends[1] - ends[0]) / (2 * step) * sums["count"]
        assert slope == pytest.approx(factor, rel=1e-4, abs=1e-6 * size / abs(sums[name])), name


@pytest.mark.parametrize("moment", RATIOS, ids=lambda each: each.name)
@given(rows=st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=9))
def test_estimates_of_all_rows_are_the_exact_value(moment, rows):
    totals = sums_of(moment, rows)
    exact = moment.exact(totals, (Fraction(1),) * moment.arguments)
    found = moment.centre({name: float(each) for name, each in totals.items()})
    if exact is None:
        assert isnan(found)
        return
    assume(not isnan(found))  # a variance that is rounded away
    value, low, high = moment.ends(found, found, found)
    assert float(value) == pytest.approx(float(exact), rel=1e-6, abs=1e-6)
    assert low == pytest.approx(float(value)) == high
    assert moment.least <= value <= moment.most


@pytest.mark.parametrize("name", ORACLES)
@given(rows=st.lists(st.tuples(NUMBERS, NUMBERS), max_size=9))
def test_exact_values_are_those_of_the_definition(name, rows):
    moment = moment_of_sql([name])
    units = (Fraction(1, 10), Fraction(1, 4))[: moment.arguments]
    exact = moment.exact(sums_of(moment, rows), units)
    truth = ORACLES[name]([(Fraction(x, 10), Fraction(y, 4)) for x, y in rows])
    assert (exact is None) == (truth is None)
    assert exact is None or float(exact) == pytest.approx(truth, rel=1e-12, abs=1e-12)
    many = {key: np.array([each, each]) for key, each in sums_of(moment, rows).items()}
    if exact is not None:
        found = moment.exact_floats(many, units, np.asarray(moment.is_null(many)))
        assert found.tolist() == [float(exact)] * 2


@given(st.integers(-(2**200), 2**200), st.integers(1, 2**200))
def test_a_root_is_the_nearest_float(numerator, denominator):
    found = signed_root(numerator, denominator)
    assert (found < 0) == (numerator < 0)
    low, high = (Fraction(float(np.nextafter(abs(found), end))) for end in (0.0, np.inf))
    middle, exact = Fraction(abs(found)), Fraction(abs(numerator), denominator)
    assert ((low + middle) / 2) ** 2 <= exact <= ((middle + high) / 2) ** 2


def test_an_unknown_aggregate_is_an_error():
    with pytest.raises(ValueError, match="'kurtosis' is not an aggregate of sums"):
        Aggregate("kurtosis")
    with pytest.raises(ValueError, match="'mode' is not an aggregate of single values"):
        Detail("mode", "mode", ())
    assert moment_named("avg").name == "avg"
    assert value_aggregate_named("max").largest


def test_few_values_widen_and_too_few_are_not_known():
    found = moment_of_sql(["CORR"]).scarcity(np.array([3.0, 5.0, 6.0, 1000.0]))
    assert found[:2].tolist() == [np.inf, np.inf]
    assert found[2] == pytest.approx(np.sqrt(6.0))
    assert 1.0 < found[3] < 1.01
