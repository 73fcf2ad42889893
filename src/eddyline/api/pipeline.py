"""Pipeline files: a workload, its sources and its store in one TOML file.

[workload]                       # budget or error, confidence, seed, objective, timezone, store, statistics
budget = "8 MB"
store = "state"
statistics = "statistics.json"   # optional: what `eddyline analyze` wrote

[streams.orders]
schema = "o_orderkey BIGINT, o_custkey BIGINT"
changes = "change_type"          # optional
event_time = "o_time"            # optional: the TIMESTAMP column that windows go by
derive = { day = "to_date(o_time)" }   # optional: columns computed from the row, for all queries
explore = ["o_custkey"]          # optional: columns that ad hoc SQL may ask for; ["*"] for all
format = "parquet"               # any format that Spark reads
path = "data/orders"             # optional, relative to this file
options = { mergeSchema = "true" }
batch = false                    # true: `eddyline run` reads it once, not as a stream
may_lose_rows = false            # true: a Kafka topic or a table may drop what was not read

[postgres]                       # optional: instead of streams, the tables of a database, every column explored
dsn = "host=localhost dbname=shop"
tables = ["orders"]              # optional: all by default
slot = "eddyline_shop"           # optional: the replication slot through which all of them are read

[run]                            # optional: how `eddyline run` keeps the store current
trigger = "10 seconds"           # by default a batch follows the last
checkpoint = "checkpoints"       # by default in the store
on_bad = "dead-letter"           # fail (default), skip, dead-letter
on_unseen_delete = "fail"        # deletes of rows that were never inserted: note (default) in answers, or fail
dead_letter = "bad-rows"
keep = "hourly for 7 days, daily for 90 days, at most 1 GB"   # epochs of the store; by default the last 3

[spark]                          # optional: what Spark starts with
packages = ["org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3"]   # `eddyline doctor FILE` says which fit
jars = ["jars"]                  # files, or folders of jars
conf = { "spark.driver.memory" = "2g" }

[queries]
volume = "SELECT COUNT(*) FROM orders"
likes = { sql = "SELECT SUM(n) FROM orders", weight = 4 }    # its squared error counts four times
recent = { sql = "SELECT COUNT(*) FROM orders", window = "1 hour", slide = "5 minutes" }   # needs event_time

[alerts.few]                     # optional: sent by `eddyline run`, once per crossing
query = "volume"
when = "< 0.95 * value 7 days ago"
webhook = "https://example.org/hook"
"""

import re
import tomllib
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from eddyline.api.alerts import Alert, check_alerts
from eddyline.api.drafts.pipeline_text import schema_text
from eddyline.api.drafts.tables import drafts_of_tables, slot_name
from eddyline.api.plan import Plan
from eddyline.api.run import OnBad, OnUnseenDelete
from eddyline.api.state import State
from eddyline.api.workload import Workload
from eddyline.errors import PipelineError
from eddyline.ingest.files import FILE_FORMATS
from eddyline.plan.demands import DEFAULT_METHOD, Method, Partitions
from eddyline.plan.layout import Layout
from eddyline.plan.sharing.coalesce import ObjectiveName
from eddyline.plan.size.specs import MOST_DISTINCT
from eddyline.plan.statistics import Statistics
from eddyline.sketch.keys import HashFamily

if TYPE_CHECKING:
    from eddyline.spark.sources import SparkSource

POSTGRES = "eddyline-postgres"
"""The format of streams of PostgreSQL tables; `spark/postgres/` reads it."""


class StreamSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A stream of a pipeline file: its schema and where Spark reads it."""

    schema: str
    format: str
    path: str | None = None
    changes: str | None = None
    event_time: str | None = None
    explore: list[str] | None = None
    derive: dict[str, str] = {}
    options: dict[str, Any] = {}
    batch: bool = False
    may_lose_rows: bool = False


class QueryText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A query of a pipeline file with settings of its own."""

    sql: str
    method: Method | None = None
    weight: float = 1.0
    window: str | None = None
    slide: str | None = None
    guarantee: tuple[float, float] | None = None
    partitions: Partitions = "auto"


class WorkloadSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The [workload] table of a pipeline file."""

    budget: str | int | None = None
    error: float | None = None
    confidence: float = 0.95
    seed: int = 0
    objective: ObjectiveName = "average"
    timezone: str | None = None
    samples: bool = True
    method: Method = DEFAULT_METHOD
    hash: HashFamily = "mix"
    max_distinct: int = MOST_DISTINCT
    guarantee: tuple[float, float] | None = None
    store: str | None = None
    statistics: str | None = None


class RunSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The [run] table of a pipeline file."""

    trigger: str | None = None
    checkpoint: str | None = None
    on_bad: OnBad = "fail"
    on_unseen_delete: OnUnseenDelete = "note"
    dead_letter: str | None = None
    keep: int | str = 3


class SparkSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The [spark] table of a pipeline file: what Spark starts with."""

    packages: list[str] = []
    jars: list[str] = []
    conf: dict[str, str] = {}


class PostgresDatabase(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The [postgres] table of a pipeline file: a database whose tables are the streams, read through one slot."""

    dsn: str
    tables: list[str] = []
    slot: str | None = None


class Pipeline(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A pipeline file as it is written."""

    streams: dict[str, StreamSource] = {}
    postgres: PostgresDatabase | None = None
    queries: dict[str, str | QueryText] = {}
    workload: WorkloadSettings = WorkloadSettings()
    run: RunSettings = RunSettings()
    spark: SparkSettings = SparkSettings()
    alerts: dict[str, Alert] = {}

    @property
    def formats(self) -> set[str]:
        """The formats of the streams."""
        return {source.format for source in self.streams.values()}

    def build(self) -> Workload:
        """Return the workload that the file declares."""
        settings = self.workload
        workload = Workload(
            budget=settings.budget,
            error=settings.error,
            confidence=settings.confidence,
            seed=settings.seed,
            objective=settings.objective,
            timezone=settings.timezone or self.spark.conf.get("spark.sql.session.timeZone"),
            samples=settings.samples,
            method=settings.method,
            hash=settings.hash,
            max_distinct=settings.max_distinct,
            guarantee=settings.guarantee,
        )
        for name, source in self.streams.items():
            workload.stream(
                name,
                source.schema,
                changes=source.changes,
                event_time=source.event_time,
                derive=source.derive,
            )
            if source.explore == []:
                raise PipelineError(
                    f'stream {name!r}: explore names no column: write explore = ["*"] for all.'
                )
            if source.explore is not None:
                workload.explore(name, *source.explore)
        for name, query in self.queries.items():
            asked = QueryText(query) if isinstance(query, str) else query
            workload.query(
                name,
                asked.sql,
                method=asked.method,
                weight=asked.weight,
                window=asked.window,
                slide=asked.slide,
                guarantee=asked.guarantee,
                partitions=asked.partitions,
            )
        return workload

    def plan(self, keep: Layout | State | None = None) -> Plan:
        """Return the plan of the file's workload, with its statistics if it names any."""
        made = self.build().plan(statistics=self.statistics(), keep=keep)
        return made.reading({name: source.format for name, source in self.streams.items()})

    def statistics(self) -> Statistics | None:
        """Return the statistics that the file names, if any."""
        where = self.workload.statistics
        if where is None:
            return None
        try:
            text = Path(where).read_text(encoding="utf-8")
        except OSError as error:
            raise PipelineError(
                f"the statistics {where!r} cannot be read: {error.strerror}; write them with `eddyline analyze`, or "
                "take the line out of the pipeline file."
            ) from error
        return Statistics.from_json(text)


def load_pipeline(path: Path) -> Pipeline:
    """Return the pipeline of a TOML file, paths resolved against the file's folder, or raise PipelineError."""
    try:
        return parse_pipeline(path.read_text(encoding="utf-8"), path)
    except OSError as error:
        raise PipelineError(f"the pipeline file {str(path)!r} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise PipelineError(f"the pipeline file {str(path)!r} is invalid: {error}.") from error


def parse_pipeline(text: str, path: Path) -> Pipeline:
    """Return the pipeline of a file's content, paths resolved against the file's folder, or raise PipelineError."""
    try:
        pipeline = msgspec.convert(tomllib.loads(text), Pipeline)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise PipelineError(
            f"the pipeline file {str(path)!r} is invalid: {error}{_meant(str(error))}."
        ) from error
    if not pipeline.streams and pipeline.postgres is None:
        raise PipelineError(
            f"the pipeline file {str(path)!r} is invalid: it has no stream: write [streams.NAME], or [postgres] with "
            "a dsn."
        )
    check_alerts(pipeline.alerts)
    folder = path.resolve().parent
    streams = {name: _resolved(name, source, folder) for name, source in pipeline.streams.items()}
    streams |= _tables(pipeline.postgres, streams) if pipeline.postgres is not None else {}
    settings = msgspec.structs.replace(
        pipeline.workload,
        store=_path(pipeline.workload.store or ("state" if pipeline.postgres is not None else None), folder),
        statistics=_path(pipeline.workload.statistics, folder),
    )
    run = msgspec.structs.replace(
        pipeline.run,
        checkpoint=_path(pipeline.run.checkpoint, folder),
        dead_letter=_path(pipeline.run.dead_letter, folder),
    )
    spark = msgspec.structs.replace(
        pipeline.spark, jars=[jar if "://" in jar else str(folder / jar) for jar in pipeline.spark.jars]
    )
    return msgspec.structs.replace(pipeline, streams=streams, workload=settings, run=run, spark=spark)


def _tables(database: PostgresDatabase, taken: dict[str, StreamSource]) -> dict[str, StreamSource]:
    """Return a stream for each table of a database, with all columns explored."""
    shared = {"slot": database.slot or slot_name(database.dsn), "shared": "true"}
    return {
        draft.name: StreamSource(
            schema_text(draft),
            draft.form,
            changes=draft.changes,
            explore=["*"],
            options={**draft.options, **shared},
        )
        for draft in drafts_of_tables(database.dsn, database.tables, list(taken))
    }


def _meant(error: str) -> str:
    """Return which setting was probably meant, if the file has an unknown one."""
    unknown = re.search(r"unknown field `(\w+)`", error)
    tables = (
        Pipeline,
        PostgresDatabase,
        WorkloadSettings,
        StreamSource,
        QueryText,
        RunSettings,
        SparkSettings,
        Alert,
    )
    known = [name for table in tables for name in table.__struct_fields__]
    close = get_close_matches(unknown[1], known, 1) if unknown else []
    return f"; did you mean `{close[0]}`?" if close else ""


def _resolved(name: str, source: StreamSource, folder: Path) -> StreamSource:
    """Return a stream with its path resolved and its options as Spark takes them, or raise PipelineError."""
    form = source.format.lower() if source.format.lower() in FILE_FORMATS else source.format
    options = {option: _as_text(name, option, value) for option, value in source.options.items()}
    return msgspec.structs.replace(source, format=form, path=_path(source.path, folder), options=options)


def _as_text(stream: str, option: str, value: object) -> str:
    """Return an option as the string that Spark's readers take: true, 10 and "10" alike."""
    if not isinstance(value, str | int | float):
        raise PipelineError(
            f"stream {stream!r}: option {option!r} is {value!r}: write a string, a number, true or false."
        )
    return str(value).lower() if isinstance(value, bool) else str(value)


def _path(path: str | None, folder: Path) -> str | None:
    return path if path is None or "://" in path else str(folder / path)


# The sources of a pipeline file, as the Spark side reads them.


def batch_source(pipeline: Pipeline, name: str) -> "SparkSource":
    """Return the source of a stream that is read once, as it is now."""
    from eddyline.spark.sources import SparkSource  # noqa: PLC0415 - Spark only where it is used

    given = pipeline.streams[name]
    return SparkSource(
        name,
        given.format,
        given.path,
        given.schema,
        given.changes,
        given.options,
        may_lose_rows=given.may_lose_rows,
    )


def run_source(pipeline: Pipeline, name: str, *, resumed: bool) -> "SparkSource":
    """Return the source of a stream for a run; PostgreSQL sources that name the same slot share it."""
    given, slots = pipeline.streams[name], [_slot(each) for each in pipeline.streams.values()]
    is_shared = _slot(given) is not None and slots.count(_slot(given)) > 1
    options = {"shared": "true", **given.options} if is_shared else given.options
    return replace(batch_source(pipeline, name), options=options, streaming=not given.batch, resumed=resumed)


def _slot(source: StreamSource) -> tuple[str | None, str] | None:
    """Return the database and slot that a source names, None if it names none."""
    slot = source.options.get("slot")
    return None if source.format != POSTGRES or slot is None else (source.options.get("dsn"), slot)
