"""Updates per second of a relation with two join keys, in one run and at equal memory: ours and AGMS.

    .venv/bin/python benchmarks/multijoin.py [--words 10000] [--rows 1000000] [--repeat 7]

Rows have two keys, each Zipf 1.0 over 100,000 values. All hash by the same family. Prints medians.

    sketch             a hash sketch of all the words
    sketch and table   what a plan keeps: a hash sketch and its candidate table, a quarter of the words
    AGMS               as many atomic sketches as words, each touched by every row
"""

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from eddyline.plan.layout import Demand, Place
from eddyline.plan.size.specs import HINT_SHARE, PlanSettings, spec_for
from eddyline.sketch import candidates
from eddyline.sketch.agms import AgmsSpec
from eddyline.sketch.candidates import CandidateSpec
from eddyline.sketch.counters import KeyArray, key_array
from eddyline.sketch.synopsis import Spec, empty_counters

VALUES = 100_000
PLACES = Place(0), Place(1)
SETTINGS = PlanSettings(budget=0, seed=1)
Update = Callable[[], None]


@dataclass(frozen=True)
class Batch:
    """Rows with two keys, and their weights."""

    keys: KeyArray
    weights: np.ndarray

    @classmethod
    def zipf(cls, rows: int) -> "Batch":
        """Return rows with independent Zipf keys."""
        shares = np.arange(1, VALUES + 1, dtype=np.float64) ** -1
        drawn = np.random.default_rng(1).choice(VALUES, (2, rows), p=shares / shares.sum())
        return cls(key_array(*drawn), np.ones(rows, dtype=np.int64))

    def first(self, rows: int) -> "Batch":
        """Return the first rows."""
        return Batch(np.ascontiguousarray(self.keys[:, :rows]), self.weights[:rows])


def counting(spec: Spec, batch: Batch) -> Update:
    """Return what adds a batch to a synopsis."""
    counters = empty_counters(spec)
    return lambda: spec.accumulate(counters, batch.keys, batch.weights)


def noting(spec: CandidateSpec, batch: Batch) -> Update:
    """Return what shows a batch to a candidate table."""
    table = candidates.empty(spec)
    return lambda: candidates.observe(spec, table, batch.keys, batch.weights)


def sketch_and_table(words: int, batch: Batch) -> list[Update]:
    """Return the updates of a sketch and its candidate table, together of a given number of words."""
    table = CandidateSpec.within(words // HINT_SHARE, 1, edges=2)
    sketch = spec_for(Demand("s", "hash", places=PLACES), words - table.words, SETTINGS)
    return [counting(sketch, batch), noting(table, batch)]


def rows_per_second(updates: list[Update], rows: int, repeat: int) -> float:
    """Return the median speed of some runs, after one to warm up."""
    times = []
    for _ in range(repeat + 1):
        start = time.perf_counter()
        for update in updates:
            update()
        times.append(time.perf_counter() - start)
    return rows / statistics.median(times[1:])


def main() -> None:
    """Run everything and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--words", type=int, default=10_000)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=7)
    arguments = parser.parse_args()
    words, batch = arguments.words, Batch.zipf(arguments.rows)
    few = batch.first(max(arguments.rows // 500, 1))
    hashed = spec_for(Demand("s", "hash", places=PLACES), words, SETTINGS)
    atomic = AgmsSpec(words, 1, (1, 2), "mix")
    works = {
        "sketch": ([counting(hashed, batch)], batch),
        "sketch and table": (sketch_and_table(words, batch), batch),
        "AGMS": ([counting(atomic, few)], few),
    }
    speeds = {
        name: rows_per_second(updates, len(of.weights), arguments.repeat)
        for name, (updates, of) in works.items()
    }
    print(f"{words:,} words, two keys, {arguments.rows:,} rows, medians of {arguments.repeat}")
    for name, speed in speeds.items():
        print(f"{name:18} {speed:14,.0f} rows a second {speed / speeds['AGMS']:10,.0f} x AGMS")


if __name__ == "__main__":
    main()
