"""Docs: examples run, links and file names exist, and every command, option, setting and error is documented.

The call paths of the architecture page are compared with a traced call order.
"""

import doctest
import importlib
import pkgutil
import re
import sys
from inspect import signature
from pathlib import Path

import msgspec
import numpy as np
import pytest
import typer.main

import eddyline
import eddyline as el
from eddyline import errors
from eddyline.api import pipeline
from eddyline.cli import app
from eddyline.plan.demands import METHODS

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "eddyline"
OUTSIDE = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "figures/README.md")),
    ROOT / "benchmarks/README.md",
    *sorted((ROOT / "examples").glob("*/README.md")),
]
PAGES = [*OUTSIDE, *sorted((ROOT / "docs").rglob("*.md"))]
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(eddyline.__path__, "eddyline.")
    if not module.name.startswith("eddyline.spark")
)


def test_examples_in_docstrings_run():
    results = [doctest.testmod(importlib.import_module(name)) for name in MODULES]
    assert sum(result.attempted for result in results) >= 8
    assert [name for name, result in zip(MODULES, results, strict=True) if result.failed] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_tests_that_the_docs_name_are_there():
    named = {
        match
        for page in PAGES
        for match in re.findall(r"`(tests/[\w./-]+\.py)::(\w+)`", page.read_text(encoding="utf-8"))
    }
    assert named
    for file, test in sorted(named):
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file}::{test}"


def test_every_line_of_the_security_page_names_its_test():
    page = (ROOT / "docs" / "reference" / "security.md").read_text(encoding="utf-8")
    tables = re.findall(r"^\| line \| test \|\n\| --- \| --- \|\n((?:\|.*\n)+)", page, re.MULTILINE)
    lines = "".join(tables).splitlines()
    assert len(lines) >= 40
    for line in lines:
        assert re.search(r"\| `tests/[\w./-]+\.py::\w+`[^|]*\|$", line), line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_the_docs_name_are_there(page):
    named = re.findall(
        r"`((?:tests|figures|benchmarks|examples|scripts)/[\w./-]+)`", page.read_text(encoding="utf-8")
    )
    modules = re.findall(
        r"`((?:kernels|sample|sketch|sql|plan|ingest|spark|store|answer|api|serve|cli)/[\w/]+\.py)`",
        page.read_text(encoding="utf-8"),
    )
    for name in [*named, *(f"src/eddyline/{module}" for module in modules)]:
        assert (ROOT / name).exists(), name


def test_the_authors_check_list_has_twenty_elements_whose_code_and_options_are_there():
    page = (ROOT / "docs/reference/documents/code.md").read_text(encoding="utf-8")
    table = page.split("## The authors' check list")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")][2:]
    assert len(rows) == 20
    assert {row[0] for row in rows} == {
        "skimmed",
        "sharing",
        "set expressions",
        "join-distinct",
        "multi-join",
    }
    arguments = {*signature(el.Workload).parameters, *signature(el.Workload.query).parameters}
    serve = {name for each in typer.main.get_command(app).commands["serve"].params for name in each.opts}
    for _, element, code, option, test in rows:
        files = re.split(r";\s*", code)
        assert re.fullmatch(r"`tests/[\w/]+\.py::\w+`", test), element
        for part in files:
            named = re.findall(r"`([\w/.]+)`", part)
            source = next((name for name in named if name.endswith(".py")), None)
            if source is None:
                continue  # a remark
            text = (PACKAGE / source).read_text(encoding="utf-8")
            for symbol in set(named) - {source}:
                assert re.search(rf"^\s*(def|class) {symbol}\b|^ {{4}}{symbol}: ", text, re.MULTILINE), symbol
        assert set(re.findall(r"(\w+)=", option)) <= arguments, option
        assert set(re.findall(r'method="([\w-]+)"', option)) <= set(METHODS), option
        assert set(re.findall(r"--[\w-]+", option)) <= serve, option


SOURCES = sorted(PACKAGE.rglob("*.py"))


def test_every_document_that_a_docstring_cites_is_in_the_references():
    page = (ROOT / "docs" / "references.md").read_text(encoding="utf-8")
    known = set(re.findall(r"^\| ([\w -]+) \|", page, re.MULTILINE))
    cited = {
        (match.group(1), str(path.relative_to(ROOT)))
        for path in SOURCES
        for match in re.finditer(r"Paper: ([\w -]+?)(?=[,.;:)]| with )", path.read_text(encoding="utf-8"))
    }
    assert len(cited) > 20
    assert [each for each in sorted(cited) if each[0] not in known] == []


def test_pages_and_modules_that_docstrings_name_are_there():
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        for page in re.findall(r"\b((?:docs|figures|benchmarks)/[\w/.-]+\.(?:md|py))\b", text):
            assert (ROOT / page).exists(), f"{path.name}: {page}"
        assert not re.findall(r"(?<!/)\b[\w-]+\.md\b", re.sub(r"\b(?:docs|README)[\w/.-]*\.md", "", text)), (
            path.name
        )


def test_every_public_name_is_on_the_generated_page():
    page = (ROOT / "docs/reference/api.md").read_text(encoding="utf-8")
    assert [name for name in eddyline.__all__ if f"::: eddyline.{name}\n" not in page] == []


