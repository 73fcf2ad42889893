"""The accumulator: every synopsis gets exactly its own rows, whether it shares its hashing or not."""

import numpy as np
import pyarrow as pa

import eddyline as el
from eddyline.sketch.synopsis import Synopsis


def test_each_synopsis_is_what_it_would_be_alone():
    workload = el.Workload(budget="300 KB", seed=4, samples=False).stream(
        "t", "k BIGINT, g BIGINT, x INT, y DECIMAL(6,2)"
    )
    for name in "kg":
        for bound in (0, 30, 60):
            workload.query(
                f"{name}{bound}",
                f"SELECT SUM(a.y) FROM t a JOIN t b USING ({name}) WHERE a.x >= {bound} AND b.x > {bound}",
            )
    rng = np.random.default_rng(6)
    n = 5000
    columns = {"k": rng.integers(0, 99, n), "g": rng.integers(-(2**40), 2**40, n)}
    x = rng.integers(0, 100, n).astype(np.int32)
    y, weights = rng.integers(-999, 999, n), rng.integers(-3, 5, n)
    there = rng.random(n) < 0.9
    table = pa.table(
        {
            **columns,
            "x": x,
            "y": pa.array(y, mask=~there).cast(pa.decimal128(19, 0)).cast(pa.decimal128(4, 0), safe=False),
        }
    )
    state = workload.plan().empty().update("t", table, weights)
    sketches = [kept for kept in state.snapshot.layout.kept if kept.demand.keys]
    assert len({(kept.spec, kept.demand.keys) for kept in sketches}) < len(sketches), (
        "some share their hashing"
    )
    for kept in sketches:
        (key,) = kept.demand.keys
        (predicate,) = kept.demand.predicates
        _, operator, bound = predicate.split()
        rows = x >= int(bound) if operator == ">=" else x > int(bound)
        if kept.demand.measure is not None:
            rows, measure = rows & there, 100 * y
        else:
            measure = np.ones(n, dtype=np.int64)
        alone = Synopsis(kept.spec).update(
            columns[key.columns[0].text.strip("`")][rows], weights=(weights * measure)[rows]
        )
        assert np.array_equal(state.snapshot.counters[kept.id], alone.counters), kept.id
