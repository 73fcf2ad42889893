"""What a process takes that holds a state: resident memory, its peak, and the time of what happens to a state.

    .venv/bin/python benchmarks/memory.py [--budgets 1,16,64,256] [--fill 2.5]

For each budget in MB a fresh process, without Spark, is fed batches of rows that would take `fill` times the budget:
two streams that join on a key with Zipf frequencies, one of them with a third stream on a second key, a group column of
1,000 values, two measures. Prints, in CPU seconds, the batch that overflowed first, the median of later batches that
led to a reduction, the first answers, a micro-batch of 1,000 changes, the state as bytes, and the sum with a second
sampled state of other rows; in MB, resident memory and its peak (VmRSS and VmHWM of /proc/self/status), also by phase.
Resident memory is taken before the second state is made, and the peak of filling that one is not counted. The tables of
docs/reference/memory.md come last.
"""

import argparse
import contextlib
import gc
import json
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

BATCH = 262_144
MICRO = 1_000
GROUPS = 1_000
MB = 1 << 20
WARM = 1 << 16
"""The budget of a first run, whose memory is that of Python, its libraries and compiled kernels."""
QUERIES = {
    "pairs": "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k",
    "sums": "SELECT SUM(a.x) FROM a JOIN b ON a.k = b.k WHERE b.y < 50",
    "chain": "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k JOIN c ON b.j = c.j",
    "groups": "SELECT a.g, COUNT(*), SUM(a.x) FROM a JOIN b ON a.k = b.k GROUP BY a.g",
}
"""A pair, a filtered sum, a join of three, and 1,000 groups."""
PEAKS = {
    "resident, after answers": "resident",
    "peak at the first overflow": "overflow peak",
    "peak of a join of three": "chain peak",
    "peak of 1,000 groups": "groups peak",
    "peak of a micro-batch of 1,000 rows": "micro peak",
    "peak of `to_bytes`": "bytes peak",
    "peak of a sum of two states": "merge peak",
}
SECONDS = {
    "the batch of the first overflow": "overflow",
    "a reduction": "reduction",
    "first answer: join of three": "chain",
    "first answer: 1,000 groups": "groups",
    "a micro-batch": "micro",
    "`to_bytes`": "bytes",
    "sum of two states": "merge",
}
"""The columns of the two tables in docs/reference/memory.md, and the figures in them: MB, and CPU seconds."""
Rows = dict[str, np.ndarray]


def resident() -> tuple[float, float]:
    """Return (resident memory, its peak so far) of this process in MB."""
    status = Path("/proc/self/status").read_text()
    now, peak = (int(re.findall(rf"{name}:\s+(\d+) kB", status)[0]) / 1024 for name in ("VmRSS", "VmHWM"))
    return now, peak


def forget_peak() -> None:
    """Let the peak begin again at what is resident now; where the system does not allow it, it is that of the run."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def limit_address_space(megabytes: float) -> None:
    """Let this process map at most some MB more than now: what exceeds them raises MemoryError."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + int(megabytes * MB)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def drawn(rows: int, values: int, seed: int) -> Rows:
    """Return rows of a stream whose keys have Zipf frequencies."""
    rng = np.random.default_rng(seed)
    exponent = 0.8
    keys = [(values * rng.random(rows) ** (1 / (1 - exponent))).astype(np.int64) for _ in range(2)]
    return {
        "k": keys[0],
        "j": keys[1],
        "g": rng.integers(0, GROUPS, rows, dtype=np.int64),
        "x": rng.integers(0, 10_000, rows, dtype=np.int64),
        "y": rng.integers(0, 100, rows, dtype=np.int64),
    }


def seconds_of(work: Callable[[], object]) -> float:
    """Return the CPU seconds that some work takes: on a busy machine the wall clock measures other work."""
    start = time.process_time()
    work()
    return time.process_time() - start


