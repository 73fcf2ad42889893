"""What SQL clients wait for: planned answers, the list of relations in psql, many connections; PostgreSQL as the peer.

    .venv/bin/python benchmarks/wire.py [--connections 50] [--rate 200] [--seconds 20]

`eddyline serve --pg` runs as a process of its own on a store of 8 MB. The peer is a PostgreSQL on the same machine with
the same answers in a small table, asked by the same client (psycopg) in the same way. What is printed: the median and
the 95th percentile of each kind of statement with the milliseconds of processor that the server took for it, of many
connections at a fixed rate, the server's memory over time, and the load of the machine.
"""

import argparse
import os
import pathlib
import pwd
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import psycopg

import eddyline as el
from eddyline.api.jobs import save

PLANNED = "SELECT region, n, n_low, n_high FROM by_region"
NEW = "SELECT region, n, n_low, n_high FROM by_region WHERE n > {}"
DESCRIBE = (
    "SELECT n.nspname as \"Schema\", c.relname as \"Name\", CASE c.relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' "
    "WHEN 'm' THEN 'materialized view' WHEN 'i' THEN 'index' WHEN 'S' THEN 'sequence' WHEN 't' THEN 'TOAST table' "
    "WHEN 'f' THEN 'foreign table' WHEN 'p' THEN 'partitioned table' WHEN 'I' THEN 'partitioned index' END "
    'as "Type", '
    'pg_catalog.pg_get_userbyid(c.relowner) as "Owner" FROM pg_catalog.pg_class c LEFT JOIN pg_catalog.pg_namespace n '
    "ON n.oid = c.relnamespace LEFT JOIN pg_catalog.pg_am am ON am.oid = c.relam WHERE c.relkind IN "
    "('r','p','v','m','S','f','') AND n.nspname <> 'pg_catalog' AND n.nspname !~ '^pg_toast' AND n.nspname <> "
    "'information_schema' AND pg_catalog.pg_table_is_visible(c.oid) ORDER BY 1,2"
)


def make_store(where: str) -> int:
    """Write a store with a budget of 8 MB, nearly full, and return the bytes of its state."""
    w = el.Workload(budget="8 MB", seed=7).stream("orders", "customer BIGINT, region STRING, total INT")
    w.stream("visits", "customer BIGINT, seconds INT")
    w.query("by_region", "SELECT region, COUNT(*) AS n, SUM(total) AS money FROM orders GROUP BY region")
    w.query("met", "SELECT COUNT(*) FROM orders o JOIN visits v ON o.customer = v.customer")
    plan, rng, rows = w.plan(), np.random.default_rng(7), 800_000
    regions = np.array([f"region-{i}" for i in range(20)])
    state = plan.empty()
    state.update("orders", {
        "customer": rng.integers(0, 600_000, rows), "region": regions[rng.integers(0, 20, rows)],
        "total": rng.integers(1, 500, rows).astype(np.int32),
    })  # fmt: skip
    state.update(
        "visits",
        {"customer": rng.integers(0, 600_000, rows), "seconds": rng.integers(0, 300, rows).astype(np.int32)},
    )
    save(where, plan, state)
    return state.nbytes


@contextmanager
def eddyline_server(store: str, folder: str) -> Iterator[tuple[int, str]]:
    """Yield the process id and the connection string of our server."""
    command = [
        "-m",
        "eddyline.cli",
        "serve",
        store,
        "--port",
        "0",
        "--pg",
        "127.0.0.1:0",
        "--history",
        f"{folder}/history.json",
    ]
    server = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        line = ""
        while not (found := re.search(r"psql -h (\S+) -p (\d+)", line)):
            line = server.stdout.readline()
        dsn = f"host={found[1]} port={found[2]} user=me dbname=shop"
        for _ in range(600):  # until the store was read
            try:
                with psycopg.connect(dsn) as client:
                    client.execute(PLANNED)
                break
            except psycopg.Error:
                time.sleep(0.1)
        yield server.pid, dsn
    finally:
        server.terminate()
        server.wait()


