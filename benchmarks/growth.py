"""How the cost of a pass grows: with rows, partitions, synopses, streams and the size of the state.

    .venv/bin/python benchmarks/growth.py [--rows 100000000] [--large] [--repeat 3]

Every axis is measured alone: rows by both ways, all else through the JVM, and compared with a bare count of the same
frame where partitions are many. Prints seconds, CPU seconds and the slope of each axis (1: in proportion, 0: for
nothing), and what the measured constants mean for 10^12 rows on a cluster; writes growth.csv and growth.svg.
docs/reference/speed.md holds a run.
"""

import argparse
import csv
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
from clock import median
from pyspark.sql import DataFrame, SparkSession
from rows import SCHEMA, generated, given, sketch, sketches, write_rows

import eddyline as el
from eddyline.spark.batch import merge_tasks, tasks_per_core
from eddyline.spark.session import local_session

mpl.use("svg")
from matplotlib import pyplot as plt

FIGURES = Path(__file__).parent.parent / "figures"
LARGE = 300_000_000
CLUSTER_ROWS = 10**12
CORES = (100, 1000, 4000)
STATES = (1, 8, 64)
WAYS = ("jvm", "direct")
MB = 1 << 20


class Point(NamedTuple):
    """What one job took, at a place of an axis."""

    axis: str
    series: str
    at: int
    seconds: float
    cpu: float


class Fit(NamedTuple):
    """CPU seconds of a series as a line, and its slope on logarithmic scales."""

    start: float
    each: float
    slope: float


def of_size(megabytes: int) -> el.Plan:
    """Return a plan of one hash sketch of a given number of megabytes."""
    workload = el.Workload(budget=megabytes * MB, samples=False).stream("t", SCHEMA)
    return workload.query("q", "SELECT COUNT(*) FROM t a JOIN t b USING (k)", method="hash").plan()


def of_streams(count: int) -> el.Plan:
    """Return a plan of a given number of streams, a hash sketch of 7 x 4,096 on each."""
    workload = el.Workload(budget=8 * count * (7 * 4096 + 1), samples=False)
    for i in range(count):
        workload.stream(f"t{i}", SCHEMA)
        workload.query(f"q{i}", f"SELECT COUNT(*) FROM t{i} a JOIN t{i} b USING (k)", method="hash")
    return workload.plan()


