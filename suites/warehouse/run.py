"""Queries of TPC-H, TPC-DS and the Star Schema Benchmark, unchanged: which are answered, how well, why not others.

    python suites/warehouse/run.py [--benchmarks ssb,tpch,tpcds] [--scale 1] [--budgets 8MB,64MB] [--queries 1.1,2.1]

Each query is a workload of its own. A query of our class is planned; for any other, all columns that it names are
explored, and `state.sql` computes the rest. TPC-H has refresh pairs: a thousandth of the orders, with their line items,
is inserted, and another one deleted. Exact answers are DuckDB's, for the same text without its last ORDER BY and LIMIT.
Lines in results.csv next to this script are replaced or added. `--table` only prints the tables of
docs/reference/warehouse.md from that file.
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
        started = time.process_time()
        result = state.sql(text)
    except el.EddylineError as error:
        return {"form": "refused", "note": " ".join(str(error).split())}
    seconds = time.process_time() - started
    found = compared(result, exact_rows(bench, text))
    return {
        "form": form,
        **found,
        "bytes": state.nbytes,
        "fed_seconds": round(fed, 1),
        "seconds": round(seconds, 3),
    }


def asked(bench: Benchmark, name: str, budgets: list[str]) -> list[Row]:
    """Return a line for each budget; one without a budget for a query that is refused at all of them."""
    found = [measure(bench, name, budget) | {"budget": budget} for budget in budgets]
    return found if any(line["form"] != "refused" for line in found) else [found[-1] | {"budget": ""}]


def row_of(line: Row) -> str:
    """Return a line of the table in the docs, from a line of the file or of a run."""
    line = {field: str(line.get(field, "")) for field in FIELDS}
    if line["form"] == "refused":
        note = line["note"].replace("|", r"\|")
        return f"| {line['query']} | {line['budget'].replace('MB', ' MB')} | refused: {note} | | | | | |"

    def percent(field: str, digits: int) -> str:
        value = line[field]
        return "" if value == "" else "unbounded" if float(value) == np.inf else f"{float(value):.{digits}%}"

    start = f"| {line['query']} | {line['budget'].replace('MB', ' MB')} | {line['form']} |"
    note = f" ({line['note']})" if line["note"] else ""
    shown = f"{int(line['shown']):,} of {int(line['rows']):,}{note}"
    error, held, width = percent("error", 2), percent("held", 0), percent("width", 1)
    if line["exact"] == "True":
        error, held, width = "exact", "", ""
    return f"{start} {shown} | {error} | {held} | {width} | {float(line['seconds']):.2f} |"


def read(path: Path) -> dict[tuple[str, ...], Row]:
    """Return the lines of a file of results by benchmark, scale, query and budget."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8") as file:
        return {key_of(line): line for line in csv.DictReader(file)}


def key_of(line: Row) -> tuple[str, ...]:
    """Return what a line is about."""
    return tuple(str(line[field]) for field in ("benchmark", "scale", "query", "budget"))


def table(lines: list[Row], name: str) -> str:
    """Return the table of a benchmark in the docs."""
    head = "| query | budget | form | rows shown | error | held | half-width | CPU s |\n" + "| --- " * 8 + "|"
    return "\n".join([head, *(row_of(line) for line in lines if line["benchmark"] == name)])


def write(path: Path, lines: list[Row]) -> None:
    """Write the file of results."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


def main(arguments: list[str] | None = None) -> None:
    """Measure, write and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--benchmarks", default="tpch,ssb,tpcds")
    parser.add_argument("--scale", default="1")
    parser.add_argument("--budgets", default="8MB,64MB")
    parser.add_argument("--queries", help="some queries, by name")
    parser.add_argument("--into", type=Path, default=HERE)
    parser.add_argument("--table", action="store_true", help="only print the tables of the file")
    options = parser.parse_args(arguments)
    path = options.into / "results.csv"
    found = read(path)
    if options.table:
        for each in dict.fromkeys(line["benchmark"] for line in found.values()):
            print(table(list(found.values()), each) + "\n")
        print("\n".join(f"{key}: {text}" for key, text in summary_of(list(found.values())).items()))
        return
    for each in options.benchmarks.split(","):
        bench = benchmark(each, options.scale)
        for name in options.queries.split(",") if options.queries else bench.queries:
            for line in asked(bench, name, options.budgets.split(",")):
                head = {"benchmark": each, "scale": options.scale, "query": name}
                found[key_of(head | line)] = head | line
                print(row_of(head | line), flush=True)
            write(path, list(found.values()))
    print(json.dumps(summary_of(list(found.values()))))


def summary_of(lines: list[Row]) -> dict[str, str]:
    """Return, for each benchmark and budget, how many queries are answered and how many exactly."""
    found = {}
    answered = [line for line in lines if line["form"] != "refused"]
    for key in dict.fromkeys((line["benchmark"], line["budget"]) for line in answered):
        mine = [line for line in answered if (line["benchmark"], line["budget"]) == key]
        exact = sum(str(line["exact"]) == "True" for line in mine)
        found[" ".join(key)] = f"{len(mine)} answered, {exact} exactly"
    return found


if __name__ == "__main__":
    main()
