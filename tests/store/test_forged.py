"""Bytes of state that were changed and whose checksum was computed again: refused, or read as a state that answers.

A forger knows the checksum, so it does not protect: what is decoded has to be sound by itself. Each case runs in a
process of its own, because an offset that is believed ends it by a signal and not by an exception.
"""

import copy
import json
import re
import resource
import struct
import subprocess
import sys
from pathlib import Path

import httpx
import msgspec
import numpy as np
import pyarrow as pa
import pytest

import eddyline as el
from eddyline.api import state as state_module
from eddyline.errors import CorruptState, EddylineError, FormatVersion
from eddyline.ingest.sections import to_sections
from eddyline.plan.layout import Layout
from eddyline.sample.labels import Labels
from eddyline.sketch import codec
from eddyline.sketch.codec import digest_of
from eddyline.sketch.hash_sketch import HashSketchSpec
from eddyline.sketch.synopsis import Synopsis
from eddyline.store.layout import CURRENT, NEWEST, encode_pointer
from tests.data.moving_store import MovingStore
from tests.data.moving_store import orders as some_orders
from tests.serve.waiting import until

ROWS = 3_000
MEMORY = 1 << 30
QUERIES = {
    "rows": "SELECT COUNT(*) FROM a WHERE x > 3",
    "join": "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k",
    "values": "SELECT COUNT(DISTINCT k) FROM a",
    "pairs": "SELECT COUNT(DISTINCT a.x, b.j) FROM a JOIN b ON a.k = b.k",
    "names": "SELECT name, COUNT(*) AS n, SUM(y) AS total FROM a GROUP BY name",
    "both": "SELECT a.name, COUNT(*) FROM a JOIN b ON a.k = b.k GROUP BY a.name",
    "middle": "SELECT name, MEDIAN(x) AS m FROM a GROUP BY name",
}


def filled(budget: str, *, samples: bool = True) -> el.State:
    made = el.Workload(budget=budget, seed=5, samples=samples)
    for name in ("a", "b"):
        made.stream(
            name, "k BIGINT, j BIGINT, x BIGINT, y DOUBLE, name STRING, at TIMESTAMP", event_time="at"
        )
    for name, text in QUERIES.items():
        if samples or name in ("rows", "join", "values"):
            made.query(name, text)
    made.query("lately", QUERIES["join"], window="10 minutes", slide="5 minutes")
    state = made.plan().empty()
    for place, name in enumerate(("a", "b")):
        index = np.arange(ROWS) * (2 + place)
        table = {
            "k": index % 701,
            "j": index % 97,
            "x": index % 13,
            "y": (index % 17) / 8,
            "name": [f"name {i % 211}" for i in index.tolist()],
            "at": pa.array(np.arange(ROWS) * 600_000, pa.timestamp("us", tz="UTC")),
        }
        state.update(name, pa.table(table))
    return state


def parts(data: bytes) -> tuple[bytearray, bytearray]:
    """Return header and body of a state."""
    header, body = codec.unpack(data, codec.KIND_STATE)
    return bytearray(header), bytearray(body)


def edited(rng: np.random.Generator, data: bytearray) -> bytearray:
    """Return bytes with one place changed: a bit, a byte, a word of extreme value, or a number of JSON."""
    at, kind = int(rng.integers(len(data))), int(rng.integers(4))
    if kind == 0:
        data[at] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        data[at] = int(rng.choice([0, 1, 0x7F, 0x80, 0xFF, 0x30, 0x39]))
    elif kind == 2:
        word = int(rng.choice(np.array([0, -1, 1, 2**31, -(2**31), 2**62, -(2**63), 2**63 - 1])))
        data[at : at + 8] = struct.pack("<q", word)[: len(data) - at]
    else:
        other = int(rng.integers(len(data)))
        data[at : at + 16] = data[other : other + 16][: len(data) - at].ljust(min(16, len(data) - at), b"\0")
    return data


def forged(rng: np.random.Generator, data: bytes) -> bytes:
    """Return a state with an edit of its header or its body, and with every hash computed again."""
    header, body = parts(data)
    kind = rng.random()
    if kind < 0.1:
        header = edited(rng, header)
    elif kind < 0.4:
        header = rehashed(edited_json(rng, header))
    else:
        body = edited(rng, body)
    return codec.pack(codec.KIND_STATE, bytes(header), bytes(body))


