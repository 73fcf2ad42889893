import contextlib
import os
import subprocess
import sys
import threading

import msgspec
import pytest
from pyarrow import fs

from eddyline.errors import Locked
from eddyline.store import Reader
from eddyline.store.filesystem import open_files
from eddyline.store.layout import LOCK, epoch_name
from eddyline.store.lock import _myself, acquire
from tests.store.runs import deliver, new_store, open_store, run_child


def claims(where):
    return [name for name in Reader(where).files.names() if name.endswith(".claim")]


def plant_claim(where, **changes):
    """Leave the claim of another writer."""
    holder = msgspec.structs.replace(_myself(), **changes)
    Reader(where).files.create("writer-other.claim", msgspec.json.encode(holder))


def ended_process():
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def test_the_second_writer_is_told_who_holds_it(anywhere):
    with new_store(anywhere) as store:
        with pytest.raises(Locked, match=f"held by process {os.getpid()} on .*, which opened it at 20"):
            open_store(anywhere)
        assert deliver(store, 0)
    open_store(anywhere).close()


def test_a_second_process_is_told_too(tmp_path, s3):
    for where in (tmp_path, s3):
        with new_store(where) as store:
            code, said = run_child(where, 1)
            assert code == 0
            assert said.startswith(f"Locked: the store {store.where} is held by process {os.getpid()} on ")
            assert "secret" not in said


def test_a_writer_that_comes_while_another_looks_around_is_refused(monkeypatch):
    filesystem = fs._MockFileSystem()
    first, second = open_files(filesystem), open_files(filesystem)
    look, came = first.names, []

    def look_slowly():
        seen = look()
        if not came:
            came.append("second")
            with pytest.raises(Locked):
                acquire(second)
        return seen

    monkeypatch.setattr(first, "names", look_slowly)
    acquire(first).release()
    assert came
    acquire(second).release()


def test_a_lock_lost_in_the_middle_of_a_commit_moves_no_pointer(where):
    def fault(step):
        if step == "epoch-named" and lost:
            for name in {LOCK, *claims(where)} & set(Reader(where).names()):
                Reader(where).files.remove(name)

    lost = []
    with new_store(where, batches=1, fault=fault) as store:
        lost.append(True)
        with pytest.raises(Locked):
            deliver(store, 1)
    assert Reader(where).latest().number == 1
    with open_store(where) as store:
        assert deliver(store, 1)


def test_of_writers_that_rush_in_together_one_at_most_is_in(where):
    new_store(where).close()
    inside, most, ready = [], [], threading.Barrier(8)

    def rush(name):
        ready.wait()
        for _ in range(15):
            with contextlib.suppress(Locked), open_store(where):
                inside.append(name)
                most.append(len(inside))
                inside.remove(name)

    threads = [threading.Thread(target=rush, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(most) == {1}
    open_store(where).close()


def test_readers_need_no_lock(where):
    with new_store(where, batches=1):
        assert Reader(where).latest().number == 1


def test_a_refused_writer_leaves_no_claim(s3):
    with new_store(s3):
        with pytest.raises(Locked):
            open_store(s3)
        assert len(claims(s3)) == 1
    assert claims(s3) == []


def test_the_claim_of_a_dead_process_is_removed(s3):
    new_store(s3).close()
    plant_claim(s3, pid=ended_process())
    with open_store(s3):
        assert len(claims(s3)) == 1
    plant_claim(s3, process="an earlier process with our number")
    open_store(s3).close()


def test_a_claim_of_unknown_fate_stays_until_it_is_broken(s3):
    new_store(s3).close()
    plant_claim(s3, pid=ended_process(), machine="another", host="elsewhere")
    with pytest.raises(Locked, match=r"on elsewhere.*break_lock=True"):
        open_store(s3)
    open_store(s3, break_lock=True).close()
    Reader(s3).files.create("writer-other.claim", b"not a name")
    with pytest.raises(Locked, match="a writer that left no name"):
        open_store(s3)


def test_a_writer_whose_claim_was_broken_stops(s3):
    first = new_store(s3)
    with open_store(s3, break_lock=True) as second:
        with pytest.raises(Locked, match="it broke our lock"):
            deliver(first, 0)
        assert deliver(second, 0)
    first.close()


def test_a_writer_whose_lock_file_was_removed_stops(tmp_path):
    with new_store(tmp_path) as first:
        (tmp_path / LOCK).unlink()
        with pytest.raises(Locked, match="was removed"):
            deliver(first, 0)
        with open_store(tmp_path) as second:
            assert deliver(second, 0)
            with pytest.raises(Locked, match="was removed"):
                deliver(first, 1)


def test_the_next_epoch_is_created_by_one_writer_only(where):
    with new_store(where) as store:
        assert store.current.number == 0
        Reader(where).files.create(epoch_name(1), b"of a writer that saw no lock")
        with pytest.raises(Locked, match="made epoch 1"):
            deliver(store, 0)
