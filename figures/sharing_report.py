"""The tables and the plot of figures/sharing.py, from its data file.

The document plans by squared relative errors (W_Q / M_Q is one), so both are shown: the mean of the relative errors
over queries and seeds, and the mean of their squares, weighted as the workload weighs its queries.

python figures/sharing_report.py prints and draws again without measuring.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from math import sqrt
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("svg")
from matplotlib import pyplot as plt

HERE = Path(__file__).parent
PLOT = HERE / "plots" / "sharing.svg"
STYLES = {
    "shared": ("o-", "tab:blue"),
    "separate": ("s-", "tab:red"),
    "parts": ("^", "tab:green"),
    "uninformed": ("v", "tab:orange"),
}
Line = dict[str, str]


@dataclass(frozen=True)
class Point:
    """What a run comes to: over its queries and seeds, and the root mean square of its worst query."""

    data: str
    workload: str
    objective: str
    arrangement: str
    budget: int
    used: int
    seeds: int
    mean: float
    weighted_mean: float
    square: float
    expected_square: float
    largest: float
    expected_largest: float

    @property
    def case(self) -> tuple[str, str, str, int]:
        """What two arrangements must have in common to be compared."""
        return self.data, self.workload, self.objective, self.budget


def point(key: tuple[str, ...], lines: list[Line]) -> Point:
    """Return the point of the lines of one run."""
    weights, means, rms, expected = (
        np.array([float(line[column]) for line in lines])
        for column in ("weight", "mean_error", "rms_error", "expected_rms")
    )
    data, workload, objective, arrangement, budget = key
    return Point(
        data,
        workload,
        objective,
        arrangement,
        int(budget),
        int(lines[0]["bytes"]),
        int(lines[0]["seeds"]),
        float(means.mean()),
        float(np.average(means, weights=weights)),
        float(np.average(rms**2, weights=weights)),
        float(np.average(expected**2, weights=weights)),
        float((rms * np.sqrt(weights)).max()),
        float((expected * np.sqrt(weights)).max()),
    )


def points(lines: list[Line]) -> Iterator[Point]:
    """Yield the point of every run."""

    def key(line: Line) -> tuple[str, ...]:
        return line["data"], line["workload"], line["objective"], line["arrangement"], line["budget"]

    for found, own in groupby(lines, key):
        yield point(found, list(own))


def print_points(found: list[Point]) -> None:
    """Print every run, and what sharing gains against it."""
    shared = {each.case: each for each in found if each.arrangement == "shared"}
    print("data  workload objective  KB  arrangement  mean error  weighted rms (planned)  worst rms", end="")
    print("   shared gains: error  squared (planned)  worst   bytes  seeds")
    for each in sorted(found, key=lambda one: (*one.case, list(STYLES).index(one.arrangement))):
        best = shared[each.case]
        print(
            f"{each.data:5} {each.workload:>4}     {each.objective:8} {each.budget // 1000:5}  {each.arrangement:10}"
            f" {each.mean:10.4f} {sqrt(each.square):14.4f} ({sqrt(each.expected_square):7.4f})"
            f" {each.largest:10.4f} {each.mean / best.mean:19.2f} {each.square / best.square:9.2f}"
            f" ({each.expected_square / best.expected_square:6.2f}) {each.largest / best.largest:8.2f}"
            f" {each.used:9,} {each.seeds:4}"
        )


def print_largest(found: list[Point]) -> None:
    """Print the largest error at every memory size, planned for the average and for the largest."""
    print("largest root of weight times mean squared error, shared: by the plan, and measured")
    print(
        "workload  KB  planned for the average  for the largest   measured: average  largest  largest, not shared"
    )
    by_case = {(each.arrangement, *each.case): each for each in found}
    for each in sorted(found, key=lambda one: one.case):
        if (each.arrangement, each.objective) != ("shared", "largest"):
            continue
        average = by_case["shared", each.data, each.workload, "average", each.budget]
        apart = by_case["separate", *each.case]
        print(
            f"{each.workload:>8} {each.budget // 1000:3} {average.expected_largest:24.3f} {each.expected_largest:16.3f}"
            f" {average.largest:18.3f} {each.largest:8.3f} {apart.largest:20.3f}"
        )


def draw(found: list[Point]) -> None:
    """Draw the mean relative error over the memory, a panel for each data and workload."""
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "sharing", "font.size": 8})
    kinds = sorted({each.data for each in found}, reverse=True)
    figure, rows = plt.subplots(
        len(kinds), 3, figsize=(11, 3.2 * len(kinds)), layout="constrained", squeeze=False
    )
    for axes, data in zip(rows, kinds, strict=True):
        for axis, workload in zip(axes, "123", strict=True):
            for arrangement, (style, colour) in STYLES.items():
                own = sorted(
                    (each.budget / 1000, each.mean)
                    for each in found
                    if (each.data, each.workload, each.arrangement) == (data, workload, arrangement)
                    and each.objective == "average"
                )
                if own:
                    axis.loglog(*zip(*own, strict=True), style, ms=4, color=colour, label=arrangement)
            axis.set(xlabel="KB", title=f"{data}, workload {workload}")
        axes[0].legend(frameon=False)
        axes[0].set_ylabel("mean relative error")
    PLOT.parent.mkdir(exist_ok=True)
    figure.savefig(PLOT, metadata={"Date": None})


def report(data: Path) -> None:
    """Print the tables of a data file and draw its plot."""
    with data.open() as file:
        found = list(points(list(csv.DictReader(file))))
    print_points(found)
    print_largest(found)
    draw(found)


if __name__ == "__main__":
    report(HERE / "data" / "sharing.csv")