class Grower:
    """Runs the jobs of each axis in one session."""

    def __init__(self, spark: SparkSession, folder: str, repeat: int) -> None:
        self.spark = spark
        self.folder = folder
        self.repeat = repeat

    def stored(self, rows: int, way: str = "jvm") -> DataFrame | str:
        """Return n rows of Parquet in the form that a way of reading takes."""
        return given(self.spark, write_rows(self.spark, f"{self.folder}/t{rows}.parquet", rows), way)

    def point(self, axis: str, series: str, at: int, work: Callable[[], object]) -> Point:
        """Return what a job took, and print it."""
        point = Point(axis, series, at, *median(work, self.repeat))
        print(f"{axis:12} {at:>13,}  {series:20} {point.seconds:8.2f} s {point.cpu:8.2f} CPU s", flush=True)
        return point

    def counting(self, axis: str, at: int, frame: DataFrame) -> Point:
        """Return what Spark's own count of a frame took."""
        return self.point(axis, "count(k)", at, lambda: frame.selectExpr("COUNT(k)").collect())

    def sketching(
        self, axis: str, series: str, at: int, plan: el.Plan, sources: dict[str, DataFrame | str]
    ) -> Point:
        """Return what a pass took."""
        return self.point(axis, series, at, lambda: sketch(self.spark, plan, sources))

    def by_rows(self, most: int) -> Iterator[Point]:
        """Yield the pass with 1 and 10 synopses over more and more rows, and Spark's count(k)."""
        for rows in _thirds(min(1_000_000, most), most):
            sources = {way: self.stored(rows, way) for way in WAYS}
            yield self.counting("rows", rows, self.spark.read.parquet(str(sources["direct"])))
            for way, source in sources.items():
                for count in (1, 10):
                    series = f"{way}: {count} synopses"
                    yield self.sketching("rows", series, rows, sketches(count), {"t": source})

    def by_partitions(self, rows: int, partitions: list[int], states: list[int]) -> Iterator[Point]:
        """Yield the pass over the same rows in more and more partitions, and a bare count of them."""
        for number in partitions:
            frame = generated(self.spark, rows, number)
            yield self.counting("partitions", number, frame)
            for size in states:
                yield self.sketching("partitions", f"{size} MB", number, of_size(size), {"t": frame})

    def by_synopses(self, rows: int, synopses: list[int]) -> Iterator[Point]:
        """Yield the pass with more and more synopses."""
        for count in synopses:
            yield self.sketching("synopses", "pass", count, sketches(count), {"t": self.stored(rows)})

    def by_streams(self, rows: int, streams: list[int]) -> Iterator[Point]:
        """Yield passes over more and more streams of the same rows."""
        for count in streams:
            sources = {f"t{i}": self.stored(rows) for i in range(count)}
            yield self.sketching("streams", "pass", count, of_streams(count), sources)

    def by_state(self, rows: int, states: list[int]) -> Iterator[Point]:
        """Yield the pass with larger and larger states."""
        for size in states:
            yield self.sketching("megabytes", "pass", size, of_size(size), {"t": self.stored(rows)})

    def driver_share(self, rows: int, size: int) -> float:
        """Return the most memory that the driver took during a pass, in sizes of the state."""
        plan, source = of_size(size), self.stored(rows)
        self.spark.range(1).toArrow()
        before, most, done = _resident(), 0, threading.Event()

        def watch() -> None:
            nonlocal most
            while not done.wait(0.002):
                most = max(most, _resident())

        watcher = threading.Thread(target=watch)
        watcher.start()
        state = plan.sketch(self.spark, {"t": source})
        done.set()
        watcher.join()
        return max(most - before, 0) / state.snapshot.nbytes


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def _thirds(least: int, most: int) -> list[int]:
    """Return the numbers 1, 3, 10, 30 ... times the least, up to the most."""
    numbers = [least * 10**power * factor for power in range(10) for factor in (1, 3)]
    return sorted({most, *(number for number in numbers if number <= most)})


