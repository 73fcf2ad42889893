"""Sharing sketches among the queries of a workload: error against memory, with and without it.

The set-up of FIG. 6 and FIG. 9 of the sharing document: workloads of 12, 29 and 8 TPC-H joins, the last with
unequal weights; memory shared out for the least average or the least largest error.

    zipf   the document's atomic sketches (method agms), on small streams whose keys are all Zipf-distributed;
           plain keys of TPC-H are out of their reach
    tpch   what is shipped (method skimmed), on TPC-H data

    shared     one Workload
    separate   the same Workload where every query reads streams of its own, which hold the same rows: it can share
               nothing, and its queries get the best split of the same memory
    uninformed shared, but planned without statistics: only the given weights count (workload 3, and all of tpch)
    parts      shared, with joins cut into parts where the planner's histograms speak for it (zipf, average); the
               other arrangements are planned without histograms, since the document's sharing knows no parts
    product    a Workload without options, in `reproduce.py` alone

Statistics come from one analysis of all 29 queries. Errors are relative to the exact answer, |estimate/exact - 1|.

    python figures/sharing.py [--seeds 20] [--scale 0.1] [--only zipf|tpch] [--workloads 123]
        [--objective average|largest]

makes the TPC-H data with tpchgen-cli in a temporary folder, writes data/sharing.csv (one line per query and
setting; what is not measured now stays) and plots/sharing.svg.
"""

import argparse
import csv
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from msgspec.structs import replace
from sharing_data import Setting, tpch_setting, zipf_setting
from sharing_queries import QUERIES, STREAMS, WORKLOADS, streams_of, with_own_streams
from sharing_report import report

import eddyline
from eddyline.plan.sharing.coalesce import Objective
from eddyline.plan.size.specs import two_sided_z
from eddyline.plan.statistics import Statistics

DATA = Path(__file__).parent / "data" / "sharing.csv"
COLUMNS = (
    "data",
    "workload",
    "objective",
    "arrangement",
    "budget",
    "bytes",  # that the plan takes
    "query",
    "weight",
    "exact",
    "seeds",
    "mean_error",
    "rms_error",
    "expected_rms",  # by the plan, before skimming
)


@dataclass(frozen=True)
class Run:
    """One workload, planned in one way for one memory size."""

    workload: str
    objective: Objective
    arrangement: str
    budget: int

    @property
    def weights(self) -> dict[str, float]:
        """The queries and their weights."""
        return WORKLOADS[self.workload]


def workload(setting: Setting, run: Run, seed: int) -> tuple[eddyline.Workload, dict[str, str]]:
    """Return the workload of a run, and the stream of the data that each of its streams is."""
    product = run.arrangement == "product"
    made = eddyline.Workload(
        budget=run.budget, seed=seed, objective=run.objective, max_distinct=1 << 20, samples=product
    )
    own = run.arrangement == "separate"
    source: dict[str, str] = {}
    for query in run.weights:
        source |= {with_own_streams(each, query) if own else each: each for each in streams_of(query)}
    for name, stream in source.items():
        schema = STREAMS[stream] + (f", {setting.changes} BIGINT" if setting.changes else "")
        made.stream(name, schema, changes=setting.changes)
    for query, weight in run.weights.items():
        sql = with_own_streams(QUERIES[query], query) if own else QUERIES[query]
        made.query(query, sql, method=None if product else setting.method, weight=weight)
    return made, source


def filled(plan: eddyline.Plan, setting: Setting, source: Mapping[str, str]) -> eddyline.State:
    """Return the state of a plan after all rows."""
    state = plan.empty()
    for name, stream in source.items():
        state.update(name, setting.tables[stream])
    return state


def analysed(setting: Setting) -> Statistics:
    """Return what an analysis shows of all queries, and of the same queries on streams of their own."""
    start = time.perf_counter()
    made, source = workload(setting, Run("2", "average", "shared", 10**6), seed=0)
    found = filled(made.analysis(budget="64 MB"), setting, source).statistics()
    print(f"{setting.name}: analysed in {time.perf_counter() - start:.1f} s", flush=True)
    for query in QUERIES:
        own = {with_own_streams(name, query): known for name, known in found.relations.items()}
        sizes = {with_own_streams(text, query): known for text, known in found.sizes.items()}
        found = found.merged(Statistics(own, sizes))
    return found


