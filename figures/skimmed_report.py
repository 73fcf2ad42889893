"""The table and the plot of figures/skimmed.py, from its data file.

python figures/skimmed_report.py prints and draws again without measuring.
"""

import csv
from collections.abc import Iterable
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("svg")
from matplotlib import pyplot as plt

PLOT = Path(__file__).parent / "plots" / "skimmed.svg"
METHODS = {
    "agms": "0.6",
    "hash": "tab:blue",
    "skimmed-paper": "tab:orange",
    "ours, scan": "tab:green",
    "ours, table": "tab:red",
    "ours, in all": "tab:purple",
}
GRID_SHIFTS, MAIN_BUDGET = {0, 50, 100, 300}, 2000
Line = dict[str, str]


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.mean(np.log(list(values)))))


def chosen(lines: list[Line], method: str, words: int) -> list[Line]:
    """Return the lines of a method and a budget on the grid of 16 settings."""
    return [
        line
        for line in lines
        if line["method"] == method and int(line["words"]) == words and int(line["shift"]) in GRID_SHIFTS
    ]


def print_summary(lines: list[Line]) -> None:
    """Print error, coverage and width of the interval for every method and budget."""
    print(
        "words  method         error (geometric mean)  coverage (worst)  interval / error p95 (median, worst)"
    )
    for words in sorted({int(line["words"]) for line in lines}):
        for method in METHODS:
            grid = chosen(lines, method, words)
            if not grid:
                continue
            error = geometric_mean(float(line["mean_error"]) for line in grid)
            coverage = [float(line["coverage"]) for line in grid]
            widths = [float(line["median_half_width"]) / float(line["error_p95"]) for line in grid]
            runs = f"{len(grid)} settings, {grid[0]['seeds']} seeds"
            print(
                f"{words:5}  {method:14} {error:12.4f} {np.mean(coverage):21.3f} ({min(coverage):.2f})"
                f" {np.median(widths):17.2f} ({max(widths):.2f})   {runs}"
            )


def draw(lines: list[Line]) -> None:
    """Draw error by memory over the grid, and error by shift at the main budget."""
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "skimmed", "font.size": 8})
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    budgets = sorted({int(line["words"]) for line in lines})
    for method, colour in METHODS.items():
        grids = [(words, chosen(lines, method, words)) for words in budgets]
        points = [
            (words, geometric_mean(float(line["mean_error"]) for line in grid))
            for words, grid in grids
            if grid
        ]
        if not points:
            continue
        axes[0].loglog(*zip(*points, strict=True), "o-", ms=3, color=colour, label=method)
        for axis, exponent in zip(axes[1:], ("1.0", "1.5"), strict=True):
            by_shift = sorted(
                (int(line["shift"]), float(line["mean_error"]))
                for line in lines
                if line["method"] == method
                and int(line["words"]) == MAIN_BUDGET
                and line["exponent"] == exponent
            )
            axis.semilogy(*zip(*by_shift, strict=True), "o-", ms=3, color=colour)
            axis.set(xlabel="shift", title=f"z = {exponent}, {MAIN_BUDGET:,} words per stream")
    axes[0].set(
        xlabel="words per stream", ylabel="mean relative error", title="geometric mean of 16 settings"
    )
    axes[0].legend(frameon=False)
    PLOT.parent.mkdir(exist_ok=True)
    figure.savefig(PLOT, metadata={"Date": None})


def report(data: Path) -> None:
    """Print the summary of a data file and draw its plot."""
    with data.open() as file:
        lines = list(csv.DictReader(file))
    print_summary(lines)
    draw(lines)


if __name__ == "__main__":
    report(Path(__file__).parent / "data" / "skimmed.csv")
