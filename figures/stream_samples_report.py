"""The tables of figures/stream_samples.py, from its data files.

    python figures/stream_samples_report.py [--files before,after] [--part judge] [--by dataset,order,budget,kind]

prints markdown tables. The first has for each group of cells and each method:

    answers      how many there are; refused budgets and queries without an answer are listed below the table
    exact        share of the answers that differ from the exact one by less than the file resolves (1e-5)
    geometric    geometric mean of the relative error: errors below 1e-5 count as 1e-5, errors above 100 as 100
    rms          root of the mean squared relative error, within the same bounds
    coverage     share of the intervals that hold the exact answer; least: of the query with the least
    width        half-width (median over seeds) over the 95th percentile of the error: median and largest query
    expected     share of the queries whose expected error is within a factor of two of 1.96 times the measured rms

A query here is one of a data set, order and budget, over all its seeds. Widths and expected errors are those of queries
with --least-seeds seeds or more; with ten or less the 95th percentile is close to the largest error, and widths low. An
interval without bounds covers everything: read coverage together with widths.

The other tables compare methods: the ratio of geometric mean errors for each kind of query, over the drawings to
which both methods answer. A method that refuses small budgets is compared only where it answers.
"""

import argparse
import csv
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import inf, isfinite, nan
from pathlib import Path

import numpy as np
from bank import DATASETS

FOLDER = Path(__file__).parent / "data"
LEAST_ERROR, MOST_ERROR = 1e-5, 100.0
"""Bounds of what counts as an error. Numbers in the files have six digits."""
Line = dict[str, str]
Place = tuple[str, str, str, str]
"""Data set, order, budget, query."""


@dataclass(frozen=True)
class Answers:
    """What a method answered to a query of a data set, order and budget, relative to the exact answer, by seed."""

    kind: str
    seeds: list[str]
    error: np.ndarray
    half_width: np.ndarray
    covered: np.ndarray
    expected: np.ndarray

    @cached_property
    def clipped(self) -> np.ndarray:
        """The errors within what is counted."""
        return np.clip(self.error, LEAST_ERROR, MOST_ERROR)

    @property
    def p95(self) -> float:
        """The 95th percentile of the error."""
        return float(np.quantile(self.error, 0.95))

    def width(self, least_seeds: int) -> float:
        """Return the half-width over the 95th percentile of the error; nan if there are too few seeds or no errors."""
        if len(self.error) < least_seeds or np.isnan(self.half_width).all() or self.p95 < LEAST_ERROR:
            return nan
        return float(np.median(self.half_width)) / self.p95

    def expectation_holds(self, least_seeds: int) -> float:
        """Return whether the expected error, a half-width, is within a factor of two of 1.96 rms; nan if unknown."""
        if len(self.error) < least_seeds or np.isnan(self.expected).all():
            return nan
        measured = 1.96 * float(np.sqrt((self.clipped**2).mean()))
        expected = max(float(np.nanmedian(self.expected)), 1.96 * LEAST_ERROR)
        return float(measured / 2 <= expected <= 2 * measured)

    def log_errors(self, seeds: set[str]) -> list[float]:
        """Return the logarithms of the errors of some seeds."""
        return [
            float(np.log(each)) for each, seed in zip(self.clipped, self.seeds, strict=True) if seed in seeds
        ]


Measured = dict[str, dict[Place, Answers]]
"""By method."""


def read(files: list[str], part: str) -> tuple[list[Line], list[Line]]:
    """Return the answers and the refusals of a part."""
    answered, refused = [], []
    for name in files:
        with (FOLDER / f"stream_samples_{name}.csv").open() as file:
            for line in csv.DictReader(file):
                if part in ("all", DATASETS[line["dataset"]].part):
                    (refused if line["refused"] else answered).append(line)
    return answered, refused


def gathered(lines: list[Line]) -> Measured:
    """Return the answers by method and place."""
    found: dict[tuple[str, Place], list[Line]] = defaultdict(list)
    for line in lines:
        place = line["dataset"], line["order"], line["budget_fraction"], line["query"]
        if line["value"] and float(line["exact"]):
            found[line["method"], place].append(line)
    made: Measured = defaultdict(dict)
    for (method, place), own in found.items():
        made[method][place] = _answers(own)
    return made


def _answers(lines: list[Line]) -> Answers:
    exact, value, low, high, expected = (
        np.array([float(line[name] or nan) for line in lines])
        for name in ("exact", "value", "low", "high", "expected_error")
    )
    slack = LEAST_ERROR / 2 * np.abs(exact)
    with np.errstate(invalid="ignore"):
        half = np.where(np.isinf(low) | np.isinf(high), inf, (high - low) / 2 / np.abs(exact))
    covered = np.where(np.isnan(low), nan, (low - slack <= exact) & (exact <= high + slack))
    seeds = [line["seed"] for line in lines]
    return Answers(lines[0]["kind"], seeds, np.abs(value / exact - 1), half, covered, expected)


