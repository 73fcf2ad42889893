"""`ask`: the answers of a pipeline's queries or of a store's, as a table, JSON or CSV."""

import csv
import io
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer
from rich.table import Table
from rich.text import Text

from eddyline.answer.estimate import Estimate, Number, show, show_key
from eddyline.answer.freshness import plain
from eddyline.answer.groups.table import SELECTED, Groups
from eddyline.api.jobs import (
    StoredAnswers,
    build_state,
    build_without_spark,
    check_columns,
    check_pass,
    open_state,
    stored_answers,
)
from eddyline.api.pipeline import Pipeline, load_pipeline
from eddyline.api.sql import notes_of, result_to_dict
from eddyline.api.state import State
from eddyline.api.store_tables import as_csv as csv_of_history
from eddyline.api.store_tables import as_parquet, history
from eddyline.cli import console
from eddyline.cli.console import StorePath, app, err, out, print_error, reports_errors, working
from eddyline.errors import EddylineError, PipelineError
from eddyline.expressions.arrow_values import python_rows
from eddyline.store import Store

# Answers as a table for people, and as JSON and CSV for programs.


_Answer = Estimate | Groups
_MOST_ROWS = 50
"""Rows of a result that are printed: chosen, about a screen."""
_COLUMNS = (
    "query",
    "group",
    "aggregate",
    "value",
    "low",
    "high",
    "exact",
    "known",
    "selected",
    "confidence",
    "method",
    "notes",
)


def answer_table(estimates: Iterable[Estimate], exact: Mapping[str, float] | None = None) -> Table:
    """Return the table of estimates, next to the exact answers where they are known."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("query", "estimate", "low", "high", *(("exact", "error") if exact else ()), "method"):
        table.add_column(heading, justify="left" if heading in ("query", "method") else "right")
    for estimate in estimates:
        cells = [estimate.query, *estimate.shown]
        if exact:
            truth, value = exact[estimate.query], estimate.value
            error = abs((value if isinstance(value, Number) else 0) - truth) / (abs(truth) or 1)
            cells += [show(truth), f"{error:.2%}"]
        table.add_row(*map(Text, (*cells, estimate.method)))
    return table


def show_notes(answer: _Answer) -> None:
    """Print what a careful reader should know of an answer: a table in a file has its notes, too."""
    for note in answer.notes:
        out.print(f"[yellow]{answer.query}[/yellow]: ", end="")
        out.print(note, markup=False, highlight=False)


def answers_json(answers: Iterable[_Answer], refused: Mapping[str, str]) -> str:
    """Return answers as a JSON list of objects with all digits; a question that was refused has the reason."""
    shown: list[dict[str, object]] = [answer.to_dict() for answer in answers]
    shown += [{"query": query, "refused": reason} for query, reason in refused.items()]
    return json.dumps(shown, indent=2, ensure_ascii=False) + "\n"


def answers_csv(answers: Iterable[_Answer], refused: Mapping[str, str]) -> str:
    """Return answers as CSV with all digits: a line for each estimate, and for each aggregate of each group.

    A group is a JSON object of its columns. A question that was refused has the reason among its notes.
    """
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for answer in answers:
        writer.writerows(_lines(answer))
    for query, reason in refused.items():
        writer.writerow([query, *("" for _ in _COLUMNS[1:-2]), "refused", reason])
    return written.getvalue()


def _lines(answer: _Answer) -> Iterator[list[object]]:
    about = [answer.confidence, answer.method, " ".join(answer.notes)]
    if isinstance(answer, Estimate):
        yield [answer.query, "", "", *_numbers(answer), "", *about]
        return
    for row in answer:
        group = json.dumps({name: plain(row[name]) for name in answer.group_columns}, ensure_ascii=False)
        for name in answer.aggregates:
            numbers = _numbers(answer.estimate(row, name))
            yield [answer.query, group, name, *numbers, row.get(SELECTED, ""), *about]


def _numbers(estimate: Estimate) -> list[object]:
    numbers = estimate.numbers()
    flags = [str(numbers[name]).lower() for name in ("exact", "known")]
    return [numbers["value"], numbers["low"], numbers["high"], *flags]


def show_result(table: pa.Table) -> None:
    """Print a result of `state.sql`, the interval of a value behind it, and its notes."""
    shown = Table(box=None, pad_edge=False, header_style="bold")
    fields = [each for each in table.schema if not (each.metadata or {}).get(b"eddyline.of")]
    for field in fields:
        number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        shown.add_column(Text(field.name), justify="right" if number else "left")
    for row in python_rows(table.slice(0, _MOST_ROWS)):
        shown.add_row(*(Text(_result_cell(row, field)) for field in fields))
    out.print(shown)
    if table.num_rows > _MOST_ROWS:
        out.print(
            f"... {table.num_rows - _MOST_ROWS:,} more rows; --format csv has them all", highlight=False
        )
    for note in notes_of(table):
        out.print(f"note: {note}", markup=False, highlight=False, soft_wrap=True)


def _result_cell(row: Mapping[str, Any], field: pa.Field) -> str:
    """Return a value as people read it, with its interval where it has one and is not exact."""
    about = field.metadata or {}
    value, low = row[field.name], about.get(b"eddyline.low", b"").decode()
    if about.get(b"eddyline.role") != b"value":
        return show_key(value)
    if about.get(b"eddyline.exact") == b"true" or value is None:
        return show(value)
    if not low or row[low] is None:
        return f"about {show(value)}"
    ends = row[low], row[about[b"eddyline.high"].decode()]
    value, first, last = Estimate("", value, *ends, 0.95, "").shown
    return f"{value} [{first} .. {last}]"


def results_as_json(results: Mapping[str, pa.Table]) -> str:
    """Return results of `state.sql` as a JSON list."""
    shown = [result_to_dict(text, table) for text, table in results.items()]
    return json.dumps(shown, indent=2, ensure_ascii=False) + "\n"


def results_as_csv(results: Mapping[str, pa.Table]) -> str:
    """Return results of `state.sql` as CSV, one after the other, each with its header."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    for table in results.values():
        writer.writerow(table.column_names)
        writer.writerows([[plain(each) for each in row.values()] for row in python_rows(table)])
    return written.getvalue()


