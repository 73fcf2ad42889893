"""What a process takes that holds a state: see "Memory" in docs/how-to/large-inputs.md."""

import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"
KEPT = 96
"""MB that the allocator may keep in pieces: 8 to 75 are measured. Python, its libraries and kernels are not in it."""
RESIDENT, PEAK, MICRO_PEAK = 3.0, 18.0, 6.0
"""Budgets that come on top: 2.0 resident, 17 while groups are read, 3.9 in a micro-batch are measured at 64 MB."""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc shows what a process takes")
@pytest.mark.parametrize("megabytes", [1, 16, 64, pytest.param(256, marks=pytest.mark.slow)])
def test_a_state_takes_a_small_multiple_of_its_budget(importing_from, megabytes):
    figures = importing_from(BENCHMARKS)("memory").measured(megabytes, 1.5)
    base = figures["base"] + KEPT
    assert figures["state"] <= megabytes
    assert figures["resident"] <= RESIDENT * megabytes + base
    assert figures["peak"] <= PEAK * megabytes + base
    assert figures["micro peak"] <= MICRO_PEAK * megabytes + base
