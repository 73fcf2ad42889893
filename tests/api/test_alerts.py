"""Alerts against a real receiver: once per crossing, across restarts, and again where a receiver failed."""

import contextlib
import json
import logging
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import eddyline as el
from eddyline.answer.estimate import Estimate
from eddyline.api.alerts import ALERTS, Alert, Alerts, check_alerts, check_kept, parse_condition
from eddyline.api.durable import from_epoch, stamp
from eddyline.api.jobs import HowToRun, prepare_run
from eddyline.api.pipeline import load_pipeline, parse_pipeline
from eddyline.cli import app
from eddyline.errors import CorruptState, PipelineError, PlanError
from eddyline.ingest.sections import to_sections
from eddyline.store import Options, Store, verify

HOUR = 3600.0


def look(alerts):
    """Look, and wait until what can be sent was sent."""
    alerts.look()
    alerts.close()


class Receiver:
    """An HTTP server that keeps what it is sent, and fails a given number of times."""

    def __init__(self):
        received, self.fails = [], 0
        self.received = received
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if receiver.fails:
                    receiver.fails -= 1
                    self.send_response(500)
                else:
                    received.append(body)
                    self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}/hook"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def receiver():
    made = Receiver()
    yield made
    made.close()


class Feed:
    """A store whose count is set by inserts and deletes."""

    def __init__(self, where, keep="hourly for 10 days"):
        self.where, self.batch, self.count = str(where), 0, 0
        plan = el.Workload(budget="64 KB", seed=3).stream("s", "k BIGINT", changes="w")
        plan = plan.query("rows", "SELECT COUNT(*) FROM s").plan()
        sections = to_sections(plan.empty().snapshot)
        self.store = Store.create(self.where, stamp(plan.layout), "run", sections, options=Options(keep=keep))

    def set(self, count):
        change = count - self.count
        size = abs(change)
        rows = {"k": np.ones(size, np.int64), "w": np.full(size, 1 if change > 0 else -1, np.int64)}

        def added(epoch):
            return to_sections(el.State(from_epoch(epoch)).update("s", rows).snapshot)

        self.store.commit("s", "q", self.batch, added, rows=size, at=1e9 + self.batch * HOUR)
        self.batch, self.count = self.batch + 1, count


@pytest.fixture
def feed(tmp_path):
    made = Feed(tmp_path / "state")
    yield made
    made.store.close()


def test_a_message_is_sent_once_per_crossing_across_restarts(feed, receiver):
    alert = {"many": Alert(query="rows", when="> 10", webhook=receiver.address)}
    alerts = Alerts(feed.where, alert)
    expected = 0
    for count in (5, 11, 15, 12, 4, 3, 20, 25, 10, 11):
        crosses = count > 10 and feed.count <= 10
        feed.set(count)
        expected += crosses
        for _ in range(2):
            look(alerts)
            alerts = Alerts(feed.where, alert)  # the run was stopped and started again
            look(alerts)
        assert len(receiver.received) == expected
    assert expected == 3
    assert len({each["id"] for each in receiver.received}) == 3
    assert [each["value"] for each in receiver.received] == [11, 20, 11]
    assert receiver.received[0]["alert"] == "many"
    assert verify(feed.where) == []


def test_a_message_that_was_not_taken_is_sent_again(feed, receiver):
    receiver.fails = 2
    alert = {"many": Alert(query="rows", when=">= 10", webhook=receiver.address)}
    feed.set(10)
    look(Alerts(feed.where, alert))
    assert receiver.received == []
    look(Alerts(feed.where, alert))
    look(Alerts(feed.where, alert))
    look(Alerts(feed.where, alert))
    assert len(receiver.received) == 1


def test_messages_of_a_receiver_that_was_down_come_in_order_and_as_they_were(feed, receiver):
    alert = {"many": Alert(query="rows", when="> 10", webhook=receiver.address)}
    receiver.fails = 6
    alerts = Alerts(feed.where, alert)
    for count in (12, 5, 20, 4):
        feed.set(count)
        look(alerts)
    assert receiver.received == []
    receiver.fails = 0
    look(Alerts(feed.where, alert))  # the run was started again
    assert [each["value"] for each in receiver.received] == [12, 20]
    assert len({each["id"] for each in receiver.received}) == 2
    look(Alerts(feed.where, alert))
    assert len(receiver.received) == 2


