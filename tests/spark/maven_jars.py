"""Jars of Maven Central for tests, fetched once by mvn into a folder outside the repository."""

import contextlib
import os
import pathlib
import shutil
import subprocess

import pytest

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "eddyline-tests"
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
DEPENDENCY = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}</dependency>"
)
WITHOUT = "<exclusions><exclusion><groupId>{}</groupId><artifactId>{}</artifactId></exclusion></exclusions>"
POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>tests</groupId><artifactId>jars</artifactId><version>1</version><dependencies>{}</dependencies></project>"""


class NoJarsError(Exception):
    """Why jars cannot be had."""


def jars_of(*coordinates):
    """Return the folder with packages and all that they need, or skip the test where they cannot be had."""
    try:
        return fetched(*coordinates)
    except NoJarsError as why:
        pytest.skip(str(why))


def folder_of(*coordinates):
    return CACHE / "_".join(coordinates).replace(":", "_")


def fetched(*coordinates, without=None, complete=lambda folder: None):
    """Return the folder with packages and all that they need but `without`, or raise NoJarsError.

    complete: adds to the folder what Maven does not give, before the folder is there for others.
    """
    folder = folder_of(*coordinates)
    if folder.is_dir():
        return folder
    if shutil.which("mvn") is None:
        raise NoJarsError(f"mvn is missing, which fetches {coordinates[0]}")
    making = CACHE / f"{folder.name}.{os.getpid()}"
    making.mkdir(parents=True)
    try:
        _fetch(making, coordinates, WITHOUT.format(*without.split(":")) if without else "")
        complete(making / "jars")
        with contextlib.suppress(OSError):  # another worker was quicker
            (making / "jars").rename(folder)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    assert folder.is_dir()
    return folder


def _fetch(making, coordinates, exclusions):
    wanted = "".join(DEPENDENCY.format(*each.split(":"), exclusions) for each in coordinates)
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
