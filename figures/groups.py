"""Groups of a sampled join: error and coverage by memory, skew and size of the group, compared with stratified samples.

Two joins of 10^5 rows a stream, GROUP BY a column of one side with 300 values, groups of Zipf sizes:

    foreign key     orders (a row for each key) and items (a Zipf number for each order), grouped by a column of orders
    many to many    keys with Zipf frequencies on both sides, grouped by a column of one

    ours            SELECT o.g, COUNT(*), SUM(i.x), AVG(i.x) ... GROUP BY o.g, at a share of the bytes that exact
                    dictionaries take; rows in the order of time, a fifth of them deleted again
    stratified      as BlinkDB keeps them: of each group at most n *joined* rows, chosen at random, each standing
                    for as many as the group has over those kept. It is drawn after the join was computed, knows every
                    group's exact size, has only rows that stay, and takes 16 bytes a row: all in its favour, and
                    nothing that a stream could do. Its intervals are Student's.

    python figures/groups.py [--seeds 20] [--redraw]

writes data/groups.csv (one line for each join, skew, share of bytes, method and class of group sizes) and
plots/groups.svg.
"""

import argparse
import csv
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import matplotlib as mpl
import numpy as np
import pyarrow as pa
from scipy import stats

import eddyline as el

mpl.use("svg")
from matplotlib import pyplot as plt

FOLDER = Path(__file__).parent
DATA, PLOT = FOLDER / "data" / "groups.csv", FOLDER / "plots" / "groups.svg"
ROWS, GROUPS, DELETED = 100_000, 300, 0.2
JOINS, SKEWS, SHARES = ("foreign key", "many to many"), (0.5, 1.0, 1.5), (1 / 50, 1 / 20, 1 / 8)
SIZES = {"above 2%": 0.02, "0.5% to 2%": 0.005, "0.1% to 0.5%": 0.001, "below 0.1%": 0.0}
"""Classes of groups by their share of the joined rows, at least."""
AGGREGATES = ("n", "total", "mean")
TEXT = (
    "SELECT o.g, COUNT(*) AS n, SUM(i.x) AS total, AVG(i.x) AS mean FROM o JOIN i ON o.k = i.k GROUP BY o.g"
)
BYTES_OF_ROW = 16
SCHEMAS = {"o": "k BIGINT, g BIGINT", "i": "k BIGINT, x BIGINT"}
Tables = dict[str, pa.Table]
Shown = dict[tuple[object, ...], dict[str, tuple[float, float, float]]]
"""Estimate, low and high of each aggregate of each group."""


@dataclass(frozen=True)
class Line:
    """What groups of one class have, over all seeds."""

    join: str
    skew: float
    share: float
    method: str
    size: str
    groups: int
    shown: float
    error: float
    coverage: float
    together: float


def zipf(rng: np.random.Generator, exponent: float, values: int, rows: int) -> np.ndarray:
    """Return values with Zipf frequencies, numbered at random."""
    ends = np.cumsum(np.arange(1, values + 1) ** -exponent)
    return rng.permutation(values)[np.searchsorted(ends, rng.random(rows) * ends[-1])]