@contextmanager
def postgres_server(folder: str) -> Iterator[str]:
    """Yield the connection string of a PostgreSQL with a table of twenty rows."""
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))
    programs = found[-1] if found else pathlib.Path(shutil.which("initdb") or "/").parent
    user = "postgres" if os.getuid() == 0 else None
    data = pathlib.Path(folder) / "data"
    data.mkdir()
    if user:
        pathlib.Path(folder).chmod(0o755)
        os.chown(data, pwd.getpwnam(user).pw_uid, pwd.getpwnam(user).pw_gid)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    def run(*command: object) -> None:
        subprocess.run(list(map(str, command)), user=user, check=True, capture_output=True, cwd="/")

    run(programs / "initdb", "-D", data, "-U", "me", "-A", "trust", "--no-sync")
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c max_connections=200"
    run(programs / "pg_ctl", "-D", data, "-l", data / "log", "-w", "-o", options, "start")
    try:
        dsn = f"host=127.0.0.1 port={port} user=me dbname=postgres"
        with psycopg.connect(dsn, autocommit=True) as client:
            client.execute("CREATE TABLE by_region (region text, n bigint, n_low float8, n_high float8)")
            client.execute(
                "INSERT INTO by_region SELECT 'region-' || i, 20000, 19000, 21000 FROM generate_series(1, 20) i"
            )
        yield dsn
    finally:
        run(programs / "pg_ctl", "-D", data, "-m", "immediate", "stop")


def timed(dsn: str, text: str, times: int, pid: int | None = None) -> str:
    """Ask a statement again and again on one connection, {} replaced by a number; return what it took."""
    took = []
    with psycopg.connect(dsn, autocommit=True) as client:
        client.execute(text.replace("{}", "0"))
        before = processor(pid)
        for number in range(times):
            start = time.perf_counter()
            client.execute(text.replace("{}", str(number + 1))).fetchall()
            took.append(time.perf_counter() - start)
        used = (processor(pid) - before) / times * 1e3
    return shown(took) + (f", {used:.1f} ms of the server's processor each" if pid is not None else "")


def processor(pid: int | None) -> float:
    """Return the seconds of processor that a process has taken; 0 without one."""
    if pid is None:
        return 0.0
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def crowd(dsn: str, connections: int, rate: float, seconds: float) -> tuple[list[float], int]:
    """Return the seconds that statements of many connections took at a fixed rate together, and how many failed."""
    took, failed, start = list[float](), 0, time.perf_counter() + 1
    each = connections / rate

    def ask(number: int) -> None:
        nonlocal failed
        with psycopg.connect(dsn, autocommit=True) as client:
            for turn in range(int(seconds / each)):
                due = start + turn * each + number / rate
                time.sleep(max(0.0, due - time.perf_counter()))
                begun = time.perf_counter()
                try:
                    client.execute(PLANNED).fetchall()
                except psycopg.Error:
                    failed += 1
                took.append(time.perf_counter() - begun)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return took, failed


def shown(took: list[float]) -> str:
    """Return the median and the 95th percentile in milliseconds."""
    cuts = statistics.quantiles(took, n=100)
    return f"median {cuts[49] * 1e3:.1f} ms, p95 {cuts[94] * 1e3:.1f} ms"


def resident(pid: int) -> float:
    """Return the megabytes that a process holds."""
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 1e6


def sample(pid: int, memory: list[float], every: float, ended: threading.Event) -> None:
    """Add what a process holds to a list, again and again until it is ended."""
    while not ended.wait(every):
        memory.append(resident(pid))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--connections", type=int, default=50)
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--times", type=int, default=200)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        size = make_store(f"{folder}/state")
        print(f"a store with {size / 1e6:.1f} MB of state")
        with eddyline_server(f"{folder}/state", folder) as (pid, dsn):
            print(f"planned answer, asked again: {timed(dsn, PLANNED, given.times, pid)}")
            print(f"planned answer, a new text each: {timed(dsn, NEW, given.times, pid)}")
            print(f"\\d of psql, asked again: {timed(dsn, DESCRIBE, given.times, pid)}")
            print(f"\\d of psql, a new text each: {timed(dsn, DESCRIBE + ' -- {}', given.times, pid)}")
            memory = [resident(pid)]
            ended = threading.Event()
            sampler = threading.Thread(target=sample, args=(pid, memory, given.seconds / 10, ended))
            sampler.start()
            used = processor(pid)
            took, failed = crowd(dsn, given.connections, given.rate, given.seconds)
            used = (processor(pid) - used) / len(took) * 1e3
            ended.set()
            sampler.join()
            print(
                f"{given.connections} connections, {given.rate:g} statements a second: {shown(took)}, {failed} failed, "
                f"{used:.1f} ms of the server's processor each"
            )
            print(f"MB of memory over {given.seconds:g} s: {', '.join(f'{each:.0f}' for each in memory)}")
        with postgres_server(folder) as dsn:
            print(f"peer, planned answer: {timed(dsn, PLANNED, given.times)}")
            print(f"peer, a new text each: {timed(dsn, NEW, given.times)}")
            print(f"peer, \\d of psql: {timed(dsn, DESCRIBE, given.times)}")
            took, failed = crowd(dsn, given.connections, given.rate, min(given.seconds, 20))
            print(f"peer, {given.connections} connections: {shown(took)}, {failed} failed")
    print(f"load of the machine at the end: {os.getloadavg()[0]:.0f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
