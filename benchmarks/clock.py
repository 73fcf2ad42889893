"""The time of a piece of work: by the wall clock, and in CPU seconds of this process and all that it started.

On a machine that others use too, the wall clock measures them more than the work; CPU seconds measure the work.
"""

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

_FIELDS = slice(11, 15)
"""Of /proc/<pid>/stat behind the name: user and system ticks of a process, and of its children that ended."""


class Spent(NamedTuple):
    """Seconds by the wall clock, and CPU seconds; not a number where the system does not report them."""

    seconds: float
    cpu: float


def measure(work: Callable[[], object]) -> Spent:
    """Return what one run of some work took."""
    cpu, start = cpu_seconds(), time.perf_counter()
    work()
    return Spent(time.perf_counter() - start, cpu_seconds() - cpu)


def median(work: Callable[[], object], repeat: int, *, warm: bool = True) -> Spent:
    """Return the medians of some runs, after one to warm up."""
    if warm:
        work()
    runs = [measure(work) for _ in range(repeat)]
    return Spent(*(statistics.median(each) for each in zip(*runs, strict=True)))


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and all its descendants so far."""
    if not Path("/proc/self/stat").exists():
        return float("nan")
    parents, ticks = {}, {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended meanwhile
        parents[int(entry.name)] = int(fields[1])
        ticks[int(entry.name)] = sum(map(int, fields[_FIELDS]))
    mine = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return sum(ticks.get(pid, 0) for pid in mine) / os.sysconf("SC_CLK_TCK")
