"""The protocol: messages that are cut, too long or out of order; passwords, TLS, cancel requests and limits."""

import asyncio
import socket
import ssl
import struct
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
import sqlglot

from eddyline.serve.postgres.engine import Client
from eddyline.serve.postgres.refusals import Refusal
from tests.fuzz.wire import findings, message, text
from tests.serve.postgres import shop

TOKEN = "0123456789abcdef-token"
START = struct.pack("!ii", 8 + 1 + len(b"user\0me\0"), 3 << 16) + b"user\0me\0\0"


def opened(server, timeout=5):
    client = socket.create_connection(server.address, timeout=timeout)
    client.sendall(START)
    return client, read_until(client, b"Z")


def read_until(client, kind):
    """Return the messages up to one of a kind, or up to the end of the connection."""
    data, found = b"", []
    while True:
        while len(data) < 5 or len(data) < 1 + struct.unpack("!i", data[1:5])[0]:
            part = client.recv(65536)
            if not part:
                return [*found, (b"", b"")]
            data += part
        length = 1 + struct.unpack("!i", data[1:5])[0]
        found.append((data[:1], data[5:length]))
        data = data[length:]
        if found[-1][0] == kind and not data:
            return found


def kinds(found):
    return b"".join(kind for kind, _ in found)


def states(found):
    return [body.split(b"\0C")[1][:5].decode() for kind, body in found if kind == b"E"]


def ask(client, *messages):
    client.sendall(b"".join(messages))
    return read_until(client, b"Z")


def test_statements_and_portals_survive_sync(exact_server):
    client, _ = opened(exact_server)
    sync = message(b"S")
    assert (
        kinds(ask(client, message(b"P", text("s", "SELECT $1::int + 1") + struct.pack("!h", 0)), sync))
        == b"1Z"
    )
    assert kinds(ask(client, message(b"D", b"S" + text("s")), sync)) == b"tTZ"  # before Bind
    bind = text("p", "s") + struct.pack("!hhi", 0, 1, 1) + b"4" + struct.pack("!h", 0)
    assert kinds(ask(client, message(b"B", bind), sync)) == b"2Z"
    found = ask(client, message(b"E", text("p") + struct.pack("!i", 0)), sync)
    assert kinds(found) == b"DCZ"
    assert found[0][1].endswith(b"5")
    assert (
        kinds(ask(client, message(b"C", b"P" + text("p")), message(b"C", b"S" + text("s")), sync)) == b"33Z"
    )
    assert states(ask(client, message(b"E", text("p") + struct.pack("!i", 0)), sync)) == ["34000"]
    client.close()


def test_a_portal_sends_its_rows_in_parts(exact_server):
    client, _ = opened(exact_server)
    parse = message(b"P", text("", "SELECT * FROM generate_series(1, 5) AS g(x)") + struct.pack("!h", 0))
    bind = message(b"B", text("", "") + struct.pack("!hhh", 0, 0, 0))
    execute = message(b"E", text("") + struct.pack("!i", 2))
    assert kinds(ask(client, parse, bind, execute, execute, execute, message(b"S"))) == b"12DDsDDsDCZ"
    client.close()


def test_fetch_reads_a_portal_that_was_bound_and_not_executed(exact_server):
    """It was an internal error, which the fuzzer of messages found."""
    client, _ = opened(exact_server)
    for name, statement in (
        ("c", "SELECT * FROM generate_series(1, 3) AS g(x)"),
        ("b", "COPY (SELECT 1) TO STDOUT"),
    ):
        parse = message(b"P", text(name, statement) + struct.pack("!h", 0))
        bind = message(b"B", text(name, name) + struct.pack("!hhh", 0, 0, 0))
        assert kinds(ask(client, message(b"Q", text("BEGIN")))) in (b"CZ", b"CNZ", b"NCZ")
        assert kinds(ask(client, parse, bind, message(b"S"))) == b"12Z"
        found = ask(client, message(b"Q", text(f"FETCH ALL FROM {name}")))
        if name == "c":
            assert kinds(found) == b"TDDDCZ"
        else:
            assert states(found) == ["55000"]
        ask(client, message(b"Q", text("ROLLBACK")))
    client.close()


