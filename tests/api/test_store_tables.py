"""Answers of a store as tables: with freshness, at one epoch, and what a frame's options may ask."""

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pytest

import eddyline as el
from eddyline.answer.query import FRESHNESS
from eddyline.api.jobs import state_of
from eddyline.api.run import StartOptions, open_store
from eddyline.api.store_tables import StoreQuestion
from eddyline.ingest.sections import to_sections
from eddyline.store.layout import epoch_name

ROWS = pa.table({"k": [1, 1, 2], "g": ["a", "b", "a"]})


def plan(budget="64 KB"):
    w = el.Workload(budget=budget, seed=1).stream("t", "k BIGINT, g STRING").stream("u", "k BIGINT")
    w.query("n", "SELECT COUNT(*) FROM t").query("pairs", "SELECT COUNT(*) FROM t JOIN u ON t.k = u.k")
    w.query("most", "SELECT MAX(t.k) FROM t JOIN u ON t.k = u.k")
    return w.query("groups", "SELECT g, COUNT(*) AS n FROM t GROUP BY g").plan()


def commit(store, stream, rows, at, **counts):
    state = state_of(store.current).update(stream, rows)
    batch = sum(each.batch_id + 1 for name, each in store.current.commit.sources.items() if name == stream)
    store.commit(stream, "q", batch, to_sections(state.snapshot), rows=len(rows["k"]), at=at, **counts)


@pytest.fixture
def store(tmp_path):
    with open_store(plan().layout, str(tmp_path), StartOptions()) as made:
        yield made


def test_answers_have_the_freshness_of_the_streams_behind_them(store, tmp_path):
    commit(store, "t", ROWS, at=1_700_000_000.25, bad=2, late=1, deletes=1)
    commit(store, "u", {"k": np.array([1])}, at=1_700_000_060.0)
    shown = {row["query"]: row["freshness"] for row in el.open(tmp_path).answers().to_pylist()}
    assert shown["n"] == shown["groups"] | {"lag": shown["n"]["lag"]}
    assert shown["n"].pop("lag") > 60
    assert shown["n"] == {
        "epoch": 2, "rows": 3, "deletes": 1, "bad": 2, "late": 1,
        "last_batch_time": datetime(2023, 11, 14, 22, 13, 20, 250_000, tzinfo=UTC),
    }  # fmt: skip
    assert (shown["pairs"]["rows"], shown["pairs"]["last_batch_time"].second) == (4, 20)


def test_freshness_is_null_without_a_store_and_whole_for_refused_queries(tmp_path):
    small = plan("4 KB")
    keys = np.arange(5_000)
    rows = pa.table({"k": keys, "g": ["a"] * 5_000})
    assert small.empty().update("t", rows).answers()["freshness"].null_count == 4
    with open_store(small.layout, str(tmp_path), StartOptions()) as store:
        commit(store, "t", rows, at=1.0)
        commit(store, "u", {"k": keys}, at=2.0)
    (row,) = el.open(tmp_path).answers("most").to_pylist()
    assert (row["answer"], row["freshness"]["epoch"], row["freshness"]["rows"]) == ("refused", 2, 10_000)


def test_answers_of_some_queries_at_a_confidence():
    state = plan().empty().update("t", ROWS)
    text = "SELECT COUNT(*) FROM t WHERE g = 'a'"
    rows = state.answers("n", text, confidence=0.8).to_pylist()
    assert [(row["query"], row["value"], row["confidence"]) for row in rows] == [
        ("n", 3, 0.8),
        (text, 2, 0.8),
    ]
    with pytest.raises(el.PlanError, match="its queries are"):
        state.answers("nope")
    with pytest.raises(el.PlanError, match="is not a number between"):
        state.answers(confidence=2)


def test_an_epoch_is_read_while_it_is_kept(store, tmp_path):
    question = StoreQuestion(str(tmp_path), "n")
    for _ in range(4):
        commit(store, "t", ROWS, at=1.0)
    assert [question.table_at(epoch)["value"].to_pylist() for epoch in (2, 3, 4)] == [[6], [9], [12]]
    assert question.epoch() == 4
    assert question.table().drop_columns("freshness").equals(question.table_at(4).drop_columns("freshness"))
    assert question.table_at(1) is None
    assert question.table_at(5) is None  # of a store that was here before
    path = tmp_path / epoch_name(3)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(el.CorruptState, match="is damaged"):
        question.table_at(3)
    (tmp_path / epoch_name(4)).unlink()
    with pytest.raises(el.StoreError, match="epoch 4 is not in"):
        question.table_at(4)


def test_groups_are_a_table_of_their_own_columns(store, tmp_path):
    commit(store, "t", ROWS, at=1.0)
    question = StoreQuestion(str(tmp_path), "groups", form="groups")
    table = question.table()
    assert table.schema.equals(question.schema())
    assert table.field("freshness").type == FRESHNESS
    assert table.drop_columns("freshness").equals(el.open(tmp_path).answer("groups").to_arrow())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"confidense": "0.9"}, "no option 'confidense': its options are path, query, confidence, form."),
        ({"path": ""}, "needs the path of a store"),
        ({"path": "none"}, "there is no store at"),
        ({"confidence": "much"}, "confidence='much' of format eddyline is not a number between 0.5 and 1"),
        ({"confidence": "1.5"}, "is not a number between 0.5 and 1"),
        ({"query": "nope"}, "its queries are groups, most, n, pairs"),
        ({"form": "table"}, "form='table' of format eddyline is neither answers nor groups"),
        ({"form": "groups"}, "needs the option query"),
        ({"form": "groups", "query": "n"}, "query 'n' has no groups"),
        ({"form": "groups", "query": "SELECT g AS freshness, COUNT(*) FROM t GROUP BY g"}, "name with AS"),
    ],
)
def test_wrong_options_are_told_in_a_sentence(store, tmp_path, options, sentence):
    given = {"path": str(tmp_path), **options}
    if given["path"] == "none":
        given["path"] = str(tmp_path / "none")
    with pytest.raises(el.EddylineError, match=sentence.replace("(", r"\(").replace("*", r"\*")) as caught:
        StoreQuestion.from_options(given).schema()
    assert "\n" not in str(caught.value)
