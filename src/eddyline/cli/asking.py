"""`ask`: the answers of a pipeline's queries, or of a store's."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from eddyline.answer.estimate import Estimate
from eddyline.answer.groups.table import Groups
from eddyline.api.batch_job import StoredAnswers, build_state, check_pass, open_state, stored_answers
from eddyline.api.pipeline import Pipeline, load_pipeline
from eddyline.api.state import State
from eddyline.cli import console
from eddyline.cli.answers import Answer, answer_table, as_csv, as_json, show_notes
from eddyline.cli.console import app, out, print_error, tells_errors, working
from eddyline.errors import EddylineError
from eddyline.store import Store


class Format(StrEnum):
    """How answers are printed."""

    table = "table"
    json = "json"
    csv = "csv"


@app.command()
@tells_errors
def ask(
    pipeline: Annotated[str, typer.Argument(help="The pipeline file (TOML), or a store to ask.")],
    query: Annotated[
        list[str] | None, typer.Option(help="A query's name, or SQL text; all queries by default.")
    ] = None,
    confidence: Annotated[float | None, typer.Option(help="The intervals' confidence.")] = None,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Read the sources again even if the store has answers.")
    ] = False,
    form: Annotated[
        Format, typer.Option("--format", help="A table for people; JSON or CSV with all digits for programs.")
    ] = Format.table,
) -> None:
    """Answer a pipeline's queries: from its store if it has one, else by one pass over its sources.

    A store answers while `eddyline run` keeps it current; so does its directory, given in place of the file. A question
    that cannot be answered leaves the others answered, and the exit code is 1.
    """
    if not pipeline.endswith(".toml") and Store.exists(pipeline):
        state = open_state(pipeline)
        names = state.snapshot.layout.query_names
        asked = StoredAnswers(state, names)
    else:
        loaded = load_pipeline(Path(pipeline))
        asked, names = _answers_of(loaded, refresh=refresh), list(loaded.queries)
    answers: list[Answer] = []
    refused: dict[str, EddylineError] = {}
    for each in query or names:
        try:
            if asked.difference is not None and each in names and each not in asked.queries:
                raise asked.difference
            answers.append(asked.state.answer(each, confidence=confidence))
        except EddylineError as error:
            refused[each] = error
    if form is Format.table:
        _print_table(asked.state, answers)
    else:
        reasons = {each: str(error) for each, error in refused.items()}
        print(as_json(answers, reasons) if form is Format.json else as_csv(answers, reasons), end="")
    told = dict.fromkeys([*refused.values(), *([asked.difference] if asked.difference is not None else [])])
    for reason in told:
        about = ", ".join(each for each, error in refused.items() if error is reason)
        print_error(reason, f"{about}: " if about and len(query or names) > 1 else "")
    if told:
        raise typer.Exit(1)


def _print_table(state: State, answers: list[Answer]) -> None:
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
    with working("starting Spark"):
        spark = console.session(pipeline)
    with working("one pass over the sources"):
        state = build_state(spark, pipeline, made)
    spark.stop()
    return StoredAnswers(state, list(pipeline.queries))
