"""A machine without Java: the demo runs all the same, and what it leaves out is one sentence."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
TOOLS = ("bash", "env", "dirname", "sed", "head", "id", "cat")


@pytest.fixture
def bare(tmp_path):
    """A copy of the scripts that finds no Java, and an apt-get that fails as one without a network does."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for tool in TOOLS:
        (tools / tool).symlink_to(shutil.which(tool))
    write(tools / "apt-get", 'echo "E: Could not resolve deb.debian.org" >&2; exit 100')
    shutil.copytree(SCRIPTS, tmp_path / "scripts")
    write(tmp_path / "scripts" / "setup", "exit 0")
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    write(tmp_path / ".venv" / "bin" / "eddyline", f'exec {sys.executable} -m eddyline.cli "$@"')
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    return tmp_path, {**environment, "PATH": str(tools)}


def write(path, text):
    path.write_text(f"#!/usr/bin/env bash\n{text}\n")
    path.chmod(0o755)


def script(bare, name, *arguments):
    folder, environment = bare
    command = [str(folder / "scripts" / name), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)


def test_the_demo_runs_without_java_and_says_what_is_left_out(bare):
    done = script(bare, "demo", "--rows", "3000", "--budget", "4 MB")
    assert done.returncode == 0, done.stderr
    assert re.search(r"visits_by_buyers +([\d,]+) +\1 +\1 +\1 +0.00% +exact", done.stdout)
    assert "No Java 17 or newer was found, so Spark is left out" in done.stdout
    assert "E: Could not" not in done.stdout + done.stderr


def test_the_live_page_needs_java_and_says_how_to_get_it(bare):
    done = script(bare, "demo", "--live")
    assert done.returncode == 1
    assert "Spark needs Java 17 or newer and no Java was found: install" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_an_install_that_fails_is_one_sentence(bare):
    done = script(bare, "java", "--install")
    assert done.returncode == 1
    assert re.fullmatch(r"Spark needs Java 17 or newer: install it .*\n", done.stderr)
