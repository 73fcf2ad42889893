"""Topics of a real Kafka broker: tables joined live, drivers killed, the broker restarted, records that are bad or gone."""

import json
import re
import signal
import time

import pytest

import eddyline as el
from eddyline.api.pipeline import load_pipeline
from eddyline.store import Store
from tests.spark.kafka_broker import Broker
from tests.spark.kafka_job import Child, settled
from tests.spark.kafka_tables import PARTITIONS, Tables, pipeline_text
from tests.spark.maven_jars import connector_jars

pytestmark = [
    pytest.mark.spark,
    pytest.mark.processes,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:.*socket:pytest.PytestUnraisableExceptionWarning"),  # kafka-python's
]


@pytest.fixture(scope="module")
def jars():
    return connector_jars("kafka")


@pytest.fixture(scope="module")
def broker(jars, tmp_path_factory):
    with Broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture(scope="module")
def shell(jars):
    child = Child(jars=jars)
    yield child
    child.end(signal.SIGTERM)


def written(folder, text):
    folder.mkdir(exist_ok=True)
    path = folder / "pipeline.toml"
    path.write_text(text)
    return path


def test_tables_are_joined_live_and_a_killed_driver_counts_once(broker, jars, tmp_path):
    tables = Tables(broker)
    tables.create()
    tables.work(300)
    path, store = written(tmp_path, pipeline_text(broker.servers, jars)), tmp_path / "state"
    plan = load_pipeline(path).plan()
    first = Child(path)
    settled(first, store, tables.state(plan))
    tables.check(store, plan)
    tables.work(100)
    first.end(signal.SIGKILL)
    tables.work(50)
    second = Child(path)
    settled(second, store, tables.state(plan))
    tables.check(store, plan)
    assert el.open(store).answer("kept").freshness.bad == 0
    code, shown = second.end(signal.SIGTERM)
    assert code == 0, shown


@pytest.mark.slow
def test_partitions_that_move_or_are_added_and_a_broker_that_restarts_change_nothing(broker, jars, tmp_path):
    """Spark assigns partitions to its tasks itself: members of its group that come and go take nothing from it.

    The next driver is killed in the batch that has the new partitions for the first time.
    """
    tables = Tables(broker, seed=3, prefix="moved.")
    tables.create()
    tables.work(100)
    text = pipeline_text(broker.servers, jars, prefix="moved.")
    text = text.replace("maxOffsets", '"kafka.group.id" = "shared", maxOffsets')
    path, store = written(tmp_path, text), tmp_path / "state"
    plan = load_pipeline(path).plan()
    first = Child(path)
    settled(first, store, tables.state(plan))
    with broker.member("shared", [f"moved.{name}" for name in PARTITIONS]):
        tables.work(60)
        settled(first, store, tables.state(plan))
    broker.stop()
    broker.start()
    tables.work(60)
    settled(first, store, tables.state(plan))
    assert first.end(signal.SIGTERM)[0] == 0
    broker.add_partitions("moved.visits", 5)
    broker.add_partitions("moved.clicks", 6)
    tables.work(60)
    code, shown = Child(path, "epoch-listed", 1).wait()
    assert code == -signal.SIGKILL, shown
    last = Child(path)
    settled(last, store, tables.state(plan))
    tables.check(store, plan)
    assert last.end(signal.SIGTERM)[0] == 0


BAD = [
    b"{not json",
    b'{"customer": "many", "page": "p1", "w": 1}',
    b'{"customer": 1, "page": "p1", "w": 0.5}',
    b'{"customer": 1, "page": "\xff\xfe", "w": 1}',
    b'{"customer": 1, "page": "p1"}',
    b"[]",
    b"",
    None,
]


def once(broker, shell, folder, jars, topic, *, stream="clicks", servers=None, extra="", options=""):
    text = pipeline_text(servers or broker.servers, jars, streams=[stream], extra=extra)
    text = text.replace(f'subscribe = "{stream}"', f'subscribe = "{topic}"{options}')
    return shell.command("run", written(folder, text), "--once")


def click(number, weight=1):
    return None, b'{"customer": %d, "page": "p1", "w": %d}' % (number, weight)


def test_records_that_do_not_fit_are_counted_as_bad(broker, shell, jars, tmp_path):
    broker.create("mixed", 2)
    broker.send("mixed", [click(1), *((b"k", value) for value in BAD), click(2), click(3), click(3, -1)])
    code, shown = once(broker, shell, tmp_path, jars, "mixed")
    assert code == 0, shown
    answer = el.open(tmp_path / "state").answer("pages")
    assert (answer.value, answer.freshness.bad) == (2, len(BAD))


