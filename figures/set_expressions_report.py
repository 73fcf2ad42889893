"""Rows, plot and summary of figures/set_expressions.py."""

import csv
from collections import defaultdict
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("svg")
import matplotlib.pyplot as plt

plt.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "eddyline"})
HERE = Path(__file__).parent
FIG4 = ("A n B", "A - B", "(A - B) n C")
SKETCHES = (64, 128, 256, 512)
SHARES = (1 / 2, 1 / 8, 1 / 32, 1 / 128)
KEY = ("part", "expression", "method", "sketches", "union", "share")
MEASURES = ("bytes", "seeds", "mean_error", "trimmed_error", "rms", "bias", "coverage")
THETA, COMPRESSED = "theta", "theta (compressed)"
DOCUMENT, COPIES = "document (time-efficient)", "document (copies)"

Row = dict[str, Any]


class Errors:
    """Relative errors of all methods, collected over seeds, and their summary."""

    def __init__(self) -> None:
        self.seen: dict[tuple[Any, ...], list[tuple[float, float, bool | None]]] = defaultdict(list)

    def add(
        self,
        key: tuple[Any, ...],
        size: float,
        value: float | None,
        truth: float,
        covered: bool | None = None,
    ) -> None:
        """Note one answer of the method `key` (as KEY names it) that took `size` bytes."""
        self.seen[key].append(((value or 0.0) / truth - 1, size, covered))

    def rows(self) -> Iterator[Row]:
        """Yield one row of the data file for each method and setting."""
        for key, seen in self.seen.items():
            errors = np.array([error for error, _, _ in seen])
            sizes = np.sort(np.abs(errors))
            covered = [hit for _, _, hit in seen if hit is not None]
            measures = (
                float(np.mean([size for _, size, _ in seen])),
                len(seen),
                float(sizes.mean()),
                float(sizes[: max(1, int(0.7 * len(sizes)))].mean()),
                float(np.sqrt(np.mean(errors**2))),
                float(errors.mean()),
                float(np.mean(covered)) if covered else "",
            )
            yield dict(zip((*KEY, *MEASURES), (*key, *measures), strict=True))


def write_data(rows: list[Row]) -> None:
    """Write the data file."""
    path = HERE / "data" / "set_expressions.csv"
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, (*KEY, *MEASURES))
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.5g}" if isinstance(v, float) else v for k, v in row.items()})


def read_data() -> list[Row]:
    """Return the rows of the data file."""
    with (HERE / "data" / "set_expressions.csv").open(newline="") as file:
        rows: list[Row] = list(csv.DictReader(file))
    for row in rows:
        row.update({name: int(row[name]) for name in ("sketches", "union", "seeds")})
        row.update(
            {name: float(row[name]) for name in ("share", *MEASURES) if name != "seeds" and row[name] != ""}
        )
    return rows


