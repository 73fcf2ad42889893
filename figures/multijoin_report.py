"""The tables, the claims and the plots of figures/multijoin.py, from its data files.

python figures/multijoin_report.py prints and draws again without measuring.
"""

import csv
from collections.abc import Iterator
from math import hypot
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

HERE = Path(__file__).parent
PLOT, TPCH_PLOT = HERE / "plots" / "multijoin.svg", HERE / "plots" / "multijoin_tpch.svg"
METHODS = {"histogram": "tab:orange", "agms": "0.5", "hash": "tab:blue", "ours": "tab:red"}
LABELS = {
    "histogram": "equi-depth histograms",
    "agms": "AGMS",
    "hash": "hash sketch",
    "ours": "ours, skimmed",
}
ONE_ATTRIBUTE = "two relations, 1 attribute"
"""Its regions fill the domain evenly, so histograms are all but exact; the document does not show it."""
ZIPF_AIMS = {"Zipf 1.0, two joins": 3.0, "Zipf 1.5, two joins": 10.0}
AIMED_AT = 1280, 5120  # words for which the design has aims
TPCH_AIMS = {"Q3 chain": 0.2, "part-partsupp-supplier-nation": 0.12}
TPCH_WORDS = "20480"
LEAST_DRAWN = 0.003
NOISE = 3.0  # standard errors of a difference, for the worst of some 36
Line = dict[str, str]
Table = dict[tuple[str, int, str], Line]


def read(data: Path) -> list[Line]:
    """Return the lines of a data file."""
    with data.open() as file:
        return list(csv.DictReader(file))


def by_key(lines: list[Line]) -> Table:
    """Return the lines by setting, words and method."""
    return {(line["setting"], int(line["words"]), line["method"]): line for line in lines}


def error(table: Table, setting: str, words: int, method: str) -> float:
    """Return a mean relative error."""
    return float(table[setting, words, method]["mean_error"])


def cells(table: Table) -> Iterator[tuple[str, int]]:
    """Yield every setting and budget, in the order of the data file."""
    yield from dict.fromkeys((setting, words) for setting, words, _ in table)


def print_table(table: Table) -> None:
    """Print errors of all methods, and coverage and half-width of the intervals of hash sketches and ours."""
    head = "".join(f"{method:>11}" for method in METHODS)
    print(f"{'setting':29} words{head}   coverage and mean half-width: hash, ours")
    for setting, words in cells(table):
        errors = "".join(f"{error(table, setting, words, method):11.4f}" for method in METHODS)
        shown = [
            f"{float(line['coverage']):.2f} {float(line['mean_half_width']):.3f}"
            for line in (table[setting, words, method] for method in ("hash", "ours"))
        ]
        print(f"{setting:29} {words:5}{errors}   {',  '.join(shown)}")


def print_claims(table: Table) -> None:
    """Print whether what is said of sketches, and of ours, holds in the data."""
    _claim_histograms(table)
    _claim_never_worse(table)
    _claim_skew(table)


def _claim_histograms(table: Table) -> None:
    document = [cell for cell in cells(table) if "Zipf" not in cell[0] and cell[0] != ONE_ATTRIBUTE]
    for method in ("agms", "hash", "ours"):
        gains = [error(table, *cell, "histogram") / error(table, *cell, method) for cell in document]
        print(
            f"document's data without {ONE_ATTRIBUTE!r}: {LABELS[method]} {min(gains):.1f} to {max(gains):.1f} times "
            f"better than histograms, 3 or more in {sum(gain >= 3 for gain in gains)} of {len(gains)}"
        )


def _claim_never_worse(table: Table) -> None:
    worse = sorted(((_excess(table, *cell), cell) for cell in cells(table)), reverse=True)
    print(
        f"ours against AGMS at equal memory (worse by more than {NOISE:.0f} standard errors is beyond noise):"
    )
    for excess, cell in worse[:4]:
        ratio = error(table, *cell, "ours") / error(table, *cell, "agms")
        print(f"    {cell[0]}, {cell[1]} words: {ratio:.2f} times its error, {excess:+.1f} standard errors")
    print(f"    never worse beyond noise: {_verdict(worse[0][0] <= NOISE)}")


def _claim_skew(table: Table) -> None:
    for setting, aim in ZIPF_AIMS.items():
        if (setting, AIMED_AT[0]) in cells(table):
            gains = {
                of: error(table, setting, of, "agms") / error(table, setting, of, "ours") for of in AIMED_AT
            }
            shown = ", ".join(f"{gain:.1f} at {of}" for of, gain in gains.items())
            reached = _verdict(min(gains.values()) >= aim)
            print(f"{setting}: AGMS's error over ours is {shown} words; aim {aim:.0f}: {reached}")


