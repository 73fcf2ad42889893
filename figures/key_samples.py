"""Joins of several relations from coordinated key samples: relative error and coverage on TPC-H data.

Statistics are known: the rates of the links come from the sizes of the relations and of the join. Counters are
linear, so the sample of rows grouped by their keys is bit for bit that of the rows.

    python figures/key_samples.py [--seeds 40] [--scale 0.1]

makes the data with tpchgen-cli in a temporary folder, and writes data/key_samples.csv (one line per query and
budget) and plots/key_samples.svg.
"""

import argparse
import csv
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import duckdb
import matplotlib.pyplot as plt
import numpy as np

from eddyline.answer.key_sample import SampleReading, sample_join
from eddyline.answer.key_sample_join import SampledRelation
from eddyline.plan.key_sample_rates import RelationSize, sampling_rates
from eddyline.sketch.families import derive_seed
from eddyline.sketch.hashed_keys import key_array
from eddyline.sketch.key_sample import KeySampleSpec
from eddyline.sketch.key_sample_sizes import capacity_of

BUDGETS = (1280, 5120, 20480, 81920)
HERE = Path(__file__).parent
DATA, PLOT = HERE / "data" / "key_samples.csv", HERE / "plots" / "key_samples.svg"
COLUMNS = (
    "query",
    "words",
    "seeds",
    "join_size",
    "mean_error",  # relative
    "silent",  # the share of seeds without any joined row in the sample: no interval
    "coverage",  # of the others: the share whose 95% interval holds the join size
    "claimed_error",  # median of the relative standard error that the readings claim
    "witnesses",  # median
)


@dataclass(frozen=True)
class Relation:
    """A table with a predicate, and the link that each of its key columns takes part in."""

    table: str
    keys: dict[str, int]
    predicate: str = "true"


QUERIES = {
    "Q3: customer-orders-lineitem": (
        Relation("customer", {"c_custkey": 0}, "c_mktsegment = 'BUILDING'"),
        Relation("orders", {"o_custkey": 0, "o_orderkey": 1}, "o_orderdate < DATE '1995-03-15'"),
        Relation("lineitem", {"l_orderkey": 1}, "l_shipdate > DATE '1995-03-15'"),
    ),
    "part-partsupp-supplier-nation": (
        Relation("part", {"p_partkey": 0}),
        Relation("partsupp", {"ps_partkey": 0, "ps_suppkey": 1}),
        Relation("supplier", {"s_suppkey": 1, "s_nationkey": 2}),
        Relation("nation", {"n_nationkey": 2}),
    ),
    "lineitem-lineitem on part": (
        Relation("lineitem", {"l_partkey": 0}),
        Relation("lineitem", {"l_partkey": 0}),
    ),
    "star: lineitem-part-supplier-orders": (
        Relation("lineitem", {"l_partkey": 0, "l_suppkey": 1, "l_orderkey": 2}),
        Relation("part", {"p_partkey": 0}),
        Relation("supplier", {"s_suppkey": 1}),
        Relation("orders", {"o_orderkey": 2}),
    ),
}


@dataclass(frozen=True)
class Grouped:
    """A relation as its distinct keys (uint64, edges x n) and their counts; distinct values of each key."""

    keys: np.ndarray
    counts: np.ndarray
    links: tuple[int, ...]
    distinct: tuple[int, ...]


