"""`demo`: two generated change streams, estimates beside the exact answers; once, or live in a browser."""

import tempfile
from pathlib import Path
from threading import Thread
from typing import Annotated, Any

import typer

from eddyline.answer.freshness import Freshness
from eddyline.api.plan import Plan
from eddyline.api.workload import Workload
from eddyline.cli import console
from eddyline.cli.answers import answer_table, show_notes
from eddyline.cli.console import app, err, out, tells_errors, until_told, working
from eddyline.cli.serving import PORT, server_for

_BUDGET, _LIVE_BUDGET = "256 KB", "96 KB"


@app.command()
@tells_errors
def demo(
    rows: Annotated[int, typer.Option(help="Rows inserted into each stream.", min=1_000)] = 200_000,
    budget: Annotated[
        str | None, typer.Option(help=f"Memory of everything kept: {_BUDGET}, live {_LIVE_BUDGET}.")
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="As a continuous run, shown in a browser until Ctrl-C.")
    ] = False,
    port: Annotated[int, typer.Option(help="The port of the live page.", min=0, max=65535)] = PORT,
) -> None:
    """Generate two skewed change streams and show estimates beside the exact answers."""
    with working("starting Spark"):
        spark = console.session()
    with tempfile.TemporaryDirectory() as folder:
        if live:
            _live(spark, Path(folder), budget or _LIVE_BUDGET, port)
        else:
            _once(spark, Path(folder), budget or _BUDGET, rows)
    spark.stop()


def _plan(budget: str, queries: dict[str, str]) -> Plan:
    from eddyline.spark import demo as streams  # noqa: PLC0415 - Spark only where it is used

    workload = Workload(budget=budget, seed=7)
    workload.stream("orders", streams.ORDERS, changes="change_type")
    workload.stream("visits", streams.VISITS, changes="weight")
    for name, text in queries.items():
        workload.query(name, text)
    return workload.plan()


def _once(spark: Any, folder: Path, budget: str, rows: int) -> None:
    from eddyline.spark import demo as streams  # noqa: PLC0415 - Spark only where it is used

    with working("writing two change streams with updates and deletes"):
        frames = streams.write_streams(spark, folder, rows)
    with working("eddyline: one pass over both streams"):
        state = _plan(budget, streams.QUERIES).sketch(spark, frames)
    with working("Spark: the exact answers on the net rows"):
        streams.net_views(frames)
        exact = {answer.query: answer.value for answer in streams.exact_answers(spark)}
    estimates = [state.answer(name) for name in streams.QUERIES]
    for estimate in estimates:
        show_notes(estimate)
    out.print(answer_table(estimates, exact))
    changes = sum(tally.rows for tally in state.snapshot.tallies.values())
    deletes = sum(tally.deletes for tally in state.snapshot.tallies.values())
    out.print(f"{changes:,} changes ({deletes:,} deletes) in {state.nbytes:,} bytes of state.")
    out.print("The same as a live page: ./scripts/demo --live", highlight=False)


def _live(spark: Any, folder: Path, budget: str, port: int) -> None:
    from eddyline.spark import demo as streams  # noqa: PLC0415 - Spark only where it is used
    from eddyline.spark.live_demo import LIVE_QUERIES, LiveStreams  # noqa: PLC0415

    made, written = _plan(budget, LIVE_QUERIES), LiveStreams(folder)
    written.write()
    schemas = {
        "orders": f"{streams.ORDERS}, _change_type STRING",
        "visits": f"{streams.VISITS}, weight INT",
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

    with run, until_told() as told:
        server = server_for(store, port=port, history=folder / "history.json", exact=exact)
        serving = Thread(target=server.run, name="eddyline-serve", daemon=True)
        serving.start()
        written.start()
        where = f"Open {server.address} and watch estimates follow the exact answers; Ctrl-C ends it."
        out.print(where, highlight=False)
        while not told.is_set() and not run.await_termination(1.0):
            pass
        err.print("stopping after the batches that were begun")
        written.stop()
        server.should_exit = True
        serving.join()
