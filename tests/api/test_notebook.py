"""States, plans and groups in a notebook: every query has its line, and nothing that users wrote is markup."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pyarrow as pa
import pytest

import eddyline as el
from eddyline.api.run import StartOptions, open_store
from eddyline.ingest.sections import to_sections

SVG = "{http://www.w3.org/2000/svg}"
EVIL = '<script>alert(1)</script> & "co"'
QUERIES = {
    "n": "SELECT COUNT(*) FROM orders",
    "pairs": "SELECT COUNT(*) FROM orders o JOIN visits v ON o.customer = v.customer",
    "nothing": f"SELECT SUM(total) FROM orders WHERE region = '{EVIL}' AND total < 0",
    "last": "SELECT MAX(region) FROM orders",
    "by_region": "SELECT region, COUNT(*) AS n, AVG(total) AS mean FROM orders GROUP BY region",
}


def planned(budget="24 KB", **settings):
    made = el.Workload(budget=budget, seed=7, **settings)
    made.stream("orders", "customer BIGINT, region STRING, total DOUBLE").stream("visits", "customer BIGINT")
    for name, text in QUERIES.items():
        made.query(name, text)
    return made.plan()


def rows(number, regions):
    rng = np.random.default_rng(1)
    return {
        "orders": pa.table(
            {
                "customer": (3_000 * rng.random(number) ** 2).astype(np.int64),
                "region": [regions[i] for i in rng.integers(0, len(regions), number)],
                "total": rng.gamma(2, 50, number),
            }
        ),
        "visits": pa.table({"customer": (3_000 * rng.random(number) ** 2).astype(np.int64)}),
    }


@pytest.fixture(scope="module")
def state():
    made = planned().empty()
    for name, table in rows(30_000, ["north", "south", EVIL]).items():
        made.update(name, table)
    return made


def read(shown):
    """Return what is shown as a tree: all of it is well-formed XML, too."""
    return ET.fromstring(shown)


def rows_of(shown):
    """Return the texts of the rows of all its tables."""
    return [["".join(cell.itertext()) for cell in row] for row in read(shown).iter("tr")]


def cells(shown):
    """Return the texts of the rows by their first cell."""
    return {first: others for first, *others in rows_of(shown)}


def test_a_state_has_a_line_for_each_query(state):
    lines = cells(state._repr_html_())
    pairs, drawn = state.answer("pairs"), {}
    assert not pairs.exact
    assert lines["n"][0] == "30,000"
    assert lines["pairs"][:2] == [f"{pairs.value:,.0f}", f"{pairs.low:,.0f} to {pairs.high:,.0f} at 95%"]
    assert lines["nothing"][0] == "NULL"
    assert lines["by_region"][0] == "3 groups"
    for drawing in read(state._repr_html_()).iter(f"{SVG}svg"):
        drawn[drawing.get("aria-label").split(":")[0]] = len(list(drawing.iter(f"{SVG}rect")))
    assert drawn == {"n": 1, "pairs": 2}  # a mark; a band and its mark


def test_a_refused_query_says_why():
    made = el.Workload(budget="4 KB").stream("t", "word STRING").query("last", "SELECT MAX(word) FROM t")
    state = made.plan().empty().update("t", pa.table({"word": [f"w{i}" for i in range(5_000)]}))
    refused, reason = cells(state._repr_html_())["last"]
    assert refused == "refused"
    assert "the MAX of the missing rows is unknown" in reason


def test_a_state_before_any_row_shows_itself():
    lines = cells(planned().empty()._repr_html_())
    assert lines["n"][0] == "0"
    assert lines["by_region"][0] == "0 groups"


def test_what_users_wrote_is_never_markup(state):
    plan = planned()
    for shown in (plan, state, state.answer("by_region"), state.answer("last"), state.answer("nothing")):
        html = shown._repr_html_()
        assert "<script" not in html
        read(html)
    assert EVIL in cells(state.answer("by_region")._repr_html_())
    assert EVIL in "".join(read(plan._repr_html_()).itertext())


def test_nothing_has_a_colour_of_its_own_and_every_drawing_has_a_name(state):
    for shown in (planned(), state, state.answer("by_region"), state.answer("pairs")):
        html = shown._repr_html_()
        assert set(re.findall(r"(?:fill|stroke)=.(\w+)", html)) == {"currentColor"}
        assert set(re.findall(r"[;']color:(\w+)", html)) <= {"inherit"}
        for drawing in read(html).iter(f"{SVG}svg"):
            assert drawing.get("aria-label") or drawing.get("aria-hidden") == "true"


def test_groups_show_a_bar_for_each_number(state):
    groups = state.answer("by_region")
    assert len(list(read(groups._repr_html_()).iter(f"{SVG}svg"))) == 2 * len(groups)
    assert "3 groups, exact" in groups._repr_html_()


def test_many_groups_are_cut_and_said_to_be():
    state = planned("400 KB").empty().update("orders", rows(2_000, [f"r{i}" for i in range(50)])["orders"])
    html = state.answer("by_region")._repr_html_()
    assert "50 groups, exact; the first 20 are shown" in html
    assert html.count("<tr>") == 21


def test_a_plan_shows_its_memory_its_queries_and_its_text():
    plan = planned()
    lines, html = cells(plan._repr_html_()), plan._repr_html_()
    shares = [int(row[2].replace(",", "")) for row in rows_of(html) if len(row) == 5 and "%" in row[3]]
    assert sum(shares) == plan.nbytes
    assert set(QUERIES) <= lines.keys()
    assert lines["n"][0] == "exact"
    assert "a guess for data that do not fit" in lines["pairs"][0]
    assert plan.explain() in "".join(read(html).itertext())


def test_windows_are_in_the_memory_and_among_the_queries():
    made = el.Workload(budget="100 KB").stream("t", "k BIGINT, at TIMESTAMP", event_time="at")
    made.query("hourly", "SELECT COUNT(*) FROM t", window="1 hour", slide="10 minutes")
    lines = cells(made.plan()._repr_html_())
    assert lines["hourly"][0] == "over a window of 6 x 600 s"
    assert any("window of 6 x 600 s, 7 panes" in first for first in lines), lines


def test_a_state_of_a_store_tells_how_fresh_it_is(tmp_path):
    plan = planned()
    with open_store(plan.layout, str(tmp_path), StartOptions()) as store:
        taken = plan.empty().update("orders", rows(500, ["north"])["orders"])
        store.commit("orders", "q", 0, to_sections(taken.snapshot), rows=500, bad=2, at=1000.0)
    state = el.open(tmp_path)
    assert "as of epoch 1, 500 rows" in state._repr_html_()
    assert "1970-01-01 00:16:40" in state.answer("n")._repr_html_()
    assert "2 rows of stream" in state._repr_html_()
