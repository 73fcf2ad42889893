"""Standing queries over Nexmark with retractions, and over an order book, at several budgets, next to DuckDB.

    python suites/streams/run.py [--streams nexmark,orderbook] [--events 200000] [--budgets 64KB,256KB,1MB] [--seeds 8]

All queries of a stream that are accepted are one workload, with one budget; those with MIN or MAX are another one, so
that the others do not pay for them. The state takes all changes in the order of time, 50,000 at once. Exact answers are
DuckDB's over the net rows. Each budget runs with several seeds of the data and the state, for coverage. Writes a line
for each query and budget, a line for each state, and prints the tables of docs/reference/streams.md.
"""

import argparse
import csv
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa

import eddyline as el

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))
from comparing import Row, compared, unlimited

from data import STREAMS, Data, exact

HERE = Path(__file__).parent
BATCH = 50_000
FIELDS = (
    "stream", "query", "budget", "states", "exact_states", "shown", "rows", "first", "error", "worst", "held", "width",
    "answer_seconds", "duckdb_seconds", "note",
)  # fmt: skip
TOTALS = ("stream", "budget", "extremes", "changes", "net_rows", "net_bytes", "bytes", "feed_seconds")


def has_extremes(text: str) -> bool:
    """Return whether a query has MIN or MAX, which are known only while all rows fit."""
    return "MAX(" in text or "MIN(" in text


def workload(data: Data, budget: str, texts: dict[str, str]) -> tuple[el.Workload, dict[str, str]]:
    """Return (workload of the queries that are accepted, why the others are refused by name)."""
    refused = {}

    def made(chosen: dict[str, str]) -> el.Workload:
        found = el.Workload(budget=budget, seed=data.seed)
        for name, schema in data.schemas.items():
            found.stream(name, schema)
        for number, text in enumerate(chosen.values()):
            found.query(f"q{number}", inner(text))
        return found

    for name, text in texts.items():
        try:
            made({name: text}).plan()
        except el.EddylineError as error:
            refused[name] = " ".join(str(error).split())
    return made({name: text for name, text in texts.items() if name not in refused}), refused


def inner(text: str) -> str:
    """Return what is planned of a query: itself, or the subquery in FROM that it aggregates again."""
    _, found, rest = text.partition("FROM (SELECT a.id,")
    return f"SELECT a.id,{rest.rpartition(')')[0]}" if found else text


def fed(data: Data, state: el.State) -> float:
    """Give a state all changes in the order of time; return the CPU seconds that this took."""
    streams, rows, weights = data.ordered("by_time")
    names = list(data.tables)
    seconds = 0.0
    for start in range(0, len(rows), BATCH):
        piece = slice(start, start + BATCH)
        for at in np.unique(streams[piece]):
            own = streams[piece] == at
            table = data.tables[names[at]]
            batch = pa.table({name: values[rows[piece][own]] for name, values in table.columns.items()})
            started = time.process_time()
            state.update(names[at], batch, weights=weights[piece][own])
            seconds += time.process_time() - started
    return seconds


def measure(data: Data, budget: str) -> Iterator[tuple[Row, list[Row]]]:
    """Yield, for each workload, its totals and a line for each query."""
    with exact(data) as connection:
        for extremes in (False, True):
            texts = {name: text for name, text in data.queries.items() if has_extremes(text) == extremes}
            made, refused = workload(data, budget, texts)
            state = made.plan().empty()
            seconds = fed(data, state)
            total = {
                "extremes": extremes,
                "changes": data.changes,
                "net_rows": sum(len(next(iter(table.net.values()))) for table in data.tables.values()),
                "net_bytes": sum(pa.table(table.net).nbytes for table in data.tables.values()),
                "bytes": state.nbytes,
                "feed_seconds": seconds,
            }
            lines = []
            for name, text in texts.items():
                if name in refused:
                    lines.append({"query": name, "note": f"refused: {refused[name]}"})
                    continue
                started = time.process_time()
                truth = connection.execute(unlimited(text, "spark")).fetchall()
                theirs = time.process_time() - started
                started = time.process_time()
                try:
                    result = state.sql(text)
                    found = compared(result, truth) | first_of(result, text, connection)
                except el.EddylineError as error:
                    found = {"note": f"refused: {' '.join(str(error).split())}"}
                lines.append(
                    {
                        "query": name,
                        "answer_seconds": time.process_time() - started,
                        "duckdb_seconds": theirs,
                        **found,
                    }
                )
            yield total, lines


