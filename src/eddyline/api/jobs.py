"""The jobs of a pipeline file: one pass over its sources, or a continuous run; checks before Spark starts."""

import csv
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

import msgspec
import pyarrow as pa

from eddyline.answer.explain import gain_of_rebuild
from eddyline.api.alerts import Alerts, check_kept, check_queries
from eddyline.api.durable import BATCH_QUERY, BATCH_RUN, from_epoch, origin_of, stamp
from eddyline.api.pipeline import POSTGRES, Pipeline, StreamSource
from eddyline.api.plan import Plan
from eddyline.api.run import Run, StartOptions, check_store, start_run
from eddyline.api.state import State
from eddyline.errors import EddylineError, PipelineError, PlanError, StoreError, WrongRun
from eddyline.ingest.arrow_path import referenced
from eddyline.ingest.changes import change_format
from eddyline.ingest.files import (
    FILE_FORMATS,
    RECURSIVE,
    is_read,
    lacks_files,
    local_path,
    reader_of_names,
    separator_advice,
)
from eddyline.ingest.projection import stream_spec
from eddyline.ingest.sections import to_sections
from eddyline.ingest.snapshot import Snapshot
from eddyline.ingest.stream_pass import projection_of
from eddyline.plan.layout import Layout
from eddyline.plan.statistics import Statistics
from eddyline.store import Commit, Epoch, Reader, SourcePosition, Store, difference, without_secrets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# Checks of a pipeline's sources before Spark starts, which takes half a minute.


FORGETFUL = ("rate", "rate-micro-batch", "rate-per-micro-batch", "socket", POSTGRES)
"""Formats of sources that are followed from now on: they return no row twice, and never all rows at once."""

_MOST_FOOTERS = 64
"""Files whose columns are checked before Spark starts: a few milliseconds each."""


def check_one_pass(sources: Mapping[str, StreamSource]) -> None:
    """Raise PipelineError if a source cannot be read in one pass, but only followed."""
    for name, source in sources.items():
        if source.format in FORGETFUL:
            raise PipelineError(
                f"stream {name!r}: a source of format {source.format!r} is followed by `eddyline run`, and one pass "
                "cannot read it: start `eddyline run FILE --once`, which takes what is there into the store, and then "
                "`eddyline ask FILE` answers from the store."
            )


def check_columns(pipeline: Pipeline, layout: Layout) -> None:
    """Raise PipelineError if Parquet files, or CSV files with a header, on the local disk lack a column that is read.

    Only if all files are checked and none has it: Spark reads a column that some Parquet files lack as NULL.
    """
    for name, source in pipeline.streams.items():
        where = local_path(source.format, source.path)
        is_nested = change_format(name, source.changes).form == "debezium"
        names_of = reader_of_names(source.format, source.options)
        if where is None or names_of is None or is_nested:
            continue
        folder = where if where.is_dir() else where.parent
        files = [where] if where.is_file() else [file for file in where.rglob("*") if is_read(file, where)]
        if not files or len(files) > _MOST_FOOTERS:
            continue
        given = _columns_of(files, folder, names_of)
        stream = layout.stream(name)
        wanted = referenced(projection_of(stream_spec(layout, name), stream.event_time))
        missing = [column for column in wanted if column.lower() not in given]
        if given and missing:
            raise PipelineError(
                f"stream {name!r}: there is no column {missing[0]!r} in {source.path}; it has "
                f"{', '.join(sorted(given))}{separator_advice(given)} Correct schema in [streams.{name}]."
            )


def _columns_of(files: Collection[Path], folder: Path, names_of: Callable[[Path], list[str]]) -> set[str]:
    """Return the columns of files and of their folders' names, in lower case; empty if a file is bad."""
    given = set[str]()
    for file in files:
        try:
            given |= {column.strip().lower() for column in names_of(file)}
        except (OSError, ValueError, csv.Error, pa.ArrowException):
            return set()  # Spark's message names the file and what is wrong with it
        given |= {part.partition("=")[0].lower() for part in file.relative_to(folder).parts if "=" in part}
    return given


def check_logins(pipeline: Pipeline, begun: Collection[str] = ()) -> None:
    """Raise the error of a PostgreSQL source: a failed login, or a table that does not meet the needs of a stream.

    begun: streams that continue from a checkpoint; later checks compare their tables with it.
    """
    for _, error in logins(pipeline, begun):
        if error is not None:
            raise error


