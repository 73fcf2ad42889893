"""Packages and jars of a pipeline file: found, fetched by Spark's own Ivy from a registry in a folder, or refused."""

import subprocess
import sys
import zipfile

import pyspark
import pytest

import eddyline as el
from eddyline.spark.sources.connectors import (
    connector_conf,
    connector_of,
    find_connector,
    jar_files,
    jar_settings,
)

KAFKA = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
PIPELINE = """
[workload]
budget = "64 KB"
[streams.s]
schema = "k BIGINT"
format = "kafka"
options = {{ "kafka.bootstrap.servers" = "127.0.0.1:1", subscribe = "s" }}
[spark]
packages = ["{package}"]
conf = {{ "spark.jars.ivySettings" = "{folder}/ivysettings.xml", "spark.jars.ivy" = "{folder}/ivy" }}
[queries]
n = "SELECT COUNT(*) FROM s"
"""
SETTINGS = """<ivysettings><settings defaultResolver="only"/><resolvers>
<ibiblio name="only" m2compatible="true" root="{}"/></resolvers></ivysettings>"""
POM = """<project><modelVersion>4.0.0</modelVersion><groupId>{}</groupId><artifactId>{}</artifactId>
<version>{}</version></project>"""


def jar(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
    return path


def doctor(folder, package, registry):
    """Return what `eddyline doctor` says of a pipeline that takes a package from a registry."""
    (folder / "ivysettings.xml").write_text(SETTINGS.format(registry))
    (folder / "pipeline.toml").write_text(PIPELINE.format(package=package, folder=folder))
    command = [sys.executable, "-m", "eddyline.cli", "doctor", "pipeline.toml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, timeout=200)
    said = " ".join((done.stdout + done.stderr).split())
    assert "Exception" not in said, said
    return done.returncode, said


@pytest.mark.spark
@pytest.mark.processes
@pytest.mark.slow
def test_packages_come_from_a_registry_or_are_refused_in_a_sentence(tmp_path):
    group, artifact, version = KAFKA.split(":")
    where = tmp_path / "registry" / group.replace(".", "/") / artifact / version
    jar(where / f"{artifact}-{version}.jar")
    (where / f"{artifact}-{version}.pom").write_text(POM.format(group, artifact, version))
    registry = (tmp_path / "registry").as_uri()
    code, said = doctor(tmp_path, KAFKA, registry)
    assert code == 0, said
    assert f"stream s (kafka): {KAFKA}, not fetched yet" in said
    assert f"ok Spark: version {pyspark.__version__}" in said
    code, said = doctor(tmp_path, f"{group}:{artifact}:0.0.1", registry)
    assert code == 1
    assert f"is of Spark 0.0.1, and Spark {version} is installed: take {KAFKA}" in said
    assert (
        f"FAIL Spark: package {group}:{artifact}:0.0.1 is in none of the registries that Spark asked" in said
    )
    code, said = doctor(tmp_path, "some:thing:1.0", "http://127.0.0.1:1/")
    assert code == 1
    assert f"FAIL stream s (kafka): needs {KAFKA}: add packages" in said
    assert (
        "package some:thing:1.0 was not found in any registry that answered, and at least one did not" in said
    )


def test_jars_are_files_and_folders(tmp_path):
    one, two = jar(tmp_path / "a.jar"), jar(tmp_path / "folder" / "b.jar")
    assert jar_files([str(one), str(tmp_path / "folder"), "s3://x/c.jar"]) == [
        str(one),
        str(two),
        "s3://x/c.jar",
    ]
    (tmp_path / "empty").mkdir()
    for missing in ("empty", "nowhere"):
        with pytest.raises(el.PipelineError, match=missing):
            jar_files([str(tmp_path / missing)])
    with pytest.raises(el.PipelineError, match="group:artifact:version"):
        jar_settings(["kafka"], [])
    assert jar_settings(["a:b:1"], [str(one)]) == {"spark.jars.packages": "a:b:1", "spark.jars": str(one)}


def test_connectors_are_found_in_folders_and_in_what_was_fetched(tmp_path):
    assert connector_of("parquet") is None
    assert connector_of("delta", "4.1.2").coordinates == "io.delta:delta-spark_4.1_2.13:4.4.0"
    assert connector_of("delta", "9.9.0").coordinates == "io.delta:delta-spark_9.9_2.13:<its newest version>"
    name = KAFKA.split(":", 1)[1].replace(":", "-")
    jar(tmp_path / "fits" / f"{name}.jar")
    jar(tmp_path / "other" / "spark-sql-kafka-0-10_2.13-3.5.0.jar")
    jar(tmp_path / "ivy" / "jars" / f"org.apache.spark_{name}.jar")
    fits = find_connector("kafka", [], [str(tmp_path / "fits")], {})
    assert fits.fine
    assert f"{name}.jar in {tmp_path / 'fits'}" in fits.sentence
    other = find_connector("kafka", [], [str(tmp_path / "other")], {})
    assert not other.fine
    assert "is of Spark 3.5.0" in other.sentence
    kept = find_connector("kafka", [KAFKA], [], {"spark.jars.ivy": str(tmp_path / "ivy")})
    assert kept.fine
    assert "kept in" in kept.sentence
    assert not find_connector("iceberg", [], [], {}).fine
    assert find_connector("eddyline-postgres", [], [], {}).fine
    assert find_connector("json", [], [], {}) is None


def test_connectors_of_tables_bring_their_settings_of_spark():
    extension, catalog = "io.delta.sql.DeltaSparkSessionExtension", "spark.sql.catalog.spark_catalog"
    assert connector_conf(["kafka", "json"], {"a": "b"}) == {"a": "b"}
    made = connector_conf(["delta"], {})
    assert made == {
        "spark.sql.extensions": extension,
        catalog: "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
    assert connector_conf(["delta"], made) == made
    both = connector_conf({"delta", "iceberg"}, {"spark.sql.extensions": "my.Own", catalog: "my.Catalog"})
    assert both[catalog] == "my.Catalog"
    assert both["spark.sql.extensions"].startswith(f"my.Own,{extension},org.apache.iceberg.")
