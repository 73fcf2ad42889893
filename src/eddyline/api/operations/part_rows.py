"""The first rows of a pipeline's sources as Arrow tables, and the number of all rows: input of `eddyline size`.

Parquet, CSV and JSON files on the local disk and tables of PostgreSQL are read here; Spark reads the rest, and
files that Arrow does not understand. Only columns that queries read are read. The first rows of every stream are
used, not a random part: in random parts of both sides hardly any rows would still join.
"""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from eddyline.api.jobs import FORGETFUL, check_files
from eddyline.api.pipeline import POSTGRES, Pipeline, StreamSource
from eddyline.errors import PipelineError
from eddyline.expressions.arrow_values import to_arrow
from eddyline.expressions.schema import parse_schema
from eddyline.ingest.arrow_path import referenced
from eddyline.ingest.changes import change_format
from eddyline.ingest.files import RECURSIVE, is_read, local_path
from eddyline.ingest.projection import stream_spec
from eddyline.ingest.stream_pass import projection_of
from eddyline.plan.layout import Layout
from eddyline.types import Column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MOST_ROWS = 2_000_000
"""The most rows read of all streams together: about a minute of measuring for ten joins."""
_SMALL = 10
"""Streams with at most 1/_SMALL of the rows of the largest are read whole, up to half of all rows that are read."""
_BLOCK = 1 << 20
_PLAIN_CSV = {"header", "sep", "multiline", "escape", RECURSIVE.lower()}
"""Options of CSV, in lower case, that are read here as Spark reads them: those that `eddyline init` writes."""
_PLAIN_JSON = {RECURSIVE.lower()}


class Rows(Protocol):
    """The rows of a source."""

    def count(self) -> int:
        """Return the number of rows, approximate if the source only estimates it."""

    def first(self, number: int) -> pa.Table:
        """Return the first `number` rows."""


def read_part(
    pipeline: Pipeline, layout: Layout, most: int, session: "Callable[[], SparkSession]"
) -> tuple[dict[str, pa.Table], dict[str, int]]:
    """Return the first rows of each stream of a pipeline, at most `most` in all, and the number of rows of each.

    session: called if a source needs Spark.
    """
    check_files(pipeline.streams)
    sources = {name: _rows_of(pipeline, name, layout, session) for name in pipeline.streams}
    rows = {name: source.count() for name, source in sources.items()}
    taken = allotted(rows, most)
    tables = {name: source.first(taken[name]) for name, source in sources.items()}
    for name, table in tables.items():  # a count may have been an estimate
        if table.num_rows < taken[name]:
            rows[name] = table.num_rows
    return tables, rows


def allotted(rows: Mapping[str, int], most: int) -> dict[str, int]:
    """Return how many rows to read of each stream: all of small ones, and the same share of the others.

    Joins need all keys of small streams; of large streams that join each other, they need rows of the same time.

    >>> allotted({"orders": 9_000, "lines": 30_000, "nations": 25}, 1_300)
    {'orders': 294, 'lines': 980, 'nations': 25}
    """
    if sum(rows.values()) <= most:
        return dict(rows)
    taken, largest = dict[str, int](), max(rows.values())
    for name in sorted(rows, key=lambda name: (rows[name], name)):
        if rows[name] <= largest / _SMALL and sum(taken.values()) + rows[name] <= most / 2:
            taken[name] = rows[name]
    share = (most - sum(taken.values())) / sum(own for name, own in rows.items() if name not in taken)
    return {name: taken.get(name, min(own, max(1, int(own * share)))) for name, own in rows.items()}


