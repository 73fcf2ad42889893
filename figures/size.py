"""What `w.size` expects of a part of the rows, and what states of all rows are: half-widths, errors, exact bytes.

    python figures/size.py [--seeds 8] [--size 300000] [--fractions 1,1/4,1/10] [--shares 1/16,1/4] [--datasets ...]

For each data set of the bank, the first part of its rows is sized, at budgets that are shares of its exact state. Then
states of all rows are built at the same budgets, under other seeds, batch by batch as rows arrive, and compared with
DuckDB's answers. A line has for one data set and part how many times what was expected the real ones are: the exact
bytes, the half-widths (10%, 50% and 90% quantiles over queries and budgets) and the errors (50%). Of parts two numbers
are expected: ratios are to the larger one, and once to the smaller one. "below" is the share of half-widths that are at
most 1.25 times the larger one, "cells" the number of half-widths; those of exact answers are not among them.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa
from bank import DATASETS
from bank.dataset import Data
from bank.exact import exact_answers

import eddyline as el
from eddyline.api.operations.part_rows import allotted

NAMES = "zipf_chain_0.8,zipf_star_1.1,tpch,tpch_skewed_1.0,shop,flights,growth_slow,growth_late,movies_0.8"
WEIGHT = "change"
SLACK = 1.25
"""Half-widths of a few seeds differ by as much."""
DRAWING, FIRST = 11, 7_000
"""The drawing that is measured, and the seeds of the states; `w.size` takes those from 0 on."""


@dataclass(frozen=True)
class Real:
    """What a query is at a budget, over states of all rows."""

    half_width: float
    error: float


def workload(data: Data, budget: int = 1_000_000, seed: int = 0) -> el.Workload:
    """Return the workload of a drawing."""
    made = el.Workload(budget=budget, seed=seed)
    for name, schema in data.schemas.items():
        made.stream(name, f"{schema}, {WEIGHT} BIGINT", changes=WEIGHT)
    for name, sql in data.queries.items():
        made.query(name, sql)
    return made


def in_order(data: Data) -> dict[str, pa.Table]:
    """Return the changes of each stream in the order of time."""
    parts: dict[str, list[pa.Table]] = {name: [] for name in data.tables}
    for batch in data.batches("by_time"):
        parts[batch.stream].append(pa.table({**batch.columns, WEIGHT: batch.weights}))
    return {name: pa.concat_tables(own).combine_chunks() for name, own in parts.items()}


def real(data: Data, budget: int, seeds: int) -> dict[str, Real]:
    """Return what states of all rows answer at a budget."""
    truth, found = exact_answers(data), {name: list[el.Estimate]() for name in data.queries}
    for seed in range(FIRST, FIRST + seeds):
        state = workload(data, budget, seed).plan().empty()
        for batch in data.batches("by_time"):
            state.update(batch.stream, {**batch.columns, WEIGHT: batch.weights})
        for name, own in found.items():
            own.append(state.answer(name))
    return {name: _real(own, truth[name]) for name, own in found.items()}


def _real(answers: list[el.Estimate], truth: float) -> Real:
    if any(each.value is None for each in answers):
        return Real(np.inf, np.inf)
    widths = [(float(each.high) - float(each.low)) / 2 for each in answers]
    errors = [float(each.value) - truth for each in answers]
    size = abs(truth) or 1.0
    error = float(np.sqrt(np.mean(np.square(errors))))
    return Real(float(np.median(widths)) / size, error / size)


def lines(
    name: str, size: int, fractions: list[Fraction], shares: list[Fraction], seeds: int
) -> Iterator[str]:
    """Yield the line of each part of a data set."""
    data = DATASETS[name].drawn(DRAWING, size)
    tables, asked = in_order(data), workload(data)
    rows = {stream: table.num_rows for stream, table in tables.items()}
    held = asked.size(tables, budgets=["64 MB"], seeds=1).exact_bytes
    budgets = [int(held * share) for share in shares]
    found = {budget: real(data, budget, seeds) for budget in budgets}
    for fraction in fractions:
        taken = allotted(rows, int(sum(rows.values()) * fraction))
        part = {stream: table.slice(0, taken[stream]) for stream, table in tables.items()}
        shown = asked.size(part, rows=rows, budgets=budgets)
        ratios, errors = list[float](), list[float]()
        for query in data.queries:
            for budget in budgets:
                own, true = shown.expected[query][budget], found[budget][query]
                if own.half_width and true.half_width > 0 and np.isfinite(own.half_width + true.half_width):
                    ratios.append(true.half_width / own.half_width)
                    errors.append(true.error / own.error if own.error else np.inf)
        quantiles = np.quantile(ratios or [np.nan], (0.1, 0.5, 0.9))
        below = np.mean([each <= SLACK for each in ratios]) if ratios else np.nan
        yield (
            f"| {name} | {sum(rows.values()):,} | {fraction} | {held / shown.exact_bytes:.2f} "
            f"| {quantiles[0]:.2f} | {quantiles[1]:.2f} | {quantiles[2]:.2f} "
            f"| {quantiles[1] / np.sqrt(shown.share):.2f} | {below:.0%} "
            f"| {np.median(errors or [np.nan]):.2f} | {len(ratios)} |"
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--size", type=int, default=300_000)
    parser.add_argument("--fractions", default="1,1/4,1/10")
    parser.add_argument("--shares", default="1/16,1/4")
    parser.add_argument("--datasets", default=NAMES)
    options = parser.parse_args()
    fractions, shares = (
        [Fraction(each) for each in text.split(",")] for text in (options.fractions, options.shares)
    )
    print(
        "| data set | rows | part | bytes | width 10% | 50% | 90% | to the smaller | below | error | cells |"
    )
    print("| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |")
    for name in options.datasets.split(","):
        for line in lines(name, options.size, fractions, shares, options.seeds):
            print(line, flush=True)


if __name__ == "__main__":
    main()