def test_records_that_are_gone_are_refused(broker, shell, jars, tmp_path):
    broker.create("short", 2)
    broker.send("short", map(click, range(40)), partition=0)
    assert once(broker, shell, tmp_path, jars, "short")[0] == 0
    broker.send("short", map(click, range(40)), partition=0)
    broker.drop_before("short", {0: 60})
    code, shown = once(broker, shell, tmp_path, jars, "short")
    assert code == 1
    assert re.search(
        r"PipelineError: stream 'clicks'.* records that were not read yet are gone from Kafka", shown
    )
    assert "[40, 80) for topic partition short-0" in shown
    assert "may_lose_rows = true" in shown
    assert "Exception" not in shown, shown
    assert el.open(tmp_path / "state").answer("pages").value == 40
    code, shown = once(broker, shell, tmp_path, jars, "short", extra="may_lose_rows = true")
    assert code == 0, shown
    assert el.open(tmp_path / "state").answer("pages").value == 60


@pytest.mark.slow
def test_what_would_lose_rows_or_is_not_there_is_refused(broker, shell, jars, tmp_path):
    broker.create("compacted", 1, cleanup_policy="compact")
    broker.create("plain", 1)
    broker.send("plain", [click(1)])
    cases = {
        "is compacted (cleanup.policy=compact)": ("compacted", {}),
        'failOnDataLoss = "false" silently skips': ("plain", {"options": ', failOnDataLoss = "false"'}),
        "the topic is not there: 'nowhere'": ("nowhere", {}),
        "no Kafka broker answers at 127.0.0.1:1": ("plain", {"servers": "127.0.0.1:1"}),
    }
    for sentence, (topic, how) in cases.items():
        code, shown = once(broker, shell, tmp_path, jars, topic, **how)
        assert code == 1
        assert sentence in shown, shown
        assert "Exception" not in shown, shown
    assert not Store.exists(tmp_path / "state")
    text = pipeline_text(broker.servers, jars, streams=["clicks"])
    text = text.replace('subscribe = "clicks"', 'subscribePattern = "pla.*"')
    code, shown = shell.command("ask", written(tmp_path, text))
    assert code == 0, shown
    assert re.search(r"pages 1 1 1 exact", shown)


def visit(op, number, version=0):
    """An envelope of a visit, and its key."""
    rows = {at: {"id": number, "customer": number, "total": at} for at in (version - 1, version)}
    before, after = (None if op == "c" else rows[version - 1]), (None if op == "d" else rows[version])
    return json.dumps({"id": number}).encode(), json.dumps(
        {"op": op, "before": before, "after": after}
    ).encode()


@pytest.mark.slow
def test_a_compacted_topic_is_read_ahead_of_compaction_if_that_is_said(broker, shell, jars, tmp_path):
    """A tombstone that begins a batch belongs to the delete that ended the one before."""
    broker.create("folded", 1)
    broker.send("folded", [visit("c", number) for number in range(20)])
    broker.send("folded", [visit("u", number, 1) for number in range(20)])
    broker.send("folded", [visit("d", 0, 2)])
    code, shown = once(broker, shell, tmp_path, jars, "folded", stream="visits")
    assert code == 0, shown
    broker.compact("folded")
    broker.send("folded", [(visit("d", 0, 2)[0], None), visit("c", 30)])
    time.sleep(0.5)
    broker.send("folded", [visit("d", 1, 2), (visit("d", 1, 2)[0], None)])
    deadline = time.monotonic() + 30
    while broker.records("folded") > 30:
        assert time.monotonic() < deadline, "the broker did not compact the topic"
    code, shown = once(broker, shell, tmp_path, jars, "folded", stream="visits")
    assert (code, "is compacted" in shown) == (1, True), shown
    code, shown = once(broker, shell, tmp_path, jars, "folded", stream="visits", extra="may_lose_rows = true")
    assert code == 0, shown
    answer = el.open(tmp_path / "state").answer("visited")
    assert (answer.value, answer.freshness.bad) == (19, 0)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_drivers_killed_in_commits(broker, jars, tmp_path):
    """Each is killed in a commit, the first in the store's creation, while the tables change."""
    tables = Tables(broker, seed=2, prefix="killed.")
    tables.create()
    path = written(tmp_path, pipeline_text(broker.servers, jars, prefix="killed."))
    store = tmp_path / "state"
    plan = load_pipeline(path).plan()
    for step in ("collected", "epoch-half-written", "epoch-listed", "pointer-named", "pointer-synced"):
        tables.work(60)
        code, shown = Child(path, step, 3).wait()
        assert code == -signal.SIGKILL, shown
    last = Child(path)
    settled(last, store, tables.state(plan))
    tables.check(store, plan)
    last.end(signal.SIGTERM)