def logins(pipeline: Pipeline, begun: Collection[str] = ()) -> Iterator[tuple[str, EddylineError | None]]:
    """Yield each stream of a PostgreSQL table, and why it cannot be read; all servers are asked in parallel."""
    streams = [name for name, source in pipeline.streams.items() if source.format == POSTGRES]
    with ThreadPoolExecutor(max(len(streams), 1)) as pool:
        yield from zip(streams, pool.map(lambda name: _refused(pipeline, name, begun), streams), strict=True)


def _refused(pipeline: Pipeline, name: str, begun: Collection[str]) -> EddylineError | None:
    from eddyline.api.pipeline import run_source  # noqa: PLC0415 - Spark only where it is used
    from eddyline.expressions.schema import parse_schema  # noqa: PLC0415
    from eddyline.spark.postgres import check_table_source  # noqa: PLC0415

    source = run_source(pipeline, name, resumed=name in begun)
    names = None if name in begun else [column.name for column in parse_schema(name, source.schema)]
    try:
        check_table_source(dict(source.options), names)
    except EddylineError as error:
        return type(error)(f"stream {name!r}: {error}")
    return None


# The batch job of a pipeline file: one pass over its sources, saved in its store if it names one.


MOST_BYTES_HERE = 256 << 20
"""The most bytes of Parquet files to read in this process. One core reads about 50 MB a second; Spark starts in 5 s."""


def open_state(store: str | os.PathLike[str], as_of: int | str | datetime | None = None) -> State:
    """Return the state of a store at its last commit, in any process: no Spark needed.

    It does not change when a run commits more; open the store again for that. as_of: the state at an earlier time,
    a datetime or "2026-01-31 12:00" (UTC unless it says otherwise), or of an epoch by its number, if the store
    still keeps it.
    """
    return state_at(Reader(store), as_of)


def state_at(reader: Reader, as_of: int | str | datetime | None = None) -> State:
    """Return the state of a store at a moment: an epoch by its number, also as a string, or a time."""
    if as_of is None:
        epoch = reader.latest()
    elif is_number(as_of):
        epoch = reader.at(int(as_of))
    else:
        epoch = reader.as_of(seconds_of(as_of))
    state = state_of(epoch)
    state.past = lambda moment: state_at(reader, moment)
    return state


def number_of(reader: Reader, moment: int | str | datetime, newest: Commit) -> int:
    """Return the number of the epoch that a moment names. newest: the current commit of the store."""
    return int(moment) if is_number(moment) else reader.number_as_of(seconds_of(moment), newest)


def is_number(moment: int | str | datetime) -> TypeGuard[int | str]:
    """Return whether a moment is the number of an epoch, and not a time."""
    return isinstance(moment, int) or (isinstance(moment, str) and moment.isdecimal())


def seconds_of(moment: int | str | datetime) -> float:
    """Return a time in seconds since 1970; a time without a zone is UTC."""
    try:
        read = moment if isinstance(moment, datetime) else datetime.fromisoformat(str(moment))
    except (ValueError, TypeError):
        raise StoreError(
            f"as_of={moment!r} is not a time: write for example '2026-01-31 12:00', or the number of an epoch."
        ) from None
    return (read if read.tzinfo is not None else read.replace(tzinfo=UTC)).timestamp()


def state_of(epoch: Epoch) -> State:
    """Return the state that an epoch of a store holds."""
    snapshot = from_epoch(epoch)
    return State(snapshot, origin_of(epoch, snapshot.layout))


def stored_state(pipeline: Pipeline) -> State | None:
    """Return the state of the pipeline's store, None if there is no store yet."""
    where = pipeline.workload.store
    return None if where is None or not Store.exists(where) else open_state(where)


@dataclass(frozen=True)
class StoredAnswers:
    """A pipeline's store: its state, the file's queries that it answers, and why it does not answer all of them."""

    state: State
    queries: list[str]
    difference: EddylineError | None = None


def stored_answers(pipeline: Pipeline) -> StoredAnswers | None:
    """Return what the pipeline's store can answer, None if there is no store yet.

    If the file has changed since the store was made, queries that are the same in both are still answered.
    """
    where = pipeline.workload.store
    if where is None or not Store.exists(where):
        return None
    state = open_state(where)
    unchanged = pipeline.build().unchanged(state.snapshot.layout)
    if set(unchanged) == set(pipeline.queries) and (
        pipeline.workload.confidence == state.snapshot.layout.confidence
    ):
        return StoredAnswers(state, unchanged)  # whatever budget the file gives for the next change of plan
    try:
        _check_same(where, state.snapshot.layout, pipeline.plan(keep=state).layout)
    except (PlanError, WrongRun) as error:
        if not unchanged:
            raise
        return StoredAnswers(state, unchanged, error)
    return StoredAnswers(state, list(pipeline.queries))