def edited_json(rng: np.random.Generator, header: bytearray) -> bytearray:
    """Return a header in which one number, list or name of the plan is another."""
    content = json.loads(header)
    leaves = [*_leaves(content["layout"])]
    holder, key = leaves[int(rng.integers(len(leaves)))]
    old = holder[key]
    if isinstance(old, bool) or old is None:
        holder[key] = not old
    elif isinstance(old, int | float):
        holder[key] = [-1, 0, 1, 2, old + 1, old * 1000, 2**31, 2**63, 2**70][int(rng.integers(9))]
    elif isinstance(old, str):
        other, place = leaves[int(rng.integers(len(leaves)))]
        holder[key] = copy.deepcopy(["", "'" + old, old + " + 1", other[place]][int(rng.integers(4))])
    else:
        holder[key] = [[], old[1:], old + old, old[::-1]][int(rng.integers(4))]
    return bytearray(json.dumps(content).encode())


def _leaves(content):
    """Yield each (holder, key) of a value of JSON that is no object."""
    for key, value in content.items() if isinstance(content, dict) else enumerate(content):
        if isinstance(value, dict | list):
            yield from _leaves(value)
        if not isinstance(value, dict):
            yield content, key


def rehashed(header: bytearray) -> bytearray:
    """Return a header with the hash of the layout that it holds now."""
    try:
        content = json.loads(header)
        content["digest"] = msgspec.convert(content["layout"], Layout).digest
    except (ValueError, msgspec.ValidationError, KeyError, TypeError, EddylineError, RecursionError):
        return header
    return bytearray(json.dumps(content).encode())


def outcome(data: bytes) -> str:
    """Return what became of bytes: refused, or read; a foreign exception is for the caller."""
    try:
        state = el.State.from_bytes(data)
    except (CorruptState, FormatVersion) as error:
        return type(error).__name__
    for name in state.snapshot.layout.query_names:
        try:
            str(state.answer(name))
        except EddylineError:
            return "refused to answer"
    try:
        state.explain()
    except EddylineError:
        return "refused to explain"
    state.to_bytes()
    return "read"


def work(folder: str, name: str, seed: int, edits: int) -> None:
    """Read edited states until one of them ends this process or raises an error that is not ours."""
    data = (Path(folder) / name).read_bytes()
    outcome(data)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found: dict[str, int] = {}
    for number in range(seed, seed + edits):
        one = forged(np.random.default_rng(number), data)
        sys.stderr.write(f"{number}\n")  # the last one is that which ended the process
        with np.errstate(all="ignore"):
            shown = outcome(one)
        found[shown] = found.get(shown, 0) + 1
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    sys.stdout.write(json.dumps({**found, "KB": grown}))


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    """A folder with a state that is exact, one that had to be reduced, and one of sketches alone."""
    folder = tmp_path_factory.mktemp("states")
    made = {
        "exact": filled("900 KB"),
        "reduced": filled("40 KB"),
        "sketches": filled("120 KB", samples=False),
    }
    for name, state in made.items():
        (folder / name).write_bytes(state.to_bytes())
    return folder


@pytest.mark.parametrize("name", ["exact", "reduced", "sketches"])
def test_edited_states_are_refused_or_answered(states, name):
    arguments = [sys.executable, "-m", "tests.store.test_forged", str(states), name, "0", "150"]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"returned {done.returncode}: {done.stderr[-2000:]}"
    found = json.loads(done.stdout)
    assert found["CorruptState"] > 10
    assert found["read"] > 10
    assert found["KB"] << 10 < MEMORY


def labels_of(values):
    return Labels(np.arange(len(values), dtype=np.int64), pa.array(values))


def test_labels_of_every_type_come_back():
    for values in (["b", None, "a"], [b"x"], [1.5], pa.nulls(3), pa.array([1], pa.timestamp("us")), []):
        labels = labels_of(values)
        assert Labels.from_bytes(labels.to_bytes()).values.equals(labels.values)


def test_one_offset_of_a_text_is_found():
    data = labels_of(["north", "south", "east"]).to_bytes()
    offsets = struct.pack("<4i", 0, 5, 10, 14)
    assert data.count(offsets) == 1
    for wrong in ((0, 1 << 30, 10, 14), (0, 5, 3, 14), (-8, 5, 10, 14), (0, 5, 10, 1 << 30)):
        with pytest.raises(CorruptState):
            Labels.from_bytes(data.replace(offsets, struct.pack("<4i", *wrong)))


