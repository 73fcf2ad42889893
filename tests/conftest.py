"""Fixtures: one Spark session for all tests that need it, and hypothesis profiles."""

import os
import sys

import pytest
from hypothesis import HealthCheck, settings

os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable

settings.register_profile(
    "eddyline", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("eddyline")


@pytest.fixture(scope="session")
def spark():
    from eddyline.spark.session import local_session

    session = local_session()
    yield session
    session.stop()
