"""Expected errors of a workload at several budgets: measured on rows, printed as a table."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from math import inf, isfinite, log2, sqrt
from statistics import median
from typing import Any, NamedTuple

import pyarrow as pa

from eddyline.answer.estimate import Estimate
from eddyline.answer.groups.table import Groups
from eddyline.api.state import State
from eddyline.errors import EddylineError, PlanError
from eddyline.ingest.arrow_path import table_of
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.decide.facets import uses_sample
from eddyline.plan.layout import Layout, PlannedSample
from eddyline.plan.size.specs import LARGEST_BUDGET, SMALLEST_BUDGET
from eddyline.sample.reduction import bytes_of

# The result as a value: printed as a table, or read from Python.


_UNITS = (("GB", 1_000_000_000), ("MB", 1_000_000), ("KB", 1_000))


@dataclass(frozen=True)
class PartOfStream:
    """How many rows of a stream were read, and how many it has."""

    stream: str
    read: int
    rows: int


@dataclass(frozen=True)
class Expected:
    """What to expect of a query at a budget, as measured on the rows that were read.

    half_width: half the width of its interval, relative to the answer; the median over seeds. error: the distance
    of its answers from the truth, relative to the truth; the root of the mean square over seeds. For groups, both
    are summed over all groups of the truth, and are those of the worst aggregate. why: why nothing was measured;
    the numbers are None then, and also if the answer is exact.
    """

    exact: bool = False
    half_width: float | None = None
    error: float | None = None
    why: str | None = None


@dataclass(frozen=True)
class Sizing:
    """What to expect of each query at some budgets: `sizing.expected["volume"][1_000_000].half_width`.

    exact_bytes: of a state that holds all rows. exact_budget: from which on every answer is exact, None for
    workloads without samples. share: the part of each budget that the measurement used; 1 if all rows were read.
    """

    streams: tuple[PartOfStream, ...]
    budgets: tuple[int, ...]
    expected: Mapping[str, Mapping[int, Expected]]
    exact_bytes: int
    exact_budget: int | None
    share: float
    seeds: int
    confidence: float

    @property
    def is_whole(self) -> bool:
        """Whether all rows were read."""
        return all(each.read == each.rows for each in self.streams)

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain values, ready for JSON; the half-width of an unbounded interval is None."""
        return {
            "streams": [asdict(each) for each in self.streams],
            "exact_bytes": self.exact_bytes,
            "exact_budget": self.exact_budget,
            "share": self.share,
            "seeds": self.seeds,
            "confidence": self.confidence,
            "expected": [
                {
                    "query": query,
                    "budget": budget,
                    "exact": own.exact,
                    "half_width": own.half_width
                    if own.half_width is not None and isfinite(own.half_width)
                    else None,
                    "error": own.error,
                    "why": own.why,
                }
                for query, by_budget in self.expected.items()
                for budget, own in by_budget.items()
            ],
        }

    def __str__(self) -> str:
        notes: dict[str, int] = {}
        lines = [
            ["query", *map(show_bytes, self.budgets)],
            *(
                [query, *(self._cell(by_budget[budget], notes) for budget in self.budgets)]
                for query, by_budget in self.expected.items()
            ),
        ]
        widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
        table = [
            "  ".join(
                [
                    line[0].ljust(widths[0]),
                    *(cell.rjust(w) for cell, w in zip(line[1:], widths[1:], strict=True)),
                ]
            )
            for line in lines
        ]
        sentence = [f"[{number}] {why}" for why, number in notes.items()]
        return "\n".join([*self._read(), self._whole(), "", *table, "", self._meaning(), *sentence])

    def _read(self) -> list[str]:
        return [
            f"{each.stream}: all {each.rows:,} rows were read"
            if each.read == each.rows
            else f"{each.stream}: the first {each.read:,} of {each.rows:,} rows were read"
            for each in self.streams
        ]

    def _whole(self) -> str:
        about = "" if self.is_whole else "about "
        sentence = f"An exact state of all rows takes {about}{self.exact_bytes:,} bytes"
        if self.exact_budget is None:
            return f"{sentence}; without samples no budget keeps one."
        return (
            f"{sentence}; from a budget of {about}{show_bytes(self.exact_budget)} on every answer is exact."
        )

    def _meaning(self) -> str:
        sentence = (
            f"Half the width of the {self.confidence:.0%} interval relative to the answer, the median of {self.seeds} "
            "seeds; in brackets the measured error, the root of its mean square."
        )
        if self.is_whole:
            return sentence
        if self.share == 1.0:
            return f"{sentence} Measured on the rows that were read, with all of each budget."
        return (
            f"{sentence} Measured on the rows that were read, with {self.share:.2g} of each budget, the share that "
            "their exact state has of that of all rows. The larger number was measured. The smaller one is likelier "
            "where the other rows bring more keys of the same kind. Where keys get heavy later, it may be more."
        )

    def _cell(self, own: Expected, notes: dict[str, int]) -> str:
        if own.exact:
            return "exact"
        if own.half_width is None or own.error is None:
            return f"[{notes.setdefault(own.why or 'not measured', len(notes) + 1)}]"
        return f"{self._range(own.half_width)} ({self._range(own.error)})"

    def _range(self, number: float) -> str:
        """Return a measured number, preceded by the one to expect if more rows bring more keys of the same kind."""
        low, high = show_error(sqrt(self.share) * number), show_error(number)
        return high if low == high else f"{low} to {high}"


