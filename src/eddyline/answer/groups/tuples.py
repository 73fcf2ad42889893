"""Single values of groups: tuples of a group and a column, also under conditions between relations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET

from eddyline.answer.ad_hoc import with_derived
from eddyline.answer.groups.columns import Places, labels_of, places_of, rows_of, values_of
from eddyline.answer.groups.sampled import SampledGroups, own_links
from eddyline.answer.joins.sampled import held_join
from eddyline.errors import PipelineError, PlanError
from eddyline.expressions.arrow_eval import evaluate
from eddyline.expressions.arrow_values import to_arrow
from eddyline.expressions.nodes import columns_of
from eddyline.expressions.typing import common_type
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.decide.ad_hoc import AdHocQuery
from eddyline.plan.decide.facets import ROWS
from eddyline.plan.layout import PlannedQuery
from eddyline.sample.conditioned_messages import ConditionedJoin
from eddyline.sample.cross_conditions import Compared, GroupCondition
from eddyline.sample.grouped_join import GroupedJoin
from eddyline.sample.join import Join
from eddyline.sample.packing import BoolArray, IntArray, numbered
from eddyline.sql.query import Computed, CrossCondition, Detail, GroupColumn, Query
from eddyline.types import Column

# Grouped queries over a stream sample; conditions between relations are evaluated on the values of groups.


def grouped_join(join: Join, planned: PlannedQuery, query: Query) -> GroupedJoin:
    """Return the groups of a query over its sample, without those that do not meet its conditions."""
    assert planned.shape is not None
    quantities = list(planned.shape.quantities.values())
    if not query.conditions:
        return GroupedJoin(join, quantities)
    places = places_of(query)
    kept = [
        {places[group.relation, group.expression] for group in query.groups if group.relation == k}
        for k in range(len(query.relations))
    ]
    return ConditionedJoin(
        join,
        quantities,
        kept,
        lambda grouped: [_condition(each, places, grouped) for each in query.conditions],
    )


def _condition(condition: CrossCondition, places: Places, grouped: GroupedJoin) -> GroupCondition:
    columns: dict[int, tuple[int, ...]] = {}
    for column in condition.columns:
        columns[column.relation] = (
            *columns.get(column.relation, ()),
            places[column.relation, column.expression],
        )
    if condition.comparison == "=":
        return GroupCondition(columns, _equality(condition, columns, grouped))
    values = {
        column: values_of(grouped, column, places, np.arange(len(grouped.codes[column.relation])))
        for column in condition.columns
    }
    if condition.comparison is not None:
        return GroupCondition(columns, _comparison(condition, list(values.values())))
    return GroupCondition(columns, _Evaluated(condition, tuple(columns), values))


def _equality(
    condition: CrossCondition, columns: Mapping[int, tuple[int, ...]], grouped: GroupedJoin
) -> Compared:
    """Return the equality of two columns by their codes, as in joins."""
    sides = [
        (grouped.codes[column.relation].codes[place], grouped.codes[column.relation].nulls[place])
        for column in condition.columns
        for place in columns[column.relation]
    ]
    codes, nulls = (np.concatenate(each) for each in zip(*sides, strict=True))
    values, ranks = np.unique(codes, return_inverse=True)
    return _compared(condition, np.where(nulls, -1, ranks), len(sides[0][0]), len(values))


def _comparison(condition: CrossCondition, sides: Sequence[pa.Array]) -> Compared:
    """Return a comparison of two columns by the ranks of their values."""
    left, right = (column.expression.type for column in condition.columns)
    kind = common_type(left, right)
    assert kind is not None
    values = pa.concat_arrays([side.cast(to_arrow(kind)) for side in sides])
    ranks = pc.rank(values, tiebreaker="dense").to_numpy() - 1
    known = np.asarray(values.is_valid())
    return _compared(condition, np.where(known, ranks.astype(np.int64), -1), len(sides[0]), len(values))


def _compared(condition: CrossCondition, ranks: IntArray, ours: int, size: int) -> Compared:
    """Return a comparison by ranks: first those of the first relation's groups, then the second's."""
    left, right = (column.relation for column in condition.columns)
    assert condition.comparison is not None
    return Compared(
        condition.comparison, left, right, {left: ranks[:ours], right: ranks[ours:]}, max(size, 1)
    )


@dataclass(frozen=True)
class _Evaluated:
    """A condition evaluated on the groups of its relations; values: those of each column, by group."""

    condition: CrossCondition
    relations: tuple[int, ...]
    values: Mapping[GroupColumn, pa.Array]

    def __call__(self, groups: Sequence[IntArray]) -> BoolArray:
        of_relation = dict(zip(self.relations, groups, strict=True))
        table = pa.table(
            {
                column.name: values.take(pa.array(of_relation[column.relation]))
                for column, values in self.values.items()
            }
        )
        columns = tuple(Column(column.name, column.expression.type) for column in self.values)
        try:
            found = evaluate(self.condition.text, table, columns)
        except PipelineError as error:
            raise PlanError(
                f"the condition {self.condition.written!r} fails on joined rows: {error}"
            ) from error
        return np.asarray(found.fill_null(fill_value=False).to_numpy(), dtype=np.bool_)


# Single values of groups: the tuples of a group and of the columns of a detail, with their rows.
#
# They are the groups of a separate query, `Query.part`, which also groups by the detail's columns. This
# section finds the group of the answer to which each tuple belongs, and how sure its rows are.


Labels = Sequence[tuple[object, ...]]
"""The group columns' values of each group of an answer."""


