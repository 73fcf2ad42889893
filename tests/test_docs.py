"""Docs: every example in a docstring runs, every link leads somewhere, every file named in the docs is there."""

import doctest
import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import eddyline

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_the_docs_name_are_there(page):
    named = re.findall(
        r"`((?:tests|figures|benchmarks|examples|scripts)/[\w./-]+)`", page.read_text(encoding="utf-8")
    )
    rooms = re.findall(
        r"`((?:kernels|sample|sketch|sql|plan|ingest|spark|store|answer|api|papers)/[\w/]+\.py)`",
        page.read_text(encoding="utf-8"),
    )
    for name in [*named, *(f"src/eddyline/{room}" for room in rooms)]:
        assert (ROOT / name).exists(), name


SOURCES = sorted((ROOT / "src" / "eddyline").rglob("*.py"))


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