def drawn(join: str, skew: float, seed: int) -> Tables:
    """Return the rows of both streams, those that are deleted again among them: column `stays`."""
    rng = np.random.default_rng([seed, int(10 * skew), JOINS.index(join)])
    if join == "foreign key":
        keys = {"o": rng.permutation(ROWS), "i": zipf(rng, 0.6, ROWS, ROWS)}
    else:
        keys = {name: zipf(rng, 0.8, ROWS // 4, ROWS) for name in "oi"}
    columns = {
        "o": {"g": zipf(rng, skew, GROUPS, ROWS)},
        "i": {"x": rng.lognormal(3, 1, ROWS).astype(np.int64)},
    }
    return {
        name: pa.table({"k": keys[name]} | columns[name] | {"stays": rng.random(ROWS) >= DELETED})
        for name in "oi"
    }


def net(tables: Tables) -> Tables:
    """Return the rows that stay."""
    return {name: table.filter(table["stays"]).drop_columns("stays") for name, table in tables.items()}


def exact_answer(text: str, tables: Tables) -> dict[tuple[object, ...], dict[str, float]]:
    """Return DuckDB's answer, by group."""
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        found = connection.sql(text).to_arrow_table()
    names = [name for name in found.column_names if name in (*AGGREGATES, "late")]
    keys = [name for name in found.column_names if name not in names]
    return {
        tuple(row[key] for key in keys): {name: float(row[name]) for name in names}
        for row in found.to_pylist()
    }


def fed(budget: int | str, tables: Tables, schemas: dict[str, str], text: str, seed: int) -> el.State:
    """Return the state of a query after all inserts, in ten batches, and the deletes of each two batches later."""
    workload = el.Workload(budget=budget, seed=seed)
    for name, schema in schemas.items():
        workload.stream(name, schema)
    state, steps = workload.query("q", text).plan().empty(), 10
    for step in range(steps + 2):
        for name, table in tables.items():
            size = -(-table.num_rows // steps)
            rows = table.slice(step * size, size)
            state.update(name, rows.drop_columns("stays"))
            if step >= 2:
                old = table.slice((step - 2) * size, size)
                gone = old.filter(pa.compute.invert(old["stays"])).drop_columns("stays")
                state.update(name, gone, weights=np.full(gone.num_rows, -1))
    return state


def printed(groups: el.Groups) -> Shown:
    """Return the numbers of a table of groups."""
    return {
        tuple(row[name] for name in groups.group_columns): {
            name: (float(row[name]), float(row[f"{name}_low"]), float(row[f"{name}_high"]))
            for name in groups.aggregates
            if row[name] is not None
        }
        for row in groups
    }


def stratified(tables: Tables, size: int, seed: int) -> Shown:
    """Return the estimates of a sample of joined rows, stratified by group, of a given number of bytes."""
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        joined = connection.sql("SELECT o.g, i.x FROM o JOIN i ON o.k = i.k").to_arrow_table()
    groups, values = (joined[name].to_numpy() for name in ("g", "x"))
    order = np.lexsort((np.random.default_rng([seed, 1]).random(len(groups)), groups))
    groups, values = groups[order], values[order]
    names, starts, counts = np.unique(groups, return_index=True, return_counts=True)
    most = most_of_each(counts, size // BYTES_OF_ROW)
    made: Shown = {}
    for name, start, count in zip(names.tolist(), starts, counts.tolist(), strict=True):
        kept = values[start : start + most].astype(np.float64)
        taken = len(kept)
        error = 0.0
        if taken < count:
            spread = kept.std(ddof=1) if taken > 1 else np.inf
            error = stats.t.ppf(0.975, max(taken - 1, 1)) * spread * np.sqrt((1 - taken / count) / taken)
        mean = kept.mean()
        made[(name,)] = {
            "n": (count, count, count),
            "total": (count * mean, count * (mean - error), count * (mean + error)),
            "mean": (mean, mean - error, mean + error),
        }
    return made


def most_of_each(counts: np.ndarray, rows: int) -> int:
    """Return how many rows of each group fit in a number of rows in all."""
    low, high = 1, max(int(counts.max()), 1)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if np.minimum(counts, middle).sum() <= rows else (low, middle - 1)
    return low


class Tally:
    """Errors and held intervals, by class of groups and by seed."""

    def __init__(self) -> None:
        self.errors: dict[str, list[float]] = defaultdict(list)
        self.held: dict[str, list[bool]] = defaultdict(list)
        self.shown: dict[str, list[bool]] = defaultdict(list)
        self.together: list[bool] = []

    def take(
        self, truth: dict[tuple[object, ...], dict[str, float]], shown: Shown, everything: Shown
    ) -> None:
        """Add one seed; everything: the same groups with intervals that are meant to hold together."""
        rows = sum(each["n"] for each in truth.values())
        for group, right in truth.items():
            size = next(name for name, least in SIZES.items() if right["n"] >= least * rows)
            self.shown[size].append(group in shown)
            for name, (value, low, high) in shown.get(group, {}).items():
                self.errors[size].append(abs(value - right[name]) / max(abs(right[name]), 1.0))
                self.held[size].append(holds(right[name], low, high))
        self.together.append(
            all(
                holds(truth[group][name], low, high)
                for group, numbers in everything.items()
                if group in truth
                for name, (_, low, high) in numbers.items()
            )
        )


def holds(right: float, low: float, high: float) -> bool:
    """Return whether an interval holds a number, but for rounding."""
    slack = 1e-9 * max(abs(right), 1.0)
    return low - slack <= right <= high + slack


def measure(join: str, skew: float, share: float, seeds: int) -> Iterator[Line]:
    """Yield the lines of one setting."""
    tallies = {"ours": Tally(), "stratified": Tally()}
    for seed in range(seeds):
        tables = drawn(join, skew, seed)
        truth = exact_answer(TEXT, net(tables))
        held = fed(1 << 30, tables, SCHEMAS, TEXT, seed).nbytes
        budget = int(share * held)
        state = fed(budget, tables, SCHEMAS, TEXT, seed)
        wide = printed(state.answer("q", simultaneous=True))
        tallies["ours"].take(truth, printed(state.answer("q")), wide)
        sample = stratified(net(tables), budget, seed)
        tallies["stratified"].take(truth, sample, sample)
    for method, tally in tallies.items():
        for size in SIZES:
            if tally.shown[size]:
                yield Line(
                    join, skew, round(share, 4), method, size, len(tally.shown[size]),
                    float(np.mean(tally.shown[size])),
                    float(np.mean(tally.errors[size])) if tally.errors[size] else float("nan"),
                    float(np.mean(tally.held[size])) if tally.held[size] else float("nan"),
                    float(np.mean(tally.together)),
                )  # fmt: skip


def write(path: Path, lines: Iterable[dict[str, object]]) -> list[dict[str, object]]:
    """Write lines to a file as they come, and return them."""
    written = []
    with path.open("w", newline="") as file:
        for line in lines:
            writer = csv.DictWriter(file, list(line), lineterminator="\n")
            if not written:
                writer.writeheader()
            writer.writerow(line)
            written.append(line)
            print(*line.values(), sep="  ", flush=True)
    return written


def summary(lines: list[dict[str, str]]) -> str:
    """Return the table of docs/reference/accuracy.md: all skews together, for each share of the bytes."""
    made = []
    for join in JOINS:
        for size in SIZES:
            mine = [line for line in lines if (line["join"], line["size"]) == (join, size)]
            (ours, errors, held), (_, others, theirs) = (
                _by_share([line for line in mine if line["method"] == method])
                for method in ("ours", "stratified")
            )
            cells = [
                _joined(ours, 100),
                _joined(errors),
                _joined(held, 100),
                _joined(others),
                _joined(theirs, 100),
            ]
            made.append(f"| {join}, {size} | {' | '.join(cells)} |")
    together = [float(line["together"]) for line in lines if line["method"] == "ours"]
    least = min(
        float(line["coverage"]) for line in lines if line["method"] == "ours" and float(line["shown"])
    )
    made.append(
        f"tables hold together in {min(together):.0%} to {max(together):.0%}; the least of single cells {least:.1%}"
    )
    return "\n".join(made)


def _by_share(lines: list[dict[str, str]]) -> tuple[list[float], list[float], list[float]]:
    """Return (share shown, error, coverage) for each share of the bytes, skews weighted by the groups they show."""
    found: tuple[list[float], list[float], list[float]] = ([], [], [])
    for share in sorted({float(line["share"]) for line in lines}):
        mine = [line for line in lines if float(line["share"]) == share]
        groups = np.array([float(line["groups"]) for line in mine])
        shown = groups * [float(line["shown"]) for line in mine]
        found[0].append(float(shown.sum() / groups.sum()))
        for place, name in ((1, "error"), (2, "coverage")):
            numbers = np.array([float(line[name]) for line in mine])[shown > 0]
            found[place].append(
                float(np.average(numbers, weights=shown[shown > 0])) if len(numbers) else np.nan
            )
    return found


def _joined(numbers: list[float], times: int = 1) -> str:
    """Return numbers as the table has them: percents as they are, errors with two digits."""
    return " / ".join(f"{times * each:.0f}" if times > 1 else f"{each:.2g}".lstrip("0") for each in numbers)


def draw(lines: list[dict[str, str]]) -> None:
    """Draw the error by share of bytes, a panel for each join and skew, a line for each method and class of sizes."""
    figure, panels = plt.subplots(
        len(JOINS), len(SKEWS), figsize=(12, 7), sharex=True, sharey=True, layout="constrained"
    )
    for (join, skew), panel in zip(((j, s) for j in JOINS for s in SKEWS), panels.flat, strict=True):
        for number, size in enumerate(SIZES):
            for method, style in (("ours", "-"), ("stratified", "--")):
                points = [
                    (float(line["share"]), float(line["error"]))
                    for line in lines
                    if (line["join"], float(line["skew"]), line["method"], line["size"])
                    == (join, skew, method, size)
                ]
                if points:
                    shares, errors = zip(*points, strict=True)
                    label = f"{method}, {size}"
                    panel.plot(shares, errors, style, color=f"C{number}", marker=".", label=label)
        panel.set(title=f"{join}, group sizes Zipf {skew:g}", xscale="log", yscale="log")
    figure.supxlabel("bytes, as a share of those of exact dictionaries")
    figure.supylabel("mean relative error of COUNT, SUM and AVG")
    panels.flat[0].legend(fontsize=6)
    figure.savefig(PLOT, metadata={"Date": None})


def main() -> None:
    """Measure, write and draw."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--redraw", action="store_true", help="the plot from the data file, no runs")
    options = parser.parse_args()
    if not options.redraw:
        settings = ((join, skew, share) for join in JOINS for skew in SKEWS for share in SHARES)
        write(DATA, (vars(line) for setting in settings for line in measure(*setting, options.seeds)))
    with DATA.open() as file:
        lines = list(csv.DictReader(file))
    print(summary(lines))
    draw(lines)


if __name__ == "__main__":
    main()
