"""Joins and set expressions from stream samples on the bank: error, coverage and width of each reading.

A cell is a data set, an order, a budget (a share of the bytes of the exact dictionaries), a drawing and a seed of the
hash functions. Changes arrive in twenty batches; the sample is reduced to its budget after each.

    python figures/sample_reading.py --part choose --drawings 4 --seeds 10 [--size 30000] [--into choose]

adds a line for each query of a cell to data/sample_reading_<into>.csv and passes over cells that are there.
figures/sample_reading_report.py summarizes them.
"""

import argparse
import csv
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pyarrow as pa
from bank import DATASETS
from bank.dataset import ORDERS, Batch, Data, Dataset
from bank.dataset import pieces as pieces_of

from eddyline.answer.joins.residual import read_residual_join
from eddyline.answer.joins.sampled import read_sample_join
from eddyline.answer.joins.two_way import SketchedRelation
from eddyline.answer.sets.query import read_sample_set
from eddyline.expressions.schema import parse_schema
from eddyline.ingest.arrow_path import project_table
from eddyline.ingest.projection import Projection, prepare
from eddyline.ingest.sample_pass import add_rows
from eddyline.plan.decide.elements import plan_sample
from eddyline.plan.demands import WorkloadQuery
from eddyline.plan.layout import Elements, PlannedSample, Stream
from eddyline.sample.dictionary import Builder, Dictionary
from eddyline.sample.join import Join
from eddyline.sample.messages import added
from eddyline.sample.reduction import shrink_to_fit
from eddyline.sample.spec import DictionarySpec
from eddyline.sample.state import Roster, SampleState
from eddyline.sketch.counters import key_array
from eddyline.sketch.hash_sketch import HashSketchSpec
from eddyline.sketch.keys import derive_seed
from eddyline.sql.parse import parse_query
from eddyline.sql.query import JoinDistinctQuery, Query

FOLDER = Path(__file__).parent / "data"
JUDGING_DRAWINGS = 1000
SKETCH_SHARE = 0.2
DEPTH = 7
COLUMNS = (
    "dataset",
    "order",
    "budget_fraction",
    "drawing",
    "seed",
    "reading",  # "plain": no totals; "calibrated": with totals; "residual": with a sketch, too
    "query",
    "function",
    "relations",
    "exact",
    "value",
    "low",
    "high",
    "base",
    "witnesses",
)
Line = dict[str, object]


@dataclass(frozen=True)
class Fed:
    """A drawing: its plan, what each batch adds to the dictionaries, everything at the end, the exact bytes."""

    plan: PlannedSample
    queries: dict[str, Query]
    pieces: dict[str, list[SampleState]]
    whole: SampleState
    bytes: int


def fed(data: Data, orders: list[str]) -> Fed:
    """Return a drawing as batches of dictionaries, one list for each order."""
    columns = {name: parse_schema(name, schema) for name, schema in data.schemas.items()}
    queries = {name: parse_query(text, columns) for name, text in data.queries.items()}
    asked = [WorkloadQuery(n, q) for n, q in queries.items() if not isinstance(q, JoinDistinctQuery)]
    plan = plan_sample(asked, (), 1, 1 << 40, 1 << 40)
    streams = {name: Stream(name, each) for name, each in columns.items()}
    pieces = {}
    for order in orders:
        pieces[order] = [_piece(plan, streams, each) for each in _together(data, order)]
    whole = SampleState.empty(plan.spec, grouped=True)
    for piece in pieces[orders[0]]:
        whole = whole.combined(piece)
    return Fed(plan, queries, pieces, whole, _largest(plan, streams, data))


def _together(data: Data, order: str) -> Iterator[list[Batch]]:
    """Yield the batches of all streams that arrive together."""
    batches = iter(data.batches(order))
    for piece in pieces_of(data.changes):
        rows, found = 0, list[Batch]()
        while rows < len(piece):
            found.append(next(batches))
            rows += len(found[-1].weights)
        yield found


def _largest(plan: PlannedSample, streams: dict[str, Stream], data: Data) -> int:
    state, most = SampleState.empty(plan.spec), 0
    for batches in _together(data, "by_time"):
        made = _dictionaries(plan.exact, plan.spec.exact, streams, batches)
        state = state.combined(replace(SampleState.empty(plan.spec), dictionaries=made))
        most = max(most, state.nbytes)
    return most


def _piece(plan: PlannedSample, streams: dict[str, Stream], batches: list[Batch]) -> SampleState:
    made = _dictionaries(plan.kept, plan.spec.kept, streams, batches)
    return replace(SampleState.empty(plan.spec, grouped=True), dictionaries=made)


def _dictionaries(
    parts: tuple[Elements, ...],
    specs: tuple[DictionarySpec, ...],
    streams: dict[str, Stream],
    batches: list[Batch],
) -> tuple[Dictionary, ...]:
    made = []
    for elements, spec in zip(parts, specs, strict=True):
        builder = Builder(spec)
        for batch in batches:
            if batch.stream == elements.stream:
                wanted = _projection(elements)
                table = project_table(
                    streams[batch.stream],
                    pa.table(batch.columns),
                    np.ascontiguousarray(batch.weights),
                    wanted,
                )
                add_rows(builder, elements, prepare(table, wanted), None)
        made.append(builder.build())
    return tuple(made)


def _projection(part: Elements) -> Projection:
    predicates = tuple(flag.predicates for flag in part.flags if flag.predicates)
    presence = tuple(dict.fromkeys(each for flag in part.flags for each in flag.presence))
    return Projection(part.keys, predicates, part.measures, presence)


