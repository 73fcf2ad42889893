"""Commands of stores: `run` keeps one current, `verify` reads every byte of one."""

from typing import Annotated

import typer

from eddyline.api.pipeline import load_pipeline
from eddyline.api.run_job import HowToRun, run_pipeline
from eddyline.cli import console
from eddyline.cli.console import PipelineFile, StorePath, app, err, out, tells_errors, until_told, working
from eddyline.store import Reader, verify


@app.command()
@tells_errors
def run(
    pipeline: PipelineFile,
    once: Annotated[bool, typer.Option("--once", help="Take what is there now, then end.")] = False,
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Take over a store that another checkpoint fed.")
    ] = False,
    change_plan: Annotated[
        bool, typer.Option("--change-plan", help="Keep what is unchanged of the store's plan, and go on.")
    ] = False,
    full_refresh: Annotated[
        list[str] | None, typer.Option(help="A query whose streams are read again from their start.")
    ] = None,
    break_lock: Annotated[
        bool, typer.Option("--break-lock", help="Let go of the lock of a writer that is known to be dead.")
    ] = False,
) -> None:
    """Keep a pipeline's store current from its streams, until it is stopped (Ctrl-C or SIGTERM)."""
    loaded = load_pipeline(pipeline)
    loaded.build()
    how = HowToRun(once, adopt, change_plan, break_lock, tuple(full_refresh or ()))
    with working("starting Spark"):
        spark = console.session(loaded.spark)
    with (
        until_told() as told,
        run_pipeline(spark, loaded, how) as running,
        err.status("running") as status,
    ):
        while not told.is_set() and not running.await_termination(1.0):
            status.update(f"running: {running.freshness}")
        status.update("stopping after the batches that were begun")
        running.stop()
        err.print(f"stopped at {running.freshness}", highlight=False)
    spark.stop()


@app.command(name="verify")
@tells_errors
def verify_store(store: StorePath) -> None:
    """Read every byte of a store and list what is wrong with it; exit code 1 if anything is."""
    problems = verify(store)
    for problem in problems:
        harm = "" if problem.kind == "leftover" else "[red]"
        out.print(f"{harm}{problem.kind}[/]" if harm else problem.kind, problem.file, end=": ")
        out.print(problem.sentence, markup=False, highlight=False)
    if any(problem.kind != "leftover" for problem in problems):
        raise typer.Exit(1)
    latest = Reader(store).latest()
    out.print(f"sound: epoch {latest.number}, {len(latest.sections)} sections", highlight=False)