def test_a_receiver_that_hangs_or_answers_garbage_delays_neither_the_run_nor_others(
    feed, receiver, tmp_path, monkeypatch
):
    """The first one is a command that sleeps, the second a server that says no HTTP, the third a server of bytes that trickle."""
    monkeypatch.setattr("eddyline.api.alerts._PATIENCE", 0.5)
    ended = threading.Event()

    def serve(listener, answer):
        with contextlib.suppress(OSError):
            while not ended.is_set():
                connection, _ = listener.accept()
                with connection, contextlib.suppress(OSError):
                    connection.recv(1000)
                    connection.sendall(answer)
                    while answer == b"HTTP/1.1 200 OK\r\n" and not ended.wait(0.1):
                        connection.sendall(b"x")

    alerts = {"sleeps": Alert(query="rows", when="> 1", command=["sleep", "60"])}
    listeners = []
    for name, answer in (("garbage", b"none\r\n\r\n"), ("trickle", b"HTTP/1.1 200 OK\r\n")):
        listeners.append(socket.create_server(("127.0.0.1", 0)))
        threading.Thread(target=serve, args=(listeners[-1], answer), daemon=True).start()
        address = f"http://127.0.0.1:{listeners[-1].getsockname()[1]}/"
        alerts[name] = Alert(query="rows", when="> 1", webhook=address)
    alerts["good"] = Alert(query="rows", when="> 1", webhook=receiver.address)
    feed.set(2)
    made = Alerts(feed.where, alerts)
    made.look()
    made._senders["good"].join()
    assert [each["alert"] for each in receiver.received] == ["good"]
    made.look()
    look(made)
    assert len(receiver.received) == 1
    found = json.loads((tmp_path / "state" / ALERTS).read_text())
    assert {name for name, each in found.items() if each["waiting"]} == {"sleeps", "garbage", "trickle"}
    ended.set()
    for listener in listeners:
        listener.close()


@pytest.mark.parametrize(
    ("keep", "is_kept"),
    [
        (3, False),
        (1000, False),
        ("hourly for 7 days", False),
        ("hourly for 8 days", True),
        ("hourly for 1 day, daily for 8", True),
    ],
)
def test_an_earlier_answer_that_the_store_does_not_keep_is_refused(keep, is_kept):
    alerts = {"few": Alert(query="rows", when="< 0.95 * value 7 days ago", log=True)}
    if is_kept:
        check_kept(alerts, keep)
        return
    with pytest.raises(PipelineError, match=r'Write for example keep = "hourly for 9 days"'):
        check_kept(alerts, keep)


def test_an_earlier_answer_is_a_limit(feed, receiver):
    alert = {"drop": Alert(query="rows", when="< 0.95 * value 2 hours ago", webhook=receiver.address)}
    alerts = Alerts(feed.where, alert)
    for count in (100, 100, 100, 97, 96, 90, 90, 90, 60):
        feed.set(count)
        look(alerts)
    assert [each["value"] for each in receiver.received] == [90, 60]


def test_a_command_gets_the_message(feed, tmp_path):
    code = f"import sys; open({str(tmp_path / 'out')!r}, 'ab').write(sys.stdin.buffer.read() + b'\\n')"
    alert = {"many": Alert(sql="SELECT COUNT(*) FROM s", when="> 1", command=[sys.executable, "-c", code])}
    feed.set(2)
    alerts = Alerts(feed.where, alert)
    look(alerts)
    look(alerts)
    (line,) = (tmp_path / "out").read_text().splitlines()
    assert json.loads(line)["value"] == 2


def test_a_command_is_run_without_a_shell(feed, tmp_path):
    """Its words are the program and its arguments, as they are written; the message is its input alone."""
    words = [f"; touch {tmp_path}/one", f"$(touch {tmp_path}/two)", "a b", "*", '"']
    code = f"import json, sys; open({str(tmp_path / 'out')!r}, 'w').write(json.dumps(sys.argv[1:]))"
    alert = {"many": Alert(query="rows", when="> 1", command=[sys.executable, "-c", code, *words])}
    feed.set(2)
    look(Alerts(feed.where, alert))
    assert json.loads((tmp_path / "out").read_text()) == words
    assert {each.name for each in tmp_path.iterdir()} == {"out", "state"}


