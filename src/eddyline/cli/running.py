"""Commands of stores: `run` keeps one current, `verify` reads every byte of one."""

from typing import Annotated

import typer

from eddyline.api.batch_job import state_of
from eddyline.api.pipeline import load_pipeline
from eddyline.api.run_job import HowToRun, prepare_run
from eddyline.cli import console
from eddyline.cli.console import PipelineFile, StorePath, app, err, out, tells_errors, until_told, working
from eddyline.cli.progress import LogFormat, progress_of
from eddyline.errors import CorruptState
from eddyline.store import Reader, Store, verify


@app.command()
@tells_errors
def run(
    pipeline: PipelineFile,
    once: Annotated[bool, typer.Option("--once", help="Take what is there now, then end.")] = False,
    adopt: Annotated[
        bool,
        typer.Option("--adopt", help="Let a new checkpoint feed the store: its source has only new rows."),
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
    log_format: Annotated[
        LogFormat, typer.Option(help="How progress is told, every ten seconds where there is no terminal.")
    ] = LogFormat.text,
) -> None:
    """Keep a pipeline's store current from its streams, until it is stopped (Ctrl-C or SIGTERM)."""
    loaded = load_pipeline(pipeline)
    how = HowToRun(once, adopt, change_plan, break_lock, tuple(full_refresh or ()))
    prepared = prepare_run(loaded, how)
    with working("starting Spark"):
        spark = console.session(loaded)
    with until_told() as told, prepared.start(spark) as running:
        for stream, awaited in running.waiting().items():
            err.print(f"stream {stream} {awaited}", markup=False, highlight=False, soft_wrap=True)
        with progress_of(running, log_format) as progress:
            while not told.is_set() and not running.await_termination(1.0):
                progress.tell()
            running.stop()
            progress.note()
        err.print(f"stopped at {progress.text()}", highlight=False, soft_wrap=True)
    spark.stop()


@app.command(name="verify")
@tells_errors
def verify_store(store: StorePath) -> None:
    """Read every byte of a store and list what is wrong with it; exit code 1 if anything is."""
    problems = verify(store, state_of)
    for problem in problems:
        harm = "" if problem.kind == "leftover" else "[red]"
        out.print(f"{harm}{problem.kind}[/]" if harm else problem.kind, problem.file, end=": ")
        out.print(problem.sentence, markup=False, highlight=False)
    if any(problem.kind != "leftover" for problem in problems):
        raise typer.Exit(1)
    latest = Reader(store).latest()
    out.print(f"sound: epoch {latest.number}, {len(latest.sections)} sections", highlight=False)


@app.command()
@tells_errors
def restore(
    store: StorePath,
    epoch: Annotated[
        int | None, typer.Option(help="The epoch to go back to; by default the newest that can be read.")
    ] = None,
) -> None:
    """Make an older epoch of a store its current one: after damage, or to undo batches.

    The next run reads again, from the epoch's positions, what came since.
    """
    wanted = Reader(store).newest_readable() if epoch is None else epoch
    if wanted is None:
        raise CorruptState(f"no epoch of {store} can be read: rebuild the store.")
    restored = Store.restore(store, wanted, "restore")
    out.print(f"epoch {wanted} is current again, as epoch {restored.number}", highlight=False)
