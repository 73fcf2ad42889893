"""The methods that figures/stream_samples.py compares: each answers all queries of a drawing within a number of bytes.

    before             the product as it was before stream samples, planned without statistics
    before_statistics  the same, planned with the statistics of its own analysis, one more pass over the same rows
    hash, agms         the product's joins by plain hash sketches, and by atomic sketches
    universe           one sampling rate for all links of all streams (figures/universe_baseline.py)

To add a method, write a function from a Cell to the answers by query and name it in METHODS. It raises el.EddylineError
where it refuses the bytes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

from bank.dataset import Data, Order
from universe_baseline import universe_answers

import eddyline as el

ANALYSIS_SEED = 500


@dataclass(frozen=True)
class Cell:
    """A drawing, the order in which its changes arrive, the bytes that may be kept, and the seed of hash functions."""

    data: Data
    order: Order
    bytes: int
    seed: int


@dataclass(frozen=True)
class Answer:
    """What a method says of a query; None where it says nothing. expected_error: relative, before rows are seen."""

    value: float | None
    low: float | None = None
    high: float | None = None
    expected_error: float | None = None


Answers = dict[str, Answer]


def workload(cell: Cell, method: str = "skimmed") -> el.Workload:
    """Return the workload of a cell."""
    made = el.Workload(budget=cell.bytes, seed=cell.seed)
    for stream, schema in cell.data.schemas.items():
        made.stream(stream, schema)
    for name, sql in cell.data.queries.items():
        made.query(name, sql, method=method)
    return made


def filled(plan: el.Plan, cell: Cell) -> el.State:
    """Return the state of a plan after all changes, batch after batch."""
    state = plan.empty()
    for batch in cell.data.batches(cell.order):
        state.update(batch.stream, batch.columns, batch.weights)
    return state


@lru_cache(maxsize=1)
def _analysed(data: Data) -> el.Statistics:
    cell = Cell(data, "by_time", 1 << 20, ANALYSIS_SEED + data.seed)
    return filled(workload(cell).analysis(), cell).statistics()


def product(cell: Cell, method: str = "skimmed", *, analysed: bool = False) -> Answers:
    """Return the answers of the product, and the errors that its plan expects."""
    made = workload(cell, method)
    plan = made.plan(statistics=_analysed(cell.data) if analysed else None)
    expected = plan.expected_errors()
    state = filled(plan, cell)
    answers = {}
    for name in cell.data.queries:
        try:
            found = state.answer(name)
        except ValueError:  # an AVG whose two sketches differ in depth is not answered
            continue
        answers[name] = Answer(found.value, found.low, found.high, expected.get(name))
    return answers


def universe(cell: Cell) -> Answers:
    """Return the answers of plain universe sampling."""
    return {name: Answer(value) for name, value in universe_answers(cell.data, cell.bytes, cell.seed).items()}


METHODS: dict[str, Callable[[Cell], Answers]] = {
    "before": product,
    "before_statistics": partial(product, analysed=True),
    "hash": partial(product, method="hash"),
    "agms": partial(product, method="agms"),
    "universe": universe,
}
