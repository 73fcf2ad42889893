"""The command line: argument parsing and printing, nothing else. One module for each kind of command."""

from eddyline.cli import (  # noqa: F401 - in the order of --help
    asking,
    demo,
    planning,
    running,
    serving,
    terminal,
)
from eddyline.cli.console import app, main

__all__ = ["app", "main"]
