"""Jars of Maven Central for tests, fetched once by mvn into a folder outside the repository."""

import contextlib
import os
import pathlib
import shutil
import subprocess

import pyspark
import pytest

from eddyline.spark.sources.connectors import connector_of

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "eddyline-tests"
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
TOKEN_PROVIDER = ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0")
"""What Kafka's connector needs for delegation tokens of secured brokers, in the newest release that every mirror has:
some have the connector of each Spark and this package only up to here. Delegation tokens are not tested."""
POM = f"""<project><modelVersion>4.0.0</modelVersion>
<groupId>tests</groupId><artifactId>jars</artifactId><version>1</version>
<dependencyManagement><dependencies>{DEPENDENCY.format(*TOKEN_PROVIDER)}</dependencies></dependencyManagement>
<dependencies>{{}}</dependencies></project>"""


class NoJarsError(Exception):
    """Why jars cannot be had."""


def jars_of(*coordinates):
    """Return the folder with packages and all that they need, or skip the test where they cannot be had."""
    try:
        return fetched(*coordinates)
    except NoJarsError as why:
        pytest.skip(str(why))


def connector_jars(form):
    """Return the folder with the released connector of a format for the installed Spark, or skip the test."""
    connector = connector_of(form)
    if connector.release is None:
        pytest.skip(f"Maven Central had no {connector.artifact} for Spark {pyspark.__version__}")
    return jars_of(connector.coordinates)


def folder_of(*coordinates):
    return CACHE / "_".join(coordinates).replace(":", "_")


def fetched(*coordinates):
    """Return the folder with packages and all that they need, or raise NoJarsError."""
    folder = folder_of(*coordinates)
    if folder.is_dir():
        return folder
    if shutil.which("mvn") is None:
        raise NoJarsError(f"mvn is missing, which fetches {coordinates[0]}")
    making = CACHE / f"{folder.name}.{os.getpid()}"
    making.mkdir(parents=True)
    try:
        _fetch(making, coordinates)
        with contextlib.suppress(OSError):  # another worker was quicker
            (making / "jars").rename(folder)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    assert folder.is_dir()
    return folder


def _fetch(making, coordinates):
    wanted = "".join(DEPENDENCY.format(*each.split(":")) for each in coordinates)
    (making / "pom.xml").write_text(POM.format(wanted))
    command = ["mvn", "-B", "-q", "-f", str(making / "pom.xml"), PLUGIN, "-DincludeScope=runtime"]
    command.append(f"-DoutputDirectory={making / 'jars'}")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    except subprocess.TimeoutExpired as error:
        raise NoJarsError(f"Maven Central did not give {coordinates[0]} within three minutes") from error
    if done.returncode != 0:
        why = next((line for line in done.stdout.splitlines() if "ERROR" in line), "no reason was given")
        raise NoJarsError(f"Maven Central does not give {coordinates[0]}: {why[:300]}")