def _check_same(where: str, old: Layout, new: Layout) -> None:
    """Raise WrongRun if a store was made by another plan than the pipeline's."""
    if old.digest != new.digest:
        lines, shown = "\n  ".join(difference(stamp(old), stamp(new))), without_secrets(where)
        raise WrongRun(
            f"the store {shown} was made by another plan:\n  {lines}\nAsk the store itself (`eddyline ask {shown}`), "
            "let the run take the change (`eddyline run --change-plan`), or rebuild it (`eddyline ask --refresh`)."
        )


def check_pass(pipeline: Pipeline) -> None:
    """Raise the error that prevents one pass over the pipeline's sources, if it can be found without Spark."""
    check_one_pass(pipeline.streams)
    check_files(pipeline.streams)
    if pipeline.workload.store is not None:
        check_no_run(pipeline.workload.store)
        if not Store.exists(pipeline.workload.store):
            Reader(pipeline.workload.store).check_writable()


def check_files(sources: Mapping[str, StreamSource]) -> None:
    """Raise PipelineError if a source that is read now has no files."""
    check_paths(sources)
    for name, source in sources.items():
        if lacks_files(source.format, source.path, source.options):
            raise PipelineError(
                f"stream {name!r}: there is no file at {source.path}; correct path in [streams.{name}], or put files "
                "there. (`eddyline run` waits for the first file of a stream; folders in the folder are read with "
                f'{RECURSIVE} = "true" in its options.)'
            )


def check_paths(sources: Mapping[str, StreamSource]) -> None:
    """Raise PipelineError if a source of files does not say where they are: Spark would read no files."""
    for name, source in sources.items():
        if source.format in FILE_FORMATS and source.path is None and "path" not in source.options:
            raise PipelineError(
                f"stream {name!r} does not say where its files are: add path to [streams.{name}]."
            )


def build_state(spark: "SparkSession", pipeline: Pipeline, plan: Plan) -> State:
    """Return the state after one pass over the pipeline's sources, written to its store if it names one."""
    state = plan.sketch(spark, _sources(spark, pipeline))
    if pipeline.workload.store is not None:
        save(pipeline.workload.store, plan, state)
    return state


def build_without_spark(pipeline: Pipeline, plan: Plan) -> State | None:
    """Return the state after one pass by Arrow in this process, None if Spark must read; stored like `build_state`.

    Small files are read here, because Spark takes longer to start: Parquet as Spark's tasks read it directly, CSV and
    JSON by strict rules. Files that Arrow may read differently from Spark, and other formats, are left to Spark.
    """
    from eddyline.spark.direct.files import Doubt  # noqa: PLC0415 - only for a pass

    try:
        state = _scanned(pipeline, plan.layout)
    except Doubt:
        return None
    if state is not None and pipeline.workload.store is not None:
        save(pipeline.workload.store, plan, state)
    return state


def _scanned(pipeline: Pipeline, layout: Layout) -> State | None:
    """Return the state of files that Arrow reads; raise Doubt if it may read them differently from Spark."""
    from eddyline.spark.direct.files import list_path  # noqa: PLC0415 - only for a pass
    from eddyline.spark.direct.planning import scan_of  # noqa: PLC0415
    from eddyline.spark.direct.scan import scan_here  # noqa: PLC0415
    from eddyline.spark.direct.text import TEXT_FORMATS, scan_text  # noqa: PLC0415

    parquet, text = dict[str, str](), dict[str, str]()
    for name, source in pipeline.streams.items():
        if source.path is None or "://" in source.path:  # these need the access rights that Spark is given
            return None
        if source.format == "parquet" and not source.options:
            parquet[name] = source.path
        elif source.format in TEXT_FORMATS:
            text[name] = source.path
        else:
            return None
    settings = pipeline.spark
    if settings.conf or settings.packages or settings.jars:
        return None
    if (
        sum(file.size for name, path in parquet.items() for file in list_path(name, path).files)
        > MOST_BYTES_HERE
    ):
        return None
    snapshot = Snapshot.empty(layout)
    for stream in layout.streams:
        name, source = stream.name, pipeline.streams[stream.name]
        spec = snapshot.stream_spec(name)
        if name in text:
            added = scan_text(spec, stream, layout.timezone, source.format, text[name], source.options)
        else:
            projection = projection_of(spec, stream.event_time)
            scan = scan_of(stream, projection, layout.timezone, parquet[name], 1, our_calendar=True)
            added = scan_here(spec, scan)
        snapshot = snapshot.plus_stream(name, added, settle=False)
    return State(snapshot.settled(), ways=dict.fromkeys(pipeline.streams, "by Arrow, without Spark"))