def fit(points: list[Point]) -> Fit:
    """Return the line through CPU seconds, and the slope of their logarithms in the upper half of the axis."""
    at, cpu = (np.array([getattr(point, name) for point in points], dtype=float) for name in ("at", "cpu"))
    if len(points) == 1:
        return Fit(0.0, cpu[0] / at[0], 1.0)
    each, start = np.polyfit(at, cpu, 1)
    upper = slice(-max(2, len(points) // 2), None)
    slope, _ = np.polyfit(np.log(at[upper]), np.log(np.maximum(cpu[upper], 1e-3)), 1)
    return Fit(float(start), float(each), float(slope))


def fits(points: list[Point]) -> dict[tuple[str, str], Fit]:
    """Return the fit of each series of each axis."""
    series: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        series.setdefault((point.axis, point.series), []).append(point)
    return {name: fit(each) for name, each in series.items()}


def seconds_per_byte(points: list[Point], cores: int) -> float:
    """Return the CPU seconds that a byte of a task's state takes until it is merged."""
    sized = [point for point in points if point.axis == "megabytes"]
    sent = [point._replace(at=point.at * MB * cores * tasks_per_core(point.at * MB)) for point in sized]
    return max(fit(sent).each, 0.0)


def print_cluster(found: dict[tuple[str, str], Fit], per_byte: float, driver: float) -> None:
    """Print what the constants mean for 10^12 rows, if cores are as fast as these and the files come in time."""
    per_row = {way: found["rows", f"{way}: 10 synopses"].each for way in WAYS}
    print()
    for way, seconds in per_row.items():
        print(f"a row with 10 synopses, {way}: {1e9 * seconds:.0f} ns of CPU")
    print(f"a task's state, made, sent and merged: {1e9 * per_byte:.1f} ns a byte")
    print(f"the driver takes {driver:.1f} states at most\n")
    print(f"10^{len(str(CLUSTER_ROWS)) - 1} rows, 10 synopses, as computed from that:\n")
    ways = " | ".join(f"minutes for rows, {way}" for way in WAYS)
    print(f"| cores | state | tasks | {ways} | seconds for states | shuffled at most | driver |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for number in CORES:
        for size in STATES:
            tasks = number * tasks_per_core(size * MB)
            shuffled = tasks * size * MB
            merging = min(merge_tasks(size * MB, number), number)
            minutes = " | ".join(f"{CLUSTER_ROWS * per_row[way] / number / 60:,.1f}" for way in WAYS)
            print(
                f"| {number:,} | {size} MB | {tasks:,} | {minutes} | {per_byte * shuffled / merging:.1f} "
                f"| {shuffled / 2**30:,.1f} GB | {driver * size:.0f} MB |"
            )


def write(points: list[Point], path: Path) -> None:
    """Write the data file."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Point._fields)
        writer.writerows((*p[:3], f"{p.seconds:.3f}", f"{p.cpu:.3f}") for p in points)


def draw(points: list[Point], found: dict[tuple[str, str], Fit], path: Path) -> None:
    """Draw one panel for each axis, both scales logarithmic."""
    axes = list(dict.fromkeys(point.axis for point in points))
    figure, panels = plt.subplots(1, len(axes), figsize=(3.4 * len(axes), 3.4), squeeze=False)
    for panel, axis in zip(panels[0], axes, strict=True):
        for series in dict.fromkeys(point.series for point in points if point.axis == axis):
            mine = [point for point in points if (point.axis, point.series) == (axis, series)]
            label = f"{series}, slope {found[axis, series].slope:.2f}"
            panel.loglog([p.at for p in mine], [p.cpu for p in mine], "o-", label=label, markersize=3)
        panel.set_xlabel(axis)
        panel.legend(fontsize=6)
    panels[0][0].set_ylabel("CPU seconds")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _numbers(text: str) -> list[int]:
    return [int(float(part)) for part in text.split(",")]


def options() -> argparse.ArgumentParser:
    """Return what can be asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=float, default=1e8, help="the most rows of the axis of rows")
    parser.add_argument("--large", action="store_true", help="3 * 10^8 rows")
    parser.add_argument("--other-rows", type=float, default=4e6, help="rows of the other axes")
    parser.add_argument("--partitions", type=_numbers, default=[10, 100, 1000, 5000])
    parser.add_argument("--states", type=_numbers, default=list(STATES), help="megabytes")
    parser.add_argument("--synopses", type=_numbers, default=[1, 3, 10, 30, 100])
    parser.add_argument("--streams", type=_numbers, default=[1, 2, 4, 8])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--into", type=Path, default=FIGURES)
    return parser


def run(spark: SparkSession, asked: argparse.Namespace) -> None:
    """Run every axis, print slopes and the table of a cluster, write data and plot."""
    started, others = time.perf_counter(), int(asked.other_rows)
    with tempfile.TemporaryDirectory() as folder:
        grower = Grower(spark, folder, asked.repeat)
        points = [
            *grower.by_rows(LARGE if asked.large else int(asked.rows)),
            *grower.by_partitions(others, asked.partitions, asked.states),
            *grower.by_synopses(others, asked.synopses),
            *grower.by_streams(others, asked.streams),
            *grower.by_state(others, asked.states),
        ]
        driver = grower.driver_share(others, max(asked.states))
    found = fits(points)
    print(f"\n{'axis':12} {'series':20} {'slope':>6} {'CPU s at 0':>11} {'CPU s each':>11}")
    for (axis, series), line in found.items():
        print(f"{axis:12} {series:20} {line.slope:6.2f} {line.start:11.2f} {line.each:11.2e}")
    print_cluster(found, seconds_per_byte(points, spark.sparkContext.defaultParallelism), driver)
    write(points, asked.into / "data" / "growth.csv")
    draw(points, found, asked.into / "plots" / "growth.svg")
    print(f"\nmedians of {asked.repeat}; {(time.perf_counter() - started) / 60:.1f} minutes in all")


def main() -> None:
    """Run in a session of two cores."""
    asked = options().parse_args()
    spark = local_session()
    run(spark, asked)
    spark.stop()


if __name__ == "__main__":
    main()
