"""Commands that show a store as it moves: `serve` in a browser, `watch` in the terminal."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text

from eddyline.answer.groups.table import Groups
from eddyline.api.follow import Follower, Sighting
from eddyline.api.pipeline import load_pipeline
from eddyline.api.state import State
from eddyline.cli.answers import answer_table
from eddyline.cli.console import app, err, out, tells_errors, until_told
from eddyline.errors import EddylineError, PipelineError
from eddyline.store import Reader

if TYPE_CHECKING:
    from eddyline.answer.estimate import Estimate
    from eddyline.serve.app import Server
    from eddyline.serve.view import ExactAnswers

PORT = 8321
StoreOrPipeline = Annotated[
    str, typer.Argument(help="The store's directory or URI, or a pipeline file (TOML).")
]


@app.command()
@tells_errors
def serve(
    store: StoreOrPipeline,
    host: Annotated[
        str, typer.Option(help="The address to listen on; any other demands a token.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="The port to listen on, 0 for any that is free.", min=0, max=65535)
    ] = PORT,
    token_file: Annotated[
        Path | None, typer.Option(help="A file with the token that clients have to send.")
    ] = None,
    history: Annotated[
        Path | None,
        typer.Option(
            help="The file that the history of estimates is kept in; by default with the user's state."
        ),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Begin before there is a store; /readyz says when it can be read.")
    ] = False,
) -> None:
    """Serve a store's answers: a live page, a JSON API and Prometheus metrics, while a run writes the store or not."""
    store = _store_of(store)
    if not wait:
        Reader(store).current()
    server = server_for(store, host, port, token_file, history)
    out.print(f"{store} is served at {server.address} (Ctrl-C ends it)", highlight=False, soft_wrap=True)
    server.run()


def _store_of(where: str) -> str:
    """Return the store of a pipeline file; any other path is a store's own."""
    if not where.endswith(".toml"):
        return where
    store = load_pipeline(Path(where)).workload.store
    if store is None:
        raise PipelineError(
            f'the pipeline {where} keeps no store to serve: add store = "state" to [workload].'
        )
    return store


def server_for(
    store: str,
    host: str = "127.0.0.1",
    port: int = PORT,
    token_file: Path | None = None,
    history: Path | None = None,
    exact: "ExactAnswers | None" = None,
) -> "Server":
    """Return a server of a store that listens already; `run()` serves until it is told to end."""
    try:
        from eddyline.serve.app import server_of  # noqa: PLC0415 - an extra, only where it is used
        from eddyline.serve.history import default_path  # noqa: PLC0415
        from eddyline.serve.security import read_token  # noqa: PLC0415
        from eddyline.serve.watcher import Watcher  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise PipelineError(f'serving needs {error.name}: pip install "eddyline[serve]".') from error
    token = read_token(token_file, host)
    watcher = Watcher(store, history or default_path(store), exact=exact)
    return server_of(watcher, host, port, token)


@app.command()
@tells_errors
def watch(
    store: StoreOrPipeline,
    query: Annotated[
        list[str] | None, typer.Option(help="A query's name, or SQL text; all queries by default.")
    ] = None,
    every: Annotated[float, typer.Option(help="Seconds between two looks.", min=0.1)] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Look once, then end.")] = False,
) -> None:
    """Show a store's answers in the terminal as they move, until Ctrl-C."""
    store = _store_of(store)
    Reader(store).current()
    follower = Follower(store)
    if once:
        seen = follower.look()
        out.print(_shown(seen, query))
        if seen.state is None or not all(_is_answered(seen.state, each) for each in query or ()):
            raise typer.Exit(1)
        return
    with until_told() as told:
        (_watch_live if out.is_terminal else _watch_lines)(follower, query, lambda: not told.wait(every))
    err.print("stopped watching; the store goes on", highlight=False)


def _watch_live(follower: Follower, queries: list[str] | None, goes_on: Callable[[], bool]) -> None:
    """Show the newest answers in place of the last."""
    with Live(_shown(follower.look(), queries), console=out, auto_refresh=False) as live:
        while goes_on():
            live.update(_shown(follower.look(), queries), refresh=True)


def _watch_lines(follower: Follower, queries: list[str] | None, goes_on: Callable[[], bool]) -> None:
    """Print the answers whenever there is something new: for files and pipes."""
    before = follower.look()
    out.print(_shown(before, queries))
    while goes_on():
        seen = follower.look()
        if seen.is_news_after(before):
            out.print(_shown(seen, queries))
        before = seen


def _is_answered(state: State, query: str) -> bool:
    try:
        state.answer(query)
    except EddylineError:
        return False
    return True


def _shown(seen: Sighting, queries: list[str] | None) -> Group:
    """Return what the terminal shows of a sighting: estimates, groups, refusals, and how fresh they are."""
    state = seen.state
    if state is None:
        return Group(Text(seen.problem or "the store has no epoch yet"))
    estimates: list[Estimate] = []
    below: list[Text] = []
    for query in queries or state.snapshot.layout.query_names:
        try:
            answer = state.answer(query)
        except EddylineError as error:
            below.append(Text(f"{query}: {error}", style="red"))
            continue
        if isinstance(answer, Groups):
            below.append(Text(f"\n{query}\n{answer}"))
        else:
            estimates.append(answer)
        below += [Text(f"{query}: {note}", style="yellow") for note in answer.notes]
    fresh = replace(state.origin.freshness, read_at=time()) if state.origin else None
    status = seen.problem or (f"written by {seen.writer}" if seen.writer else "no run writes this store now")
    return Group(Text(f"{status}; {fresh}", style="dim"), answer_table(estimates), *below)
