"""What earlier versions of the format wrote is read, answered and continued by this one."""

import shutil
from pathlib import Path
from typing import get_args

import msgspec
import pytest

import eddyline as el
from eddyline.api.durable import stamp
from eddyline.api.run import StartOptions, open_store
from eddyline.plan.layout import Layout, SynopsisKind
from eddyline.sketch import codec
from eddyline.store import PlanStamp, unchanged_names
from eddyline.store.reader import Reader
from tests.store.golden.make import QUERIES, TABLES, filled, groups_rows, plan, rows, stamped_plans

FOLDER = Path(__file__).parent / "golden"
FORMATS = sorted(FOLDER.glob("format-*"))
EXACT = {
    "rows": 1660,
    "total": 14393,
    "join": 8258,
    "chain": 204_299,
    "values": 701,
    "only": 0,
    "pairs": 1261,
}


def test_the_format_of_this_version_has_golden_files():
    assert FOLDER / f"format-{codec.VERSION}" in FORMATS


@pytest.mark.parametrize("folder", FORMATS, ids=lambda path: path.name)
@pytest.mark.parametrize("name", ["exact", "reduced", "sketches"])
def test_a_golden_state_is_answered_and_continued(folder, name):
    state = el.State.from_bytes((folder / f"{name}.state").read_bytes())
    for query in state.snapshot.layout.query_names:
        if query in EXACT:
            found = state.answer(query, confidence=0.999)
            assert found.value is None or found.low <= EXACT[query] <= found.high
            assert found.exact == (name == "exact" or query in ("rows", "total"))
    table, weights = rows("a")
    again = state.update("a", table, weights)
    assert again.answer("total").value == 2 * EXACT["total"]
    assert el.State.from_bytes(again.to_bytes()) == again


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*/groups.state")), ids=lambda path: path.parent.name)
def test_a_golden_state_of_groups_shows_the_late_one(path):
    state = el.State.from_bytes(path.read_bytes())
    for times in (1, 2):
        found = {(row["name"], row["j"]): row for row in state.answer("groups").to_arrow().to_pylist()}
        late = found["late", 9]
        assert late["n_low"] <= times * 2000 <= late["n_high"]
        assert not late["exact"]
        for row in found.values():
            if row["exact"]:
                assert row["n"] == times
        assert el.State.from_bytes(state.to_bytes()) == state
        state = state.update("a", groups_rows())


@pytest.mark.parametrize("folder", FORMATS, ids=lambda path: path.name)
def test_a_golden_store_is_read(folder):
    reader = el.open(folder / "store")
    assert {name: reader.answer(name).value for name in EXACT} == EXACT
    assert reader.answer("mean").value == pytest.approx(5.997, abs=1e-3)
    assert reader.answer("lately").value == 864


def test_fields_that_came_later_do_not_change_what_stores_know_of_a_plan():
    old, new = Reader(FOLDER / "format-3" / "store").latest().commit.plan, stamp(plan("600 KB").layout)
    assert "number_words" not in str(new.describe)
    assert {name: new.describe[name] for name in ("rows", "total")} == {
        name: old.describe[name] for name in ("rows", "total")
    }
    same = {name for name, text in old.describe.items() if new.describe.get(name) == text}
    for name in old.describe:
        if "TotalSpec" in old.describe[name]:
            assert name in same


STAMPS = {
    f"{path.parent.name}: {name}": each
    for path in sorted(FOLDER.glob("*/stamps.json"))
    for name, each in msgspec.json.decode(path.read_bytes(), type=dict[str, PlanStamp]).items()
}


def kept_layouts(layout):
    """The layout itself, and those of its windows."""
    return [layout, *(group.layout for group in layout.windows)]


@pytest.mark.parametrize("name", STAMPS)
def test_what_a_golden_plan_keeps_still_has_its_digests(name):
    """A digest that differs would make `--change-plan` throw away what a store has."""
    old = STAMPS[name]
    layout = msgspec.json.decode(old.header, type=Layout)
    now = stamp(layout)
    assert now.hash == old.hash
    assert now.identity == old.identity
    assert unchanged_names(old, now) == set(old.describe)


def test_golden_stamps_have_every_kind_of_synopsis_samples_and_windows():
    layouts = [msgspec.json.decode(each.header, type=Layout) for each in STAMPS.values()]
    inner = [each for layout in layouts for each in kept_layouts(layout)]
    kinds = {kept.demand.kind for layout in inner for kept in layout.kept}
    assert kinds == set(get_args(SynopsisKind))
    assert any(layout.windows for layout in layouts), layouts
    assert any(layout.samples for layout in layouts), layouts
    assert {name.split(": ")[1] for name in STAMPS} == set(stamped_plans())


def test_digests_differ_where_what_is_kept_does():
    """The same queries in four times the memory: each sketch is another one, exact totals and queries are the same."""
    layout = stamped_plans()["sketches"].layout
    one, other = stamp(layout), stamp(plan("480 KB", samples=False).layout)
    same = unchanged_names(one, other)
    assert set(layout.query_names) <= same
    for kept in layout.kept:
        assert (kept.id in same) == (kept.demand.kind == "total")


def test_golden_rows_still_have_these_answers():
    state = filled(plan("600 KB"))
    assert {name: state.answer(name).value for name in EXACT} == EXACT
    assert set(QUERIES) >= set(EXACT)
    assert len(TABLES) == 3


def test_sums_of_floats_that_earlier_versions_rounded_are_refused():
    """The files in rounded/ are of the last version that kept six digits of a DOUBLE: SUM(x) and a join's AVG(a.x)."""
    folder = FOLDER / "rounded"
    with pytest.raises(
        el.FormatVersion, match=r"sums of `x`, a DOUBLE, rounded to a few digits.*rebuild the state"
    ):
        el.State.from_bytes((folder / "doubles.state").read_bytes())
    with pytest.raises(el.FormatVersion, match="rounded to a few digits"):
        el.open(folder / "store").answer("total")


def test_no_run_goes_on_with_rounded_floats(tmp_path):
    where = shutil.copytree(FOLDER / "rounded" / "store", tmp_path / "store")
    made = el.Workload(budget="8 KB", seed=5).stream("a", "k BIGINT, x DOUBLE").stream("b", "k BIGINT")
    made.query("total", "SELECT SUM(x) FROM a")
    layout = made.query("mean", "SELECT AVG(a.x) FROM a JOIN b ON a.k = b.k").plan().layout
    with pytest.raises(el.WrongRun, match="another plan"):
        open_store(layout, str(where), StartOptions())
    with pytest.raises(el.FormatVersion, match=r"rounded to a few digits.*rebuild the state"):
        open_store(layout, str(where), StartOptions(change_plan=True))
