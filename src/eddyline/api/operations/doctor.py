"""The doctor: whether this machine can run eddyline, and what to do if it cannot."""

import sys
import tempfile
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from eddyline.api.jobs import logins
from eddyline.api.pipeline import POSTGRES, Pipeline, SparkSettings
from eddyline.errors import PipelineError, StoreError
from eddyline.ingest.files import lacks_files
from eddyline.store import Reader


@dataclass(frozen=True)
class Check:
    """One check: its name, whether it passed, and what was found or what to do."""

    name: str
    fine: bool
    found: str


def checks(folder: Path, pipeline: Pipeline | None = None, *, start_spark: bool = False) -> Iterator[Check]:
    """Yield the checks of this machine; with a pipeline, also of what its sources and its store need.

    Servers are checked in parallel. Spark, which takes half a minute to start and to run, is started only if
    requested, or if the pipeline names packages, which Spark fetches.
    """
    version = ".".join(map(str, sys.version_info[:3]))
    yield Check("Python", sys.version_info >= (3, 11), f"{version} (3.11 or newer is needed)")
    yield _writable(folder)
    if pipeline is not None and pipeline.workload.store is not None:
        yield _store(pipeline.workload.store)
    try:
        from eddyline.spark import session  # noqa: PLC0415 - Spark only where it is used
    except ImportError as error:
        yield Check("Spark", False, f"{error}: run `pip install 'eddyline[spark]'`")
        return
    java = session.java_version()
    fine = java is not None and java >= session.JAVA_NEEDED
    yield Check("Java", fine, f"version {java}" if fine else session.HOW_TO_GET_JAVA)
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
        yield Check(
            "Spark",
            True,
            f"version {session.SPARK_VERSION} is installed; `eddyline doctor --spark` starts it, too",
        )


def _store(where: str) -> Check:
    try:
        reader = Reader(where)
        if reader.exists():
            return Check("store", True, f"{reader.where}, epoch {reader.latest().number}")
        reader.check_writable()
    except StoreError as error:
        return Check("store", False, str(error))
    return Check("store", True, f"{reader.where} can be written")


def _sources(pipeline: Pipeline) -> Iterator[Check]:
    """Yield whether files exist, and whether servers of tables accept the login and have what a stream needs."""
    for name, error in logins(pipeline):
        table = pipeline.streams[name].options.get("table")
        yield Check(
            f"stream {name} ({POSTGRES})",
            error is None,
            f"{table} can be read" if error is None else str(error),
        )
    for name, source in pipeline.streams.items():
        if lacks_files(source.format, source.path, source.options):
            yield Check(
                f"stream {name} ({source.format})", not source.batch, f"there is no file at {source.path} yet"
            )


def _connectors(pipeline: Pipeline) -> Iterator[tuple[str, Check]]:
    """Yield each format that needs a connector, and whether it is installed."""
    from eddyline.spark.sources.connectors import find_connector  # noqa: PLC0415 - Spark only where it is used

    given = pipeline.spark
    for name, source in pipeline.streams.items():
        found = find_connector(source.format, given.packages, given.jars, given.conf)
        if found is not None:
            yield source.format, Check(f"stream {name} ({source.format})", found.fine, found.sentence)


def _writable(folder: Path) -> Check:
    try:
        with tempfile.TemporaryFile(dir=folder):
            return Check("write access", True, str(folder.resolve()))
    except OSError as error:
        return Check("write access", False, f"{folder.resolve()}: {error.strerror}; choose another folder")


def _spark_runs(settings: SparkSettings, formats: Collection[str]) -> Check:
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
        return Check("Spark", False, str(error).split("\n")[0])
    return Check("Spark", count == 1000, f"version {spark.version}, its workers run eddyline")
