"""What the docs and the doctor say of Spark's versions is what scripts/test-spark-range recorded."""

import importlib.machinery
import importlib.util
import json
import pathlib
import sys

import pytest

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


def test_cells_are_impossible_where_no_connector_was_released():
    impossible = script().IMPOSSIBLE
    for form, feature in CONNECTORS.items():
        for spark in script().SPARKS:
            assert (feature in impossible.get(spark, ())) == (spark not in RELEASES[form]), (spark, feature)
    for spark, features in impossible.items():
        assert not set(features) & set(RESULTS["spark"].get(spark, {}).get("features", ())), spark


def test_an_unknown_feature_is_refused_by_name(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["test-spark-range", "--features", "pass,kill", "--table"])
    with pytest.raises(SystemExit):
        script().main()
    error = capsys.readouterr().err
    assert "unknown feature 'kill': choose from pass, direct scans" in error
    assert script().names_of("pass, kill and restart", script().FEATURES, "feature") == [
        "pass",
        "kill and restart",
    ]


def test_missing_cells_are_those_that_have_not_passed(monkeypatch):
    module = script()
    cells = {"pass": "passed", "Kafka": "failed (1 of 1)", "Delta": "passed (4.4.0)"}
    monkeypatch.setattr(module, "recorded", lambda: {"spark": {"4.2": {"features": cells}}})
    assert module.missing("4.2", ["pass", "files", "Kafka", "Delta"]) == ["files", "Kafka"]
    assert module.missing("4.3", ["pass"]) == ["pass"]


def test_the_docs_show_what_was_run():
    page = (ROOT / "docs" / "reference" / "platforms.md").read_text()
    assert script().table(RESULTS) in page
    assert script().python_table(RESULTS) in page


def test_the_range_is_what_pip_is_asked_for():
    text = (ROOT / "pyproject.toml").read_text()
    sparks = sorted(script().SPARKS)
    assert f'"pyspark>={sparks[0]},<4.{int(sparks[-1].split(".")[1]) + 1}"' in text
    assert set(RESULTS["spark"]) <= set(sparks)
