"""Accuracy of set expressions: the document's FIG. 4, ours at equal bytes, theta, deletes, coverage.

    python figures/set_expressions.py [--seeds 100] [--paper-seeds 50] [--quick | --redraw]

Writes figures/data/set_expressions.csv and figures/plots/set_expressions.svg, and prints a summary.

Parts of the data file:
    fig4      |A n B|, |A - B|, |(A - B) n C|, union 2^18, three sizes E/U, 64-512 sketches of the document in
              both forms, and ours in the bytes of the time-efficient form
    bytes     A n B of a union of 10^6 at 256 KiB a stream: the document, ours, theta (insert-only)
    target    ours at 194 KiB a stream, union 2^18: the acceptance numbers
    deletes   the same, after as many further elements were inserted and deleted again
    coverage  how often the 95% interval holds the truth, over expressions, shares and sizes

The document's cells are charged 65 counters of 4 bytes, and all structures levels for 2^30 elements. Its
sketches are built with keys of 32 bits here, which changes their speed and not their errors. Where it gives
no estimate, 0 is taken. The expressions of FIG. 4 are laid over the same elements, so that its estimator, which
looks at union-singletons alone, errs alike in the three panels.
"""

import argparse
import os
from collections import deque
from itertools import pairwise
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import datasketches
import numpy as np
from set_expressions_report import (
    COMPRESSED,
    COPIES,
    DOCUMENT,
    FIG4,
    SHARES,
    SKETCHES,
    THETA,
    Errors,
    Row,
    draw,
    print_ratios,
    print_rows,
    read_data,
    write_data,
)

from eddyline.answer.sets.document import set_expression_estimator
from eddyline.answer.sets.expression import Condition, Except, Intersect, StreamLeaf, Union, set_cardinality
from eddyline.sketch.counters import key_array
from eddyline.sketch.distinct import DistinctSpec
from eddyline.sketch.two_level import TwoLevelSpec

A, B, C = StreamLeaf(0), StreamLeaf(1), StreamLeaf(2)
NEARLY_EQUAL = "A - B, B in A"
EXPRESSIONS: dict[str, Condition] = {
    "A n B": Intersect(A, B),
    "A - B": Except(A, B),
    "(A - B) n C": Intersect(Except(A, B), C),
    NEARLY_EQUAL: Except(A, B),
}
MAX_DISTINCT = 1 << 30
UNION, LARGE_UNION = 1 << 18, 10**6
COVERED = ((128, 4000), (256, 1 << 15), (1024, 1 << 15))
"""Cells and unions for which the coverage of intervals is counted."""

Spec = DistinctSpec | TwoLevelSpec
Interval = tuple[int, int]


def counters_of(spec: Spec, keys: np.ndarray) -> np.ndarray:
    """Return the counters of a stream of keys."""
    counters = np.zeros(spec.words, dtype=np.int64)
    spec.accumulate(counters, key_array(keys), np.ones(len(keys), dtype=np.int64))
    return counters


