"""The table and the plot of figures/partitioning.py, from its data file.

python figures/partitioning_report.py prints and draws again without measuring.
"""

import csv
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
from matplotlib import pyplot as plt

PLOT = Path(__file__).parent / "plots" / "partitioning.svg"
COLOURS = {"25": "tab:blue", "50": "tab:orange", "100": "tab:green", "values": "0.5"}
STYLES = {"histogram": "o-", "measured": "s:"}
SETTINGS = ("aligned", "reranked", "one join")
SKETCHES = {
    "agms, exact": "standard error",
    "agms": "mean relative error",
    "hash": "mean relative error",
}
Line = dict[str, str]


def curve(
    lines: list[Line], setting: str, sketch: str, histogram: str, shared: str
) -> list[tuple[int, float]]:
    """Return (partitions, mean error), beginning with one partition, which needs no histogram."""
    return sorted(
        (int(line["partitions"]), float(line["mean_error"]))
        for line in lines
        if (line["setting"], line["sketch"], line["shared_out_by"]) == (setting, sketch, shared)
        and line["histogram"] in (histogram, "none")
    )


def print_summary(lines: list[Line]) -> None:
    """Print the mean error by number of partitions, a line for each curve."""
    counts = sorted({int(line["partitions"]) for line in lines})
    print(f"{'setting':10}{'sketch':12}{'histogram':10}{'shared by':10}" + "".join(f"{n:8}" for n in counts))
    for setting in SETTINGS:
        for sketch in SKETCHES:
            for histogram in COLOURS:
                for shared in STYLES:
                    points = curve(lines, setting, sketch, histogram, shared)
                    errors = "".join(f"{error:8.3f}" for _, error in points)
                    print(f"{setting:10}{sketch:12}{histogram:10}{shared:10}{errors}")


def draw(lines: list[Line]) -> None:
    """Draw the error by number of partitions: a row of panels for each sketch, a column for each setting."""
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "partitioning", "font.size": 8})
    figure, axes = plt.subplots(3, 3, figsize=(11, 8.2), layout="constrained", sharey="col")
    for row, (sketch, unit) in enumerate(SKETCHES.items()):
        for column, setting in enumerate(SETTINGS):
            axis = axes[row][column]
            for histogram, colour in COLOURS.items():
                for shared, style in STYLES.items():
                    points = curve(lines, setting, sketch, histogram, shared)
                    label = f"{histogram}, {shared}"
                    axis.plot(*zip(*points, strict=True), style, ms=3, color=colour, label=label)
            axis.set(title=f"{setting}, {sketch}", xlabel="partitions", ylabel=unit)
    for axis in axes[0]:
        axis.set_ylim(bottom=0)
    axes[0][0].legend(frameon=False, title="buckets, space by", fontsize=7)
    PLOT.parent.mkdir(exist_ok=True)
    figure.savefig(PLOT, metadata={"Date": None})


def report(data: Path) -> None:
    """Print the summary of a data file and draw its plot."""
    with data.open() as file:
        lines = list(csv.DictReader(file))
    if {line["setting"] for line in lines} >= set(SETTINGS):
        print_summary(lines)
        draw(lines)


if __name__ == "__main__":
    report(Path(__file__).parent / "data" / "partitioning.csv")
