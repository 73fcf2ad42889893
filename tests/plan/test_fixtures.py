"""What the planner does with some workloads, as files: pipelines in, the text of `explain` out.

A change of the planner shows as a difference in tests/plan/fixtures/*.txt. If it is meant, write them again

    REWRITE_FIXTURES=1 .venv/bin/python -m pytest tests/plan/test_fixtures.py

and read `git diff` before committing. A new case is a new .toml file there; `partitioned.json` holds the statistics that
one of them names, made by `statistics_of_crossed_streams` below.
"""

import os
from pathlib import Path

import numpy as np
import pytest

import eddyline as el
from eddyline.api.pipeline import load_pipeline

FOLDER = Path(__file__).parent / "fixtures"
CASES = sorted(FOLDER.glob("*.toml"))
REWRITE = bool(os.environ.get("REWRITE_FIXTURES"))


def statistics_of_crossed_streams():
    """Statistics of two streams that rank the same values in opposite order."""
    frequent = np.round(400 / np.arange(1, 65) ** 0.5).astype(np.int64)
    made = el.Workload(budget="12 KB", seed=1, max_distinct=1 << 14, samples=False)
    made.stream("a", "k BIGINT").stream("b", "k BIGINT")
    made.query("q", "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k", method="hash")
    state = made.analysis(budget="4 MB").empty()
    state.update("a", {"k": np.arange(64)}, frequent).update("b", {"k": np.arange(64)}, frequent[::-1].copy())
    return state.statistics()


def test_there_are_cases():
    assert len(CASES) >= 8


def test_the_statistics_of_the_partitioned_case_are_those_of_its_data():
    path, found = FOLDER / "partitioned.json", statistics_of_crossed_streams()
    if REWRITE:
        path.write_text(found.to_json() + "\n", encoding="utf-8")
    kept = el.Statistics.from_json(path.read_text(encoding="utf-8"))
    assert (kept.rows, kept.histograms) == (found.rows, found.histograms)
    assert kept.relations.keys() == found.relations.keys()
    assert [each.self_join for each in kept.relations.values()] == pytest.approx(
        [each.self_join for each in found.relations.values()]
    )


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_explain_is_what_the_file_says(path):
    explained = load_pipeline(path).plan().explain().rstrip() + "\n"
    expected = path.with_suffix(".txt")
    if REWRITE:
        expected.write_text(explained, encoding="utf-8")
    assert expected.read_text(encoding="utf-8") == explained, (
        "the plan changed: see the docstring of this file"
    )


def test_every_expectation_has_its_case():
    assert {path.stem for path in FOLDER.glob("*.txt")} == {path.stem for path in CASES}


def test_only_parquet_is_scanned_directly(tmp_path):
    text = (FOLDER / "one_stream.toml").read_text()
    for form, way in (
        ("parquet", "directly from Parquet files"),
        ("csv", "through the JVM: Spark reads csv"),
    ):
        (tmp_path / "pipeline.toml").write_text(text.replace('format = "parquet"', f'format = "{form}"'))
        assert f": {way}" in load_pipeline(tmp_path / "pipeline.toml").plan().explain()
