"""Joins of several relations: relative error against memory of histograms, AGMS, hash sketches, and ours.

The settings are in figures/multijoin_queries.py. Every seed draws data and hash functions again. All methods have
the same words: "words" for each relation, histograms the same number in all. Counters are linear, so a sketch of
distinct tuples with their counts is bit for bit that of the rows; the candidate tables do see the rows, in a
random order.

    histogram   equi-depth, one for each attribute (figures/histogram_baseline.py)
    agms        the document's atomic sketches, one sign family for each attribute of a join, 7 means
    hash        one hash sketch for each relation, contracted by FFT
    ours        the same, skimmed, its candidate table within the same words (a quarter of them)

    python figures/multijoin.py [--seeds 60] [--settings Zipf] [--tpch]

writes data/multijoin.csv (one line for each setting, budget and method) and plots/multijoin.svg. With --tpch it
measures the product on TPC-H data instead (figures/multijoin_tpch.py).
"""

import argparse
import csv
import os
from collections.abc import Iterator
from dataclasses import dataclass
from math import nan
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import multijoin_tpch
import numpy as np
from histogram_baseline import histogram_estimate
from msgspec.structs import replace
from multijoin_agms import atomic_sketches
from multijoin_queries import SETTINGS, Setting
from multijoin_report import report
from regions import JoinQuery, Relation

from eddyline.answer.joins.tree import est_join_size, hash_tree, skim_relations, skimmed_tree
from eddyline.answer.joins.two_way import LinkTree, RowEstimates, SketchedRelation, hash_join, skimmed_join
from eddyline.plan.layout import Demand, Place
from eddyline.plan.size.specs import HINT_SHARE, MIN_DEPTH, PlanSettings, spec_for
from eddyline.sketch import candidates
from eddyline.sketch.agms import AgmsSpec
from eddyline.sketch.candidates import CandidateSpec
from eddyline.sketch.hash_sketch import HashSketchSpec
from eddyline.sketch.synopsis import Synopsis

BUDGETS = 640, 1280, 2560, 5120
DATA = Path(__file__).parent / "data" / "multijoin.csv"
Links = tuple[int, ...]


@dataclass(frozen=True)
class Run:
    """One estimate relative to the exact join size: its error, and half the width of its interval."""

    error: float
    half: float


def with_composite_keys(query: JoinQuery) -> JoinQuery:
    """Return the query with one key for two relations that join on several attributes."""
    if len(query.relations) > 2:
        return query
    made: dict[int, Relation] = {}
    for relation in query.relations:
        folded = np.zeros(len(relation.counts), dtype=np.uint64)
        for column in relation.keys:
            folded = (folded << np.uint64(20)) + column
        made[id(relation)] = Relation(folded.reshape(1, -1), relation.counts)
    return JoinQuery(tuple(made[id(relation)] for relation in query.relations), ((0,), (0,)))


def hash_spec(links: Links, words: int, seed: int) -> HashSketchSpec:
    """Return the spec that a plan gives a relation."""
    demand = Demand("s", "hash", places=tuple(Place(link) for link in links))
    spec = spec_for(demand, words, PlanSettings(budget=0, seed=seed))
    assert isinstance(spec, HashSketchSpec)
    return spec


def sketched(spec: HashSketchSpec, relation: Relation) -> np.ndarray:
    """Return the counters of a relation."""
    return Synopsis(spec).update(*relation.keys, weights=relation.counts).counters


def agms_readings(query: JoinQuery, seed: int) -> Iterator[tuple[int, RowEstimates]]:
    """Yield AGMS's reading with each budget: the first copies of the largest sketch."""
    sums = atomic_sketches(query, max(BUDGETS), seed)
    for words in BUDGETS:
        width = words // MIN_DEPTH
        yield (
            words,
            est_join_size(
                [
                    (AgmsSpec(width, MIN_DEPTH, links), counters[: width * MIN_DEPTH])
                    for links, counters in zip(query.links, sums, strict=True)
                ]
            ),
        )


class Rows:
    """The rows of a relation in a random order, for its candidate tables."""

    def __init__(self, relation: Relation, seed: int) -> None:
        order = np.repeat(np.arange(len(relation.counts), dtype=np.int32), relation.counts)
        np.random.default_rng([seed, 9]).shuffle(order)
        self._keys = np.ascontiguousarray(relation.keys[:, order])

    def table(self, words: int, seed: int) -> tuple[np.ndarray, int]:
        """Return the candidates of a table within a given number of words, (edges, n), and the words that it takes."""
        spec = CandidateSpec.within(words, seed, len(self._keys))
        table = candidates.empty(spec)
        candidates.observe(spec, table, self._keys, np.ones(self._keys.shape[1], dtype=np.int64))
        return candidates.tuples(spec, table), spec.words


