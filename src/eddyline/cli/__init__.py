"""The command line: argument parsing and printing, nothing else. One module for each kind of command."""

import gc

# Collections find nothing to free among the hundred thousand objects that modules make, and take a tenth of a start.
_was_enabled = gc.isenabled()
gc.disable()
try:
    from eddyline.cli import (  # noqa: F401 - in the order of --help
        asking,
        demo,
        planning,
        running,
        serving,
        terminal,
    )
    from eddyline.cli.console import app, main
finally:
    if _was_enabled:
        gc.enable()

__all__ = ["app", "main"]
