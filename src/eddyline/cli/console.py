"""What all commands share: the application, its two consoles, and how errors and long work are told."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from threading import Event
from time import perf_counter
from types import FrameType
from typing import Annotated, Any, ParamSpec, TypeVar

import typer
from rich.console import Console

import eddyline
from eddyline.api.pipeline import SparkSettings
from eddyline.errors import EddylineError

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
StorePath = Annotated[str, typer.Argument(help="The store's directory or URI.")]


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


def tells_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Return the command with our errors printed as one sentence and exit code 1."""

    @wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except EddylineError as error:
            print_error(error)
            raise typer.Exit(1) from error

    return wrapped


def print_error(error: EddylineError, about: str = "") -> None:
    """Print one of our errors as a sentence."""
    err.print(f"[red]{type(error).__name__}[/red]: ", end="")
    err.print(f"{about}{error}", markup=False, highlight=False, soft_wrap=True)


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show that something long is under way, and how long it took."""
    start = perf_counter()
    with err.status(what):
        yield
    err.print(f"[dim]{what} ({perf_counter() - start:.1f} s)[/dim]")


@contextmanager
def until_told() -> Iterator[Event]:
    """Yield an event that Ctrl-C and SIGTERM set; the second Ctrl-C ends the process at once.

    The first one raises nothing, because it may come in the middle of a call into the JVM.
    """
    told = Event()

    def tell(number: int, frame: FrameType | None) -> None:
        if told.is_set():
            signal.default_int_handler(number, frame)
        told.set()

    before = {number: signal.signal(number, tell) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def session(settings: SparkSettings | None = None) -> Any:
    """Return a local Spark session as a pipeline asks for; imported here because all else runs without Spark."""
    from eddyline.spark.session import local_session  # noqa: PLC0415 - Spark only where it is used

    given = settings or SparkSettings()
    return local_session(packages=given.packages, jars=given.jars, conf=given.conf)