def show_bytes(number: int) -> str:
    """Return a number of bytes in the notation of budgets, rounded up to three digits.

    >>> show_bytes(7_606_522), show_bytes(64_000_000), show_bytes(900)
    ('7.61 MB', '64 MB', '900 bytes')
    """
    for name, unit in _UNITS:
        if number >= unit:
            digits = 2 if number < 10 * unit else 1 if number < 100 * unit else 0
            return f"{-(-number * 10**digits // unit) / 10**digits:g} {name}"
    return f"{number:,} bytes"


def show_error(number: float) -> str:
    """Return a relative error in readable form.

    >>> show_error(0.0123), show_error(2.5), show_error(0.00001)
    ('1.2%', '2.5 times', '< 0.01%')
    """
    if not isfinite(number):
        return "unbounded"
    if number >= 1.0:
        return f"{number:.2g} times" if number < 100 else f"{number:,.0f} times"
    return f"{100 * number:.2g}%" if number >= 1e-4 else "< 0.01%"


# How it is measured, before anything is kept.
#
# The given rows, all of a stream or its first part, are first held exactly, which gives the truth and the
# bytes of an exact state. Then they are streamed through the plan of each budget, under several seeds, and
# the answers are compared with the truth.
#
# If only a part was given, the budget of a measurement is scaled down by the ratio of its exact state to
# that of all rows, so that the same share of it is held. The size of the latter is extrapolated
# from its growth between half of the part and all of it. If more rows bring more keys of the same kind,
# the error of the whole is smaller by the root of that share, as each key weighs less; if keys become heavy
# late, it may be larger than what was measured. docs/how-to/plan-a-workload.md has the figures.


BUDGETS = ("1 MB", "4 MB", "16 MB", "64 MB")
SEEDS = 3
"""Measurements of each budget: chosen, as each takes a pass over the rows."""
_BATCHES = 20
"""Batches of each stream, which arrive in turns; an even number, because half of the part is measured, too."""
_STEP = 1.02
"""The precision of the smallest budget that holds everything, as a ratio."""
_MAIN = "all rows"
"""The name of the sample that does not belong to a window."""
_WINDOWED = "a window is measured only where all rows are read"

LayoutAt = Callable[[int, int], Layout]
"""The layout of the workload at a budget in bytes, under a seed."""
Outcomes = dict[str, Estimate | Groups | EddylineError]


