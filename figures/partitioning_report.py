"""The table and the plot of figures/partitioning.py, from its data file.

python figures/partitioning_report.py prints and draws again without measuring.
"""

import csv
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
from matplotlib import pyplot as plt

PLOT = Path(__file__).parent / "plots" / "partitioning.svg"
COLOURS = {"25": "tab:blue", "100": "tab:green"}
STYLES = {"agms": "s:", "hash": "o-"}
SETTINGS = ("aligned", "reranked", "one join")
Line = dict[str, str]


def curve(
    lines: list[Line], setting: str, sketch: str, histogram: str, column: str
) -> list[tuple[int, float]]:
    """Return (parts, a column's value), beginning with one part, which needs no histogram."""
    return sorted(
        (int(line["partitions"]), float(line[column]))
        for line in lines
        if (line["setting"], line["sketch"]) == (setting, sketch) and line["histogram"] in (histogram, "none")
    )


def print_summary(lines: list[Line]) -> None:
    """Print mean errors, and how often 95% intervals held, by number of parts: a line for each curve."""
    counts = sorted({int(line["partitions"]) for line in lines})
    print(f"{'setting':10}{'method':8}{'buckets':9}{'shown':8}" + "".join(f"{n:8}" for n in counts))
    for setting in SETTINGS:
        for sketch in STYLES:
            for histogram in COLOURS:
                for name, column in (("error", "mean_error"), ("held", "held")):
                    points = curve(lines, setting, sketch, histogram, column)
                    shown = "".join(f"{value:8.3f}" for _, value in points)
                    print(f"{setting:10}{sketch:8}{histogram:9}{name:8}{shown}")
    runs = [int(line["runs"]) for line in lines]
    held = sum(float(line["held"]) * int(line["runs"]) for line in lines)
    print(f"95% intervals held in {held:.0f} of {sum(runs)} runs, {runs[0]} data sets")


def draw(lines: list[Line]) -> None:
    """Draw the error by number of parts, a panel for each setting."""
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "partitioning", "font.size": 8})
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained")
    for axis, setting in zip(axes, SETTINGS, strict=True):
        for sketch, style in STYLES.items():
            for histogram, colour in COLOURS.items():
                points = curve(lines, setting, sketch, histogram, "mean_error")
                axis.plot(
                    *zip(*points, strict=True),
                    style,
                    ms=3,
                    color=colour,
                    label=f"{sketch}, {histogram} buckets",
                )
        axis.set(title=setting, xlabel="parts", ylabel="mean relative error")
        axis.set_ylim(bottom=0)
    axes[0].legend(frameon=False, fontsize=7)
    PLOT.parent.mkdir(exist_ok=True)
    figure.savefig(PLOT, metadata={"Date": None})


def report(data: Path) -> None:
    """Print the summary of a data file and draw its plot."""
    with data.open() as file:
        lines = list(csv.DictReader(file))
    print_summary(lines)
    draw(lines)


if __name__ == "__main__":
    report(Path(__file__).parent / "data" / "partitioning.csv")
