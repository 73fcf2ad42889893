"""Accuracy of distinct counts over joins: ours and the document's, error against bytes, and coverage.

    python figures/join_distinct.py [--seeds 30] [--document-seeds 30] [--part ours|document|all] [--quick | --redraw]

Writes figures/data/join_distinct.csv (ours, 10^5 tuples a side), figures/data/join_distinct_document.csv (3,000
tuples a side: the document's JD sketches, and ours on the same data) and figures/plots/join_distinct.svg, and
prints a summary. New data and new hash functions for every seed.

Bytes are of both streams together. Ours have levels for 2^30 tuples. The document's signatures are charged 65
counters of 4 bytes, and their levels are those that the data needs (fewer than 2^30 tuples would): in its favour.
JD sketches are built with keys of 12 bits here, which changes their speed and not their errors. Where JDEstimator
fails, 0 is taken. `witness` is the document's sketch with our readings of it: any identical pair of singletons
for an intersection, and all indices of the bitmaps by maximum likelihood. `each b` is its alternative with FM
synopses for each join value (counters of 4 bytes), read in that same way. The document's semi-join counts distinct
(a, b) and is held to that count; ours counts distinct a.
"""

import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from join_distinct_report import Errors, Row, draw, print_rows, read_data, write_data
from join_distinct_shapes import CHURNED, SHAPES, Tuples, answers, tuples_of
from theta_b import ThetaBSpec, inverted_estimator, paired, theta_b_bitmaps

from eddyline.answer.distinct_joins.document import jd_bitmaps, jd_estimator
from eddyline.answer.distinct_joins.reading import read_form, samples_of
from eddyline.answer.distinct_joins.samples import SketchedSide
from eddyline.sketch.jd_sketch import JdSketchSpec
from eddyline.sketch.join_distinct import JoinDistinctSpec
from eddyline.sql.query import ProjectionForm

FORMS: tuple[ProjectionForm, ...] = ("two-sided", "semi", "full")
MAX_DISTINCT = 1 << 30
CELLS, SMALL_CELLS = (384, 1536, 6144), (192, 384, 768)
SKETCHES, COPIES, LEVELS, KEY_BITS = 32, 32, 12, 12
TUPLES, SMALL = 100_000, 3_000
NOT_BY_DOCUMENT = ("key - foreign key", "Zipf on all")
EPSILON = 0.3


def side_of(cells: int, seed: int, side: int, tuples: Tuples, guests: Tuples | None = None) -> SketchedSide:
    """Return our synopsis of one side, after guests came and went."""
    spec = JoinDistinctSpec.sized(cells, MAX_DISTINCT, seed, side)
    counters = np.zeros(spec.words, dtype=np.int64)
    for own, weight in ((guests, 1), (tuples, 1), (guests, -1)):
        if own is not None:
            keys = np.stack(own).astype(np.uint64)
            spec.accumulate(counters, keys, np.full(keys.shape[1], weight, dtype=np.int64))
    return SketchedSide(spec, counters)


def run_ours(
    errors: Errors, shape: str, seed: int, sides: list[Tuples], cells: tuple[int, ...], guests: list[Tuples]
) -> None:
    """Note the errors of ours on one pair of streams, at several sizes."""
    truth = answers(*sides)
    came = guests or [None, None]
    for size in cells:
        both = [side_of(size, seed, i, own, came[i]) for i, own in enumerate(sides)]
        samples = samples_of(both[0], both[1])
        for form in FORMS:
            reading = read_form(samples, both[1], form)
            covered = reading.low <= truth[form] <= reading.high
            flagged = reading.note is not None
            key = (shape, form, "ours", size)
            errors.add(key, 16 * both[0].spec.words, reading.value, truth[form], covered, flagged)


def document_side(form: ProjectionForm, side: int, tuples: Tuples) -> np.ndarray:
    """Return the keys that the document sketches for a form: what is hashed first, and b."""
    x, b = (column.astype(np.uint64) for column in tuples)
    if form == "full":
        return np.stack([paired(x, b), b])
    return np.stack([b, b]) if form == "semi" and side == 1 else np.stack([x, b])


def document_answers(sides: list[Tuples]) -> dict[str, int]:
    """Return the exact answers of the document's forms: its semi-join counts the tuples (a, b) that join."""
    left, right = sides
    return {**answers(left, right), "semi": int(np.isin(left[1], right[1]).sum())}


def document_bytes(sketches: int, copies: int) -> int:
    """Return the bytes of two JD sketches with 65 counters of 4 bytes a signature."""
    return 2 * copies * sketches * LEVELS * LEVELS * 65 * 4