def _rows_of(pipeline: Pipeline, name: str, layout: Layout, session: "Callable[[], SparkSession]") -> Rows:
    source, columns = pipeline.streams[name], _columns(pipeline.streams[name], name, layout)
    if source.format == POSTGRES:
        if find_spec("psycopg") is None:
            raise PipelineError("PostgreSQL needs psycopg: pip install 'eddyline[postgres]'.")
        return _TableRows(name, source, columns)
    if source.format in FORGETFUL or source.format == "kafka":
        raise PipelineError(
            f"stream {name!r}: a part of a source of format {source.format!r} cannot be read: write rows of it to "
            "Parquet files, and size a pipeline of these."
        )
    options = {option.lower(): value for option, value in source.options.items()}
    files = _files(source, options)
    by_spark = _FrameRows(pipeline, name, columns, session)
    if files is None:
        return by_spark
    if source.format == "parquet" and options.keys() <= {RECURSIVE.lower()}:
        return _ParquetRows(name, files, columns, Path(str(source.path)))
    is_nested = change_format(name, source.changes).form == "debezium"
    if source.format == "csv" and options.keys() <= _PLAIN_CSV:
        return _TextRows(
            files, _csv_reader(source, columns, options), by_spark, header=options.get("header") == "true"
        )
    if source.format == "json" and options.keys() <= _PLAIN_JSON and not is_nested:
        return _TextRows(files, _json_reader(columns), by_spark, header=False)
    return by_spark


def _columns(source: StreamSource, name: str, layout: Layout) -> dict[str, Column | None]:
    """Return the columns that queries read, and those that carry the change, which have no declared type."""
    stream = layout.stream(name)
    names = referenced(projection_of(stream_spec(layout, name), stream.event_time))
    declared: dict[str, Column | None] = {column.name: column for column in stream.columns}
    change = change_format(name, source.changes)
    if change.form == "debezium":
        return dict.fromkeys(("op", "before", "after"))
    carried = [change.column] if change.column else []
    wanted = [*names, *carried] or [stream.columns[0].name]  # a table has rows only if it has a column
    return {each: declared.get(each) for each in wanted}


def _files(source: StreamSource, options: Mapping[str, str]) -> list[Path] | None:
    """Return the files of a source in the order of their names, None if Spark has to find them."""
    where = local_path(source.format, source.path)
    if where is None:
        return None
    if where.is_file():
        return [where]
    deep = _is_true(options, RECURSIVE.lower())
    found = [file for file in sorted(where.rglob("*")) if is_read(file, where)]
    return [file for file in found if deep or all("=" in part for part in file.relative_to(where).parts[:-1])]


def _is_true(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "false").lower() == "true"


class _ParquetRows:
    """Parquet files, with the columns in folder names such as `day=2026-01-31`."""

    def __init__(
        self, stream: str, files: Sequence[Path], columns: Mapping[str, Column | None], root: Path
    ) -> None:
        from pyarrow import dataset as ds  # noqa: PLC0415 - loads pandas where it is installed

        self._stream = stream
        self._columns = columns
        paths = [str(file) for file in files]
        folder = str(root if root.is_dir() else root.parent)
        self._dataset = self._read(
            lambda: ds.dataset(paths, format="parquet", partitioning="hive", partition_base_dir=folder)
        )

    def count(self) -> int:
        """Return the number of rows in the footers."""
        return int(self._read(self._dataset.count_rows))

    def first(self, number: int) -> pa.Table:
        """Return the first rows of the files in the order of their names."""
        lower = {name.lower() for name in self._columns}
        names = [name for name in self._dataset.schema.names if name.lower() in lower]
        return self._read(lambda: self._dataset.head(number, columns=names or None))

    def _read(self, what: Callable[[], Any]) -> Any:
        try:
            return what()
        except (OSError, ValueError, pa.ArrowException) as error:
            raise PipelineError(
                f"stream {self._stream!r} cannot be read as parquet: {str(error).splitlines()[0]}."
            ) from error


