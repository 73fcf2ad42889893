"""The jars by which Spark reads Kafka: those of the installed Spark, or what comes nearest to them.

Some registries have neither the connector of the newest Spark nor the connector's dependency
spark-token-provider-kafka-0-10, which only fetches delegation tokens for secured brokers. There the newest connector they
have is used, with three classes compiled from token_provider/ that pass its settings through. So the reading of topics
is the connector's own; encryption, SASL and tokens are not run. KAFKA_CONNECTOR_JARS names a folder of jars to use instead.
"""

import contextlib
import os
import pathlib
import shutil
import subprocess

import pyspark
import pytest

from tests.spark.maven_jars import NoJarsError, fetched, folder_of

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"
TOKEN_PROVIDER = "org.apache.spark:spark-token-provider-kafka-0-10_2.13"
NEWEST = "4.2.0"
SOURCES = pathlib.Path(__file__).parent / "token_provider"


def connector_jars():
    """Return the folder of jars that let Spark read Kafka, or skip the test."""
    if given := os.environ.get("KAFKA_CONNECTOR_JARS"):
        return pathlib.Path(given)
    try:
        return _nearest()
    except NoJarsError as why:
        pytest.skip(str(why))


def _nearest():
    """Return the connector of the installed Spark, else the newest one; a registry is asked for the former once."""
    own, newest = f"{CONNECTOR}:{pyspark.__version__}", f"{CONNECTOR}:{NEWEST}"
    if not folder_of(newest).is_dir():
        with contextlib.suppress(NoJarsError):
            return fetched(own)
    return fetched(newest, without=TOKEN_PROVIDER, complete=_add_stand_in)


def _add_stand_in(folder):
    """Compile the stand-in of the token provider into a folder of jars, by the classes of the installed Spark."""
    if shutil.which("javac") is None:
        raise NoJarsError("javac is missing, which compiles the stand-in of Spark's token provider")
    classes = folder.parent / "classes"
    spark = pathlib.Path(pyspark.__file__).parent / "jars"
    sources = map(str, SOURCES.glob("*.java"))
    subprocess.run(["javac", "-cp", f"{spark}/*", "-d", str(classes), *sources], check=True)
    subprocess.run(
        ["jar", "cf", str(folder / "token-provider-stand-in.jar"), "-C", str(classes), "."], check=True
    )
