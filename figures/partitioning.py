"""Sketch partitioning: relative error of a join's size by the number of partitions.

The set-up of Figure 6 of the multi-join document: a chain of three relations over two attributes of 1,024
values, 9,000 words of sketch for the query (3,000 for each relation), partitions from histograms of 25, 50
and 100 buckets. Every cell of parts gets sketches of all relations. Settings:

    aligned     the document's data: all relations crowd in the same regions, moved a little
    reranked    the same, but the relations share their tuples out over the regions in different orders
    one join    two relations over one attribute, reranked, 4,000 words; regions of 30 to 60 values

The space is shared out over the cells by what the histograms say of their self-joins ("histogram"), or by the
self-joins that the cells of the same data have ("measured"): a bound on what a pilot could show. The histogram
"values" has a bucket for each value.

    agms          the mean of all copies, as with the document's s2 = 2
    hash          the product's shapes (plan/size/specs.py), read by FFT, the mean of the rows
    agms, exact   the standard error of agms by its exact variance, without sketches; the mean over data sets

    python figures/partitioning.py [--data-sets 20] [--seeds 4] [--quick]

writes data/partitioning.csv (one line per setting, sketch, histogram, way to share out and number of partitions)
and plots/partitioning.svg. A run is one data set and one seed of the sketches.
"""

import argparse
import csv
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from partitioning_report import report
from partitioning_sketches import DOMAIN, Links, agms_estimate, hash_estimate
from partitioning_variance import atomic_variance
from regions import JoinQuery, Relation, Space, binary, chain

from eddyline.plan.partition.histograms import Histogram, equi_depth
from eddyline.plan.partition.partitioning import (
    LinkStatistics,
    Partitioning,
    allocate_space,
    cell_self_joins,
    joint_gain,
    link_statistics,
    partition_links,
)
from eddyline.plan.size.specs import MIN_DEPTH, MIN_WIDTH
from eddyline.sketch.keys import derive_seed

BUCKETS = (25, 50, 100, DOMAIN)
PARTITIONS = (1, 2, 3, 4, 6, 8)
WORDS = {"aligned": 9000, "reranked": 9000, "one join": 4000}
EXACT = "agms, exact"
DATA = Path(__file__).parent / "data" / "partitioning.csv"


def query_of(setting: str, seed: int) -> JoinQuery:
    """Return one data set of a setting."""
    if setting == "one join":
        return binary(Space(1, DOMAIN, volumes=(30, 60)), seed, same_ranks=False)
    return chain(Space(2, DOMAIN), 3, seed, same_ranks=setting == "aligned")


def statistics_of(query: JoinQuery, buckets: int) -> list[LinkStatistics]:
    """Return what histograms of the two columns say of each link of a chain."""
    return [
        link_statistics(histogram(query, link, link, buckets), histogram(query, link + 1, link, buckets))
        for link in range(len(query.relations) - 1)
    ]


def histogram(query: JoinQuery, index: int, link: int, buckets: int) -> Histogram:
    """Return the histogram of a relation's column; its squares are not known, as the document has it."""
    column = query.relations[index].projected(query.links[index].index(link))
    values, counts = column.keys[0].astype(np.int64), column.counts
    if buckets == DOMAIN:
        return Histogram(tuple(values.tolist()), int(values[-1]), tuple(counts.tolist()), (1,) * len(values))
    found = equi_depth(values, counts, buckets)
    return Histogram(found.lows, found.high, found.rows, found.distinct)


@dataclass(frozen=True)
class Cells:
    """The cells of a partitioned query: what each relation has in each, and their expected variances."""

    relations: list[tuple[Relation, ...]]
    expected: np.ndarray

    @property
    def measured(self) -> np.ndarray:
        """The product of the self-join sizes of each cell's relations."""
        return np.array([np.prod([each.self_join for each in cell]) for cell in self.relations])

    @cached_property
    def atomic_variances(self) -> np.ndarray:
        """The exact variance of an atomic sketch of each cell."""
        return np.array([atomic_variance(cell, DOMAIN) for cell in self.relations])


