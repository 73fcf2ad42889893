"""The fuzzer of whole workloads: random plans, data and budgets, held to the exact answers.

A fault is an exception that is not ours, a number that is called exact and is wrong, and an interval that the numbers of
rows rule out. Beside that intervals have to hold the truth as often as they say, by kind of query and by the order in
which keys arrive. `python -m tests.fuzz --workloads --minutes N` is the long run.
"""

import re
import time
import traceback
from collections import defaultdict
from dataclasses import replace
from math import isnan
from pathlib import Path

import eddyline as el
from tests.fuzz.coverage import Cell, page, report, short
from tests.fuzz.workload_cases import random_case
from tests.fuzz.workload_judge import FaultError, exact_answer, judge_groups, judge_value, largest

SHRINKING = 20.0
"""Seconds after which a case is small enough."""


def run_case(case, cells):
    """Plan, fill and ask one workload, count its answers in cells and return the faults."""
    faults = []

    def attempt(step, name=None):
        try:
            return step()
        except FaultError as fault:
            faults.append(FaultError(fault.what, fault.detail, name))
        except Exception as error:  # noqa: BLE001 - that is what is looked for
            faults.append(FaultError(f"{type(error).__name__} in {_place(error)}", str(error), name))
        return None

    state = attempt(lambda: _filled(_planned(case), case, cells))
    if state is None:
        return faults
    net = case.net
    for name, asked in case.queries.items():
        attempt(lambda name=name, asked=asked: _ask(case, state, net, name, asked, cells), name)
    if not faults:
        attempt(lambda: (state.answers(), state.explain()))
    return faults


def _place(error):
    """The innermost function of ours that an exception came through."""
    frames = [
        f
        for f in traceback.extract_tb(error.__traceback__)
        if "eddyline" in f.filename or "fuzz" in f.filename
    ]
    return f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else "?"


def _ask(case, state, net, name, asked, cells):
    function, form = _kind(case, asked)
    try:
        found = state.answer(asked.sql if asked.ad_hoc else name)
    except el.EddylineError as error:
        _check_sentence(error)
        cells[function, form, case.arrival].refused.append(f"seed {case.seed}, {name}: {error}")
        return
    panes = state.snapshot.panes_of(name) if asked.windowed else None
    tables = net if panes is None else {each: _within(table, *panes.bounds) for each, table in net.items()}
    truth = exact_answer(asked, tables, case.timezone)
    if truth is None:
        return
    most = largest(asked, tables)
    if asked.grouped:
        list(found)  # as a reader takes them
        verdicts = judge_groups(asked, found, truth, most)
    else:
        verdicts = {"": judge_value(asked, found, truth, most)}
    for part, verdict in verdicts.items():
        verdict.examples = [f"seed {case.seed}, {name}: {each}" for each in verdict.examples[:2]]
        verdict.seed = case.seed
        cells[f"{function.split(':')[0]}: {part}" if part else function, form, case.arrival].verdicts.append(
            verdict
        )
    for verdict in verdicts.values():
        if verdict.fault is not None:
            raise verdict.fault


def _kind(case, asked):
    """(function, form) of a query, with what else decides how it is answered."""
    signed = case.sign != "positive" or re.search(r"SUM\((-|\w+\.v - )", asked.sql)
    function = asked.function.replace("sum", "signed sum") if signed else asked.function
    form = (
        "ad hoc"
        if asked.ad_hoc
        else "window"
        if asked.windowed
        else asked.form
        if case.samples
        else "sketches"
    )
    return function, form


def _within(table, start, end):
    times = table["ts"].cast("int64").to_numpy()
    return table.filter((times >= start) & (times < end))


def _planned(case):
    """The plan of a case at its budget or, where that is too small, at the least; None if none is found."""
    budget = case.budget
    for _ in range(4):
        try:
            w = case.workload(budget)
            plan = w.plan(statistics=_statistics(w, case) if case.informed else None)
        except el.UnsupportedQuery as error:
            _check_sentence(error)
            raise FaultError("a query of the grammar is refused", str(error)) from error
        except el.EddylineError as error:
            _check_sentence(error)
            if "budget" not in str(error):
                raise FaultError("a plan fails for another reason than its budget", str(error)) from error
            needed = [int(each.replace(",", "")) for each in re.findall(r"([\d,]{4,}) bytes", str(error))]
            budget = max([*needed, 2 * budget])
        else:
            for name, error in plan.expected_errors().items():
                if isnan(error) or error < 0:
                    raise FaultError("an expected error that is not a number", f"{error} of query {name}")
            assert plan.explain()
            return plan
    return None


def _statistics(w, case):
    """Statistics of the case's own data; none where nothing can be analysed."""
    try:
        return _filled(w.analysis(budget="4 MB"), case).statistics()
    except el.EddylineError as error:
        _check_sentence(error)
        return None


def _filled(plan, case, cells=None):
    """The state of a plan after all batches; None without a plan, or where rows are refused."""
    if plan is None:
        return None
    state = plan.empty()
    try:
        for stream, rows, weights in case.batches():
            state.update(stream, rows, weights=weights)
    except el.EddylineError as error:
        if cells is None:
            raise
        _check_sentence(error)
        cells["any", "rows", case.arrival].refused.append(f"seed {case.seed}: {error}")
        return None
    return state