def test_after_an_error_messages_are_skipped_until_sync(exact_server):
    client, _ = opened(exact_server)
    wrong = message(b"P", text("", "SELECT * FROM nothing") + struct.pack("!h", 0))
    bind = message(b"B", text("", "") + struct.pack("!hhh", 0, 0, 0))
    execute = message(b"E", text("") + struct.pack("!i", 0))
    found = ask(client, wrong, bind, execute, execute, message(b"S"))
    assert kinds(found) == b"12EZ" or kinds(found) == b"EZ"
    assert states(found) == ["42P01"]
    assert kinds(ask(client, message(b"Q", text("SELECT 1; SELECT 2")))) == b"TDCTDCZ"
    assert kinds(ask(client, message(b"Q", text(" ; -- nothing")))) == b"IZ"
    client.close()


def test_malformed_messages_are_answered_or_end_the_connection(exact_server):
    cases = [
        (message(b"P", b"no end"), "08P01"),
        (message(b"B", text("", "") + struct.pack("!h", 5)), "26000"),
        (message(b"D", b"X" + text("a")), "08P01"),
        (message(b"Q", b"\xff\xfe\0"), "22021"),
        (message(b"Q", text("SELECT 1") + b"more"), "08P01"),
        (message(b"F", b"\0" * 12), "0A000"),
        (message(b"P", text("", "SELECT $99999999999") + b"\0\0"), "42P02"),
        (message(b"P", text("", "SELECT $1, $0") + b"\0\0"), "42P02"),
        (message(b"Q", text("SELECT $99999999999")), "42P02"),
        (message(b"Q", text("SELECT 1 + $1")), "42P02"),
        (message(b"Q", text("SELECT '" + "x" * 200_000 + "'")), "54000"),
        (b"Q" + struct.pack("!i", 1 << 30), "54000"),
        (b"Q" + struct.pack("!i", 2), "08P01"),
        (message(b"~"), "08P01"),
        (message(b"p", b"password"), "08P01"),
    ]
    for sent, state in cases:
        client, _ = opened(exact_server)
        client.sendall(sent + message(b"S"))
        assert states(read_until(client, b"Z"))[0] == state, sent[:20]
        client.close()


def test_first_packets_that_are_wrong_end_the_connection(exact_server):
    for sent in (
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0\0\0\x04",
        struct.pack("!ii", 8, 2 << 16),
        struct.pack("!ii", 9, 3 << 16) + b"\0",
        b"\0\0\0\x10" + b"x" * 12,
    ):
        with socket.create_connection(exact_server.address, timeout=5) as client:
            client.sendall(sent)
            assert kinds(read_until(client, b"Z")) in (b"E", b"")
    with socket.create_connection(exact_server.address, timeout=5) as client:
        client.sendall(struct.pack("!ii", 8, 80877104) + struct.pack("!ii", 8, 80877103) + START)
        assert client.recv(1) == client.recv(1) == b"N"
        assert kinds(read_until(client, b"Z")).startswith(b"RS")


def test_random_messages_are_answered_or_end_the_connection():
    """2,000 sequences of one seed; `scripts/fuzz --wire` runs others."""
    assert list(findings(7, range(2_000))) == []


def test_what_a_connection_holds_is_limited(exact_server):
    client, _ = opened(exact_server)
    found = []
    for number in range(1_005):
        found = ask(
            client, message(b"P", text(f"s{number}", "SELECT 1") + struct.pack("!h", 0)), message(b"S")
        )
    assert states(found) == ["53400"]
    assert kinds(ask(client, message(b"Q", text("DEALLOCATE ALL")))) == b"CZ"
    found = ask(client, message(b"Q", text("SELECT * FROM generate_series(1, 100000000)")))
    assert states(found) == ["54000"]
    client.close()


def test_connections_beyond_the_limit_are_refused():
    with shop.serving(shop.state(), connections=2) as server:
        held = [opened(server)[0] for _ in range(2)]
        third, found = opened(server)
        assert states(found) == ["53300"]
        for client in (*held, third):
            client.close()
        time.sleep(0.1)
        client, found = opened(server)
        assert kinds(found).endswith(b"Z")
        client.close()


LONG = (
    "SELECT count(*) FROM generate_series(1, 3000) a, generate_series(1, 3000) b, generate_series(1, 3000) c"
)


def test_a_statement_is_cancelled_by_its_client_and_by_time(dsn):
    with psycopg.connect(dsn, autocommit=True) as client:
        threading.Timer(0.3, client.cancel_safe).start()  # `cancel` would hold the lock that our server needs
        with pytest.raises(psycopg.errors.QueryCanceled, match="user request"):
            client.execute(LONG)
        assert client.execute("SELECT 1").fetchone() == (1,)
        client.execute("SET statement_timeout = 200")
        with pytest.raises(psycopg.errors.QueryCanceled, match="timeout"):
            client.execute(LONG)
        assert client.execute("SELECT n FROM by_region LIMIT 1").fetchone()