@pytest.mark.parametrize("codec_name", ["lz4", "zstd"])
def test_compressed_labels_are_refused_before_they_take_memory(codec_name):
    rows = 1 << 20
    batch = pa.record_batch({"code": pa.array(np.arange(rows)), "value": pa.array([""] * rows)})
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec_name)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    data = bytes(sink.getvalue())
    before = pa.total_allocated_bytes()
    with pytest.raises(CorruptState, match="compressed"):
        Labels.from_bytes(data)
    assert pa.total_allocated_bytes() - before < len(data)


def test_labels_are_a_code_and_a_flat_value():
    good = pa.array([1, 2])
    for columns in (
        {"code": pa.array([1, None]), "value": good},
        {"code": pa.array([2, 1]), "value": good},
        {"code": pa.array([1.0, 2.0]), "value": good},
        {"code": good, "value": pa.array([[1], [2]])},
        {"code": good, "value": pa.array(["a", "a"]).dictionary_encode()},
        {"code": good, "other": good},
    ):
        batch = pa.record_batch(columns)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
        with pytest.raises(CorruptState):
            Labels.from_bytes(bytes(sink.getvalue()))


@pytest.fixture
def moved(tmp_path):
    """The folder of a store with a group column of texts."""
    store = MovingStore(tmp_path / "state")
    store.commit("orders", some_orders(0, regions=("north", "south", "eastern", "westward")))
    store.close()
    return tmp_path / "state"


def with_forged_offset(data: bytes) -> bytes:
    """Return an epoch in which an offset of the texts of its group column is beyond them."""
    header, body = codec.unpack(data, codec.KIND_EPOCH)
    changed, found = bytes(body), 0
    for order in ([5, 5, 7, 8], [5, 5, 8, 7], [5, 7, 5, 8], [5, 7, 8, 5], [5, 8, 5, 7], [5, 8, 7, 5], [7, 5, 5, 8],
                  [7, 5, 8, 5], [7, 8, 5, 5], [8, 5, 5, 7], [8, 5, 7, 5], [8, 7, 5, 5]):  # fmt: skip
        ends = np.cumsum([0, *order]).astype("<i4")
        wrong = ends.copy()
        wrong[2] = 1 << 30
        found += changed.count(ends.tobytes())
        changed = changed.replace(ends.tobytes(), wrong.tobytes())
    assert found
    return codec.pack(codec.KIND_EPOCH, header, changed)


def write_epoch(folder: Path, data: bytes) -> None:
    """Write the bytes of the first epoch of a store, and its pointers: whoever changes a file can compute its hash."""
    (folder / "epoch-000000000001.eddy").write_bytes(data)
    for pointer in (CURRENT, NEWEST):
        (folder / pointer).write_bytes(encode_pointer(1, digest_of(data)))


def test_a_forged_offset_in_a_store_ends_no_reader(moved):
    """`verify`, `ask` and readers in Python refuse the epoch; the process ends by an exit code, not by a signal."""
    write_epoch(moved, with_forged_offset((moved / "epoch-000000000001.eddy").read_bytes()))
    with pytest.raises(CorruptState, match="labels of a group column"):
        el.open(moved)
    for command in ("verify", "ask"):
        arguments = [sys.executable, "-m", "eddyline.cli", command, str(moved)]
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 1, f"{command} returned {done.returncode}"
        assert "labels of a group column" in " ".join((done.stdout + done.stderr).split())


