"""Rows, plot and summary of figures/join_distinct.py."""

import csv
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("svg")
import matplotlib.pyplot as plt

plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "eddyline"})
HERE = Path(__file__).parent
KEY = ("shape", "form", "method", "size")
MEASURES = ("bytes", "seeds", "rms", "median_error", "bias", "coverage", "flagged")
FORMS = ("two-sided", "semi", "full")

Row = dict[str, Any]


class Errors:
    """Relative errors of all methods, collected over seeds, and their summary."""

    def __init__(self) -> None:
        self.seen: dict[tuple[Any, ...], list[tuple[float, float, float, float]]] = defaultdict(list)

    def add(
        self,
        key: tuple[Any, ...],
        size: float,
        value: float | None,
        truth: float,
        covered: float = np.nan,
        flagged: float = np.nan,
    ) -> None:
        """Note one answer of the method `key` (as KEY names it) that took `size` bytes for both streams."""
        self.seen[key].append(((value or 0.0) / truth - 1, size, float(covered), float(flagged)))

    def rows(self) -> Iterator[Row]:
        """Yield one row of the data file for each method and setting."""
        for key, seen in self.seen.items():
            errors, sizes, covered, flagged = np.array(seen).T
            measures = (
                float(sizes.mean()),
                len(errors),
                float(np.sqrt(np.mean(errors**2))),
                float(np.median(np.abs(errors))),
                float(errors.mean()),
                float(covered.mean()),
                float(flagged.mean()),
            )
            yield dict(zip((*KEY, *MEASURES), (*key, *measures), strict=True))


def write_data(name: str, rows: list[Row]) -> None:
    """Write a data file."""
    path = HERE / "data" / f"{name}.csv"
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, (*KEY, *MEASURES))
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.5g}" if isinstance(v, float) else v for k, v in row.items()})


def read_data(name: str) -> list[Row]:
    """Return the rows of a data file, none where it was not written yet."""
    path = HERE / "data" / f"{name}.csv"
    if not path.exists():
        return []
    with path.open(newline="") as file:
        rows: list[Row] = list(csv.DictReader(file))
    for row in rows:
        row.update({measure: float(row[measure]) for measure in ("size", *MEASURES)})
    return rows


def chosen(rows: list[Row], **wanted: object) -> list[Row]:
    """Return the rows that have these values."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def draw(ours: list[Row], small: list[Row]) -> None:
    """Draw error against bytes of the three forms, then ours and the document's on small streams."""
    figure, axes = plt.subplots(1, 5, figsize=(21, 4.2))
    shapes = list(dict.fromkeys(row["shape"] for row in ours or small))
    for axis, form in zip(axes, FORMS, strict=False):
        for shape in shapes:
            mine = chosen(ours, form=form, shape=shape)
            axis.plot(
                [r["bytes"] for r in mine], [100 * r["rms"] for r in mine], marker="o", ms=3, label=shape
            )
        axis.set(title=f"ours, {form}, 10^5 tuples a side")
    for index, shape in enumerate(shapes):
        for method, style in (("ours", "o-"), ("witness", "o--"), ("document", "o:"), ("each b", "x")):
            mine = chosen(small, form="two-sided", shape=shape, method=method)
            xs, ys = [r["bytes"] for r in mine], [100 * r["median_error"] for r in mine]
            axes[3].plot(xs, ys, style, color=f"C{index}", ms=3)
    axes[3].set(title="two-sided, 3,000 tuples: ours -, document :, better read --, each b x")
    axes[3].set_ylabel("median error, %")
    for form, mark in zip(FORMS, "osx", strict=True):
        mine = chosen(ours, form=form)
        axes[4].plot([r["bytes"] for r in mine], [100 * r["coverage"] for r in mine], mark, ms=4, label=form)
    axes[4].set(title="coverage of 95% intervals", xscale="log", ylabel="%", ylim=(70, 101))
    axes[4].axhline(95, color="grey", lw=0.5)
    for axis in axes[:4]:
        axis.set(xscale="log", yscale="log")
    for axis in axes:
        axis.set_xlabel("bytes of both streams")
    axes[0].set_ylabel("RMS error, %")
    axes[0].legend(fontsize=6)
    axes[4].legend(fontsize=6)
    figure.tight_layout()
    (HERE / "plots").mkdir(exist_ok=True)
    figure.savefig(HERE / "plots" / "join_distinct.svg", metadata={"Date": None})


def print_rows(ours: list[Row], small: list[Row]) -> None:
    """Print the tables."""
    for title, rows in (("10^5 tuples a side", ours), ("3,000 tuples a side", small)):
        print(title)
        for row in sorted(rows, key=lambda r: (FORMS.index(r["form"]), r["shape"], r["bytes"])):
            cover = f"{100 * row['coverage']:4.0f}% covered {100 * row['flagged']:4.0f}% flagged"
            print(
                f"{row['form']:10}{row['shape']:34}{row['method']:9}{row['bytes'] / 1e6:8.2f} MB"
                f"  rms {100 * row['rms']:7.1f}%  median {100 * row['median_error']:7.1f}%"
                f"  bias {100 * row['bias']:+7.1f}%  {cover if row['method'] == 'ours' else ''}"
            )
