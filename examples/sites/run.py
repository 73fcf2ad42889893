"""Three sites as processes and a coordinator that serves their merged answers; one site is killed and comes back.

    python examples/sites/run.py

prints what the coordinator answers while all run, after one was killed and its store taken away, and after it is back.
"""

import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

import eddyline as el

HERE = Path(__file__).parent
SITES = ("north", "south", "west")


def plan() -> el.Plan:
    """Return the plan that all sites share."""
    workload = el.Workload(budget="1 MB", seed=7, samples=False)
    workload.stream("calls", "user BIGINT").stream("visits", "user BIGINT")
    workload.query("users", "SELECT COUNT(DISTINCT user) FROM calls")
    workload.query("pairs", "SELECT COUNT(*) FROM calls JOIN visits ON calls.user = visits.user")
    return workload.query("calls", "SELECT COUNT(*) FROM calls").plan()


def start(name: str, folder: Path, seconds: float = 600) -> subprocess.Popen[bytes]:
    """Return the process of a site."""
    command = [sys.executable, HERE / "count_rows.py", name, folder / "plan.eddy", folder, str(seconds)]
    return subprocess.Popen(command)  # noqa: S603 - this very Python


def answers(port: int) -> list[dict[str, object]]:
    """Return what the coordinator answers now, nothing while it cannot be asked."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/api/v1/answers", timeout=10) as answered:
            found: list[dict[str, object]] = json.load(answered)
            return found
    except OSError:
        return []


def notes(port: int) -> list[str]:
    """Return the coordinator's notes on sites."""
    found = [note for answer in answers(port) for note in answer["notes"]]  # type: ignore[attr-defined]
    return [note for note in dict.fromkeys(found) if note.startswith("site ")]


def show(port: int, title: str) -> None:
    """Print the coordinator's answers and notes."""
    print(f"\n{title}")
    for answer in answers(port):
        print(f"  {answer['query']}: {answer['shown']} {answer.get('shown_interval') or '(exact)'}")
    for note in notes(port):
        print(f"  note: {note}")


def until(condition: Callable[[], bool], most: float = 180.0) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + most
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.2)


def main() -> None:
    """Run the sites and the coordinator."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "plan.eddy").write_bytes(plan().to_bytes())
        running = {name: start(name, folder) for name in SITES}
        stores = [str(folder / name) for name in SITES]
        history = ["--history", str(folder / "history")]
        coordinator = subprocess.Popen(  # noqa: S603 - this very Python
            [sys.executable, "-m", "eddyline.cli", "serve", "--sites", *stores, "--port", str(port), *history]
        )
        try:
            until(lambda: bool(answers(port)) and not notes(port))
            show(port, "all sites run")
            running["south"].kill()
            running["south"].wait()
            (folder / "south").rename(folder / "lost")
            until(lambda: any("south cannot be read" in note for note in notes(port)))
            show(port, "south was killed, and its store is gone: its last state still counts")
            (folder / "lost").rename(folder / "south")
            running["south"] = start("south", folder)
            until(lambda: bool(answers(port)) and not notes(port))
            show(port, "south is back, and goes on from its last save")
        finally:
            for process in (*running.values(), coordinator):
                process.terminate()
                process.wait()


if __name__ == "__main__":
    main()
