"""Bounds of columns against predicates: nothing is ruled out that some value between them meets."""

import datetime as dt

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.expressions.arrow_eval import evaluate
from eddyline.expressions.arrow_values import to_arrow
from eddyline.expressions.schema import parse_schema
from eddyline.sql.frame_conditions import rules_out

COLUMNS = parse_schema("t", "a BIGINT, s STRING, d DATE")
FORMS = [
    "a {op} {n}", "{n} {op} a", "(a) {op} ({n})", "a {op} {n}.5", "a BETWEEN {n} AND {m}", "a NOT BETWEEN {n} AND {m}", "NOT a {op} {n}",
    "a {op} {n} OR a = {m}", "a + 1 {op} {n}", "a {op} NULL", "a IS NULL", "a IN ({n}, {m})", "a <> {n}",
]  # fmt: skip


def bounds_of(column, values, kind):
    return {column: tuple(pa.array([end(values)], kind) for end in (min, max))}


@given(
    form=st.sampled_from(FORMS),
    op=st.sampled_from(["<", "<=", ">", ">=", "="]),
    n=st.integers(-4, 4),
    m=st.integers(-4, 4),
    values=st.lists(st.integers(-5, 5), min_size=1, max_size=5),
)
def test_what_is_ruled_out_is_met_by_no_row(form, op, n, m, values):
    text = form.format(op=op, n=n, m=m)
    out = rules_out(text, bounds_of("a", values, pa.int64()), COLUMNS, "UTC")
    between = pa.table({"a": pa.array([*range(min(values), max(values) + 1), None])})
    met = any(evaluate(text, between, COLUMNS).to_pylist())
    assert not (out and met)
    if form in FORMS[:3]:
        assert out == (not met)


@pytest.mark.parametrize(
    ("text", "column", "values", "out"),
    [
        ("s >= 'n'", "s", ["a", "mz"], True),
        ("s >= 'm'", "s", ["a", "mz"], False),
        ("s = 'é'", "s", ["a", "z"], True),
        ("s LIKE 'x%'", "s", ["a", "b"], False),
        ("d < DATE '1960-01-01'", "d", [dt.date(1960, 1, 1), dt.date(1970, 1, 1)], True),
        ("d > DATE '1960-01-01'", "d", [dt.date(1960, 1, 1), dt.date(1970, 1, 1)], False),
        ("a > 5", "s", ["a", "b"], False),
    ],
)
def test_strings_dates_and_columns_without_bounds(text, column, values, out):
    kind = next(to_arrow(each.type) for each in COLUMNS if each.name == column)
    assert rules_out(text, bounds_of(column, values, kind), COLUMNS, "UTC") is out
