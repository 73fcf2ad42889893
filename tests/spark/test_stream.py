"""Continuous runs: the same bytes as one batch, each batch once, refusals by name, answers with freshness."""

import shutil
import threading
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eddyline as el
from eddyline.ingest.sections import HINTS, to_sections
from eddyline.spark.causes import SPARK_ERRORS
from eddyline.spark.sources import SparkSource
from eddyline.spark.sources.frames import read_frame
from eddyline.store import Reader, Store
from tests.spark.stream_job import expected, frames, plan, table, write_files

pytestmark = pytest.mark.spark


def run_all(spark, root, store, made=None, **settings):
    with (made or plan()).start(
        spark, frames(spark, root), store=store, trigger="available now", **settings
    ) as run:
        run.await_termination()
    return run


def test_streams_and_batches_give_the_same_bytes_and_answers_are_fresh(spark, tmp_path):
    write_files(tmp_path, 2)
    run = run_all(spark, tmp_path, tmp_path / "state")
    once = plan().sketch(spark, {s: spark.read.parquet(f"{tmp_path}/{s}") for s in "ab"})
    found = Reader(tmp_path / "state").latest()
    sections = {
        k: v for k, v in to_sections(once.snapshot).items() if not k.endswith(HINTS)
    }  # by order of rows
    assert {name: found.sections[name] for name in sections} == sections
    assert el.open(tmp_path / "state") == expected(2) == run.state()
    answer = el.open(tmp_path / "state").answer("pairs")
    fresh = answer.freshness
    assert (fresh.epoch, fresh.rows, fresh.bad) == (4, 800, 0)
    assert fresh.deletes == sum(int((table(s, n)["w"].to_numpy() < 0).sum()) for s in "ab" for n in range(2))
    assert 0 <= fresh.lag < 600
    assert "epoch 4" in repr(answer)
    assert [each.stream for each in run.answer("rows_a").freshness.streams] == ["a"]
    progress = run.progress()["b"]
    assert (progress.rows, progress.batch, progress.status, progress.error) == (400, 1, "ended", None)


def test_a_lost_checkpoint_is_refused_and_can_be_adopted(spark, tmp_path):
    write_files(tmp_path, 1)
    run_all(spark, tmp_path, tmp_path / "state")
    run_all(spark, tmp_path, tmp_path / "state")  # nothing is new
    shutil.rmtree(tmp_path / "state" / "checkpoints")
    with pytest.raises(el.WrongRun, match="its checkpoint was lost"):
        run_all(spark, tmp_path, tmp_path / "state")
    assert el.open(tmp_path / "state") == expected(1)
    with pytest.raises(el.WrongRun, match=r"would read 000\.parquet again, whose rows the store holds"):
        run_all(spark, tmp_path, tmp_path / "state", adopt=True)
    for stream in "ab":
        (tmp_path / stream / "000.parquet").rename(tmp_path / stream / "new.parquet")
    run_all(spark, tmp_path, tmp_path / "state", adopt=True)
    assert el.open(tmp_path / "state") == expected(1) + expected(1)


def test_a_store_behind_its_checkpoint_is_refused(spark, tmp_path):
    write_files(tmp_path, 1)
    folder = str(tmp_path / "checkpoints")
    run_all(spark, tmp_path, tmp_path / "state", checkpoint=folder)
    write_files(tmp_path, 2)
    with pytest.raises(el.WrongRun, match="holds no batch of stream a, and its checkpoint"):
        run_all(spark, tmp_path, tmp_path / "new", checkpoint=folder)


def test_a_second_writer_is_refused_and_readers_never_see_half_a_commit(spark, tmp_path):
    write_files(tmp_path, 3)
    store, wrong, stop = tmp_path / "state", [], threading.Event()
    states = []
    state = plan().empty()
    states.append(state.snapshot)

    def read():
        while not stop.is_set():
            if Store.exists(store):
                found = el.open(store)
                answer = found.answer("rows_a")
                if answer.freshness.rows != answer.freshness.deletes * 2 + answer.value:
                    wrong.append(answer)

    readers = [threading.Thread(target=read) for _ in range(16)]  # tests/store/test_readers.py has a hundred
    for reader in readers:
        reader.start()
    with plan().start(spark, frames(spark, tmp_path), store=store, trigger="available now") as run:
        with pytest.raises(el.Locked, match="held by process"):
            run_all(spark, tmp_path, store)
        run.await_termination()
    stop.set()
    for reader in readers:
        reader.join()
    assert wrong == []
    assert el.open(store) == expected(3)


def test_batch_frames_are_taken_once(spark, tmp_path):
    write_files(tmp_path, 1)
    static = {s: spark.read.parquet(f"{tmp_path}/{s}") for s in "ab"}
    for repeats in (0, 2):
        with plan().start(spark, static, store=tmp_path / "state") as run:
            assert run.await_termination()
            assert run.repeats == repeats
    assert el.open(tmp_path / "state") == expected(1)
    with pytest.raises(el.PipelineError, match="one frame per stream"):
        plan().start(spark, {"a": static["a"]}, store=tmp_path / "other")
    with pytest.raises(el.PipelineError, match="checkpoint="):
        plan().start(spark, static, store="s3://bucket/state")


