"""Caches of texts are bounded by what they hold, not by a number of entries."""

import threading

import pytest

import eddyline as el
from eddyline.expressions import arrow_eval, nodes
from eddyline.expressions.nodes import MOST_CHARACTERS, MOST_PARSED, TextCache
from eddyline.ingest.snapshot import Memo
from eddyline.sql import frame_conditions as ranges
from tests.data.moving_store import orders, plan

CACHES = [
    arrow_eval._parsed,
    nodes.columns_of,
    nodes.names_in,
    nodes.operand_text,
    nodes.may_fail,
    nodes.text_is_null_of_nulls,
    ranges._needed,
]


def test_results_are_remembered_and_texts_stay_within_the_limit():
    calls = []
    cache = TextCache(lambda text: calls.append(text) or len(text), 80)
    assert [cache("a" * n) for n in (3, 5, 3, 5)] == [3, 5, 3, 5]
    assert calls == ["aaa", "aaaaa"]
    for number in range(100):
        cache(f"text {number:04d}")
        assert cache.characters <= 80
    assert cache("text 0099") == 9
    assert len(calls) == 102
    cache("text 0000")
    assert len(calls) == 103, "the oldest texts were dropped"


def test_a_long_text_displaces_nothing():
    cache = TextCache(len, 80)
    cache("short")
    assert cache("x" * 11) == 11
    assert cache.characters == 6


def test_threads_share_a_cache():
    cache = TextCache(len, 2_000)

    def ask():
        for number in range(3_000):
            assert cache(str(number % 700)) == len(str(number % 700))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.characters == sum(len(text) + 1 for text in cache._results) <= 2_000


@pytest.mark.parametrize("cache", CACHES, ids=lambda cache: cache.__name__)
def test_every_cache_of_expressions_is_bounded_by_characters(cache):
    assert isinstance(cache, TextCache)
    assert cache._most <= (MOST_PARSED if cache is arrow_eval._parsed else MOST_CHARACTERS)


def test_a_memo_holds_a_number_of_bytes():
    memo = Memo(most=1_000, most_bytes=800)
    for number in range(100):
        assert memo.recall(number, lambda: "x" * 90, len) == "x" * 90
        assert memo.nbytes <= 800
    assert len(memo) == 8
    memo.recall("large", lambda: "x" * 101, len)
    assert memo.nbytes == 720
    assert memo.recall("no size", lambda: 7) == 7
    memo.recall(99, lambda: pytest.fail("it is known"), len)


def test_answers_of_long_texts_count_in_the_memo():
    state = plan().empty().update("orders", orders(0, rows=50))
    text = "SELECT COUNT(*) FROM orders WHERE customer IN (" + ", ".join(map(str, range(300))) + ")"
    assert isinstance(state.answer(text), el.Estimate)
    assert state.snapshot.memo.nbytes >= 4 * len(text)
