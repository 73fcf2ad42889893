"""A local Spark session for the command line, the demo and the tests; the session's time zone."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from eddyline.errors import PipelineError
from eddyline.expressions.times import normal_zone
from eddyline.plan.layout import Layout
from eddyline.spark.causes import SPARK_ERRORS
from eddyline.spark.sources.connectors import connector_conf, jar_settings, start_with_jars

SPARK_VERSION: str = pyspark.__version__
JAVA_NEEDED = 17
HOW_TO_GET_JAVA = (
    "install a Java 17 or newer runtime (for example `apt-get install openjdk-17-jre-headless`, or "
    "`brew install openjdk@17`) and put `java` on the PATH or set JAVA_HOME"
)


_QUIET = {
    "spark.app.name": "eddyline",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
}


def java_version() -> int | None:
    """Return the major version of the Java that Spark would start, None if there is no Java."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")  # noqa: PTH118
    if java is None or shutil.which(java) is None:
        return None
    printed = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603
    match = re.search(r'version "(\d+)', printed)
    return int(match[1]) if match else None


def leave_signals_to_python(spark: SparkSession) -> None:
    """Make the JVM ignore SIGTERM, which service managers also send to it: Python ends it after the last batch."""
    signals = spark.sparkContext._jvm.sun.misc  # type: ignore[union-attr]  # noqa: SLF001 - a local session has a JVM
    signals.Signal.handle(signals.Signal("TERM"), signals.SignalHandler.SIG_IGN)


def local_session(
    master: str = "local[2]",
    *,
    packages: Sequence[str] = (),
    jars: Sequence[str] = (),
    conf: Mapping[str, str] | None = None,
    formats: Collection[str] = (),
) -> SparkSession:
    """Return a quiet local session whose workers run the same Python as this process.

    packages: group:artifact:version, resolved by Spark's Ivy. jars: files, or folders of them. conf: other settings
    of Spark, which override ours. formats: what will be read, for connectors that also need settings of Spark.
    """
    version = java_version()
    if version is None or version < JAVA_NEEDED:
        found = "no Java was found" if version is None else f"Java {version} was found"
        raise PipelineError(f"Spark needs Java {JAVA_NEEDED} or newer and {found}: {HOW_TO_GET_JAVA}.")
    logging = Path(__file__).with_name("log4j2.properties").as_uri()
    os.environ.setdefault(
        "PYSPARK_SUBMIT_ARGS", f"--driver-java-options=-Dlog4j2.configurationFile={logging} pyspark-shell"
    )
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    settings: dict[str, Any] = {
        "spark.master": master,
        **_QUIET,
        **connector_conf(formats, conf or {}),
        **jar_settings(packages, jars),
    }
    if "spark.jars" in settings or "spark.jars.packages" in settings:
        start_with_jars(settings)
    session = SparkSession.builder.config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


# The session's time zone, and a check that a plan which depends on it meets the zone it was made for.


_SETTING = "spark.sql.session.timeZone"


def active_zone() -> str | None:
    """Return the zone of the session that is active in this thread, or None."""
    try:
        session = SparkSession.getActiveSession()
        zone = None if session is None else session.conf.get(_SETTING)
    except (*SPARK_ERRORS, RuntimeError):
        return None
    return None if zone is None else normal_zone(zone)


def zone_of(spark: SparkSession) -> str:
    """Return the zone of a session."""
    return normal_zone(spark.conf.get(_SETTING) or "UTC")


def check_zone(layout: Layout, spark: SparkSession) -> None:
    """Raise PipelineError if the plan reads times in another zone than the session.

    Spark fixes the zone of an expression when it analyzes it; over Connect, only when it runs it. The session's
    setting is not changed here, because other queries of the session may depend on it at the same time.
    """
    if layout.timezone is None:
        return
    zone = zone_of(spark)
    if zone != layout.timezone:
        raise PipelineError(
            f"the plan reads years, days and hours of timestamps in {layout.timezone}, and this Spark session's zone "
            f'is {zone}: plan with timezone = "{zone}" in [workload] (Workload(timezone={zone!r})), or '
            f"spark.conf.set({_SETTING!r}, {layout.timezone!r})."
        )