def _check_sentence(error):
    text = str(error).strip()
    if len(text) < 20 or text[-1] not in ".?`'\"":
        raise FaultError("an error that is no sentence", repr(text))


def shrunk(case, fault):
    """The case with fewer queries, streams, batches and rows that shows the same fault, and that fault."""
    if fault.name is not None:
        case, fault = _smaller([replace(case, queries={fault.name: case.queries[fault.name]})], case, fault)
    end = time.monotonic() + SHRINKING
    while time.monotonic() < end:
        before = case
        case, fault = _smaller(_candidates(case), case, fault)
        if case is before:
            break
    return case, fault


def _candidates(case):
    """Smaller cases: first with fewer queries and columns, then with fewer rows."""
    if len(case.queries) > 1:
        for name in case.queries:
            yield replace(case, queries={n: asked for n, asked in case.queries.items() if n != name})
    texts = " ".join(asked.sql for asked in case.queries.values())
    for name in [name for name in case.streams if not re.search(rf"\b{name}\b", texts)]:
        rest = {n: stream for n, stream in case.streams.items() if n != name}
        yield replace(case, streams=rest, explored={n: c for n, c in case.explored.items() if n in rest})
    for name in case.explored:
        yield replace(case, explored={n: c for n, c in case.explored.items() if n != name})
    if case.informed:
        yield replace(case, informed=False)
    used = {
        "ts",
        *re.findall(r"\w+", texts),
        *(column for columns in case.explored.values() for column in columns),
    }
    if any(stream.values - used for stream in case.streams.values()):
        yield replace(case, streams={name: stream.only(used) for name, stream in case.streams.items()})
    yield from _fewer_rows(case)


def _fewer_rows(case):
    """Cases with parts of the rows: of all streams at half of the budget, or of one."""
    halves = {name: stream.cut(0, (stream.rows.num_rows + 1) // 2) for name, stream in case.streams.items()}
    if case.budget > 1 and any(stream.rows.num_rows > 1 for stream in case.streams.values()):
        yield replace(case, streams=halves, budget=case.budget // 2)
    for name, stream in case.streams.items():
        n = stream.rows.num_rows
        for start, stop in ((0, n // 2), (n // 2, n), (n // 4, n)):
            if 0 < stop - start < n:
                yield replace(case, streams={**case.streams, name: stream.cut(start, stop)})
        if len(stream.ends) > 1:
            yield replace(case, streams={**case.streams, name: stream.at_once()})


def _smaller(candidates, case, fault):
    """The first candidate with the same fault, else the case itself."""
    for candidate in candidates:
        same = [found for found in run_case(candidate, defaultdict(Cell)) if found.what == fault.what]
        if same:
            return candidate, same[0]
    return case, fault


def run(seeds, arrival=None, seconds=None):
    """The cells of a given number of seeds, ended early after some seconds; the first fault is raised, as small as it gets."""
    cells, start = defaultdict(Cell), time.monotonic()
    for seed in seeds:
        case = random_case(seed, arrival)
        for fault in run_case(case, cells):
            small, shown = shrunk(case, fault)
            raise FaultError(shown.what, f"{shown.detail}\nseed {seed}, made small:\n  {small}", shown.name)
        if seconds is not None and time.monotonic() - start > seconds:
            break
    return dict(cells)


def long_run(minutes, seed, arrival=None, form=None, save=None, table=None):
    """Run for a given number of minutes, print every new kind of fault made small, then the report; return 1 if one is wrong.

    save: a directory in which the small cases are kept, as tests/fuzz/found has them. table: a Markdown file to which
    the coverage is written.
    """
    cells, faults, end, first = defaultdict(Cell), defaultdict(list), time.monotonic() + 60 * minutes, seed
    while time.monotonic() < end:
        case = random_case(seed, arrival, form)
        for fault in run_case(case, cells):
            kind = (
                case.queries[fault.name].function if fault.name and " in " not in fault.what else "any query"
            )
            if (fault.what, kind) not in faults:
                small, shown = shrunk(case, fault)
                print(f"\nFOUND (seed {seed}) {shown}\n  {small}", flush=True)
                if save is not None:
                    small.save(Path(save) / f"seed_{seed}_{len(faults)}.json")
            faults[fault.what, kind].append(seed)
        seed += 1
    print(f"\n{report(cells)}\n")
    for kind in short(cells):
        if "any" not in kind:
            print(f"{' of '.join(kind[:2])}, {kind[2]}; for example:")
            print("\n".join(f"  {each}" for v in cells[kind].verdicts for each in v.examples[:1])[:2000])
    for (what, kind), seeds in sorted(faults.items(), key=lambda each: -len(each[1])):
        print(f"{len(seeds):5} x {what} ({kind}): seeds {', '.join(map(str, seeds[:5]))}")
    print(f"{seed - first:,} cases from seed {first} on")
    if table is not None:
        asked = "".join(
            f' --{name} "{value}"' for name, value in (("arrival", arrival), ("form", form)) if value
        )
        command = f"scripts/fuzz --workloads --minutes {minutes:g} --seed {first}{asked} --table FILE"
        Path(table).write_text(page(cells, command, seed - first, len(faults)))
    return 1 if faults or short(cells) else 0