def first_of(result: pa.Table, text: str, connection: duckdb.DuckDBPyConnection) -> Row:
    """Return, for ORDER BY x DESC LIMIT k, how many of the k largest groups are shown, as a share; ties count."""
    _, found, rest = text.partition(" ORDER BY ")
    if not found or "LIMIT" not in rest:
        return {}
    by, limit = rest.split()[0], int(rest.split()[-1])
    fields = zip(result.column_names, result.schema, strict=True)
    labels = [name for name, field in fields if (field.metadata or {}).get(b"eddyline.role") == b"label"]
    right = connection.sql(unlimited(text, "spark")).to_arrow_table().to_pylist()
    values = {tuple(row[name] for name in labels): row[by] for row in right}
    least = sorted(values.values())[-min(limit, len(values))]
    shown = {tuple(row[name] for name in labels) for row in result.to_pylist()}
    return {"first": sum(values.get(key, -1) >= least for key in shown) / min(limit, len(values))}


def together(lines: list[Row]) -> Row:
    """Return one line for the lines of a query from several states."""
    answered = [line for line in lines if "exact" in line]
    notes = list(dict.fromkeys(line["note"] for line in lines if line["note"]))
    out = {"query": lines[0]["query"], "states": len(lines), "note": "; ".join(notes[:1])}
    if not answered:
        return out

    def over(field: str, how: object) -> object:
        values = [line[field] for line in answered if line.get(field, "") != ""]
        return how(values) if values else ""

    out |= {field: over(field, np.median) for field in ("error", "width", "answer_seconds", "duckdb_seconds")}
    return out | {
        "exact_states": sum(bool(line["exact"]) for line in answered),
        "shown": answered[0]["shown"],
        "rows": answered[0]["rows"],
        "first": over("first", np.mean),
        "worst": over("worst", max),
        "held": over("held", np.mean),
    }


def row_of(line: Row) -> str:
    """Return a line of the table in the docs, from a line of a file or of a run."""
    line = {field: "" if line.get(field) is None else line.get(field, "") for field in FIELDS}
    start = f"| {line['query']} | {line['budget'].replace('KB', ' KB').replace('MB', ' MB')} |"
    if line["shown"] == "":
        return f"{start} {line['note'].partition(':')[0]} | | | | | |"

    def percent(field: str, digits: int) -> str:
        value = line[field]
        return "" if value == "" else "unbounded" if np.isinf(float(value)) else f"{float(value):.{digits}%}"

    shown = f"{line['shown']} of {int(line['rows']):,}"
    shown += f", {percent('first', 0)} right" if line["first"] != "" else ""
    whole = int(line["exact_states"]) == int(line["states"])
    error, held, width = "exact", "", ""
    if not whole:
        error, held, width = percent("error", 2), percent("held", 0), percent("width", 1)
        error += f" ({line['note']})" if line["note"] else ""
    times = " | ".join(f"{1000 * float(line[field]):.0f}" for field in ("answer_seconds", "duckdb_seconds"))
    return f"{start} {shown} | {error} | {held} | {width} | {times} |"


def table(folder: Path, name: str) -> None:
    """Print the table of a stream in the docs from its files."""
    with (folder / f"{name}-totals.csv").open(encoding="utf-8") as file:
        totals = list(csv.DictReader(file))
    for budget in dict.fromkeys(total["budget"] for total in totals):
        own = [total for total in totals if total["budget"] == budget and total["extremes"] == "False"]
        means = {
            field: np.mean([float(total[field]) for total in own])
            for field in ("changes", "net_rows", "net_bytes", "bytes", "feed_seconds")
        }
        print(f"{budget}: " + ", ".join(f"{field} {value:,.2f}" for field, value in means.items()))
    with (folder / f"{name}.csv").open(encoding="utf-8") as file:
        for line in csv.DictReader(file):
            print(row_of(line))


def _write(path: Path, rows: list[Row], fields: tuple[str, ...]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fields, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()}
            for row in rows
        )


def main(arguments: list[str] | None = None) -> None:
    """Measure, write and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--streams", default=",".join(STREAMS))
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--budgets", default="64KB,256KB,1MB,4MB")
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--into", type=Path, default=HERE)
    parser.add_argument("--table", action="store_true", help="only print the tables of the files")
    options = parser.parse_args(arguments)
    if options.table:
        for name in options.streams.split(","):
            table(options.into, name)
        return
    every, totals = [], []
    for name in options.streams.split(","):
        drawn = [STREAMS[name](seed, options.events) for seed in range(1, options.seeds + 1)]
        for budget in options.budgets.split(","):
            by_query: dict[str, list[Row]] = {}
            for data in drawn:
                for total, lines in measure(data, budget):
                    totals.append({"stream": name, "budget": budget, **total})
                    print("; ".join(f"{key} {value}" for key, value in totals[-1].items()), flush=True)
                    for line in lines:
                        by_query.setdefault(line["query"], []).append(line)
            for lines in by_query.values():
                every.append({"stream": name, "budget": budget, **together(lines)})
                print(row_of(every[-1]), flush=True)
            for file, rows, fields in ((name, every, FIELDS), (f"{name}-totals", totals, TOTALS)):
                _write(options.into / f"{file}.csv", [row for row in rows if row["stream"] == name], fields)


if __name__ == "__main__":
    main()
