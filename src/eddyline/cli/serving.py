"""Commands that show a store as it moves: `serve` in a browser, `mcp` to agents, `watch` in the terminal."""

import re
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group
from rich.live import Live
from rich.text import Text
from typer.core import TyperCommand

from eddyline.answer.groups.table import Groups
from eddyline.api.operations.sites import SitesFollower
from eddyline.api.pipeline import load_pipeline
from eddyline.api.state import State
from eddyline.api.store_tables import Follower, Sighting
from eddyline.cli.asking import answer_table
from eddyline.cli.console import app, err, out, reports_errors, until_stopped
from eddyline.errors import EddylineError, PipelineError
from eddyline.store import Reader, without_secrets

if TYPE_CHECKING:
    from eddyline.answer.estimate import Estimate
    from eddyline.serve.app import Server
    from eddyline.serve.postgres.server import WireServer
    from eddyline.serve.view import ExactAnswers
    from eddyline.serve.watcher import Watcher

HTTP_PORT = 8321
PG_ADDRESS = "127.0.0.1:8322"
"""Where `--pg` listens if it names no address: next to the port of HTTP."""
_SECONDS_FOR_STATE = 8.0
"""Seconds that a SQL client's statement waits for the first state: less than a statement may take."""
_ADDRESS = re.compile(r"(?:(?P<host>[\w.-]+|\[[0-9a-fA-F:]+\])?:)?(?P<port>\d{1,5})")
StoreOrPipeline = Annotated[
    str, typer.Argument(help="The store's directory or URI, or a pipeline file (TOML).")
]


class _ServeCommand(TyperCommand):
    """The command `serve`, whose option --pg may stand without an address."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Add the usual address behind a --pg that has none."""
        given = list(args)
        for place in [place for place, each in enumerate(given) if each == "--pg"][::-1]:
            if place + 1 == len(given) or not _ADDRESS.fullmatch(given[place + 1]):
                given.insert(place + 1, PG_ADDRESS)
        return super().parse_args(ctx, given)


