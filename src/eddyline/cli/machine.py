"""Commands about the machine: `warm` compiles the kernels, `doctor` checks what Spark needs."""

from pathlib import Path
from typing import Annotated

import typer

from eddyline.api import doctor as checks
from eddyline.api.pipeline import load_pipeline
from eddyline.api.warm import warm as warm_kernels
from eddyline.cli.console import app, out, reports_errors, working


@app.command()
@reports_errors
def warm() -> None:
    """Compile all kernels, so that the first pass does not wait for them: at setup, or when an image is built."""
    with working("compiling kernels"):
        warmed = warm_kernels()
    out.print(f"{warmed.kernels} kernels, {warmed.compiled} of them compiled now, kept in ", end="")
    out.print(str(warmed.folder), markup=False, highlight=False, soft_wrap=True)


@app.command()
@reports_errors
def doctor(
    pipeline: Annotated[
        Path | None, typer.Argument(help="A pipeline file: also check what its sources need.")
    ] = None,
    *,
    folder: Annotated[Path, typer.Option(help="A folder that state would be written to.")] = Path(),
    spark: Annotated[
        bool, typer.Option("--spark", help="Also start Spark and run a job on its workers: half a minute.")
    ] = False,
) -> None:
    """Check Python, Java, Spark, write access and a pipeline's sources, and say what to do about what is missing."""
    failed = False
    loaded = load_pipeline(pipeline) if pipeline is not None else None
    for check in checks.checks(folder, loaded, start_spark=spark):
        failed |= not check.fine
        out.print(f"{'[green]ok[/green]  ' if check.fine else '[red]FAIL[/red]'} {check.name}: ", end="")
        out.print(check.found, markup=False, highlight=False)
    if failed:
        raise typer.Exit(1)
