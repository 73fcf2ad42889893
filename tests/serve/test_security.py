"""Safe by default: other hosts demand a token, which is compared whole; slow and many questions are refused."""

import asyncio
import base64
import os
import select
import socket
import stat
import subprocess
import sys
import threading
import time
from contextlib import ExitStack

import httpx
import pytest

from eddyline.errors import PipelineError
from eddyline.serve.requests import Refused
from eddyline.serve.security import is_loopback, read_token
from eddyline.serve.turns import LONG_SQL, AnswerThreads
from eddyline.serve.view import History, HistoryFile
from tests.serve.conftest import serving
from tests.serve.waiting import until

TOKEN = "0123456789abcdef0123"


def basic(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.fixture
def guarded(store):
    with serving(store.where, host="0.0.0.0", token=TOKEN) as client:
        until(lambda: client.get("readyz").status_code == 200)
        yield client


@pytest.mark.parametrize(
    "given", [f"Bearer {TOKEN}", f"bearer {TOKEN}", basic("", TOKEN), basic("anyone", TOKEN)]
)
def test_who_has_the_token_is_answered(guarded, given):
    for address in ("", "api/v1/answers", "metrics"):
        assert guarded.get(address, headers={"authorization": given}).status_code == 200


@pytest.mark.parametrize(
    "given",
    [
        "",
        "Bearer",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN}x",
        basic(TOKEN, ""),
        "Basic é",
        "Basic !",
        f"Digest {TOKEN}",
        TOKEN,
    ],
)
def test_who_has_not_is_refused_everywhere_but_for_its_health(guarded, given):
    headers = {"authorization": given.encode()} if given else {}
    for address in ("", "api/v1/answers", "api/v1/events", "metrics", "page.js", "nowhere"):
        response = guarded.get(address, headers=headers)
        assert response.status_code == 401
        assert response.headers["www-authenticate"].startswith("Basic")
        assert "a token is needed" in response.json()["error"]["message"]
    assert guarded.get("healthz", headers=headers).status_code == 200


def test_a_host_that_others_can_reach_demands_a_token():
    for host in ("0.0.0.0", "::", "10.0.0.7", "example.org"):
        with pytest.raises(PipelineError, match="can be reached from other machines: give --token-file"):
            read_token(None, host)
    for host in ("127.0.0.1", "localhost", "::1", "[::1]", "127.8.8.8"):
        assert is_loopback(host)
        assert read_token(None, host) is None


@pytest.mark.parametrize("content", ["", "short", "with spaces in it all", "ümläüte-in-the-token"])
def test_a_token_that_is_none_is_refused(tmp_path, content):
    (tmp_path / "token").write_text(content)
    (tmp_path / "token").chmod(0o600)
    with pytest.raises(PipelineError, match=r"must be 16 ASCII characters or more without spaces"):
        read_token(tmp_path / "token", "0.0.0.0")


def test_a_token_file_that_is_missing_is_named(tmp_path):
    with pytest.raises(PipelineError, match=r"token file .*nowhere.* cannot be read"):
        read_token(tmp_path / "nowhere", "0.0.0.0")


def test_a_question_that_takes_too_long_is_refused_and_frees_its_place_when_it_ends():
    async def ask():
        few = AnswerThreads(threads=1, waiting=0, seconds=0.05)
        release = threading.Event()
        with pytest.raises(Refused, match=r"no answer within 0.05 seconds") as slow:
            await few.ask(release.wait)
        with pytest.raises(Refused, match="1 questions are being answered") as busy:
            await few.ask(lambda: 1)
        release.set()
        await asyncio.sleep(0.2)
        return slow.value.status, busy.value.status, await few.ask(lambda: 7)

    assert asyncio.run(ask()) == (504, 503, 7)


def test_many_questions_are_answered_a_few_at_a_time():
    at_once, most, turn = [0], [0], threading.Lock()

    def question():
        with turn:
            at_once[0] += 1
            most[0] = max(most[0], at_once[0])
        time.sleep(0.01)
        with turn:
            at_once[0] -= 1

    async def ask():
        few = AnswerThreads(threads=2, waiting=50)
        await asyncio.gather(*(few.ask(question) for _ in range(40)))

    asyncio.run(ask())
    assert most[0] <= 2


def test_a_client_with_many_questions_waits_for_its_own():
    """Forty questions of one client are asked first, and the one of another is answered after at most two of them."""
    order = []

    async def ask():
        few = AnswerThreads(threads=2, waiting=50)

        async def one(client, number):
            await few.ask(lambda: time.sleep(0.01), client)
            order.append((client, number))

        await asyncio.gather(*(one("many", number) for number in range(40)), one("other", 0))

    asyncio.run(ask())
    assert order.index(("other", 0)) <= 4
    assert [number for client, number in order if client == "many"][:30] != []


def test_long_texts_leave_a_thread_and_most_of_the_line_to_short_ones():
    """Clients behind a proxy have one address: there, long texts still do not keep short ones waiting."""

    async def ask():
        few = AnswerThreads(threads=2, waiting=32)
        release = threading.Event()
        long = [asyncio.ensure_future(few.ask(release.wait, "proxy", LONG_SQL)) for _ in range(50)]
        await asyncio.sleep(0)
        started = time.perf_counter()
        assert await few.ask(lambda: 7, "proxy") == 7
        took = time.perf_counter() - started
        release.set()
        return took, await asyncio.gather(*long, return_exceptions=True)

    took, found = asyncio.run(ask())
    refused = [each for each in found if isinstance(each, Refused)]
    assert took < 1
    assert {each.status for each in refused} == {503}
    assert len(refused) == 50 - 1 - 8