def workload(*, added):
    made = el.Workload(budget="300 KB" if added else "150 KB", seed=5, samples=False)
    for stream in "ab":
        made.stream(stream, "k BIGINT, s STRING, x INT", changes="w")
    made.query("pairs", "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k").query("n", "SELECT COUNT(*) FROM b")
    if added:
        made.query("texts", "SELECT COUNT(*) FROM a JOIN b ON a.s = b.s").query("sum", "SELECT SUM(x) FROM b")
    return made


def test_added_queries_keep_what_is_there_and_say_since_when_they_count(spark, tmp_path):
    write_files(tmp_path, 1)
    store = tmp_path / "state"
    old = workload(added=False).plan()
    run_all(spark, tmp_path, store, old)
    new = workload(added=True).plan(keep=el.open(store).snapshot.layout)
    assert set(old.layout.kept) < set(new.layout.kept)
    assert new.nbytes <= 300_000
    with pytest.raises(el.WrongRun, match=r"\+ texts"):
        run_all(spark, tmp_path, store, new)
    write_files(tmp_path, 2)
    run_all(spark, tmp_path, store, new, change_plan=True)
    state = el.open(store)
    both, second = new.empty(), new.empty()
    for number in range(2):
        for stream in "ab":
            both.update(stream, table(stream, number))
            second.update(stream, table(stream, 1)) if number else None
    assert state.answer("pairs").value == both.answer("pairs").value
    assert state.answer("pairs").notes == both.answer("pairs").notes
    assert state.answer("sum").value == second.answer("sum").value
    assert "only since epoch 2" in state.answer("sum").notes[-1]
    assert state.answer("texts").value == second.answer("texts").value
    run_all(spark, tmp_path, store, new, refresh=("b",))
    assert el.open(store).answer("sum").value == both.answer("sum").value
    assert el.open(store).answer("sum").notes == ()


def test_errors_of_tasks_and_sources_come_in_one_sentence(spark, tmp_path):
    write_files(tmp_path, 1)
    (tmp_path / "b" / "broken.parquet").write_bytes(b"this is no parquet file")
    run = plan().start(spark, frames(spark, tmp_path), store=tmp_path / "state")
    with pytest.raises(el.PipelineError, match="stream 'b': Spark failed") as caught:
        run.await_termination()
    assert "\n" not in str(caught.value)
    assert run.progress()["b"].error == str(caught.value)
    assert "counts no more rows" in run.answer("rows_a").notes[-1]
    assert not run.active
    with pytest.raises(el.PipelineError, match="cannot be read or written"):
        run_all(spark, tmp_path, tmp_path / "state2", checkpoint="nosuchscheme://checkpoints")


@pytest.mark.parametrize("form", ["csv", "json", "orc", "parquet"])
def test_every_file_format_streams_as_it_is_read_in_a_batch(spark, tmp_path, form):
    schema = "k BIGINT, s STRING, at DATE, x DECIMAL(8,2)"
    columns = ("id % 7 AS k", "concat('s,', id % 3) AS s", "date_add(DATE '2024-01-01', CAST(id % 5 AS INT)) AS at",
               "CAST(id / 4 AS DECIMAL(8,2)) AS x", "CASE WHEN id % 5 = 0 THEN -1 ELSE 1 END AS w")  # fmt: skip
    options = {"header": "true"} if form == "csv" else {}
    spark.range(60).selectExpr(*columns).write.format(form).options(**options).save(str(tmp_path / "s"))
    plan = (
        el.Workload(budget="64 KB", seed=1, samples=False)
        .stream("s", schema, changes="w")
        .query("pairs", "SELECT SUM(a.x) FROM s a JOIN s b ON a.s = b.s AND a.at = b.at")
        .plan()
    )
    source = SparkSource("s", form, str(tmp_path / "s"), schema, "w", options)
    batch = plan.sketch(spark, {"s": read_frame(spark, source)})
    frame = read_frame(spark, replace(source, streaming=True))
    with plan.start(spark, {"s": frame}, store=tmp_path / "store", trigger="available now") as run:
        run.await_termination()
    assert el.open(tmp_path / "store") == batch
    assert batch.snapshot.tallies["s"].rows == 60


def test_a_batch_writer_counts_each_batch_once(spark, tmp_path):
    """Spark Connect calls it in a process of the server; here it runs in the driver."""
    plan = (
        el.Workload(budget="64 KB", seed=1)
        .stream("s", "k BIGINT")
        .query("n", "SELECT COUNT(*) FROM s")
        .plan()
    )
    checkpoint, store = tmp_path / "checkpoint", tmp_path / "store"
    (tmp_path / "s").mkdir()
    frame = spark.readStream.schema("k BIGINT").parquet(str(tmp_path / "s"))

    def run(at=checkpoint):
        writer = plan.batch_writer("s", store=store, checkpoint=at)
        writing = frame.writeStream.foreachBatch(writer).option("checkpointLocation", str(at))
        writing.trigger(availableNow=True).start().awaitTermination()
        return el.open(store).answer("n")

    for number in range(2):
        pq.write_table(pa.table({"k": range(100)}), tmp_path / "s" / f"{number}.parquet")
        assert run().value == 100 * (number + 1)
    for file in (checkpoint / "commits").glob("*1*"):
        file.unlink()  # as if Spark had been killed after the store's commit
    assert run().value == 200
    with pytest.raises(SPARK_ERRORS, match="checkpoint"):
        run(tmp_path / "other")
    assert el.open(store).answer("n").value == 200
