"""A pipeline file with a database and a budget, `eddyline run`, `eddyline serve --pg` and psql, each in its own process."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys

import psycopg
import pytest

from tests.serve.waiting import until
from tests.spark.postgres_server import programs, server

pytestmark = [pytest.mark.spark, pytest.mark.processes]
TABLES = """
CREATE TABLE customers (id bigint PRIMARY KEY, city text);
CREATE TABLE orders (number bigint PRIMARY KEY, who bigint REFERENCES customers, total numeric(10,2), placed timestamptz);
CREATE TABLE products (id bigint PRIMARY KEY, name text, tags text[]);
CREATE TABLE lines (order_number bigint REFERENCES orders, product bigint REFERENCES products, pieces int);
CREATE TABLE visits (who bigint, day date, seconds int) PARTITION BY RANGE (day);
CREATE TABLE visits_2026 PARTITION OF visits FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
ALTER TABLE customers REPLICA IDENTITY FULL;
ALTER TABLE orders REPLICA IDENTITY FULL;
ALTER TABLE lines REPLICA IDENTITY FULL;
ALTER TABLE products REPLICA IDENTITY FULL;
ALTER TABLE visits REPLICA IDENTITY FULL;
ALTER TABLE visits_2026 REPLICA IDENTITY FULL;
INSERT INTO customers SELECT i, 'city ' || i % 7 FROM generate_series(1, 200) i;
INSERT INTO orders SELECT i, 1 + i * i % 200, i % 97 + 0.25, timestamptz '2026-03-01 10:00Z' + i * interval '1 hour'
FROM generate_series(1, 2000) i;
INSERT INTO products SELECT i, 'product ' || i % 5, ARRAY['a'] FROM generate_series(1, 50) i;
INSERT INTO lines SELECT 1 + i * 7 % 2000, 1 + i % 50, 1 + i % 3 FROM generate_series(1, 5000) i;
INSERT INTO visits SELECT 1 + i % 200, date '2026-01-01' + i % 90, i % 60 FROM generate_series(1, 3000) i;
"""
QUESTIONS = [
    "SELECT count(*) FROM orders WHERE total > 50",
    "SELECT sum(total) FROM orders",
    "SELECT count(DISTINCT who) FROM visits",
    "SELECT city, count(*) AS n, sum(total) AS money FROM orders JOIN customers ON who = id GROUP BY city ORDER BY city",
    "SELECT p.name, sum(l.pieces) AS n FROM lines l JOIN products p ON l.product = p.id GROUP BY p.name ORDER BY p.name",
    "SELECT city, sum(pieces) FROM lines JOIN orders o ON order_number = number JOIN customers c ON o.who = c.id WHERE o.total < 20 GROUP BY city ORDER BY city",
    "SELECT max(seconds) FROM visits WHERE day < '2026-02-01'",
    "WITH days AS (SELECT day, count(*) AS n FROM visits GROUP BY day) SELECT count(*) FROM days WHERE n > 30",
]
CHANGES = """
BEGIN;
INSERT INTO customers VALUES (1000, 'city 3');
INSERT INTO orders VALUES (9000, 1000, 75.50, '2026-06-01 10:00Z'), (9001, 5, 19.25, NULL);
INSERT INTO lines VALUES (9000, 7, 9), (9001, 8, 4);
UPDATE orders SET total = total + 1, who = 1000 WHERE number % 10 = 0;
DELETE FROM visits WHERE seconds > 50;
COMMIT;
"""


@pytest.fixture
def launched(tmp_path):
    """A function that starts a command of eddyline and returns its process and its log; all end with the test."""
    begun = []

    def launch(name, *arguments):
        log = tmp_path / f"{name}.log"
        with log.open("w") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "eddyline.cli", *map(str, arguments)],
                stdout=file, stderr=file, start_new_session=True, cwd=tmp_path,
            )  # fmt: skip
        begun.append(process)
        return process, log

    yield launch
    for process in begun:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


NOT_PLANNED = (
    "NOTICE:  this query was not planned: it is answered from the columns that stream samples hold.\n"
)


def answers(dsn, questions):
    """What psql prints for each question, numbers without zeros at their ends; what else it says; and its exit code."""
    given = [part for question in questions for part in ("-c", question)]
    program = shutil.which("psql") or str(programs() / "psql")
    done = subprocess.run(
        [program, "-XAt", "-v", "ON_ERROR_STOP=1", "-d", dsn, *given],
        capture_output=True, text=True, check=False, timeout=120, env={**os.environ, "PGTZ": "UTC"},
    )  # fmt: skip
    shown = re.sub(r"(\.\d*?)0+$", r"\1", done.stdout.replace("|", "\n"), flags=re.MULTILINE)
    return re.sub(r"\.$", "", shown, flags=re.MULTILINE), done.stderr, done.returncode


def test_a_database_and_a_budget_are_all_that_psql_needs(tmp_path, launched):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "pg").mkdir()
    with server(tmp_path / "pg") as database:
        with psycopg.connect(database, autocommit=True) as connection:
            connection.execute(TABLES)
        (tmp_path / "db.toml").write_text(f'[workload]\nbudget = "4 MB"\n\n[postgres]\ndsn = "{database}"\n')
        run, log = launched("run", "run", "db.toml")
        _, served = launched("serve", "serve", "state", "--wait", "--port", "0", "--pg", f"127.0.0.1:{port}")
        store = f"host=127.0.0.1 port={port} user=me dbname=shop"

        def agree():
            assert run.poll() is None, log.read_text()
            shown, said, code = answers(store, QUESTIONS)
            is_exact = said == NOT_PLANNED * len(QUESTIONS)
            return code == 0 and is_exact and shown == answers(database, QUESTIONS)[0]

        def reported():
            return f"{log.read_text()}\n{served.read_text()}\n{answers(store, QUESTIONS)}\n{answers(database, QUESTIONS)}"

        try:
            until(agree, 150)
            listed, _, _ = answers(store, ["\\dt", "\\d orders"])
            assert listed.split()[1:20:4] == ["customers", "lines", "orders", "products", "visits"]
            assert "total\nnumeric(10,2)" in listed
            with psycopg.connect(database, autocommit=True) as connection:
                connection.execute(CHANGES)
                (slots,) = connection.execute("SELECT count(*) FROM pg_replication_slots").fetchone()
            assert slots == 1
            until(agree, 60)
        except AssertionError as error:
            raise AssertionError(reported()) from error
        run.send_signal(signal.SIGTERM)
        assert run.wait(60) == 0, log.read_text()
    assert "stopped at" in log.read_text()
