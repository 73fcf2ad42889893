"""Every file of a store, edited and with its checksums computed again: an error of ours, or an answer.

`tests/store/test_forged.py` does the same with states, which are the sections of an epoch. Here it is what stands
around them: headers of commits with their plans, positions and histories, CURRENT, NEWEST, LOCK, ALERTS, RECONCILED.
Each batch of edits runs in a process of its own: nothing that is read may end it, hang it or take its memory.
"""

import copy
import json
import math
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.fs
import pytest

import eddyline as el
from eddyline.api.alerts import ALERTS, Alert, Alerts
from eddyline.api.durable import from_epoch
from eddyline.api.operations.reconcile import RECONCILED, Reconciled, last_reconciliation, record
from eddyline.api.store_tables import Follower
from eddyline.api.store_tables import history as make_history
from eddyline.errors import EddylineError
from eddyline.ingest.sections import to_sections
from eddyline.sketch import codec
from eddyline.store import Options, Reader, Store, verify
from eddyline.store.filesystem import ArrowFiles
from eddyline.store.layout import CURRENT, LOCK, NEWEST, encode_pointer, epoch_name
from tests.data.moving_store import MovingStore, orders

EDITS, PARTS = 120, 2
MEMORY, SECONDS = 256 << 20, 60.0
NUMBERS = [
    -1,
    0,
    1,
    2,
    7,
    1000,
    2**31,
    2**53,
    2**63 - 1,
    2**63,
    2**64,
    2**70,
    -(2**63),
    1e300,
    -1e300,
    5e-324,
    0.5,
]
TEXTS = ["", "\0", "../../x", "x" * 5_000, "'", "\ud800", "12", "NaN"]
CLAIMED = "writer-0123456789abcdef.claim"
ALERT = {"many": Alert(query="orders_kept", when="> 10", log=True)}


def leaves(content):
    """Yield each (holder, key) of a value of JSON that is no object."""
    for key, value in list(content.items()) if isinstance(content, dict) else enumerate(content):
        if isinstance(value, dict | list):
            yield from leaves(value)
        yield content, key


def edited_json(rng, text):
    """Return JSON in which one value or one name is another."""
    content = json.loads(text)
    places = list(leaves(content))
    holder, key = places[int(rng.integers(len(places)))]
    old = holder[key]
    other, place = places[int(rng.integers(len(places)))]
    choices = [
        NUMBERS[int(rng.integers(len(NUMBERS)))],
        TEXTS[int(rng.integers(len(TEXTS)))],
        None,
        [],
        {},
        True,
    ]
    if isinstance(old, bool) or old is None or isinstance(old, dict | list):
        made = choices[int(rng.integers(len(choices)))]
    elif isinstance(old, int | float):
        made = [choices[0], -old, old + 1, old * 1e6, int(old) << 40][int(rng.integers(5))]
    else:
        made = [choices[1], old + "x", old[:-1], choices[0]][int(rng.integers(4))]
    if rng.random() < 0.15:
        made = copy.deepcopy(other[place])
    if isinstance(holder, dict) and rng.random() < 0.15:
        holder[TEXTS[int(rng.integers(len(TEXTS)))] if rng.random() < 0.5 else key + "x"] = holder.pop(key)
    else:
        holder[key] = made
    return json.dumps(content).encode("utf-8", "surrogatepass")


