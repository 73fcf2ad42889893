"""Answers of a store as Spark frames: equal to `State.answers`, each epoch once, and sentences for what is wrong."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.datasource import DataSourceStreamReader

import eddyline as el
from eddyline.api.jobs import state_of
from eddyline.api.run import StartOptions, open_store
from eddyline.ingest.sections import to_sections
from eddyline.spark.causes import SPARK_ERRORS, cause_of
from eddyline.store import Reader
from eddyline.store.layout import CURRENT, encode_pointer, epoch_name

pytestmark = pytest.mark.spark
DAYS = pa.array([1, 2, 3, 4], pa.int32()).cast(pa.date32())
ROWS = pa.table({"k": [1, 1, 2, 3], "g": ["a", "b", "a", None], "d": DAYS, "x": [4, 8, 6, None]})


def workload(**given):
    made = el.Workload(budget="64 KB", seed=1, **given).stream("t", "k BIGINT, g STRING, d DATE, x BIGINT")
    made.query("n", "SELECT COUNT(*) FROM t").query("last", "SELECT MAX(d) FROM t")
    made.query("pairs", "SELECT COUNT(*) FROM t a JOIN t b ON a.k = b.k")
    return made.query("groups", "SELECT g, COUNT(*) AS n, AVG(x) AS mean FROM t GROUP BY g")


class Feed:
    """A store that grows by four rows a commit, as a run would make it."""

    def __init__(self, where):
        self.where = str(where)
        self.store = open_store(workload().plan().layout, self.where, StartOptions())

    def commit(self, times=1):
        for _ in range(times):
            state = state_of(self.store.current).update("t", ROWS)
            batch = self.store.current.number
            self.store.commit("t", "q", batch, to_sections(state.snapshot), rows=ROWS.num_rows)


@pytest.fixture
def feed(tmp_path):
    made = Feed(tmp_path / "state")
    yield made
    made.store.close()


def shown(table):
    """Return the rows of a table of answers without the lag, which is another at each reading."""
    rows = [row.asDict(recursive=True) if hasattr(row, "asDict") else row for row in table]
    for row in rows:
        row["group"] = dict(row["group"]) if row.get("group") is not None else None
        fresh = row["freshness"]
        moment = fresh.pop("last_batch_time")
        row["freshness"] = {**fresh, "lag": None, "at": moment and moment.timestamp()}
    return rows


def at_epoch(where, epoch):
    return shown(state_of(Reader(where).at(epoch)).answers().to_pylist())


class Listener:
    """A streaming query that keeps the rows of each batch, by its number."""

    def __init__(self, spark, feed, checkpoint):
        self.spark, self.feed, self.checkpoint = spark, feed, checkpoint
        self.batches = {}

    def _take(self, frame, number):
        self.batches[number] = shown(frame.collect())

    def hear(self, *steps, **trigger):
        """Start the query, let it take all there is before and after each step, and stop it."""
        self.batches = {}
        frame = self.spark.readStream.format("eddyline").load(self.feed.where)
        writer = frame.writeStream.foreachBatch(self._take).option("checkpointLocation", self.checkpoint)
        query = writer.trigger(**trigger).start() if trigger else writer.start()
        try:
            if trigger:
                query.awaitTermination(120)
            else:
                query.processAllAvailable()
            for step in steps:
                step()
                query.processAllAvailable()
        finally:
            query.stop()
        return [sorted({row["freshness"]["epoch"] for row in rows}) for rows in self.batches.values()]


def forget_commit(checkpoint, batch):
    """Make the last batch of a checkpoint one that was begun and not finished."""
    (checkpoint / "commits" / str(batch)).unlink()
    (checkpoint / "commits" / f".{batch}.crc").unlink(missing_ok=True)


def test_a_batch_frame_has_the_answers_of_the_store_and_keeps_its_epoch(spark, feed):
    feed.commit(2)
    frame = spark.read.format("eddyline").load(feed.where)
    expected = el.open(feed.where).answers()
    assert frame.columns == expected.column_names
    assert shown(frame.collect()) == shown(expected.to_pylist()) == at_epoch(feed.where, 2)
    assert {row["freshness"]["rows"] for row in shown(frame.collect())} == {8}
    feed.commit()
    assert shown(frame.where("query = 'n'").collect())[0]["freshness"]["epoch"] == 2
    (newer,) = spark.read.format("eddyline").option("query", "n").load(feed.where).collect()
    assert (newer.value, newer.freshness.epoch) == (12, 3)


def test_one_query_by_name_or_text_at_a_confidence(spark, feed):
    feed.commit()
    reader = spark.read.format("eddyline").option("confidence", "0.8")
    text = "SELECT COUNT(*) FROM t WHERE g = 'a'"
    for query in ("groups", text):
        rows = shown(reader.option("query", query).load(feed.where).collect())
        assert rows == shown(el.open(feed.where).answers(query, confidence=0.8).to_pylist())
        assert {(row["query"], row["confidence"]) for row in rows} == {(query, 0.8)}


def test_groups_have_columns_of_their_own_that_join_and_are_written(spark, feed, tmp_path):
    feed.commit(3)
    options = {"query": "groups", "form": "groups"}
    groups = spark.read.format("eddyline").options(**options).load(feed.where)
    names = spark.createDataFrame([("a", "north"), ("b", "south")], "g STRING, name STRING")
    joined = groups.join(names, "g").select("name", "n", "n_low", "mean", "exact", "freshness.epoch")
    assert sorted(map(tuple, joined.collect())) == [
        ("north", 6, 6, 5.0, True, 3),
        ("south", 3, 3, 8.0, True, 3),
    ]
    groups.coalesce(1).write.parquet(str(tmp_path / "groups"))
    written = pq.read_table(tmp_path / "groups").drop_columns("freshness")
    expected = el.open(feed.where).answer("groups").to_arrow()
    assert written.sort_by("n").equals(expected.sort_by("n").cast(written.schema))
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW kept USING eddyline OPTIONS (path '{feed.where}')")
    (row,) = spark.sql("SELECT value FROM kept WHERE group['g'] = 'a' AND aggregate = 'n'").collect()
    assert row.value == 6
    spark.catalog.dropTempView("kept")


def test_a_stream_has_each_new_epoch_once_and_leaves_out_those_in_between(spark, feed, tmp_path):
    listener = Listener(spark, feed, tmp_path / "checkpoint")
    epochs = listener.hear(feed.commit, lambda: feed.commit(2))
    assert epochs[:2] == [[0], [1]]
    assert epochs[2:] in ([[3]], [[2], [3]])  # whether it looks between two commits is chance
    assert listener.batches[len(epochs) - 1] == at_epoch(feed.where, 3)
    assert listener.hear() == []  # nothing is new
    feed.commit(5)  # the epoch of the checkpoint is collected
    assert listener.hear() == [[8]]
    feed.commit()
    assert listener.hear(availableNow=True) == [[9]]
    assert listener.hear(availableNow=True) == []


def test_a_batch_that_comes_again_is_the_same_while_its_epoch_is_kept_and_empty_afterwards(
    spark, feed, tmp_path
):
    feed.commit()
    listener = Listener(spark, feed, tmp_path / "checkpoint")
    assert listener.hear() == [[1]]
    first = listener.batches
    forget_commit(tmp_path / "checkpoint", 0)
    feed.commit()
    assert listener.hear() == [[1], [2]]
    assert listener.batches[0] == first[0]
    forget_commit(tmp_path / "checkpoint", 1)
    feed.commit(4)
    if hasattr(DataSourceStreamReader, "prepareForTriggerAvailableNow"):
        assert listener.hear(availableNow=True) == [[], [6]]
    else:  # such a Spark ends after the batch that comes again
        assert listener.hear(availableNow=True) == [[]]
        assert listener.hear(availableNow=True) == [[6]]
    assert listener.batches[2] == at_epoch(feed.where, 6)


def test_an_alert_on_a_store_that_a_run_feeds(spark, tmp_path):
    files, store = tmp_path / "t", str(tmp_path / "state")
    files.mkdir()
    source = spark.readStream.schema("k BIGINT, g STRING, d DATE, x BIGINT").parquet(str(files))

    def run(number):
        pq.write_table(ROWS, files / f"{number}.parquet")
        with workload().plan().start(spark, {"t": source}, store=store, trigger="available now") as made:
            made.await_termination()

    run(0)
    answers = spark.readStream.format("eddyline").option("query", "n").load(store)
    alerts = answers.where("low > 5").select("value", "freshness.epoch")
    query = alerts.writeStream.format("memory").queryName("alerts").start()
    try:
        query.processAllAvailable()
        assert spark.table("alerts").collect() == []
        run(1)
        query.processAllAvailable()
        assert [tuple(row) for row in spark.table("alerts").collect()] == [(8.0, 2)]
    finally:
        query.stop()
        spark.catalog.dropTempView("alerts")


def refusal(spark, where, *, streaming=False, **options):
    reader = spark.readStream if streaming else spark.read
    with pytest.raises(SPARK_ERRORS) as caught:
        reader.format("eddyline").options(**options).load(str(where))
    return cause_of(caught.value)


def test_what_is_wrong_is_told_in_a_sentence(spark, feed, tmp_path):
    for streaming in (False, True):  # tests/api/test_store_tables.py has the other sentences
        found = refusal(spark, tmp_path / "none", streaming=streaming)
        assert found == f"there is no store at {tmp_path}/none: check the path, or start a run there."
    found = refusal(spark, feed.where, confidense="0.9")
    assert (
        found == "format eddyline has no option 'confidense': its options are path, query, confidence, form."
    )
    with pytest.raises(SPARK_ERRORS) as caught:
        spark.read.format("eddyline").schema("value DOUBLE").load(feed.where).collect()
    assert cause_of(caught.value).endswith("load it again, without .schema(...).")


def test_a_damaged_store_ends_a_stream_with_a_sentence(spark, feed, tmp_path):
    frame = spark.readStream.format("eddyline").load(feed.where)
    query = frame.writeStream.format("noop").option("checkpointLocation", tmp_path / "checkpoint").start()
    query.processAllAvailable()
    state = tmp_path / "state"
    (state / epoch_name(1)).write_bytes((state / epoch_name(0)).read_bytes()[:-9])
    (state / CURRENT).write_bytes(encode_pointer(1))
    with pytest.raises(SPARK_ERRORS) as caught:
        query.processAllAvailable()
    assert cause_of(caught.value).startswith(f"{epoch_name(1)} of {state} is damaged")


def test_a_session_that_did_not_find_the_source_can_register_it(spark, feed):
    """The tests above have it from Spark's own search; registering it again changes nothing."""
    el.register(spark)
    assert spark.read.format("eddyline").load(feed.where).count() == 3
