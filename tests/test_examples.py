"""Every example runs, and prints estimates that are exact, or whose intervals hold the exact answer beside them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))
INTERVAL = re.compile(r"\[([\d,]+) \.\. ([\d,]+)\] at 95%.*exact: ([\d,]+)")
EXACT = re.compile(r"([\d,]+) \(exact\) \| exact: ([\d,]+)")


def number(text):
    return int(text.replace(",", ""))


@pytest.mark.spark
@pytest.mark.xdist_group("processes")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_and_its_intervals_hold(path):
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    found = [tuple(map(number, match)) for match in INTERVAL.findall(done.stdout)]
    exact = [tuple(map(number, match)) for match in EXACT.findall(done.stdout)]
    assert found or exact
    assert all(low <= truth <= high for low, high, truth in found), done.stdout
    assert all(value == truth for value, truth in exact), done.stdout