@dataclass(frozen=True)
class GroupTuples:
    """The tuples of a detail that have rows and no NULL.

    owners: the group of the answer that each belongs to. columns: the detail's values. rows: how many, as integers
    where everything is held. sampled: what gives their precision, None where everything is held; places: the tuple
    of each of its groups, -1 for those left out. one_value_each: what is followed is the tuple itself.
    one_tuple_each: what is followed includes the tuple and its group, so that no two tuples share a value.
    negative: how many elements have more deletes than inserts.
    """

    owners: IntArray
    columns: tuple[pa.Array, ...]
    rows: np.ndarray
    groups: int
    sampled: SampledGroups | None = None
    places: IntArray | None = None
    one_value_each: bool = False
    one_tuple_each: bool = False
    negative: int = 0

    @property
    def exact(self) -> bool:
        """Whether all tuples are held, with all their rows."""
        return self.sampled is None


def read_tuples(
    snapshot: Snapshot, planned: PlannedQuery, owner: Query, detail: Detail, labels: Labels
) -> GroupTuples:
    """Return the tuples of a detail of a grouped query; planned: the query of its part; labels: of the groups."""
    assert planned.shape is not None
    part = owner.part(detail)
    join = held_join(with_derived(snapshot, planned), planned)
    grouped = grouped_join(join, planned, part)
    if join.is_known:
        numbers, sums = grouped.exact(of_rows_there=True)
        return _kept(grouped, part, owner, detail, labels, numbers, sums[:, 0], None)
    if planned.shape.repeats_classes:
        raise PlanError(
            f"query {planned.name.split('/')[0]!r} uses one column in two links of a join. Distinct counts and "
            "quantiles of such a join need all rows, and they no longer fit the stream sample: plan with a "
            "larger budget."
        )
    sampled = SampledGroups(grouped, [ROWS], own_links(owner, grouped), (0.0, 0.0))
    tuples = _kept(grouped, part, owner, detail, labels, sampled.groups, sampled.sums[ROWS], sampled)
    return replace(
        tuples,
        one_value_each=all(_one_value(grouped, planned, part, k) for k in sampled.sampled_links),
        one_tuple_each=_one_tuple(grouped, planned, part),
    )


