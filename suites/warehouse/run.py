"""Queries of TPC-H, TPC-DS and the Star Schema Benchmark, unchanged: which are answered, how well, why not others.

    python suites/warehouse/run.py [--benchmarks ssb,tpch,tpcds] [--scale 1] [--budgets 8MB,64MB] [--queries 1.1,2.1]

Each query is a workload of its own. A query of our class is planned; for any other, all columns that it names are
explored, and `state.sql` computes the rest. TPC-H has refresh pairs: a thousandth of the orders, with their line items,
is inserted, and another one deleted. Exact answers are DuckDB's, for the same text without its last ORDER BY and LIMIT.
Writes results.csv next to this script and prints a table.
"""

import argparse
import csv
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import sqlglot
from sqlglot import exp

import eddyline as el

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
from comparing import Row, compared, unlimited

from data import Benchmark, benchmark

HERE = Path(__file__).parent
FIELDS = (
    "benchmark", "scale", "query", "budget", "form", "shown", "rows", "exact", "error", "worst", "held", "width",
    "bytes", "fed_seconds", "seconds", "note",
)  # fmt: skip
REFRESHED = {"orders": "o_orderkey", "lineitem": "l_orderkey"}
PAIRS = 10
BATCH = 1_000_000


def parsed(text: str) -> exp.Expression:
    """Return a query as a tree."""
    return sqlglot.parse_one(text, dialect="duckdb")


def columns_of(bench: Benchmark, text: str) -> dict[str, set[str]]:
    """Return the names that a query mentions, for each of its tables."""
    tree = parsed(text)
    names = {node.name.lower() for node in tree.find_all(exp.Column)}
    names |= {node.name.lower() for node in tree.find_all(exp.Identifier)}
    return {table: names for table in bench.tables if any(t.name == table for t in tree.find_all(exp.Table))}


def planned(bench: Benchmark, text: str, budget: str) -> tuple[el.Plan, str]:
    """Return (plan of a query, "planned" or "explored"); raise EddylineError where neither answers it."""
    used = columns_of(bench, text)
    for form in ("planned", "explored"):
        made = el.Workload(budget=budget, seed=1)
        for table, names in used.items():
            made.stream(table, bench.declared(table, names, set(used)))
        try:
            if form == "planned":
                made.query("q", text)
            else:
                for table in used:
                    made.explore(table)
            plan = made.plan()
            plan.empty().sql(text)
        except el.EddylineError:
            if form == "explored":
                raise
        else:
            return plan, form
    raise AssertionError


def changes(bench: Benchmark, table: str, columns: list[str]) -> Iterator[tuple[pa.Table, int]]:
    """Yield batches of a table with the weight of their rows: all rows, or the refresh pairs last."""
    chosen = ", ".join(columns)
    steps = [("true", 1)]
    if bench.name == "tpch" and table in REFRESHED:
        part = f"hash({REFRESHED[table]}) % 1000"
        steps = [(f"{part} >= {PAIRS}", 1)]
        for pair in range(PAIRS):
            steps += [(f"{part} = {pair}", 1), (f"{part} = {PAIRS + pair}", -1)]
    with duckdb.connect(config={"threads": 1}) as connection:
        for where, weight in steps:
            rows = connection.sql(f"SELECT {chosen} FROM '{bench.tables[table]}' WHERE {where}")
            for batch in rows.to_arrow_reader(BATCH):
                yield pa.Table.from_batches([batch]), weight


def exact_rows(bench: Benchmark, text: str) -> list[tuple[object, ...]]:
    """Return the exact answer over the net rows."""
    with duckdb.connect(config={"threads": 2}) as connection:
        for table, path in bench.tables.items():
            net = ""
            if bench.name == "tpch" and table in REFRESHED:
                net = f" WHERE hash({REFRESHED[table]}) % 1000 NOT BETWEEN {PAIRS} AND {2 * PAIRS - 1}"
            connection.execute(f"CREATE VIEW {table} AS SELECT * FROM '{path}'{net}")
        return connection.execute(unlimited(text)).fetchall()


def measure(bench: Benchmark, name: str, budget: str) -> Row:
    """Return what one query has at one budget."""
    text = bench.queries[name]
    try:
        plan, form = planned(bench, text, budget)
        state = plan.empty()
        started = time.process_time()
        for table, names in columns_of(bench, text).items():
            columns = [field.name for field in bench.columns(table, names)]
            for batch, weight in changes(bench, table, columns):
                state.update(table, batch, weights=np.full(batch.num_rows, weight))
        fed = time.process_time() - started
        started = time.perf_counter()
        result = state.sql(text)
    except el.EddylineError as error:
        return {"form": "refused", "note": " ".join(str(error).split())}
    seconds = time.perf_counter() - started
    found = compared(result, exact_rows(bench, text))
    return {
        "form": form,
        **found,
        "bytes": state.nbytes,
        "fed_seconds": round(fed, 1),
        "seconds": round(seconds, 3),
    }


def row_of(line: Row) -> str:
    """Return a line of the table in the docs."""
    start = f"| {line['benchmark']} | {line['query']} | {line['budget'].replace('MB', ' MB')} |"
    if line["form"] == "refused":
        return f"{start} refused: {line['note']} | | | | |"
    held = "" if line["held"] == "" else f"{line['held']:.0%}"
    error = "exact" if line["exact"] else "" if line["error"] == "" else f"{line['error']:.2%}"
    note = f" ({line['note']})" if line["note"] else ""
    shown = f"{line['shown']} of {line['rows']:,}{note}"
    return f"{start} {line['form']} | {shown} | {error} | {held} | {line['seconds']:.2f} s |"


def main(arguments: list[str] | None = None) -> None:
    """Measure, write and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--benchmarks", default="ssb,tpch,tpcds")
    parser.add_argument("--scale", default="1")
    parser.add_argument("--budgets", default="8MB,64MB")
    parser.add_argument("--queries", help="some queries, by name")
    parser.add_argument("--into", type=Path, default=HERE)
    options = parser.parse_args(arguments)
    lines = []
    for each in options.benchmarks.split(","):
        bench = benchmark(each, options.scale)
        for name in options.queries.split(",") if options.queries else bench.queries:
            for budget in options.budgets.split(","):
                head = {"benchmark": each, "scale": options.scale, "query": name, "budget": budget}
                lines.append(head | measure(bench, name, budget))
                print(row_of(lines[-1]), flush=True)
                if lines[-1]["form"] == "refused":
                    break
            with (options.into / "results.csv").open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, FIELDS, restval="", lineterminator="\n")
                writer.writeheader()
                writer.writerows(lines)
    print(json.dumps(summary_of(lines)))


def summary_of(lines: list[Row]) -> dict[str, str]:
    """Return, for each benchmark and budget, how many queries are answered and how many exactly."""
    found = {}
    for key in dict.fromkeys((line["benchmark"], line["budget"]) for line in lines):
        mine = [line for line in lines if (line["benchmark"], line["budget"]) == key]
        answered = [line for line in mine if line["form"] != "refused"]
        exact = sum(bool(line["exact"]) for line in answered)
        found[" ".join(key)] = f"{len(answered)} answered, {exact} exactly"
    return found


if __name__ == "__main__":
    main()
