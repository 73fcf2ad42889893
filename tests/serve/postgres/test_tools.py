"""pgcli and dbt themselves, installed from PyPI into environments of their own: they connect, complete, show and test."""

import json
import subprocess
import sys

import pytest

from tests.serve.postgres import shop

pytestmark = pytest.mark.slow
COMPLETES = """
import sys
from pgcli.completion_refresher import CompletionRefresher
from pgcli.pgcompleter import PGCompleter
from pgcli.pgexecute import PGExecute
from pgspecial.main import PGSpecial
from prompt_toolkit.document import Document
import threading

done, found = threading.Event(), []
executor = PGExecute("shop", "me", "", "127.0.0.1", sys.argv[1], "")
CompletionRefresher().refresh(executor, PGSpecial(), lambda completer: (found.append(completer), done.set()), settings={})
assert done.wait(60)
for text in sys.argv[2:]:
    print(*[each.text for each in found[0].get_completions(Document(text), None)])
"""
PROFILE = """
shop:
  target: store
  outputs:
    store: {{type: postgres, host: 127.0.0.1, port: {port}, user: me, password: "", dbname: shop, schema: public, threads: 2}}
"""
PROJECT = """
name: shop
version: "1.0"
profile: shop
models: {shop: {+materialized: ephemeral}}
"""
TESTED = """
sources:
  - name: public
    tables: [{name: by_region, columns: [{name: region, tests: [unique, not_null]}]}]
models:
  - name: large
    columns: [{name: region, tests: [not_null, {accepted_values: {values: [north, south, east, west, nowhere]}}]}]
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A function that installs packages into an environment of their own and returns the folder of its programs."""

    def install(*packages):
        where = tmp_path_factory.mktemp("environment")
        subprocess.run([sys.executable, "-m", "venv", where], check=True)
        done = subprocess.run(
            [where / "bin" / "pip", "install", "-q", *packages], check=False, capture_output=True, text=True
        )
        if done.returncode:
            pytest.skip(f"PyPI is out of reach: {done.stderr.strip().splitlines()[-1]}")
        return where / "bin"

    return install


@pytest.fixture
def run(tmp_path):
    def run(*command, given=None, code=0):
        done = subprocess.run(
            [str(part) for part in command], check=False, capture_output=True, text=True, cwd=tmp_path, input=given,
            timeout=300, env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TERM": "dumb", "PAGER": "cat"},
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    return run


def test_pgcli_shows_and_completes(installed, run, exact_server, tmp_path):
    programs, port = installed("pgcli>=4.3,<5"), exact_server.address[1]
    asked = "\\dt\n\\d orders\n\\dv\n\\l\nSELECT region, n FROM by_region WHERE region = 'north';\n\\q\n"
    shown = run(programs / "pgcli", "-h", "127.0.0.1", "-p", port, "-u", "me", "-d", "shop", given=asked)
    lines = [" ".join(line.replace("|", " ").split()) for line in shown.splitlines()]
    assert "public orders table me" in lines
    assert "total numeric(12,2)" in lines
    assert "public by_region view me" in lines
    north = shop.orders()["region"].to_pylist().count("north")
    assert f"north {north}" in lines
    (tmp_path / "completes.py").write_text(COMPLETES)
    texts = (
        "SELECT n FROM by_r",
        "SELECT re FROM orders o WHERE o.to",
        "SELECT date_tr",
        "SELECT * FROM by_region b WHERE b.mon",
    )
    found = run(programs / "python", "completes.py", port, *texts).splitlines()
    for words, completed in zip(found, ("by_region", "total", "date_trunc", "money"), strict=True):
        assert completed in words.lower().replace("(", " ").split()


def test_dbt_debugs_shows_tests_and_documents(installed, run, exact_server, tmp_path):
    dbt = installed("dbt-core>=1.10,<1.11", "dbt-postgres>=1.9,<1.12") / "dbt"
    (tmp_path / "models").mkdir()
    (tmp_path / "profiles.yml").write_text(PROFILE.format(port=exact_server.address[1]))
    (tmp_path / "dbt_project.yml").write_text(PROJECT)
    (tmp_path / "models" / "schema.yml").write_text(TESTED)
    (tmp_path / "models" / "large.sql").write_text(
        "SELECT region, n, n_low FROM {{ source('public', 'by_region') }} WHERE n > {{ var('least', 10) }}"
    )
    assert "All checks passed!" in run(dbt, "debug")
    shown = run(dbt, "-q", "show", "--select", "large", "--output", "json", "--limit", "50")
    rows = {row["region"]: row["n"] for row in json.loads(shown)["show"]}
    assert rows["north"] == shop.orders()["region"].to_pylist().count("north")
    tested = run(dbt, "test", code=1)
    assert "FAIL 1 accepted_values_large_region" in tested  # O'Hare \ "x" is a region, too
    assert "PASS=3 WARN=0 ERROR=1" in tested
    run(dbt, "docs", "generate")
    catalog = json.loads((tmp_path / "target" / "catalog.json").read_text())
    columns = catalog["sources"]["source.shop.public.by_region"]["columns"]
    assert columns["n_low"]["type"] == "double precision"
