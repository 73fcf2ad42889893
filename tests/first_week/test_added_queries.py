"""Queries that are added to a store: what fits is kept, what is unchanged is answered, and the budget is shown."""

import re
import shutil

import pytest
from typer.testing import CliRunner

from eddyline.api.pipeline import load_pipeline
from eddyline.api.run import StartOptions, open_store
from eddyline.cli import app

PIPELINE = """
[workload]
budget = "16 KB"
store = "state"
[streams.s]
schema = "k BIGINT, x INT"
format = "json"
path = "s"
[streams.t]
schema = "k BIGINT, y INT"
format = "json"
path = "t"
[queries]
n = "SELECT COUNT(*) FROM s"
pairs = { sql = "SELECT COUNT(*) FROM s JOIN t ON s.k = t.k", method = "hash" }
"""
ADDED = "".join(
    f'm{i} = {{ sql = "SELECT SUM(x) FROM s JOIN t ON s.k = t.k AND y > {i}", method = "hash" }}\n'
    for i in range(9)
)


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


@pytest.fixture
def pipeline(tmp_path):
    path = tmp_path / "pipeline.toml"
    path.write_text(PIPELINE)
    open_store(load_pipeline(path).plan().layout, str(tmp_path / "state"), StartOptions()).close()
    return path


def test_a_renamed_column_leaves_queries_answered_that_do_not_read_it(pipeline):
    asked = 'sums = "SELECT SUM(x) FROM s"\n'
    pipeline.write_text(PIPELINE + asked)
    where = pipeline.parent / "state"
    shutil.rmtree(where)
    open_store(load_pipeline(pipeline).plan().layout, str(where), StartOptions()).close()
    pipeline.write_text((PIPELINE + asked.replace("(x)", "(z)")).replace("x INT", "z INT"))
    shown = run("ask", pipeline, code=1)
    assert re.search(r" n\s+0\s+0\s+0\s+exact", shown)
    assert re.search(r"pairs\s+0", shown)
    assert not re.search(r"sums\s+(0|NULL)", shown)
    layout = load_pipeline(pipeline).plan().layout
    pipeline.write_text(PIPELINE.replace("k BIGINT, x INT", "k INT, x INT"))
    assert load_pipeline(pipeline).build().unchanged(layout) == ["n"]


def test_too_many_queries_are_told_the_budget_and_the_others_are_answered(pipeline):
    pipeline.write_text(PIPELINE + ADDED)
    shown = run("ask", pipeline, code=1)
    assert re.search(r" n\s+0\s+0\s+0\s+exact", shown)
    assert re.search(r"pairs\s+0", shown)
    found = re.search(
        r"the budget is 16,000 bytes: ([\d,]+) are kept as they are, and of the other ([\d,]+) there is no memory for "
        r'm0, .*, m8\. Write budget = "(\d+) KB" in \[workload\]',
        shown,
    )
    assert found, shown
    kept, left = (int(number.replace(",", "")) for number in found.groups()[:2])
    assert kept + left == 16_000
    assert "the budget is 16,000 bytes" in run("run", pipeline, "--change-plan", code=1)
    pipeline.write_text((PIPELINE + ADDED).replace("16 KB", f"{found[3]} KB"))
    assert "was made by another plan" in run("ask", pipeline, code=1)  # it fits, and the run may take it


def test_a_query_that_reads_otherwise_is_not_answered_by_the_old_one(pipeline):
    pipeline.write_text(PIPELINE.replace('COUNT(*) FROM s"', 'SUM(x) FROM s"'))
    shown = run("ask", pipeline, code=1)
    assert "n: the store" in shown
    assert re.search(r"pairs\s+0", shown)
    assert not re.search(r"^n\s+0", shown)
