"""Readers during commits: each sees whole epochs only, never one that goes back, and never an error."""

import multiprocessing
import threading

import numpy as np
import pytest

from eddyline.store import Reader
from eddyline.store.layout import CURRENT, epoch_name
from tests.store.runs import batch_counters, deliver, new_store

BATCHES = 30


def read_until(where, last, failures):
    """Read until the last epoch appears, and check that counters and hints of each are of one batch."""
    reader, sums, before = Reader(where), np.cumsum([batch_counters(i) for i in range(last)], axis=0), -1
    try:
        while before < last:
            epoch = reader.latest()
            assert epoch.number >= before
            before = epoch.number
            if before:
                assert epoch.sections["orders-key"] == sums[before - 1].tobytes()
                assert epoch.sections["orders-key/hints"] == f"batch {before - 1}".encode()
                assert epoch.commit.sources["orders"].batch_id == before - 1
    except BaseException as error:
        failures.append(repr(error))
        raise


def read_in_process(where, last):
    read_until(where, last, [])


def test_a_hundred_readers_see_whole_epochs(tmp_path):
    failures = []
    with new_store(tmp_path, keep=1) as store:
        forks = multiprocessing.get_context("forkserver")
        processes = [forks.Process(target=read_in_process, args=(tmp_path, BATCHES)) for _ in range(3)]
        threads = [threading.Thread(target=read_until, args=(tmp_path, BATCHES, failures)) for _ in range(97)]
        for reader in [*processes, *threads]:
            reader.start()
        for batch_id in range(BATCHES):
            deliver(store, batch_id)
        for reader in [*processes, *threads]:
            reader.join()
    assert failures == []
    assert [process.exitcode for process in processes] == [0, 0, 0]


def test_readers_of_an_object_store_see_whole_epochs(s3):
    failures = []
    with new_store(s3, keep=1) as store:
        threads = [threading.Thread(target=read_until, args=(s3, 10, failures)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for batch_id in range(10):
            deliver(store, batch_id)
        for thread in threads:
            thread.join()
    assert failures == []


def test_an_epoch_collected_under_a_reader_gives_way_to_the_newer_one(anywhere, monkeypatch):
    with new_store(anywhere, batches=2, keep=1) as store:
        reader = Reader(anywhere)
        read = reader.files.read

        def slow_read(name, check):
            if name == epoch_name(2):
                deliver(store, 2)  # two things happen between a reader's two reads
                deliver(store, 3)
            return read(name, check)

        monkeypatch.setattr(reader.files, "read", slow_read)
        assert reader.latest().number == 4


def test_a_pinned_epoch_outlives_its_file(where):
    with new_store(where, batches=1, keep=1) as store:
        pinned = Reader(where).latest()
        for batch_id in range(1, 4):
            deliver(store, batch_id)
    assert Reader(where).epochs() == [4]
    assert pinned.sections["orders-key"] == batch_counters(0).tobytes()


@pytest.mark.parametrize("torn", [b"", b"00000000"])
def test_a_pointer_that_is_being_overwritten_is_read_again(tmp_path, monkeypatch, torn):
    new_store(tmp_path, batches=1).close()
    reader = Reader(tmp_path)
    read, times = reader.files.read, []

    def tearing_read(name, check):
        times.append(name)
        return torn if name == CURRENT and len(times) < 3 else read(name, check)

    monkeypatch.setattr(reader.files, "read", tearing_read)
    assert reader.latest().number == 1
