import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.errors import CorruptState, FormatVersion
from eddyline.sketch import codec
from eddyline.store import Commit, PlanStamp, Reader, SourcePosition, Store
from eddyline.store.layout import (
    decode_pointer,
    encode,
    encode_pointer,
    epoch_name,
    epoch_number,
    make_epoch,
    read_epoch,
)
from tests.store.runs import ANY, PLAN, deliver, flipped, new_store, open_store

plans = st.builds(PlanStamp, st.text(), st.text(), st.dictionaries(st.text(), st.text(), max_size=3))
counts = st.integers(0, 2**62)
positions = st.builds(
    SourcePosition,
    st.text(),
    counts,
    counts,
    counts,
    counts,
    st.floats(allow_nan=False, allow_infinity=False),
)
sources = st.dictionaries(st.text(), positions, max_size=3)
contents = st.dictionaries(st.text(), st.binary(max_size=50), max_size=4)
SMALL = make_epoch(
    Commit(7, 6, "run-1", PLAN, {"o": SourcePosition("q", 3, 4, 1, 0, 2.5)}, {}), {"a": b"abc", "é": b""}
)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**11), plans, sources, contents)
def test_bytes_come_back(number, plan, where_streams_are, sections):
    epoch = make_epoch(Commit(number, None, "r", plan, where_streams_are, {}), sections)
    assert read_epoch(encode(epoch), number) == epoch


@pytest.mark.parametrize("bits", [0x01, 0x80, 0xFF])
def test_every_flipped_byte_is_corrupt(bits):
    data = encode(SMALL)
    for place in range(len(data)):
        with pytest.raises(CorruptState):
            read_epoch(flipped(data, place, bits), 7)


def test_every_truncation_and_every_extra_byte_is_corrupt():
    data = encode(SMALL)
    for end in range(len(data)):
        with pytest.raises(CorruptState):
            read_epoch(data[:end], 7)
    with pytest.raises(CorruptState):
        read_epoch(data + b"\0", 7)


def test_another_version_is_told_from_damage():
    data = bytearray(encode(SMALL)[: -codec._DIGEST])
    data[4] = 9
    with pytest.raises(FormatVersion, match="format version 9"):
        read_epoch(bytes(data) + codec._digest(data), 7)


def test_another_kind_another_epoch_and_a_wrong_header_are_corrupt():
    header = msgspec.json.encode(SMALL.commit)
    with pytest.raises(CorruptState, match="kind 2"):
        read_epoch(codec.pack(codec.KIND_STATE, header, b"abc"), 7)
    with pytest.raises(CorruptState, match="holds epoch 7, not 8"):
        read_epoch(encode(SMALL), 8)
    for body in (b"ab", b"abcd"):
        with pytest.raises(CorruptState, match="do not add up"):
            read_epoch(codec.pack(codec.KIND_EPOCH, header, body), 7)
    for wrong in (b"", b"{}", b"\xff", header[:-1], header.replace(b'"parent"', b'"paren2"')):
        with pytest.raises(CorruptState, match="header cannot be read"):
            read_epoch(codec.pack(codec.KIND_EPOCH, wrong, b"abc"), 7)


def test_the_pointer_detects_every_flip_and_truncation():
    data = encode_pointer(12)
    assert decode_pointer(data).number == 12
    for place in range(len(data)):
        for bits in (1, 0xFF):
            with pytest.raises(CorruptState):
                decode_pointer(flipped(data, place, bits))
        with pytest.raises(CorruptState):
            decode_pointer(data[:place])


def test_names_of_epochs():
    assert epoch_number(epoch_name(12)) == 12
    assert [epoch_number(name) for name in ("CURRENT", "epoch-12.eddy", epoch_name(1) + ".x.tmp")] == [
        None
    ] * 3


def test_every_flipped_byte_in_the_directory_offers_the_epoch_before(tmp_path):
    new_store(tmp_path, batches=2).close()
    file, reader = tmp_path / epoch_name(2), Reader(tmp_path)
    data = file.read_bytes()
    head = 20 + len(msgspec.json.encode(reader.latest().commit))
    for place in [*range(head), *range(head, len(data), 97), *range(len(data) - 16, len(data))]:
        file.write_bytes(flipped(data, place))
        with pytest.raises(CorruptState, match="epoch 1 can be read"):
            reader.latest()
    file.write_bytes(data)
    assert reader.latest().number == 2


def test_a_damaged_store_is_not_opened_for_writing_and_can_go_back(anywhere):
    with new_store(anywhere, batches=3) as store:
        files = store._writer.reader.files
        files.replace(epoch_name(3), files.read(epoch_name(3), ANY)[:-40])
    with pytest.raises(CorruptState, match="epoch 2 can be read"):
        open_store(anywhere)
    wanted = Reader(anywhere).at(2)
    restored = Store.restore(anywhere, 2)
    assert (restored.number, restored.commit.parent, restored.sections) == (4, 2, wanted.sections)
    assert Reader(anywhere).epochs() == [4, 2, 1]
    with open_store(anywhere) as store:
        assert store.current == restored
        assert deliver(store, 2)
