"""How far the code makes its reader walk: files, and calls from file to file, of a plan, an update and an answer.

    .venv/bin/python benchmarks/walks.py

A two-way join with a stream sample in its second stage. Counted are the files of the package that take part, the pairs
of files of which one calls the other, and how many of these pairs go back to a file that was visited first.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import numpy as np

import eddyline as el

ROOT = str(Path(el.__file__).parent)
Calls = list[tuple[str, str]]


def calls_of(work: Callable[[], object]) -> Calls:
    """Return the calls from one file of the package to another, in their order."""
    found: Calls = []

    def watch(frame: FrameType, event: str, _: object) -> None:
        callee = frame.f_code.co_filename
        caller = frame.f_back.f_code.co_filename if frame.f_back is not None else ""
        inside = callee.startswith(ROOT) and caller.startswith(ROOT)
        if event == "call" and inside and callee != caller:
            found.append((caller, callee))

    sys.setprofile(watch)
    work()
    sys.setprofile(None)
    return found


def shown(name: str, calls: Calls) -> None:
    """Print what a walk amounts to."""
    order: dict[str, int] = {}
    for pair in calls:
        for file in pair:
            order.setdefault(file, len(order))
    pairs = set(calls)
    back = sum(order[callee] < order[caller] for caller, callee in pairs)
    print(f"{name:10s} {len(order)} files, {len(pairs)} pairs of caller and called, {back} of them back")


def main() -> None:
    """Walk and print."""
    made = el.Workload(budget="64 KB", seed=1)
    for stream in "ab":
        made.stream(stream, "k BIGINT, x BIGINT")
    made.query("total", "SELECT SUM(a.x) FROM a JOIN b ON a.k = b.k WHERE b.x > 3")
    made.query("rows", "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k")
    shown("w.plan()", calls_of(made.plan))
    rng = np.random.default_rng(0)
    state = made.plan().empty()
    for stream in "ab" * 3:
        rows = {"k": rng.integers(0, 20_000, 20_000), "x": rng.integers(0, 9, 20_000)}
        state.update(stream, rows)
    shown("update()", calls_of(lambda: state.update("a", rows)))
    shown("answer()", calls_of(lambda: state.answer("total")))


if __name__ == "__main__":
    main()
