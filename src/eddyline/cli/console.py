"""What all commands share: the application, its consoles, errors, and the progress of a run."""

import atexit
import gc
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from functools import wraps
from importlib.abc import MetaPathFinder
from pathlib import Path
from threading import Event
from time import perf_counter
from types import FrameType
from typing import Annotated, Any, ParamSpec, TypeVar

import typer
from rich.console import Console
from rich.status import Status

import eddyline
from eddyline.answer.freshness import plain_time
from eddyline.api.pipeline import Pipeline, SparkSettings
from eddyline.api.run import Run
from eddyline.errors import EddylineError

# What all commands share: the application, its two consoles, and how errors and long work are reported.


app = typer.Typer(
    name="eddyline",
    help="SQL aggregates over streams of inserts and deletes, from a fixed memory budget.",
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


def reports_errors(command: Callable[P, R]) -> Callable[P, R]:
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
    """Show that a long step is running, and then how long it took."""
    start = perf_counter()
    with err.status(what):
        yield
    err.print(f"[dim]{what} ({perf_counter() - start:.1f} s)[/dim]")


@contextmanager
def until_stopped() -> Iterator[Event]:
    """Yield an event that Ctrl-C and SIGTERM set; the second Ctrl-C ends the process at once.

    The first one raises nothing, because it may come in the middle of a call into the JVM.
    """
    shown = Event()

    def stop(number: int, frame: FrameType | None) -> None:
        if shown.is_set():
            signal.default_int_handler(number, frame)
        shown.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield shown
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_process = Event()
"""Set where this process is the command itself, and not a program that calls it."""


def main() -> None:
    """Run the command line as a process of its own."""
    _process.set()
    gc.freeze()  # no collection looks again at what modules made
    app()


class _NoPandas(MetaPathFinder):
    """An import hook by which pandas is not found, as if it were not installed."""

    def find_spec(self, fullname: str, *_: object) -> None:
        """Raise ModuleNotFoundError for pandas; other modules are left to other hooks."""
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is left out of this process", name=fullname)


def leave_pandas_out() -> None:
    """Keep pyarrow from importing pandas in this process, which would take longer than the rest of asking a store.

    pyarrow imports it at the first `to_numpy`, to recognize frames; asking a store uses none.
    """
    if _process.is_set() and "pandas" not in sys.modules:
        sys.meta_path.insert(0, _NoPandas())


def session(pipeline: Pipeline | None = None) -> Any:
    """Return a local Spark session with a pipeline's settings; Spark is imported only here.

    The output of the JVM goes to a file. Its errors reach us as exceptions, and are printed as sentences.
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
    """The file to which the JVM of a command writes instead of the terminal; EDDYLINE_SPARK_LOG names another."""

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
        """Print where the file is, and keep it: something went wrong."""
        if self.path is not None and self.path.exists() and self.path.stat().st_size > 0:
            atexit.unregister(self.path.unlink)
            err.print(f"[dim]Spark's output is in {self.path}[/dim]", highlight=False, soft_wrap=True)


_jvm_log = _JvmLog()


# How a run is doing, shown while it runs: a line that moves on a terminal, a line every ten seconds
# elsewhere.


_EVERY = 10.0


class LogFormat(StrEnum):
    """How progress is reported where there is no terminal."""

    text = "text"
    json = "json"


class Progress:
    """Prints the progress of a run, at most every few seconds."""

    def __init__(self, run: Run, form: LogFormat, status: Status | None) -> None:
        self._run = run
        self._form = form
        self._status = status
        self._last_report = 0.0
        self._noted: set[str] = set()

    def note(self) -> None:
        """Print notes of the input check and warnings of streams, each one once."""
        for each in self._run.progress().values():
            found = {note: note for note in each.notes}
            if each.warning is not None:
                found[each.stream] = f"stream {each.stream!r}: {each.warning}"  # its numbers keep changing
            for about, shown in found.items():
                if about not in self._noted:
                    said = f"note: {shown}" if self._form is LogFormat.text else json.dumps({"note": shown})
                    err.print(said, markup=False, highlight=False, soft_wrap=True)
                self._noted.add(about)

    def report(self) -> None:
        """Print how the run is doing, if it is time to."""
        self.note()
        if self._status is not None:
            self._status.update(f"running: {self.text()}")
        elif time.monotonic() - self._last_report >= _EVERY:
            self._last_report = time.monotonic()
            shown = self.text() if self._form is LogFormat.text else json.dumps(self.numbers())
            err.print(shown, markup=False, highlight=False, soft_wrap=True)

    def numbers(self) -> dict[str, object]:
        """Return the progress as plain values, ready for JSON."""
        fresh, streams = self._run.freshness, self._run.progress()
        rates = [each.rows_per_second for each in streams.values() if each.rows_per_second is not None]
        return {
            "time": plain_time(time.time()),
            "epoch": fresh.epoch,
            "rows": fresh.rows,
            "rows_per_second": round(sum(rates), 1) if rates else None,
            "deletes": fresh.deletes,
            "bad": fresh.bad,
            "late": fresh.late,
            "lag": fresh.lag,
            "state_bytes": self._run.state().nbytes,
            "streams": {name: each.status for name, each in streams.items()},
            "logs": {
                name: {"behind_bytes": each.behind, "retained_bytes": each.retained}
                for name, each in streams.items()
                if each.behind is not None
            },
            "notes": [note for each in streams.values() for note in each.notes],
        }

    def text(self) -> str:
        """Return the progress in words."""
        shown = self.numbers()
        waits = "".join(f"; {name} {what}" for name, what in self._run.waiting().items())
        rate = f", {shown['rows_per_second']:,} rows/s" if shown["rows_per_second"] else ""
        late = f"{self._run.freshness.late:,} late, {shown['state_bytes']:,} bytes of state"
        return f"{self._run.freshness}{rate}, {late}{self._logs()}{waits}"

    def _logs(self) -> str:
        """Return how far streams of PostgreSQL tables are behind the server's log."""
        streams = [each for each in self._run.progress().values() if each.behind is not None]
        return "".join(
            f"; {each.stream} {f'{each.behind:,} bytes behind, ' if each.behind else ''}"
            f"{each.retained:,} bytes of log kept"
            for each in streams
        )


@contextmanager
def progress_of(run: Run, form: LogFormat) -> Iterator[Progress]:
    """Yield what shows the progress of a run, on a terminal in one line that moves."""
    if err.is_terminal and form is LogFormat.text:
        with err.status("running") as status:
            yield Progress(run, form, status)
    else:
        yield Progress(run, form, None)
