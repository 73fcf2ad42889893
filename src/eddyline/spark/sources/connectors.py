"""Connectors: which jars Spark needs to read a format, which version fits, and where they come from."""

import importlib.util
import os
import re
import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
from pyspark.errors import PySparkException

from eddyline.errors import PipelineError

if TYPE_CHECKING:
    from pyspark import SparkContext

# Jars that Spark starts with: packages of a registry, files, and folders of files.
#
# Spark's own Ivy resolves packages when its JVM starts. The JVM's output until then is kept, so that
# a wrong name or an unreachable registry can be reported in one sentence; later output goes to
# standard error as usual.


_COORDINATES = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+")
_UNRESOLVED = re.compile(r"unresolved dependency: ([\w.-]+)#([\w.-]+);([\w.-]+): (.*?)[\],\n]")
_OUT_OF_REACH = re.compile(
    r"Server access error at url (\S+)|UnknownHostException: (\S+)|ConnectException|timed out|Host (\S+) not found"
)
_INSTEAD = 'or give the files themselves: jars = ["FOLDER"] in [spark]'


def jar_settings(packages: Sequence[str], jars: Sequence[str]) -> dict[str, str]:
    """Return Spark's settings for packages and jars, or raise PipelineError if one cannot be right."""
    for package in packages:
        if not _COORDINATES.fullmatch(package):
            raise PipelineError(
                f"package {package!r} is not group:artifact:version, as "
                "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3 is."
            )
    settings = {"spark.jars.packages": ",".join(packages), "spark.jars": ",".join(jar_files(jars))}
    return {name: value for name, value in settings.items() if value}


def jar_files(jars: Sequence[str]) -> list[str]:
    """Return the jars that files and folders name, in order, or raise PipelineError if there are none."""
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
    """Start Spark's JVM and context with the given settings, or raise PipelineError in one sentence."""
    # Imported here: PySpark without a JVM, as clients of Spark Connect have it, has none of these.
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415
    from pyspark.java_gateway import launch_gateway  # noqa: PLC0415

    running = SparkContext._active_spark_context  # noqa: SLF001 - Spark has no public API for it
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


def _check_running(running: "SparkContext | None", settings: dict[str, str]) -> None:
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
    """The standard error of a JVM: kept at first, and passed on once the JVM has started."""

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
        """Return everything that was written, once the JVM has ended."""
        self._reader.join(timeout=10)
        return "".join(self._kept)


def _why_not(said: str, settings: dict[str, str]) -> str:
    """Return why Spark did not start, from the output of its JVM."""
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


# Connectors: what Spark needs besides itself to read a format, which version fits, and whether it is installed.


_SCALA = "2.13"
_IVY = ("~/.ivy2.5.2", "~/.ivy2")
RELEASES = {
    "kafka": {"4.0": "4.0.4", "4.1": "4.1.3", "4.2": "4.2.0"},
    "delta": {"4.0": "4.4.0", "4.1": "4.4.0", "4.2": "4.4.0"},
    "iceberg": {"4.0": "1.11.0", "4.1": "1.12.0"},
}
"""The newest release of each connector in Maven Central by the minor version of Spark, as of November 2026.

`scripts/test-spark-range` runs these, and tests/test_platforms.py compares them with the recorded runs."""
_EXTENSIONS = {
    "delta": "io.delta.sql.DeltaSparkSessionExtension",
    "iceberg": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}
_CATALOGS = {"delta": {"spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog"}}


@dataclass(frozen=True)
class Connector:
    """A package of a registry for one minor version of Spark.

    own: it is released with Spark under Spark's version. release: the one to use with this Spark, None if none is
    known; others: each Spark that has one.
    """

    group: str
    artifact: str
    spark_version: str
    own: bool = False
    release: str | None = None
    others: tuple[str, ...] = ()

    @property
    def coordinates(self) -> str:
        """Its name in the registry."""
        version = self.release or (self.spark_version if self.own else "<its newest version>")
        return f"{self.group}:{self.artifact}:{version}"

    def fits(self, version: str) -> bool:
        """Return whether a release is for this Spark; Spark's own releases fit all patches of a minor version."""
        return not self.own or _minor(version) == _minor(self.spark_version)


@dataclass(frozen=True)
class ConnectorCheck:
    """Whether what a source needs is installed, and what was found or what to do."""

    fine: bool
    sentence: str


