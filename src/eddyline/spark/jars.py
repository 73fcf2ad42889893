"""Jars that Spark starts with: packages of a registry, files, and folders of files.

Packages are resolved by Spark's own Ivy when its JVM starts. What the JVM says until then is kept, so that a wrong name
or a registry out of reach is told in one sentence; what it says afterwards goes to standard error as always.
"""

import os
import re
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway

from eddyline.errors import PipelineError

_COORDINATES = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+")
_UNRESOLVED = re.compile(r"unresolved dependency: ([\w.-]+)#([\w.-]+);([\w.-]+): (.*?)[\],\n]")
_OUT_OF_REACH = re.compile(
    r"Server access error at url (\S+)|UnknownHostException: (\S+)|ConnectException|timed out|Host (\S+) not found"
)
_INSTEAD = 'or give the files themselves: jars = ["FOLDER"] in [spark]'


def jar_settings(packages: Sequence[str], jars: Sequence[str]) -> dict[str, str]:
    """Return Spark's settings for packages and jars, or raise PipelineError where one cannot be right."""
    for package in packages:
        if not _COORDINATES.fullmatch(package):
            raise PipelineError(
                f"package {package!r} is not group:artifact:version, as "
                "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0 is."
            )
    settings = {"spark.jars.packages": ",".join(packages), "spark.jars": ",".join(jar_files(jars))}
    return {name: value for name, value in settings.items() if value}


def jar_files(jars: Sequence[str]) -> list[str]:
    """Return the jars that files and folders name, in order, or raise PipelineError where there are none."""
    files: list[str] = []
    for jar in jars:
        if "://" in jar:
            files.append(jar)
            continue
        path = Path(jar)
        found = sorted(path.glob("*.jar")) if path.is_dir() else [path] if path.is_file() else []
        if not found:
            what = "has no *.jar in it" if path.is_dir() else "is not there"
            raise PipelineError(f"{jar!r} of jars in [spark] {what}: name a jar, or a folder of jars.")
        files += map(str, found)
    return files


def start_with_jars(settings: dict[str, str]) -> None:
    """Start Spark's JVM and context with such settings, or raise PipelineError in one sentence."""
    running = SparkContext._active_spark_context  # noqa: SLF001 - Spark has no public word for it
    if running is not None or SparkContext._gateway is not None:  # noqa: SLF001
        _check_running(running, settings)
        return
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    read, write = os.pipe()
    said = _Said(read)
    try:
        gateway = launch_gateway(conf, popen_kwargs={"stderr": write})  # type: ignore[no-untyped-call]
    except PySparkException as error:
        os.close(write)
        raise PipelineError(_why_not(said.all(), settings)) from error
    os.close(write)
    said.pass_on()
    SparkContext(conf=conf, gateway=gateway)


def _check_running(running: SparkContext | None, settings: dict[str, str]) -> None:
    for name in ("spark.jars.packages", "spark.jars"):
        wanted = set(filter(None, settings.get(name, "").split(",")))
        there = running.getConf().get(name, "") if running is not None else ""
        missing = sorted(wanted - set((there or "").split(",")))
        if missing:
            raise PipelineError(
                f"Spark runs in this process already, without {missing[0]}: jars are taken when its JVM starts. Start "
                f"a new process, or start Spark with {name} set."
            )


class _Said:
    """What a JVM writes to standard error: kept at first, and passed on once it has started."""

    def __init__(self, source: int) -> None:
        self._source = source
        self._kept: list[str] = []
        self._started = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        with os.fdopen(self._source, errors="replace") as lines:
            for line in lines:
                if self._started.is_set():
                    sys.stderr.write(line)
                else:
                    self._kept.append(line)

    def pass_on(self) -> None:
        self._started.set()

    def all(self) -> str:
        """Return everything that was said, once the JVM has ended."""
        self._reader.join(timeout=10)
        return "".join(self._kept)


def _why_not(said: str, settings: dict[str, str]) -> str:
    """Return why Spark did not start, from what its JVM said."""
    packages = settings.get("spark.jars.packages", "")
    unresolved = _UNRESOLVED.search(said)
    reach = _OUT_OF_REACH.search(said)
    if unresolved is not None:
        name = ":".join(unresolved.groups()[:3])
        if reach is not None:
            return (
                f"package {name} was not found in any registry that answered, and at least one did not "
                f"({next(filter(None, reach.groups()), 'no connection')}): check the name and version "
                "(`eddyline doctor FILE` says which fit), let Spark reach a registry (spark.jars.repositories or "
                f"spark.jars.ivySettings in conf), {_INSTEAD}."
            )
        return (
            f"package {name} is in none of the registries that Spark asked: check its name and version "
            f"(`eddyline doctor FILE` says which fit), {_INSTEAD}."
        )
    if "download failed" in said:
        return f"a jar of the packages {packages} cannot be fetched: try again, {_INSTEAD}."
    lines = [line.strip() for line in said.splitlines() if "Exception" in line or "rror" in line]
    return f"Spark did not start: {lines[0] if lines else 'its JVM ended and said nothing'}."
