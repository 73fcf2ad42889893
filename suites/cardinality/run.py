"""Q-errors of multi-join COUNTs: the product next to samples, sketches and the planners of databases.

    python suites/cardinality/run.py [--databases lahman,flights,tpcds] [--budgets 1MB,4MB] [--queries 42] [--only NAME]

draws the queries of each family, asks every method, writes results.csv (a line for each answer) and summary.csv next
to this script, and prints tables. Lines of other databases stay. `--share 0.01` takes the first rows of every table.
"""

import argparse
import contextlib
import csv
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psycopg

sys.path.insert(0, str(Path(__file__).parents[2]))
from methods import METHODS, Result, postgres_planner
from queries import FAMILIES, Count, draw
from tests.spark.postgres_server import server

from data import Database, database

FOLDER = Path(__file__).parent
SEED = 20
SIZES = {"MB": 1 << 20, "KB": 1 << 10}
WITHOUT_BUDGET = ("DuckDB planner", "PostgreSQL planner")
FIELDS = (
    "database",
    "family",
    "query",
    "relations",
    "exact",
    "selectivity",
    "method",
    "budget",
    "value",
    "low",
    "high",
    "seconds",
)


def q_error(value: float, exact: float) -> float:
    """Return how far a value is off, as a factor of at least 1; values below 1 count as 1."""
    value = max(value, 1.0)
    return max(value / exact, exact / value)


def lines_of(data: Database, queries: list[Count], method: str, budget: str, result: Result) -> list[dict]:
    """Return a line for each answer."""
    return [
        {
            "database": data.name,
            "family": query.name.split("_")[0],
            "query": query.name,
            "relations": len(query.tables),
            "exact": f"{query.exact:.17g}",
            "selectivity": f"{query.exact / query.full:.3g}",
            "method": method,
            "budget": budget,
            "value": f"{result.answers[query.name].value:.17g}",
            "low": f"{result.answers[query.name].low:.17g}",
            "high": f"{result.answers[query.name].high:.17g}",
            "seconds": f"{result.answers[query.name].seconds:.4f}",
        }
        for query in queries
        if query.name in result.answers
    ]


def summary_of(lines: list[dict], result: Result) -> dict:
    """Return the percentiles of one method on one database at one budget."""
    exact, value, low, high, seconds = (
        np.array([float(line[name]) for line in lines])
        for name in ("exact", "value", "low", "high", "seconds")
    )
    errors = [q_error(v, e) for v, e in zip(value, exact, strict=True)]
    with_interval = not np.isnan(low).all()
    held = (low <= exact * (1 + 1e-9)) & (exact <= high * (1 + 1e-9))
    width = (high - low) / 2 / np.maximum(exact, 1)
    return {
        **{name: lines[0][name] for name in ("database", "method", "budget")},
        "queries": len(lines),
        **{f"q{p}": f"{np.percentile(errors, p):.3g}" for p in (50, 90, 95, 99)},
        "max": f"{max(errors):.3g}",
        "coverage": f"{held.mean():.0%}" if with_interval else "",
        "half_width": f"{np.median(width):.2%}" if with_interval else "",
        "mb": "" if np.isnan(result.bytes) else f"{result.bytes / (1 << 20):.2f}",
        "build_s": "" if np.isnan(result.build) else f"{result.build:.1f}",
        "answer_ms": f"{1000 * np.median(seconds):.1f}",
    }


def row_of(summary: dict) -> str:
    """Return a line of the table in the docs."""

    def factor(text: str) -> str:
        value = float(text)
        if value >= 1e5:
            return f"{value:.0e}".replace("e+0", "e").replace("e+", "e")
        return f"{value:,.0f}" if value >= 1000 else f"{value:g}"

    cells = [summary["method"], summary["budget"].replace("MB", " MB")]
    cells += [factor(summary[name]) for name in ("q50", "q90", "q95", "q99", "max")]
    cells += [summary["coverage"], summary["half_width"], summary["mb"]]
    cells += [
        f"{summary['build_s']} s" if summary["build_s"] else "",
        f"{float(summary['answer_ms']):,.0f} ms",
    ]
    return "| " + " | ".join(cells) + " |"


def measure(
    data: Database, queries: list[Count], options: argparse.Namespace
) -> tuple[list[dict], list[dict]]:
    """Return (lines, summaries) of all methods on a database."""
    lines, summaries = [], []

    def add(method: str, budget: str, result: Result) -> None:
        own = lines_of(data, queries, method, budget, result)
        lines.extend(own)
        summaries.append(summary_of(own, result))
        print("| " + " | ".join(map(str, summaries[-1].values())) + " |", flush=True)

    wanted = options.only.split(",") if options.only else [*METHODS, "PostgreSQL planner"]
    for method in wanted:
        if method == "PostgreSQL planner":
            with tempfile.TemporaryDirectory() as folder, _server(folder) as where:
                add(method, "", postgres_planner(lambda where=where: psycopg.connect(where), data, queries))
            continue
        for budget in [""] if method in WITHOUT_BUDGET else options.budgets.split(","):
            size = int(budget[:-2]) * SIZES[budget[-2:]] if budget else 0
            add(method, budget, METHODS[method](data, queries, size))
    return lines, summaries


def _server(folder: str) -> contextlib.AbstractContextManager[str]:
    path = Path(folder) / "pg"
    path.mkdir()
    return server(path)


def main(arguments: list[str] | None = None) -> None:
    """Draw, measure, write and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--databases", default="lahman,flights,tpcds")
    parser.add_argument("--budgets", default="1MB,4MB")
    parser.add_argument("--queries", type=int, default=42, help="of each database, all families together")
    parser.add_argument("--only", help="some methods")
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--into", type=Path, default=FOLDER)
    parser.add_argument("--table", action="store_true", help="only print the tables of the file")
    options = parser.parse_args(arguments)
    if options.table:
        for summary in _others(options.into / "summary.csv", []):
            print(f"{summary['database']}: {row_of(summary)}")
        return
    chosen = options.databases.split(",")
    every, totals = (_others(options.into / file, chosen) for file in ("results.csv", "summary.csv"))
    for name in chosen:
        start = time.perf_counter()
        data = database(name, options.share)
        queries = [
            q for family in FAMILIES for q in draw(data, family, options.queries // len(FAMILIES), SEED)
        ]
        rows = sum(table.num_rows for table in data.tables.values())
        low = min(q.exact / q.full for q in queries)
        print(f"{name}: {rows:,} rows, {len(queries)} queries, selectivities from {low:.1e}", flush=True)
        lines, summaries = measure(data, queries, options)
        every += lines
        totals += summaries
        print(f"{name}: {time.perf_counter() - start:.0f} s in all", flush=True)
        _write(options.into / "results.csv", every, FIELDS)
        _write(options.into / "summary.csv", totals, tuple(totals[0]))


def _others(path: Path, chosen: list[str]) -> list[dict]:
    """Return the lines of a file about other databases, which stay."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8") as file:
        return [line for line in csv.DictReader(file) if line["database"] not in chosen]


def _write(path: Path, rows: list[dict], fields: tuple[str, ...]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fields, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
