"""What a crowd costs: many clients of events and a stream of requests, while the store moves.

    .venv/bin/python benchmarks/serve.py [--clients 200] [--rate 50] [--seconds 60] [--commits 2]

`eddyline serve` runs as a process of its own on a store to which this one commits. Clients follow its events, and
requests for answers come at a fixed rate, whether earlier ones were answered or not. The peer is a bare Starlette
application on uvicorn, asked in the same way for as many bytes that never change. What is printed: requests that
failed, the times they took, how long after a commit the last client heard of it, and the server's memory over time.
"""

import argparse
import asyncio
import contextlib
import re
import statistics
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from multiprocessing import Process, Queue
from pathlib import Path
from queue import Empty

import httpx
import numpy as np

import eddyline as el
from eddyline.api.jobs import save

PATHS = (
    "api/v1/answers",
    "api/v1/answers/pairs",
    "api/v1/freshness",
    "metrics",
    "api/v1/answer?sql=SELECT COUNT(*) FROM a",
)
PEER = """
import sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
body = b"x" * int(sys.argv[1])
async def send(request):
    return Response(body, media_type="application/json")
app = Starlette(routes=[Route("/{path:path}", send)])
config = uvicorn.Config(app, port=0, log_level="info", access_log=False)
uvicorn.Server(config).run()
"""


def plan() -> el.Plan:
    """Return a plan of a dozen queries that a sample and sketches answer."""
    w = (
        el.Workload(budget="256 KB", seed=7)
        .stream("a", "k BIGINT, g STRING, x INT")
        .stream("b", "k BIGINT, y INT")
    )
    w.query("pairs", "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k")
    w.query("money", "SELECT SUM(a.x) FROM a JOIN b ON a.k = b.k")
    w.query("keys", "SELECT COUNT(DISTINCT k) FROM a")
    w.query("by_group", "SELECT g, COUNT(*) AS n, SUM(x) AS x FROM a GROUP BY g")
    for least in range(8):
        w.query(f"from_{least}", f"SELECT COUNT(*) FROM a JOIN b ON a.k = b.k WHERE b.y >= {10 * least}")
    return w.plan()


def grown(state: el.State, number: int, rows: int = 5_000) -> el.State:
    """Return the state after one more batch of both streams."""
    rng = np.random.default_rng(number)
    keys = [(rng.zipf(1.2, rows) % 50_000).astype(np.int64) for _ in range(2)]
    groups = np.array([f"group-{i}" for i in range(20)])[rng.integers(0, 20, rows)]
    state.update("a", {"k": keys[0], "g": groups, "x": rng.integers(0, 100, rows).astype(np.int32)})
    return state.update("b", {"k": keys[1], "y": rng.integers(0, 100, rows).astype(np.int32)})


@asynccontextmanager
async def process(*arguments: str) -> AsyncIterator[tuple[int, str]]:
    """Yield the process id and the address of a server that prints its address."""
    server = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        shown = ""
        while not (found := re.search(r"http://[\d.]+:\d+", shown)):
            assert server.stdout is not None
            shown = (await server.stdout.readline()).decode()
        yield server.pid, found[0] + "/"
    finally:
        server.terminate()
        await server.wait()


