"""The fuzzer of whole workloads: random plans at random budgets, held to the exact answers.

Checked: no exception but ours, each a whole sentence; what is said to be exact is; and, over a long run, that intervals
hold the truth as often as they say, by kind of query. `main(minutes, seed)` is the long run.
"""

import re
import time
from collections import defaultdict
from dataclasses import dataclass, field
from math import isclose, isnan

import numpy as np

import eddyline as el
from tests.fuzz.cross_cases import cross_query
from tests.fuzz.faults import FaultError
from tests.fuzz.group_cases import exact_rows, group_query, judge_groups
from tests.fuzz.workload_cases import SCHEMA, WINDOW, exact_answer, random_case

WITH_GROUPS = 10_000_000
"""From this seed on cases have queries of groups, single values and outer joins as well, and always keep samples."""
WITH_CONDITIONS = 20_000_000
"""From this seed on these are queries with conditions between relations."""
LEAST, MOST = 0.93, 0.995
"""Where the coverage of 95% intervals should lie, by kind of query."""


@dataclass
class Tally:
    """What was seen of one kind of query."""

    exact: int = 0
    held: int = 0
    missed: int = 0
    refused: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def coverage(self):
        return self.held / max(self.held + self.missed, 1)


def run_case(seed, tallies):
    """Plan, fill and ask one random workload; raise FaultError with the seed and what was wrong."""
    rng = np.random.default_rng(seed)
    case = random_case(rng, 600 if seed >= WITH_GROUPS else None)
    if seed >= WITH_GROUPS:
        more = np.random.default_rng(seed + 1)
        make = cross_query if seed >= WITH_CONDITIONS else group_query
        case.queries |= {f"g{i}": make(more, list(case.net)) for i in range(int(more.integers(1, 5)))}
    try:
        plan = _planned(case, rng, samples=True if seed >= WITH_GROUPS else None)
        if plan is None:
            return
        state = _filled(plan, case.batches)
        for name, asked in case.queries.items():
            panes = state.snapshot.panes_of(name)
            bounds = panes.bounds if panes is not None else None
            grouped = " GROUP BY " in asked.sql
            truth = (
                exact_rows(asked.sql, case.net)
                if grouped or name.startswith("g")
                else exact_answer(asked, case.net, bounds)
            )
            kind = f"sampled {asked.kind}" if plan.layout.samples else asked.kind
            try:
                found = state.answer(name)
            except el.EddylineError as error:
                _check_sentence(error)
                tallies[kind].refused += 1
                continue
            if grouped:
                judge_groups(found, truth, f"seed {seed}: {asked.sql}", tallies[kind])
            else:
                _judge(seed, asked, found, truth[0][0] if isinstance(truth, list) else truth, tallies[kind])
    except (el.EddylineError, FaultError):
        raise
    except Exception as error:
        raise FaultError(f"seed {seed}: {type(error).__name__}: {error}") from error


def _planned(case, rng, samples):
    """The plan of a case at a random budget or at the least, with or without statistics; None if none fits."""
    drawn = rng.random() < 0.6
    samples = drawn if samples is None else samples
    budget = int((1500 if samples else 20_000) * 200 ** rng.random())
    objective = ("average", "largest")[int(rng.random() < 0.3)]
    informed, least = rng.random() < 0.4, rng.random() < 0.2
    seed = int(rng.integers(1 << 30))
    if least:
        budget = 1000
    for _ in range(4):
        try:
            w = _workload(case, budget, seed, objective, samples)
            statistics = _statistics(w, case) if informed else None
            plan = w.plan(statistics=statistics)
        except el.EddylineError as error:
            _check_sentence(error)
            if "budget" not in str(error):
                raise FaultError(f"a plan fails for another reason than its budget: {error}") from error
            needed = [int(each.replace(",", "")) for each in re.findall(r"([\d,]{4,}) bytes", str(error))]
            budget = max([*needed, 2 * budget])
        else:
            _check_errors(plan)
            assert plan.explain()
            return plan
    return None


