"""Files that are sound but not the right ones, too long, or not files: found by `verify`, refused by readers at once."""

import os
import stat
import subprocess
import sys
import time

import pytest
from pyarrow import fs

from eddyline.errors import CorruptState, Locked, StoreError
from eddyline.sketch import codec
from eddyline.store import Reader, Store, verify
from eddyline.store.layout import CURRENT, LOCK, NEWEST, encode_pointer, epoch_name
from tests.data.moving_store import MovingStore
from tests.data.moving_store import plan as moving_plan
from tests.store.runs import ANY, deliver, new_store, open_store

SPARSE = 10 << 30


def kinds(where):
    return [(problem.file, problem.kind) for problem in verify(where)]


@pytest.fixture
def files(where):
    """The files of a store with epochs 1, 2 and 3."""
    new_store(where, batches=3).close()
    assert verify(where) == []
    return Reader(where).files


def test_each_epoch_has_the_hash_of_its_parent(where, files):
    reader = Reader(where)
    epochs = {number: reader.at(number) for number in (1, 2, 3)}
    for number in (2, 3):
        data = files.read(epoch_name(number - 1), ANY)
        assert epochs[number].commit.parent_hash == codec.digest_of(data) == epochs[number - 1].digest
    assert reader.pointer().digest == epochs[3].digest


def test_an_older_pointer_that_is_put_back_is_found(where, files):
    old = encode_pointer(2, Reader(where).at(2).digest)
    files.replace(CURRENT, old)
    assert (CURRENT, "corrupt") in kinds(where)
    files.remove(epoch_name(3))
    (problem,) = [each for each in verify(where) if each.kind == "corrupt"]
    assert "it names epoch 2, and epoch 3 was committed" in problem.sentence
    Store.restore(where, 2)
    assert verify(where) == []


def test_an_older_pointer_is_found_without_the_note(where, files):
    files.remove(NEWEST)
    files.replace(CURRENT, encode_pointer(1, Reader(where).at(1).digest))
    assert (CURRENT, "corrupt") in kinds(where)


def test_a_writer_that_was_killed_before_the_pointer_is_no_problem(where, files):
    def killed(step):
        if step == "pointer-written":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), open_store(where, fault=killed) as store:
        deliver(store, 3)
    if (
        epoch_name(4) in files.names() and Reader(where).current() == 3
    ):  # pyarrow publishes a file whose writing failed
        assert kinds(where) == [(epoch_name(4), "leftover")]
    else:
        assert kinds(where) == []


def test_a_damaged_note_is_no_damage(where, files):
    files.replace(NEWEST, b"")
    assert kinds(where) == [(NEWEST, "leftover")]
    with open_store(where) as store:
        deliver(store, 3)
    assert verify(where) == []


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_sound_epoch_of_another_run_is_found(where, files, tmp_path, number):
    """The other run has the same plan and the same numbers of epochs, and other rows."""
    with new_store(tmp_path / "other") as other:
        for batch in range(3):
            deliver(other, batch, query_id="q-2", words=448)
    data = Reader(tmp_path / "other").files.read(epoch_name(number), ANY)
    files.replace(epoch_name(number), data)
    assert (epoch_name(number), "corrupt") in kinds(where)
    if number == 3:
        with pytest.raises(CorruptState, match=r"is not the file that CURRENT names.*epoch 2 can be read"):
            Reader(where).latest()


def test_an_epoch_of_another_seed_is_found(tmp_path):
    for name, seed in (("one", 7), ("two", 8)):
        store = MovingStore(tmp_path / name, moving_plan(seed=seed))
        store.move()
        store.close()
    current = Reader(tmp_path / "one").current()
    file = epoch_name(current)
    (tmp_path / "one" / file).write_bytes((tmp_path / "two" / file).read_bytes())
    assert (file, "corrupt") in kinds(tmp_path / "one")


def test_a_store_of_an_earlier_format_has_no_hashes_and_is_sound(where, files):
    files.replace(CURRENT, encode_pointer(3))
    files.remove(NEWEST)
    assert verify(where) == []
    assert Reader(where).latest().number == 3


@pytest.fixture
def local(tmp_path):
    new_store(tmp_path / "state", batches=3).close()
    return tmp_path / "state"


def test_a_pipe_is_not_waited_for(local):
    for name in (CURRENT, LOCK, epoch_name(3)):
        kept = (local / name).read_bytes()
        (local / name).unlink()
        os.mkfifo(local / name)
        started = time.monotonic()
        reader = Reader(local)
        if name == LOCK:
            assert reader.writer() is None
        else:
            with pytest.raises(CorruptState):
                reader.latest()
        assert time.monotonic() - started < 5
        (local / name).unlink()
        (local / name).write_bytes(kept)