def segments_of(union: int) -> list[Interval]:
    """Return the slices of which all streams of all expressions and shares are made."""
    cuts = {0, union}
    for share in SHARES:
        inside = int(union * share)
        cuts |= {inside, inside + (union - inside) // 2}
    return list(pairwise(sorted(cuts)))


def members(expression: str, union: int, share: float) -> tuple[list[Interval], ...]:
    """Return, for each stream of an expression, the intervals of the key array that it holds."""
    inside = int(union * share)
    half = inside + (union - inside) // 2
    first, second, third = (0, inside), (inside, half), (half, union)
    return {
        "A n B": ([first, second], [first, third]),
        "A - B": ([first, second], [second, third]),
        "(A - B) n C": ([first, second], [second, third], [first, third]),
        NEARLY_EQUAL: ([first, second, third], [second, third]),
    }[expression]


class Segments:
    """Sketches of all slices of one key array, added up to streams."""

    def __init__(self, spec: Spec, keys: np.ndarray) -> None:
        self.spec, self.union = spec, len(keys)
        self.parts = {edge: counters_of(spec, keys[slice(*edge)]) for edge in segments_of(len(keys))}

    def stream(self, intervals: list[Interval]) -> np.ndarray:
        """Return the counters of the stream that holds these intervals."""
        total = np.zeros(self.spec.words, dtype=np.int64)
        for (start, stop), part in self.parts.items():
            if any(low <= start and stop <= high for low, high in intervals):
                total = self.spec.add(total, part)
        return total

    def streams(self, expression: str, share: float) -> list[np.ndarray]:
        """Return the counters of all streams of an expression."""
        return [self.stream(own) for own in members(expression, self.union, share)]


def read(
    errors: Errors,
    part: str,
    expression: str,
    spec: DistinctSpec,
    streams: list[np.ndarray],
    union: int,
    share: float,
) -> None:
    """Read one expression from our sketches and note the error."""
    truth = int(union * share)
    reading = set_cardinality(EXPRESSIONS[expression], (spec,) * len(streams), tuple(streams))
    key = (part, expression, "ours (words)", spec.cells, union, share)
    errors.add(key, 8 * spec.words, reading.value, truth, reading.low <= truth <= reading.high)


def paper_levels(sketches: int, *, spread: bool) -> int:
    """Return the levels that the document's form needs for MAX_DISTINCT elements."""
    return 33 - (int(np.log2(sketches)) if spread else 0)


def paper_bytes(sketches: int, *, spread: bool) -> int:
    """Return the bytes of the document's form: 65 counters of 4 bytes a cell."""
    return sketches * paper_levels(sketches, spread=spread) * 65 * 4


def run_fig4(errors: Errors, seed: int, *, plain: bool) -> None:
    """Run the document's two forms at 64-512 sketches, and ours in as many bytes."""
    union = UNION
    keys = np.random.default_rng(seed).choice(1 << 32, union, replace=False)
    forms = [TwoLevelSpec(n, paper_levels(n, spread=True), seed, 32, spread=True) for n in SKETCHES]
    for spec in [*forms, TwoLevelSpec(SKETCHES[-1], 33, seed, 32)] if plain else forms:
        segments = Segments(spec, keys)
        for expression in FIG4:
            for share in SHARES[:3]:
                views = [spec.buckets(words) for words in segments.streams(expression, share)]
                for sketches in (spec.copies,) if spec.spread else SKETCHES:
                    some = [view[:sketches] for view in views]
                    value = set_expression_estimator(EXPRESSIONS[expression], some, spread=spec.spread)
                    key = ("fig4", expression, DOCUMENT if spec.spread else COPIES, sketches, union, share)
                    errors.add(key, paper_bytes(sketches, spread=spec.spread), value, union * share)
    for sketches in SKETCHES:
        own = DistinctSpec.for_budget(paper_bytes(sketches, spread=True), MAX_DISTINCT, seed)
        segments = Segments(own, keys)
        for expression in FIG4:
            for share in SHARES[:3]:
                read(errors, "fig4", expression, own, segments.streams(expression, share), union, share)


def theta_of(lg_k: int, keys: np.ndarray, intervals: list[Interval]) -> Any:
    """Return the compact theta sketch of a stream, trimmed to its nominal size."""
    sketch = datasketches.update_theta_sketch(lg_k)
    for start, stop in intervals:
        deque(map(sketch.update, keys[start:stop].tolist()), maxlen=0)
    sketch.trim()
    return sketch.compact()


def run_theta(errors: Errors, keys: np.ndarray, share: float) -> None:
    """Run theta on A n B, at 16,384 and 32,768 entries."""
    union = len(keys)
    for lg_k in (14, 15):
        thetas = [theta_of(lg_k, keys, own) for own in members("A n B", union, share)]
        both = datasketches.theta_intersection()
        for theta in thetas:
            both.update(theta)
        for name, compress in ((THETA, False), (COMPRESSED, True)):
            size = float(np.mean([len(theta.serialize(compress)) for theta in thetas]))
            key = ("bytes", "A n B", name, 1 << lg_k, union, share)
            errors.add(key, size, both.get_result().get_estimate(), union * share)


def run_bytes(errors: Errors, seed: int, budget: int = 256 * 1024) -> None:
    """Run A n B at equal bytes: the document, ours, theta plain and compressed."""
    union = LARGE_UNION
    keys = np.random.default_rng(seed).choice(1 << 32, union, replace=False)
    sketches = max(n for n in range(8, 200) if paper_bytes(n, spread=True) <= budget)
    paper = TwoLevelSpec(sketches, paper_levels(sketches, spread=True), seed, 32, spread=True)
    kept = DistinctSpec.for_budget(budget, MAX_DISTINCT, seed)
    segments = {spec: Segments(spec, keys) for spec in (paper, kept)}
    for share in SHARES:
        views = [paper.buckets(words) for words in segments[paper].streams("A n B", share)]
        value = set_expression_estimator(EXPRESSIONS["A n B"], views, spread=True)
        key = ("bytes", "A n B", DOCUMENT, sketches, union, share)
        errors.add(key, paper_bytes(sketches, spread=True), value, union * share)
        read(errors, "bytes", "A n B", kept, segments[kept].streams("A n B", share), union, share)
        run_theta(errors, keys, share)


def run_target(errors: Errors, seed: int) -> None:
    """Run ours at 194 KiB a stream, before and after as many further elements came and went."""
    union = UNION
    keys = np.random.default_rng(seed).choice(1 << 32, 2 * union, replace=False)
    spec = DistinctSpec.for_budget(194 * 1024, MAX_DISTINCT, seed)
    segments, guests = Segments(spec, keys[:union]), counters_of(spec, keys[union:])
    leaving = np.full(union, -1, dtype=np.int64)
    for expression in EXPRESSIONS:
        for share in SHARES:
            streams = segments.streams(expression, share)
            read(errors, "target", expression, spec, streams, union, share)
            churned = [spec.add(words, guests) for words in streams]
            for words in churned:
                spec.accumulate(words, key_array(keys[union:]), leaving)
            assert all(np.array_equal(one, two) for one, two in zip(churned, streams, strict=True))
            read(errors, "deletes", expression, spec, churned, union, share)
    left, right = segments.streams("A n B", 1 / 8)
    reading = set_cardinality(Union(A, B), (spec, spec), (left, right))
    key = ("target", "A u B", "ours (words)", spec.cells, union, 1.0)
    errors.add(key, 8 * spec.words, reading.value, union, reading.low <= union <= reading.high)


def run_coverage(errors: Errors, seed: int) -> None:
    """Run intervals over sizes, unions and shares; A's counts are 2, so that nothing can be subtracted."""
    for cells, union in COVERED:
        keys = np.random.default_rng(seed).choice(1 << 32, union, replace=False)
        spec = DistinctSpec.sized(cells, MAX_DISTINCT, seed)
        segments = Segments(spec, keys)
        for expression in FIG4:
            for share in SHARES:
                first, *others = segments.streams(expression, share)
                read(errors, "coverage", expression, spec, [spec.add(first, first), *others], union, share)
        reading = set_cardinality(A, (spec,), (segments.stream([(0, union)]),))
        key = ("coverage", "A", "ours (words)", cells, union, 1.0)
        errors.add(key, 8 * spec.words, reading.value, union, reading.low <= union <= reading.high)


def run(seeds: int, paper_seeds: int, *, plain: bool) -> list[Row]:
    """Return the rows of all parts."""
    errors = Errors()
    for seed in range(max(seeds, paper_seeds)):
        if seed < paper_seeds:
            run_fig4(errors, seed, plain=plain)
            run_bytes(errors, seed)
        if seed < seeds:
            run_target(errors, seed)
        for extra in range(4):
            run_coverage(errors, 4 * seed + extra)
        print(f"seed {seed}", flush=True)
    return list(errors.rows())


def main() -> None:
    """Run everything, write data and plot, print the summary."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--paper-seeds", type=int, default=50)
    parser.add_argument("--quick", action="store_true", help="3 seeds, without the document's plain form")
    parser.add_argument("--redraw", action="store_true", help="plot and summary from the data file, no runs")
    options = parser.parse_args()
    if options.redraw:
        rows = read_data()
    else:
        seeds, paper_seeds = (3, 3) if options.quick else (options.seeds, options.paper_seeds)
        rows = run(seeds, paper_seeds, plain=not options.quick)
        write_data(rows)
    draw(rows)
    print_rows(rows)
    print_ratios(rows)


if __name__ == "__main__":
    main()
