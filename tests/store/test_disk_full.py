import contextlib
import errno
import subprocess

import pytest

from eddyline.errors import StoreError
from eddyline.store import COMMIT_STEPS, Reader, Store, verify
from eddyline.store.filesystem import Disk
from tests.store.runs import ARROW_STEPS, deliver, new_store, open_store, run_child

LARGE = 40_000  # words: an epoch of 320 kB


def check_failing_step(where, step):
    """Fail one step of a commit, see the old epoch or the new one, and deliver the batch again."""
    full = []

    def fault(reached):
        if reached == step and full:
            raise OSError(errno.ENOSPC, "No space left on device")

    with new_store(where, batches=2, fault=fault) as store:
        full.append(True)
        with pytest.raises(StoreError, match="the disk is full") as caught:
            deliver(store, 2)
        is_renamed = "is current, and a loss of power may still undo it" in str(caught.value)
        assert is_renamed == (step in {"pointer-named", "pointer-listed"})
        assert Reader(where).at(2).number == 2
        visible = Reader(where).latest().number
        full.clear()
        assert deliver(store, 2) == (visible == 2)
        assert store.current.number == 3
    with open_store(where):
        assert verify(where) == []
    return visible


@pytest.mark.parametrize("step", COMMIT_STEPS[:-1])
def test_a_disk_that_fills_up_at_any_step_leaves_the_old_epoch(tmp_path, step):
    visible = check_failing_step(tmp_path, step)
    assert visible == (3 if step in {"pointer-named", "pointer-listed"} else 2)


@pytest.mark.parametrize("step", ARROW_STEPS[:-1])
def test_an_object_store_that_fails_at_any_step_leaves_the_old_epoch(s3, step):
    visible = check_failing_step(s3, step)
    assert visible == (3 if step.startswith("pointer") else 2)


@pytest.mark.parametrize(("failing", "is_restored"), [(1, False), (2, True)], ids=["epoch", "pointer"])
def test_a_restore_that_was_not_synced_does_not_say_that_nothing_happened(
    tmp_path, monkeypatch, failing, is_restored
):
    """It said that the store stays as it was, and the older epoch was current."""
    new_store(tmp_path, batches=2).close()
    calls = []

    def sync(disk, path, _sync=Disk.sync_directory):
        calls.append(path)
        if len(calls) == failing:
            raise OSError(errno.EIO, "Input/output error")
        _sync(disk, path)

    monkeypatch.setattr(Disk, "sync_directory", sync)
    before = Reader(tmp_path).current()
    with pytest.raises(StoreError) as caught:
        Store.restore(tmp_path, before - 1)
    assert (Reader(tmp_path).current() > before) == is_restored
    assert ("is current, and a loss of power may still undo it" in str(caught.value)) == is_restored


def test_the_sentence_of_a_full_disk(tmp_path):
    def fault(step):
        if step == "epoch-written" and full:
            raise OSError(errno.ENOSPC, "No space left on device")

    full = []
    with new_store(tmp_path, batches=2, fault=fault) as store:
        full.append(True)
        with pytest.raises(StoreError) as caught:
            deliver(store, 2)
    assert str(caught.value) == (
        "batch 2 of stream orders is not confirmed, and epoch 2 stays readable: "
        f"the disk is full at {tmp_path}; free some space and run again."
    )


@contextlib.contextmanager
def small_disk(path):
    """Yield the limit on file size to use: 0 on a full tmpfs, and where none can be mounted, 100 kB."""
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(path)]
    try:
        mounted = subprocess.run(command, check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        mounted = False
    try:
        yield 0 if mounted else 100_000
    finally:
        if mounted:
            subprocess.run(["umount", str(path)], check=True)


def check_full_disk(where, limit, reason):
    """Fill the disk with a large epoch from another process; then deliver the same batch, smaller."""
    new_store(where, batches=2).close()
    before = Reader(where).latest()
    code, said = run_child(where, 3, limit=limit, words=LARGE)
    assert code == 0
    assert said.startswith(
        "StoreError: batch 2 of stream orders is not confirmed, and epoch 2 stays readable"
    )
    assert reason in said
    assert Reader(where).latest() == before
    with open_store(where) as store:
        assert verify(where) == []
        assert deliver(store, 2)


def test_a_small_disk(tmp_path):
    with small_disk(tmp_path / "disk") as limit:
        reason = "files may not grow so large" if limit else "the disk is full"
        check_full_disk(tmp_path / "disk" / "state", limit, reason)


def test_a_limit_on_file_size(tmp_path):
    check_full_disk(tmp_path / "state", 100_000, "files may not grow so large")
