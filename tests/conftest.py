"""Fixtures: one Spark session for all tests that need it, and hypothesis profiles.

With `-n 2 --dist loadfile --no-loadscope-reorder` a file goes to the worker that is free, and each worker has a session.
Files that start Spark in processes of their own (mark processes) take the longest, and go first.
"""

import importlib
import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Asserts of helpers show values, too.
pytest.register_assert_rewrite(
    *(f"tests.{each.parent.name}" for each in Path(__file__).parent.glob("*/__init__.py"))
)

os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
# Tests run each query of Spark once or twice: compiling it well would take longer than running it. scripts/test makes
# the archive of classes; a JVM that cannot use it, such as one of another Spark, starts without it.
_ARCHIVE = Path(__file__).parent.parent / "build" / "spark-classes.jsa"
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
if _ARCHIVE.exists():
    _JAVA_OPTIONS += f" -XX:SharedArchiveFile={_ARCHIVE} -Xlog:cds=off -Xlog:cds+dynamic=off"
os.environ.setdefault("JDK_JAVA_OPTIONS", _JAVA_OPTIONS)

# CI decides about a change, so its examples are the same each time; everywhere else they are drawn.
settings.register_profile(
    "eddyline",
    deadline=None,
    max_examples=60,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("eddyline")


SPARK_WARNINGS = (
    # PySpark before 4.2 leaves the sockets of toArrow to the garbage collector.
    "ignore:.*socket.socket fd=:pytest.PytestUnraisableExceptionWarning",
    # PySpark 4.2 and 4.3 warn about pandas 3; what we use of it works.
    "ignore:PySpark does not yet fully support pandas:FutureWarning",
)


def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("spark"):
            for warning in SPARK_WARNINGS:
                item.add_marker(pytest.mark.filterwarnings(warning))
    items.sort(key=lambda item: item.get_closest_marker("processes") is None)


@pytest.fixture(scope="session")
def spark():
    from eddyline.spark.session import local_session

    session = local_session()
    yield session
    session.stop()


@pytest.fixture
def importing_from(monkeypatch):
    """Return a function that takes a folder and returns an importer of its scripts; modules are removed at the end."""
    before, folders = set(sys.modules), []

    def importing(folder):
        monkeypatch.syspath_prepend(folder)
        folders.append(str(folder))
        return importlib.import_module

    yield importing
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(tuple(folders)):
            del sys.modules[name]
