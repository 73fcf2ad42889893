"""examples/kubernetes/executors.yaml: its run, with its settings, on executors that Spark asks a Kubernetes API for."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
import yaml

import eddyline as el
from tests.spark.kubernetes_server import KubernetesServer

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.processes]

ROOT = pathlib.Path(__file__).parents[2]
PIPELINE = """
[workload]
budget = "64 KB"
store = "state"
[streams.s]
schema = "k BIGINT"
format = "json"
path = "s"
[queries]
n = "SELECT COUNT(*) FROM s"
pairs = "SELECT COUNT(*) FROM s a JOIN s b ON a.k = b.k"
"""
HERE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.port": "0",
    "spark.driver.blockManager.port": "0",
    "spark.blockManager.port": "0",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.instances": "2",
    "spark.executor.cores": "1",
    "spark.ui.enabled": "false",
    "spark.kubernetes.executor.enableApiWatcher": "false",
    "spark.kubernetes.executor.apiPollingInterval": "1s",
}
"""Settings in which this machine differs from the manifest's cluster: its names, its size, and an API without watches."""


def commands(folder):
    """Return a folder with the image's two commands; scripts/ itself should not be on a PATH."""
    folder.mkdir()
    shutil.copy(ROOT / "scripts" / "spark-executor", folder)
    (folder / "tini").write_text('#!/bin/sh\nshift\nexec "$@"\n')
    (folder / "tini").chmod(0o755)
    return folder


def write_settings(folder, address):
    """Write the manifest's files, with what differs here."""
    text = (ROOT / "examples" / "kubernetes" / "executors.yaml").read_text()
    (files,) = (each["data"] for each in yaml.safe_load_all(text) if each["kind"] == "ConfigMap")
    (folder / "executor.yaml").write_text(files["executor.yaml"])
    settings = dict(line.split(None, 1) for line in files["spark-defaults.conf"].splitlines())
    assert settings["spark.master"].startswith("k8s://")
    settings |= HERE | {"spark.master": f"k8s://{address}"}
    settings |= {"spark.kubernetes.executor.podTemplateFile": str(folder / "executor.yaml")}
    lines = (f"{name} {value}\n" for name, value in settings.items())
    (folder / "spark-defaults.conf").write_text("".join(lines))


def test_tasks_run_in_executors_that_the_api_was_asked_for(tmp_path):
    keys = [number % 7 for number in range(100)]
    (tmp_path / "s").mkdir()
    for number in range(4):
        lines = [json.dumps({"k": key}) for key in keys[number::4]]
        (tmp_path / "s" / f"{number}.json").write_text("\n".join(lines))
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    (tmp_path / "conf").mkdir()
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK", "SPARK", "PYTHON"))}
    places = [commands(tmp_path / "bin"), pathlib.Path(sys.executable).parent, os.environ["PATH"]]
    plain |= {"PATH": ":".join(map(str, places)), "PYTHONPATH": str(ROOT / "src")}
    with KubernetesServer(plain, tmp_path) as server:
        write_settings(tmp_path / "conf", server.address)
        done = subprocess.run(
            [sys.executable, ROOT / "examples" / "submit" / "job.py", tmp_path / "pipeline.toml", "--once"],
            capture_output=True, text=True, check=False, timeout=200,
            env={**plain, "SPARK_CONF_DIR": str(tmp_path / "conf")},
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(server.pods) == 2
    finished = [re.findall("Finished task", log.read_text()) for log in tmp_path.glob("*-exec-*.log")]
    assert sum(map(len, finished)) > 0, "no executor ran a task"
    for pod in server.pods.values():
        (container,) = pod["spec"]["containers"]
        assert container["command"] == ["tini", "--", "spark-executor"]
        assert "/lake" in [each["mountPath"] for each in container["volumeMounts"]]
    state = el.open(str(tmp_path / "state"))
    assert state.answer("n").value == 100
    assert state.answer("pairs").value == sum(keys.count(key) ** 2 for key in set(keys))