def resident(pid: int) -> float:
    """Return the megabytes that a process holds."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 1e6


class Crowd:
    """Clients of events that record which epoch each of them received, and when; -1 if it lost the server."""

    def __init__(self, address: str, clients: int, heard: "Queue[tuple[int, float]]") -> None:
        self._url = httpx.URL(address)
        self._clients = clients
        self._heard = heard

    async def follow(self) -> None:
        """Follow the events with all clients."""
        await asyncio.gather(*(self._client() for _ in range(self._clients)))

    async def _client(self) -> None:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection(self._url.host, self._url.port, limit=1 << 22)
            writer.write(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            while line := await reader.readline():
                if found := re.search(rb'"epoch":(\d+)', line):
                    self._heard.put((int(found[1]), time.time()))
        self._heard.put((-1, time.time()))


async def load(address: str, rate: float, seconds: float) -> tuple[list[float], list[str]]:
    """Return the seconds that requests at a fixed rate took, and what failed."""
    took, failed = list[float](), list[str]()

    async def one(client: httpx.AsyncClient, path: str) -> None:
        start = time.perf_counter()
        try:
            response = await client.get(path)
            if response.status_code != httpx.codes.OK:
                failed.append(f"{path}: {response.status_code}")
        except httpx.HTTPError as error:
            failed.append(f"{path}: {error!r}")
        took.append(time.perf_counter() - start)

    limits = httpx.Limits(max_connections=None, max_keepalive_connections=50)
    async with (
        httpx.AsyncClient(base_url=address, timeout=30, limits=limits) as client,
        asyncio.TaskGroup() as tasks,
    ):
        start = time.perf_counter()
        for number in range(int(rate * seconds)):
            await asyncio.sleep(max(0.0, start + number / rate - time.perf_counter()))
            tasks.create_task(one(client, PATHS[number % len(PATHS)]))
    return took, failed


def shown(name: str, took: list[float], failed: list[str]) -> float:
    """Print the times of requests and return the 95th percentile."""
    cuts = statistics.quantiles(took, n=100)
    print(
        f"{name}: {len(took):,} requests, {len(failed)} failed; median {cuts[49] * 1e3:.1f} ms, "
        f"p95 {cuts[94] * 1e3:.1f} ms, p99 {cuts[98] * 1e3:.1f} ms, longest {max(took) * 1e3:.0f} ms"
    )
    for sentence in sorted(set(failed))[:5]:
        print(f"  failed: {sentence}")
    return cuts[94]


def commit(store: str, commits: float, done: "Queue[tuple[int, float]]") -> None:
    """Commit to the store at a rate until ended, in a process of its own, and report when each epoch was there."""
    made, number = plan(), 1
    state = grown(made.empty(), 0)
    while True:
        start = time.perf_counter()
        state = grown(state, number)
        save(store, made, state)
        done.put((number, time.time()))
        number += 1
        time.sleep(max(0.0, 1 / commits - (time.perf_counter() - start)))


def follow(address: str, clients: int, heard: "Queue[tuple[int, float]]") -> None:
    """Follow the events with many clients until ended, in a process of its own."""
    asyncio.run(Crowd(address, clients, heard).follow())


def drained(queue: "Queue[tuple[int, float]]") -> list[tuple[int, float]]:
    """Return all that a queue holds."""
    found = []
    with contextlib.suppress(Empty):
        while True:
            found.append(queue.get(timeout=0.5))
    return found


async def sampled(pid: int, held: list[float]) -> None:
    """Remember what a process holds, every second, until cancelled."""
    while True:
        held.append(resident(pid))
        await asyncio.sleep(1)


async def ready(address: str) -> int:
    """Wait until the server has answers, and return how many bytes they are."""
    async with httpx.AsyncClient(base_url=address, timeout=60) as client:
        for _ in range(600):
            if (await client.get("readyz")).status_code == httpx.codes.OK:
                break
            await asyncio.sleep(0.1)
        return len((await client.get(PATHS[0])).content)


def print_events(heard: list[tuple[int, float]], done: dict[int, float], clients: int) -> None:
    """Print how many events were sent, and when the last client heard of an epoch."""
    times: dict[int, list[float]] = {}
    for epoch, moment in heard:
        times.setdefault(epoch, []).append(moment)
    lost = len(times.pop(-1, ()))
    reached = [max(at) - done[epoch] for epoch, at in times.items() if epoch in done and len(at) >= clients]
    print(f"events: {sum(map(len, times.values())):,} sent, {lost} clients lost")
    if reached:
        after = statistics.median(reached)
        print(
            f"{len(reached)} epochs reached every client, the last one {after:.2f} s after the commit (median)"
        )


async def measure(options: argparse.Namespace) -> None:
    """Run the server, the clients, the commits and the peer, and print what was seen."""
    made = plan()
    with tempfile.TemporaryDirectory() as folder:
        store = f"{folder}/state"
        state = grown(made.empty(), 0)
        save(store, made, state)
        serve = ("-m", "eddyline.cli", "serve", store, "--port", "0", "--history", f"{folder}/history.json")
        async with process(*serve) as (pid, address):
            size = await ready(address)
            started, heard = Queue(), Queue()
            others = [
                Process(target=commit, args=(store, options.commits, started)),
                Process(target=follow, args=(address, options.clients, heard)),
            ]
            for each in others:
                each.start()
            held = list[float]()
            watching = asyncio.create_task(sampled(pid, held))
            took, failed = await load(address, options.rate, options.seconds)
            watching.cancel()
            others[0].terminate()
            sent, done = drained(heard), dict(drained(started))
            others[1].terminate()
        print(
            f"{options.clients} clients, {len(done)} commits in {options.seconds} s, {size:,} bytes of answers"
        )
        ours = shown("eddyline serve", took, failed)
        print_events(sent, done, options.clients)
        third = max(len(held) // 3, 1)
        parts = (held[:third], held[third:-third], held[-third:])
        megabytes = ", ".join(f"{statistics.median(part):.0f}" for part in parts)
        print(f"memory of the server in the three thirds of the run: {megabytes} MB")
    async with process("-c", textwrap.dedent(PEER), str(size)) as (_, address):
        peer = shown(
            "peer: constant bytes, no clients, no commits",
            *await load(address, options.rate, options.seconds / 3),
        )
    print(f"p95 is {ours / peer:.1f} times that of the peer")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--rate", type=float, default=50)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--commits", type=float, default=2)
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()
