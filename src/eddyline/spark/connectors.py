"""Connectors: what Spark needs beside itself to read a format, which version fits, and whether it is there."""

import importlib.util
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyspark

from eddyline.errors import PipelineError
from eddyline.spark.jars import jar_files

_SCALA = "2.13"
_IVY = ("~/.ivy2.5.2", "~/.ivy2")
_RUN = {"delta": {"4.1": "4.3.1", "4.2": "4.4.0"}, "iceberg": {"4.1": "1.12.0"}}
"""The releases of a table format that were run here, by the Spark that they were built for."""
_EXTENSIONS = {
    "delta": "io.delta.sql.DeltaSparkSessionExtension",
    "iceberg": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}
_CATALOGS = {"delta": {"spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog"}}


@dataclass(frozen=True)
class Connector:
    """A package of a registry; version: the only one that fits, None where its project decides it.

    run: the version that was run here on this Spark; others: each Spark that one was run on.
    """

    group: str
    artifact: str
    version: str | None
    run: str | None = None
    others: tuple[str, ...] = ()

    @property
    def coordinates(self) -> str:
        """How a registry names it."""
        return f"{self.group}:{self.artifact}:{self.version or self.run or '<its newest version>'}"


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
        return Connector("io.delta", f"delta-spark_{minor}_{_SCALA}", None, *_run(form, minor))
    if form == "iceberg":
        artifact = f"iceberg-spark-runtime-{minor}_{_SCALA}"
        return Connector("org.apache.iceberg", artifact, None, *_run(form, minor))
    return None


def _run(form: str, minor: str) -> tuple[str | None, tuple[str, ...]]:
    return _RUN[form].get(minor), tuple(_RUN[form])


def connector_conf(formats: Collection[str], conf: Mapping[str, str]) -> dict[str, str]:
    """Return settings of Spark with those that the connectors of formats need beside their jars; given ones stay."""
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
    if connector.others and connector.run is None:
        return Found(
            False,
            f"needs {connector.coordinates}, of which no release is known here for Spark {pyspark.__version__}; on "
            f"Spark {' and '.join(connector.others)} it was run: pip install 'pyspark=={connector.others[-1]}.*', or "
            "add packages or jars to [spark] if there is one by now",
        )
    return Found(
        False,
        f'needs {connector.coordinates}: add packages = ["{connector.coordinates}"] to [spark], or jars = '
        '["FOLDER"] with its jars',
    )