def _one_tuple(grouped: GroupedJoin, planned: PlannedQuery, part: Query) -> bool:
    """Return whether a value belongs to one tuple: one relation, one link, with all columns that the tuple reads."""
    if not isinstance(planned, AdHocQuery) or len(grouped.nodes) != 1 or len(grouped.nodes[0].variables) != 1:
        return False
    (node,) = grouped.nodes
    view = grouped.join.view(node)
    parts = planned.kept if grouped.join.state.grouped else planned.exact
    key = parts[view.dictionary].wanted.keys[view.keys[0]]
    read, followed = (
        {name for each in expressions for name in columns_of(each.text)}
        for expressions in ([each.expression for each in part.groups], key.columns)
    )
    return key.null_is_value and read <= followed


def _one_value(grouped: GroupedJoin, planned: PlannedQuery, part: Query, link: int) -> bool:
    """Return whether all rows of a tuple have one value of a link, because the tuple includes its columns."""
    if own_links(part, grouped)[link]:
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
        ):  # for a link that it does not join on, it has the key next to the column
            parts = planned.kept if grouped.join.state.grouped else planned.exact
            own = {each.expression for each in part.groups if each.relation == relation}
            if own >= {*parts[view.dictionary].wanted.keys[position].columns}:
                return True
    return False


def _kept(
    grouped: GroupedJoin,
    part: Query,
    owner: Query,
    detail: Detail,
    labels: Labels,
    numbers: IntArray,
    rows: np.ndarray,
    sampled: SampledGroups | None,
) -> GroupTuples:
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
    if detail.computed is not UNSET:
        values = [
            _computed(detail, detail.computed, values, kept),
            *values[detail.computed.columns :],
        ]
    for column in values:
        kept &= np.asarray(column.is_valid())
    places = np.where(kept, np.cumsum(kept) - 1, -1)
    mask = pa.array(kept)
    columns = tuple(column.filter(mask) for column in values)
    return GroupTuples(owners[kept], columns, rows[kept], len(labels), sampled, places, negative=negative)


def _computed(detail: Detail, computed: Computed, values: Sequence[pa.Array], kept: BoolArray) -> pa.Array:
    """Return the value that is computed from columns, NULL for tuples that are not kept."""
    for condition in values[computed.columns :]:
        kept = kept & np.asarray(condition.is_valid())
    read = detail.columns[: computed.columns]
    columns = tuple(Column(column.name, column.expression.type) for column in read)
    table = pa.table({column.name: value.filter(kept) for column, value in zip(read, values, strict=False)})
    try:
        found = [evaluate(text, table, columns) for text in (computed.text, computed.subtracted) if text]
    except PipelineError as error:
        raise PlanError(f"{detail.name!r} fails on joined rows: {error}") from error
    made = found[0] if len(found) == 1 else _difference(*found)
    places = np.where(kept, np.cumsum(kept) - 1, 0)
    made = made.cast(to_arrow(computed.type)).combine_chunks()
    return made.take(pa.array(places, mask=~kept))


def _difference(later: pa.ChunkedArray, earlier: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the time from one moment, or day, to another."""
    if pa.types.is_date(later.type):
        days = (each.cast(pa.int32()).cast(pa.int64()) for each in (later, earlier))
        return pc.multiply_checked(pc.subtract(*days), 86_400_000_000).cast(pa.duration("us"))
    return pc.subtract_checked(*(each.cast(pa.int64()) for each in (later, earlier))).cast(pa.duration("us"))


def _owners(columns: Sequence[pa.Array], number: int, labels: Labels) -> IntArray:
    """Return the answer's group of each of `number` tuples, -1 for none; columns: those of the groups."""
    group: IntArray = np.zeros(number, dtype=np.int64)
    for column in columns:
        encoded = column.dictionary_encode(null_encoding="encode")
        _, group = numbered(group * len(encoded.dictionary) + encoded.indices.to_numpy())
    first = np.zeros(int(group.max(initial=-1)) + 1, dtype=np.int64)
    first[group] = np.arange(number)
    at = {label: place for place, label in enumerate(labels)}
    found = rows_of([column.take(pa.array(first)) for column in columns], len(first))
    return np.array([at.get(label, -1) for label in found], dtype=np.int64)[group]