def test_a_statement_that_is_cancelled_before_it_begins_leaves_its_connection_alone(exact_server):
    client = Client(exact_server.engine)
    tree = sqlglot.parse_one("SELECT 1 AS one", dialect="postgres")
    late = client.statement(lambda: client.run(tree))
    client.abandon()
    with ThreadPoolExecutor(1) as threads:
        with pytest.raises(Refusal, match="canceling statement"):
            threads.submit(late).result()
        assert threads.submit(client.statement(lambda: client.run(tree))).result().table.num_rows == 1
    client.close()


def test_a_cancel_request_with_a_wrong_secret_does_nothing(exact_server):
    client, found = opened(exact_server)
    process, secret = struct.unpack("!iI", next(body for kind, body in found if kind == b"K"))
    with socket.create_connection(exact_server.address, timeout=5) as other:
        other.sendall(struct.pack("!iiiI", 16, 80877102, process, secret ^ 1))
        assert other.recv(1) == b""
    assert kinds(ask(client, message(b"Q", text("SELECT 1")))) == b"TDCZ"
    client.close()


def test_writes_are_refused(dsn):
    with psycopg.connect(dsn, autocommit=True) as client:
        for written in (
            "INSERT INTO orders VALUES (1)",
            "CREATE TABLE x (y int)",
            "DROP VIEW by_region",
            "TRUNCATE orders",
            "SELECT 1 AS x INTO y",
            "WITH a AS (DELETE FROM orders RETURNING *) SELECT * FROM a",
            "COPY orders FROM STDIN",
            "SELECT * FROM by_region FOR UPDATE",
            "VACUUM",
            "SET TRANSACTION READ WRITE",
        ):
            with pytest.raises(psycopg.Error) as raised:
                client.execute(written)
            assert raised.value.sqlstate == "25006", written


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    where = tmp_path_factory.mktemp("tls")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"],
        cwd=where, check=True, capture_output=True,
    )  # fmt: skip
    return where


@pytest.fixture(scope="module")
def guarded(certificate):
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    with shop.serving(shop.state(), password=TOKEN, tls=tls) as server:
        yield server


def test_psql_gives_a_password_over_tls(guarded, certificate):
    place = f"host=localhost port={guarded.address[1]} user=me dbname=shop sslmode=verify-full sslrootcert={certificate}/cert.pem"
    for password, sure in ((TOKEN, True), ("wrong", False)):
        environment = {"PGPASSWORD": password, "PATH": "/usr/bin:/bin"}
        command = ["psql", "-X", "-At", "-c", "SELECT count FROM orders_kept", place]
        done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
        assert (done.returncode == 0) is sure, done.stderr
        assert done.stdout == ("3000\n" if sure else "")
        if not sure:
            assert "password authentication failed" in done.stderr


def test_every_client_needs_the_password(guarded):
    place = f"host=127.0.0.1 port={guarded.address[1]} user=anyone dbname=shop"
    with psycopg.connect(f"{place} password={TOKEN} sslmode=require") as client:
        assert client.execute("SELECT 1").fetchone() == (1,)
        assert client.pgconn.ssl_in_use
    for wrong in ("", "x", TOKEN[:-1], TOKEN + "x"):
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(f"{place} password='{wrong}'")
    with socket.create_connection(guarded.address, timeout=5) as client:
        client.sendall(START)
        assert client.recv(9) == b"R\0\0\0\x17\0\0\0\n"  # it asks for SASL, and nothing else is said


def test_bytes_before_tls_are_refused(guarded):
    with socket.create_connection(guarded.address, timeout=5) as client:
        client.sendall(struct.pack("!ii", 8, 80877103) + START)
        assert b"S" not in client.recv(1)[:1] or client.recv(10) == b""


def test_asyncpg_and_psycopg_agree_on_scram(guarded):
    asyncpg = pytest.importorskip("asyncpg")

    async def ask():
        client = await asyncpg.connect(
            host="127.0.0.1", port=guarded.address[1], user="me", database="shop", password=TOKEN
        )
        assert await client.fetchval("SELECT 1") == 1
        await client.close()

    asyncio.run(ask())