def analyze_sources(spark: "SparkSession", pipeline: Pipeline, budget: str | int) -> Statistics:
    """Return statistics of the pipeline's streams from one pass; bad rows are left out if a run skips them."""
    from eddyline.spark.batch import sketch_frames  # noqa: PLC0415 - Spark only where it is used

    layout, skip = pipeline.build().analysis(budget=budget).layout, pipeline.run.on_bad != "fail"
    return State(sketch_frames(spark, layout, _sources(spark, pipeline), skip_bad=skip)[0]).statistics()


def _sources(spark: "SparkSession", pipeline: Pipeline) -> "dict[str, DataFrame | str]":
    """Return a batch frame for each stream of the pipeline, or its path if a plain read of Parquet is asked for."""
    from eddyline.api.pipeline import batch_source  # noqa: PLC0415 - Spark only where it is used
    from eddyline.spark.sources.frames import read_frame  # noqa: PLC0415

    return {
        name: given.path
        if given.format == "parquet" and given.path is not None and not given.options
        else read_frame(spark, batch_source(pipeline, name))
        for name, given in pipeline.streams.items()
    }


def save(where: str, plan: Plan, state: State) -> None:
    """Write a state to a store, replacing what it held, as one batch of each stream."""
    now = time.time()
    sources = {
        name: SourcePosition(BATCH_QUERY, 0, tally.rows, tally.deletes, 0, now)
        for name, tally in state.snapshot.tallies.items()
    }
    sections = to_sections(state.snapshot)
    if not Store.exists(where):
        Store.create(where, stamp(plan.layout), BATCH_RUN, sections, sources=sources).close()
        return
    check_no_run(where)
    Store.replace_plan(where, stamp(plan.layout), BATCH_RUN, sections, sources=sources).close()


def check_no_run(where: str) -> None:
    """Raise WrongRun if a continuous run feeds the store."""
    if not Store.exists(where):
        return
    if any(at.query_id != BATCH_QUERY for at in Reader(where).latest().commit.sources.values()):
        raise WrongRun(
            f"the store {without_secrets(where)} is kept current by a continuous run. A pass over the sources would "
            "count its rows again: use `eddyline run --full-refresh`, or another directory."
        )


# The continuous job of a pipeline file: its sources as streams, its store kept current.


@dataclass(frozen=True)
class HowToRun:
    """The options of a run on the command line; `full_refresh` names queries."""

    once: bool = False
    adopt: bool = False
    change_plan: bool = False
    break_lock: bool = False
    full_refresh: Collection[str] = ()


@dataclass(frozen=True)
class PreparedRun:
    """A run that passed all checks that need no Spark. note: a sentence about a change of its plan."""

    pipeline: Pipeline
    plan: Plan
    store: str
    settings: StartOptions
    note: str | None = None

    def start(self, spark: "SparkSession") -> Run:
        """Return the run; a stream of files starts when its first file exists."""
        from eddyline.api.pipeline import run_source  # noqa: PLC0415 - Spark only where it is used
        from eddyline.spark.sources.frames import stream_frame  # noqa: PLC0415

        begun = _begun(self.store) - set(self.settings.refresh)
        frames = {
            name: stream_frame(spark, run_source(self.pipeline, name, resumed=name in begun))
            for name in self.pipeline.streams
        }
        return start_run(spark, self.plan.layout, frames, self.store, self.settings)


def prepare_run(pipeline: Pipeline, how: HowToRun) -> PreparedRun:
    """Return the run of a pipeline, or raise why it cannot start; queries added to a store keep the others' state.

    Spark takes seconds to start, so these are reported before: a held lock, another plan, too small a budget,
    missing files, a store that cannot be written, and a failed login.
    """
    store = pipeline.workload.store
    if store is None:
        raise PipelineError('a continuous run needs a store: add store = "state" to [workload].')
    state = stored_state(pipeline)
    refresh = _streams_of(pipeline, how.full_refresh, state)
    keep = _without(state.snapshot.layout, refresh) if state is not None and refresh else state
    plan = pipeline.plan(keep=keep)
    settings = StartOptions(
        trigger="available now" if how.once else pipeline.run.trigger,
        checkpoint=pipeline.run.checkpoint,
        adopt=how.adopt,
        on_bad=pipeline.run.on_bad,
        on_unseen_delete=pipeline.run.on_unseen_delete,
        dead_letter=pipeline.run.dead_letter,
        change_plan=how.change_plan or bool(refresh),
        refresh=refresh,
        keep=pipeline.run.keep,
        copied=tuple(name for name, source in pipeline.streams.items() if begins_with_a_copy(source)),
        break_lock=how.break_lock,
    )
    check_kept(pipeline.alerts, pipeline.run.keep)
    check_queries(pipeline.alerts, plan.empty())
    prepared = checked_run(pipeline, plan, store, settings)
    Alerts(store, pipeline.alerts)  # raises if it is not known what was sent
    return prepared if state is None else replace(prepared, note=_note_of_growth(state, plan.layout))


