"""What the docs and the doctor say of Spark's versions is what scripts/test-spark-range recorded."""

import importlib.machinery
import importlib.util
import json
import pathlib

from eddyline.spark.sources.connectors import RELEASES, connector_of

ROOT = pathlib.Path(__file__).parent.parent
RESULTS = json.loads((ROOT / "docs" / "reference" / "spark-range.json").read_text())
CONNECTORS = {"kafka": "Kafka", "delta": "Delta", "iceberg": "Iceberg"}


def script():
    path = str(ROOT / "scripts" / "test-spark-range")
    loader = importlib.machinery.SourceFileLoader("test_spark_range", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def test_the_doctor_names_the_connectors_that_were_run():
    """What was run passed with the release that the doctor names; CI's Spark has run them all."""
    for form, feature in CONNECTORS.items():
        assert feature in RESULTS["spark"]["4.1"]["features"]
        for spark, entry in RESULTS["spark"].items():
            release = RELEASES[form].get(spark)
            found = entry["features"].get(feature)
            if found is not None:
                assert found == f"passed ({release})" if release else found.startswith("no: "), (spark, found)
            if release is not None:
                assert connector_of(form, f"{spark}.0").coordinates.endswith(f":{release}")


def test_the_docs_show_what_was_run():
    page = (ROOT / "docs" / "reference" / "platforms.md").read_text()
    assert script().table(RESULTS) in page


def test_the_range_is_what_pip_is_asked_for():
    text = (ROOT / "pyproject.toml").read_text()
    sparks = sorted(script().SPARKS)
    assert f'"pyspark>={sparks[0]},<4.{int(sparks[-1].split(".")[1]) + 1}"' in text
    assert set(RESULTS["spark"]) <= set(sparks)
