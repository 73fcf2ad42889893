"""Numbers on Arrow: decimals become the nearest doubles, NaN is ordered as Spark orders it."""

import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from eddyline.errors import PipelineError
from eddyline.expressions import arrow_eval
from eddyline.expressions.arrow_eval import evaluate
from eddyline.expressions.arrow_values import compare_floats, decimal_to_float, remainder
from eddyline.expressions.schema import parse_schema

COLUMNS = parse_schema("t", "x DOUBLE, m DECIMAL(20,5), a BIGINT, f FLOAT, c STRING")


@pytest.mark.parametrize(("precision", "scale"), [(5, 1), (18, 4), (20, 5), (38, 10), (38, 30), (38, 0)])
def test_decimals_become_the_nearest_doubles(precision, scale):
    rng = np.random.default_rng(precision + scale)
    numbers = [
        Decimal(int(rng.integers(-(10**9), 10**9)) * 10 ** int(rng.integers(0, max(precision - 8, 1))))
        for _ in range(500)
    ]
    numbers = [None, *(number.scaleb(-scale) for number in numbers if abs(number) < 10**precision)]
    array = pa.chunked_array(
        [
            pa.array(numbers, pa.decimal128(precision, scale)).slice(2),
            pa.array(numbers[:7], pa.decimal128(precision, scale)),
        ]
    )
    expected = [None if number is None else float(number) for number in array.to_pylist()]
    assert decimal_to_float(array, pa.float64()).to_pylist() == expected


def test_equal_doubles_and_decimals_meet():
    numbers = [Decimal(i).scaleb(-3) for i in range(-500, 500)]
    table = pa.table({"x": [float(n) for n in numbers], "m": pa.array(numbers, pa.decimal128(20, 5))})
    for text in (
        "`x` = `m`",
        "`x` IN (`m`)",
        "`x` BETWEEN `m` AND `m`",
        "CAST(`m` AS DOUBLE) = `x`",
        "COALESCE(`m`, `x`) = `x`",
    ):
        assert pc.sum(evaluate(text, table, COLUMNS)).as_py() == 1000, text
    assert evaluate("`x` = 0.3", table, COLUMNS).to_pylist().count(True) == 1


def test_bigints_meet_doubles_as_doubles():
    table = pa.table(
        {"a": [2**53 + 1, 2**63 - 1], "x": [float(2**53), 2.0**63], "f": pa.array([0.1, 0.5], pa.float32())}
    )
    assert evaluate("`a` = `x`", table, COLUMNS).to_pylist() == [True, True]
    assert evaluate("`a` IN (1, 9007199254740992e0)", table, COLUMNS).to_pylist() == [True, False]
    assert evaluate("`f` = 0.1", table, COLUMNS).to_pylist() == [False, False]
    assert evaluate("`f` = 0.5", table, COLUMNS).to_pylist() == [False, True]


def test_nan_equals_itself_and_is_greater_than_all():
    values = [1.0, math.nan, math.inf, None]
    pairs = [(a, b) for a in values for b in values]
    left, right = (pa.array([pair[i] for pair in pairs], pa.float64()) for i in (0, 1))
    rank = {1.0: 0, math.inf: 1}
    for name, operator in (("equal", "=="), ("less", "<"), ("greater_equal", ">="), ("not_equal", "!=")):
        expected = [
            None if None in (a, b) else eval(f"{rank.get(a, 2)} {operator} {rank.get(b, 2)}")
            for a, b in pairs
        ]
        assert compare_floats(getattr(pc, name), left, right).to_pylist() == expected


def test_an_argument_that_no_rule_reads_is_refused(monkeypatch):
    """A newer parser may say more in a node: what the rule of the node does not read is not passed over."""
    tree = arrow_eval._parsed("`c` LIKE 'x'").copy()
    tree.set("wholly_new", True)
    monkeypatch.setattr(arrow_eval, "_parsed", lambda text: tree)
    with pytest.raises(PipelineError, match="only be evaluated by Spark"):
        evaluate("`c` LIKE 'x'", pa.table({"c": ["x"]}), COLUMNS)


@pytest.mark.parametrize(
    "text",
    ["try_cast(`a` AS DECIMAL(38,0)) = 1", "`a` BETWEEN SYMMETRIC 2 AND 1", "CASE `a` WHEN 1 THEN 2 END = 2"],
)
def test_forms_that_say_more_are_refused(text):
    with pytest.raises(PipelineError, match="only be evaluated by Spark"):
        evaluate(text, pa.table({"a": [1]}), COLUMNS)


def test_other_alphabets_change_case_as_in_java():
    table = pa.table({"c": ["straße", "ΑΣ", "İ", "abc", None]})
    assert evaluate("upper(`c`)", table, COLUMNS).to_pylist() == ["STRASSE", "ΑΣ", "İ", "ABC", None]
    assert evaluate("lower(`c`)", table, COLUMNS).to_pylist() == ["straße", "ας", "i̇", "abc", None]


def test_a_remainder_by_a_decimal_below_one():
    column = pa.array([Decimal("7.50"), Decimal("-7.50"), None], pa.decimal128(10, 2))
    divisor = pa.scalar(Decimal("0.4"), pa.decimal128(1, 1))
    assert remainder(column, divisor).to_pylist() == [Decimal("0.30"), Decimal("-0.30"), None]


def test_floor_and_ceil_have_the_types_and_ends_of_spark():
    columns = parse_schema("t", "a BIGINT, d DOUBLE, m DECIMAL(4,2), w DECIMAL(38,0)")
    table = pa.table(
        {
            "a": pa.array([-7, None, 2**63 - 1]),
            "d": [math.nan, -1e300, 2.5],
            "m": pa.array([Decimal("-99.99"), Decimal("1.00"), None], pa.decimal128(4, 2)),
            "w": pa.array([Decimal(10**38 - 1), None, Decimal(-3)], pa.decimal128(38, 0)),
        }
    )
    for column, floor, ceil, kind in (
        ("a", [-7, None, 2**63 - 1], [-7, None, 2**63 - 1], pa.int64()),
        ("d", [0, -(2**63), 2], [0, -(2**63), 3], pa.int64()),
        ("m", [-100, 1, None], [-99, 1, None], pa.decimal128(3, 0)),
        ("w", [10**38 - 1, None, -3], [10**38 - 1, None, -3], pa.decimal128(38, 0)),
    ):
        for name, expected in (("FLOOR", floor), ("CEIL", ceil)):
            found = evaluate(f"{name}(`{column}`)", table, columns)
            assert (found.type, found.to_pylist()) == (kind, expected)