def test_the_log_gets_the_message(feed, caplog):
    feed.set(2)
    look(Alerts(feed.where, {"many": Alert(query="rows", when="> 1", log=True)}))
    assert "alert many" in caplog.text


def estimate(low, value, high):
    return Estimate("q", value, low, high, 0.95, "sample")


@pytest.mark.parametrize(
    ("when", "now", "then", "likely", "certain"),
    [
        ("> 10", (8, 11, 14), None, True, False),
        ("> 10", (11, 12, 14), None, True, True),
        ("< 10", (8, 9, 11), None, True, False),
        ("< 10", (8, 9, 9.5), None, True, True),
        (">= 10", (10, 10, 10), None, True, True),
        ("> 10", (10, 10, 10), None, False, False),
        ("< 0.5 * value 1 day ago", (40, 45, 49), (90, 100, 110), True, False),
        ("< 0.5 * value 1 day ago", (40, 42, 44), (90, 100, 110), True, True),
        ("> -1 * value 1 day ago", (-5, 0, 5), (10, 20, 30), True, True),
        ("> 1 * value 1 day ago", (1, 2, 3), None, False, False),
    ],
)
def test_likely_is_the_estimate_and_certain_the_whole_interval(when, now, then, likely, certain):
    condition = parse_condition("a", when)
    given = estimate(*now), estimate(*then) if then else None
    assert condition.holds(*given, certain=False) == likely
    assert condition.holds(*given, certain=True) == certain


@pytest.mark.parametrize(
    ("alert", "message"),
    [
        (Alert(when="about 10", query="q", log=True), "cannot be read"),
        (Alert(when="> 1", log=True), "needs either query"),
        (Alert(when="> 1", query="q", sql="SELECT", log=True), "needs either query"),
        (Alert(when="> 1", query="q"), "needs one of webhook, command and log"),
        (Alert(when="> 1", query="q", webhook="file:///etc/passwd"), "http:// or https://"),
        (Alert(when="> 1", query="q", command=[]), "command is empty"),
    ],
)
def test_alerts_that_cannot_work_are_refused(alert, message):
    with pytest.raises(PipelineError, match=message):
        check_alerts({"a": alert})


def test_a_length_of_time_is_checked():
    with pytest.raises(PlanError, match="is not a length of time"):
        parse_condition("a", "< 1 * value some time ago")


@pytest.mark.parametrize("damage", [b"{", b"", b'{"many": {"epoch": 1}}', b"\xff", b" " * (9 << 20), None])
def test_what_was_sent_must_be_readable(feed, receiver, tmp_path, damage):
    """A guess would send a message twice, or lose one that waits."""
    alert = {"many": Alert(query="rows", when="> 1", webhook=receiver.address)}
    feed.set(5)
    look(Alerts(feed.where, alert))
    path = tmp_path / "state" / ALERTS
    if damage is None:
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes(damage)
    with pytest.raises(CorruptState, match=r"not known which alerts were sent\. Remove it and start again"):
        Alerts(feed.where, alert)
    Alerts(feed.where, {})  # a run without alerts does not need it
    path.rmdir() if damage is None else path.unlink()
    look(Alerts(feed.where, alert))
    assert len(receiver.received) == 2


def test_pipeline_files_have_alerts(tmp_path):
    text = """
[streams.s]
schema = "k BIGINT"
format = "parquet"
path = "rows"

[queries]
rows = "SELECT COUNT(*) FROM s"

[alerts.many]
query = "rows"
when = "> 1000"
sure = "likely"
log = true
"""
    pipeline = parse_pipeline(text, tmp_path / "pipeline.toml")
    assert pipeline.alerts == {"many": Alert(query="rows", when="> 1000", sure="likely", log=True)}
    with pytest.raises(PipelineError, match="cannot be read"):
        parse_pipeline(text.replace("> 1000", "a lot"), tmp_path / "pipeline.toml")


