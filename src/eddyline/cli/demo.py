"""`demo`: two generated change streams, estimates next to the exact answers; once, or live in a browser."""

import tempfile
from pathlib import Path
from threading import Thread
from typing import Annotated, Any

import pyarrow.parquet as pq
import typer

from eddyline.answer.freshness import Freshness
from eddyline.api.plan import Plan
from eddyline.api.state import State
from eddyline.api.workload import Workload
from eddyline.cli import console
from eddyline.cli.asking import answer_table, show_notes
from eddyline.cli.console import app, err, out, reports_errors, until_stopped, working
from eddyline.cli.serving import HTTP_PORT, server_for
from eddyline.spark.demo import LIVE_QUERIES, ORDERS, QUERIES, VISITS, LiveStreams

_BUDGET, _LIVE_BUDGET = "256 KB", "96 KB"


@app.command()
@reports_errors
def demo(
    rows: Annotated[int, typer.Option(help="Rows inserted into each stream.", min=1_000)] = 200_000,
    budget: Annotated[
        str | None, typer.Option(help=f"Memory of everything kept: {_BUDGET}, live {_LIVE_BUDGET}.")
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="As a continuous run, shown in a browser until Ctrl-C.")
    ] = False,
    port: Annotated[int, typer.Option(help="The port of the live page.", min=0, max=65535)] = HTTP_PORT,
) -> None:
    """Generate two skewed change streams and show estimates next to the exact answers."""
    with tempfile.TemporaryDirectory() as folder:
        if live or _has_java():
            _with_spark(Path(folder), budget, rows, port, live=live)
        else:
            _without_spark(Path(folder), budget or _BUDGET, rows)


def _has_java() -> bool:
    try:
        from eddyline.spark.session import JAVA_NEEDED, java_version  # noqa: PLC0415 - Spark only where it is used
    except ImportError:
        return False
    return (java_version() or 0) >= JAVA_NEEDED


def _with_spark(folder: Path, budget: str | None, rows: int, port: int, *, live: bool) -> None:
    with working("starting Spark"):
        spark = console.session()
    if live:
        _live(spark, folder, budget or _LIVE_BUDGET, port)
    else:
        _once(spark, folder, budget or _BUDGET, rows)
    spark.stop()


def _plan(budget: str, queries: dict[str, str]) -> Plan:
    workload = Workload(budget=budget, seed=7)
    workload.stream("orders", ORDERS, changes="change_type")
    workload.stream("visits", VISITS, changes="weight")
    for name, text in queries.items():
        workload.query(name, text)
    return workload.plan()


def _written(folder: Path, rows: int) -> LiveStreams:
    with working("writing two change streams with updates and deletes"):
        written = LiveStreams(folder)
        written.write_all(rows)
    return written


def _once(spark: Any, folder: Path, budget: str, rows: int) -> None:
    from eddyline.spark.demo import exact_by_spark, net_views  # noqa: PLC0415 - Spark only where it is used

    _written(folder, rows)
    frames = {name: spark.read.parquet(str(folder / name)) for name in ("orders", "visits")}
    with working("eddyline: one pass over both streams"):
        state = _plan(budget, QUERIES).sketch(spark, frames)
    with working("Spark: the exact answers on the net rows"):
        net_views(frames)
        exact = {answer.query: answer.value for answer in exact_by_spark(spark)}
    _show(state, exact)
    out.print("The same as a live page: ./scripts/demo --live", highlight=False)


def _without_spark(folder: Path, budget: str, rows: int) -> None:
    """Show the same streams where Spark cannot run: as Arrow tables, in this process."""
    written = _written(folder, rows)
    with working("eddyline: both streams as Arrow tables"):
        state = _plan(budget, QUERIES).empty()
        for name in ("orders", "visits"):
            for file in sorted((folder / name).iterdir()):
                state.update(name, pq.read_table(file))
    _show(state, written.exact_of_all())
    out.print(
        "No Java 17 or newer was found, so Spark is left out: the rows came as Arrow tables in one process; "
        "frames, continuous runs and --live need it (`eddyline doctor` says how to get it).",
        highlight=False,
        soft_wrap=True,
    )


def _show(state: State, exact: dict[str, float]) -> None:
    estimates = [state.answer(name) for name in QUERIES]
    out.print(answer_table(estimates, exact))
    for estimate in estimates:
        show_notes(estimate)
    changes = sum(tally.rows for tally in state.snapshot.tallies.values())
    deletes = sum(tally.deletes for tally in state.snapshot.tallies.values())
    out.print(f"{changes:,} changes ({deletes:,} deletes) in {state.nbytes:,} bytes of state.")


def _live(spark: Any, folder: Path, budget: str, port: int) -> None:
    made, written = _plan(budget, LIVE_QUERIES), LiveStreams(folder)
    written.write()
    schemas = {
        "orders": f"{ORDERS}, _change_type STRING",
        "visits": f"{VISITS}, weight INT",
    }
    frames = {
        name: spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / name))
        for name, schema in schemas.items()
    }
    store = str(folder / "state")
    with working("the first batch of both streams"):
        run = made.start(spark, frames, store=store)

    def exact(freshness: Freshness) -> dict[str, float]:
        return written.exact({each.stream: each.rows for each in freshness.streams})

    with run, until_stopped() as stopped:
        server = server_for(store, port=port, history=folder / "history.json", exact=exact)
        serving = Thread(target=server.run, name="eddyline-serve", daemon=True)
        serving.start()
        written.start()
        where = f"Open {server.address} and watch estimates follow the exact answers; Ctrl-C ends it."
        out.print(where, highlight=False)
        while not stopped.is_set() and not run.await_termination(1.0):
            pass
        err.print("stopping after the batches that were begun")
        written.stop()
        server.should_exit = True
        serving.join()