@app.command(cls=_ServeCommand)
@reports_errors
def serve(
    stores: Annotated[
        list[str],
        typer.Argument(
            metavar="STORE...",
            help="The store's directory or URI, or a pipeline file (TOML); with --sites, several stores.",
        ),
    ],
    host: Annotated[
        str, typer.Option(help="The address to listen on; any other needs a token.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="The port to listen on, 0 for any that is free.", min=0, max=65535)
    ] = HTTP_PORT,
    token_file: Annotated[
        Path | None, typer.Option(help="A file with the token that clients must send.")
    ] = None,
    history: Annotated[
        Path | None,
        typer.Option(help="The file for the history of estimates; by default in the user's state folder."),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Start before the store exists; /readyz shows when it can be read.")
    ] = False,
    pg: Annotated[
        str | None,
        typer.Option(
            "--pg",
            metavar="[HOST:PORT]",
            help=f"Speak PostgreSQL's protocol, too, for SQL clients; {PG_ADDRESS} by default.",
        ),
    ] = None,
    pg_certificate: Annotated[
        Path | None, typer.Option(help="A file with the certificate (PEM) for TLS with SQL clients.")
    ] = None,
    pg_key: Annotated[
        Path | None, typer.Option(help="A file with the certificate's key, if it is not in the same file.")
    ] = None,
    sites: Annotated[
        bool, typer.Option("--sites", help="Serve the merged answers of several stores of one plan.")
    ] = False,
) -> None:
    """Serve a store's answers, while a run writes it or not: a live page, a JSON API, Prometheus metrics, SQL clients.

    With --token-file, SQL clients need the token as their password (SCRAM-SHA-256), under any user name.
    """
    found = [store_of(each) for each in stores]
    if len(found) > 1 and not sites:
        raise PipelineError("several stores are served together as sites of one plan: add --sites.")
    if pg is None and (pg_certificate or pg_key):
        raise PipelineError("--pg-certificate and --pg-key are for SQL clients: add --pg.")
    store = ", ".join(found)
    if not wait and not sites:
        Reader(store).current()
    follower = SitesFollower(found) if sites else None
    server = server_for(store, host, port, token_file, history, follower=follower)
    try:
        wire = None if pg is None else _wire_for(server.watcher, pg, token_file, pg_certificate, pg_key)
    except PipelineError:
        server.close()
        raise
    shown = ", ".join(map(without_secrets, found))
    out.print(f"{shown} is served at {server.address} (Ctrl-C ends it)", highlight=False, soft_wrap=True)
    if wire is not None:
        wire.start()
        pg_host, pg_port = wire.address
        out.print(
            f"SQL clients: psql -h {pg_host} -p {pg_port} -U eddyline eddyline",
            highlight=False,
            soft_wrap=True,
        )
    server.run()
    if wire is not None:
        wire.stop()


def _wire_for(
    watcher: "Watcher", address: str, token_file: Path | None, certificate: Path | None, key: Path | None
) -> "WireServer":
    """Return a server for SQL clients that listens already, of what a watcher sees."""
    try:
        from eddyline.serve.postgres.refusals import Refusal  # noqa: PLC0415 - an extra, only where it is used
        from eddyline.serve.postgres.server import wire_server  # noqa: PLC0415
        from eddyline.serve.security import read_token  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise PipelineError(f'--pg needs {error.name}: pip install "eddyline[serve]".') from error
    found = _ADDRESS.fullmatch(address)
    if found is None or int(found["port"]) > 65535:
        raise PipelineError(f"--pg {address!r} is not an address: write HOST:PORT, such as {PG_ADDRESS}.")
    host = (found["host"] or "127.0.0.1").strip("[]")
    password = read_token(token_file, host, "--pg")

    def newest() -> State:
        end = time.monotonic() + _SECONDS_FOR_STATE
        while (state := watcher.view.state) is None:
            problem = watcher.view.sighting.problem
            if problem or time.monotonic() > end:
                sentence = problem or "the store is being read"
                raise Refusal("57P03", sentence, hint="Try again in a moment.")
            time.sleep(0.05)
        return state

    return wire_server(newest, host, int(found["port"]), password=password, certificate=certificate, key=key)


def store_of(where: str) -> str:
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
    port: int = HTTP_PORT,
    token_file: Path | None = None,
    history: Path | None = None,
    exact: "ExactAnswers | None" = None,
    follower: SitesFollower | None = None,
) -> "Server":
    """Return a server of a store that listens already; `run()` serves until it is asked to end."""
    try:
        from eddyline.serve.app import server_of  # noqa: PLC0415 - an extra, only where it is used
        from eddyline.serve.security import read_token  # noqa: PLC0415
        from eddyline.serve.view import default_path  # noqa: PLC0415
        from eddyline.serve.watcher import Watcher  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise PipelineError(f'serving needs {error.name}: pip install "eddyline[serve]".') from error
    token = read_token(token_file, host)
    watcher = Watcher(store, history or default_path(store), exact=exact, follower=follower)
    return server_of(watcher, host, port, token)


@app.command()
@reports_errors
def mcp(store: StoreOrPipeline) -> None:
    """Serve a store to an agent over the Model Context Protocol, on standard input and output.

    Three tools: schema, ask (SQL) and explain. The agent's program starts this command; it ends with its input.
    """
    from eddyline.serve.mcp import McpServer  # noqa: PLC0415 - only where it is used

    found = store_of(store)
    Reader(found).current()
    McpServer(found).run(sys.stdin.buffer, sys.stdout.buffer)


@app.command()
@reports_errors
def watch(
    store: StoreOrPipeline,
    query: Annotated[
        list[str] | None, typer.Option(help="A query's name, or SQL text; all queries by default.")
    ] = None,
    every: Annotated[float, typer.Option(help="Seconds between two reads.", min=0.1)] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Read once, then end.")] = False,
) -> None:
    """Show a store's answers in the terminal as they move, until Ctrl-C."""
    store = store_of(store)
    Reader(store).current()
    follower = Follower(store)
    if once:
        seen = follower.look()
        out.print(_shown(seen, query))
        if seen.state is None or not all(_is_answered(seen.state, each) for each in query or ()):
            raise typer.Exit(1)
        return
    with until_stopped() as stopped:
        (_watch_live if out.is_terminal else _watch_lines)(follower, query, lambda: not stopped.wait(every))
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
    fresh = replace(state.origin.freshness, read_at=time.time()) if state.origin else None
    status = seen.problem or (f"written by {seen.writer}" if seen.writer else "no run writes this store now")
    return Group(Text(f"{status}; {fresh}", style="dim"), answer_table(estimates), *below)
