"""The methods that figures/stream_samples.py compares: each answers all queries of a drawing within a number of bytes.

    samples            the product: stream samples, and sketches of the rest
    sketches           skimmed sketches alone: Workload(samples=False)
    hash, agms         joins by plain hash sketches, and by atomic sketches
    universe           one sampling rate for all links of all streams (figures/universe_baseline.py)

The product as it was before stream samples, with fixed-rate key samples, planned without statistics ("before") and with
those of its own analysis ("before_statistics"), is in data/stream_samples_before.csv; commit 8780672 measured it.

To add a method, write a function from a Cell to the answers by query and name it in METHODS. It raises el.EddylineError
where it refuses the bytes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from bank.dataset import Data, Order
from universe_baseline import universe_answers

import eddyline as el


@dataclass(frozen=True)
class Cell:
    """A drawing, the order in which its changes arrive, the bytes that may be kept, and the seed of hash functions."""

    data: Data
    order: Order
    bytes: int
    seed: int


@dataclass(frozen=True)
class Answer:
    """What a method answers, None where it has no answer. expected_error: relative, as the state reports it."""

    value: float | None
    low: float | None = None
    high: float | None = None
    expected_error: float | None = None


Answers = dict[str, Answer]


def workload(cell: Cell, method: str, *, samples: bool) -> el.Workload:
    """Return the workload of a cell."""
    made = el.Workload(budget=cell.bytes, seed=cell.seed, samples=samples)
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


def product(cell: Cell, method: str = "skimmed", *, samples: bool = False) -> Answers:
    """Return the answers of the product; the error expected is half the width of the interval, relative."""
    state = filled(workload(cell, method, samples=samples).plan(), cell)
    answers = {}
    for name in cell.data.queries:
        found = state.answer(name)
        answers[name] = Answer(found.value, found.low, found.high, found.relative_error)
    return answers


def universe(cell: Cell) -> Answers:
    """Return the answers of plain universe sampling."""
    return {name: Answer(value) for name, value in universe_answers(cell.data, cell.bytes, cell.seed).items()}


METHODS: dict[str, Callable[[Cell], Answers]] = {
    "samples": partial(product, samples=True),
    "sketches": product,
    "hash": partial(product, method="hash"),
    "agms": partial(product, method="agms"),
    "universe": universe,
}
