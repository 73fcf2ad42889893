import pytest
from pyarrow import fs

from eddyline.errors import StoreError
from eddyline.store import Reader, Store
from eddyline.store.filesystem import LocalFiles, open_files
from tests.store.runs import ANY, EMPTY, PLAN, new_store


def test_create_refuses_and_replace_overwrites(anywhere):
    files = open_files(anywhere)
    assert files.names() == []
    files.make()
    files.create("a", b"one")
    with pytest.raises(FileExistsError):
        files.create("a", b"two")
    assert files.read("a", ANY) == b"one"
    files.replace("a", b"two")
    files.replace("b", b"")
    assert (files.read("a", ANY), files.read("b", ANY), files.names()) == (b"two", b"", ["a", "b"])
    files.remove("a")
    files.remove("a")
    with pytest.raises(FileNotFoundError):
        files.read("a", ANY)


def test_whoever_has_a_file_open_keeps_the_bytes_they_opened(tmp_path):
    files = open_files(tmp_path)
    files.replace("a", b"old")
    with (tmp_path / "a").open("rb") as opened:
        files.replace("a", b"new")
        assert opened.read() == b"old"
    assert files.read("a", ANY) == b"new"


def test_a_file_uri_is_a_local_path(tmp_path):
    new_store(f"file://{tmp_path}/state").close()
    assert isinstance(open_files(f"file://{tmp_path}"), LocalFiles)
    assert Reader(tmp_path / "state").latest().number == 0


def test_a_subtree_of_a_filesystem_is_a_directory(tmp_path):
    subtree = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    new_store(subtree, batches=2).close()
    assert Reader(tmp_path).latest().number == 2


def test_messages_do_not_repeat_keys(s3):
    assert "secret" in s3
    with pytest.raises(StoreError, match="there is no store at s3://states/test_messages") as caught:
        Reader(s3).latest()
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("uri", ["nonsense://me:secret@bucket/x", "s3://me:secret@bucket/x?what=ever"])
def test_an_unknown_filesystem_is_told_without_keys(uri):
    with pytest.raises(StoreError, match="no filesystem of pyarrow opens") as caught:
        Reader(uri)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_file_in_the_way_is_reported(tmp_path):
    (tmp_path / "state").write_text("not a directory")
    with pytest.raises(StoreError, match="the store was not created"):
        Store.create(tmp_path / "state", PLAN, "run-1", EMPTY)
    with pytest.raises(StoreError, match="is a file, not a store"):
        Reader(tmp_path / "state").latest()