def _note_of_growth(state: State, new: Layout) -> str | None:
    """Return what a rebuild would buy if the budget was raised, None if it was not or nothing is missing."""
    old = state.snapshot.layout
    if old.budget is None or new.budget is None or new.budget <= old.budget:
        return None
    gain = gain_of_rebuild(state.snapshot, new.budget)
    return gain and f"the budget is now {new.budget:,} instead of {old.budget:,} bytes: {gain}"


def checked_run(pipeline: Pipeline, plan: Plan, store: str, settings: StartOptions) -> PreparedRun:
    """Return a run of a pipeline into a store, or raise why it cannot start, as far as that is known without Spark."""
    read_once = {name: source for name, source in pipeline.streams.items() if source.batch}
    check_one_pass(read_once)
    check_files(read_once)
    check_paths(pipeline.streams)
    _check_folders(pipeline)
    check_columns(pipeline, plan.layout)
    check_store(plan.layout, store, settings)
    check_logins(pipeline, _begun(store) - set(settings.refresh))
    return PreparedRun(pipeline, plan, store, settings)


def _check_folders(pipeline: Pipeline) -> None:
    """Raise PipelineError if a stream that is followed is one file: Spark follows folders."""
    for name, source in pipeline.streams.items():
        where = local_path(source.format, source.path)
        if not source.batch and where is not None and where.is_file():
            raise PipelineError(
                f"stream {name!r}: {source.path} is one file, and a run follows the files of a folder: name the folder "
                f"in path of [streams.{name}], or read the file once by batch = true."
            )


def _streams_of(pipeline: Pipeline, queries: Collection[str], state: State | None) -> tuple[str, ...]:
    """Return the streams that some queries read, or raise if a source cannot return its rows again.

    A stream sample is rebuilt as a whole, from all of its streams; so are the store's samples of these streams.
    """
    if not queries:
        return ()
    layout = pipeline.plan().layout
    planned = {each.name: each for each in layout.queries}
    unknown = [name for name in queries if name not in planned]
    if unknown:
        raise PlanError(f"the pipeline has no query {unknown[0]!r}: its queries are {', '.join(planned)}.")
    samples = {planned[query].sample for query in queries}
    read = {stream for query in queries for stream in planned[query].streams}
    read |= {part.stream for sample in layout.samples if sample.id in samples for part in sample.exact}
    held = (
        [{part.stream for part in sample.exact} for sample in state.snapshot.layout.samples] if state else []
    )
    while more := [streams for streams in held if streams & read and not streams <= read]:
        read = read.union(*more)
    streams = sorted(read & pipeline.streams.keys())
    for name in streams:
        source = pipeline.streams[name]
        if source.format in FORGETFUL and not begins_with_a_copy(source):
            raise PipelineError(
                f"stream {name!r} cannot be rebuilt: a source of format {source.format!r} does not give its rows a "
                "second time."
            )
    return tuple(streams)


def begins_with_a_copy(source: StreamSource) -> bool:
    """Return whether a new query of a source first reads all rows of its table."""
    options = {name.lower(): str(value) for name, value in source.options.items()}
    if source.format == POSTGRES:
        return options.get("snapshot", "initial") != "never"
    return source.format == "delta" and not any(name.startswith("starting") for name in options)


def _begun(store: str) -> set[str]:
    """Return the streams from which a run fed a store before."""
    if not Store.exists(store):
        return set()
    sources = Reader(store).latest().commit.sources
    return {name for name, at in sources.items() if at.query_id != BATCH_QUERY and at.batch_id >= 0}


def _without(layout: Layout, streams: Collection[str]) -> Layout:
    """Return a layout without what it keeps of some streams."""
    samples = tuple(s for s in layout.samples if not {part.stream for part in s.exact} & set(streams))
    gone = {sample.id for sample in layout.samples} - {sample.id for sample in samples}
    return msgspec.structs.replace(
        layout,
        kept=tuple(k for k in layout.kept if k.stream not in streams),
        samples=samples,
        queries=tuple(q for q in layout.queries if q.sample not in gone),
        budget=None,
    )
