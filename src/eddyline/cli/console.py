"""What all commands share: the application, its two consoles, and how errors and long work are told."""

import atexit
import os
import signal
import sys
import tempfile
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
from eddyline.api.pipeline import Pipeline, SparkSettings
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
            _jvm_log.keep()
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


def session(pipeline: Pipeline | None = None) -> Any:
    """Return a local Spark session as a pipeline asks for; imported here because all else runs without Spark.

    What the JVM itself says goes to a file: its errors reach us as exceptions, and are told in a sentence.
    """
    from eddyline.spark.session import (  # noqa: PLC0415 - Spark only where it is used
        leave_signals_to_python,
        local_session,
    )

    given = pipeline.spark if pipeline is not None else SparkSettings()
    formats = pipeline.formats if pipeline is not None else ()
    with _jvm_log.taking_over():
        started = local_session(packages=given.packages, jars=given.jars, conf=given.conf, formats=formats)
    leave_signals_to_python(started)
    return started


class _JvmLog:
    """The file that the JVM of a command writes to, in place of the terminal; EDDYLINE_SPARK_LOG names another."""

    def __init__(self) -> None:
        self.path: Path | None = None

    @contextmanager
    def taking_over(self) -> Iterator[None]:
        """Let what is started within write its errors to the file."""
        named = os.environ.get("EDDYLINE_SPARK_LOG")
        descriptor, name = (
            (os.open(named, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), named)
            if named
            else tempfile.mkstemp(prefix="eddyline-spark-", suffix=".log")
        )
        self.path = Path(name)
        if not named:
            atexit.register(self.path.unlink, missing_ok=True)
        sys.stderr.flush()
        terminal = os.dup(2)
        os.dup2(descriptor, 2)
        try:
            yield
        finally:
            os.dup2(terminal, 2)
            os.close(terminal)
            os.close(descriptor)

    def keep(self) -> None:
        """Say where the file is, and let it stay: something went wrong."""
        if self.path is not None and self.path.exists() and self.path.stat().st_size > 0:
            atexit.unregister(self.path.unlink)
            err.print(f"[dim]what Spark says of it is in {self.path}[/dim]", highlight=False, soft_wrap=True)


_jvm_log = _JvmLog()
