"""The benchmarks of the pass run, on as little data as it takes; what they show is in docs/reference/speed.md."""

import json
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
pytestmark = pytest.mark.spark


@pytest.fixture
def script(importing_from):
    return importing_from(BENCHMARKS)


def test_the_table_of_the_pass(script, spark, capsys, monkeypatch, tmp_path):
    benchmark = script("pass")
    queries = {
        f"Spark: {name}": benchmark.SPARK_QUERIES[f"Spark: {name}"] for name in ("count(k)", benchmark.PEER)
    }
    queries["Spark: unheard of"] = "SELECT unheard_of(k) FROM t"
    monkeypatch.setattr(benchmark, "SPARK_QUERIES", queries)
    benchmark.run(spark, 500, 1, [1], ["jvm", "direct"], tmp_path / "saved.json")
    shown = capsys.readouterr().out
    assert "left out: Spark: unheard of: " in shown
    assert "| eddyline, jvm: 1 synopsis " in shown
    assert "eddyline, direct: 1 synopsis takes " in shown
    saved = json.loads((tmp_path / "saved.json").read_text())
    others = [{"versions": "Spark 9", "cpu": {job: 2 * cpu for job, cpu in saved["cpu"].items()}}] * 3
    table = benchmark.compare([saved, *others])
    assert f"| job | Spark {spark.version}, Python " in table
    cpu = saved["cpu"]["eddyline, direct: 1 synopsis"]
    assert f"| eddyline, direct: 1 synopsis | {cpu:.2f} | {2 * cpu:.2f} | 0.50 |" in table


@pytest.mark.slow
def test_how_the_cost_grows(script, spark, capsys, tmp_path):
    for name in ("data", "plots"):
        (tmp_path / name).mkdir()
    benchmark = script("growth")
    small = "--rows 400 --other-rows 300 --partitions 2,9 --states 1 --synopses 2 --streams 1 --repeat 1"
    benchmark.run(spark, benchmark.options().parse_args([*small.split(), "--into", str(tmp_path)]))
    shown = capsys.readouterr().out
    assert "| 1,000 | 64 MB | 1,000 |" in shown
    assert (tmp_path / "data" / "growth.csv").read_text().startswith("axis,series,at,seconds,cpu\n")
    assert "</svg>" in (tmp_path / "plots" / "growth.svg").read_text()


@pytest.mark.slow
def test_the_tables_of_the_sources(script, spark, capsys):
    benchmark = script("sources")
    small = "--rows 300 --repeat 1 --rates 200 --seconds 2"
    benchmark.run(spark, benchmark.options().parse_args(small.split()))
    shown = capsys.readouterr().out
    assert [shown.count(f"\n| {name} | ") for name in ("parquet", "json", "postgres", "200")] == [1, 1, 1, 1]


def test_lines_and_slopes(script):
    benchmark = script("growth")
    points = [benchmark.Point("rows", "x", at, 0.0, 2.0 + 0.5 * at) for at in (1, 10, 1000, 100_000)]
    found = benchmark.fit(points)
    assert found.start == pytest.approx(2)
    assert found.each == pytest.approx(0.5)
    assert found.slope == pytest.approx(1, abs=0.01)