def run_document(
    errors: Errors, shape: str, seed: int, sides: list[Tuples], forms: tuple[ProjectionForm, ...]
) -> None:
    """Note the errors of the document's method on one pair of streams, with all its sketches and with half."""
    truth = document_answers(sides)
    specs = [JdSketchSpec(COPIES, SKETCHES, LEVELS, LEVELS, seed, side, key_bits=KEY_BITS) for side in (0, 1)]
    for form in forms:
        both = []
        for side, spec in enumerate(specs):
            keys = np.unique(document_side(form, side, sides[side]), axis=1)
            counters = np.zeros(spec.words, dtype=np.int64)
            spec.accumulate(counters, keys, np.ones(keys.shape[1], dtype=np.int64))
            both.append(counters)
        literal = jd_bitmaps(specs[0], both[0], specs[1], both[1], "estimate")
        witness = jd_bitmaps(specs[0], both[0], specs[1], both[1], "witness")
        for copies in (COPIES // 4, COPIES):
            size = document_bytes(SKETCHES, copies)
            value = jd_estimator(literal[:copies], EPSILON)
            errors.add((shape, form, "document", copies), size, value, truth[form])
            value = inverted_estimator(witness[:copies])
            errors.add((shape, form, "witness", copies), size, value, truth[form])


def run_alternative(
    errors: Errors, shape: str, seed: int, sides: list[Tuples], forms: tuple[ProjectionForm, ...]
) -> None:
    """Note the errors of the document's alternative, with synopses for every join value."""
    truth = document_answers(sides)
    values = int(max(side[1].max() for side in sides)) + 1
    for form in forms:
        specs = [ThetaBSpec(values, 2 * COPIES, LEVELS, seed, side) for side in (0, 1)]
        both = []
        for side, spec in enumerate(specs):
            keys = np.unique(document_side(form, side, sides[side]), axis=1)
            counters = np.zeros(spec.words, dtype=np.int64)
            spec.accumulate(counters, keys, np.ones(keys.shape[1], dtype=np.int64))
            both.append(counters)
        bitmaps = theta_b_bitmaps(specs[0], both[0], specs[1], both[1])
        key = (shape, form, "each b", 2 * COPIES)
        errors.add(key, 2 * 4 * specs[0].words, inverted_estimator(bitmaps), truth[form])


def run(seeds: int, n: int, cells: tuple[int, ...], *, document: int = 0, other_forms: int = 0) -> list[Row]:
    """Return the rows of all shapes at n tuples a side; the document's for the first `document` seeds, and its
    semi-join and full projection for the first `other_forms`.
    """  # noqa: D205
    errors = Errors()
    for seed in range(max(seeds, document)):
        for shape, draws in SHAPES.items():
            rng = np.random.default_rng((seed, n))
            sides = [tuples_of(one, rng, n) for one in draws]
            if seed < seeds:
                run_ours(errors, shape, seed, sides, cells, [])
            if seed < document and shape not in NOT_BY_DOCUMENT:
                some = FORMS if seed < other_forms else FORMS[:1]
                run_document(errors, shape, seed, sides, some)
                run_alternative(errors, shape, seed, sides, some)
        rng = np.random.default_rng((seed, n, 1))
        first = next(iter(SHAPES.values()))
        sides, guests = ([tuples_of(one, rng, n) for one in first] for _ in range(2))
        run_ours(errors, CHURNED, seed, sides, cells, guests)
        print(f"seed {seed}", flush=True)
    return list(errors.rows())


def main() -> None:
    """Run everything, write data and plot, print the summary."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--document-seeds", type=int, default=30)
    parser.add_argument("--document-other-forms", type=int, default=10, help="seeds of its other two forms")
    parser.add_argument("--part", choices=["ours", "document", "all"], default="all")
    parser.add_argument("--quick", action="store_true", help="2 seeds")
    parser.add_argument("--redraw", action="store_true", help="plot and summary from the data files, no runs")
    options = parser.parse_args()
    seeds, document = (2, 2) if options.quick else (options.seeds, options.document_seeds)
    if options.part != "document" and not options.redraw:
        write_data("join_distinct", run(seeds, TUPLES, CELLS))
    if options.part != "ours" and not options.redraw:
        others = options.document_other_forms
        rows = run(document, SMALL, SMALL_CELLS, document=document, other_forms=others)
        write_data("join_distinct_document", rows)
    ours, small = read_data("join_distinct"), read_data("join_distinct_document")
    if ours and small:
        draw(ours, small)
    print_rows(ours, small)


if __name__ == "__main__":
    main()