@dataclass(frozen=True)
class MeasuredRows:
    """The rows that are measured, and how many rows each stream has in all."""

    tables: Mapping[str, pa.Table]
    rows: Mapping[str, int]

    @classmethod
    def of(
        cls, streams: Collection[str], given: Mapping[str, Any], rows: Mapping[str, int] | None
    ) -> "MeasuredRows":
        """Return the part of some streams that was given, or raise PlanError."""
        missing = [name for name in streams if name not in given]
        unknown = [name for name in (*given, *(rows or {})) if name not in streams]
        if missing or unknown:
            what = f"no rows of stream {missing[0]!r}" if missing else f"there is no stream {unknown[0]!r}"
            raise PlanError(f"size() takes the rows of each stream ({', '.join(streams)}): {what}.")
        tables = {name: table_of(name, given[name]) for name in streams}
        if not any(table.num_rows for table in tables.values()):
            raise PlanError("no stream has a row to measure on.")
        whole = {name: max(int((rows or {}).get(name, 0)), table.num_rows) for name, table in tables.items()}
        return cls(tables, whole)

    @property
    def is_whole(self) -> bool:
        """Whether all rows were given."""
        return all(self.rows[name] == table.num_rows for name, table in self.tables.items())

    @property
    def growth(self) -> float:
        """The ratio of all rows to the rows of the part, in streams with only a part given."""
        cut = [name for name, table in self.tables.items() if self.rows[name] > table.num_rows]
        if not cut:
            return 1.0
        read = sum(int(self.tables[name].num_rows) for name in cut)
        return sum(self.rows[name] for name in cut) / max(read, 1)

    def feed(self, state: State, batches: range = range(_BATCHES)) -> State:
        """Add some of the batches to a state, each with its share of every stream."""
        for batch in batches:
            for name, table in self.tables.items():
                first, last = (table.num_rows * each // _BATCHES for each in (batch, batch + 1))
                if last > first:
                    state.update(name, table.slice(first, last - first))
        return state


def measure(
    part: MeasuredRows,
    exactly: LayoutAt,
    layout_at: LayoutAt,
    budgets: Sequence[int],
    windowed: Collection[str],
    seeds: Sequence[int],
) -> Sizing:
    """Return what to expect of each query at each budget.

    exactly: layouts with samples; layout_at: those of the workload. windowed: queries over windows, which a part of
    the rows does not fill.
    """
    layout = exactly(LARGEST_BUDGET, seeds[0])
    state, held = State(Snapshot.empty(layout)), list[dict[str, _Held]]()
    for batch in range(_BATCHES):
        held.append(_held(part.feed(state, range(batch, batch + 1))))
    truth, names = _answers(state), list(held[-1])
    share = _share([each[_MAIN].elements for each in held], part.growth) if _MAIN in names else 1.0
    sampled = set(names) == set(_samples(layout_at(LARGEST_BUDGET, seeds[0])))
    scale = share if sampled else 1.0  # the error of a sketch does not depend on the bytes of an exact state
    most = {name: max(each[name].nbytes for each in held) for name in names}
    most |= {name: round(own / share) for name, own in most.items() if name == _MAIN}
    found: dict[str, dict[int, Expected]] = {query: {} for query in truth}
    for budget in budgets:
        runs, refused = _runs(part, layout_at, round(budget * scale), seeds)
        for query, exact in truth.items():
            if refused is not None:
                found[query][budget] = Expected(why=_no_plan(refused, scale))
            elif query in windowed and not part.is_whole:
                found[query][budget] = Expected(why=_WINDOWED)
            else:
                found[query][budget] = _expected(exact, [each[query] for each in runs])
    streams = [PartOfStream(name, table.num_rows, part.rows[name]) for name, table in part.tables.items()]
    return Sizing(
        tuple(streams),
        tuple(budgets),
        found,
        sum(round(own.nbytes / (share if name == _MAIN else 1.0)) for name, own in held[-1].items()),
        smallest_exact(lambda budget: exactly(budget, seeds[0]), most) if sampled else None,
        scale,
        len(seeds),
        layout.confidence,
    )


def smallest_exact(layout_at: Callable[[int], Layout], needed: Mapping[str, int]) -> int:
    """Return a budget, within 2% of the smallest, at which every sample has the bytes that it needs."""

    def fits(budget: int) -> bool:
        try:
            found = {name: sample.spec.budget for name, sample in _samples(layout_at(budget)).items()}
        except PlanError:
            return False
        return all(found[name] >= own for name, own in needed.items())

    low, high = 0, SMALLEST_BUDGET
    while not fits(high) and high < LARGEST_BUDGET:
        low, high = high, 2 * high
    while high > _STEP * low + 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def _samples(layout: Layout) -> dict[str, PlannedSample]:
    """Return the sample of a layout, and those of its windows, by names that do not depend on the budget."""
    found = dict.fromkeys([_MAIN], layout.samples[0]) if layout.samples else {}
    return found | {group.id: group.layout.samples[0] for group in layout.windows if group.layout.samples}


class _Held(NamedTuple):
    """What a sample holds: its bytes, and the number of its elements."""

    nbytes: int
    elements: int


def _held(state: State) -> dict[str, _Held]:
    """Return what each sample of a state holds, by the names of `_samples`."""
    snapshot, found = state.snapshot, {}
    for name, sample in _samples(snapshot.layout).items():
        panes = [snapshot] if name == _MAIN else list(snapshot.windows[name].panes.values())
        states = [pane.samples[sample.id] for pane in panes]
        elements = sum(len(dictionary) for each in states for dictionary in each.dictionaries)
        found[name] = _Held(bytes_of(states) if states else 0, elements)
    return found


def _share(elements: Sequence[int], growth: float) -> float:
    """Return the ratio of a part's exact state to that of all rows, if there are `growth` times as many rows.

    elements: their number after each batch; it is assumed to keep growing with the same power of the rows as from
    half of the part to all of it. Bytes would show less: they jump where numbers need more digits.
    """
    half, last = elements[len(elements) // 2 - 1], elements[-1]
    exponent = log2(last / half) if 0 < half < last else float(half == 0 < last)
    return float(growth ** -min(exponent, 1.0))


def _no_plan(refused: str, share: float) -> str:
    """Return why nothing was measured at a budget."""
    if share == 1.0:
        return refused
    return f"{share:.2g} of the budget, for the part of the rows that was read, is too small: read more rows."


def _runs(
    part: MeasuredRows, layout_at: LayoutAt, budget: int, seeds: Sequence[int]
) -> tuple[list[Outcomes], str | None]:
    """Return the answers of the part at a budget under each seed, or why there is no plan."""
    runs: list[Outcomes] = []
    try:
        for seed in seeds:
            runs.append(_certain(part.feed(State(Snapshot.empty(layout_at(budget, seed))))))
            if all(not isinstance(each, EddylineError) and each.exact for each in runs[-1].values()):
                break  # the seed does not change exact answers
    except PlanError as error:
        return [], str(error)
    return runs, None


def _answers(state: State) -> Outcomes:
    found: Outcomes = {}
    for query in state.snapshot.layout.query_names:
        try:
            found[query] = state.answer(query)
        except EddylineError as error:
            found[query] = error
    return found


def _certain(state: State) -> Outcomes:
    """Return the answers of a state; they count as exact only if they are exact under every seed.

    A sample that dropped keys may still answer a query exactly, by chance.
    """
    parts = [(state.snapshot.layout, state.snapshot.samples)]
    parts += [(panes.group.layout, panes.sample_states) for panes in state.snapshot.windows.values()]
    sure = {
        planned.name
        for layout, samples in parts
        for planned in layout.queries
        if not uses_sample(planned.query)
        or any(planned.sample == name and own.follows_all for name, own in samples.items())
    }
    return {
        name: replace(answer, exact=False)
        if isinstance(answer, Estimate | Groups) and name not in sure
        else answer
        for name, answer in _answers(state).items()
    }


def _expected(
    truth: Estimate | Groups | EddylineError, runs: Sequence[Estimate | Groups | EddylineError]
) -> Expected:
    """Return how far answers are from the truth, and how wide their intervals are, both relative to it."""
    refused = next((str(each) for each in (truth, *runs) if isinstance(each, EddylineError)), None)
    answers = [each for each in runs if not isinstance(each, EddylineError)]
    if refused is not None or isinstance(truth, EddylineError):
        return Expected(why=refused)
    if all(each.exact for each in answers):
        return Expected(exact=True)
    found = [each for each in (_distance(truth, own) for own in answers) if each is not None]
    if len(found) < len(answers):
        return Expected(why="the answer is 0, or not a number")
    squares = [error**2 for _, error in found]
    return Expected(False, median(width for width, _ in found), sqrt(sum(squares) / len(squares)))


def _distance(truth: Estimate | Groups, answer: Estimate | Groups) -> tuple[float, float] | None:
    """Return (half-width, error) of an answer, relative to the truth; for groups, those of the worst aggregate."""
    if isinstance(truth, Estimate) and isinstance(answer, Estimate):
        return _relative([_numbers(truth)], [_numbers(answer)])
    assert isinstance(truth, Groups)
    assert isinstance(answer, Groups)
    there = {tuple(row[name] for name in answer.group_columns): row for row in answer}
    found = []
    for name in truth.aggregates:
        exact, own = [], []
        for row in truth:
            mine = there.get(tuple(row[column] for column in truth.group_columns))
            exact.append(_numbers(truth.estimate(row, name)))
            own.append((None, None, None) if mine is None else _numbers(answer.estimate(mine, name)))
        found.append(_relative(exact, own))
    known = [each for each in found if each is not None]
    return (max(each[0] for each in known), max(each[1] for each in known)) if known else None


Numbers = tuple[float | None, float | None, float | None]


def _numbers(answer: Estimate) -> Numbers:
    """Return value, low and high as floats; None for what is not a number."""
    value, low, high = (
        float(each) if isinstance(each, int | float | Decimal) else None
        for each in (answer.value, answer.low, answer.high)
    )
    return value, low, high


def _relative(exact: Sequence[Numbers], own: Sequence[Numbers]) -> tuple[float, float] | None:
    """Return (half-widths, errors), each summed over numbers and divided by the sum of the true ones.

    A number that an answer does not show counts as wrong by its full value.
    """
    size = width = error = 0.0
    for (truth, _, _), (value, low, high) in zip(exact, own, strict=True):
        if truth is None:
            continue
        size += abs(truth)
        if value is None:
            width, error = width + abs(truth), error + abs(truth)
        else:
            width += (high - low) / 2 if low is not None and high is not None else inf
            error += abs(value - truth)
    return (width / size, error / size) if size > 0.0 else None
