"""Many and long statements of one client: what the server keeps of them, and whether others are still answered."""

import contextlib
import gc
import socket
import struct
import sys
import threading

import psycopg
import pytest

from eddyline.sample.packing import process_memory, return_freed
from tests.serve.postgres import shop

START = struct.pack("!ii", 8 + 1 + len(b"user\0me\0"), 3 << 16) + b"user\0me\0\0"
SLOW = "SELECT count(*) + {} FROM generate_series(1, 3000) a, generate_series(1, 3000) b WHERE a + b > 7"


def listed(first, terms=2_400):
    """Return a query of some 20,000 characters: a few MB as a syntax tree."""
    return f"SELECT 1 WHERE 7 IN ({', '.join(str(first * 10_000 + each) for each in range(1_000, 1_000 + terms))})"


def settled():
    gc.collect()
    return_freed(1 << 30)
    return process_memory()["resident"] >> 20


@pytest.mark.skipif(sys.platform != "linux", reason="/proc shows what a process takes")
def test_long_statements_do_not_stay_in_memory():
    """Forty long statements, prepared and not, in two connections: their trees would take 80 MB and more."""
    with shop.serving(shop.state()) as server:
        dsn = f"host=127.0.0.1 port={server.address[1]} user=me"
        with (
            psycopg.connect(dsn, autocommit=True) as plain,
            psycopg.connect(dsn, autocommit=True, prepare_threshold=0) as preparing,
        ):
            for number in range(8):
                preparing.execute(listed(number))
            before = settled()
            for number in range(100, 120):
                assert plain.execute(listed(number)).fetchall() == []
                assert preparing.execute(listed(number + 100)).fetchall() == []
            assert settled() - before < 30


@pytest.mark.skipif(sys.platform != "linux", reason="/proc shows what a process takes")
def test_results_that_are_kept_are_bounded_by_their_bytes():
    """Fourteen results of 3 MB each, of which 32 MB are kept."""
    kept = shop.state()
    with shop.serving(kept) as server:
        dsn = f"host=127.0.0.1 port={server.address[1]} user=me"
        with psycopg.connect(dsn, autocommit=True) as client:
            for number in range(14):
                client.execute(f"SELECT a, a + {number} FROM generate_series(1, 200000) AS g(a) LIMIT 180000")
        assert 0 < kept.snapshot.memo.nbytes <= 32 << 20


def test_cursors_of_all_connections_share_a_limit(monkeypatch):
    monkeypatch.setattr("eddyline.serve.postgres.session._MOST_RESULTS", 20 << 20)
    rows = "SELECT a FROM generate_series(1, 1000000) AS g(a)"  # 8 MB
    with shop.serving(shop.state()) as server:
        dsn = f"host=127.0.0.1 port={server.address[1]} user=me"
        with psycopg.connect(dsn) as one, psycopg.connect(dsn) as other:
            one.execute(f"DECLARE a CURSOR FOR {rows}")
            other.execute(f"DECLARE b CURSOR FOR {rows}")
            with pytest.raises(psycopg.errors.OutOfMemory, match="cursors hold results of more than 20 MB"):
                one.execute(f"DECLARE c CURSOR FOR {rows}")
            one.rollback()
            other.execute(f"DECLARE d CURSOR FOR {rows}")


def test_parameters_have_at_most_as_many_values_as_a_query_has_parts(dsn):
    with psycopg.connect(dsn, autocommit=True) as client:
        asked = "SELECT count(*) FROM orders WHERE customer = ANY(%s)"
        assert client.execute(asked, (list(range(400)),)).fetchone()[0] > 0
        for binary in (False, True):
            with (
                client.cursor(binary=binary) as cursor,
                pytest.raises(psycopg.errors.ProgramLimitExceeded, match="more than 5,000 values"),
            ):
                cursor.execute(asked, (list(range(100_000)),))


def test_declared_cursors_take_parameters(dsn):
    with psycopg.connect(dsn) as client:
        client.execute("DECLARE c CURSOR FOR SELECT a FROM generate_series(1, 10) AS g(a) WHERE a > %s", (7,))
        assert client.execute("FETCH ALL FROM c").fetchall() == [(8,), (9,), (10,)]


@contextlib.contextmanager
def opened(server, source="127.0.0.1"):
    with socket.create_connection(server.address, timeout=60, source_address=(source, 0)) as client:
        client.sendall(START)
        received(client)
        yield client


def received(client):
    """Return what the server sends up to when it is ready for the next statement."""
    found = b""
    while b"Z\0\0\0\x05I" not in found:
        found += client.recv(65536)
    return found


@contextlib.contextmanager
def asked_at_once(server, texts, source="127.0.0.1"):
    """Send each statement in a connection of its own, without waiting; give a list that the answers go to."""
    answers = []
    with contextlib.ExitStack() as opening:
        held = [(opening.enter_context(opened(server, source)), text) for text in texts]
        for client, text in held:
            client.sendall(b"Q" + struct.pack("!i", len(text) + 5) + text.encode() + b"\0")
        waiting = [
            threading.Thread(target=lambda client=client: answers.append(received(client)), daemon=True)
            for client, _ in held
        ]
        for each in waiting:
            each.start()
        yield answers
        for each in waiting:
            each.join(60)


def rows(answers):
    return [each for each in answers if each.startswith(b"T")]


@pytest.mark.parametrize("source", ["127.0.0.1", "127.0.0.2"])
def test_long_statements_do_not_keep_others_waiting(source):
    """Forty connections send long statements at once; another client, behind the same address or not, asks short
    ones meanwhile. In order of arrival all forty came first."""
    with shop.serving(shop.state(), seconds=50) as server:
        with asked_at_once(server, (listed(n, 1_200) for n in range(40))) as answers:
            with opened(server, source) as other:
                for _ in range(3):
                    other.sendall(b"Q\0\0\0\x0dSELECT 7\0")
                    assert b"D\0\0\0\x0b\0\x01\0\0\0\x017" in received(other)
            before = len(rows(answers))
        refused = [each for each in answers if b"questions are being answered" in each]
    assert before <= 15
    assert len(rows(answers)) + len(refused) == 40
    assert len(rows(answers)) >= 25


def test_clients_of_different_hosts_take_turns():
    """Forty slow statements of one host are sent first, and one of another is answered after a few of them."""
    with (
        shop.serving(shop.state(), seconds=50) as server,
        asked_at_once(server, [SLOW.format(n) for n in range(40)]) as answers,
    ):
        with opened(server, "127.0.0.2") as other:
            text = SLOW.format(99).encode() + b"\0"
            other.sendall(b"Q" + struct.pack("!i", len(text) + 4) + text)
            assert rows([received(other)])
        before = len(rows(answers))
    assert before <= 20
    assert len(rows(answers)) == 40
