"""`eddyline run` with [alerts], as a process with its own Spark: a real receiver is sent one message per crossing."""

import json
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

import eddyline as el
from eddyline.errors import StoreError
from tests.serve.waiting import until

pytestmark = pytest.mark.spark
PIPELINE = """
[workload]
budget = "64 KB"
store = "state"
[streams.s]
schema = "k BIGINT"
changes = "change_type"
format = "json"
path = "s"
[run]
trigger = "200 milliseconds"
[queries]
n = "SELECT COUNT(*) FROM s"
[alerts.many]
query = "n"
when = "> 10"
webhook = "{webhook}"
"""


@pytest.fixture
def receiver():
    """An HTTP server; its list of what it was sent."""
    received = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            received.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/hook", received
    server.shutdown()
    thread.join()
    server.server_close()


class Runs:
    """A pipeline whose source is a folder, and the process of its run."""

    def __init__(self, root, webhook):
        self.root, self.process, self.files, self.count = root, None, 0, 0
        (root / "s").mkdir()
        (root / "pipeline.toml").write_text(PIPELINE.format(webhook=webhook))

    def start(self):
        with (self.root / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "eddyline.cli", "run", self.root / "pipeline.toml"],
                stdout=log,
                stderr=log,
            )

    def set(self, count):
        """Write a file of inserts or deletes, and wait until the run has committed it."""
        change = "insert" if count > self.count else "delete"
        rows = [{"k": 1, "_change_type": change}] * abs(count - self.count)
        half = self.root / f"{self.files}.json"
        half.write_text("\n".join(map(json.dumps, rows)))
        half.rename(self.root / "s" / half.name)
        self.files, self.count = self.files + 1, count
        end = time.monotonic() + 300  # Spark's start on a busy machine, too
        while self.answered() != count:
            assert time.monotonic() < end, (self.root / "log").read_text()
            time.sleep(0.5)

    def answered(self):
        assert self.process.poll() is None, (self.root / "log").read_text()
        try:
            return el.open(self.root / "state").answer("n").value
        except StoreError:  # before the first epoch
            return None

    def alerts(self):
        """Return the file in which the run keeps what it sent."""
        return json.loads((self.root / "state" / "ALERTS").read_bytes())["many"]

    def end(self, how):
        if self.process.poll() is None:
            self.process.send_signal(how)
        self.process.wait(60)


def test_a_message_per_crossing_across_a_kill_and_a_restart(tmp_path, receiver):
    webhook, received = receiver
    runs = Runs(tmp_path, webhook)
    try:
        runs.start()
        runs.set(7)
        runs.set(12)
        until(lambda: received and not runs.alerts()["waiting"])
        runs.set(15)
        runs.end(signal.SIGKILL)
        runs.start()  # the condition still holds: nothing is sent
        runs.set(20)
        runs.set(4)
        until(lambda: not runs.alerts()["holds"])
        runs.set(30)
        until(lambda: len(received) > 1)
        runs.set(31)
        runs.end(signal.SIGTERM)
    finally:
        runs.end(signal.SIGKILL)
    assert [each["value"] for each in received] == [12, 30]
    assert [each["alert"] for each in received] == ["many", "many"]
    assert len({each["id"] for each in received}) == 2
