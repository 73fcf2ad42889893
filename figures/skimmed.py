"""Two-stream join size: relative error of AGMS, hash sketches, the document's skimming, and ours.

The set-up of FIG. 5 of the skimmed-sketch document: 4 million elements per stream over a domain of 2^18
keys, a Zipf stream against a right-shifted one of the same exponent. Counters are linear, so a sketch of
the frequency vector is bit for bit that of the 4 million rows; the candidate tables do see the rows, in a
random order. Widths are powers of two, so "2,000 words in 7 rows" is 7 x 256 = 1,792 words.

    ours, scan      skimmed_join, candidates by a scan of the domain: no memory but the sketch (some budgets)
    ours, table     skimmed_join, candidates from a table next to the sketch, of at most as many words as the
                    budget and at most 4,000
    ours, in all    sketch and table together within the budget

    python figures/skimmed.py [--seeds 50] [--agms-seeds 10] [--quick]

writes data/skimmed.csv (one line per method, budget, exponent and shift) and plots/skimmed.svg.
"""

import argparse
import csv
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from skimmed_report import report

from eddyline.answer.joins.document import BEST_MULTIPLE, est_skim_join_size
from eddyline.answer.joins.skimming import dense_in_range, scan
from eddyline.answer.joins.tree import est_join_size
from eddyline.answer.joins.two_way import RowEstimates, SketchedRelation, hash_join, skimmed_join
from eddyline.sketch import candidates
from eddyline.sketch.agms import AgmsSpec
from eddyline.sketch.candidates import CandidateSpec
from eddyline.sketch.hash_sketch import HashSketchSpec
from eddyline.sketch.synopsis import Synopsis

ELEMENTS, DOMAIN, DEPTH = 4_000_000, 1 << 18, 7
EXPONENTS, GRID_SHIFTS = (0.8, 1.0, 1.2, 1.5), (0, 50, 100, 300)
MORE_SHIFTS = {1.0: (10, 25, 75, 200), 1.5: (10, 25, 75, 200)}  # for the plot, with the main budget only
MAIN_BUDGET, OTHER_BUDGETS, SCANNED_BUDGETS = 2000, (500, 1000, 5000, 10000), (500, 2000, 10000)
IN_ALL = {500: (64, 6), 1000: (128, 6), 2000: (256, 6), 5000: (512, 7), 10000: (1024, 7)}
LARGEST_TABLE = 4000
TABLE_SEEDS = 5
DATA = Path(__file__).parent / "data" / "skimmed.csv"
KEYS = np.arange(DOMAIN, dtype=np.int64)


@dataclass(frozen=True)
class Setting:
    """A pair of streams by their frequencies, and their exact join size."""

    exponent: float
    shift: int
    left: np.ndarray
    right: np.ndarray

    @property
    def exact(self) -> float:
        """The join size."""
        return float(self.left @ self.right)


def settings(exponent: float, shifts: tuple[int, ...]) -> Iterator[Setting]:
    """Yield the streams of one exponent: the left one and the base of the right one are drawn once."""
    shares = np.arange(1, DOMAIN + 1, dtype=np.float64) ** -exponent
    rng = np.random.default_rng([5, int(10 * exponent)])
    left, right = rng.multinomial(ELEMENTS, shares / shares.sum(), size=2)
    for shift in shifts:
        yield Setting(exponent, shift, left, np.roll(right, shift))