def sections(page, level):
    """Return the sections of a page by their headings of one level."""
    text = (ROOT / page).read_text(encoding="utf-8")
    parts = re.split(rf"^{'#' * level} (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


COMMANDS = typer.main.get_command(app).commands


def test_every_command_is_on_the_command_line_page():
    documented = set(sections("docs/reference/cli.md", 2)) - {"Environment variables"}
    assert documented == set(COMMANDS)


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_option_of_a_command_is_documented_and_no_other(command):
    section = sections("docs/reference/cli.md", 2)[command]
    options = {option for each in COMMANDS[command].params for option in each.opts if option.startswith("--")}
    documented = set(re.findall(r"^\| `(--[\w-]+)", section, re.MULTILINE))
    assert documented == options


SETTINGS = {
    "[workload]": pipeline.WorkloadSettings,
    "[postgres]": pipeline.PostgresDatabase,
    "[streams.NAME]": pipeline.StreamSource,
    "[queries]": pipeline.QueryText,
    "[run]": pipeline.RunSettings,
    "[spark]": pipeline.SparkSettings,
    "[alerts]": pipeline.Alert,
}


def test_every_table_of_a_pipeline_file_is_documented():
    assert set(sections("docs/reference/pipeline-file.md", 2)) == set(SETTINGS)


@pytest.mark.parametrize("table", sorted(SETTINGS))
def test_every_setting_of_a_pipeline_file_is_documented_and_no_other(table):
    section = sections("docs/reference/pipeline-file.md", 2)[table]
    rows = re.findall(r"^\| (`[^|]+`) \|", section, re.MULTILINE)
    documented = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert documented == {field.name for field in msgspec.structs.fields(SETTINGS[table])}


def test_every_error_is_on_the_messages_page():
    section = sections("docs/reference/messages.md", 2)["Errors"]
    documented = set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))
    raised = {name for name, each in vars(errors).items() if isinstance(each, type)}
    assert documented == raised - {"EddylineError"}


def test_every_page_is_in_the_navigation():
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(
        r"^ +- (?:[\w ]+: )?([\w/.-]+\.md)$", settings[settings.rindex("\nnav:") :], re.MULTILINE
    )
    assert len(listed) == len(set(listed))
    outside = {"index.md", "contributing.md", "changelog.md", "figures/index.md", "benchmarks/index.md"}
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert set(listed) == pages | outside


def test_the_quick_start_runs():
    page = (ROOT / "docs/quick-start.md").read_text(encoding="utf-8")
    steps = re.findall(r"```python\n(.*?)```", page[: page.index("## 4.")], re.DOTALL)
    assert len(steps) == 3
    names = {}
    for step in steps:
        exec(step, names)
    assert str(names["joined"]) in page
    assert str(names["distinct"]) in page
    buyers, visitors = names["buyers"][20_000:], names["visitors"]
    exact = int(np.bincount(buyers, minlength=5_000) @ np.bincount(visitors, minlength=5_000))
    assert (names["joined"].value, names["joined"].exact) == (exact, True)
    assert (names["distinct"].value, names["distinct"].exact) == (len(np.unique(buyers)), True)


def first_calls(work):
    """Return the files of the package in the order in which a piece of work first calls into them."""
    found = {}

    def watch(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            found.setdefault(str(Path(frame.f_code.co_filename).relative_to(PACKAGE)), None)

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        work()
    finally:
        sys.setprofile(before)
    return list(found)


@pytest.fixture(scope="module")
def traced():
    """The call order of each path of the architecture page, by a two-way join that no longer fits."""
    workload = el.Workload(budget="16 KB", seed=1)
    keys = (50_000 * np.random.default_rng(0).random(60_000) ** 3).astype(np.int64)
    made = []

    def plan():
        workload.stream("a", "k BIGINT, g INT")
        workload.stream("b", "k BIGINT")
        workload.query("joined", "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k")
        workload.query("grouped", "SELECT g, COUNT(*) FROM a JOIN b ON a.k = b.k GROUP BY g")
        made.append(workload.plan())

    paths = {"w.query()": first_calls(plan)}
    state = made[0].empty()
    state.update("a", {"k": keys, "g": (keys % 7).astype(np.int32)})
    paths["state.update()"] = first_calls(lambda: state.update("b", {"k": keys}))
    paths["state.answer()"] = first_calls(lambda: state.answer("joined"))
    paths["The same for a GROUP BY"] = first_calls(lambda: state.answer("grouped"))
    paths["state.sql()"] = first_calls(lambda: state.sql("SELECT MAX(g) AS m FROM grouped"))
    return paths


@pytest.mark.parametrize(
    "path",
    ["w.query()", "state.update()", "state.answer()", "The same for a GROUP BY", "state.sql()"],
    ids=str,
)
def test_call_paths_on_the_architecture_page_are_as_traced(path, traced):
    paths = sections("docs/internals/architecture.md", 3)
    (section,) = [text for heading, text in paths.items() if heading.lstrip("`").startswith(path)]
    section = section.split("\n## ")[0]
    listed = re.findall(r"^\| `([\w/]+\.py)` \|", section, re.MULTILINE)
    assert len(listed) >= 8
    called = [file for file in traced[path] if file in listed]
    assert listed == called
