"""Speed of distinct counting: updates and answers per second, compared with Apache DataSketches in the same run.

    python benchmarks/distinct.py [--rows 2000000] [--repeat 3] [--spark]

Prints one line for each structure with its rate and the ratio to theta. DataSketches' Python API takes one
element at a time, so its rates hold a Python call for each; ours take an Arrow or NumPy batch. Only ours
takes deletes. With --spark, the whole pass on Spark and its approx_count_distinct, on the same rows.
"""

import argparse
import tempfile
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple

import datasketches
import numpy as np

import eddyline as el
from eddyline.answer.sets.expression import Intersect, StreamLeaf, distinct_count, set_cardinality
from eddyline.sketch.counters import key_array
from eddyline.sketch.distinct import DistinctSpec
from eddyline.sketch.peeling import PeelingSpec
from eddyline.spark.session import local_session

Spec = DistinctSpec | PeelingSpec
MAX_DISTINCT = 1 << 30


class Rate(NamedTuple):
    """What was timed, how many operations a second, and a remark."""

    name: str
    per_second: float
    remark: str = ""


def best(repeat: int, number: int, work: Callable[[], object]) -> float:
    """Return operations a second: the best of some repeats, after one that is not counted."""
    work()
    times = []
    for _ in range(repeat):
        start = perf_counter()
        work()
        times.append(perf_counter() - start)
    return number / min(times)


def counters_of(spec: Spec, keys: np.ndarray, weight: int = 1) -> np.ndarray:
    """Return the counters of a stream of keys, all of one weight."""
    counters = np.zeros(spec.words, dtype=np.int64)
    spec.accumulate(counters, key_array(keys), np.full(len(keys), weight, dtype=np.int64))
    return counters


def update_rates(keys: np.ndarray, repeat: int) -> list[Rate]:
    """Return updates per second: theta first, the peer that all others are compared with."""
    listed = keys.tolist()

    def feed(sketch: object) -> None:
        deque(map(sketch.update, listed), maxlen=0)  # type: ignore[attr-defined]

    rates = [
        Rate("theta (lg_k 14)", best(repeat, len(keys), lambda: feed(datasketches.update_theta_sketch(14)))),
        Rate("HLL (lg_k 14)", best(repeat, len(keys), lambda: feed(datasketches.hll_sketch(14)))),
    ]
    kept = DistinctSpec.for_budget(194 * 1024, MAX_DISTINCT, seed=1)
    large = DistinctSpec.for_budget(1 << 22, MAX_DISTINCT, seed=1)
    for spec, remark in ((kept, "194 KiB"), (large, f"{8 * large.words >> 10} KiB")):
        rates.append(
            Rate("distinct, inserts", best(repeat, len(keys), lambda s=spec: counters_of(s, keys)), remark)
        )
        rates.append(
            Rate(
                "distinct, deletes", best(repeat, len(keys), lambda s=spec: counters_of(s, keys, -1)), remark
            )
        )
    table = PeelingSpec.for_budget(1 << 20, MAX_DISTINCT, seed=1)
    rates.append(
        Rate(
            "peeling table",
            best(repeat, len(keys), lambda: counters_of(table, keys)),
            f"{8 * table.words >> 10} KiB",
        )
    )
    return rates


def reading_rates(keys: np.ndarray, repeat: int) -> list[Rate]:
    """Return answers and merges per second, of sketches of 194 KiB."""
    spec = DistinctSpec.for_budget(194 * 1024, MAX_DISTINCT, seed=1)
    half = len(keys) // 2
    streams = [counters_of(spec, keys[: half + half // 4]), counters_of(spec, keys[half:])]
    both = Intersect(StreamLeaf(0), StreamLeaf(1))
    table = PeelingSpec.for_budget(1 << 20, MAX_DISTINCT, seed=1)
    sampled = counters_of(table, keys)
    return [
        Rate("distinct count", best(repeat, 1, lambda: distinct_count(spec, streams[0]))),
        Rate("intersection", best(repeat, 1, lambda: set_cardinality(both, (spec, spec), tuple(streams)))),
        Rate("merge", best(repeat, 1, lambda: spec.add(*streams))),
        Rate("decode of a peeling table", best(repeat, 1, lambda: table.decode(sampled))),
    ]


def spark_rates(rows: int, repeat: int) -> list[Rate]:
    """Return rows per second of whole Spark jobs on one Parquet file: its own HLL first, then our pass."""
    spark = local_session()
    plan = (
        el.Workload(budget="200 KiB", samples=False)
        .stream("t", "k BIGINT")
        .query("d", "SELECT COUNT(DISTINCT k) FROM t")
        .plan()
    )
    with tempfile.TemporaryDirectory() as folder:
        spark.range(rows).selectExpr("xxhash64(id) AS k").write.parquet(f"{folder}/t.parquet")
        frame = spark.read.parquet(f"{folder}/t.parquet")
        peer = best(repeat, rows, lambda: frame.selectExpr("approx_count_distinct(k)").collect())
        ours = best(repeat, rows, lambda: plan.sketch(spark, {"t": frame}))
    spark.stop()
    return [
        Rate("approx_count_distinct", peer),
        Rate("pass with 1 distinct sketch", ours, f"{plan.nbytes >> 10} KiB"),
    ]


def show(rates: list[Rate], *, unit: float, name: str, against: Rate | None = None) -> None:
    """Print rates, and their ratios to one of them."""
    for rate in rates:
        ratio = f"{rate.per_second / against.per_second:8.2f} x {against.name}" if against else ""
        print(f"{rate.name:28}{rate.per_second / unit:12.2f} {name}{ratio}  {rate.remark}")


def main() -> None:
    """Time everything and print it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--spark", action="store_true", help="time whole Spark jobs, too")
    options = parser.parse_args()
    keys = np.random.default_rng(1).integers(0, 1 << 62, options.rows)
    updates = update_rates(keys, options.repeat)
    show(updates, unit=1e6, name="M updates/s", against=updates[0])
    show(reading_rates(keys, options.repeat), unit=1.0, name="a second")
    if options.spark:
        jobs = spark_rates(10 * options.rows, options.repeat)
        show(jobs, unit=1e6, name="M rows/s", against=jobs[0])


if __name__ == "__main__":
    main()
