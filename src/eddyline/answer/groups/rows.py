"""Rows of a stream sample: the elements that it holds, each with the number of rows that it represents."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.answer.ad_hoc import with_derived
from eddyline.answer.groups.columns import labels_of
from eddyline.answer.groups.sampled import SampledGroups
from eddyline.answer.groups.tuples import grouped_join
from eddyline.answer.joins.sampled import held_join
from eddyline.errors import PlanError, UnsupportedQuery
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.decide.ad_hoc import bind_ad_hoc, readable_columns
from eddyline.plan.decide.facets import ROWS
from eddyline.plan.layout import Layout
from eddyline.sql.query import Ordering
from eddyline.sql.row_sample import WEIGHT_COLUMN, RowSample


@dataclass(frozen=True)
class WeightedRows:
    """Rows with their weights, in the last column.

    exact: a weight is the number of equal rows. held: how many different rows the state holds; represented: how
    many rows these represent.
    """

    table: pa.Table
    exact: bool
    held: int
    represented: float


def held_columns(layout: Layout) -> dict[str, list[frozenset[str]]]:
    """Return which columns of each stream dictionaries hold together, the most of them first."""
    found: dict[str, list[frozenset[str]]] = {}
    for sample in layout.samples:
        for elements in sample.kept:
            if not elements.apart:
                names = frozenset(readable_columns(elements, layout.stream(elements.stream)))
                found.setdefault(elements.stream, []).append(names)
    return {stream: sorted(together, key=len, reverse=True) for stream, together in found.items()}


def weighted_rows(snapshot: Snapshot, asked: RowSample) -> WeightedRows:
    """Return the rows that a query asks for; a weight is the number of equal rows, divided by the sample's rate."""
    layout = snapshot.layout
    if not layout.samples:
        raise PlanError("this state keeps no stream sample and holds no rows: explore the stream.")
    planned = bind_ad_hoc(layout, "rows", asked.query, layout.timezone)
    join = held_join(with_derived(snapshot, planned), planned)
    grouped = grouped_join(join, planned, asked.query)
    if join.is_known:
        groups, sums = grouped.exact(of_rows_there=True)
        weights = sums[:, 0].astype(np.float64)
    else:
        # no link is taken for known, although its value is a column: each row is scaled up
        sampled = SampledGroups(grouped, [ROWS], [False] * len(grouped.sizes), (0.0, 0.0))
        groups, weights = sampled.groups, sampled.sums[ROWS]
    there = weights > 0
    groups, weights = groups[there], weights[there]
    if asked.is_cut and not join.is_known:
        raise UnsupportedQuery(
            "ORDER BY with LIMIT takes the first rows of all, and not all rows are held: leave ORDER BY out for a "
            "sample, or write TABLESAMPLE (100 ROWS) instead of LIMIT."
        )
    kept, factor = _chosen(asked, len(groups))
    table = pa.table(
        {
            **{
                column.name: values
                for column, values in labels_of(grouped, asked.query, groups[kept]).items()
            },
            WEIGHT_COLUMN: pa.array(weights[kept] * factor, pa.float64()),
        }
    )
    return WeightedRows(
        _in_order(table, asked),
        join.is_known and len(table) == len(groups),
        len(groups),
        float(weights.sum()),
    )


def _chosen(asked: RowSample, held: int) -> tuple[np.ndarray, float]:
    """Return the places of the rows to take, in order, and how many of those that are held each represents."""
    random = np.random.default_rng(asked.seed)
    kept, factor = np.arange(held), 1.0
    if asked.share is not None and asked.share < 1:
        kept = kept[random.random(held) < asked.share]
        factor = 1 / asked.share if asked.share else 1.0
    if asked.rows is not None and not asked.is_cut and len(kept) > asked.rows:
        factor *= len(kept) / max(asked.rows, 1)
        kept = np.sort(random.choice(kept, asked.rows, replace=False))
    return kept, factor


def _in_order(table: pa.Table, asked: RowSample) -> pa.Table:
    """Return rows in the order that was asked for; of those in an order, LIMIT takes the first ones."""
    for each in reversed(asked.order):
        table = table.take(_places(table, each))
    return table.slice(0, asked.rows) if asked.is_cut else table


def _places(table: pa.Table, order: Ordering) -> pa.Array:
    """Return the places of rows ordered by a column; equal ones stay in their order."""
    direction = "descending" if order.descending else "ascending"
    column = table.column(order.name)
    by = pa.table({"missing": pc.is_null(column), "value": column, "place": np.arange(len(table))})
    return pc.sort_indices(
        by,
        sort_keys=[
            ("missing", "descending" if order.nulls_first else "ascending"),
            ("value", direction),
            ("place", "ascending"),
        ],
    )