def groups(measured: Measured, by: list[str]) -> Iterator[tuple[tuple[str, ...], dict[str, list[Answers]]]]:
    """Yield (group, answers by method), in the order of the bank."""
    found: dict[tuple[str, ...], dict[str, list[Answers]]] = defaultdict(lambda: defaultdict(list))
    for method, places in measured.items():
        for (dataset, order, budget, _), own in places.items():
            about = {"dataset": dataset, "order": order, "budget": budget, "kind": own.kind}
            found[tuple(about[name] for name in by)][method].append(own)
    yield from sorted(found.items(), key=lambda each: [_rank(text) for text in each[0]])


def _rank(text: str) -> tuple[int, float, str]:
    if text in DATASETS:
        return 0, list(DATASETS).index(text), text
    if text[0].isdigit():
        top, _, bottom = text.partition("/")
        return 1, float(top) / float(bottom or 1), text
    return 2, 0.0, text


def summary(answers: list[Answers], least_seeds: int) -> list[str]:
    """Return the figures of a group."""
    errors = np.concatenate([own.clipped for own in answers])
    covered = [own.covered[~np.isnan(own.covered)] for own in answers]
    covered = [own for own in covered if len(own)]
    widths = [width for own in answers if not np.isnan(width := own.width(least_seeds))]
    held = [holds for own in answers if not np.isnan(holds := own.expectation_holds(least_seeds))]
    return [
        f"{len(errors)}",
        f"{(errors <= LEAST_ERROR).mean():.2f}",
        f"{np.exp(np.log(errors).mean()):.4f}",
        f"{np.sqrt((errors**2).mean()):.4f}",
        f"{np.concatenate(covered).mean():.3f}" if covered else "",
        f"{min(own.mean() for own in covered):.2f}" if covered else "",
        f"{_shown(np.median(widths))}, {_shown(max(widths))}" if widths else "",
        f"{np.mean(held):.2f}" if held else "",
    ]


def _shown(number: float) -> str:
    return f"{number:.2f}" if isfinite(number) and number < 1000 else "over 1000"


def print_table(head: list[str], rows: list[list[str]]) -> None:
    """Print a markdown table."""
    widths = [max(len(row[place]) for row in [head, *rows]) for place in range(len(head))]
    for row in (head, ["-" * width for width in widths], *rows):
        print("| " + " | ".join(f"{text:{width}}" for text, width in zip(row, widths, strict=True)) + " |")
    print()


def print_groups(measured: Measured, by: list[str], least_seeds: int) -> None:
    """Print the figures of every group and method."""
    rows = [
        [*group, method, *summary(answers, least_seeds)]
        for group, methods in groups(measured, by)
        for method, answers in methods.items()
    ]
    head = ["answers", "exact", "geometric", "rms", "coverage", "least", "width: median, most", "expected"]
    print_table([*by, "method", *head], rows)


def print_missing(lines: list[Line], refusals: list[Line]) -> None:
    """Print how many budgets a method refused, and how many queries it left without an answer."""
    refused = Counter((line["method"], line["budget_fraction"]) for line in refusals)
    silent = Counter((line["method"], line["budget_fraction"]) for line in lines if not line["value"])
    for method, budget in sorted({*refused, *silent}, key=lambda each: (each[0], _rank(each[1]))):
        cells, queries = refused[method, budget], silent[method, budget]
        print(f"- {method} at {budget}: {cells} cells refused, {queries} queries of others without an answer")
    print()


def print_ratios(measured: Measured, base: str) -> None:
    """Print the geometric mean of each method's error over that of the base, where both answer."""
    rows = []
    for method in measured:
        found: dict[tuple[str, str], list[float]] = defaultdict(list)
        for place in measured[method].keys() & measured[base].keys() if method != base else ():
            own, other = measured[method][place], measured[base][place]
            both = {*own.seeds} & {*other.seeds}
            if both:
                ratio = np.mean(own.log_errors(both)) - np.mean(other.log_errors(both))
                found[own.kind, place[2]].append(float(ratio))
        for (kind, budget), logs in sorted(found.items(), key=lambda each: (each[0][0], _rank(each[0][1]))):
            worst = f"{np.exp(max(logs)):.2f}"
            rows.append([kind, budget, method, f"{len(logs)}", f"{np.exp(np.mean(logs)):.3f}", worst])
    rows.sort(key=lambda row: (row[0], _rank(row[1])))
    print(f"error over that of {base}, geometric mean and largest over queries\n")
    print_table(["kind", "budget", "method", "queries", "ratio", "largest"], rows)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", default="before,after", help="data/stream_samples_<file>.csv, several")
    parser.add_argument("--part", default="all", choices=["choose", "judge", "all"])
    parser.add_argument("--by", default="budget,kind", help="of dataset, order, budget, kind")
    parser.add_argument(
        "--bases", default="before,before_statistics", help="methods that others are compared to"
    )
    parser.add_argument("--least-seeds", type=int, default=8, help="for widths and expected errors")
    options = parser.parse_args()
    lines, refusals = read(options.files.split(","), options.part)
    measured = gathered(lines)
    print_groups(measured, options.by.split(","), options.least_seeds)
    print_missing(lines, refusals)
    for base in options.bases.split(","):
        if base in measured:
            print_ratios(measured, base)


if __name__ == "__main__":
    main()
