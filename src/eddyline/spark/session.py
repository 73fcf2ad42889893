"""A local Spark session for the command line, the demo and the tests."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from eddyline.errors import PipelineError

JAVA_NEEDED = 17
HOW_TO_GET_JAVA = (
    "install a Java 17 or newer runtime (for example `apt-get install openjdk-17-jre-headless`, or "
    "`brew install openjdk@17`) and put `java` on the PATH or set JAVA_HOME"
)


def java_version() -> int | None:
    """Return the major version of the Java that Spark would start, or None if there is none."""
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")  # noqa: PTH118
    if java is None or shutil.which(java) is None:
        return None
    printed = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603
    match = re.search(r'version "(\d+)', printed)
    return int(match[1]) if match else None


def leave_signals_to_python(spark: SparkSession) -> None:
    """Let the JVM ignore SIGTERM, which a service manager sends to it as well: Python ends it after the last batch."""
    signals = spark.sparkContext._jvm.sun.misc  # type: ignore[union-attr]  # noqa: SLF001 - a local session has a JVM
    signals.Signal.handle(signals.Signal("TERM"), signals.SignalHandler.SIG_IGN)


def local_session(master: str = "local[2]") -> SparkSession:
    """Return a quiet local session whose workers run this very Python."""
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
    session = (
        SparkSession.builder.master(master)
        .appName("eddyline")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "100000")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session