def test_a_server_outlives_a_forged_store(moved):
    """`serve` reports the damage and answers again once the files are sound; the second time its answers stay."""
    sound = (moved / "epoch-000000000001.eddy").read_bytes()
    forged = with_forged_offset(sound)
    write_epoch(moved, forged)
    arguments = [sys.executable, "-m", "eddyline.cli", "serve", str(moved), "--wait", "--port", "0"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = re.search(r"http://127\.0\.0\.1:\d+", server.stdout.readline())[0]
            with httpx.Client(base_url=address, timeout=30) as client:

                def problem():
                    return client.get("api/v1/freshness").json()["problem"] or ""

                def answers():
                    return [each | {"freshness": None} for each in client.get("api/v1/answers").json()]

                until(lambda: "labels of a group column" in problem())
                assert client.get("readyz").status_code == 503
                write_epoch(moved, sound)
                until(lambda: client.get("readyz").status_code == 200)
                shown = answers()
                write_epoch(moved, forged)
                until(lambda: "labels of a group column" in problem())
                assert answers() == shown
                assert client.get("healthz").status_code == 200
                assert server.poll() is None
        finally:
            server.terminate()
    assert server.returncode in (0, -15)


def test_a_plan_that_is_not_its_hash_is_refused():
    header, body = parts(filled("900 KB").to_bytes())
    changed = header.replace(b'"name":"rows"', b'"name":"r0ws"')
    assert changed != header
    with pytest.raises(CorruptState, match="hash"):
        el.State.from_bytes(codec.pack(codec.KIND_STATE, bytes(changed), bytes(body)))


def test_a_plan_that_python_fails_on_is_refused_with_a_sentence():
    """Forged with its hash: no check finds it, and reading an answer fails somewhere."""
    state = filled("40 KB")
    header, body = parts(state.to_bytes())
    content = json.loads(header)
    (planned,) = (each for each in content["layout"]["queries"] if each["name"] == "join")
    planned["query"]["text"] = "'" + planned["query"]["text"]
    changed = rehashed(bytearray(json.dumps(content).encode()))
    read = el.State.from_bytes(codec.pack(codec.KIND_STATE, bytes(changed), bytes(body)))
    with pytest.raises(CorruptState, match=r"does not fit what it keeps .*restore an earlier epoch"):
        read.answer("join")
    assert "does not fit what it keeps" in str(read.answers("join")["notes"].to_pylist())
    assert read.answer("rows").exact


def test_an_error_of_ours_is_not_called_damage(monkeypatch):
    """Only a plan that came as bytes is suspected; what fails in memory is a bug, and shows as it is."""
    state = filled("40 KB")
    monkeypatch.setattr(state_module, "answer", lambda *_, **__: {}["a bug"])
    with pytest.raises(KeyError):
        state.answer("join")
    with pytest.raises(CorruptState, match="report a bug"):
        el.State.from_bytes(state.to_bytes()).answer("join")


def test_a_plan_that_asks_for_more_memory_than_it_holds_is_refused():
    """A budget of nothing would have the next reader build sketches, of a width that the plan names."""
    header, body = parts(filled("900 KB").to_bytes())
    content = json.loads(header)
    (sample,) = content["layout"]["samples"]
    sample["spec"]["budget"] = 1
    for sketch in sample["sketches"]:
        if sketch["spec"]["kind"] == "hash":
            sketch["spec"]["width"] = 1 << 40
    changed = rehashed(bytearray(json.dumps(content).encode()))
    with pytest.raises(CorruptState):
        el.State.from_bytes(codec.pack(codec.KIND_STATE, bytes(changed), bytes(body)))


def test_a_header_that_is_too_deep_is_refused():
    deep = b"[" * 100_000 + b"]" * 100_000
    for kind, read in ((codec.KIND_STATE, el.State.from_bytes), (codec.KIND_SYNOPSIS, Synopsis.from_bytes)):
        with pytest.raises(CorruptState):
            read(codec.pack(kind, b'{"x":' + deep + b"}", b""))


def test_a_synopsis_of_an_impossible_shape_is_refused():
    spec = msgspec.json.encode(HashSketchSpec(width=8, depth=3, seeds=(1,)))
    for wrong in (spec.replace(b'"width":8', b'"width":7'), spec.replace(b'"depth":3', b'"depth":0')):
        assert wrong != spec
        with pytest.raises(CorruptState):
            Synopsis.from_bytes(codec.pack(codec.KIND_SYNOPSIS, wrong, b""))


def test_dictionaries_and_rosters_out_of_order_are_refused():
    state = filled("40 KB")
    sections = to_sections(state.snapshot)
    (sample,) = state.snapshot.layout.samples
    held = state.snapshot.samples[sample.id].dictionaries
    place = max(range(len(held)), key=lambda i: len(held[i]))
    data = bytearray(sections[f"{sample.id}/{place}"])
    spec = held[place].spec
    start, width = 8 + spec.words + 1 + spec.measures, data[8]
    first, last = data[start : start + width], data[start + width * (len(held[place]) - 1) :][:width]
    data[start : start + width] = last
    assert first != last
    with pytest.raises(CorruptState, match="not in order"):
        type(held[place]).from_bytes(spec, bytes(data))


if __name__ == "__main__":
    work(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
