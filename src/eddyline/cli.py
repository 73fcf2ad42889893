"""The command line: argument parsing and printing, nothing else."""

import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any, ParamSpec, TypeVar

import typer
from rich.console import Console
from rich.table import Table

import eddyline
from eddyline.answer.estimate import Estimate, Number, show, show_end
from eddyline.answer.groups.table import Groups
from eddyline.api import doctor as checks
from eddyline.api.batch_job import analyze as batch_analyze
from eddyline.api.batch_job import build_state, open_state, stored_layout, stored_state
from eddyline.api.pipeline import Pipeline, load_pipeline
from eddyline.api.run_job import HowToRun, run_pipeline
from eddyline.api.state import State
from eddyline.api.warm import warm as warm_kernels
from eddyline.api.workload import ANALYSIS_BUDGET, Workload
from eddyline.errors import EddylineError, PlanError
from eddyline.store import Reader, Store, verify

app = typer.Typer(
    name="eddyline",
    help="SQL aggregates over streams of inserts and deletes, from kilobytes of sketch state.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
out = Console(width=None if sys.stdout.isatty() else 140)
err = Console(stderr=True)
P = ParamSpec("P")
R = TypeVar("R")
PipelineFile = Annotated[Path, typer.Argument(help="The pipeline file (TOML).")]


def tells_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Return the command with our errors printed as one sentence and exit code 1."""

    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except EddylineError as error:
            err.print(f"[red]{type(error).__name__}[/red]: ", end="")
            err.print(str(error), markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(1) from error

    return wrapped


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show that something long is under way, and how long it took."""
    start = perf_counter()
    with err.status(what):
        yield
    err.print(f"[dim]{what} ({perf_counter() - start:.1f} s)[/dim]")


def _print_version(wanted: bool) -> None:
    if wanted:
        out.print(f"eddyline {eddyline.__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Take the options that stand before a command."""


@app.command()
@tells_errors
def plan(
    pipeline: PipelineFile,
    form: Annotated[str, typer.Option(help="text, mermaid, or svg: a picture of who shares what.")] = "text",
) -> None:
    """Print what a pipeline keeps, who shares it, what it costs and how well it will answer. Needs no Spark."""
    explained = load_pipeline(pipeline).plan().explain(form)  # type: ignore[arg-type]
    out.print(explained, markup=False, highlight=False, soft_wrap=form != "text")


@app.command()
@tells_errors
def analyze(
    pipeline: PipelineFile,
    output: Annotated[
        Path | None, typer.Option("--out", help="Where to write them; by default where the file names them.")
    ] = None,
    budget: Annotated[str, typer.Option(help="Memory of the analysis itself.")] = ANALYSIS_BUDGET,
) -> None:
    """Write statistics of a pipeline's streams, by which its memory is shared out: one pass over its sources."""
    loaded = load_pipeline(pipeline)
    where = output or (Path(loaded.workload.statistics) if loaded.workload.statistics else None)
    if where is None:
        raise PlanError('say where the statistics go: --out FILE, or statistics = "FILE" in [workload].')
    with working("starting Spark"):
        spark = _session()
    with working("one pass over the sources"):
        statistics = batch_analyze(spark, loaded, budget)
    spark.stop()
    where.write_text(statistics.to_json(), encoding="utf-8")
    out.print(f"{len(statistics.relations)} relations and {len(statistics.sizes)} joins in {where}")


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
) -> None:
    """Answer a pipeline's queries: from its store if it has one, else by one pass over its sources.

    A store answers while `eddyline run` keeps it current; so does its directory, given in place of the file.
    """
    if not pipeline.endswith(".toml") and Store.exists(pipeline):
        state = open_state(pipeline)
        names = state.snapshot.layout.query_names
    else:
        loaded = load_pipeline(Path(pipeline))
        state, names = _state_of(loaded, refresh=refresh), list(loaded.queries)
    answers = [state.answer(each, confidence=confidence) for each in query or names]
    estimates = [each for each in answers if isinstance(each, Estimate)]
    if estimates:
        out.print(_answers(estimates))
    for groups in (each for each in answers if isinstance(each, Groups)):
        _show_notes(groups)
        out.print(f"\n{groups.query}\n{groups}", markup=False, highlight=False, soft_wrap=True)
    fresh = f", {state.origin.freshness}" if state.origin else ""
    out.print(f"{state.nbytes:,} bytes of state{fresh}", highlight=False)


def _state_of(pipeline: Pipeline, *, refresh: bool) -> State:
    made = pipeline.plan(keep=None if refresh else stored_layout(pipeline))
    state = None if refresh else stored_state(pipeline, made)
    if state is not None:
        return state
    with working("starting Spark"):
        spark = _session()
    with working("one pass over the sources"):
        state = build_state(spark, pipeline, made)
    spark.stop()
    return state


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
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    with working("starting Spark"):
        spark = _session()
    how = HowToRun(once, adopt, change_plan, break_lock, tuple(full_refresh or ()))
    with run_pipeline(spark, loaded, how) as running, err.status("running") as status:
        try:
            while not running.await_termination(1.0):
                status.update(f"running: {running.freshness}")
        except KeyboardInterrupt:
            status.update("stopping after the batches that were begun")
            running.stop()
        err.print(f"stopped at {running.freshness}", highlight=False)
    signal.signal(signal.SIGTERM, before)
    spark.stop()


@app.command(name="verify")
@tells_errors
def verify_store(store: Annotated[str, typer.Argument(help="The store's directory or URI.")]) -> None:
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


@app.command()
@tells_errors
def demo(
    rows: Annotated[int, typer.Option(help="Rows inserted into each stream.", min=1_000)] = 200_000,
    budget: Annotated[str, typer.Option(help="Memory for all sketches.")] = "256 KB",
) -> None:
    """Generate two skewed change streams and print estimates beside the exact answers."""
    with working("starting Spark"):
        spark = _session()
    from eddyline.spark import demo as streams  # noqa: PLC0415 - Spark only where it is used

    workload = Workload(budget=budget, seed=7)
    workload.stream("orders", streams.ORDERS, changes="change_type").stream(
        "visits", streams.VISITS, changes="weight"
    )
    for name, text in streams.QUERIES.items():
        workload.query(name, text)
    made = workload.plan()
    with tempfile.TemporaryDirectory() as folder:
        with working("writing two change streams with updates and deletes"):
            frames = streams.write_streams(spark, Path(folder), rows)
        with working("eddyline: one pass over both streams"):
            state = made.sketch(spark, frames)
        with working("Spark: the exact answers on the net rows"):
            streams.net_views(frames)
            exact = {answer.query: answer for answer in streams.exact_answers(spark)}
    spark.stop()
    table = _answers([state.answer(name) for name in streams.QUERIES], {n: e.value for n, e in exact.items()})
    out.print(table)
    changes = sum(tally.rows for tally in state.snapshot.tallies.values())
    deletes = sum(tally.deletes for tally in state.snapshot.tallies.values())
    out.print(f"{changes:,} changes ({deletes:,} deletes) in {state.nbytes:,} bytes of state.")


@app.command()
@tells_errors
def warm() -> None:
    """Compile all kernels ahead, so that no first pass waits for it: at set-up, or when an image is built."""
    with working("compiling kernels"):
        warmed = warm_kernels()
    out.print(f"{warmed.kernels} kernels, {warmed.compiled} of them compiled now, kept in ", end="")
    out.print(str(warmed.folder), markup=False, highlight=False, soft_wrap=True)


@app.command()
def doctor(
    folder: Annotated[Path, typer.Option(help="A folder that state would be written to.")] = Path(),
) -> None:
    """Check Java, Python, Spark, its workers and write access, and say what to do about what is missing."""
    failed = False
    for check in checks.checks(folder):
        failed |= not check.fine
        out.print(f"{'[green]ok[/green]  ' if check.fine else '[red]FAIL[/red]'} {check.name}: ", end="")
        out.print(check.found, markup=False, highlight=False)
    if failed:
        raise typer.Exit(1)


def _session() -> Any:
    """Return a local Spark session; imported here because every other command runs without Spark."""
    from eddyline.spark.session import local_session  # noqa: PLC0415 - Spark only where it is used

    return local_session()


def _answers(estimates: list[Estimate], exact: dict[str, float] | None = None) -> Table:
    """Return the table of estimates, beside the exact answers where they are known."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("query", "estimate", "low", "high", *(("exact", "error") if exact else ()), "method"):
        table.add_column(heading, justify="left" if heading in ("query", "method") else "right")
    for estimate in estimates:
        ends = show_end(estimate.low, low=True), show_end(estimate.high)
        cells = [estimate.query, show(estimate.value), *(ends if estimate.value is not None else ("", ""))]
        if exact:
            truth, value = exact[estimate.query], estimate.value
            error = abs((value if isinstance(value, Number) else 0) - truth) / (abs(truth) or 1)
            cells += [show(truth), f"{error:.2%}"]
        table.add_row(*cells, estimate.method)
    for estimate in estimates:
        _show_notes(estimate)
    return table


def _show_notes(answer: Estimate | Groups) -> None:
    """Print what a careful reader should know of an answer."""
    for note in answer.notes:
        err.print(f"[yellow]{answer.query}[/yellow]: ", end="")
        err.print(note, markup=False, highlight=False)


if __name__ == "__main__":
    sys.exit(app())