def width_within(words: int, depth: int) -> int:
    """Return the largest power of two of counters a row."""
    return 1 << (words // depth).bit_length() - 1


def sketch(spec: HashSketchSpec, frequencies: np.ndarray) -> np.ndarray:
    """Return the counters of a stream."""
    present = np.nonzero(frequencies)[0]
    return Synopsis(spec).update(KEYS[present], weights=frequencies[present]).counters


class Tables:
    """Candidate keys of a stream by size and seed of the table, which saw its rows in random order."""

    def __init__(self, frequencies: np.ndarray, seed: int) -> None:
        rows = np.repeat(KEYS.view(np.uint64), frequencies)
        self._rows = np.random.default_rng(seed).permutation(rows)
        self._ones = np.ones(len(rows), dtype=np.int64)
        self._found: dict[tuple[int, int], np.ndarray] = {}

    def keys(self, words: int, seed: int) -> np.ndarray:
        """Return the keys in a table of at most a given number of words."""
        seed %= TABLE_SEEDS
        if (words, seed) not in self._found:
            spec = CandidateSpec.within(words, seed)
            table = candidates.empty(spec)
            start = len(self._rows) * seed // TABLE_SEEDS  # another order for each seed
            for part in (slice(start, None), slice(0, start)):
                candidates.observe(spec, table, self._rows[part], self._ones[part])
            self._found[words, seed] = candidates.keys(spec, table)
        return self._found[words, seed]


def paper_side(spec: HashSketchSpec, counters: np.ndarray) -> SketchedRelation:
    """Return a side whose candidates are the domain values that pass the document's threshold 2 T'."""
    rows = spec.rows(counters).astype(np.float64)
    return SketchedRelation(
        spec, counters, scan(spec, rows, 0, DOMAIN - 1, 2 * BEST_MULTIPLE * ELEMENTS / spec.width)
    )


def scanned_side(spec: HashSketchSpec, counters: np.ndarray) -> SketchedRelation:
    """Return a side whose candidates come from a scan of the domain."""
    return SketchedRelation(spec, counters, dense_in_range(spec, counters, 0, DOMAIN - 1), DOMAIN)


def readings(
    setting: Setting, tables: tuple[Tables, Tables], words: int, seed: int
) -> Iterator[tuple[str, RowEstimates]]:
    """Yield every method's reading of one setting with one seed."""
    spec = HashSketchSpec(width_within(words, DEPTH), DEPTH, (seed,))
    left, right = sketch(spec, setting.left), sketch(spec, setting.right)
    yield "hash", hash_join(spec, left, spec, right)
    totals = float(ELEMENTS), float(ELEMENTS)
    yield "skimmed-paper", est_skim_join_size(paper_side(spec, left), paper_side(spec, right), totals)
    if words in SCANNED_BUDGETS:
        yield "ours, scan", skimmed_join(scanned_side(spec, left), scanned_side(spec, right))
    keys = [each.keys(min(words, LARGEST_TABLE), seed) for each in tables]
    yield (
        "ours, table",
        skimmed_join(SketchedRelation(spec, left, keys[0]), SketchedRelation(spec, right, keys[1])),
    )
    width, depth = IN_ALL[words]
    spec = HashSketchSpec(width, depth, (seed,))
    keys = [each.keys(words - spec.words, seed) for each in tables]
    left, right = sketch(spec, setting.left), sketch(spec, setting.right)
    yield (
        "ours, in all",
        skimmed_join(SketchedRelation(spec, left, keys[0]), SketchedRelation(spec, right, keys[1])),
    )


class Errors:
    """Errors and half-widths by (method, words, exponent, shift)."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, int, float, int], list[tuple[float, float]]] = {}

    def add(self, method: str, words: int, setting: Setting, reading: RowEstimates) -> None:
        """Note one reading, relative to the exact join size."""
        run = abs(reading.value / setting.exact - 1), reading.half_width(0.95) / setting.exact
        self._runs.setdefault((method, words, setting.exponent, setting.shift), []).append(run)

    def lines(self) -> Iterator[dict[str, object]]:
        """Yield one line of the data file per key."""
        for (method, words, exponent, shift), runs in sorted(self._runs.items()):
            errors, halves = np.array(runs).T
            yield {
                "method": method,
                "words": words,
                "exponent": exponent,
                "shift": shift,
                "seeds": len(errors),
                "mean_error": f"{errors.mean():.6g}",
                "error_p95": f"{np.quantile(errors, 0.95):.6g}",
                "coverage": f"{(errors <= halves).mean():.4g}",
                "median_half_width": f"{np.median(halves):.6g}",
            }


def measure_hash_based(errors: Errors, seeds: int, words: int) -> None:
    """Note the errors of all methods but AGMS with one budget."""
    for exponent in EXPONENTS:
        left = None
        more = MORE_SHIFTS.get(exponent, ()) if words == MAIN_BUDGET else ()
        for setting in settings(exponent, GRID_SHIFTS + more):
            left = left or Tables(setting.left, 1)
            tables = left, Tables(setting.right, 2)
            for seed in range(seeds):
                for method, reading in readings(setting, tables, words, seed):
                    errors.add(method, words, setting, reading)
        print(f"measured {words} words, exponent {exponent}", flush=True)


def measure_agms(errors: Errors, seeds: int, budgets: tuple[int, ...]) -> None:
    """Note the errors of AGMS: the signs of one seed serve all streams.

    A seed's copies are cut into as many sketches as they make, so smaller budgets have more runs.
    """
    pairs = [pair for exponent in EXPONENTS for pair in settings(exponent, GRID_SHIFTS)]
    streams = np.array([pair.left for pair in pairs] + [pair.right for pair in pairs], dtype=np.float32).T
    for seed in range(seeds):
        atomic = agms_counters(seed, max(budgets), streams)
        for words in budgets:
            spec = AgmsSpec(words // DEPTH, DEPTH, (seed,), "mix")
            for start in range(0, len(atomic) - spec.words + 1, words):
                part = atomic[start : start + spec.words].T
                for pair, one, two in zip(pairs, part, part[len(pairs) :], strict=False):
                    errors.add("agms", words, pair, est_join_size([(spec, one), (spec, two)]))
        print(f"measured AGMS seed {seed}", flush=True)


def agms_counters(seed: int, copies: int, streams: np.ndarray) -> np.ndarray:
    """Return the atomic sketches, (copies, streams): sums of +-f_u, the signs those of a hash sketch's rows.

    A product of matrices in float32, exact but for roundings of 1e-6.
    """
    spec = HashSketchSpec(2, copies, (seed,))
    out = np.zeros((copies, streams.shape[1]), dtype=np.float64)
    for start in range(0, DOMAIN, 4096):
        _, signs = spec.locate(KEYS[start : start + 4096].view(np.uint64).reshape(1, -1))
        out += signs.astype(np.float32) @ streams[start : start + 4096]
    return out


def main() -> None:
    """Measure, write the data file, and report on it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument(
        "--agms-seeds", type=int, default=10, help="each makes 1 sketch of 10,000 words, 5 of 2,000"
    )
    parser.add_argument("--quick", action="store_true", help="3 seeds and 2,000 words only, without AGMS")
    options = parser.parse_args()
    errors = Errors()
    measure_hash_based(errors, 3 if options.quick else options.seeds, MAIN_BUDGET)
    write(errors)
    if not options.quick:
        measure_agms(errors, options.agms_seeds, (MAIN_BUDGET, *OTHER_BUDGETS))
        write(errors)
        for words in OTHER_BUDGETS:
            measure_hash_based(errors, options.seeds, words)
            write(errors)
    report(DATA)


def write(errors: Errors) -> None:
    """Write the data file: after every budget, so that an interrupted run leaves what it has."""
    lines = list(errors.lines())
    with DATA.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)


if __name__ == "__main__":
    main()
