"""Several sites of one plan: plans as bytes, merged stores, and a coordinator that outlives a site."""

import shutil

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import eddyline as el
from eddyline.api.durable import stamp
from eddyline.api.operations.sites import SitesFollower, merge_stores
from eddyline.cli import app
from eddyline.ingest.sections import to_sections
from eddyline.serve.watcher import Watcher
from eddyline.store import SourcePosition, Store
from tests.oracles.duckdb_sql import exact

QUERY = "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k"
FLOWS = "SELECT COUNT(DISTINCT k) FROM a"


def planned(budget="40 KB", seed=3, **settings):
    workload = el.Workload(budget=budget, seed=seed, **settings)
    workload.stream("a", "k BIGINT").stream("b", "k BIGINT")
    return workload.query("joined", QUERY).query("keys", FLOWS).plan()


def rows(seed, n=300, most=200):
    rng = np.random.default_rng(seed)
    return {name: pa.table({"k": rng.integers(0, most, n)}) for name in "ab"}


def filled(plan, tables):
    state = plan.empty()
    for name, table in tables.items():
        state.update(name, table)
    return state


def write(where, state, at=1_000_000.0, batch=0):
    """Write a state as a run would have: its streams go on."""
    sources = {
        name: SourcePosition("query", batch, tally.rows, tally.deletes, 0, at)
        for name, tally in state.snapshot.tallies.items()
    }
    content = stamp(state.snapshot.layout), "run", to_sections(state.snapshot)
    make = Store.replace_plan if Store.exists(where) else Store.create
    make(where, *content, sources=sources).close()


@pytest.fixture
def sites(tmp_path):
    """Three sites, each with the plan that it read from bytes; their rows."""
    data, made = planned().to_bytes(), {}
    for seed, name in enumerate(("north", "south", "west")):
        made[name] = rows(seed)
        write(str(tmp_path / name), filled(el.Plan.from_bytes(data), made[name]))
    return made


def whole(*tables):
    return {name: pa.concat_tables([each[name] for each in tables]) for name in "ab"}


def test_a_plan_is_the_same_after_bytes():
    plan = planned(samples=False)
    read = el.Plan.from_bytes(plan.to_bytes())
    assert read == plan
    assert read.explain() == plan.explain()
    assert read != planned(seed=4, samples=False)
    assert filled(read, rows(1)) + filled(plan, rows(2)) == filled(plan, whole(rows(1), rows(2)))


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1], lambda data: data[:60] + b"x" + data[61:], lambda _: "x"]
)
def test_damaged_plans_are_refused(damage):
    with pytest.raises(el.EddylineError):
        el.Plan.from_bytes(damage(planned().to_bytes()))
    with pytest.raises(el.CorruptState):
        el.Plan.from_bytes(planned().empty().to_bytes())


def test_merged_stores_hold_the_rows_of_all(tmp_path, sites):
    stores, into = [str(tmp_path / name) for name in sites], str(tmp_path / "all")
    state = merge_stores(stores, into)
    everything = whole(*sites.values())
    opened = el.open(into)
    assert opened == state == sum(el.open(store) for store in stores)
    assert opened.answer("joined").value == exact(QUERY, everything)
    assert opened.answer("joined").exact
    assert opened.answer("joined").freshness.rows == 1800
    write(stores[0], filled(planned(), whole(sites["north"], rows(9))), batch=1)
    merge_stores(stores, into)
    assert el.open(into).answer("joined").value == exact(QUERY, whole(everything, rows(9)))
    with pytest.raises(el.StoreError, match="named twice"):
        merge_stores([stores[0], stores[0]], into)
    with pytest.raises(el.WrongRun, match="not written by a merge"):
        merge_stores(stores[:2], stores[2])


def test_sketches_lose_nothing_and_samples_say_what_they_lose(tmp_path):
    for samples in (False, True):
        plan = planned("24 KB" if samples else "80 KB", samples=samples)
        parts = [rows(seed, 4000, 5000) for seed in (5, 6)]
        names = [str(tmp_path / f"{samples}-{seed}") for seed in (5, 6)]
        for name, part in zip(names, parts, strict=True):
            write(name, filled(plan, part))
        merged = merge_stores(names, str(tmp_path / f"{samples}-all"))
        if not samples:
            assert merged == filled(plan, whole(*parts))
        answer = merged.answer("joined")
        assert not answer.exact
        assert answer.low <= exact(QUERY, whole(*parts)) <= answer.high


