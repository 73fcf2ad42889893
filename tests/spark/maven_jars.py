"""Jars of Maven Central for tests, fetched once by mvn into a folder outside the repository."""

import os
import pathlib
import shutil
import subprocess

import pytest

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "eddyline-tests"
PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>tests</groupId><artifactId>jars</artifactId><version>1</version><dependencies><dependency>
<groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency></dependencies></project>"""


def jars_of(coordinates):
    """Return the folder with a package and all that it needs, or skip the test where it cannot be had."""
    folder = CACHE / coordinates.replace(":", "_")
    if folder.is_dir():
        return folder
    if shutil.which("mvn") is None:
        pytest.skip(f"mvn is missing, which fetches {coordinates}")
    making = CACHE / f"{folder.name}.{os.getpid()}"
    making.mkdir(parents=True)
    try:
        (making / "pom.xml").write_text(POM.format(*coordinates.split(":")))
        command = ["mvn", "-B", "-q", "-f", str(making / "pom.xml"), PLUGIN, "-DincludeScope=runtime"]
        done = subprocess.run(
            [*command, f"-DoutputDirectory={making / 'jars'}"],
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        if done.returncode != 0:
            pytest.skip(f"Maven Central does not give {coordinates}: {_first_error(done.stdout)}")
        (making / "jars").rename(folder)
    except subprocess.TimeoutExpired:
        pytest.skip(f"Maven Central did not give {coordinates} within three minutes")
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return folder


def _first_error(said):
    return next((line for line in said.splitlines() if "ERROR" in line), "no reason was given")[:300]