def runs(setting: Setting) -> Iterator[Run]:
    """Yield everything that is measured: objectives at every memory size, the rest at the middle one."""
    for workload_name, budgets in setting.budgets.items():
        middle = budgets[len(budgets) // 2]
        for budget, arrangement in product(budgets, ("shared", "separate")):
            yield Run(workload_name, "average", arrangement, 1000 * budget)
        if workload_name == "3" or setting.method == "skimmed":
            yield Run(workload_name, "average", "uninformed", 1000 * middle)
        if setting.method == "agms":
            yield Run(workload_name, "average", "parts", 1000 * middle)
            for budget, arrangement in product(budgets, ("shared", "separate")):
                yield Run(workload_name, "largest", arrangement, 1000 * budget)


def known_to(run: Run, statistics: Statistics) -> Statistics | None:
    """Return the statistics that a run is planned by."""
    if run.arrangement in ("uninformed", "product"):
        return None
    return statistics if run.arrangement == "parts" else replace(statistics, histograms={})


def measure(setting: Setting, run: Run, statistics: Statistics, seeds: int) -> list[dict[str, object]]:
    """Return one line of the data file per query of a run."""
    errors: dict[str, list[float]] = {query: [] for query in run.weights}
    known = known_to(run, statistics)
    start, planning = time.perf_counter(), 0.0
    for seed in range(1, seeds + 1):
        made, source = workload(setting, run, seed)
        before = time.perf_counter()
        plan = made.plan(statistics=known)
        planning += time.perf_counter() - before
        if plan.nbytes > run.budget:
            raise AssertionError(f"{run} takes {plan.nbytes} bytes")
        state = filled(plan, setting, source)
        for query, found in errors.items():
            found.append(abs(float(state.answer(query).value or 0) / setting.exact[query] - 1))
    taken = time.perf_counter() - start
    print(
        f"{setting.name} {run}: plan {planning / seeds:.2f} s, in all {taken / seeds:.2f} s a seed",
        flush=True,
    )
    expected, z = plan.expected_errors(), two_sided_z(0.95)
    return [
        dict(
            zip(
                COLUMNS,
                (
                    *(setting.name, run.workload, run.objective, run.arrangement, run.budget, plan.nbytes),
                    *(query, run.weights[query], setting.exact[query], seeds, f"{np.mean(found):.5g}"),
                    *(f"{np.sqrt(np.mean(np.square(found))):.5g}", f"{expected[query] / z:.5g}"),
                ),
                strict=True,
            )
        )
        for query, found in errors.items()
    ]


def write(lines: list[dict[str, object]]) -> None:
    """Write the data file: after every run, so that an interrupted one leaves what it has."""
    with DATA.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


def without(lines: list[dict[str, object]], data: str, run: Run) -> list[dict[str, object]]:
    """Return the lines about everything but one run."""
    key = data, run.workload, run.objective, run.arrangement, str(run.budget)
    columns = "data", "workload", "objective", "arrangement", "budget"
    return [line for line in lines if tuple(str(line[column]) for column in columns) != key]


def main() -> None:
    """Measure, write the data file, and report on it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--scale", default="0.1")
    parser.add_argument("--only", choices=("zipf", "tpch"))
    parser.add_argument("--workloads", default="123")
    parser.add_argument("--objective", choices=("average", "largest"))
    options = parser.parse_args()
    names = (options.only,) if options.only else ("zipf", "tpch")
    lines: list[dict[str, object]] = []
    if DATA.exists():
        with DATA.open() as file:
            lines = [dict(line) for line in csv.DictReader(file)]
    for name in names:
        setting = zipf_setting() if name == "zipf" else tpch_setting(options.scale)
        statistics = analysed(setting)
        for run in runs(setting):
            if options.objective in (None, run.objective) and run.workload in options.workloads:
                lines = without(lines, name, run) + measure(setting, run, statistics, options.seeds)
                write(lines)
    report(DATA)


if __name__ == "__main__":
    main()
