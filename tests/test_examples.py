"""Every example runs, and prints an estimate whose interval holds the exact answer beside it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))
LINE = re.compile(r"\[([\d,]+) \.\. ([\d,]+)\] at 95%.*exact: ([\d,]+)")


def number(text):
    return int(text.replace(",", ""))


@pytest.mark.spark
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs_and_its_intervals_hold(path):
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    found = [tuple(map(number, match)) for match in LINE.findall(done.stdout)]
    assert found
    assert all(low <= exact <= high for low, high, exact in found), done.stdout
