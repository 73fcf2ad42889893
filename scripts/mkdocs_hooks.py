"""Hooks of the docs site: pages and files of the repository outside docs/ become part of it, and links follow them.

The pages are written to be read in the repository: README.md links to docs/quick-start.md, and docs/reference to
../../figures/data. Here every relative link is resolved as the repository has it, and written again as the site has
it. A file that a page links to, and that is not a page itself, is copied into the site under its own path. A link
that leads nowhere stays as it is, and `mkdocs build --strict` refuses it.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "figures/README.md": "figures/index.md",
    "benchmarks/README.md": "benchmarks/index.md",
}
"""Pages outside docs/, and where the site has them."""

LINK = re.compile(r"(\]\()(?!https?:|mailto:|#)([^)#\s]+)")
CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)


def in_repository(site_uri: str) -> str:
    """Return the path in the repository of a page of the site."""
    return next((path for path, uri in PAGES.items() if uri == site_uri), f"docs/{site_uri}")


def in_site(path: str) -> str:
    """Return where the site has a file or a folder of the repository."""
    if (ROOT / path).is_dir():
        path = f"{path}/README.md"
    return PAGES.get(path, path.removeprefix("docs/"))


def target_of(link: str, site_uri: str) -> str:
    """Return the path in the repository that a link on a page leads to."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(in_repository(site_uri)), link))


def links_of(markdown: str) -> list[str]:
    """Return the relative links of a page, those in code aside."""
    return [match[2] for match in LINK.finditer(CODE.sub("", markdown))]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside docs/, and the files of the repository that any page links to."""
    for path, uri in PAGES.items():
        files.append(File.generated(config, uri, abs_src_path=str(ROOT / path)))
    for page in list(files.documentation_pages()):
        for link in links_of(page.content_string):
            path = target_of(link, page.src_uri)
            outside = not path.startswith(("docs/", "..")) and (ROOT / path).is_file()
            if outside and files.get_file_from_path(in_site(path)) is None:
                files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Return a page with its relative links as the site has their targets."""
    here = posixpath.dirname(page.file.src_uri)

    def rewritten(match: re.Match[str]) -> str:
        path = target_of(match[2], page.file.src_uri)
        if path.startswith("..") or not (ROOT / path).exists():
            return match[0]
        return match[1] + posixpath.relpath(in_site(path), here or ".")

    pieces, at = [], 0
    for code in CODE.finditer(markdown):
        pieces += [LINK.sub(rewritten, markdown[at : code.start()]), code[0]]
        at = code.end()
    return "".join([*pieces, LINK.sub(rewritten, markdown[at:])])
