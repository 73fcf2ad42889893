"""Joins, distinct counts and set expressions on the bank (figures/bank): answers of several methods at equal bytes.

A cell is a data set, an order of its changes, a budget (as a share of the bytes of exact dictionaries), a seed and a
method (figures/stream_samples_methods.py). Every seed draws data and hash functions again; the judging part has seeds
of its own, from 1,000 on. Changes arrive in twenty batches.

    python figures/stream_samples.py --part choose --methods samples,sketches --seeds 10 [--into after]

adds the answers to data/stream_samples_<into>.csv, one line for each query of a cell, and passes over cells that are
there already. figures/stream_samples_report.py summarizes them.
"""

import argparse
import csv
import os
import time
from collections.abc import Iterator
from fractions import Fraction
from math import isfinite
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from bank import DATASETS
from bank.dataset import ORDERS, Dataset
from bank.exact import exact_answers, exact_bytes
from bank.queries import kind_of, parsed, relations_of
from stream_samples_methods import METHODS, Answer, Answers, Cell

import eddyline as el

FOLDER = Path(__file__).parent / "data"
COLUMNS = (
    "dataset",
    "order",
    "budget_fraction",  # of the bytes of exact dictionaries
    "bytes",
    "seed",
    "method",
    "query",
    "kind",
    "relations",
    "exact",
    "value",
    "low",
    "high",
    "expected_error",  # half-width over the answer
    "seconds",  # of the cell: plan, all updates, all answers
    "refused",  # 1 where the method refuses the budget: then the cell has this one line, without a query
)
FRACTIONS = "1/50,1/20,1/8,1/3,1,1.2"
JUDGING_SEEDS = 1000
Done = set[tuple[str, ...]]
Line = dict[str, object]


def cells(dataset: Dataset, seed: int, options: argparse.Namespace, done: Done) -> Iterator[list[Line]]:
    """Yield the lines of each cell of a drawing that is not done."""
    drawing = seed + (JUDGING_SEEDS if dataset.part == "judge" else 0)
    wanted = [
        (dataset.name, order, fraction, str(drawing), method)
        for order in options.orders.split(",")
        for fraction in options.budgets.split(",")
        for method in options.methods.split(",")
    ]
    wanted = [each for each in wanted if each not in done]
    if not wanted:
        return
    data = dataset.drawn(drawing)
    whole = exact_bytes(data)
    for name, order, fraction, _, method in wanted:
        cell = Cell(data, order, int(whole * Fraction(fraction)), drawing)
        start = time.perf_counter()
        try:
            answers = METHODS[method](cell)
        except el.EddylineError:
            answers = None
        seconds = time.perf_counter() - start
        about = {"dataset": name, "order": order, "budget_fraction": fraction, "method": method}
        yield [about | line | {"seconds": f"{seconds:.2f}"} for line in lines(cell, answers)]


def lines(cell: Cell, answers: Answers | None) -> Iterator[Line]:
    """Yield a line for each query of a cell, or a single one without a query if the method refused (None)."""
    about: Line = {"bytes": cell.bytes, "seed": cell.seed}
    if answers is None:
        yield about | {"refused": 1}
        return
    exact = exact_answers(cell.data)
    for name, query in parsed(cell.data).items():
        found = answers.get(name, Answer(None))
        yield about | {
            "query": name,
            "kind": kind_of(query),
            "relations": relations_of(query),
            "exact": _short(exact[name], 10),
            "value": _short(found.value),
            "low": _short(found.low),
            "high": _short(found.high),
            "expected_error": _short(found.expected_error, 4),
        }


def _short(number: float | None, digits: int = 6) -> str:
    if number is None:
        return ""
    return f"{number:.{digits}g}" if isfinite(number) else str(float(number))


def done_in(path: Path) -> Done:
    """Return the cells that a data file has."""
    if not path.exists():
        return set()
    with path.open() as file:
        return {
            (line["dataset"], line["order"], line["budget_fraction"], line["seed"], line["method"])
            for line in csv.DictReader(file)
        }


def chosen(options: argparse.Namespace) -> list[Dataset]:
    """Return the data sets that are asked for."""
    parts = ("choose", "judge") if options.part == "all" else (options.part,)
    named = options.datasets.split(",")
    return [
        dataset
        for dataset in DATASETS.values()
        if dataset.part in parts and any(text in dataset.name for text in named)
    ]


def main() -> None:
    """Measure what is not in the data file yet."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", default="choose", choices=["choose", "judge", "all"])
    parser.add_argument("--methods", default="samples,sketches", help=f"of {', '.join(METHODS)}")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--orders", default="by_time", help=f"of {', '.join(ORDERS)}")
    parser.add_argument("--budgets", default=FRACTIONS, help="shares of the bytes of exact dictionaries")
    parser.add_argument("--datasets", default="", help="only those whose names hold one of these texts")
    parser.add_argument("--into", default="after", help="the file is data/stream_samples_<into>.csv")
    options = parser.parse_args()
    path = FOLDER / f"stream_samples_{options.into}.csv"
    done = done_in(path)
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not done:
            writer.writeheader()
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            for dataset in chosen(options):
                start = time.perf_counter()
                for cell in cells(dataset, seed, options, done):
                    writer.writerows(cell)
                    file.flush()
                print(f"seed {seed} {dataset.name}: {time.perf_counter() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
