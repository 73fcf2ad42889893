"""Commands before a run: `init`, `plan`, `analyze`, `size`, `warm` and `doctor`."""

import json
import os
from collections.abc import Collection, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from eddyline.api.drafts.files import draft_of_files
from eddyline.api.drafts.pipeline_text import StreamDraft, pipeline_text
from eddyline.api.drafts.tables import drafts_of_tables, is_dsn, password_free
from eddyline.api.jobs import analyze_sources as batch_analyze
from eddyline.api.jobs import check_files, check_one_pass
from eddyline.api.operations import doctor as checks
from eddyline.api.operations.part_rows import MOST_ROWS, read_part
from eddyline.api.operations.sizing import BUDGETS, SEEDS
from eddyline.api.operations.warm import warm_kernels
from eddyline.api.pipeline import Pipeline, load_pipeline, parse_pipeline
from eddyline.api.workload import ANALYSIS_BUDGET
from eddyline.cli import console
from eddyline.cli.console import PipelineFile, app, out, reports_errors, working
from eddyline.errors import PipelineError, PlanError, without_secrets
from eddyline.plan.size.specs import LARGEST_BUDGET

# Commands before any row: `plan` and `analyze`.


@app.command()
@reports_errors
def plan(
    pipeline: PipelineFile,
    form: Annotated[
        str, typer.Option(help="text, json, mermaid, or svg: a picture of which queries share what.")
    ] = "text",
    export: Annotated[
        Path | None, typer.Option(help="A file to write the plan to, for el.Plan.from_bytes at other sites.")
    ] = None,
) -> None:
    """Print what a pipeline would keep, which queries share it, and which errors to expect. Needs no Spark."""
    made = load_pipeline(pipeline).plan()
    if export is not None:
        export.write_bytes(made.to_bytes())
    explained = made.explain(form)  # type: ignore[arg-type]
    out.print(explained, markup=False, highlight=False, soft_wrap=form != "text")


@app.command()
@reports_errors
def analyze(
    pipeline: PipelineFile,
    output: Annotated[
        Path | None, typer.Option("--out", help="The file to write; by default the one in [workload].")
    ] = None,
    budget: Annotated[str, typer.Option(help="Memory of the analysis itself.")] = ANALYSIS_BUDGET,
) -> None:
    """Write statistics of a pipeline's streams, which improve its plan: one pass over its sources."""
    loaded = load_pipeline(pipeline)
    where = output or (Path(loaded.workload.statistics) if loaded.workload.statistics else None)
    if where is None:
        raise PlanError('say where the statistics go: --out FILE, or statistics = "FILE" in [workload].')
    check_one_pass(loaded.streams)
    check_files(loaded.streams)
    with working("starting Spark"):
        spark = console.session(loaded)
    with working("one pass over the sources"):
        statistics = batch_analyze(spark, loaded, budget)
    spark.stop()
    where.write_text(statistics.to_json(), encoding="utf-8")
    out.print(f"{len(statistics.relations)} relations and {len(statistics.sizes)} joins in {where}")


# `init`: a first pipeline file from what is there, files or tables.


