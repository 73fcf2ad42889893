"""Tables of figures/sample_reading.py: error, coverage and width of each reading of a stream sample.

    python figures/sample_reading_report.py [choose|judge|...]

A query cell is a data set, an order, a budget and a query, over drawings and seeds; a group is all queries of a data
set, an order and a budget. Width: the median half-width over the 95th percentile of the error of a query cell. Cells
that are exact in nearly all seeds (95th percentile of the relative error below 1e-6) count for coverage only.
"""

import csv
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from math import isfinite
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent / "data"
SMALL = 1e-6
Line = dict[str, str]


def kind_of(line: Line) -> str:
    """Return what a line is an answer of."""
    if line["function"] == "set":
        return "set"
    if line["function"] not in ("count", "sum"):
        return line["function"]
    return "two-way" if line["relations"] == "2" else "multi"


def cell(lines: Iterable[Line]) -> tuple[float, float, float, int]:
    """Return (mean relative error, coverage, width, seeds) of a query cell."""
    errors, held, halves = [], [], []
    for line in lines:
        exact, value, low, high = (float(line[name]) for name in ("exact", "value", "low", "high"))
        if not isfinite(value) or not exact:
            continue
        size = abs(exact)
        errors.append(abs(value - exact) / size)
        held.append(low - SMALL * size <= exact <= high + SMALL * size)
        halves.append((high - low) / 2 / size)
    if not errors:
        return np.nan, np.nan, np.nan, 0
    largest = float(np.quantile(errors, 0.95))
    width = float(np.median(halves)) / largest if largest > SMALL else np.nan
    return float(np.mean(errors)), float(np.mean(held)), width, len(errors)


def table(lines: list[Line], name: str, of: Callable[[Line], str]) -> None:
    """Print a row for each reading and each value of a property of lines."""
    print(f"\n| reading | {name} | queries x cells | error | coverage | groups in 93-99.5% | below 93% | least group | "
          "cells below 88% | width: median | above 4 |")  # fmt: skip
    print("| --- " * 11 + "|")
    for reading in ("plain", "calibrated", "residual"):
        for value in sorted({of(line) for line in lines if line["reading"] == reading}):
            mine = [line for line in lines if line["reading"] == reading and of(line) == value]
            print(f"| {reading} | {value} | {summary(mine)} |")


def summary(lines: list[Line]) -> str:
    """Return one row: see `table`."""
    cells, groups = defaultdict(list), defaultdict(list)
    for line in lines:
        group = (line["dataset"], line["order"], line["budget_fraction"])
        cells[*group, line["query"]].append(line)
    found = {key: cell(mine) for key, mine in cells.items()}
    found = {key: each for key, each in found.items() if each[3]}
    for key, each in found.items():
        groups[key[:3]].append(each)
    shares = np.array([np.average([e[1] for e in g], weights=[e[3] for e in g]) for g in groups.values()])
    errors, covered, widths, _ = (np.array(column) for column in zip(*found.values(), strict=True))
    return " | ".join(
        [
            str(len(found)),
            f"{np.exp(np.log(np.maximum(errors, 1e-5)).mean()):.4f}",
            f"{shares.mean():.3f}",
            f"{((shares >= 0.93) & (shares <= 0.995)).mean():.2f}",
            f"{(shares < 0.93).mean():.2f}",
            f"{shares.min():.3f}",
            f"{(covered < 0.88).mean():.3f}",
            f"{np.nanmedian(widths):.2f}",
            f"{np.mean(widths > 4):.3f}",
        ]
    )


def main() -> None:
    """Print the tables of a data file."""
    into = sys.argv[1] if len(sys.argv) > 1 else "choose"
    with (FOLDER / f"sample_reading_{into}.csv").open() as file:
        lines = list(csv.DictReader(file))
    table(lines, "all", lambda _: "all")
    table(lines, "kind", kind_of)
    table(lines, "budget", lambda line: line["budget_fraction"])
    table(lines, "order", lambda line: line["order"])
    table(lines, "data", lambda line: line["dataset"])


if __name__ == "__main__":
    main()
