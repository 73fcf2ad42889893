"""A small run over a store: its plan, its batches, and a process that delivers them and may be killed."""

import multiprocessing
import os
import resource
import signal
import time

import numpy as np

from eddyline.errors import StoreError
from eddyline.store import Options, PlanStamp, Store
from eddyline.store.filesystem import at_most

PLAN = PlanStamp("hash-1", '{"budget": "8 MB"}', {"orders-key": "hash sketch 7 x 64", "volume": "COUNT(*)"})
WORDS = 448
ANY = at_most(1 << 30)
ARROW_STEPS = ("begun", "epoch-written", "epoch-named", "pointer-written", "pointer-named", "collected")
EMPTY = {"orders-key": bytes(8 * WORDS), "orders-key/hints": b""}


def batch_counters(batch_id, words=WORDS):
    return np.random.default_rng(batch_id).integers(-1000, 1000, words)


def add_batch(batch_id, words=WORDS):
    """Return the change that a batch makes: counters added, hints replaced."""

    def change(epoch):
        old = np.frombuffer(epoch.sections["orders-key"], dtype="<i8")
        start = old if len(old) == words else np.zeros(words, dtype=np.int64)
        return {
            "orders-key": (start + batch_counters(batch_id, words)).tobytes(),
            "orders-key/hints": f"batch {batch_id}".encode(),
        }

    return change


def deliver(store, batch_id, query_id="q-1", words=WORDS):
    return store.commit("orders", query_id, batch_id, add_batch(batch_id, words), rows=10, at=float(batch_id))


def new_store(where, batches=0, **options):
    store = Store.create(where, PLAN, "run-1", EMPTY, options=Options(**options))
    for batch_id in range(batches):
        deliver(store, batch_id)
    return store


def open_store(where, **options):
    return Store.open(where, PLAN, "run-1", options=Options(**options))


def flipped(data, place, bits=0xFF):
    return data[:place] + bytes([data[place] ^ bits]) + data[place + 1 :]


def run_child(where, batches, *, kill="", limit=0, words=WORDS):
    """Deliver batches 0 .. `batches` - 1 from another process, killed with -9 at `kill` in the last one.

    Returns its exit code (-9 when it was killed) and what it said of its error.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    heard, said = context.Pipe(duplex=False)
    shown = {"kill": kill, "limit": limit, "words": words}
    child = context.Process(target=child_main, args=(said, where, batches), kwargs=shown)
    child.start()
    said.close()
    child.join()
    with heard:
        return child.exitcode, heard.recv() if child.exitcode == 0 else ""


def child_main(said, where, batches, *, kill, limit, words):
    """Open or create the store, deliver batches, and return what went wrong; 0 batches: the kill is while it is created."""
    batch = -1

    def fault(step):
        if step == kill and batch == batches - 1:
            os.kill(os.getpid(), signal.SIGKILL)

    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        make = open_store if Store.exists(where) else new_store
        with make(where, fault=fault) as store:
            for batch in range(batches):
                deliver(store, batch, words=words)
    except StoreError as error:
        said.send(f"{type(error).__name__}: {error}")
    else:
        said.send("")


def run_until_killed(where, chosen, words):
    """Deliver batches from another process until it is killed with -9, at a moment that a random generator chooses.

    One of four is killed within 0.4 s of its start, the others within the time of a commit after their first, second or
    third one: on a slow machine, too, most of them come that far. Returns the number of batches that it knew to be
    committed; -1 if it ended by itself.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    confirmed, done, took = context.Value("q", 0), context.Value("q", 0), context.Value("d", 0.0)
    child = context.Process(target=deliver_for_ever, args=(where, confirmed, done, took, words))
    child.start()
    commits, share = chosen.randrange(4), chosen.random()
    while child.is_alive() and done.value < commits:
        time.sleep(0.001)
    child.join(share * took.value if commits else 0.4 * share)
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    return confirmed.value if child.exitcode == -signal.SIGKILL else -1


def deliver_for_ever(where, confirmed, done, took, words):
    """Open or create the store and deliver its next batches, the last one twice.

    done: how many it has delivered; took: the seconds of the last one.
    """
    make = open_store if Store.exists(where) else new_store
    with make(where) as store:
        position = store.current.commit.sources.get("orders")
        batch = max(0, position.batch_id) if position is not None else 0
        while True:
            start = time.monotonic()
            deliver(store, batch, words=words)
            batch += 1
            confirmed.value = batch
            took.value = time.monotonic() - start
            done.value += 1
