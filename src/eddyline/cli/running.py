"""Commands of stores: `run` keeps one current, `rebuild` reads its sources again, `merge`, `verify` and `restore`."""

import time
from pathlib import Path
from threading import Event
from typing import Annotated, Any

import typer

from eddyline.api.alerts import Alerts
from eddyline.api.jobs import HowToRun, PreparedRun, prepare_run, state_of
from eddyline.api.operations.rebuild import Rebuild, prepare_rebuild, ready_epoch, swap
from eddyline.api.operations.reconcile import reconcile, record
from eddyline.api.operations.sites import merge_stores
from eddyline.api.pipeline import Pipeline, load_pipeline
from eddyline.cli import console
from eddyline.cli.console import (
    LogFormat,
    PipelineFile,
    StorePath,
    app,
    err,
    out,
    print_error,
    progress_of,
    reports_errors,
    until_stopped,
    working,
)
from eddyline.errors import CorruptState, EddylineError, Locked, StoreError
from eddyline.store import Epoch, Reader, Store, verify, without_secrets
from eddyline.store.reader import NOTHING_LEFT

_LOOK = 10.0
"""Seconds between two looks of a run for a rebuilt state: a listing of a folder, which object stores charge for."""


@app.command()
@reports_errors
def run(
    pipeline: PipelineFile,
    once: Annotated[bool, typer.Option("--once", help="Read what is available now, then end.")] = False,
    adopt: Annotated[
        bool,
        typer.Option("--adopt", help="Let a new checkpoint feed the store: its source has only new rows."),
    ] = False,
    change_plan: Annotated[
        bool, typer.Option("--change-plan", help="Accept changed queries or a changed budget; keep the rest.")
    ] = False,
    full_refresh: Annotated[
        list[str] | None, typer.Option(help="A query whose streams are read again from their start.")
    ] = None,
    break_lock: Annotated[
        bool, typer.Option("--break-lock", help="Release the lock of a writer that is known to be dead.")
    ] = False,
    log_format: Annotated[
        LogFormat, typer.Option(help="Format of progress lines, every ten seconds without a terminal.")
    ] = LogFormat.text,
) -> None:
    """Keep a pipeline's store current from its streams, until it is stopped (Ctrl-C or SIGTERM)."""
    how = HowToRun(once, adopt, change_plan, break_lock, tuple(full_refresh or ()))
    loaded = load_pipeline(pipeline)
    prepared = prepare_run(loaded, how)
    if prepared.note is not None:
        err.print(f"note: {prepared.note}", markup=False, highlight=False, soft_wrap=True)
    with working("starting Spark"):
        spark = console.session(loaded)
    with until_stopped() as stopped:
        rebuilt = _run(prepared, spark, stopped, log_format)
        while rebuilt is not None and not stopped.is_set():
            loaded = load_pipeline(pipeline)
            swap(loaded, rebuilt)
            err.print("the rebuilt state was swapped in; the run goes on with it", soft_wrap=True)
            rebuilt = _run(prepare_run(loaded, HowToRun(once)), spark, stopped, log_format)
    spark.stop()


def _run(prepared: PreparedRun, spark: Any, stopped: Event, log_format: LogFormat) -> Epoch | None:
    """Run until it ends or is to stop; return a rebuilt state that is to replace the store's, None if none is."""
    rebuilt = None
    with prepared.start(spark) as running:
        for stream, awaited in running.waiting().items():
            err.print(f"stream {stream} {awaited}", markup=False, highlight=False, soft_wrap=True)
        alerts = Alerts(prepared.store, prepared.pipeline.alerts)
        looked = time.monotonic()
        with progress_of(running, log_format) as progress:
            while rebuilt is None and not stopped.is_set() and not running.await_termination(1.0):
                progress.report()
                alerts.look()
                if time.monotonic() - looked >= _LOOK:
                    rebuilt, looked = _rebuilt(prepared.pipeline), time.monotonic()
            running.stop()
            alerts.look()
            alerts.close()
            progress.note()
        err.print(f"stopped at {progress.text()}", highlight=False, soft_wrap=True)
    return rebuilt