def test_a_coordinator_outlives_a_site_and_says_which_and_since_when(tmp_path, sites):
    stores = [tmp_path / name for name in sites]
    follower = SitesFollower(stores)
    first = follower.look()
    assert first.problem is None
    assert first.state.answer("joined").value == exact(QUERY, whole(*sites.values()))
    assert not first.state.answer("joined").notes
    shutil.move(stores[1], tmp_path / "away")
    gone = follower.look()
    (note,) = gone.state.answer("joined").notes
    assert note.startswith("site south cannot be read since 20")
    assert note.endswith("its rows count up to epoch 0.")
    assert gone.state.answer("joined").value == first.state.answer("joined").value
    assert gone.is_news_after(first)
    write(str(stores[0]), filled(planned(), whole(sites["north"], rows(9))), batch=1)
    assert follower.look().state.answer("joined").value == exact(QUERY, whole(*sites.values(), rows(9)))
    shutil.move(tmp_path / "away", stores[1])
    back = follower.look().state.answer("joined")
    assert not back.notes
    assert back.value == exact(QUERY, whole(*sites.values(), rows(9)))


def test_a_site_that_was_never_there_and_one_that_is_late(tmp_path, sites):
    write(str(tmp_path / "north"), filled(planned(), sites["north"]), at=1_002_000.0, batch=1)
    follower = SitesFollower([tmp_path / name for name in (*sites, "east")])
    notes = follower.look().state.answer("joined").notes
    assert [note for note in notes if note.startswith("site east cannot be read since")]
    assert "site south is late: its last batch is of 1970-01-12 13:46:40+00:00." in notes
    assert SitesFollower([tmp_path / "nowhere"]).look().problem


def test_a_site_of_another_plan_is_named(tmp_path, sites):
    write(str(tmp_path / "odd"), filled(planned(seed=8), rows(5)))
    seen = SitesFollower([*(tmp_path / name for name in sites), tmp_path / "odd"]).look()
    assert "site odd has another plan" in seen.state.answer("joined").notes[0]
    assert seen.state.answer("joined").value == exact(QUERY, whole(*sites.values()))


def test_the_merged_answers_are_served(tmp_path, sites):
    follower = SitesFollower([tmp_path / name for name in sites])
    watcher = Watcher("sites", follower=follower)
    watcher._look()
    value = exact(QUERY, whole(*sites.values()))
    assert watcher.view.state.answer("joined").value == value
    assert f"{value:,.0f}".encode() in watcher.message


def test_the_commands(tmp_path, sites):
    run = CliRunner().invoke
    stores = [str(tmp_path / name) for name in sites]
    done = run(app, ["merge", *stores, "--into", str(tmp_path / "all")])
    assert done.exit_code == 0
    assert "3 stores merged into" in done.output
    assert run(app, ["serve", *stores]).exit_code == 1
    pipeline = tmp_path / "p.toml"
    pipeline.write_text(
        '[workload]\nbudget = "40 KB"\n[streams.a]\nschema = "k BIGINT"\nformat = "parquet"\npath = "a"\n'
        '[queries]\nn = "SELECT COUNT(DISTINCT k) FROM a"\n'
    )
    assert run(app, ["plan", str(pipeline), "--export", str(tmp_path / "plan.eddy")]).exit_code == 0
    assert el.Plan.from_bytes((tmp_path / "plan.eddy").read_bytes()).layout.query_names == ["n"]


def test_a_saved_state_is_a_store_that_goes_on(tmp_path, sites):
    state = filled(planned(), sites["north"])
    assert state.save(tmp_path / "own") == 0
    again = el.open(tmp_path / "own")
    assert again == state
    for name, table in sites["south"].items():
        again.update(name, table)
    assert again.save(tmp_path / "own") == 1
    opened = el.open(tmp_path / "own")
    assert opened.answer("joined").value == exact(QUERY, whole(sites["north"], sites["south"]))
    assert opened.answer("joined").freshness.rows == 1200
    with pytest.raises(el.WrongRun, match="not written by save"):
        state.save(tmp_path / "south")