def edited_bytes(rng, data):
    """Return bytes with a bit changed, a part cut off, a part repeated, or zeros at the end."""
    at, kind = int(rng.integers(max(len(data), 1))), int(rng.integers(4))
    if kind == 0 and data:
        return data[:at] + bytes([data[at] ^ 1 << int(rng.integers(8))]) + data[at + 1 :]
    return (data[:at], data[:at] + data[at // 2 :], data + bytes(64))[kind - 1]


def forge(rng, folder):
    """Edit one file of a store, and compute again what others hold of it; return what was done."""
    epochs = Reader(folder).epochs()
    number = epochs[0] if rng.random() < 0.7 else epochs[int(rng.integers(len(epochs)))]
    file = folder / epoch_name(number)
    kind = [*["header"] * 5, "pointer", "note", LOCK, CLAIMED, ALERTS, RECONCILED][int(rng.integers(11))]
    if kind == "header":
        header, body = codec.unpack(file.read_bytes(), codec.KIND_EPOCH)
        changed = edited_json(rng, header) if rng.random() < 0.9 else edited_bytes(rng, bytes(header))
        file.write_bytes(codec.pack(codec.KIND_EPOCH, changed, body))
        if number == epochs[0] and rng.random() < 0.9:
            for pointer in (CURRENT, NEWEST):
                (folder / pointer).write_bytes(encode_pointer(number, codec.digest_of(file.read_bytes())))
    elif kind in ("pointer", "note"):
        path = folder / (CURRENT if kind == "pointer" else NEWEST)
        named = [0, number, number + 1, 10**12 - 1, int(rng.integers(10**12))][int(rng.integers(5))]
        digest = ["", "0" * 32, codec.digest_of(file.read_bytes())][int(rng.integers(3))]
        path.write_bytes(encode_pointer(named, digest))
        if rng.random() < 0.3:
            path.write_bytes(edited_bytes(rng, path.read_bytes()))
    else:
        path = folder / kind
        data = path.read_bytes()
        path.write_bytes(edited_json(rng, data) if rng.random() < 0.8 else edited_bytes(rng, data))
    return f"{kind} of {number}"


def added(epoch):
    return to_sections(el.State(from_epoch(epoch)).update("orders", orders(9)).snapshot)


def uses(folder):
    """Return what readers and writers do with a store."""

    def opened():
        state = el.open(folder)
        state.answers()
        str(state.origin)
        return state

    def earlier(moment):
        opened().change("orders_kept", el.open(folder, as_of=moment))

    def looked():
        follower = Follower(folder)
        sighting = follower.look()
        if sighting.state is not None:
            sighting.state.past("2026-01-01")

    def alerted():
        alerts = Alerts(str(folder), ALERT)
        alerts.look()
        alerts.close()

    def written(where):
        current = Reader(folder).latest().commit
        with Store.open(where, current.plan, "run", options=Options(keep="hourly for 2 days")) as store:
            store.commit("orders", "q", 99, added, rows=9, at=2e9)

    return {
        "open": opened,
        "as of": lambda: [earlier(moment) for moment in (0, "2026-01-01", "1970-01-02")],
        "follow": looked,
        "history": lambda: make_history(str(folder)),
        "verify": lambda: [str(each) for each in verify(str(folder))],
        "alerts": alerted,
        "compared": lambda: last_reconciliation(Reader(folder)),
        "status": lambda: (Reader(folder).newest_readable(), Reader(folder).writer(), Reader(folder).stamp()),
        "claim": lambda: written(ArrowFiles(pyarrow.fs.LocalFileSystem(), str(folder), str(folder))),
        "write": lambda: written(str(folder)),
        "restore": lambda: Store.restore(str(folder), min(Reader(folder).epochs(), default=0)),
    }


def used(folder):
    """Use a store in every way; return how many of them were refused with an error of ours."""
    refused = 0
    for name, use in uses(folder).items():
        start = time.monotonic()
        try:
            use()
        except EddylineError:
            refused += 1
        assert time.monotonic() - start < SECONDS, name
    return refused


def work(folder, seed, edits):
    """Use edited stores until one of them ends this process or raises an error that is not ours."""
    where = Path(folder).with_name(f"edited-{seed}")
    shutil.copytree(folder, where)
    usual = used(where)  # one that is as it was: a rival's claim, and moments that it does not keep
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused = untouched = 0
    for number in range(seed, seed + edits):
        shutil.rmtree(where)
        shutil.copytree(folder, where)
        done = forge(np.random.default_rng(number), where)
        sys.stderr.write(f"{number}: {done}\n")  # the last one is that which ended the process
        found = used(where)
        refused += found > usual
        untouched += found <= usual
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    sys.stdout.write(json.dumps({"refused": refused, "untouched": untouched, "KB": grown}))


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A store of six epochs, with what a run and a server leave in it."""
    moving = MovingStore(tmp_path_factory.mktemp("forged") / "state")
    for _ in range(3):
        moving.move()
    folder = Path(moving.where)
    alerts = Alerts(str(folder), ALERT)
    alerts.look()
    alerts.close()
    assert record(
        str(folder),
        [Reconciled("orders", 10, 8), Reconciled("visits", "its source is a stream of another process", 3)],
    )
    holder = (folder / LOCK).read_bytes()
    moving.close()
    (folder / LOCK).write_bytes(holder)
    (folder / CLAIMED).write_bytes(holder)
    assert math.isfinite(last_reconciliation(Reader(folder)).time)
    return folder


@pytest.mark.parametrize("part", range(PARTS))
def test_edited_files_of_a_store_are_refused_or_read(stored, part):
    edits = EDITS // PARTS
    arguments = [
        sys.executable,
        "-m",
        "tests.store.test_forged_files",
        str(stored),
        str(part * edits),
        str(edits),
    ]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"returned {done.returncode}: {done.stderr[-3000:]}"
    found = json.loads(done.stdout)
    assert found["refused"] > 5
    assert found["untouched"] > 5
    assert found["KB"] << 10 < MEMORY


if __name__ == "__main__":
    work(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