def cells_of(query: JoinQuery, partitionings: tuple[Partitioning, ...]) -> Cells:
    """Return the cells, in the order of `cell_self_joins`."""
    places = [
        [
            partitionings[link].locate(keys.astype(np.int64))
            for link, keys in zip(links, each.keys, strict=True)
        ]
        for each, links in zip(query.relations, query.links, strict=True)
    ]
    found = []
    for cell in product(*(range(len(each.parts)) for each in partitionings)):
        inside = [
            np.all([place == cell[link] for link, place in zip(links, own, strict=True)], axis=0)
            for links, own in zip(query.links, places, strict=True)
        ]
        found.append(
            tuple(
                Relation(each.keys[:, rows], each.counts[rows])
                for each, rows in zip(query.relations, inside, strict=True)
            )
        )
    return Cells(found, cell_self_joins(partitionings).ravel())


class Errors:
    """Errors and expected gains by (setting, sketch, buckets, way to share out, partitions)."""

    def __init__(self) -> None:
        self._runs: dict[tuple[str, str, int, str, int], list[tuple[float, float]]] = {}

    def add(self, key: tuple[str, str, int, str, int], error: float, gain: float) -> None:
        """Note one run."""
        self._runs.setdefault(key, []).append((error, gain))

    def lines(self) -> Iterator[dict[str, object]]:
        """Yield one line of the data file per key."""
        for (setting, sketch, buckets, shared, partitions), runs in sorted(self._runs.items()):
            errors, gains = np.array(runs).T
            yield {
                "setting": setting,
                "sketch": sketch,
                "histogram": {0: "none", DOMAIN: "values"}.get(buckets, buckets),
                "shared_out_by": shared,
                "partitions": partitions,
                "runs": len(errors),
                "mean_error": f"{errors.mean():.6g}",
                "median_error": f"{np.median(errors):.6g}",
                "expected_gain": f"{np.exp(np.log(gains).mean()):.6g}",
            }


def measure(errors: Errors, setting: str, data_set: int, seeds: int) -> None:
    """Note the errors of all ways to partition one data set, and of not partitioning it."""
    query = query_of(setting, data_set)
    exact, words = query.exact(), WORDS[setting] // len(query.relations)
    names = [derive_seed(data_set, seed) for seed in range(seeds)]
    for buckets in BUCKETS:
        links = statistics_of(query, buckets)
        for most in PARTITIONS:
            if most == 1 and buckets != BUCKETS[0]:
                continue
            parts = partition_links(links, most)
            cells, gain = cells_of(query, parts), joint_gain(parts)
            for shared, variances in (("histogram", cells.expected), ("measured", cells.measured)):
                for sketch, error in runs_of(cells, query.links, variances.tolist(), words, names):
                    key = setting, sketch, buckets if most > 1 else 0, shared, most
                    errors.add(key, error / exact if sketch == EXACT else abs(error / exact - 1), gain)


def runs_of(
    cells: Cells, links: Links, variances: list[float], words: int, seeds: list[int]
) -> Iterator[tuple[str, float]]:
    """Yield the standard error of AGMS, and the estimates of both sketches for each seed."""
    copies, shares = allocate_space(variances, words), hash_shares(variances, words)
    yield EXACT, float(np.sqrt((cells.atomic_variances / np.array(copies)).sum()))
    for seed in seeds:
        yield "agms", agms_estimate(cells.relations, links, copies, seed)
        yield "hash", hash_estimate(cells.relations, links, shares, seed)


def hash_shares(variances: list[float], words: int) -> tuple[int, ...]:
    """Return each cell's words for each relation: at least the smallest shape that the product has."""
    least = MIN_DEPTH * MIN_WIDTH - 1
    return tuple(least + each for each in allocate_space(variances, words - least * len(variances)))


def main() -> None:
    """Measure, write the data file, and report on it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-sets", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=4, help="sketches of each data set")
    parser.add_argument("--quick", action="store_true", help="three data sets, one sketch of each")
    options = parser.parse_args()
    errors = Errors()
    for setting in WORDS:
        for data_set in range(3 if options.quick else options.data_sets):
            measure(errors, setting, data_set, 1 if options.quick else options.seeds)
        print(f"measured {setting}", flush=True)
        write(errors)
    report(DATA)


def write(errors: Errors) -> None:
    """Write the data file: after every setting, so that an interrupted run leaves what it has."""
    lines = list(errors.lines())
    with DATA.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)


if __name__ == "__main__":
    main()
