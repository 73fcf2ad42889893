"""The doctor: whether this machine can run eddyline, and what to do if it cannot."""

import getpass
import os
import re
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from eddyline.api.jobs import logins
from eddyline.api.operations.brokers import KAFKA, find_topics, needs_client
from eddyline.api.pipeline import Pipeline, SparkSettings
from eddyline.errors import PipelineError, StoreError, without_secrets
from eddyline.ingest.files import lacks_files
from eddyline.store import Reader
from eddyline.store.filesystem import open_filesystem

_LOGIN = {"host": "PGHOST", "port": "PGPORT", "dbname": "PGDATABASE", "user": "PGUSER"}


@dataclass(frozen=True)
class Finding:
    """One check: its name, whether it passed, and what was found or what to do."""

    name: str
    fine: bool
    found: str


def checks(folder: Path, pipeline: Pipeline | None = None, *, start_spark: bool = False) -> Iterator[Finding]:
    """Yield the checks of this machine; with a pipeline, also of what its sources and its store need.

    Servers are checked in parallel. Spark, which takes half a minute to start and to run, is started only if
    requested, or if the pipeline names packages, which Spark fetches.
    """
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding("Python", sys.version_info >= (3, 11), f"{version} (3.11 or newer is needed)")
    yield _writable(folder)
    if pipeline is not None and pipeline.workload.store is not None:
        yield _store(pipeline.workload.store)
    try:
        from eddyline.spark import session  # noqa: PLC0415 - Spark only where it is used
    except ImportError as error:
        yield Finding("Spark", False, f"{error}: run `pip install 'eddyline[spark]'`")
        return
    java = session.java_version()
    fine = java is not None and java >= session.JAVA_NEEDED
    yield Finding("Java", fine, f"version {java}" if fine else session.HOW_TO_GET_JAVA)
    settings = pipeline.spark if pipeline is not None else SparkSettings()
    formats: list[str] = []
    for source, check in _connectors(pipeline) if pipeline is not None else ():
        yield check
        formats += [source] if check.fine else []
    if pipeline is not None:
        yield from _sources(pipeline)
    if fine and (start_spark or settings.packages):
        yield _spark_runs(settings, formats)
    elif fine:
        yield Finding(
            "Spark",
            True,
            f"version {session.SPARK_VERSION} is installed; `eddyline doctor --spark` starts it, too",
        )


def _store(where: str) -> Finding:
    try:
        reader = Reader(where)
        if reader.exists():
            return Finding("store", True, f"{reader.where}, epoch {reader.latest().number}")
        reader.check_writable()
    except StoreError as error:
        return Finding("store", False, str(error))
    return Finding("store", True, f"{reader.where} can be written")


def _sources(pipeline: Pipeline) -> Iterator[Finding]:
    """Yield whether files and topics exist, and whether servers of tables accept the login; with what was tried."""
    for name, error in logins(pipeline):
        found = f"{_login_of(pipeline.streams[name].options)}: the table can be read"
        yield Finding(_about(pipeline, name), error is None, found if error is None else str(error))
    for name, source in pipeline.streams.items():
        if source.format == KAFKA:
            yield _topics(pipeline, name)
        elif source.path is not None and "://" in source.path:
            yield _remote(pipeline, name, source.path)
        elif lacks_files(source.format, source.path, source.options):
            yield Finding(_about(pipeline, name), not source.batch, f"there is no file at {source.path} yet")


def _login_of(options: Mapping[str, str]) -> str:
    """Return the table that a stream names, and the server, database and user that its dsn and the environment give."""
    from psycopg.conninfo import conninfo_to_dict, make_conninfo  # noqa: PLC0415 - an optional extra

    given = conninfo_to_dict(make_conninfo(options.get("dsn", "")))
    values = {key: given.get(key) or os.environ.get(name) for key, name in _LOGIN.items()}
    user = values["user"] or getpass.getuser()
    return (
        f"{options.get('table')} at {values['host'] or 'the local socket'}:{values['port'] or 5432}, "
        f"database {values['dbname'] or user}, user {user}"
    )


def _about(pipeline: Pipeline, name: str) -> str:
    return f"stream {name} ({pipeline.streams[name].format})"


def _topics(pipeline: Pipeline, name: str) -> Finding:
    """Return whether a Kafka broker answers and has the topics of a stream."""
    options = pipeline.streams[name].options
    reason = needs_client(options)
    if reason is not None:
        return Finding(_about(pipeline, name), True, f"its topics were not looked for: {reason}")
    try:
        topics = find_topics(name, options)
    except PipelineError as error:
        return Finding(_about(pipeline, name), False, str(error))
    leaders = sorted({f"{host}:{port}" for topic in topics for host, port in topic.leaders.values()})
    shown = ", ".join(f"topic {topic.name!r} with {len(topic.leaders)} partitions" for topic in topics)
    return Finding(_about(pipeline, name), True, f"{shown} at {', '.join(leaders)}, without a login")


def _remote(pipeline: Pipeline, name: str, path: str) -> Finding:
    """Return whether there is a file or a folder at a URI, if pyarrow opens it; Spark uses clients of its own."""
    shown = without_secrets(path)
    if any(sign in path for sign in "*?[{"):
        return Finding(
            _about(pipeline, name), True, f"{shown} was not looked for: it is a pattern, which Spark reads"
        )
    try:
        place = open_filesystem(re.sub("^s3[an]://", "s3://", path))
    except StoreError:
        return Finding(_about(pipeline, name), True, f"{shown} was not looked for: only Spark opens it")
    try:
        is_there = place.filesystem.get_file_info(place.root).type.name != "NotFound"
    except OSError as error:
        return Finding(
            _about(pipeline, name), False, f"{shown} cannot be looked at: {str(error).splitlines()[0]}"
        )
    return Finding(
        _about(pipeline, name),
        is_there,
        f"{shown} {'can be read' if is_there else 'does not exist: correct path'}",
    )


def _connectors(pipeline: Pipeline) -> Iterator[tuple[str, Finding]]:
    """Yield each format that needs a connector, and whether it is installed."""
    from eddyline.spark.sources.connectors import find_connector  # noqa: PLC0415 - Spark only where it is used

    given = pipeline.spark
    for name, source in pipeline.streams.items():
        found = find_connector(source.format, given.packages, given.jars, given.conf)
        if found is not None:
            yield source.format, Finding(f"stream {name} ({source.format})", found.fine, found.sentence)


def _writable(folder: Path) -> Finding:
    try:
        with tempfile.TemporaryFile(dir=folder):
            return Finding("write access", True, str(folder.resolve()))
    except OSError as error:
        return Finding("write access", False, f"{folder.resolve()}: {error.strerror}; choose another folder")


def _spark_runs(settings: SparkSettings, formats: Collection[str]) -> Finding:
    """Return whether Spark starts, with the packages and jars of a pipeline, and its workers find eddyline."""
    from eddyline.api.workload import Workload  # noqa: PLC0415 - only for this check
    from eddyline.spark.session import local_session  # noqa: PLC0415 - Spark only where it is used

    try:
        spark = local_session(
            packages=settings.packages, jars=settings.jars, conf=settings.conf, formats=formats
        )
        plan = Workload(budget="64 KB").stream("s", "id BIGINT").query("n", "SELECT COUNT(*) FROM s").plan()
        count = plan.sketch(spark, {"s": spark.range(1000)}).answer("n").value
        spark.stop()
    except (PipelineError, RuntimeError) as error:
        return Finding("Spark", False, str(error).split("\n")[0])
    return Finding("Spark", count == 1000, f"version {spark.version}, its workers run eddyline")