# `ask`: the answers of a pipeline's queries, or of a store's.


class Format(StrEnum):
    """How answers are printed."""

    table = "table"
    json = "json"
    csv = "csv"


@app.command()
@reports_errors
def ask(
    pipeline: Annotated[str, typer.Argument(help="The pipeline file (TOML), or a store to ask.")],
    query: Annotated[
        list[str] | None, typer.Option(help="A query's name, or SQL text; all queries by default.")
    ] = None,
    sql: Annotated[
        list[str] | None,
        typer.Option(
            help="Any SQL around aggregates, instead of queries: WITH, subqueries, window functions."
        ),
    ] = None,
    confidence: Annotated[float | None, typer.Option(help="The intervals' confidence.")] = None,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Read the sources again even if the store has answers.")
    ] = False,
    form: Annotated[
        Format, typer.Option("--format", help="A table for people; JSON or CSV with all digits for programs.")
    ] = Format.table,
    as_of: Annotated[
        str | None,
        typer.Option(help="Answer as of a time (UTC), or of an epoch by its number; needs a store."),
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Print how much each number changed since a time or an epoch.")
    ] = None,
) -> None:
    """Answer a pipeline's queries: from its store if it has one, else by one pass over its sources.

    A store can be asked while `eddyline run` keeps it current, also by its directory instead of the file. If one query
    cannot be answered, the others are, and the exit code is 1.
    """
    asked, names = _asked(pipeline, as_of, since, refresh=refresh)
    then = open_state(pipeline, _moment(since)) if since else None
    answers: list[_Answer] = []
    refused: dict[str, EddylineError] = {}
    if sql:
        _print_results({each: asked.state.sql(each, confidence=confidence) for each in sql}, form)
        return
    for each in query or names:
        try:
            if asked.difference is not None and each in names and each not in asked.queries:
                raise asked.difference
            if then is None:
                answers.append(asked.state.answer(each, confidence=confidence))
            else:
                answers.append(asked.state.change(each, then, confidence=confidence))
        except EddylineError as error:
            refused[each] = error
    if form is Format.table:
        _print_table(asked.state, answers)
    else:
        reasons = {each: str(error) for each, error in refused.items()}
        print(
            answers_json(answers, reasons) if form is Format.json else answers_csv(answers, reasons), end=""
        )
    shown = dict.fromkeys([*refused.values(), *([asked.difference] if asked.difference is not None else [])])
    for reason in shown:
        about = ", ".join(each for each, error in refused.items() if error is reason)
        print_error(reason, f"{about}: " if about and len(query or names) > 1 else "")
    if shown:
        raise typer.Exit(1)