def test_a_full_line_refuses_the_client_that_fills_it():
    async def ask():
        few = AnswerThreads(threads=1, waiting=8)
        release = threading.Event()
        many = [asyncio.ensure_future(few.ask(release.wait, "many")) for _ in range(9)]
        await asyncio.sleep(0)
        other = asyncio.ensure_future(few.ask(lambda: 7, "other"))
        await asyncio.sleep(0)
        release.set()
        return await other, await asyncio.gather(*many, return_exceptions=True)

    other, many = asyncio.run(ask())
    assert other == 7
    assert [isinstance(each, Refused) for each in many] == [False] * 8 + [True]


def sent(client, text):
    """Return what the server sends back for raw bytes, until it closes the connection or has said all."""
    address = httpx.URL(str(client.base_url))
    with socket.create_connection((address.host, address.port), timeout=10) as raw:
        raw.sendall(text)
        received = b""
        while b"\r\n\r\n" not in received:
            part = raw.recv(65536)
            if not part:
                break
            received += part
        return received


@pytest.mark.parametrize(
    "host",
    [
        "[::1]evil.example",
        "[::1]:80@evil.example",
        "evil.example@127.0.0.1",
        "127.0.0.1.evil.example",
        "localhost:80:80",
        "localhost evil.example",
        "127.0.0.1/evil.example",
        "",
    ],
)
def test_a_host_is_a_name_of_the_loopback_and_nothing_else(client, host):
    found = sent(
        client, f"GET /api/v1/queries HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()
    )
    assert found.split()[1] in (b"421", b"400")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8321", "127.0.0.1:1", "[::1]", "[::1]:8321"])
def test_names_of_the_loopback_are_answered(client, host):
    found = sent(
        client, f"GET /api/v1/queries HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode()
    )
    assert found.split()[1] == b"200"


def test_a_request_of_two_lengths_is_refused_and_its_connection_closed(client):
    body = b"0\r\n\r\n"
    text = (
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    found = sent(client, text + body)
    assert found.split()[1] == b"400"
    assert b"connection: close" in found.lower()


def test_connections_that_trickle_keep_nobody_out(store, monkeypatch):
    """Each asks once and then sends a byte of a header now and then; the token is never sent."""
    with (
        serving(store.where, host="0.0.0.0", token=TOKEN, most_connections=20) as client,
        ExitStack() as held,
    ):
        address = httpx.URL(str(client.base_url))
        slow = [
            held.enter_context(socket.create_connection((address.host, address.port), timeout=10))
            for _ in range(40)
        ]
        for each in slow:
            try:
                each.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
                each.sendall(b"GET /healthz HTTP/1.1\r\nX-Slow: ")
            except OSError:  # given up for a newer connection
                continue
        for _ in range(5):
            for each in slow:
                try:
                    each.send(b"x")
                except OSError:
                    continue
            with httpx.Client(base_url=client.base_url, timeout=10) as other:
                assert other.get("healthz").status_code == 200
                assert other.get("api/v1/queries").status_code == 401
                token = {"authorization": f"Bearer {TOKEN}"}
                assert other.get("api/v1/queries", headers=token).status_code == 200


def test_a_second_request_that_trickles_is_closed(client, monkeypatch):
    monkeypatch.setattr("eddyline.serve.app.Connection.arrival", 1.0)
    address = httpx.URL(str(client.base_url))
    with socket.create_connection((address.host, address.port), timeout=1) as raw:
        raw.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert raw.recv(65536).split()[1] == b"200"
        until(lambda: is_closed_after(raw, b"x"), seconds=10)


def is_closed_after(raw, data):
    """Return whether the other side has closed a connection that is sent some more."""
    try:
        raw.sendall(data)
        return bool(select.select([raw], [], [], 0)[0]) and raw.recv(1) == b""
    except OSError:
        return True


def test_serve_prints_no_secret_of_a_uri():
    uri = "s3://KEY:SECRET@states/none?scheme=http&endpoint_override=127.0.0.1:9&region=us-east-1"
    arguments = [sys.executable, "-m", "eddyline.cli", "serve", uri, "--wait", "--port", "0"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as server:
        line = server.stdout.readline()
        server.terminate()
    assert "s3://states/none is served at http://127.0.0.1:" in line
    assert "KEY" not in line
    assert "SECRET" not in line


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o622, 0o660])
def test_a_token_file_that_others_can_read_is_refused(tmp_path, mode):
    path = tmp_path / "token"
    path.write_text(TOKEN)
    path.chmod(mode)
    with pytest.raises(PipelineError, match=rf"has mode {mode:04o}, so that others can .*: chmod 600"):
        read_token(path, "0.0.0.0")
    path.chmod(0o600)
    assert read_token(path, "0.0.0.0") == TOKEN


def test_a_token_file_that_is_a_pipe_or_huge_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(PipelineError, match="not a regular file"):
        read_token(tmp_path / "pipe", "0.0.0.0")
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(1 << 33)
    (tmp_path / "huge").chmod(0o600)
    with pytest.raises(PipelineError, match="longer than"):
        read_token(tmp_path / "huge", "0.0.0.0")


def test_the_history_is_for_its_user_only(tmp_path):
    path = tmp_path / "state" / "history.json"
    HistoryFile(path).save(History())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert HistoryFile(path).load() == History()


def test_a_history_that_is_huge_is_not_read(tmp_path):
    path = tmp_path / "history.json"
    with path.open("wb") as file:
        file.truncate(1 << 33)
    assert HistoryFile(path).load() == History()
