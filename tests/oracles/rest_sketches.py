"""Sketches of unfollowed keys from scratch: the oracle knows the net rows and asks the rosters which keys are followed."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

import eddyline as el
from eddyline.ingest.snapshot import Snapshot
from eddyline.sketch.hash_sketch import HashSketchSpec
from eddyline.sketch.synopsis import empty_counters

SQL = "SELECT a, COUNT(*) AS n, SUM(x) AS s FROM r WHERE x < 90 OR x IS NULL GROUP BY a"
STAR = (
    "SELECT SUM(r.x) FROM r JOIN s ON r.a = s.a JOIN t ON r.a = t.a WHERE r.x < 90 OR r.x IS NULL",
    "SELECT COUNT(*) FROM r LEFT JOIN s ON r.a = s.a WHERE r.x < 90 OR r.x IS NULL",
)
STREAMS = ("r", "s", "t")
Rows = tuple[np.ndarray, np.ma.MaskedArray, np.ndarray]
"""Keys, measures (masked: NULL) and weights."""


def plan_of(budget: str = "20 KB", **options: object) -> el.Plan:
    w = el.Workload(budget=budget, seed=5)
    w.stream("r", "a BIGINT, x BIGINT, at TIMESTAMP", event_time="at")
    w.query("groups", SQL, **options)  # type: ignore[arg-type]
    return w.plan()


def plan_of_joins(budget: str = "66 KB") -> el.Plan:
    w = el.Workload(budget=budget, seed=5)
    for name in STREAMS:
        w.stream(name, "a BIGINT, x BIGINT")
    for name, text in zip(("star", "left"), STAR, strict=True):
        w.query(name, text)
    return w.plan()


def rows_of(seed: int, number: int = 11000) -> Rows:
    rng = np.random.default_rng(seed)
    keys = (9000 * rng.random(number) ** 2).astype(np.int64)
    keys[number // 2 :] = np.where(rng.random(number - number // 2) < 0.3, seed, keys[number // 2 :])
    x = np.ma.masked_array(rng.integers(0, 100, number), rng.random(number) < 0.1)
    return keys, x, np.ones(number, dtype=np.int64)


def table_of(rows: Rows, at: int = 0) -> pa.Table:
    keys, x, _ = rows
    times = pa.array(np.full(len(keys), at), pa.timestamp("us", "UTC"))
    return pa.table({"a": keys, "x": pa.array(x.data, mask=x.mask), "at": times})


def fed(state: el.State, rows: Rows, batches: int = 4, at: int = 0, stream: str = "") -> el.State:
    """Feed rows in batches; stream: one of a plan of joins, whose streams have no time."""
    table, (_, _, weights) = table_of(rows, at), rows
    table = table.drop_columns("at") if stream else table
    for part in np.array_split(np.arange(len(table)), batches):
        state.update(stream or "r", table.take(pa.array(part)), weights=weights[part])
    return state


def check(
    snapshot: Snapshot,
    rows: Sequence[Rows],
    signs: Sequence[int] | None = None,
    stream: str = "r",
    expected: int = 3,
) -> int:
    """Compare every sketch of the rest with one of the rows that are not followed; return how many rows these are.

    expected: the number of sketches of the stream: by default of rows, sums, and rows with a measure.
    """
    (planned,), left = snapshot.layout.samples, 0
    state = snapshot.samples[planned.id]
    assert state.grouped, "the rows should not fit"
    keys, x, weights = (np.ma.concatenate(column) for column in zip(*rows, strict=True))
    signs = [1] * len(rows) if signs is None else signs
    weights = weights * np.repeat(signs, [len(each[0]) for each in rows])
    sketches = [kept for kept in planned.sketches if kept.unfollowed and kept.stream == stream]
    assert len(sketches) == expected
    for kept in sketches:
        source = planned.source(kept.demand)
        assert source is not None
        link = planned.spec.kept[source].classes[0]
        followed = np.ones(len(keys), dtype=np.bool_)
        state.rosters[link].drop_unfollowed(keys.data, followed)
        counted = ~followed & (np.ma.filled(x < 90, fill_value=True) | (not kept.demand.predicates))
        number = weights.copy()
        if kept.demand.measure is not None or kept.demand.presence:
            counted &= ~np.ma.getmaskarray(x)
        if kept.demand.measure is not None:
            number = weights * x.filled(0)
        counters = empty_counters(kept.spec)
        assert isinstance(kept.spec, HashSketchSpec)
        chosen = np.asarray(keys.data[counted]).view(np.uint64).reshape(1, -1)
        kept.spec.accumulate(counters, np.ascontiguousarray(chosen), np.asarray(number[counted]))
        assert np.array_equal(counters, snapshot.counters[kept.id]), kept.demand
        left = int(counted.sum())
    return left