class Run:
    """One budget in this process."""

    def __init__(self, budget: int, fill: float, seed: int = 0) -> None:
        import eddyline as el  # noqa: PLC0415 - what it takes is measured

        made = el.Workload(budget=budget, seed=1)
        for name in "abc":
            made.stream(name, "k BIGINT, j BIGINT, g BIGINT, x BIGINT, y BIGINT")
        for name, text in QUERIES.items():
            made.query(name, text)
        self.budget, self.fill = budget, fill
        self.plan = made.plan()
        self.state = self.plan.empty()
        self.seed = seed

    def _batch(self, name: str, rows: int) -> float:
        self.seed += 1
        table = drawn(rows, max(self.budget // 8, 1000), self.seed)
        return seconds_of(lambda: self.state.update(name, table))

    @property
    def _is_sampled(self) -> bool:
        return any(each.grouped for each in self.state.snapshot.samples.values())

    @property
    def _rate(self) -> float:
        """The lowest base rate: it falls with each reduction."""
        (sample,) = self.state.snapshot.samples.values()
        return min(roster.base for roster in sample.rosters)

    def _note(self, phase: str, took: Sequence[float]) -> None:
        """Note the median time of a phase, and its peak."""
        self.figures[phase] = statistics.median(took) if took else float("nan")
        self.figures["peak"] = max(self.figures["peak"], resident()[1])
        self.figures[f"{phase} peak"] = resident()[1]
        forget_peak()

    def measure(self, limit: float | None = None) -> dict[str, float]:
        """Feed rows, ask, and return what was measured: seconds and MB; limit: MB of address space for all of it."""
        self.figures = {"peak": 0.0, "imports": resident()[0]}
        if (
            self.budget > WARM
        ):  # kernels of a pass, of a reduction and of answers are loaded before the clock runs
            Run(WARM, self.fill).measure()
        self.figures["base"] = resident()[0]
        if limit is not None:
            limit_address_space(limit)
        rows = min(BATCH, max(1000, self.budget // 64))
        fed, later = 0, []
        self._note("start", [])
        while fed < self.fill * self.budget or not self._is_sampled:
            for name in "abc":
                was_sampled, before = self._is_sampled, self._rate
                took = self._batch(name, rows)
                fed += 16 * rows
                if not was_sampled:
                    self._note("overflow" if self._is_sampled else "filling", [took])
                elif self._rate < before:
                    later.append(took)
        self._note("reduction", later)
        self.figures["reductions"] = len(later)
        for name in QUERIES:
            self._note(name, [seconds_of(lambda name=name: self.state.answer(name))])
        self._note("micro", [self._batch("abc"[i % 3], MICRO) for i in range(5)])
        gc.collect()
        self.figures["state"] = self.state.nbytes / MB
        self.figures["resident"] = resident()[0]
        self._note("bytes", [seconds_of(self.state.to_bytes)])
        return self.figures

    def merge(self) -> None:
        """Measure the sum with a second state; apart from `measure`, because filling that one takes as long again."""
        other = self._filled_again()
        forget_peak()
        self._note("merge", [seconds_of(lambda: self.state + other)])

    def _filled_again(self) -> object:
        """Return another sampled state of the same plan, of other rows."""
        run = Run(self.budget, 0.0, self.seed + 1000)
        while not run._is_sampled:
            for name in "abc":
                run._batch(name, min(BATCH, max(1000, self.budget // 64)))
        return run.state


def measured(
    megabytes: float, fill: float, *, merge: bool = False, limit: float | None = None
) -> dict[str, float]:
    """Return the figures of one budget, from a fresh process; merge: also of the sum of two states.

    limit: a run that maps more MB of address space, after its kernels are loaded, fails.
    """
    command = [sys.executable, __file__, "--one", str(megabytes), "--fill", str(fill), *["--merge"] * merge]
    command += ["--limit", str(limit)] if limit is not None else []
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--budgets", default="1,16,64,256", help="in MB")
    parser.add_argument("--fill", type=float, default=2.5, help="budgets of rows that are fed")
    parser.add_argument("--one", type=float, help="one budget, in this process: prints JSON")
    parser.add_argument("--merge", action="store_true", help="with --one: also add two states")
    parser.add_argument("--limit", type=float, help="with --one: MB of address space for the run")
    arguments = parser.parse_args()
    if arguments.one is not None:
        run = Run(int(arguments.one * MB), arguments.fill)
        run.measure(arguments.limit)
        if arguments.merge:
            run.merge()
        print(json.dumps(run.figures))
        return
    found = {}
    for budget in map(float, arguments.budgets.split(",")):
        found[budget] = figures = measured(budget, arguments.fill, merge=True)
        print(f"{budget:g} MB, aims {3 * budget + 200:.0f} resident and {5 * budget + 200:.0f} peak")
        print("  " + ", ".join(f"{name} {value:.3g}" for name, value in figures.items()), flush=True)
    for columns, digits in ((PEAKS, ",.0f"), (SECONDS, ".2g")):
        print("\n| budget | " + " | ".join(columns) + " |\n" + "| --- " * (len(columns) + 1) + "|")
        for budget, figures in found.items():
            cells = [f"{figures[name]:{digits}}" for name in columns.values()]
            print(f"| {budget:g} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
