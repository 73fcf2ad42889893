"""examples/submit/job.py: by spark-submit to executors that have no eddyline, and as a process that gets a signal."""

import os
import pathlib
import signal
import subprocess
import sys
import sysconfig
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eddyline as el
from tests.serve.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.processes]

ROOT = pathlib.Path(__file__).parents[2]
JOB = ROOT / "examples" / "submit" / "job.py"
PIPELINE = """
[workload]
budget = "256 KB"
store = "state"
[streams.orders]
schema = "customer BIGINT, total INT"
changes = "weight"
format = "parquet"
path = "orders"
[streams.visits]
schema = "customer BIGINT"
format = "parquet"
path = "visits"
[queries]
revenue = "SELECT SUM(total) FROM orders"
pairs = "SELECT COUNT(*) FROM orders o JOIN visits v ON o.customer = v.customer"
"""
CUSTOMERS = 200


@pytest.fixture
def pipeline(tmp_path):
    """A pipeline file over a few files of two streams; `truth` has its answers."""
    rng = np.random.default_rng(3)
    orders, visits = np.zeros(CUSTOMERS, np.int64), np.zeros(CUSTOMERS, np.int64)
    revenue = 0
    for stream in ("orders", "visits"):
        (tmp_path / stream).mkdir()
    for number in range(4):
        customer, total = rng.integers(0, CUSTOMERS, 500), rng.integers(1, 90, 500).astype(np.int32)
        weight = rng.choice(np.array([1, 1, 1, -1], np.int32), 500)
        np.add.at(orders, customer, weight)
        revenue += int((total * weight).sum())
        write(tmp_path / "orders" / f"{number}.parquet", customer=customer, total=total, weight=weight)
        visitor = rng.integers(0, CUSTOMERS, 500)
        np.add.at(visits, visitor, 1)
        write(tmp_path / "visits" / f"{number}.parquet", customer=visitor)
    path = tmp_path / "pipeline.toml"
    path.write_text(PIPELINE)
    return path, {"revenue": revenue, "pairs": int(orders @ visits)}


def write(path, **columns):
    pq.write_table(pa.table(columns), path)


def environment(**settings):
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK", "SPARK", "PYTHON"))}
    return {**plain, **settings}


@pytest.fixture
def stranger(tmp_path):
    """An interpreter that has all dependencies and no eddyline: no .pth file is read, so no editable install is seen."""
    path = tmp_path / "python"
    packages = sysconfig.get_path("purelib")
    path.write_text(
        f'#!/bin/sh\nexport PYTHONPATH="$PYTHONPATH:{packages}"\nexec "{sys.executable}" -S "$@"\n'
    )
    path.chmod(0o755)
    missing = subprocess.run(
        [path, "-c", "import numba, eddyline"], capture_output=True, check=False, env=environment()
    )
    assert b"No module named 'eddyline'" in missing.stderr
    return str(path)


@pytest.fixture
def package(tmp_path):
    """The package as --py-files takes it: what a wheel has in it, in a file named .zip."""
    path = tmp_path / "eddyline.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for source in (ROOT / "src").glob("*eddyline/**/*"):
            if source.suffix not in (".pyc", ".nbi", ".nbc"):
                archive.write(source, source.relative_to(ROOT / "src"))
    return path


def test_executors_get_the_package_by_py_files(pipeline, stranger, package, tmp_path):
    path, truth = pipeline
    submit = [
        pathlib.Path(sys.executable).with_name("spark-submit"),
        "--master", "local-cluster[2,1,1024]", "--py-files", package,
        "--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1",
        "--conf", f"spark.executorEnv.XDG_CACHE_HOME={tmp_path / 'cache'}",
        JOB, path, "--once",
    ]  # fmt: skip
    settings = {"PYSPARK_PYTHON": stranger, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        submit,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=tmp_path,
        env=environment(**settings),
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "stopped at epoch" in done.stdout
    state = el.open(str(path.parent / "state"))
    answers = {name: state.answer(name) for name in truth}
    assert {name: answer.value for name, answer in answers.items()} == truth
    for answer in answers.values():
        assert answer.low == answer.high


@pytest.mark.slow
def test_it_takes_the_cluster_from_spark_defaults_and_ends_when_it_is_reported(pipeline, tmp_path):
    path, truth = pipeline
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.master local[2]\nspark.ui.enabled false\nspark.driver.host 127.0.0.1\n"
    )
    settings = {
        "SPARK_CONF_DIR": str(tmp_path),
        "PYTHONPATH": str(ROOT / "src"),
        "PYSPARK_PYTHON": sys.executable,
    }
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, JOB, path], stdout=log, stderr=log, env=environment(**settings)
        )
    store = str(tmp_path / "state")

    def current():
        assert process.poll() is None, (tmp_path / "log").read_text()[-3000:]
        try:
            state = el.open(store)
        except el.StoreError:
            return False
        return all(state.answer(name).value == value for name, value in truth.items())

    try:
        until(current, 90)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
    assert "stopped at epoch" in (tmp_path / "log").read_text()
