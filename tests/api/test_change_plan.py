"""Plans that change under a store: they stick, what is unchanged stays bit for bit, and new queries count all rows.

Exact answers come from DuckDB over all rows that were delivered.
"""

import re

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import eddyline as el
from eddyline.api.durable import from_epoch, stamp
from eddyline.api.jobs import HowToRun, begins_with_a_copy, prepare_run
from eddyline.api.pipeline import load_pipeline
from eddyline.api.run import StartOptions, open_store
from eddyline.cli import app
from eddyline.ingest.sections import to_sections
from eddyline.spark.checkpoint import Checkpoint, LocalFolder
from eddyline.store import Reader

GROUPED = "SELECT g, COUNT(*) AS n, SUM(x) AS total FROM r WHERE x > 3 GROUP BY g"
JOINED = "SELECT SUM(s.y) FROM r JOIN s ON r.k = s.k WHERE r.g < 4"
UNCOVERED = "SELECT COUNT(*) FROM r JOIN s ON r.x = s.y"


def workload(budget="64 KB", **queries):
    made = (
        el.Workload(budget=budget, seed=3)
        .stream("r", "k BIGINT, g INT, x BIGINT")
        .stream("s", "k BIGINT, y BIGINT")
    )
    made.explore("r", "g", "x").explore("s", "y")
    made.query("pairs", "SELECT COUNT(*) FROM r JOIN s ON r.k = s.k").query("n", "SELECT COUNT(*) FROM r")
    for name, sql in queries.items():
        made.query(name, sql)
    return made


