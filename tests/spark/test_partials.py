"""Partial states: what tasks send adds up, in no more memory than two states on the driver."""

import tracemalloc

import numpy as np
import pyarrow as pa

import eddyline as el
from eddyline.ingest.snapshot import Snapshot
from eddyline.spark.tasks import (
    PIECE_BYTES,
    Merger,
    encode_spec,
    from_batches,
    merge_task,
    sketch_task,
    to_batches,
)


def plan():
    workload = el.Workload(budget="8 MB", samples=False).stream("t", "k BIGINT")
    return workload.query("q", "SELECT COUNT(*) FROM t a JOIN t b USING (k)", method="hash").plan()


def batches(seed):
    keys = np.random.default_rng(seed).integers(0, 1 << 40, 100_000)
    return pa.table({"k0_0": keys}).to_batches(max_chunksize=10_000)


def test_the_driver_holds_two_states_at_most():
    before = Snapshot.empty(plan().layout)
    spec = before.stream_spec("t")
    code = encode_spec(spec)
    sent = [batch for seed in range(3) for batch in sketch_task(code, batches(seed))]
    merged = list(merge_task(code, sent))
    tracemalloc.start()
    merger = Merger(spec)
    for row in from_batches(merged):
        merger.take(*row)
    after = before.plus_stream("t", merger.stream_pass())
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after.tallies["t"].rows == 300_000
    assert most < 2.1 * after.nbytes
    states = [
        plan().empty().update("t", pa.table({"k": pa.Table.from_batches(batches(s))["k0_0"]}))
        for s in range(3)
    ]
    assert after == (states[0] + states[1] + states[2]).snapshot


def test_a_task_of_few_rows_sends_few_bytes():
    code = encode_spec(Snapshot.empty(plan().layout).stream_spec("t"))
    few = pa.table({"k0_0": np.arange(100)}).to_batches()
    assert sum(batch.nbytes for batch in sketch_task(code, few)) < 40_000


def test_long_blocks_travel_in_pieces_that_come_in_any_order():
    rng = np.random.default_rng(1)
    sizes = (0, 1, PIECE_BYTES, PIECE_BYTES + 1, 5 * PIECE_BYTES, 7 * PIECE_BYTES - 1)
    senders = [
        [(name, chunk, rng.bytes(size)) for name in ("s:a", "c:b") for chunk, size in enumerate(sizes)]
        for _ in range(3)
    ]
    sent = pa.Table.from_batches([batch for rows in senders for batch in to_batches(rows)])
    assert max(len(block) for block in sent["block"].to_pylist()) == PIECE_BYTES
    shuffled = sent.take(rng.permutation(sent.num_rows)).to_batches(max_chunksize=7)
    came = sorted((name, chunk, bytes(block)) for name, chunk, block in from_batches(shuffled))
    assert came == sorted(row for rows in senders for row in rows)