def test_asking_sends_no_message(tmp_path, receiver):
    pq.write_table(pa.table({"k": list(range(50))}), tmp_path / "rows.parquet")
    (tmp_path / "pipeline.toml").write_text(
        f"""
[workload]
store = "state"
[streams.s]
schema = "k BIGINT"
format = "parquet"
path = "rows.parquet"
[queries]
rows = "SELECT COUNT(*) FROM s"
[alerts.many]
query = "rows"
when = "> 10"
webhook = "{receiver.address}"
"""
    )
    for _ in range(2):
        found = CliRunner().invoke(app, ["ask", str(tmp_path / "pipeline.toml")])
        assert found.exit_code == 0, found.output
        assert "50" in found.output
    assert not (tmp_path / "state" / ALERTS).exists()
    assert receiver.received == []


GROUPED = "SELECT k, COUNT(*) FROM s GROUP BY k"


@pytest.mark.parametrize(
    ("asks", "message"),
    [
        ('query = "none"', "alert 'many': the plan has no query 'none'"),
        (f'sql = "{GROUPED}"', "an alert is about one number"),
        ('sql = "SELECT COUNT(*) FROM t"', "alert 'many'"),
    ],
)
def test_an_alert_that_no_plan_answers_is_refused_before_the_run_starts(tmp_path, asks, message):
    (tmp_path / "rows").mkdir()
    path = tmp_path / "pipeline.toml"
    path.write_text(
        '[workload]\nstore = "state"\n[streams.s]\nschema = "k BIGINT"\nformat = "parquet"\npath = "rows"\n'
        f'explore = ["k"]\n[queries]\nrows = "SELECT COUNT(*) FROM s"\n[alerts.many]\n{asks}\nwhen = "> 1"\nlog = true\n'
    )
    with pytest.raises(PipelineError, match=message):
        prepare_run(load_pipeline(path), HowToRun())


def test_a_run_does_not_start_where_it_is_not_known_what_was_sent(tmp_path):
    (tmp_path / "rows").mkdir()
    path = tmp_path / "pipeline.toml"
    path.write_text(
        '[workload]\nbudget = "64 KB"\nstore = "state"\n[streams.s]\nschema = "k BIGINT"\nformat = "parquet"\n'
        'path = "rows"\n[queries]\nrows = "SELECT COUNT(*) FROM s"\n[alerts.many]\nquery = "rows"\nwhen = "> 1"\n'
        "log = true\n"
    )
    pipeline = load_pipeline(path)
    prepare_run(pipeline, HowToRun())
    plan = pipeline.plan()
    Store.create(
        pipeline.workload.store, stamp(plan.layout), "run", to_sections(plan.empty().snapshot)
    ).close()
    prepare_run(pipeline, HowToRun())
    (tmp_path / "state" / ALERTS).write_bytes(b"{")
    with pytest.raises(CorruptState, match="not known which alerts were sent"):
        prepare_run(pipeline, HowToRun())


def test_an_alert_about_groups_does_not_end_a_run(tmp_path, caplog):
    plan = el.Workload(budget="64 KB").stream("s", "k BIGINT").query("by_k", GROUPED).plan()
    Store.create(str(tmp_path), stamp(plan.layout), "run", to_sections(plan.empty().snapshot)).close()
    look(Alerts(str(tmp_path), {"many": Alert(query="by_k", when="> 1", log=True)}))
    assert "an alert is about one number" in caplog.text


@pytest.mark.parametrize(
    ("alert", "reason"),
    [
        ({"command": [sys.executable, "-c", "raise SystemExit(3)", "SECRET"]}, "exit code 3"),
        ({"command": ["/nowhere/notify", "SECRET"]}, "No such file"),
        ({"webhook": "http://user:SECRET@127.0.0.1/hook"}, "InvalidURL"),
        ({"webhook": "http://127.0.0.1:9/hook?token=SECRET"}, "refused"),
    ],
)
def test_an_alert_that_cannot_be_sent_is_logged_without_its_address(feed, caplog, alert, reason):
    feed.set(20)
    with caplog.at_level(logging.WARNING, "eddyline.alerts"):
        look(Alerts(feed.where, {"many": Alert(query="rows", when="> 10", **alert)}))
    assert reason in caplog.text
    assert "SECRET" not in caplog.text
