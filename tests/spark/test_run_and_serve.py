"""scripts/run-and-serve, with which the container image starts: a run and a server, which end and fail together."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys

import httpx
import pytest

from tests.serve.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.processes]

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts" / "run-and-serve"
TOKEN = "a-token-of-the-tests"
PIPELINE = """
[workload]
budget = "64 KB"
store = "state"
[streams.s]
schema = "k BIGINT, x INT"
format = "json"
path = "s"
[queries]
n = "SELECT COUNT(*) FROM s"
total = "SELECT SUM(x) FROM s"
"""


def of_session(leader):
    """Return the processes of a session that are alive: the script, its children, the JVM and the Python workers."""
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if int(fields[3]) == leader and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


@pytest.fixture
def started(tmp_path):
    """A function that starts the script on a pipeline file and gives the process; all of it is ended afterwards."""
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(0o600)
    (tmp_path / "s").mkdir()
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    begun = []

    def start(*options, **settings):
        environment = {
            **os.environ,
            "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
            "EDDYLINE_HOST": "0.0.0.0",
            "EDDYLINE_PORT": str(port),
            "EDDYLINE_TOKEN_FILE": str(tmp_path / "token"),
            "EDDYLINE_HISTORY": str(tmp_path / "history.json"),
            **settings,
        }
        with (tmp_path / "log").open("w") as log:
            process = subprocess.Popen(
                [SCRIPT, tmp_path / "pipeline.toml", *options],
                env=environment, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        begun.append(process)
        process.address = f"http://127.0.0.1:{port}"
        return process

    yield start
    for process in begun:
        for left in of_session(process.pid):
            os.kill(left, signal.SIGKILL)
        process.wait()


def add_rows(folder, name, rows):
    """Put a file of rows into the stream in one step, so that it is never seen in part."""
    (folder / f"{name}.part").write_text("".join(json.dumps({"k": k, "x": 2 * k}) + "\n" for k in rows))
    (folder / f"{name}.part").rename(folder / "s" / name)


def test_a_pipeline_is_run_and_served_until_it_is_told_to_end(started, tmp_path):
    add_rows(tmp_path, "1.json", range(100))
    process = started()
    with httpx.Client(base_url=process.address, timeout=30) as client:
        until(lambda: client.get("healthz").status_code == 200, 60)
        assert client.get("readyz").status_code == 503, "there is no store before Spark has started"
        assert client.get("api/v1/answers").status_code == 401
        client.headers["authorization"] = f"Bearer {TOKEN}"

        def value(query):
            answered = client.get(f"api/v1/answers/{query}")
            return answered.json()["value"] if answered.status_code == 200 else None

        until(lambda: value("n") == 100, 90)
        assert client.get("readyz").status_code == 200
        assert "eddyline" in client.get("/").text
        add_rows(tmp_path, "2.json", range(50))
        until(lambda: value("n") == 150, 60)
        assert value("total") == 2 * (sum(range(100)) + sum(range(50)))
    assert len(of_session(process.pid)) >= 4
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0, (tmp_path / "log").read_text()
    until(lambda: of_session(process.pid) == [])
    log = (tmp_path / "log").read_text()
    assert "stopped at" in log
    assert "Traceback" not in log
    assert json.loads((tmp_path / "history.json").read_text())


WRONG = {
    "pipeline": ({}, PIPELINE.replace("budget", "budgit"), "budgit"),
    "token": ({"EDDYLINE_TOKEN_FILE": ""}, PIPELINE, "--token-file"),
}


@pytest.mark.parametrize("case", WRONG)
def test_both_end_with_the_code_of_the_one_that_failed(started, tmp_path, case):
    settings, pipeline, words = WRONG[case]
    (tmp_path / "pipeline.toml").write_text(pipeline)
    process = started(**settings)
    assert process.wait(60) == 1
    until(lambda: of_session(process.pid) == [])
    assert words in (tmp_path / "log").read_text()


def test_a_killed_run_ends_the_server(started, tmp_path):
    process = started()
    with httpx.Client(base_url=process.address) as client:
        until(lambda: client.get("healthz").status_code == 200, 60)
    (run,) = (each for each in of_session(process.pid) if is_run(each, process.pid))
    os.kill(run, signal.SIGKILL)
    assert process.wait(60) == 128 + signal.SIGKILL
    until(lambda: of_session(process.pid) == [])


def is_run(process, parent):
    """Return whether a child of the script is its run, and not a fork of the run that is about to become Java."""
    folder = pathlib.Path(f"/proc/{process}")
    command = (folder / "cmdline").read_bytes().split(b"\0")
    is_child = int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == parent
    return is_child and b"run" in command and any(part.endswith(b"/eddyline") for part in command)


@pytest.mark.slow
def test_a_run_that_is_done_ends_the_server(started, tmp_path):
    add_rows(tmp_path, "1.json", range(10))
    process = started("--once")
    assert process.wait(90) == 0
    until(lambda: of_session(process.pid) == [])


def test_told_to_end_while_spark_starts(started):
    process = started()
    until(lambda: any("java" in name_of(each) for each in of_session(process.pid)))
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    until(lambda: of_session(process.pid) == [])


def name_of(process):
    try:
        return pathlib.Path(f"/proc/{process}/comm").read_text()
    except OSError:  # it has just ended
        return ""


def test_no_pipeline_is_one_sentence():
    done = subprocess.run([SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "say which pipeline" in done.stderr
