import pytest

from eddyline.errors import CorruptState, FormatVersion, StoreError
from eddyline.sketch import codec
from eddyline.store import Reader, verify
from eddyline.store.layout import CURRENT, NEWEST, encode_pointer, epoch_name
from tests.store.runs import ANY, flipped, new_store


def kinds(where):
    return [(problem.file, problem.kind) for problem in verify(where)]


@pytest.fixture
def files(where):
    """The files of a store with epochs 1, 2 and 3."""
    new_store(where, batches=3).close()
    assert verify(where) == []
    return Reader(where).files


def test_damage_is_found_in_every_epoch(where, files):
    for number in (1, 3):
        files.replace(epoch_name(number), flipped(files.read(epoch_name(number), ANY), 100))
    assert kinds(where) == [(epoch_name(3), "corrupt"), (epoch_name(1), "corrupt")]
    with pytest.raises(CorruptState, match="epoch 2 can be read"):
        Reader(where).latest()


def test_a_damaged_pointer_is_found(where, files):
    files.replace(CURRENT, flipped(files.read(CURRENT, ANY), 3))
    assert kinds(where) == [(CURRENT, "corrupt")]
    with pytest.raises(CorruptState, match="epoch 3 can be read"):
        Reader(where).latest()


def test_a_missing_pointer_is_found(where, files):
    files.remove(CURRENT)
    assert kinds(where) == [(CURRENT, "missing")]


def test_a_missing_epoch_is_found(where, files):
    files.remove(epoch_name(3))
    assert kinds(where) == [(epoch_name(3), "missing")]
    with pytest.raises(CorruptState, match="is missing; epoch 2 can be read"):
        Reader(where).latest()


def test_another_version_is_found(where, files):
    data = bytearray(files.read(epoch_name(3), ANY)[: -codec._DIGEST])
    data[4] = 9
    files.replace(epoch_name(3), bytes(data) + codec._digest(data))
    assert kinds(where) == [(epoch_name(3), "version")]
    with pytest.raises(FormatVersion, match="format version 9"):
        Reader(where).latest()


def test_leftovers_are_found_and_told_from_damage(where, files):
    files.replace(CURRENT, encode_pointer(2))
    files.replace(NEWEST, encode_pointer(2))
    files.create("epoch-000000000004.eddy.12ab.tmp", b"half")
    assert {each for each in kinds(where) if each[1] != "missing"} == {
        (epoch_name(3), "leftover"),
        ("epoch-000000000004.eddy.12ab.tmp", "leftover"),
    }


def test_nothing_left_to_read(where, files):
    for number in (1, 2, 3):
        files.replace(epoch_name(number), b"EDDY")
    with pytest.raises(CorruptState, match="no epoch can be read: remove the store's folder"):
        Reader(where).latest()


def test_there_is_no_store(tmp_path):
    with pytest.raises(StoreError, match="there is no store"):
        verify(tmp_path)
