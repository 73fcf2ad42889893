"""What a process takes that holds a state: see "Memory" in docs/how-to/large-inputs.md."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import eddyline as el

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"
KEPT = 96
"""MB that the allocator may keep in pieces: 8 to 75 are measured. Python, its libraries and kernels are not in it."""
RESIDENT, PEAK, MICRO_PEAK = 3.0, 10.0, 5.0
"""Budgets that come on top, measured at 64 MB: docs/reference/memory.md."""
MAPPED = 320
"""MB of addresses that may be mapped next to that: the allocator reserves 64 MB for each thread, mostly unused."""
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="/proc shows what a process takes")


@LINUX
@pytest.mark.parametrize("megabytes", [1, 16, 64, pytest.param(256, marks=pytest.mark.slow)])
def test_a_state_takes_a_small_multiple_of_its_budget(importing_from, megabytes):
    limit = PEAK * megabytes + KEPT + MAPPED  # of addresses, enforced by the system
    figures = importing_from(BENCHMARKS)("memory").measured(megabytes, 1.5, limit=limit)
    base = figures["base"] + KEPT
    assert figures["state"] <= megabytes
    assert figures["resident"] <= RESIDENT * megabytes + base
    assert figures["peak"] <= PEAK * megabytes + base
    assert figures["micro peak"] <= MICRO_PEAK * megabytes + base


def test_the_page_on_capacity_has_the_figures_that_are_measured():
    page = (BENCHMARKS.parent / "docs" / "how-to" / "capacity.md").read_text()
    named = re.findall(r"\| 300 MB \+ (\d+) B \|", page)
    assert [float(each) for each in named] == [RESIDENT, PEAK]


@LINUX
def test_a_state_shows_its_memory_and_that_of_the_process():
    state = (
        el.Workload(budget="64 KB", seed=1)
        .stream("a", "k BIGINT")
        .stream("b", "k BIGINT")
        .query("pairs", "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k")
        .plan()
        .empty()
    )
    before = state.memory()
    assert before["samples"] == 0
    state.update("a", {"k": np.arange(1000)})
    after = state.memory()
    parts = ("counters", "candidates", "labels", "samples", "windows")
    assert after["state"] == state.nbytes == sum(after[part] for part in parts)
    assert after["samples"] > 1000
    held = np.ones(1 << 23)  # 64 MB
    assert state.memory()["resident"] >= after["resident"] + (held.nbytes >> 1)
    assert state.memory()["peak"] >= state.memory()["resident"] > 1 << 24