def _rebuilt(pipeline: Pipeline) -> Epoch | None:
    """Return a rebuilt state that is ready; None also if it cannot be read now, because a run goes on without it."""
    try:
        return ready_epoch(pipeline)
    except EddylineError as error:
        print_error(error, "a rebuilt state is not swapped in: ")
        return None


@app.command()
@reports_errors
def rebuild(
    pipeline: PipelineFile,
    fewer_rows: Annotated[
        bool,
        typer.Option(
            "--fewer-rows", help="Swap even if the sources now have fewer rows than the store counted."
        ),
    ] = False,
) -> None:
    """Read the sources again in the background, and then replace the store's state; the old one answers meanwhile."""
    loaded = load_pipeline(pipeline)
    job = prepare_rebuild(loaded, fewer_rows=fewer_rows)
    with until_stopped() as stopped:
        if not job.is_ready:
            with working("starting Spark"):
                spark = console.session(loaded)
            job.clear_checkpoints(spark)
            with working("reading the sources again"):
                while not stopped.is_set() and not job.read(spark, stopped):
                    pass
            spark.stop()
        with working("waiting for the run to swap"):
            while not stopped.is_set() and job.is_ready:
                _swap_if_free(job)
                stopped.wait(0.0 if job.is_done else 1.0)
    if job.is_done:
        shown = without_secrets(job.store)
        out.print(f"rebuilt: {shown} now holds what its sources have", highlight=False, soft_wrap=True)
        return
    err.print("stopped: the old state stays; `eddyline rebuild` continues", highlight=False, soft_wrap=True)
    raise typer.Exit(1)


def _swap_if_free(job: Rebuild) -> None:
    """Swap the rebuilt state in, unless a run holds the store, which does it then."""
    try:
        epoch = ready_epoch(job.pipeline)
        if epoch is not None:
            swap(job.pipeline, epoch)
    except Locked:
        return
    except StoreError:
        if job.is_ready:  # otherwise the run has swapped it in, and removed it
            raise


@app.command()
@reports_errors
def merge(
    stores: Annotated[
        list[str], typer.Argument(metavar="STORE...", help="Stores of one plan, one for each site.")
    ],
    into: Annotated[str, typer.Option(help="The store to write; an earlier merge there is replaced.")],
) -> None:
    """Merge the stores of several sites into one. Needs no Spark."""
    state = merge_stores(stores, into)
    rows = ", ".join(f"{name} {tally.rows:,} rows" for name, tally in state.snapshot.tallies.items())
    shown = without_secrets(into)
    out.print(f"{len(stores)} stores merged into {shown}: {rows}", highlight=False, soft_wrap=True)
    if any(not sample.follows_all for sample in state.snapshot.samples.values()):
        out.print(
            "sketches are the sums of all sites; samples keep the keys that all sites keep, at the lowest rate",
            highlight=False,
            soft_wrap=True,
        )


@app.command(name="verify")
@reports_errors
def verify_store(
    store: StorePath,
    source: Annotated[
        Path | None,
        typer.Option(
            help="A pipeline file: also compare the rows of its sources with what the store counted."
        ),
    ] = None,
) -> None:
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
    if source is not None:
        found = reconcile(store, load_pipeline(source))
        for each in found:
            out.print(str(each), markup=False, highlight=False, soft_wrap=True)
        if not record(store, found):
            err.print("note: the comparison cannot be written into the store, so it is not in the metrics")
        if any(each.difference for each in found):
            raise typer.Exit(1)


@app.command()
@reports_errors
def restore(
    store: StorePath,
    epoch: Annotated[
        int | None, typer.Option(help="The epoch to go back to; by default the newest that can be read.")
    ] = None,
) -> None:
    """Make an older epoch of a store its current one: after damage, or to undo batches.

    The next run reads the rows after the epoch's positions again.
    """
    wanted = Reader(store).newest_readable() if epoch is None else epoch
    if wanted is None:
        raise CorruptState(f"{without_secrets(store)}: {NOTHING_LEFT}")
    restored = Store.restore(store, wanted)
    out.print(f"epoch {wanted} is current again, as epoch {restored.number}", highlight=False)
