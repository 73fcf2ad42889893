"""PostgreSQL, Debezium, Kafka, Spark and eddyline, all of them real, with the truth from PostgreSQL after each phase."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

import eddyline as el
from eddyline.api.pipeline import load_pipeline
from tests.spark.debezium_server import CONNECTOR, WORKER, Debezium
from tests.spark.debezium_shop import Shop, pipeline_text
from tests.spark.kafka_broker import BROKER, Broker
from tests.spark.kafka_job import Child, settled
from tests.spark.maven_jars import connector_jars, jars_of
from tests.spark.postgres_server import server

pytestmark = [
    pytest.mark.spark,
    pytest.mark.processes,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore:.*socket:pytest.PytestUnraisableExceptionWarning"),  # kafka-python's
]
EXAMPLE = pathlib.Path(__file__).parent.parent.parent / "examples" / "kafka_debezium"
LIVE = [
    "kept",
    "revenue",
    "mass",
    "rich",
    "moments",
    "late",
    "zoned",
    "mornings",
    "noted",
    "pairs",
    "money",
]


@pytest.fixture(scope="module")
def jars():
    return connector_jars("kafka")


@pytest.fixture(scope="module")
def running(jars, tmp_path_factory):
    """(shop, broker) with rows in the tables before Debezium starts, which it sends as a snapshot."""
    folders = [tmp_path_factory.mktemp(name) for name in ("postgres", "kafka", "debezium")]
    with (
        server(folders[0]) as dsn,
        Broker(folders[1]) as broker,
        contextlib.closing(Shop(dsn)) as shop,
    ):
        shop.insert(60)
        shop.change("INSERT INTO pages SELECT n, n, repeat('long', 2000) FROM generate_series(1, 9) n")
        for table in ("orders", "visits", "pages"):
            broker.create(f"shop.public.{table}", 3)
        tables = ["public.orders", "public.visits", "public.pages"]
        with Debezium(folders[2], broker.servers, dsn, tables):
            yield shop, broker


@pytest.fixture
def shell(jars):
    child = Child(jars=jars)
    yield child
    child.end(signal.SIGTERM)


def written(folder, text):
    path = folder / "pipeline.toml"
    path.write_text(text)
    return path


@pytest.mark.slow  # the example has the same way, in the tests that always run
def test_a_database_is_followed_from_its_snapshot_on(running, jars, tmp_path):
    """Decimals and times in the connector's default encodings, changed keys, deletes, long values, and an added column."""
    shop, broker = running
    path, store = written(tmp_path, pipeline_text(broker.servers, jars, LIVE)), tmp_path / "state"
    plan = load_pipeline(path).plan()
    child = Child(path)
    settled(child, store, shop.state(plan))
    shop.check(store, LIVE)
    shop.work()
    shop.insert(20)
    settled(child, store, shop.state(plan))
    shop.change("ALTER TABLE orders ADD COLUMN colour TEXT DEFAULT 'red'")
    shop.change("UPDATE orders SET colour = 'blue', total = total * 2 WHERE id %% 3 = 0 AND %s", True)
    settled(child, store, shop.state(plan))
    shop.check(store, LIVE)
    assert el.open(store).answer("kept").freshness.bad == 0
    code, printed = child.end(signal.SIGTERM)
    assert code == 0, printed


def once(shell, folder, broker, jars, queries, on_bad="fail"):
    """(exit code, output) of a run over what the topics hold, on a store of its own."""
    folder.mkdir()
    return shell.command(
        "run", written(folder, pipeline_text(broker.servers, jars, queries, on_bad)), "--once"
    )


def arrived(broker, topic, records):
    deadline = time.monotonic() + 60
    while broker.records(topic) < records:
        assert time.monotonic() < deadline, f"{topic} has fewer than {records} records"


@pytest.mark.slow
def test_what_was_not_sent_or_is_gone_is_refused_by_its_column(running, shell, jars, tmp_path):
    shop, broker = running
    arrived(broker, "shop.public.pages", 9)
    shop.change("UPDATE pages SET views = 40 WHERE id = 4")
    shop.change("ALTER TABLE pages REPLICA IDENTITY FULL")
    shop.change("UPDATE pages SET views = 50 WHERE id = 5")
    arrived(broker, "shop.public.pages", 11)
    code, printed = once(shell, tmp_path / "toast", broker, jars, ["bodies"])
    assert code == 1
    assert "its after.body was too large to be sent" in printed
    assert "REPLICA IDENTITY FULL" in printed
    code, printed = once(shell, tmp_path / "partial", broker, jars, ["viewed"])
    assert (code, "its op needs before, which is missing" in printed) == (1, True), printed
    code, printed = once(shell, tmp_path / "skipped", broker, jars, ["bodies", "viewed"], "skip")
    assert code == 0, printed
    state = el.open(tmp_path / "skipped" / "state")
    assert (state.answer("bodies").value, state.answer("viewed").value) == (9, 45 - 5 + 50)
    assert state.answer("viewed").freshness.bad == 1
    before = broker.records("shop.public.orders")
    shop.change("ALTER TABLE orders DROP COLUMN weight")
    shop.change("UPDATE orders SET total = 1 WHERE id = (SELECT min(id) FROM orders)")
    arrived(broker, "shop.public.orders", before + 1)
    code, printed = once(shell, tmp_path / "dropped", broker, jars, ["mass"])
    assert code == 1
    assert "its after has no column weight: it was dropped, renamed or left out" in printed
    code, printed = once(shell, tmp_path / "unread", broker, jars, ["kept", "revenue"])
    assert code == 0, printed
    shop.check(tmp_path / "unread" / "state", ["kept", "revenue"])


def test_the_example_ends_with_what_its_readme_shows(jars):
    """Its own fetching is by mvn, which has the packages since the other tests."""
    jars_of(BROKER)
    jars_of(CONNECTOR, WORKER)
    done = subprocess.run(
        [EXAMPLE / "run"], capture_output=True, text=True, check=False, timeout=500,
        env={**os.environ, "PYTHON": sys.executable, "KAFKA_CONNECTOR_JARS": str(jars)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    shown = (EXAMPLE / "README.md").read_text().split("```")[1].splitlines()
    printed = [line.rstrip() for line in done.stdout.splitlines()]
    for line in shown[2:-1]:
        assert line.rstrip() in printed, done.stdout
    assert shown[-1].split("epoch 2")[1] in printed[-1]
