"""The sources of a pipeline file, as the Spark side reads them."""

from dataclasses import replace

from eddyline.api.pipeline import Pipeline, StreamSource
from eddyline.spark.postgres import FORMAT as POSTGRES
from eddyline.spark.sources.source import Source


def batch_source(pipeline: Pipeline, name: str) -> Source:
    """Return the source of a stream that is read once, as it is now."""
    given = pipeline.streams[name]
    return Source(
        name,
        given.format,
        given.path,
        given.schema,
        given.changes,
        given.options,
        may_lose_rows=given.may_lose_rows,
    )


def run_source(pipeline: Pipeline, name: str, *, resumed: bool) -> Source:
    """Return the source of a stream for a run; PostgreSQL sources that name the same slot share it."""
    given, slots = pipeline.streams[name], [_slot(each) for each in pipeline.streams.values()]
    is_shared = _slot(given) is not None and slots.count(_slot(given)) > 1
    options = {"shared": "true", **given.options} if is_shared else given.options
    return replace(batch_source(pipeline, name), options=options, streaming=not given.batch, resumed=resumed)


def _slot(source: StreamSource) -> tuple[str | None, str] | None:
    """Return the database and slot that a source names, None if it names none."""
    slot = source.options.get("slot")
    return None if source.format != POSTGRES or slot is None else (source.options.get("dsn"), slot)
