"""The command line: argument parsing and printing, nothing else. One module for each kind of command."""

from eddyline.cli import drafting, planning, asking, running, serving, demo, machine  # noqa: F401, I001 - in the order of --help
from eddyline.cli.console import app

__all__ = ["app"]
