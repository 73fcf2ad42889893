"""Files that are damaged: the sentence names the file, shows the line, and no Java comes before it."""

import pytest
from typer.testing import CliRunner

from eddyline.cli import app

pytestmark = pytest.mark.spark
PIPELINE = """
[streams.s]
schema = "k BIGINT, x INT"
format = "{form}"
path = "s"
[queries]
n = "SELECT SUM(x) FROM s"
pairs = "SELECT COUNT(*) FROM s a JOIN s b ON a.k = b.k"
"""
BAD = {
    "csv": (b"1,2\n2,many\n", "1 of 2 lines cannot be read as the declared columns"),
    "json": (b'{"k": 1, "x": 2}\n{"k": broken\n', "1 of 2 lines cannot be read as the declared columns"),
    "parquet": (b"PAR1 this is no Parquet file PAR1", "s/1.parquet"),
}


@pytest.fixture
def pipeline(tmp_path, spark, monkeypatch):
    monkeypatch.setattr("eddyline.cli.console.session", lambda *_: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)
    (tmp_path / "s").mkdir()

    def write(form, more=""):
        (tmp_path / "s" / f"1.{form}").write_bytes(BAD[form][0])
        (tmp_path / "pipeline.toml").write_text(PIPELINE.format(form=form) + more)
        return tmp_path / "pipeline.toml"

    return write


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


@pytest.mark.parametrize("form", BAD)
def test_damaged_files_are_told_with_their_names(pipeline, form):
    shown = run("ask", pipeline(form), code=1)
    assert BAD[form][1] in shown
    assert f"1.{form}" in shown
    assert "at org.apache" not in shown
    assert "carry a change" not in shown


def test_analyze_leaves_out_what_a_run_leaves_out(pipeline, tmp_path):
    out = tmp_path / "statistics.json"
    assert "cannot be read" in run("analyze", pipeline("json"), "--out", out, code=1)
    run("analyze", pipeline("json", '[run]\non_bad = "skip"\n'), "--out", out)
    assert out.exists()
