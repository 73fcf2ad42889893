"""Drawings for notebooks: well-formed whatever the values are, with bands where the numbers are."""

import xml.etree.ElementTree as ET
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import inf, isnan, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.answer.drawing import (
    Markup,
    Span,
    axis_of,
    axis_position,
    block,
    draw_answer,
    draw_column,
    draw_shares,
    escaped,
    relative_axis,
    table,
)
from eddyline.answer.estimate import Estimate

SVG = "{http://www.w3.org/2000/svg}"
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.decimals(allow_nan=False),
    st.dates(),
    st.datetimes(),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="\ufffe\uffff")),
    st.binary(),
    st.sampled_from([10**400, -1e308, 1.7e308, 5e-324, Decimal("Infinity")]),
)


def rectangles(drawing):
    """The rectangles of a drawing, as (left, right, opacity)."""
    found = [each.attrib for each in ET.fromstring(drawing).iter(f"{SVG}rect")]
    return [(float(r["x"]), float(r["x"]) + float(r["width"]), float(r["opacity"])) for r in found]


@given(VALUES, VALUES, VALUES)
def test_an_estimate_of_any_value_shows_itself(value, low, high):
    estimate = Estimate("<q>", value, low, high, 0.95, "<m>", notes=("<n>",))
    shown = ET.fromstring(estimate._repr_html_())
    assert "<q>" in "".join(shown.itertext())
    for drawing in shown.iter(f"{SVG}svg"):
        assert drawing.get("role") == "img"
        assert drawing.get("aria-label") == f"<q>: {estimate}" or "\n" in str(estimate)
        assert not {"nan", "inf", "-inf"} & {text for each in drawing.iter() for text in each.attrib.values()}


@given(st.lists(st.tuples(VALUES, VALUES, VALUES), min_size=1, max_size=5))
def test_a_column_of_any_values_has_a_drawing_for_each(answers):
    drawn = draw_column(answers, ["<g>"] * len(answers))
    assert len(drawn) == len(answers)
    for drawing in drawn:
        for left, right, _ in rectangles(drawing) if drawing else ():
            assert -1 <= left <= right <= 161


def test_the_band_goes_from_low_to_high_and_the_mark_is_at_the_value():
    drawing = draw_answer(1000, 900, 1050, "label")  # on an axis of 10% to both sides, 224 pixels long
    (band, mark) = rectangles(drawing)
    assert band[:2] == pytest.approx((8, 8 + 224 * 0.75), abs=0.02)
    assert sum(mark[:2]) / 2 == pytest.approx(8 + 224 * 0.5, abs=0.02)
    assert [each.text for each in ET.fromstring(drawing).iter(f"{SVG}text")] == ["−10%", "+10%"]


@pytest.mark.parametrize(
    ("answer", "arrows"),
    [
        ((10, 9, inf), 1),
        ((10, -inf, 11), 1),
        ((10, 9, 11), 0),
        ((date(2024, 1, 9), None, date(2024, 2, 1)), 1),
    ],
)
def test_an_open_end_is_an_arrow(answer, arrows):
    assert draw_answer(*answer, "").count("<path") == arrows


@pytest.mark.parametrize(
    "answer", [(5, -inf, inf), ("a", "a", "b"), (None, 1, 2), (nan, nan, nan), (True, False, True)]
)
def test_what_has_no_interval_to_draw_is_not_drawn(answer):
    assert draw_answer(*answer, "") == ""


def test_bars_are_as_long_as_their_values():
    drawn = draw_column(
        [(100, 90, 110), (50, 50, 50), (None, None, None), (Decimal("-10.00"), -20, 0)], "abcd"
    )
    axis = 144 / 130  # pixels a unit, from -20 to 110
    lengths = [rectangles(each)[0][1] - rectangles(each)[0][0] if each else None for each in drawn]
    assert lengths == [
        pytest.approx(length * axis, abs=0.02) if length else None for length in (100, 50, None, 10)
    ]


def test_shares_fill_the_bar_and_small_ones_are_still_there():
    found = rectangles(draw_shares([("<a>", 900), ("b", 99), ("c", 1)], "memory"))
    assert [right - left for left, right, _ in found] == pytest.approx([575, 62.36, 0.5], abs=0.02)
    assert len({opacity for *_, opacity in found}) == 3


@given(st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9990, 1, 1)), st.integers(0, 10**6))
def test_times_stand_in_their_order(moment, seconds):
    later = moment + timedelta(seconds=seconds)
    assert axis_position(later) - axis_position(moment) == pytest.approx(seconds, abs=1e-3)
    assert axis_position(moment.replace(tzinfo=UTC)) == axis_position(moment)
    assert axis_position(moment.date()) <= axis_position(moment)


def test_what_has_no_place_is_nan():
    for value in (None, "a", b"a", True, nan, 10**400, -1e308):
        assert isnan(axis_position(value))


@given(st.lists(st.tuples(st.floats(-1, 0), st.floats(0, 1)), max_size=4))
def test_a_relative_axis_has_room_for_all(ends):
    low, high = relative_axis(Span(0.0, *each) for each in ends)
    assert low == -high
    for first, last in ends:
        assert low <= first
        assert last <= high


def test_an_axis_of_one_place_has_a_length():
    for place in (0.0, 5.0, -5.0, 1e300):
        low, high = axis_of([Span(place, place, place)])
        assert low < place < high


def test_texts_are_escaped_once_and_markup_is_not():
    assert escaped("<b>") == "&lt;b&gt;"
    assert escaped(escaped("<b>")) == "&lt;b&gt;"
    assert "<i>x</i>" in block(Markup("<i>x</i>"), "<u>")
    assert "&lt;u&gt;" in block(Markup("<i>x</i>"), "<u>")


def test_a_short_row_reaches_to_the_end_of_its_table():
    shown = ET.fromstring(table(("a", "b", "c"), [("1", "2", "3"), ("1", "long")], numbers=(1,)))
    cells = [[each.get("colspan") for each in row] for row in shown.iter("tr")]
    assert cells == [[None] * 3, [None] * 3, [None, "2"]]
