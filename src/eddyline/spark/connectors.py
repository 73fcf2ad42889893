"""Connectors: what Spark needs beside itself to read a format, which version fits, and whether it is there."""

import importlib.util
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyspark

from eddyline.errors import PipelineError
from eddyline.spark.jars import jar_files

_SCALA = "2.13"
_IVY = ("~/.ivy2.5.2", "~/.ivy2")


@dataclass(frozen=True)
class Connector:
    """A package of a registry; version: the one that fits, None where its project decides it."""

    group: str
    artifact: str
    version: str | None

    @property
    def coordinates(self) -> str:
        """How a registry names it."""
        return f"{self.group}:{self.artifact}:{self.version or '<its newest version>'}"


@dataclass(frozen=True)
class Found:
    """Whether what a source needs is there, and what was found or is to be done."""

    fine: bool
    told: str


def connector_of(form: str, spark_version: str = pyspark.__version__) -> Connector | None:
    """Return the connector that a format needs for a version of Spark, None where Spark reads it by itself."""
    minor = ".".join(spark_version.split(".")[:2])
    if form == "kafka":
        return Connector("org.apache.spark", f"spark-sql-kafka-0-10_{_SCALA}", spark_version)
    if form == "avro":
        return Connector("org.apache.spark", f"spark-avro_{_SCALA}", spark_version)
    if form == "delta":
        return Connector("io.delta", f"delta-spark_{minor}_{_SCALA}", None)
    if form == "iceberg":
        return Connector("org.apache.iceberg", f"iceberg-spark-runtime-{minor}_{_SCALA}", None)
    return None


def find_connector(
    form: str, packages: Sequence[str], jars: Sequence[str], conf: Mapping[str, str]
) -> Found | None:
    """Return whether what a format needs is there, None where it needs nothing."""
    if form == "eddyline-postgres":
        there = importlib.util.find_spec("psycopg") is not None
        return Found(
            there, "psycopg is there" if there else "psycopg is missing: pip install 'eddyline[postgres]'"
        )
    connector = connector_of(form)
    if connector is None:
        return None
    try:
        files = [Path(file) for file in jar_files(jars)]
    except PipelineError as error:
        return Found(False, str(error))
    files += _bundled()
    return _in_files(connector, files) or _in_packages(connector, packages, conf) or _missing(connector)


def _bundled() -> list[Path]:
    return sorted((Path(pyspark.__file__).parent / "jars").glob("*.jar"))


def _in_files(connector: Connector, files: Sequence[Path]) -> Found | None:
    for file in files:
        if match := re.fullmatch(rf"{re.escape(connector.artifact)}-(\d[\w.-]*)\.jar", file.name):
            return _fitting(connector, match[1], f"{file.name} in {file.parent}")
    return None


def _in_packages(connector: Connector, packages: Sequence[str], conf: Mapping[str, str]) -> Found | None:
    for package in packages:
        group, artifact, version = (*package.split(":"), "", "")[:3]
        if (group, artifact) == (connector.group, connector.artifact):
            kept = _kept(group, artifact, version, conf)
            where = f"kept in {kept}" if kept else "not fetched yet: the next start of Spark fetches it"
            return _fitting(connector, version, f"{package}, {where}")
    return None


def _kept(group: str, artifact: str, version: str, conf: Mapping[str, str]) -> Path | None:
    """Return the file of a package that Spark's Ivy or Maven fetched before, None where there is none."""
    homes = [conf["spark.jars.ivy"]] if "spark.jars.ivy" in conf else list(_IVY)
    files = [Path(home).expanduser() / "jars" / f"{group}_{artifact}-{version}.jar" for home in homes]
    maven = Path("~/.m2/repository").expanduser() / group.replace(".", "/") / artifact / version
    files.append(maven / f"{artifact}-{version}.jar")
    return next((file for file in files if file.is_file()), None)


def _fitting(connector: Connector, version: str, told: str) -> Found:
    if connector.version in (None, version):
        return Found(True, told)
    return Found(
        False,
        f"{told} is of Spark {version}, and Spark {connector.version} is installed: take "
        f"{connector.coordinates}, or install pyspark=={version}",
    )


def _missing(connector: Connector) -> Found:
    return Found(
        False,
        f'needs {connector.coordinates}: add packages = ["{connector.coordinates}"] to [spark], or jars = '
        '["FOLDER"] with its jars',
    )