@app.command()
@reports_errors
def init(
    sources: Annotated[
        list[str],
        typer.Argument(help="Parquet, CSV or JSON files or folders, or the DSN of a PostgreSQL database."),
    ],
    table: Annotated[
        list[str] | None, typer.Option(help="A table of the database; all of them by default.")
    ] = None,
    output: Annotated[Path, typer.Option("--out", help="The pipeline file to write.")] = Path(
        "pipeline.toml"
    ),
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Write a pipeline file for files or tables, with their columns and first queries. Needs no Spark."""
    if output.exists() and not force:
        raise PipelineError(
            f"there is a file {str(output)!r}: name another with --out, or write over it with --force."
        )
    drafts = [_relative_draft(output, draft) for draft in drafts_of(sources, table or ())]
    _write(output, pipeline_text(str(output), drafts))
    load_pipeline(output).plan()
    ask = f"eddyline ask {output}"
    steps = f"eddyline run {output} --once, and {ask}" if any(draft.is_followed for draft in drafts) else ask
    sentence = f"{output} has {len(drafts)} streams; look through it, then: {steps}"
    out.print(sentence, markup=False, highlight=False, soft_wrap=True)


def drafts_of(sources: Sequence[str], tables: Collection[str]) -> list[StreamDraft]:
    """Return the drafts of files and databases; tables: of the databases, all of them where none are named."""
    if tables and not any(map(is_dsn, sources)):
        raise PipelineError(
            "--table names a table of a database: give its DSN, or leave --table out for files."
        )
    drafts: list[StreamDraft] = []
    for source in sources:
        taken = [draft.name for draft in drafts]
        if is_dsn(source):
            drafts += drafts_of_tables(source, tables, taken)
        else:
            drafts.append(draft_of_files(Path(source), taken))
    return drafts


def _relative_draft(output: Path, draft: StreamDraft) -> StreamDraft:
    """Return a draft whose path, if it has one, is relative to the pipeline file."""
    if draft.path is None:
        return draft
    where = os.path.relpath(draft.path, output.parent)
    return replace(draft, path=str(Path(draft.path).resolve()) if where.startswith("..") else where)


def _write(output: Path, text: str) -> None:
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PipelineError(f"{str(output)!r} cannot be written: {error.strerror}.") from error


# `size`: what to expect of queries at several budgets, measured on a part of the rows.


class SizeFormat(StrEnum):
    """How the table is printed."""

    table = "table"
    json = "json"


@app.command()
@reports_errors
def size(
    sources: Annotated[
        list[str],
        typer.Argument(
            help="A pipeline file (TOML); or what `init` takes: files, folders, a PostgreSQL DSN."
        ),
    ],
    table: Annotated[
        list[str] | None, typer.Option(help="A table of the database; all of them by default.")
    ] = None,
    rows: Annotated[int, typer.Option(help="Rows to read of all streams together.", min=1)] = MOST_ROWS,
    budget: Annotated[list[str] | None, typer.Option(help="A budget to measure; may be repeated.")] = None,
    seeds: Annotated[int, typer.Option(help="Measurements of each budget.", min=1)] = SEEDS,
    form: Annotated[
        SizeFormat, typer.Option("--format", help="A table for people; JSON for programs.")
    ] = SizeFormat.table,
) -> None:
    """Measure what each query's error would be at 1, 4, 16 and 64 MB, and from which budget on all is exact.

    All rows are read where they are few, else the first ones of each stream; the output says which, and how the numbers
    were obtained. Spark is started only for sources that it alone reads. Nothing is written.
    """
    pipeline = _pipeline_of(sources, table or [])
    started: list[Any] = []

    def session() -> Any:
        if not started:
            started.append(console.session(pipeline))
        return started[0]

    workload = pipeline.build()
    with working("reading rows"):
        tables, whole = read_part(pipeline, workload.layout_at(LARGEST_BUDGET), rows, session)
    for spark in started:
        spark.stop()
    with working("measuring"):
        found = workload.size(
            tables, rows=whole, budgets=budget or BUDGETS, seeds=seeds, statistics=pipeline.statistics()
        )
    if form is SizeFormat.json:
        out.print(
            json.dumps(found.to_dict(), indent=2, ensure_ascii=False),
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
    else:
        out.print(str(found), markup=False, highlight=False, soft_wrap=True)


def _pipeline_of(sources: list[str], tables: list[str]) -> Pipeline:
    """Return the pipeline of a file, or the one that `init` would write for files and databases."""
    if any(source.endswith(".toml") for source in sources):
        if len(sources) > 1 or tables:
            raise PipelineError("give one pipeline file alone, or files and databases without one.")
        return load_pipeline(Path(sources[0]))
    drafts = [
        draft if draft.path is None else replace(draft, path=str(Path(draft.path).resolve()))
        for draft in drafts_of(sources, tables)
    ]
    pipeline = parse_pipeline(pipeline_text("pipeline.toml", drafts), Path("pipeline.toml"))
    return _with_logins(pipeline, [source for source in sources if is_dsn(source)])


def _with_logins(pipeline: Pipeline, given: list[str]) -> Pipeline:
    """Return a pipeline that logs in as its databases were given: drafts leave passwords out."""
    without = {password_free(dsn): dsn for dsn in given}
    streams = {
        name: msgspec.structs.replace(
            source, options={**source.options, "dsn": without[source.options["dsn"]]}
        )
        if source.options.get("dsn") in without
        else source
        for name, source in pipeline.streams.items()
    }
    return msgspec.structs.replace(pipeline, streams=streams)


@app.command()
@reports_errors
def warm() -> None:
    """Compile all kernels, so that the first pass does not wait for them: at setup, or when an image is built."""
    with working("compiling kernels"):
        warmed = warm_kernels()
    out.print(f"{warmed.kernels} kernels, {warmed.compiled} of them compiled now, kept in ", end="")
    out.print(str(warmed.folder), markup=False, highlight=False, soft_wrap=True)


@app.command()
@reports_errors
def doctor(
    pipeline: Annotated[
        Path | None, typer.Argument(help="A pipeline file: also check what its sources need.")
    ] = None,
    *,
    folder: Annotated[Path, typer.Option(help="A folder that state would be written to.")] = Path(),
    spark: Annotated[
        bool, typer.Option("--spark", help="Also start Spark and run a job on its workers: half a minute.")
    ] = False,
) -> None:
    """Check Python, Java, Spark, write access and a pipeline's sources, and say what to do about what is missing."""
    failed = False
    loaded = load_pipeline(pipeline) if pipeline is not None else None
    for check in checks.checks(folder, loaded, start_spark=spark):
        failed |= not check.fine
        out.print(f"{'[green]ok[/green]  ' if check.fine else '[red]FAIL[/red]'} {check.name}: ", end="")
        out.print(without_secrets(check.found), markup=False, highlight=False)
    if failed:
        raise typer.Exit(1)