class _TextRows:
    """Files of lines, CSV or JSON; if Arrow does not understand them, Spark reads them."""

    def __init__(
        self,
        files: Sequence[Path],
        parse: Callable[[bytes], pa.Table],
        otherwise: Rows,
        *,
        header: bool,
    ) -> None:
        self._files = files
        self._parse = parse
        self._otherwise = otherwise
        self._header = header

    def count(self) -> int:
        """Return the number of lines: exact if no value has a line break."""
        return sum(max(self._lines(file) - self._header, 0) for file in self._files)

    def first(self, number: int) -> pa.Table:
        """Return the rows of the first lines."""
        tables: list[pa.Table] = []
        left = number
        if not number:
            return pa.table({})
        try:
            for file in self._files:
                if left <= 0:
                    break
                tables.append(self._parse(self._head(file, left + self._header)).slice(0, left))
                left -= tables[-1].num_rows
            return pa.concat_tables(tables, promote_options="default")
        except (pa.ArrowException, ValueError, KeyError):
            return self._otherwise.first(number)

    def _lines(self, file: Path) -> int:
        lines, last = 0, b"\n"
        for block in _blocks(file):
            lines, last = lines + block.count(b"\n"), block[-1:]
        return lines + (last != b"\n")

    def _head(self, file: Path, lines: int) -> bytes:
        """Return the first lines of a file."""
        blocks = list[bytes]()
        for block in _blocks(file):
            breaks = block.count(b"\n")
            if breaks >= lines:
                blocks.append(b"\n".join(block.split(b"\n", lines)[:lines]))
                break
            blocks.append(block)
            lines -= breaks
        return b"".join(blocks) + b"\n"


def _blocks(file: Path) -> Iterator[bytes]:
    """Yield the bytes of a file, decompressed if its name says so."""
    with pa.input_stream(str(file)) as stream:
        while block := bytes(stream.read(_BLOCK)):
            yield block


def _csv_reader(
    source: StreamSource, columns: Mapping[str, Column | None], options: Mapping[str, str]
) -> Callable[[bytes], pa.Table]:
    """Return the function that makes a table from CSV, as Spark reads it: nothing between separators is NULL."""
    from pyarrow import csv as pc  # noqa: PLC0415 - loads pandas where it is installed

    names = [column.name for column in parse_schema("", source.schema)]
    parsing = pc.ParseOptions(
        delimiter=options.get("sep", ","),
        newlines_in_values=_is_true(options, "multiline"),
        escape_char=False if options.get("escape") == '"' else "\\",
    )
    kinds = {name: to_arrow(column.type) for name, column in columns.items() if column is not None}
    converting = pc.ConvertOptions(
        column_types=kinds, include_columns=list(columns), null_values=[""], strings_can_be_null=True
    )
    reading = pc.ReadOptions() if _is_true(options, "header") else pc.ReadOptions(column_names=names)
    return lambda text: pc.read_csv(io.BytesIO(text), reading, parsing, converting)


def _json_reader(columns: Mapping[str, Column | None]) -> Callable[[bytes], pa.Table]:
    """Return the function that makes a table from lines of JSON."""
    from pyarrow import json as pj  # noqa: PLC0415 - loads pandas where it is installed

    kinds = {name: to_arrow(column.type) for name, column in columns.items() if column is not None}

    def parse(text: bytes) -> pa.Table:
        parsing = pj.ParseOptions(explicit_schema=pa.schema(kinds.items()))
        return pj.read_json(io.BytesIO(text), parse_options=parsing).select(list(columns))

    return parse


def count_table(stream: str, source: StreamSource) -> int:
    """Return how many rows a table of PostgreSQL has now, counted by its server."""
    return _TableRows(stream, source, {}).counted()