def table(stream, number, rows=60):
    rng = np.random.default_rng([number, ord(stream)])
    k, v = rng.integers(0, rows // 3, rows), rng.integers(0, 9, rows)
    return pa.table({"k": k, "g": (v % 5).astype(np.int32), "x": v} if stream == "r" else {"k": k, "y": v})


class Delivered:
    """A store with its batches, and the same rows in DuckDB."""

    def __init__(self, where):
        self.where, self.batch, self.given = str(where), {"r": -1, "s": -1}, {"r": [], "s": []}

    def deliver(self, plan, *, rows=60, **settings):
        """Open the store as a run does, and deliver a batch of each stream."""
        with open_store(plan.layout, self.where, StartOptions(**settings)) as store:
            for stream in "rs" if rows else "":
                self.batch[stream] += 1
                given = table(stream, self.batch[stream], rows)
                self.given[stream].append(given)

                def change(epoch, stream=stream, given=given):
                    return to_sections(el.State(from_epoch(epoch)).update(stream, given).snapshot)

                store.commit(stream, f"query-{stream}", self.batch[stream], change, rows=rows)

    def exact(self, sql):
        database = duckdb.connect()
        for stream, tables in self.given.items():
            database.register(stream, pa.concat_tables(tables))
        return database.sql(sql).fetchall()

    @property
    def state(self):
        return el.open(self.where)


@pytest.fixture
def delivered(tmp_path):
    made = Delivered(tmp_path / "state")
    for _ in range(2):
        made.deliver(workload().plan())
    return made


def check_groups(delivered, name):
    found = delivered.state.answer(name)
    assert found.exact
    assert sorted((row["g"], row["n"], row["total"]) for row in found) == sorted(delivered.exact(GROUPED))


def test_a_new_query_counts_all_rows_and_the_change_sticks(delivered):
    before = Reader(delivered.where).latest().sections
    new = workload(groups=GROUPED, joined=JOINED)
    with pytest.raises(el.WrongRun, match=r"\+ groups"):
        delivered.deliver(new.plan(keep=delivered.state))
    delivered.deliver(new.plan(keep=delivered.state), rows=0, change_plan=True)
    after = Reader(delivered.where).latest().sections
    assert {name: after[name] for name in before if not name.startswith("input-check")} == {
        name: content for name, content in before.items() if not name.startswith("input-check")
    }
    for _ in range(3):
        check_groups(delivered, "groups")
        answer = delivered.state.answer("joined")
        assert answer.exact
        assert [(answer.value,)] == delivered.exact(JOINED)
        assert answer.value == delivered.state.answer(JOINED).value  # the same SQL, ad hoc
        assert not [note for note in answer.notes if "NULL in all" in note]
        delivered.deliver(new.plan(keep=delivered.state))  # a plain run
    kept = new.plan(keep=delivered.state)
    assert kept.layout.digest == stamp(delivered.state.snapshot.layout).hash
    assert "added to a running plan" in kept.explain()
    assert delivered.state.statistics().rows == {"r": 300, "s": 300}
    assert el.State.from_bytes(delivered.state.to_bytes()).answer("joined").exact
    assert set(delivered.state.answers()["query"].to_pylist()) == {"n", "pairs", "groups", "joined"}
    fewer = workload(joined=JOINED).plan(keep=delivered.state)  # what it is answered from stays
    delivered.deliver(fewer, change_plan=True)
    assert [(delivered.state.answer("joined").value,)] == delivered.exact(JOINED)


def test_a_query_that_needs_more_says_since_when_it_counts(delivered):
    new = workload("96 KB", again=UNCOVERED)
    delivered.deliver(new.plan(keep=delivered.state), rows=0, change_plan=True)
    answer = delivered.state.answer("again")
    assert not answer.exact
    assert answer.method == "exact since epoch 4"
    assert "only since epoch 4" in answer.notes[-1]
    delivered.deliver(new.plan(keep=delivered.state))
    for name, sql in {
        "pairs": "SELECT COUNT(*) FROM r JOIN s ON r.k = s.k",
        "n": "SELECT COUNT(*) FROM r",
    }.items():
        assert delivered.state.answer(name).exact
        assert [(delivered.state.answer(name).value,)] == delivered.exact(sql)
    assert delivered.state.answer("again").method == "exact since epoch 4"
    groups = workload(
        "128 KB", again=UNCOVERED, more="SELECT g, COUNT(*) AS n FROM r JOIN s ON r.g = s.y GROUP BY g"
    )
    delivered.deliver(groups.plan(keep=delivered.state), rows=0, change_plan=True)
    found = delivered.state.answer("more")
    assert not found.exact
    assert "(0 groups, 95% intervals, exact since epoch 7)" in str(found)
    assert found.rest["n"].high == float("inf")


def test_what_stays_is_not_made_smaller_by_what_is_added(tmp_path):
    delivered = Delivered(tmp_path / "state")
    delivered.deliver(workload("6 KB").plan(), rows=20_000)
    before = delivered.state
    assert not before.answer("pairs").exact
    with pytest.raises(el.PlanError, match=r'no memory for again\. Write budget = "\d+ KB"') as refused:
        workload("6 KB", again=UNCOVERED).plan(keep=before)
    needed = re.search(r'"(\d+ KB)"', str(refused.value))[1]
    new = workload(needed, again=UNCOVERED)
    delivered.deliver(new.plan(keep=before), rows=0, change_plan=True)
    for name in ("pairs", "n"):
        assert delivered.state.answer(name).numbers() == before.answer(name).numbers()
    delivered.deliver(new.plan(keep=delivered.state), rows=0)


PIPELINE = """
[workload]
budget = "64 KB"
seed = 3
store = "state"
[streams.r]
schema = "k BIGINT, g INT, x BIGINT"
explore = ["g", "x"]
format = "parquet"
path = "r"
[streams.s]
schema = "k BIGINT, y BIGINT"
explore = ["y"]
format = "parquet"
path = "s"
[queries]
n = "SELECT COUNT(*) FROM r"
pairs = "SELECT COUNT(*) FROM r JOIN s ON r.k = s.k"
"""


def ask(path, code):
    result = CliRunner().invoke(app, ["ask", str(path)])
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


def test_ask_answers_after_a_change_of_budget(tmp_path):
    path = tmp_path / "pipeline.toml"
    path.write_text(PIPELINE)
    delivered = Delivered(tmp_path / "state")
    delivered.deliver(load_pipeline(path).plan())
    for budget in ("128 KB", "8 KB"):
        path.write_text(PIPELINE.replace("64 KB", budget))
        assert "pairs" in ask(path, 0)
        changed = load_pipeline(path).plan(keep=delivered.state)
        with pytest.raises(el.WrongRun, match=r"~ budget: \d+,000 bytes -> \d+,000 bytes"):
            delivered.deliver(changed, rows=0)
        delivered.deliver(changed, rows=0, change_plan=True)
        assert "pairs" in ask(path, 0)
        delivered.deliver(load_pipeline(path).plan(keep=delivered.state))
        assert [(delivered.state.answer("pairs").value,)] == delivered.exact(
            "SELECT COUNT(*) FROM r JOIN s USING (k)"
        )
    path.write_text(PIPELINE.replace("seed = 3", "seed = 3\nconfidence = 0.99"))
    assert "~ confidence: 0.95 -> 0.99" in ask(path, 1)


def test_a_source_that_begins_with_a_copy_is_not_adopted(delivered, tmp_path):
    lost = {name: Checkpoint(LocalFolder(tmp_path / name), str(tmp_path / name)) for name in "rs"}
    plan = workload().plan(keep=delivered.state)
    for adopt in (False, True):
        with pytest.raises(el.WrongRun, match="its checkpoint was lost"):
            open_store(plan.layout, delivered.where, StartOptions(adopt=adopt, copied=("s",)), lost)
    open_store(plan.layout, delivered.where, StartOptions(adopt=True), lost).close()
    path = tmp_path / "pipeline.toml"
    table = '[streams.s]\nschema = "k BIGINT"\nformat = "eddyline-postgres"\noptions = { dsn = "x", table = "s"%s }\n'
    for option, copied in (("", True), (', snapshot = "never"', False)):
        path.write_text(
            '[workload]\nstore = "new"\n' + table % option + '[queries]\nn = "SELECT COUNT(*) FROM s"\n'
        )
        assert begins_with_a_copy(load_pipeline(path).streams["s"]) == copied


def test_a_window_that_is_added_is_not_told_that_times_are_missing(tmp_path):
    """Times were not looked at before; and what was looked at is not forgotten by another change."""

    def timed(**windows):
        made = el.Workload(budget="32 KB").stream("r", "k BIGINT, at TIMESTAMP", event_time="at")
        made.query("n", "SELECT COUNT(*) FROM r")
        for name, window in windows.items():
            made.query(name, "SELECT COUNT(*) FROM r", window=window)
        return made

    def deliver(plan, batch, at, **settings):
        with open_store(plan.layout, str(tmp_path), StartOptions(**settings)) as store:

            def change(epoch):
                given = pa.table({"k": [1, 2], "at": pa.array([at, at], pa.timestamp("us", "UTC"))})
                return to_sections(el.State(from_epoch(epoch)).update("r", given).snapshot)

            if batch is not None:
                store.commit("r", "query", batch, change, rows=2)

    def warnings():
        state = el.open(tmp_path)
        return [
            note
            for name in state.snapshot.layout.query_names
            for note in state.answer(name).notes
            if "NULL" in note
        ]

    now = 1_700_000_000_000_000
    deliver(timed().plan(), 0, now)
    for number, windows in enumerate(({"m": "1 minute"}, {"m": "1 minute", "h": "1 hour"}), 1):
        plan = timed(**windows).plan(keep=el.open(tmp_path))
        deliver(plan, None, now, change_plan=True)
        assert warnings() == []
        deliver(plan, number, now)
        assert warnings() == []
    empty = (
        timed(m="1 minute")
        .plan()
        .empty()
        .update("r", pa.table({"k": [1], "at": pa.nulls(1, pa.timestamp("us", "UTC"))}))
    )
    assert any("is NULL in all 1 rows" in note for note in empty.answer("m").notes), empty.answer("m").notes


PAIRS = "SELECT COUNT(*) FROM r JOIN s ON r.k = s.k"


def stored_bytes(delivered):
    return sum(map(len, Reader(delivered.where).latest().sections.values()))


@pytest.mark.parametrize(("before", "after"), [("64 KB", "1 MB"), ("6 KB", "64 KB"), ("64 KB", "16 KB")])
def test_a_changed_budget_takes_effect_at_once(tmp_path, before, after):
    """Exact stays exact within a larger budget, sampled answers hold, and a smaller one is kept at once."""
    delivered = Delivered(tmp_path / "state")
    delivered.deliver(workload(before, groups=GROUPED).plan(), rows=3000)
    was = delivered.state
    plan = workload(after, groups=GROUPED).plan(keep=was)
    delivered.deliver(plan, rows=0, change_plan=True)
    state, budget = delivered.state, plan.layout.budget
    assert state.nbytes <= budget
    assert stored_bytes(delivered) <= budget + 1000  # the names and lengths of what is stored
    if budget > was.snapshot.layout.budget:
        assert state.answer("pairs").numbers() == was.answer("pairs").numbers()
        rates = [[roster.base for roster in held.rosters] for held in state.snapshot.samples.values()]
    for _ in range(2):
        delivered.deliver(workload(after, groups=GROUPED).plan(keep=delivered.state), rows=3000)
        state = delivered.state
        assert state.nbytes <= budget
        (truth,) = delivered.exact(PAIRS)[0]
        answer = state.answer("pairs")
        assert answer.low <= truth <= answer.high
        assert not answer.exact or answer.value == truth
    if budget > was.snapshot.layout.budget:
        assert answer.exact == was.answer("pairs").exact
        now = [[roster.base for roster in held.rosters] for held in state.snapshot.samples.values()]
        assert now == rates  # nothing more was dropped: the smaller budget would have been exceeded


def test_what_a_rebuild_would_buy_is_said(tmp_path):
    path = tmp_path / "pipeline.toml"
    path.write_text(PIPELINE.replace("64 KB", "8 KB"))
    for name in "rs":
        (tmp_path / name).mkdir()
    delivered = Delivered(tmp_path / "state")
    delivered.deliver(load_pipeline(path).plan(), rows=3000)
    assert prepare_run(load_pipeline(path), HowToRun(once=True)).note is None
    path.write_text(PIPELINE.replace("64 KB", "16 KB"))
    note = prepare_run(load_pipeline(path), HowToRun(once=True, change_plan=True)).note
    held, would = map(int, re.findall(r"about (\d+)%", note))
    assert "16,000 instead of 8,000 bytes" in note
    assert held < would < 100
    path.write_text(PIPELINE.replace("64 KB", "4 MB"))
    note = prepare_run(load_pipeline(path), HowToRun(once=True, change_plan=True)).note
    assert "would hold everything, and be exact" in note