def sampled(drawing: Fed, order: str, budget: int, seed: int) -> SampleState:
    """Return the sample of all changes under a budget."""
    state = SampleState.empty(drawing.plan.spec, grouped=True)
    count = len(state.rosters)
    state = replace(
        state, rosters=tuple(Roster(derive_seed(seed, "link class", link)) for link in range(count))
    )
    for piece in drawing.pieces[order]:
        state = state.combined(piece)
        state = shrink_to_fit([state], budget)[0]
    return state


def totals_of(join: Join) -> dict[str, list[float]]:
    """Return the exact total of each relation's weight in each term."""
    terms = join.shape.quantities
    return {
        name: [float(each.weights.sum()) for each in join.whole_relations(term)]
        for name, term in terms.items()
    }


def sketched(whole: Join, budget: int, seed: int) -> dict[str, tuple[SketchedRelation, SketchedRelation]]:
    """Return sketches of a two-way join whose terms together take a number of bytes, with their heaviest values."""
    terms = whole.shape.quantities
    width = 2
    while 2 * width * DEPTH * 8 * (len(terms) + 1) <= budget:
        width *= 2
    spec = HashSketchSpec(width, DEPTH, (derive_seed(seed, "sketch"),))
    made = {}
    for name, term in terms.items():
        pair = []
        for relation in whole.whole_relations(term):
            weights = added(relation.weights, relation.places[0], len(whole.values[0]))
            counters = np.zeros(spec.words, dtype=np.int64)
            spec.accumulate(counters, key_array(whole.values[0]), weights)
            heavy = np.argsort(-np.abs(weights))[: max(8, width // 2)]
            pair.append(SketchedRelation(spec, counters, np.sort(whole.values[0][heavy].view(np.uint64))))
        made[name] = (pair[0], pair[1])
    return made


def lines(drawing: Fed, state: SampleState, budget: int, seed: int) -> Iterator[Line]:
    """Yield a line for each query and reading."""
    two_way = [
        name
        for name, query in drawing.queries.items()
        if isinstance(query, Query) and len(query.relations) == 2
    ]
    for shape in drawing.plan.spec.shapes:
        query = drawing.queries[shape.name]
        whole, join = Join(drawing.whole, shape), Join(state, shape)
        if shape.kind == "set":
            exact = read_sample_set(whole, 0.95)
            about = {"function": "set", "relations": len(shape.quantities["set"].nodes)}
            found = {"plain": read_sample_set(join, 0.95)}
        else:
            function, totals = query.aggregate.function, totals_of(whole)
            exact = read_sample_join(whole, function, {}, 0.95)
            about = {"function": function, "relations": len(query.relations)}
            found = {
                "plain": read_sample_join(join, function, {}, 0.95),
                "calibrated": read_sample_join(join, function, totals, 0.95),
            }
            if shape.name in two_way:
                sides = sketched(whole, int(SKETCH_SHARE * budget / len(two_way)), seed)
                found["residual"] = read_residual_join(join, function, totals, sides, 0.95)
        for reading, each in found.items():
            yield about | {
                "query": shape.name,
                "reading": reading,
                "exact": f"{exact.value:.10g}",
                "value": f"{each.value:.8g}",
                "low": f"{each.low:.8g}",
                "high": f"{each.high:.8g}",
                "base": f"{found['plain'].base:.4g}",
                "witnesses": found["plain"].witnesses,
            }


def measure(
    dataset: Dataset, options: argparse.Namespace, done: set[tuple[str, ...]]
) -> Iterator[list[Line]]:
    """Yield the lines of each cell that is not done."""
    orders, budgets = options.orders.split(","), options.budgets.split(",")
    first = JUDGING_DRAWINGS if dataset.part == "judge" else 0
    for number in range(first, first + options.drawings):
        wanted = [
            (dataset.name, order, budget, str(number), str(seed))
            for order in orders
            for budget in budgets
            for seed in range(options.seeds)
        ]
        wanted = [each for each in wanted if each not in done]
        if not wanted:
            continue
        drawing = fed(dataset.drawn(number, options.size), orders)
        for name, order, budget, _, seed in wanted:
            allowed = int(drawing.bytes * Fraction(budget))
            hashes = 1000 * number + int(seed)
            state = sampled(drawing, order, allowed, hashes)
            about: Line = {
                "dataset": name,
                "order": order,
                "budget_fraction": budget,
                "drawing": number,
                "seed": seed,
            }
            yield [about | line for line in lines(drawing, state, allowed, hashes)]


def main() -> None:
    """Measure what is not in the data file yet."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", default="choose", choices=["choose", "judge"])
    parser.add_argument("--drawings", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--size", type=int, default=30_000, help="rows of all streams together")
    parser.add_argument("--orders", default=",".join(ORDERS))
    parser.add_argument("--budgets", default="1/50,1/20,1/8,1/3")
    parser.add_argument("--datasets", default="", help="only those whose names hold one of these texts")
    parser.add_argument("--into", default="choose")
    options = parser.parse_args()
    path = FOLDER / f"sample_reading_{options.into}.csv"
    done = set[tuple[str, ...]]()
    if path.exists():
        with path.open() as file:
            done = {tuple(line[name] for name in COLUMNS[:5]) for line in csv.DictReader(file)}
    named = options.datasets.split(",")
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if not done:
            writer.writeheader()
        for dataset in DATASETS.values():
            if dataset.part != options.part or not any(text in dataset.name for text in named):
                continue
            start = time.perf_counter()
            for cell in measure(dataset, options, done):
                writer.writerows(cell)
                file.flush()
            print(f"{dataset.name}: {time.perf_counter() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
