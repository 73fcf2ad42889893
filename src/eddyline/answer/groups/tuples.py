"""Single values of groups: the tuples of a group and of the columns of a detail, with their rows.

They are the groups of a query of their own, `GroupQuery.part`, which groups by the detail's columns as well. What is
read here is to which group of the answer each tuple belongs, and how sure its rows are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from eddyline.answer.ad_hoc import with_derived
from eddyline.answer.groups.conditions import grouped_join
from eddyline.answer.groups.labels import labels_of, rows_of
from eddyline.answer.groups.sampled import SampledGroups, own_links
from eddyline.answer.joins.held import held_join
from eddyline.errors import PlanError
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.decide.ad_hoc import AdHocQuery
from eddyline.plan.decide.facets import ROWS
from eddyline.plan.layout import PlannedQuery
from eddyline.sample.grouped_join import GroupedJoin
from eddyline.sample.sorting import IntArray, numbered
from eddyline.sql.query import Detail, GroupQuery

Labels = Sequence[tuple[object, ...]]
"""The group columns' values of each group of an answer."""


@dataclass(frozen=True)
class Tuples:
    """The tuples of a detail that have rows and no NULL.

    owners: the group of the answer that each belongs to. columns: the detail's values. rows: how many, as integers
    where everything is held. sampled: what tells how sure they are, None where everything is held; places: the tuple
    that each of its groups is, -1 for those left out. one_value_each: what is followed is the tuple itself. negative:
    how many elements have more deletes than inserts.
    """

    owners: IntArray
    columns: tuple[pa.Array, ...]
    rows: np.ndarray
    groups: int
    sampled: SampledGroups | None = None
    places: IntArray | None = None
    one_value_each: bool = False
    negative: int = 0

    @property
    def exact(self) -> bool:
        """Whether all tuples are there, with all their rows."""
        return self.sampled is None


def read_tuples(
    snapshot: Snapshot, planned: PlannedQuery, owner: GroupQuery, detail: Detail, labels: Labels
) -> Tuples:
    """Return the tuples of a detail of a grouped query; planned: the query of its part; labels: of the groups."""
    assert isinstance(planned.query, GroupQuery)
    assert planned.shape is not None
    join = held_join(with_derived(snapshot, planned), planned)
    grouped = grouped_join(join, planned, planned.query)
    if join.is_known:
        numbers, sums = grouped.exact(of_rows_there=True)
        return _kept(grouped, planned.query, owner, detail, labels, numbers, sums[:, 0], None)
    if planned.shape.repeats_classes:
        raise PlanError(
            f"query {planned.name.split('/')[0]!r} joins by one column in two links; its rows no longer fit the stream "
            "sample, and distinct counts and quantiles of such a join are answered only while they do: plan with a "
            "larger budget."
        )
    sampled = SampledGroups(grouped, [ROWS], own_links(owner, grouped), (0.0, 0.0))
    tuples = _kept(grouped, planned.query, owner, detail, labels, sampled.groups, sampled.sums[ROWS], sampled)
    return replace(tuples, one_value_each=all(_one_value(grouped, planned, k) for k in sampled.sampled_links))


def _one_value(grouped: GroupedJoin, planned: PlannedQuery, link: int) -> bool:
    """Return whether all rows of a tuple have one value of a link, because the tuple has its columns."""
    assert isinstance(planned.query, GroupQuery)
    if own_links(planned.query, grouped)[link]:
        return True
    for relation, node in enumerate(grouped.nodes):
        if link not in node.variables:
            continue
        view = grouped.join.view(node)
        position = view.keys[node.variables.index(link)]
        if position in view.groups:
            return True
        if isinstance(
            planned, AdHocQuery
        ):  # of a link that it does not join on it has the key beside the column
            parts = planned.kept if grouped.join.state.grouped else planned.exact
            own = {each.expression for each in planned.query.groups if each.relation == relation}
            if own >= {*parts[view.dictionary].wanted.keys[position].columns}:
                return True
    return False


def _kept(
    grouped: GroupedJoin,
    part: GroupQuery,
    owner: GroupQuery,
    detail: Detail,
    labels: Labels,
    numbers: IntArray,
    rows: np.ndarray,
    sampled: SampledGroups | None,
) -> Tuples:
    """Return the tuples that belong to a group of the answer, have rows, and no NULL among the detail's columns."""
    found = labels_of(grouped, part, numbers)
    negative = sum(
        int((each.weights < 0).sum()) for each in grouped.join.whole_relations(grouped.quantities[0])
    )
    by_value = {(column.relation, column.expression): values for column, values in found.items()}
    own = [by_value[column.relation, column.expression] for column in owner.groups]
    values = [by_value[column.relation, column.expression] for column in detail.columns]
    owners = _owners(own, len(numbers), labels)
    kept = (owners >= 0) & np.asarray(rows > 0, dtype=np.bool_)
    for column in values:
        kept &= np.asarray(column.is_valid())
    places = np.where(kept, np.cumsum(kept) - 1, -1)
    mask = pa.array(kept)
    columns = tuple(column.filter(mask) for column in values)
    return Tuples(owners[kept], columns, rows[kept], len(labels), sampled, places, negative=negative)


def _owners(columns: Sequence[pa.Array], number: int, labels: Labels) -> IntArray:
    """Return which of the answer's groups each of so many tuples is of, -1 where none; columns: those of the groups."""
    group: IntArray = np.zeros(number, dtype=np.int64)
    for column in columns:
        encoded = column.dictionary_encode(null_encoding="encode")
        _, group = numbered(group * len(encoded.dictionary) + encoded.indices.to_numpy())
    first = np.zeros(int(group.max(initial=-1)) + 1, dtype=np.int64)
    first[group] = np.arange(number)
    at = {label: place for place, label in enumerate(labels)}
    found = rows_of([column.take(pa.array(first)) for column in columns], len(first))
    return np.array([at.get(label, -1) for label in found], dtype=np.int64)[group]