class Query:
    """A query over grouped relations, with the statistics that a plan would have."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, relations: tuple[Relation, ...]) -> None:
        self.relations = [_grouped(connection, relation) for relation in relations]
        number = 1 + max(link for relation in relations for link in relation.keys.values())
        self.join_size, self.joined_values = _statistics(connection, relations, number)

    def rates(self, words: int) -> tuple[float, ...]:
        """Return the rates of the links for samples of so many words per relation."""
        sizes = [
            RelationSize(
                len(relation.counts),
                capacity_of(words, len(relation.links)),
                relation.links,
                relation.distinct,
            )
            for relation in self.relations
        ]
        return sampling_rates(sizes, self.joined_values, self.join_size)

    def read(self, rates: tuple[float, ...], words: int, seed: int) -> SampleReading:
        """Return the reading from such samples."""
        return sample_join([self._sampled(relation, rates, words, seed) for relation in self.relations])

    def _sampled(self, relation: Grouped, rates: tuple[float, ...], words: int, seed: int) -> SampledRelation:
        own = [rates[link] for link in relation.links]
        spec = KeySampleSpec.sized(
            words,
            [derive_seed(seed, "link", link) for link in relation.links],
            derive_seed(seed, "cells"),
            rates=own,
            elements=len(relation.counts) * float(np.prod(own)),
        )
        counters = np.zeros(spec.words, dtype=np.int64)
        spec.accumulate(counters, relation.keys, relation.counts)
        return SampledRelation(spec.decode(counters), relation.links)


def _grouped(connection: duckdb.DuckDBPyConnection, relation: Relation) -> Grouped:
    keys = ", ".join(relation.keys)
    found = connection.sql(
        f"SELECT {keys}, count(*) AS n FROM {relation.table} WHERE {relation.predicate} GROUP BY {keys}"
    ).fetchnumpy()
    columns = [np.asarray(found[key], dtype=np.int64) for key in relation.keys]
    return Grouped(
        key_array(*columns),
        np.asarray(found["n"], np.int64),
        tuple(relation.keys.values()),
        tuple(len(np.unique(column)) for column in columns),
    )


def _statistics(
    connection: duckdb.DuckDBPyConnection, relations: tuple[Relation, ...], number: int
) -> tuple[int, list[int]]:
    """Return the join size, and the number of joined values of each link."""
    places = [
        [f"r{i}.{key}" for i, r in enumerate(relations) for key, e in r.keys.items() if e == link]
        for link in range(number)
    ]
    tables = ", ".join(f"(SELECT * FROM {r.table} WHERE {r.predicate}) r{i}" for i, r in enumerate(relations))
    equal = " AND ".join(f"{place[0]} = {other}" for place in places for other in place[1:])
    counts = ", ".join(f"count(DISTINCT {place[0]})" for place in places)
    found = connection.sql(f"SELECT count(*), {counts} FROM {tables} WHERE {equal}").fetchall()[0]
    return found[0], list(found[1:])


def measure(folder: Path, seeds: int) -> list[dict[str, str | float]]:
    """Return one line per query and budget."""
    lines = []
    with duckdb.connect() as connection:
        for path in folder.glob("*.parquet"):
            connection.sql(f"CREATE VIEW {path.stem} AS SELECT * FROM '{path}'")
        for name, relations in QUERIES.items():
            query = Query(connection, relations)
            for words in BUDGETS:
                lines.append(_line(name, query, words, seeds))
                print(lines[-1], flush=True)
    return lines


def _line(name: str, query: Query, words: int, seeds: int) -> dict[str, str | float]:
    rates = query.rates(words)
    readings = [query.read(rates, words, seed) for seed in range(seeds)]
    errors = np.array([abs(reading.value - query.join_size) for reading in readings])
    deviations = np.sqrt([reading.variance for reading in readings])
    heard = np.isfinite(deviations)
    covered = errors[heard] <= 1.96 * deviations[heard]
    figures = (
        round(float(errors.mean()) / query.join_size, 4),
        round(1 - float(heard.mean()), 3),
        round(float(covered.mean()), 3),
        round(float(np.median(deviations)) / query.join_size, 4),
        int(np.median([reading.witnesses for reading in readings])),
    )
    return dict(zip(COLUMNS, (name, words, seeds, query.join_size, *figures), strict=True))


def plot(lines: list[dict[str, str | float]]) -> None:
    """Draw the mean relative error of each query over the words per relation."""
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for name in QUERIES:
        own = [line for line in lines if line["query"] == name]
        words, errors = ([float(line[column]) for line in own] for column in ("words", "mean_error"))
        axes.plot(words, errors, marker="o", label=name)
    axes.set(xscale="log", yscale="log", xlabel="words per relation", ylabel="mean relative error")
    axes.legend(frameon=False)
    figure.savefig(PLOT)


def main() -> None:
    """Make the data, measure, write and plot."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--scale", default="0.1")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command = Path(sys.executable).with_name("tpchgen-cli")
        subprocess.run([command, "parquet", "-s", arguments.scale, f"--output-dir={folder}"], check=True)
        lines = measure(Path(folder), arguments.seeds)
    with DATA.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    plot(lines)


if __name__ == "__main__":
    main()