def test_a_link_in_place_of_the_lock_is_not_followed(local, tmp_path):
    (tmp_path / "victim").write_text("precious")
    (local / LOCK).unlink()
    (local / LOCK).symlink_to(tmp_path / "victim")
    with pytest.raises(StoreError):
        open_store(local)
    assert (tmp_path / "victim").read_text() == "precious"


def sparse(path, first=b""):
    with path.open("wb") as file:
        file.write(first)
        file.truncate(SPARSE)


def test_huge_files_are_refused_without_being_read(local):
    """In a process of its own, whose memory is limited to less than a tenth of the files."""
    for name in (CURRENT, LOCK, epoch_name(3)):
        kept = (local / name).read_bytes()
        sparse(local / name, kept if name == epoch_name(3) else b"")
        text = (
            "import resource, sys; from eddyline.store import Reader, verify; from eddyline.errors import CorruptState\n"
            "resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))\n"
            "reader = Reader(sys.argv[1]); print(reader.writer(), end=' ')\n"
            "try: print(reader.latest().number)\n"
            "except CorruptState as error: print('refused')"
        )
        done = subprocess.run(
            [sys.executable, "-c", text, str(local)], capture_output=True, text=True, timeout=60, check=True
        )
        assert done.stdout.split() == (["None", "3"] if name == LOCK else ["None", "refused"])
        (local / name).write_bytes(kept)


def test_a_large_file_is_hashed_in_blocks_before_it_is_read(local, monkeypatch):
    monkeypatch.setattr(codec, "_LARGE", 100)
    assert Reader(local).latest().number == 3
    data = bytearray((local / epoch_name(3)).read_bytes())
    data[-30] ^= 1
    (local / epoch_name(3)).write_bytes(bytes(data))
    with pytest.raises(CorruptState, match="checksum"):
        Reader(local).latest()


@pytest.mark.parametrize("length", [0, 5, 35, 36, 37, 1000, codec._LARGE + 1])
def test_the_length_is_checked_before_the_content(length):
    with pytest.raises(CorruptState):
        codec.check_length(length, bytes(min(length, 64)), lambda: iter(()))


@pytest.mark.parametrize("block", [1, 7, 16, 17, 100, 1000])
def test_blocks_of_any_size_have_the_same_checksum(block, monkeypatch):
    monkeypatch.setattr(codec, "_LARGE", 10)
    data = codec.pack(codec.KIND_EPOCH, b"{}", bytes(range(100)))
    for wrong in (None, 0, 50, len(data) - 1):
        changed = bytearray(data)
        if wrong is not None:
            changed[wrong] ^= 1
        blocks = [bytes(changed[at : at + block]) for at in range(0, len(data), block)]
        if wrong is None:
            codec.check_length(len(data), data, lambda blocks=blocks: iter(blocks))
        else:
            with pytest.raises(CorruptState):
                codec.check_length(len(data), bytes(changed), lambda blocks=blocks: iter(blocks))


def test_others_cannot_read_a_store(tmp_path):
    before = os.umask(0o022)
    try:
        new_store(tmp_path / "state", batches=2).close()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o750
    for path in (tmp_path / "state").iterdir():
        assert not stat.S_IMODE(path.stat().st_mode) & 0o037, path.name


def test_a_held_lock_still_names_its_holder(local):
    with open_store(local), pytest.raises(Locked, match=f"process {os.getpid()} on"):
        open_store(local)


def test_a_directory_of_pyarrow_reads_no_more_than_a_check_allows():
    files = Reader(fs._MockFileSystem()).files
    files.replace("a", b"x" * 100)
    assert files.read("a", ANY) == b"x" * 100
    with pytest.raises(CorruptState, match="100 bytes long"):
        files.read("a", lambda file: (_ for _ in ()).throw(CorruptState(f"{file.size} bytes long")))


def test_a_copy_made_while_a_run_writes_is_sound(tmp_path):
    """As docs/how-to/operate.md has it: CURRENT first, then the epochs, and neither NEWEST nor LOCK."""
    with new_store(tmp_path / "state", batches=4) as store:
        (tmp_path / "copy").mkdir()
        (tmp_path / "copy" / CURRENT).write_bytes((tmp_path / "state" / CURRENT).read_bytes())
        deliver(store, 4)
        for file in sorted((tmp_path / "state").glob("epoch-*.eddy")):
            (tmp_path / "copy" / file.name).write_bytes(file.read_bytes())
    assert {problem.kind for problem in verify(tmp_path / "copy")} <= {"leftover"}
    with open_store(tmp_path / "copy") as copy:
        assert copy.current.number == 4
        deliver(copy, 4)
    assert verify(tmp_path / "copy") == []
