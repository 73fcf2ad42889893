"""Tables of Delta and Iceberg as frames: their rows, or the changes in a change feed or a changelog.

`changes = "change_type"` asks for changes. A stream of Delta then has the table's rows as inserts, followed by its
change data feed; a batch has the current rows of the table, as inserts. If options name a start, both have the
changes from there on. Iceberg has no stream of changes: its streams count appended rows and refuse everything else.
Options that skip changes are refused unless the pipeline has `may_lose_rows = true`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from eddyline.errors import PipelineError
from eddyline.spark.sources import SparkSource

DELTA, ICEBERG = "delta", "iceberg"
LAKES = (DELTA, ICEBERG)
_CHANGE = "_change_type"
_FEED = ("readchangefeed", "readchangedata")
_STARTS = ("startingversion", "startingtimestamp", "start-snapshot-id", "start-timestamp")
_STREAM_FROM = "stream-from-timestamp"
_PASSING_OVER = (
    "ignorechanges", "ignoredeletes", "ignorefiledeletion", "skipchangecommits", "excluderegex", "ignoremissingfiles",
    "ignorecorruptfiles", "streaming-skip-overwrite-snapshots", "streaming-skip-delete-snapshots",
)  # fmt: skip
_ENDS_LITERAL = re.compile(r"['\"`\\\x00-\x1f\x7f]")
_SETTINGS = ("spark.sql.files.ignoreMissingFiles", "spark.sql.files.ignoreCorruptFiles")


@dataclass(frozen=True)
class _Table:
    """A table of a lake, by its path or by its name in a catalog, and the options to read it with."""

    spark: SparkSession
    form: str
    path: str | None
    name: str | None
    options: dict[str, str]

    def read(self, *, streaming: bool = False, **more: str) -> DataFrame:
        """Return the frame for the table's options and additional ones."""
        reader = self.spark.readStream if streaming else self.spark.read
        reader = reader.format(self.form).options(**self.options, **more)
        return reader.load(self.path) if self.path is not None else reader.table(str(self.name))

    def rows(self) -> DataFrame:
        """Return the current rows of the table, even if changes are asked for."""
        held = {name: value for name, value in self.options.items() if name not in _STARTS}
        return _Table(self.spark, self.form, self.path, self.name, held).read()

    @property
    def started(self) -> bool:
        """Whether options name the first changes."""
        return any(name in self.options for name in _STARTS)


def table_rows(spark: SparkSession, source: SparkSource) -> DataFrame:
    """Return the rows or the changes of a table."""
    given = {name.lower(): value for name, value in source.options.items()}
    name = given.pop("table", None)
    if (source.path is None) == (name is None):
        raise PipelineError(
            f'stream {source.stream!r}: a {source.format} source needs either path = "..." or options = '
            '{ table = "schema.table" }.'
        )
    asked = any(given.pop(each, "").lower() == "true" for each in _FEED)
    feed = source.change.column == _CHANGE
    if asked and not feed:
        raise PipelineError(
            f"stream {source.stream!r}: readChangeFeed would count deleted rows as rows; say how rows show their "
            'change, with changes = "change_type".'
        )
    table = _Table(spark, source.format, source.path, name, given)
    if not source.may_lose_rows:
        _refuse_passing_over(source.stream, table, feed=feed)
    if feed and _CHANGE not in table.rows().columns:
        return _changes(source.stream, table, streaming=source.streaming)
    if table.form == ICEBERG and source.streaming:
        excused = source.resumed or source.may_lose_rows or _STREAM_FROM in given
        if not excused:
            _check_history(source.stream, table)
    return table.read(streaming=source.streaming)


def _changes(stream: str, table: _Table, *, streaming: bool) -> DataFrame:
    """Return the changes of a table; unless options name a start, its current rows come first."""
    if table.form == DELTA and (streaming or table.started):
        return table.read(streaming=streaming, readchangefeed="true")
    if streaming:
        raise PipelineError(
            f"stream {stream!r}: Iceberg has no stream of changes; take changes out if rows are only ever appended, or "
            "say batch = true, which reads the table once."
        )
    return _changelog(stream, table) if table.started else table.rows().withColumn(_CHANGE, sf.lit("insert"))


def _changelog(stream: str, table: _Table) -> DataFrame:
    """Return the inserts and deletes that Iceberg's own procedure reports for the snapshots that options name."""
    catalog, _, name = (table.name or "").partition(".")
    if not name:
        raise PipelineError(
            f"stream {stream!r}: Iceberg reports the changes of tables of a catalog only; give options = "
            '{ table = "catalog.schema.table" } instead of a path.'
        )
    view = f"eddyline_changes_of_{stream}"
    table.spark.sql(changelog_call(stream, catalog, name, view, table.options))
    return table.spark.table(view)


def changelog_call(stream: str, catalog: str, name: str, view: str, options: Mapping[str, str]) -> str:
    """Return the call of Iceberg's procedure; PipelineError if a value could end its literal.

    Such values are refused and not escaped: how Spark reads a backslash depends on a setting of the session.
    """
    for value in (catalog, name, view, *options, *options.values()):
        if _ENDS_LITERAL.search(value):
            raise PipelineError(
                f"stream {stream!r}: {value!r} has a quote, a backslash or a control character, and a table's name and "
                "options may not: remove it."
            )
    pairs = ", ".join(f"'{key}', '{value}'" for key, value in options.items())
    return (
        f"CALL `{catalog}`.system.create_changelog_view(table => '{name}', changelog_view => '{view}', "
        f"options => map({pairs}))"
    )


def _refuse_passing_over(stream: str, table: _Table, *, feed: bool) -> None:
    """Raise PipelineError if options, or settings of Spark, let changes be skipped silently."""
    given = table.options
    settings = [
        f'{name} = "{given[name]}"' for name in _PASSING_OVER if given.get(name, "false").lower() != "false"
    ]
    if given.get("failondataloss", "true").lower() == "false":
        settings.append('failOnDataLoss = "false"')
    settings += [f"{name} = true" for name in _SETTINGS if table.spark.conf.get(name) == "true"]
    if table.form == ICEBERG and table.started and not feed:
        settings.append('a start without changes = "change_type"')
    if settings:
        raise PipelineError(
            f"stream {stream!r}: {settings[0]} silently skips changes and rows that are gone; "
            "remove it, or set may_lose_rows = true in the stream's table if that is intended."
        )


def _check_history(stream: str, table: _Table) -> None:
    """Raise PipelineError if the first snapshots are gone: a stream of Iceberg begins at the first that exists."""
    plain = table.spark.read.format(ICEBERG)
    found = plain.load(f"{table.path}#snapshots") if table.path else plain.table(f"{table.name}.snapshots")
    parents = {row.snapshot_id: row.parent_id for row in found.collect()}
    if any(parent is not None and parent not in parents for parent in parents.values()):
        raise PipelineError(
            f"stream {stream!r}: the first snapshots of the table were expired, and a stream of Iceberg would miss the "
            "rows that they brought; say batch = true, which reads the table as it is, or name the time to start from "
            f"({_STREAM_FROM} in options) if earlier rows are not meant."
        )
