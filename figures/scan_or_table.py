"""Where the dense keys come from: a scan of the domain, the candidate table, or both.

    python figures/scan_or_table.py [--seeds 8]

Mean relative error of the skimmed join of two Zipf streams of a million rows, at 7 x 256 counters and a candidate
table of at most 600 words: the table in docs/decisions/0004-skimming.md.
"""

import argparse

import numpy as np

from eddyline.answer.joins.skimming import dense_in_range
from eddyline.answer.joins.two_way import SketchedRelation, skimmed_join
from eddyline.sketch import candidates
from eddyline.sketch.candidates import CandidateSpec
from eddyline.sketch.hash_sketch import HashSketchSpec
from eddyline.sketch.synopsis import Synopsis

ROWS = 1_000_000
SETTINGS = ((0.8, 50), (1.0, 100), (1.2, 100), (1.5, 300))
WAYS = ("scan", "table", "both")


def zipf(exponent: float, domain: int, rng: np.random.Generator) -> np.ndarray:
    """Return how often each key of the domain occurs."""
    chances = 1 / np.arange(1, domain + 1) ** exponent
    return rng.multinomial(ROWS, chances / chances.sum())


def sides(frequencies: np.ndarray, seed: int, rng: np.random.Generator) -> dict[str, SketchedRelation]:
    """Return one side of the join, with candidates by each way."""
    spec, table_spec = HashSketchSpec(256, 7, (seed + 1,)), CandidateSpec.within(600, seed)
    domain = np.arange(len(frequencies))
    counters = Synopsis(spec).update(domain, weights=frequencies).counters
    rows = np.repeat(domain, frequencies).astype(np.uint64)
    rng.shuffle(rows)
    table = candidates.empty(table_spec)
    candidates.observe(table_spec, table, rows, np.ones(ROWS, dtype=np.int64))
    named = candidates.keys(table_spec, table)
    scanned = dense_in_range(spec, counters, 0, len(domain) - 1)
    return {
        "scan": SketchedRelation(spec, counters, scanned, len(domain)),
        "table": SketchedRelation(spec, counters, named),
        "both": SketchedRelation(spec, counters, np.union1d(named, scanned), len(domain)),
    }


def errors(domain: int, exponent: float, shift: int, seed: int) -> list[float]:
    """Return the relative error of each way."""
    rng = np.random.default_rng(seed)
    left, right = zipf(exponent, domain, rng), np.roll(zipf(exponent, domain, rng), shift)
    exact = float(left.astype(float) @ right)
    one, other = sides(left, seed, rng), sides(right, seed, rng)
    return [abs(skimmed_join(one[way], other[way]).value - exact) / exact for way in WAYS]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=8)
    seeds = parser.parse_args().seeds
    print("domain   exponent  shift  " + "  ".join(f"{way:>6}" for way in WAYS))
    for domain in (20_000, 1 << 18):
        for exponent, shift in SETTINGS:
            means = np.mean([errors(domain, exponent, shift, seed) for seed in range(seeds)], axis=0)
            print(f"{domain:7,} {exponent:8} {shift:6}   " + "  ".join(f"{mean:6.3f}" for mean in means))


if __name__ == "__main__":
    main()