class _TableRows:
    """The rows that a table of PostgreSQL holds now, as inserts."""

    def __init__(self, stream: str, source: StreamSource, columns: Mapping[str, Column | None]) -> None:
        self._stream = stream
        self._dsn = source.options.get("dsn", "")
        self._table = source.options.get("table", "")
        self._columns = [column for column in columns.values() if column is not None]
        change = change_format(stream, source.changes)
        self._change = (change.column, next((word for word, weight in change.words.items() if weight > 0), 1))

    def count(self) -> int:
        """Return the number of rows by the planner's statistics of the table, counted if it has none."""
        from psycopg import sql  # noqa: PLC0415 - an optional extra

        asked = "SELECT coalesce((SELECT reltuples FROM pg_class WHERE oid = to_regclass(%s)), -1)::bigint"
        known = self._ask(sql.SQL(asked), (self._quoted,))[0][0]  # -1: never analyzed
        if known >= MOST_ROWS:
            return int(known)
        return self.counted()

    def counted(self) -> int:
        """Return the number of rows, counted by the server."""
        from psycopg import sql  # noqa: PLC0415 - an optional extra

        return int(self._ask(sql.SQL("SELECT count(*) FROM {}").format(self._name))[0][0])

    def first(self, number: int) -> pa.Table:
        """Return the rows that the server returns first."""
        from psycopg import sql  # noqa: PLC0415 - an optional extra

        chosen = [_as_declared(column) for column in self._columns] or [sql.SQL("1")]
        asked = sql.SQL("SELECT {} FROM {} LIMIT {}").format(sql.SQL(", ").join(chosen), self._name, number)
        rows = self._ask(asked)
        made = {}
        for place, column in enumerate(self._columns):
            try:
                made[column.name] = pa.array([row[place] for row in rows], to_arrow(column.type))
            except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
                raise PipelineError(
                    f"stream {self._stream!r}: column {column.name!r} of {self._table} has values that are not valid "
                    f"{column.type}: {error}."
                ) from error
        name, inserted = self._change
        return pa.table({**made, **({name: [inserted] * len(rows)} if name else {})})

    @property
    def _name(self) -> Any:
        from psycopg import sql  # noqa: PLC0415 - an optional extra

        table = self._table if "." in self._table else f"public.{self._table}"
        return sql.Identifier(*table.split(".", 1))

    @property
    def _quoted(self) -> str:
        return str(self._name.as_string(None))

    def _ask(self, asked: Any, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        import psycopg  # noqa: PLC0415 - an optional extra; `_rows_of` looked for it

        try:
            with psycopg.connect(self._dsn, autocommit=True) as connection:
                return connection.execute(asked, values or None).fetchall()
        except psycopg.Error as error:
            raise PipelineError(
                f"stream {self._stream!r}: the table {self._table} cannot be read: "
                f"{str(error).strip().splitlines()[0]}."
            ) from error


def _as_declared(column: Column) -> Any:
    """Return a column of PostgreSQL, cast to the declared type if Python would have another type."""
    from psycopg import sql  # noqa: PLC0415 - an optional extra

    name = sql.Identifier(column.name)
    if column.type.kind == "string":
        return sql.SQL("{}::text").format(name)
    if column.type.kind == "decimal":
        return sql.SQL("{}::" + str(column.type).lower().replace("decimal", "numeric")).format(name)
    return name


class _FrameRows:
    """The rows of a source that only Spark reads."""

    def __init__(
        self,
        pipeline: Pipeline,
        name: str,
        columns: Mapping[str, Column | None],
        session: "Callable[[], SparkSession]",
    ) -> None:
        self._pipeline = pipeline
        self._name = name
        self._columns = columns
        self._session = session
        self._loaded: DataFrame | None = None

    def count(self) -> int:
        """Return the number of rows, counted by Spark."""
        return int(self._answered(lambda frame: frame.count()))

    def first(self, number: int) -> pa.Table:
        """Return the first rows, as Spark returns them."""
        lower = {name.lower() for name in self._columns}

        def taken(frame: "DataFrame") -> pa.Table:
            names = [f"`{name}`" for name in frame.columns if name.lower() in lower]
            return frame.select(*names).limit(number).toArrow()

        return self._answered(taken)

    def _answered(self, ask: "Callable[[DataFrame], Any]") -> Any:
        from eddyline.api.pipeline import batch_source  # noqa: PLC0415 - Spark only where it is used
        from eddyline.spark.causes import SPARK_ERRORS, cause_of  # noqa: PLC0415
        from eddyline.spark.sources.frames import read_frame  # noqa: PLC0415

        try:
            if self._loaded is None:
                self._loaded = read_frame(self._session(), batch_source(self._pipeline, self._name))
            return ask(self._loaded)
        except SPARK_ERRORS as error:
            raise PipelineError(f"stream {self._name!r} cannot be read: {cause_of(error)}") from error
