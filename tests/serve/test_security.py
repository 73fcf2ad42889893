"""Safe by default: other hosts demand a token, which is compared whole; slow and many questions are refused."""

import asyncio
import base64
import threading
import time

import pytest
from prometheus_client import CollectorRegistry, Histogram

from eddyline.errors import PipelineError
from eddyline.serve.asking import Asking
from eddyline.serve.problems import Refused
from eddyline.serve.security import is_loopback, read_token
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
    with pytest.raises(PipelineError, match=r"must be 16 ASCII characters or more without spaces"):
        read_token(tmp_path / "token", "0.0.0.0")


def test_a_token_file_that_is_missing_is_named(tmp_path):
    with pytest.raises(PipelineError, match=r"token file .*nowhere.* cannot be read"):
        read_token(tmp_path / "nowhere", "0.0.0.0")


def asking(**settings):
    return Asking(Histogram("took", "took", registry=CollectorRegistry()), **settings)


def test_a_question_that_takes_too_long_is_refused_and_frees_its_place_when_it_ends():
    async def ask():
        few = asking(threads=1, waiting=0, seconds=0.05)
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
        few = asking(threads=2, waiting=50)
        await asyncio.gather(*(few.ask(question) for _ in range(40)))

    asyncio.run(ask())
    assert most[0] <= 2
