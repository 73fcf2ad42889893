"""What speaks against the sources of a pipeline, found before Spark starts, which takes half a minute."""

from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from eddyline.api.pipeline import Pipeline, StreamSource
from eddyline.errors import EddylineError, PipelineError

POSTGRES = "eddyline-postgres"
FORGETFUL = ("rate", "rate-micro-batch", "rate-per-micro-batch", "socket", POSTGRES)
"""Formats of sources that are followed from where they are: they give no row a second time, nor all rows at once."""


def check_one_pass(sources: Mapping[str, StreamSource]) -> None:
    """Raise PipelineError where a source cannot be read in one pass, but only followed."""
    for name, source in sources.items():
        if source.format in FORGETFUL:
            raise PipelineError(
                f"stream {name!r}: a source of format {source.format!r} is followed by `eddyline run`, and one pass "
                "cannot read it: start `eddyline run FILE --once`, which takes what is there into the store, and then "
                "`eddyline ask FILE` answers from the store."
            )


def check_logins(pipeline: Pipeline, begun: Collection[str] = ()) -> None:
    """Raise what the server of a PostgreSQL source refuses: a login, or a table that is not as a stream needs it.

    begun: streams that go on from a checkpoint; whether their tables still fit is checked against that, later.
    """
    for _, error in logins(pipeline, begun):
        if error is not None:
            raise error


def logins(pipeline: Pipeline, begun: Collection[str] = ()) -> Iterator[tuple[str, EddylineError | None]]:
    """Yield each stream of a PostgreSQL table, and what speaks against reading it; all servers are asked at a time."""
    streams = [name for name, source in pipeline.streams.items() if source.format == POSTGRES]
    with ThreadPoolExecutor(max(len(streams), 1)) as pool:
        yield from zip(streams, pool.map(lambda name: _refused(pipeline, name, begun), streams), strict=True)


def _refused(pipeline: Pipeline, name: str, begun: Collection[str]) -> EddylineError | None:
    from eddyline.api.sources import run_source  # noqa: PLC0415 - Spark only where it is used
    from eddyline.spark.postgres import check_table_source  # noqa: PLC0415
    from eddyline.sql.schema import parse_schema  # noqa: PLC0415

    source = run_source(pipeline, name, resumed=name in begun)
    names = None if name in begun else [column.name for column in parse_schema(name, source.schema)]
    try:
        check_table_source(dict(source.options), names)
    except EddylineError as error:
        return type(error)(f"stream {name!r}: {error}")
    return None
