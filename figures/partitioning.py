"""Sketch partitioning: the error of a join's size by the number of parts that are asked for, `partitions=K`.

The set-up of Figure 6 of the multi-join document: a chain of three relations over two attributes of 1,024 values, 9,000
words of sketch for the query, and parts from histograms of 25 or 100 buckets. Every plan is the product's own: an
analysis of the data, w.query(..., partitions=K), and the answer of a state that has all rows. Settings:

    aligned     the document's data: all relations crowd in the same regions, moved a little
    reranked    the same, but the relations share their tuples out over the regions in different orders
    one join    two relations over one attribute, reranked, 4,000 words; regions of 30 to 60 values

    python figures/partitioning.py [--data-sets 20] [--seeds 1]

writes data/partitioning.csv (one line per setting, method, histogram and number of parts) and plots/partitioning.svg. A
run is one data set and one seed of the sketches. "held" is the share of answers whose 95% interval held the exact one.
"""

import argparse
import csv
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from partitioning_report import report
from regions import JoinQuery, Space, binary, chain
from reproduce_lines import WORD, asked, filled, known_of, of_query

import eddyline as el

BUCKETS = (25, 100)
PARTITIONS = (1, 2, 4, 6)
METHODS = ("agms", "hash")
WORDS = {"aligned": 9000, "reranked": 9000, "one join": 4000}
TUPLES = 1_000_000
DATA = Path(__file__).parent / "data" / "partitioning.csv"


def query_of(setting: str, seed: int) -> JoinQuery:
    """Return one data set of a setting."""
    if setting == "one join":
        return binary(Space(1, volumes=(30, 60), tuples=TUPLES), seed, same_ranks=False)
    return chain(Space(2, tuples=TUPLES), 3, seed, same_ranks=setting == "aligned")


@dataclass(frozen=True)
class Key:
    """What a line of the data file is about; no buckets for one part."""

    setting: str
    sketch: str
    histogram: int | None
    partitions: int


Runs = dict[Key, list[tuple[float, float, bool]]]
"""For each key and run: the error, the gain that the plan expects, and whether the interval held the exact answer."""


def measure(runs: Runs, setting: str, data_set: int, seeds: int) -> None:
    """Note the errors of all ways to divide one data set, and of not dividing it."""
    streams, sql, truth = of_query(query_of(setting, data_set))
    known = known_of(streams, sql, BUCKETS)
    for most in PARTITIONS:
        for buckets in BUCKETS if most > 1 else (None,):
            for method in METHODS:
                for seed in range(1, seeds + 1):
                    made = asked(
                        streams,
                        sql,
                        WORDS[setting] * WORD,
                        100 * data_set + seed,
                        {"samples": False, "method": method},
                        most if most > 1 else "off",
                    )
                    plan = made.plan(statistics=known[buckets or BUCKETS[0]])
                    answer = filled(plan, streams).answer("q")
                    assert isinstance(answer, el.Estimate)
                    error = abs(float(answer.value or 0) / truth - 1)
                    held = float(answer.low) <= truth <= float(answer.high)  # type: ignore[arg-type]
                    gain = plan.layout.queries[0].decision.gain
                    runs.setdefault(Key(setting, method, buckets, most), []).append((error, gain, held))


def lines(runs: Runs) -> Iterator[dict[str, object]]:
    """Yield one line of the data file per key."""
    for key, found in runs.items():
        errors, gains, held = np.array(found, dtype=np.float64).T
        yield {
            "setting": key.setting,
            "sketch": key.sketch,
            "histogram": key.histogram or "none",
            "partitions": key.partitions,
            "runs": len(errors),
            "mean_error": f"{errors.mean():.6g}",
            "median_error": f"{np.median(errors):.6g}",
            "expected_gain": f"{np.exp(np.log(gains).mean()):.6g}",
            "held": f"{held.mean():.6g}",
        }


def main() -> None:
    """Measure, write the data file, and report on it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-sets", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=1, help="sketches of each data set")
    options = parser.parse_args()
    runs: Runs = {}
    for data_set in range(1, options.data_sets + 1):
        for setting in WORDS:
            measure(runs, setting, data_set, options.seeds)
        write(runs)
        print(f"measured {data_set} of {options.data_sets} data sets", flush=True)
    report(DATA)


def write(runs: Runs) -> None:
    """Write the data file: after every data set, so that an interrupted run leaves what it has."""
    found = list(lines(runs))
    with DATA.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(found[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)


if __name__ == "__main__":
    main()