def chosen(rows: list[Row], **wanted: object) -> list[Row]:
    """Return the rows that have these values."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def draw_fig4(axis: Any, rows: list[Row], expression: str) -> None:
    """Draw one panel of FIG. 4."""
    for share, colour in zip(SHARES, ("C0", "C1", "C2"), strict=False):
        for method, style in ((COPIES, ":"), (DOCUMENT, "--"), ("ours (words)", "-")):
            mine = chosen(rows, part="fig4", expression=expression, method=method, share=share)
            errors = [100 * row["mean_error"] for row in mine]
            label = f"{method}, E/U = 1/{round(1 / share)}"
            axis.plot(SKETCHES[: len(errors)], errors, style, color=colour, marker="o", ms=3, label=label)
    axis.set(title=f"|{expression}|", xlabel="sketches of the document (ours: same bytes)")
    axis.set(yscale="log", xscale="log")
    axis.set_xticks(SKETCHES, [str(n) for n in SKETCHES])
    axis.minorticks_off()


def draw(rows: list[Row]) -> None:
    """Draw the three panels of FIG. 4, then equal bytes, then deletes."""
    figure, axes = plt.subplots(1, 5, figsize=(20, 4))
    for axis, expression in zip(axes, FIG4, strict=False):
        draw_fig4(axis, rows, expression)
    axes[0].set_ylabel("mean relative error, %")
    axes[0].legend(fontsize=6)
    for method in dict.fromkeys(row["method"] for row in chosen(rows, part="bytes")):
        mine = chosen(rows, part="bytes", method=method)
        mine = chosen(mine, sketches=max(row["sketches"] for row in mine))
        label = f"{method}, {mine[0]['bytes'] / 1024:.0f} KiB"
        axes[3].plot(
            [r["share"] for r in mine], [100 * r["rms"] for r in mine], marker="o", ms=3, label=label
        )
    for expression in FIG4:
        for part, style in (("target", "-"), ("deletes", "x")):
            mine = chosen(rows, part=part, expression=expression)
            label = f"|{expression}|" + (", half deleted again" if part == "deletes" else "")
            axes[4].plot([r["share"] for r in mine], [100 * r["rms"] for r in mine], style, label=label)
    for axis, title in ((axes[3], "|A n B|, union 10^6"), (axes[4], "ours at 194 KiB, union 2^18")):
        axis.set(title=title, xlabel="E/U", xscale="log", yscale="log", ylabel="RMS error, %")
        axis.legend(fontsize=6)
    figure.tight_layout()
    (HERE / "plots").mkdir(exist_ok=True)
    figure.savefig(HERE / "plots" / "set_expressions.svg", metadata={"Date": None})


def ratio(one: float, other: float) -> float:
    """Return one over the other; a few seeds may have no error at all."""
    return one / other if other else inf


def print_ratios(rows: list[Row]) -> None:
    """Print how our RMS error compares with theta's, scaled to our bytes, and with the document's."""
    for share in SHARES:
        same = chosen(rows, part="bytes", share=share)
        paper = chosen(same, method=DOCUMENT)[0]
        thetas = [chosen(same, method=name, sketches=1 << 15)[0] for name in (THETA, COMPRESSED)]
        for mine in (row for row in same if row["method"].startswith("ours")):
            scaled = [ratio(mine["rms"], t["rms"] * (t["bytes"] / mine["bytes"]) ** 0.5) for t in thetas]
            print(
                f"E/U 1/{1 / share:<4.0f}{mine['method']:15}{mine['bytes'] / 1024:5.0f} KiB: "
                f"{scaled[0]:5.2f} x theta, {scaled[1]:5.2f} x compressed theta at equal bytes; "
                f"document/ours {ratio(paper['rms'], mine['rms']):4.0f}"
            )
    for expression in FIG4:
        for share in SHARES[:3]:
            same = chosen(rows, part="fig4", expression=expression, share=share)
            paper, mine = chosen(same, method=DOCUMENT), chosen(same, method="ours (words)")
            found = [f"{ratio(p['rms'], m['rms']):.0f}" for p, m in zip(paper, mine, strict=True)]
            print(f"{expression:12} E/U 1/{1 / share:<4.0f} document/ours at 64-512: {', '.join(found)}")


def print_rows(rows: list[Row]) -> None:
    """Print the table."""
    for row in rows:
        cover = f"{100 * row['coverage']:5.1f}% covered" if row["coverage"] != "" else ""
        print(
            f"{row['part']:9}{row['expression']:14}{row['method']:27}{row['sketches']:6}"
            f"{row['bytes'] / 1024:7.0f} KiB  1/{1 / row['share']:<4.0f}mean {100 * row['mean_error']:6.2f}%"
            f"  trimmed {100 * row['trimmed_error']:6.2f}%  rms {100 * row['rms']:6.2f}%"
            f"  bias {100 * row['bias']:+6.2f}%  {cover}"
        )
