"""Finding dense keys: recall, memory and cost of the candidate table, the domain scan and the dyadic search.

The streams of figures/skimmed.py (4 million elements, 2^18 keys), a sketch of 7 x 256 counters. A key is dense
if its frequency is at least T = 4.5 noise levels of the skimmed sketch, the threshold of our skimming.

    table      a candidate table of at most 2,000 words, and of 464 (next to 6 x 256 counters: 2,000 in all)
    churned    the same after another stream of as many elements was inserted and deleted again
    merged     the same, merged from 16 partial tables
    scan       every key of the domain tested on the sketch: no memory
    dyadic     the document's hierarchy, a sketch of each of 18 levels: 18 times the sketch, searched with T

    python figures/candidates.py [--seeds 5] [--quick]

writes data/candidates.csv and plots/candidates.svg.
"""

import argparse
import csv
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import matplotlib as mpl
import numpy as np
from skimmed import DOMAIN, EXPONENTS, KEYS, settings, sketch

from eddyline.answer.joins.document import dense_keys
from eddyline.answer.joins.skimming import STANDS_OUT, dense_in_range, places, without_dense_keys
from eddyline.kernels.skimming import noise_level
from eddyline.sketch import candidates
from eddyline.sketch.candidates import CandidateSpec
from eddyline.sketch.dyadic import DyadicSpec
from eddyline.sketch.hash_sketch import HashSketchSpec

mpl.use("svg")
from matplotlib import pyplot as plt

HERE = Path(__file__).parent
BITS = DOMAIN.bit_length() - 1
Found = tuple[np.ndarray, int, float]


def threshold(spec: HashSketchSpec, frequencies: np.ndarray, counters: np.ndarray) -> float:
    """Return T: what stands out when the truly largest keys have been skimmed."""
    largest = np.argsort(-frequencies, kind="stable")[:2000].astype(np.uint64)
    rows = spec.rows(counters).astype(np.float64)
    return STANDS_OUT * noise_level(without_dense_keys(rows, places(spec, largest)).residual, -1)


def observed(spec: CandidateSpec, table: np.ndarray, rows: np.ndarray, weight: int = 1) -> float:
    """Let rows vote and return the nanoseconds that each took."""
    weights = np.full(len(rows), weight, dtype=np.int64)
    start = time.perf_counter_ns()
    candidates.observe(spec, table, rows, weights)
    return (time.perf_counter_ns() - start) / len(rows)


def by_table(words: int, rows: np.ndarray, seed: int) -> Found:
    """Return (keys, words, nanoseconds an update) of one table."""
    spec = CandidateSpec.within(words, seed)
    table = candidates.empty(spec)
    cost = observed(spec, table, rows)
    return candidates.keys(spec, table), spec.words, cost


def by_churned_table(words: int, rows: np.ndarray, seed: int) -> Found:
    """Return the same of a table that saw as many other rows come and go before."""
    spec = CandidateSpec.within(words, seed)
    table = candidates.empty(spec)
    others = rows + np.uint64(DOMAIN)
    observed(spec, table, others)
    observed(spec, table, others[::-1].copy(), -1)
    cost = observed(spec, table, rows)
    return candidates.keys(spec, table), spec.words, cost


def by_merged_tables(words: int, rows: np.ndarray, seed: int) -> Found:
    """Return the same of 16 tables merged."""
    spec = CandidateSpec.within(words, seed)
    merged, costs = candidates.empty(spec), []
    for part in np.array_split(rows, 16):
        table = candidates.empty(spec)
        costs.append(observed(spec, table, part))
        merged = candidates.merge_tables(spec, merged, table)
    return candidates.keys(spec, merged), spec.words, float(np.mean(costs))


def by_dyadic(frequencies: np.ndarray, level: float, seed: int) -> Found:
    """Return (keys, words, nanoseconds an update) of the document's search."""
    spec = DyadicSpec(BITS, 256, 7, seed)
    counters = np.zeros(spec.words, dtype=np.int64)
    start = time.perf_counter_ns()
    spec.accumulate(counters, KEYS.view(np.uint64).reshape(1, -1), frequencies)
    cost = (time.perf_counter_ns() - start) / DOMAIN
    return dense_keys(spec, counters, level), spec.words, cost


def lines(exponent: float, seed: int) -> Iterator[dict[str, object]]:
    """Yield recall, memory and cost of every way of finding the dense keys of one stream."""
    frequencies = next(settings(exponent, (0,))).left
    rows = np.random.default_rng(seed).permutation(np.repeat(KEYS.view(np.uint64), frequencies))
    spec = HashSketchSpec(256, 7, (seed,))
    counters = sketch(spec, frequencies)
    level = threshold(spec, frequencies, counters)
    dense = np.nonzero(frequencies >= level)[0].astype(np.uint64)
    ways: dict[str, Callable[[], Found]] = {
        "table 2000": lambda: by_table(2000, rows, seed),
        "table 464": lambda: by_table(464, rows, seed),
        "churned 2000": lambda: by_churned_table(2000, rows, seed),
        "merged 2000": lambda: by_merged_tables(2000, rows, seed),
        "scan": lambda: (dense_in_range(spec, counters, 0, DOMAIN - 1), 0, 0.0),
        "dyadic": lambda: by_dyadic(frequencies, level, seed),
    }
    for way, find in ways.items():
        keys, words, cost = find()
        yield {
            "way": way,
            "exponent": exponent,
            "seed": seed,
            "dense_keys": len(dense),
            "found": len(keys),
            "recall": round(float(np.isin(dense, keys).mean()), 4),
            "words": words,
            "ns_per_update": round(cost, 1),
        }


def report(found: list[dict[str, object]]) -> None:
    """Print means over exponents and seeds, and draw the recall."""
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "candidates", "font.size": 8})
    figure, axis = plt.subplots(figsize=(6, 3), layout="constrained")
    print("way            words  recall (worst)   found  ns/update (best run)")
    for way in dict.fromkeys(str(line["way"]) for line in found):
        mine = [line for line in found if line["way"] == way]
        recall, words, count, cost = (
            np.array([float(str(line[name])) for line in mine])
            for name in ("recall", "words", "found", "ns_per_update")
        )
        counts = f"{recall.mean():.3f} ({recall.min():.3f})  {count.mean():6.0f}"
        print(f"{way:13} {words[0]:6.0f}   {counts}  {cost.min():6.1f}")
        by = [
            np.mean([float(str(line["recall"])) for line in mine if line["exponent"] == z]) for z in EXPONENTS
        ]
        axis.plot(EXPONENTS, by, "o-", ms=3, label=f"{way} ({words[0]:,.0f} words)")
    axis.set(
        xlabel="Zipf exponent",
        ylabel="recall of keys above T",
        title="finding dense keys next to 7 x 256 counters",
    )
    axis.legend(frameon=False)
    figure.savefig(HERE / "plots" / "candidates.svg", metadata={"Date": None})


def main() -> None:
    """Measure, write the data file, and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one seed")
    options = parser.parse_args()
    seeds = 1 if options.quick else options.seeds
    found = [line for exponent in EXPONENTS for seed in range(seeds) for line in lines(exponent, seed)]
    with (HERE / "data" / "candidates.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(found[0]))
        writer.writeheader()
        writer.writerows(found)
    report(found)


if __name__ == "__main__":
    main()
