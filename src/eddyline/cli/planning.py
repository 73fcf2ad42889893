"""Commands before any row: `plan` and `analyze`."""

from pathlib import Path
from typing import Annotated

import typer

from eddyline.api.batch_job import analyze as batch_analyze
from eddyline.api.batch_job import check_files
from eddyline.api.pipeline import load_pipeline
from eddyline.api.source_checks import check_one_pass
from eddyline.api.workload import ANALYSIS_BUDGET
from eddyline.cli import console
from eddyline.cli.console import PipelineFile, app, out, tells_errors, working
from eddyline.errors import PlanError


@app.command()
@tells_errors
def plan(
    pipeline: PipelineFile,
    form: Annotated[str, typer.Option(help="text, mermaid, or svg: a picture of who shares what.")] = "text",
) -> None:
    """Print what a pipeline keeps, who shares it, what it costs and how well it will answer. Needs no Spark."""
    explained = load_pipeline(pipeline).plan().explain(form)  # type: ignore[arg-type]
    out.print(explained, markup=False, highlight=False, soft_wrap=form != "text")


@app.command()
@tells_errors
def analyze(
    pipeline: PipelineFile,
    output: Annotated[
        Path | None, typer.Option("--out", help="Where to write them; by default where the file names them.")
    ] = None,
    budget: Annotated[str, typer.Option(help="Memory of the analysis itself.")] = ANALYSIS_BUDGET,
) -> None:
    """Write statistics of a pipeline's streams, by which its memory is shared out: one pass over its sources."""
    loaded = load_pipeline(pipeline)
    where = output or (Path(loaded.workload.statistics) if loaded.workload.statistics else None)
    if where is None:
        raise PlanError('say where the statistics go: --out FILE, or statistics = "FILE" in [workload].')
    check_one_pass(loaded.streams)
    check_files(loaded.streams)
    with working("starting Spark"):
        spark = console.session(loaded)
    with working("one pass over the sources"):
        statistics = batch_analyze(spark, loaded, budget)
    spark.stop()
    where.write_text(statistics.to_json(), encoding="utf-8")
    out.print(f"{len(statistics.relations)} relations and {len(statistics.sizes)} joins in {where}")
