"""Every script of figures/ runs, on as little data as it takes, in a copy of the folder: committed files stay as they are.

What the figures show at full size is in figures/data, and docs/reference/accuracy.md reads it; here only the code is
tried, so that a script that was not run for months still runs. `SMOKE` has for each script its arguments, and the
constants of its modules that make it small. Scripts without a line of their own are modules of others, and are imported.
"""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

FIGURES = Path(__file__).parent.parent / "figures"
SMALL_SKIMMED = {
    "ELEMENTS": 20_000,
    "DOMAIN": 1 << 12,
    "KEYS": np.arange(1 << 12, dtype=np.int64),
    "EXPONENTS": (1.0, 1.5),
    "GRID_SHIFTS": (0, 100),
    "MORE_SHIFTS": {},
    "OTHER_BUDGETS": (500,),
}
SMALL_JOIN_DISTINCT = {"TUPLES": 2000, "SMALL": 200, "COPIES": 8, "SKETCHES": 8, "LEVELS": 10}
SMALL_SETS = {"UNION": 1 << 12, "LARGE_UNION": 20_000, "COVERED": ((128, 4000),)}
FEW_QUERIES = {name: dict.fromkeys(("Q2", "Q6", "Q9"), 1.0) for name in "123"}
SMOKE = {
    "bank_check": ("--datasets zipf_star_0.7,bursts_0.8,shop", {}),
    "candidates": ("--seeds 1", {"skimmed": SMALL_SKIMMED}),
    "groups": (
        "--seeds 2",
        {"groups": {"ROWS": 3000, "GROUPS": 30, "SKEWS": (1.0,), "SHARES": (1 / 8,)}},
    ),
    "top_groups": (
        "--seeds 1 --parts 0.33 --arrivals late20,churning",
        {"top_groups": {"ROWS": 20_000, "KEYS": 9000}},
    ),
    "groups_flights": ("--seeds 2", {"groups_flights": {"DEPARTURES": 3000, "BUDGETS": ("8 KB", "1 MB")}}),
    "distinct_joins": (
        "--seeds 1 --budgets 16KB --arrivals late,churning",
        {"distinct_joins": {"POSTS": 600, "USERS": 200, "COMMENTS": 4000, "VOTES": 5000}},
    ),
    "groups_together": ("--samples 2 --groups 100", {"groups_together": {"ROWS": 4000, "KEYS": 2000}}),
    "hard_cases": ("--seeds 1", {}),
    "join_distinct": (
        "--seeds 1 --document-seeds 1 --document-other-forms 1",
        {"join_distinct": SMALL_JOIN_DISTINCT},
    ),
    "late_joins": (
        "--seeds 1 --arrivals stationary,both5",
        {"late_joins": {"ROWS": 24_000, "KEYS": 12_000}},
    ),
    "multijoin": (
        "--seeds 2",
        {
            "multijoin_queries": {"ROWS": 2000, "DOCUMENT_ROWS": 20_000},
            "multijoin": {"BUDGETS": (1280, 5120)},
        },
    ),
    "multijoin --tpch": ("--seeds 2 --scale 0.001", {"multijoin_tpch": {"BUDGETS": (20480,)}}),
    "partitioning": (
        "--data-sets 1 --seeds 1",
        {"partitioning": {"BUCKETS": (25,), "PARTITIONS": (1, 2)}},
    ),
    "reproduce": ("all --quick", {}),  # as it is: what the documents claim is measured in every CI run
    "reproduce_multijoin": ("--copies 1000", {}),
    "sample_core": (
        "--seeds 1 --budgets 16KB --arrivals stationary,churning,forum",
        {"sample_core": {"ROWS": 3000, "FORUM_ROWS": 4000}},
    ),
    "sample_reading": (
        "--drawings 1 --seeds 2 --size 1500 --orders by_time --budgets 1/8 --datasets zipf_star_0.7,flights",
        {},
    ),
    "scan_or_table": ("--seeds 1", {"scan_or_table": {"ROWS": 10_000}}),
    "set_expressions": ("--seeds 1 --paper-seeds 1", {"set_expressions": SMALL_SETS}),
    "sharing": ("--seeds 1 --scale 0.01", {"sharing": {"WORKLOADS": FEW_QUERIES}}),
    "size": ("--seeds 1 --size 6000 --fractions 1,1/3 --shares 1/4 --datasets zipf_star_0.7", {}),
    "skimmed": ("--seeds 1 --agms-seeds 1", {"skimmed": SMALL_SKIMMED}),
    "stream_samples": (
        "--seeds 1 --budgets 1/8 --datasets zipf_chain_0.8 --methods samples,sketches,hash,agms,universe",
        {},
    ),
    "stream_samples_sets": (
        "--seeds 1",
        {"stream_samples_sets": {"KEYS": 9000, "HELD": 6000, "COMMON": 3000}},
    ),
    "tpch": ("--scale 0.001 --budgets 4KB --queries q4,q6,q12", {}),
}
REPORTS = {
    "sample_reading": ("sample_reading_report", "choose"),
    "stream_samples": ("stream_samples_report", "--files after --least-seeds 1"),
}
"""Reports that a script does not print itself."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    copy = tmp_path_factory.mktemp("figures")
    shutil.copytree(
        FIGURES, copy, dirs_exist_ok=True, ignore=shutil.ignore_patterns("data", "plots", "__pycache__")
    )
    for name in ("data", "plots"):
        (copy / name).mkdir()
    return copy


@pytest.fixture
def script(folder, importing_from):
    return importing_from(folder)


def run(script, monkeypatch, name, arguments):
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *arguments.split()])
    script(name).main()


@pytest.mark.figures
@pytest.mark.parametrize("case", SMOKE)
def test_script_runs(script, monkeypatch, case, capsys):
    arguments, constants = SMOKE[case]
    for module, values in constants.items():
        for constant, value in values.items():
            monkeypatch.setattr(script(module), constant, value)
    name, *flags = case.split()
    run(script, monkeypatch, name, " ".join([*flags, arguments]))
    assert capsys.readouterr().out
    if case in REPORTS:
        run(script, monkeypatch, *REPORTS[case])
        assert capsys.readouterr().out


@pytest.mark.figures
def test_a_run_of_one_document_leaves_the_rows_of_others_on_the_page(script, tmp_path):
    lines, page = script("reproduce_lines"), tmp_path / "page.md"

    def put(document, error):
        one = lines.Line(document, "FIG. 1", "less", "|E| = 2", 8, 2, {"document": error}, "none")
        lines.put_on_page(page, lines.tables([one], {document: ("2", "0.1", "3", "2 cores")}))
        return [line for line in page.read_text().splitlines() if line.startswith("| 00")]

    empty = lines.markdown([[], [], []])
    page.write_text(f"before\n\n{lines.BEGIN}{empty}{lines.END}\n\nafter\n")
    first = put("002", 0.5)
    assert len(put("000", 0.25)) == 6
    last = put("000", 0.125)
    assert last == sorted(last[:2]) + sorted(last[2:4]) + sorted(last[4:])
    assert set(first) <= set(last)
    assert last[4].endswith("document 0.125 |")
    assert page.read_text().startswith("before")
    assert page.read_text().endswith("after\n")


def test_every_script_is_run_and_described():
    mains = {path.stem for path in FIGURES.glob("*.py") if "def main(" in path.read_text()}
    run_here = {case.split()[0] for case in SMOKE} | {name for name, _ in REPORTS.values()}
    assert mains - {"multijoin_tpch"} == run_here  # that one is `multijoin --tpch`
    described = (FIGURES / "README.md").read_text()
    assert [path.name for path in sorted(FIGURES.glob("*.py")) if f"`{path.name}`" not in described] == []