def _excess(table: Table, setting: str, words: int) -> float:
    """Return how many standard errors ours is worse than AGMS."""
    ours, agms = table[setting, words, "ours"], table[setting, words, "agms"]
    noise = hypot(float(ours["standard_error"]), float(agms["standard_error"]))
    return (float(ours["mean_error"]) - float(agms["mean_error"])) / noise


def _verdict(holds: bool) -> str:
    return "reached" if holds else "MISSED"


def draw(table: Table) -> None:
    """Draw the error of every method against memory, a panel for each setting."""
    _style("multijoin")
    settings = list(dict.fromkeys(setting for setting, _ in cells(table)))
    figure, axes = plt.subplots(3, 3, figsize=(9.5, 8.5), sharey=True, layout="constrained")
    for setting, axis in zip(settings, axes.flat, strict=False):
        budgets = [words for name, words in cells(table) if name == setting]
        for method, colour in METHODS.items():
            errors = [error(table, setting, words, method) for words in budgets]
            axis.loglog(budgets, errors, "o-", ms=3, color=colour, label=LABELS[method])
        axis.set(title=setting, ylim=(LEAST_DRAWN, 12))
        axis.set_yticks([0.01, 0.1, 1, 10], ["0.01", "0.1", "1", "10"])
        if error(table, setting, budgets[0], "histogram") < LEAST_DRAWN:
            shown = "histograms: below 0.0001"
            axis.text(0.04, 0.04, shown, color=METHODS["histogram"], transform=axis.transAxes)
        _ticks(axis, budgets)
    for axis in axes[-1]:
        axis.set(xlabel="words per relation")
    for axis in axes[:, 0]:
        axis.set(ylabel="mean relative error")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False)
    figure.savefig(PLOT, metadata={"Date": None})


def _style(salt: str) -> None:
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": salt, "font.size": 8})


def _ticks(axis: Axes, budgets: list[int]) -> None:
    axis.set_xticks(budgets, [f"{words:,}" for words in budgets])
    axis.minorticks_off()
    axis.grid(visible=True, alpha=0.3)


def print_tpch(lines: list[Line]) -> None:
    """Print the answers of the product, and whether they reach the aims."""
    print(f"{'query':37} words  error  median   worst  coverage  half-width  methods")
    for line in lines:
        print(
            f"{line['query']:37} {line['words']:>5} {float(line['mean_error']):7.4f} "
            f"{float(line['median_error']):7.4f} {float(line['worst_error']):7.4f} {float(line['coverage']):6.2f} "
            f"{float(line['median_half_width']):11.4f}    {line['methods']}"
        )
    for prefix, aim in TPCH_AIMS.items():
        for line in lines:
            if line["query"].startswith(prefix) and line["words"] == TPCH_WORDS:
                reached = _verdict(float(line["mean_error"]) <= aim)
                print(f"{line['query']}, {TPCH_WORDS} words: {line['mean_error']}; aim {aim}: {reached}")


def draw_tpch(lines: list[Line]) -> None:
    """Draw the product's error against memory: counts solid, sums dashed."""
    _style("multijoin_tpch")
    figure, axis = plt.subplots(figsize=(6.5, 4.2), layout="constrained")
    queries = sorted({line["query"] for line in lines}, reverse=True)
    shapes = list(dict.fromkeys(query.split(",")[0] for query in queries))
    for query in queries:
        own = [line for line in lines if line["query"] == query]
        words, errors = [int(line["words"]) for line in own], [float(line["mean_error"]) for line in own]
        style = "o--" if query.endswith("SUM") else "o-"
        axis.loglog(words, errors, style, ms=3, color=f"C{shapes.index(query.split(',')[0])}", label=query)
        _ticks(axis, words)
    axis.set(xlabel="words per relation", ylabel="mean relative error")
    axis.set_yticks([0.01, 0.1, 1, 10], ["0.01", "0.1", "1", "10"])
    figure.legend(loc="outside right upper", frameon=False)
    figure.savefig(TPCH_PLOT, metadata={"Date": None})


def report(data: Path) -> None:
    """Print the tables and claims of the synthetic data and draw their plot."""
    table = by_key(read(data))
    print_table(table)
    print_claims(table)
    draw(table)


def report_tpch(data: Path) -> None:
    """Print the table of the TPC-H data and draw its plot."""
    lines = read(data)
    print_tpch(lines)
    draw_tpch(lines)


if __name__ == "__main__":
    report(HERE / "data" / "multijoin.csv")
    report_tpch(HERE / "data" / "multijoin_tpch.csv")
