"""Change data from the middle of a table's life: rows are deleted that never came."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eddyline as el

QUERIES = {
    "n": "SELECT COUNT(*) FROM s",
    "kinds": "SELECT COUNT(DISTINCT k) FROM s",
    "pairs": "SELECT COUNT(*) FROM s JOIN t ON s.k = t.k",
    "except": "SELECT COUNT(*) FROM (SELECT k FROM s EXCEPT SELECT k FROM t)",
    "by_x": "SELECT x, COUNT(*) AS n FROM s GROUP BY x",
    "others": "SELECT COUNT(*) FROM t",
}
NOTE = "rows of stream 's' were deleted whose inserts are not in it. Answers match no state that its table ever had"


def plan(budget):
    w = el.Workload(budget=budget, seed=3)
    w.stream("s", "k BIGINT, x INT", changes="w").stream("t", "k BIGINT", changes="w")
    for name, text in QUERIES.items():
        w.query(name, text)
    return w.plan()


def rows(keys, weight):
    return pa.table({"k": keys, "x": (keys % 5).astype(np.int32), "w": np.full(len(keys), weight)})


def state(budget, unseen):
    made = plan(budget).empty()
    made.update("s", rows(np.arange(60_000), 1))
    made.update("s", rows(np.arange(100_000, 100_000 + unseen), -1))
    return made.update("t", {"k": np.arange(30_000, 110_000), "w": np.ones(80_000, np.int64)})


@pytest.mark.parametrize(("budget", "shown"), [("8 MB", "20,000 "), ("64 KB", "about ")])
def test_every_answer_that_they_touch_says_so_and_keys_below_zero_are_not_there(budget, shown):
    made = state(budget, 20_000)
    for name in QUERIES:
        found = [note for note in made.answer(name).notes if NOTE in note]
        assert len(found) == (name != "others")
        for note in found:
            assert note.startswith(shown)
    assert made.answer("kinds").low <= 60_000 <= made.answer("kinds").high
    if shown == "about ":
        number = int(next(n for n in made.answer("n").notes if NOTE in n).split()[1].replace(",", ""))
        assert number == pytest.approx(20_000, rel=0.15)


@pytest.mark.parametrize("budget", ["8 MB", "64 KB"])
def test_a_stream_whose_deletes_all_had_their_insert_has_no_such_note(budget):
    made = state(budget, 0).update("s", rows(np.arange(50_000), -1))
    assert not [note for name in QUERIES for note in made.answer(name).notes if NOTE in note]


@pytest.mark.spark
def test_a_run_can_be_told_to_fail_and_takes_nothing_of_that_batch(spark, tmp_path):
    (tmp_path / "s").mkdir()
    (tmp_path / "t").mkdir()
    pq.write_table(rows(np.arange(100), 1), tmp_path / "s" / "0.parquet")
    pq.write_table(rows(np.arange(100), 1).drop(["x"]), tmp_path / "t" / "0.parquet")

    def start(**options):
        frames = {
            name: spark.readStream.schema(schema)
            .option("maxFilesPerTrigger", 1)
            .parquet(str(tmp_path / name))
            for name, schema in (("s", "k BIGINT, x INT, w BIGINT"), ("t", "k BIGINT, w BIGINT"))
        }
        return plan("64 KB").start(
            spark, frames, store=tmp_path / "state", trigger="available now", **options
        )

    with start(on_unseen_delete="fail") as run:
        run.await_termination()
    pq.write_table(rows(np.arange(90, 103), -1), tmp_path / "s" / "1.parquet")
    with pytest.raises(
        el.EddylineError, match=r"batch 1 of stream s is not applied: 3 rows of stream 's' were deleted"
    ):
        start(on_unseen_delete="fail").await_termination()
    assert el.open(tmp_path / "state").answer("n").value == 100
    with start() as run:
        run.await_termination()
    shown = el.open(tmp_path / "state").answer("n")
    assert shown.value == 87
    assert any(note.startswith("3 rows of stream 's'") for note in shown.notes), shown.notes


def test_a_misspelled_choice_is_reported(tmp_path):
    with pytest.raises(el.PipelineError, match="on_unseen_delete='ignore' is neither note nor fail"):
        plan("64 KB").start(None, {}, store=tmp_path / "state", on_unseen_delete="ignore")