def our_sides(query: JoinQuery, rows: dict[int, Rows], words: int, seed: int) -> list[SketchedRelation]:
    """Return each relation's sketch and candidates, together within a given number of words."""
    made: dict[int, SketchedRelation] = {}
    for relation, links in zip(query.relations, query.links, strict=True):
        if id(relation) in made:
            continue
        found, used = rows[id(relation)].table(words // HINT_SHARE, seed)
        spec = hash_spec(links, words - used, seed)
        made[id(relation)] = SketchedRelation(
            spec, sketched(spec, relation), found if len(query.links) > 2 else found[0]
        )
    return in_one_shape([made[id(relation)] for relation in query.relations])


def in_one_shape(sides: list[SketchedRelation]) -> list[SketchedRelation]:
    """Return the sides with as many rows as all have: tables of one key and of two take other words."""
    depth = min(side.spec.depth for side in sides)
    return [
        SketchedRelation(
            replace(side.spec, depth=depth), side.counters[: depth * side.spec.width], side.candidates
        )
        for side in sides
    ]


def hash_readings(query: JoinQuery, words: int, seed: int, rows: dict[int, Rows]) -> dict[str, RowEstimates]:
    """Return the readings of hash sketches, plain and skimmed."""
    specs = [hash_spec(links, words, seed) for links in query.links]
    plain = [
        SketchedRelation(spec, sketched(spec, of)) for spec, of in zip(specs, query.relations, strict=True)
    ]
    ours = our_sides(query, rows, words, seed)
    if len(plain) == 2:
        both = plain[0].spec, plain[0].counters, plain[1].spec, plain[1].counters
        return {"hash": hash_join(*both), "ours": skimmed_join(ours[0], ours[1])}
    tree = LinkTree(query.links)
    (skimmed,) = skim_relations([(tree, ours)])
    return {"hash": hash_tree(tree, plain), "ours": skimmed_tree(tree, ours, skimmed)}


def runs(setting: Setting, seed: int) -> Iterator[tuple[int, str, Run]]:
    """Yield (words, method, run) of one seed."""
    query = setting.query(seed)
    exact = query.exact()
    distinct = len({id(relation) for relation in query.relations})
    for words in BUDGETS:
        estimate = histogram_estimate(query, words * distinct, setting.domain)
        yield words, "histogram", Run(abs(estimate / exact - 1), nan)
    for words, reading in agms_readings(query, seed):
        yield words, "agms", run_of(reading, exact)
    single = with_composite_keys(query)
    rows = {id(relation): Rows(relation, seed) for relation in single.relations}
    for words in BUDGETS:
        for method, reading in hash_readings(single, words, seed, rows).items():
            yield words, method, run_of(reading, exact)


def run_of(reading: RowEstimates, exact: float) -> Run:
    """Return a reading relative to the exact join size."""
    return Run(abs(reading.value / exact - 1), reading.half_width(0.95) / exact)


def measured(name: str, seeds: int) -> Iterator[dict[str, str]]:
    """Yield one line of the data file for each budget and method of a setting."""
    found: dict[tuple[int, str], list[Run]] = {}
    for seed in range(seeds):
        for words, method, run in runs(SETTINGS[name], seed):
            found.setdefault((words, method), []).append(run)
    for (words, method), each in found.items():
        errors, halves = np.array([(run.error, run.half) for run in each]).T
        shown = method != "histogram"
        yield {
            "setting": name,
            "words": str(words),
            "method": method,
            "seeds": str(seeds),
            "mean_error": f"{errors.mean():.5g}",
            "standard_error": f"{errors.std(ddof=1) / np.sqrt(seeds):.3g}",  # of the mean error
            "coverage": f"{(errors <= halves).mean():.4g}" if shown else "",
            "mean_half_width": f"{halves.mean():.5g}" if shown else "",
        }


def write(lines: list[dict[str, str]]) -> None:
    """Write the data file: after every setting, so that an interrupted run leaves what it has."""
    with DATA.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


def main() -> None:
    """Measure, write the data file, and report on it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument("--settings", default="", help="only settings whose names hold this text")
    parser.add_argument("--tpch", action="store_true", help="the product on TPC-H data instead")
    parser.add_argument("--scale", default="0.1", help="of the TPC-H data")
    options = parser.parse_args()
    if options.tpch:
        multijoin_tpch.main(options.seeds, options.scale)
        return
    lines: list[dict[str, str]] = []
    for name in SETTINGS:
        if options.settings in name:
            lines += measured(name, options.seeds)
            write(lines)
            print(f"measured {name}", flush=True)
    report(DATA)


if __name__ == "__main__":
    main()