class HistoryFormat(StrEnum):
    """Forms of a history."""

    parquet = "parquet"
    csv = "csv"


@app.command("history")
@reports_errors
def print_history(
    store: StorePath,
    query: Annotated[
        list[str] | None, typer.Option(help="A query's name, or SQL text; all queries by default.")
    ] = None,
    since: Annotated[str | None, typer.Option(help="The first time (UTC), or the first epoch.")] = None,
    until: Annotated[str | None, typer.Option(help="The last time (UTC), or the last epoch.")] = None,
    confidence: Annotated[float | None, typer.Option(help="The intervals' confidence.")] = None,
    form: Annotated[
        HistoryFormat | None, typer.Option("--format", help="By default that of the file's name, else CSV.")
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--out", help="The file to write; by default standard output.")
    ] = None,
) -> None:
    """Write the answers of all epochs that a store keeps, groups among them, as CSV or Parquet. Needs no Spark."""
    table = history(store, *(query or ()), since=since, until=until, confidence=confidence)
    named = HistoryFormat.parquet if to is not None and to.suffix == ".parquet" else HistoryFormat.csv
    data = as_parquet(table) if (form or named) is HistoryFormat.parquet else csv_of_history(table)
    if to is None:
        sys.stdout.buffer.write(data)
        return
    try:
        to.write_bytes(data)
    except OSError as error:
        raise PipelineError(f"{str(to)!r} cannot be written: {error.strerror}.") from error
    epochs = len(set(table["epoch"].to_pylist()))
    err.print(f"{len(table):,} rows of {epochs:,} epochs in {to}", highlight=False, soft_wrap=True)


def _asked(
    pipeline: str, as_of: str | None, since: str | None, *, refresh: bool
) -> tuple[StoredAnswers, list[str]]:
    """Return the answers of a store, or of a pipeline file's sources, and the names of all its queries."""
    if not pipeline.endswith(".toml") and Store.exists(pipeline):
        console.leave_pandas_out()
        state = open_state(pipeline, _moment(as_of))
        names = list(state.snapshot.layout.query_names)
        return StoredAnswers(state, names), names
    loaded = load_pipeline(Path(pipeline))
    if as_of or since:
        raise PipelineError(
            f"--as-of and --since ask a store: eddyline ask {loaded.workload.store or 'STORE'} ..."
        )
    return _answers_of(loaded, refresh=refresh), list(loaded.queries)


def _print_results(results: "Mapping[str, pa.Table]", form: Format) -> None:
    if form is Format.table:
        for each in results.values():
            show_result(each)
    else:
        print(results_as_json(results) if form is Format.json else results_as_csv(results), end="")


def _moment(given: str | None) -> str | int | None:
    """Return the number of an epoch, or a time as it is given."""
    return int(given) if given is not None and given.isdigit() else given


def _print_table(state: State, answers: list[_Answer]) -> None:
    estimates = [each for each in answers if isinstance(each, Estimate)]
    if estimates:
        out.print(answer_table(estimates))
    for estimate in estimates:
        show_notes(estimate)
    for groups in (each for each in answers if isinstance(each, Groups)):
        out.print(f"\n{groups.query}\n{groups}", markup=False, highlight=False, soft_wrap=True)
        show_notes(groups)
    fresh = f", {state.origin.freshness}" if state.origin else ""
    out.print(f"{state.nbytes:,} bytes of state{fresh}", highlight=False)


def _answers_of(pipeline: Pipeline, *, refresh: bool) -> StoredAnswers:
    stored = None if refresh else stored_answers(pipeline)
    if stored is not None:
        return stored
    made = pipeline.plan()
    check_pass(pipeline)
    check_columns(pipeline, made.layout)
    with working("reading files"):
        state = build_without_spark(pipeline, made)
    if state is not None:
        return StoredAnswers(state, list(pipeline.queries))
    with working("starting Spark"):
        spark = console.session(pipeline)
    with working("one pass over the sources"):
        state = build_state(spark, pipeline, made)
    spark.stop()
    return StoredAnswers(state, list(pipeline.queries))