def _workload(case, budget, seed, objective, samples):
    w = el.Workload(budget=budget, seed=seed, objective=objective, samples=samples)
    for name in case.net:
        w.stream(name, SCHEMA, event_time="ts")
    for name, asked in case.queries.items():
        w.query(name, asked.sql, **(WINDOW if asked.windowed else {}))
    return w


def _statistics(w, case):
    """Statistics of the case's own data; none where nothing can be analysed."""
    try:
        plan = w.analysis(budget="4 MB")
    except el.EddylineError as error:
        _check_sentence(error)
        return None
    return _filled(plan, case.batches).statistics()


def _filled(plan, batches):
    state = plan.empty()
    for stream, rows, weights in batches:
        state.update(stream, rows, weights=weights)
    return state


def _check_errors(plan):
    for name, error in plan.expected_errors().items():
        if isnan(error) or error < 0:
            raise FaultError(f"query {name} has an expected error of {error}")


def _check_sentence(error):
    text = str(error).strip()
    if len(text) < 20 or text[-1] not in ".?`'\"":
        raise FaultError(f"an error that is no sentence: {text!r}")


def _judge(seed, asked, found, truth, tally):
    """Count an answer as exact, held or missed; raise FaultError where it claims more than is so."""
    about = f"seed {seed}: {asked.kind}: {asked.sql}: {found} for {truth}"
    if found.exact:
        if not _same(found.value, truth):
            raise FaultError(f"said to be exact and is not: {about}")
        tally.exact += 1
        return
    if truth is None or found.value is None:
        truth = 0 if truth is None and "SUM(" in asked.sql else truth
        if truth is None or found.value is None:
            return
    if not found.low <= found.value <= found.high:
        raise FaultError(f"an estimate outside its interval: {about}")
    slack = 1e-9 * max(abs(truth), 1)
    if found.low - slack <= truth <= found.high + slack:
        tally.held += 1
    else:
        tally.missed += 1
        tally.examples.append(about)


def _same(value, truth):
    if value is None or truth is None:
        return (value or 0) == (truth or 0)
    return isclose(float(value), float(truth), rel_tol=1e-9, abs_tol=1e-9)


def run(seeds, seconds=None):
    """The tallies by kind of query of so many seeds, ended early after some seconds."""
    tallies, start = defaultdict(Tally), time.monotonic()
    for seed in seeds:
        run_case(seed, tallies)
        if seconds is not None and time.monotonic() - start > seconds:
            break
    return dict(tallies)


def report(tallies):
    """The coverage by kind of query, as lines of text."""
    lines = [f"{'kind of query':34} {'exact':>6} {'held':>6} {'missed':>6} {'refused':>7} {'coverage':>9}"]
    for kind, tally in sorted(tallies.items()):
        lines.append(
            f"{kind:34} {tally.exact:6} {tally.held:6} {tally.missed:6} {tally.refused:7} {tally.coverage:9.1%}"
        )
    return "\n".join(lines)


def main(minutes, seed=0):
    """Run for so many minutes; print coverage by kind, and return 1 where a kind with enough answers is off."""
    tallies, faults, start = defaultdict(Tally), [], time.monotonic()
    while time.monotonic() - start < 60 * minutes:
        try:
            run_case(seed, tallies)
        except Exception as error:  # noqa: BLE001 - a fuzzer collects whatever comes
            faults.append(
                f"{type(error).__name__}: {error}" if not isinstance(error, FaultError) else str(error)
            )
            print(faults[-1], flush=True)
        seed += 1
    print(report(tallies))
    off = [
        kind
        for kind, tally in tallies.items()
        if tally.held + tally.missed >= 200 and not LEAST <= tally.coverage <= MOST
    ]
    for kind in off:
        print(f"coverage of {kind!r} is not between {LEAST:.1%} and {MOST:.1%}; for example:")
        print("\n".join(tallies[kind].examples[:5]))
    return 1 if faults or off else 0