def connector_of(form: str, spark_version: str = pyspark.__version__) -> Connector | None:
    """Return the connector that a format needs for a version of Spark, None if Spark reads it without one."""
    minor = _minor(spark_version)
    artifacts = {
        "kafka": ("org.apache.spark", f"spark-sql-kafka-0-10_{_SCALA}"),
        "avro": ("org.apache.spark", f"spark-avro_{_SCALA}"),
        "delta": ("io.delta", f"delta-spark_{minor}_{_SCALA}"),
        "iceberg": ("org.apache.iceberg", f"iceberg-spark-runtime-{minor}_{_SCALA}"),
    }
    if form not in artifacts:
        return None
    group, artifact = artifacts[form]
    releases = RELEASES["kafka" if form == "avro" else form]  # Spark releases its own connectors together
    return Connector(
        group, artifact, spark_version, group == "org.apache.spark", releases.get(minor), tuple(releases)
    )


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def connector_conf(formats: Collection[str], conf: Mapping[str, str]) -> dict[str, str]:
    """Return settings of Spark with those that connectors of formats need besides their jars; given ones win."""
    lakes = [form for form in _EXTENSIONS if form in formats]
    given = conf.get("spark.sql.extensions", "").split(",")
    extensions = [
        *filter(None, given),
        *(_EXTENSIONS[form] for form in lakes if _EXTENSIONS[form] not in given),
    ]
    added = {"spark.sql.extensions": ",".join(extensions)} if extensions else {}
    catalogs = {name: value for form in lakes for name, value in _CATALOGS.get(form, {}).items()}
    return {**catalogs, **conf, **added}


def find_connector(
    form: str, packages: Sequence[str], jars: Sequence[str], conf: Mapping[str, str]
) -> ConnectorCheck | None:
    """Return whether what a format needs is installed, None if it needs nothing."""
    if form == "eddyline-postgres":
        there = importlib.util.find_spec("psycopg") is not None
        return ConnectorCheck(
            there, "psycopg is there" if there else "psycopg is missing: pip install 'eddyline[postgres]'"
        )
    connector = connector_of(form)
    if connector is None:
        return None
    try:
        files = [Path(file) for file in jar_files(jars)]
    except PipelineError as error:
        return ConnectorCheck(False, str(error))
    files += _bundled()
    return _in_files(connector, files) or _in_packages(connector, packages, conf) or _missing(connector)


def _bundled() -> list[Path]:
    return sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar"))


def _in_files(connector: Connector, files: Sequence[Path]) -> ConnectorCheck | None:
    for file in files:
        if match := re.fullmatch(rf"{re.escape(connector.artifact)}-(\d[\w.-]*)\.jar", file.name):
            return _fitting(connector, match[1], f"{file.name} in {file.parent}")
    return None


def _in_packages(
    connector: Connector, packages: Sequence[str], conf: Mapping[str, str]
) -> ConnectorCheck | None:
    for package in packages:
        group, artifact, version = (*package.split(":"), "", "")[:3]
        if (group, artifact) == (connector.group, connector.artifact):
            kept = _kept(group, artifact, version, conf)
            where = f"kept in {kept}" if kept else "not fetched yet: the next start of Spark fetches it"
            return _fitting(connector, version, f"{package}, {where}")
    return None


def _kept(group: str, artifact: str, version: str, conf: Mapping[str, str]) -> Path | None:
    """Return the file of a package that Spark's Ivy or Maven fetched before, None if there is none."""
    homes = [conf["spark.jars.ivy"]] if "spark.jars.ivy" in conf else list(_IVY)
    files = [Path(home).expanduser() / "jars" / f"{group}_{artifact}-{version}.jar" for home in homes]
    maven = Path("~/.m2/repository").expanduser() / group.replace(".", "/") / artifact / version
    files.append(maven / f"{artifact}-{version}.jar")
    return next((file for file in files if file.is_file()), None)


def _fitting(connector: Connector, version: str, sentence: str) -> ConnectorCheck:
    if connector.fits(version):
        return ConnectorCheck(True, sentence)
    return ConnectorCheck(
        False,
        f"{sentence} is of Spark {version}, and Spark {connector.spark_version} is installed: take "
        f"{connector.coordinates}, or install pyspark=={version}",
    )


def _missing(connector: Connector) -> ConnectorCheck:
    if connector.others and connector.release is None:
        return ConnectorCheck(
            False,
            f"needs {connector.coordinates}, and no release for Spark {pyspark.__version__} is known; there are "
            f"some for Spark {', '.join(connector.others)}: pip install 'pyspark=={connector.others[-1]}.*', or add "
            "packages or jars to [spark] if there is one by now",
        )
    return ConnectorCheck(
        False,
        f'needs {connector.coordinates}: add packages = ["{connector.coordinates}"] to [spark], or jars = '
        '["FOLDER"] with its jars',
    )
