"""`init`: a first pipeline file from what is there, files or tables."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from eddyline.api.drafts.draft import StreamDraft
from eddyline.api.drafts.files import draft_of_files
from eddyline.api.drafts.pipeline_text import pipeline_text
from eddyline.api.drafts.tables import drafts_of_tables, is_dsn
from eddyline.api.pipeline import load_pipeline
from eddyline.cli.console import app, out, tells_errors
from eddyline.errors import PipelineError


@app.command()
@tells_errors
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
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
) -> None:
    """Write a pipeline file for some files or tables: their columns, and queries to begin with. Needs no Spark."""
    if output.exists() and not force:
        raise PipelineError(
            f"there is a file {str(output)!r}: name another with --out, or write over it with --force."
        )
    if table and not any(map(is_dsn, sources)):
        raise PipelineError(
            "--table names a table of a database: give its DSN, or leave --table out for files."
        )
    drafts: list[StreamDraft] = []
    for source in sources:
        taken = [draft.name for draft in drafts]
        if is_dsn(source):
            drafts += drafts_of_tables(source, table or (), taken)
        else:
            drafts.append(_beside(output, draft_of_files(Path(source), taken)))
    _write(output, pipeline_text(str(output), drafts))
    load_pipeline(output).plan()
    ask = f"eddyline ask {output}"
    steps = f"eddyline run {output} --once, and {ask}" if any(draft.is_followed for draft in drafts) else ask
    told = f"{output} has {len(drafts)} streams; look through it, then: {steps}"
    out.print(told, markup=False, highlight=False, soft_wrap=True)


def _beside(output: Path, draft: StreamDraft) -> StreamDraft:
    """Return a draft whose path is relative to the pipeline file."""
    where = os.path.relpath(str(draft.path), output.parent)
    return replace(draft, path=str(Path(str(draft.path)).resolve()) if where.startswith("..") else where)


def _write(output: Path, text: str) -> None:
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PipelineError(f"{str(output)!r} cannot be written: {error.strerror}.") from error
