"""GROUP BY queries: which reading answers, and the table that the reader gets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil, floor, inf, isnan
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.answer import notes
from eddyline.answer.ad_hoc import with_derived
from eddyline.answer.aggregates import ROUNDED, told, told_exactly, unit_of
from eddyline.answer.bounds import row_bound, within_rows
from eddyline.answer.estimate import Estimate
from eddyline.answer.groups.columns import (
    Column,
    column_of_values,
    exact_column,
    not_known,
    sampled_column,
    unrounded_values,
    widened_column,
)
from eddyline.answer.groups.conditions import grouped_join
from eddyline.answer.groups.details import read_details
from eddyline.answer.groups.formulas import formula_column
from eddyline.answer.groups.labels import labels_of, rows_of
from eddyline.answer.groups.rest import rest_of_sum
from eddyline.answer.groups.sampled import GroupAggregate, GroupIntervals, SampledGroups, own_links
from eddyline.answer.groups.selection import select_groups
from eddyline.answer.groups.table import EXACT, Groups
from eddyline.answer.groups.whole import WholeJoin
from eddyline.answer.interval import FloatArray, Interval, of_each
from eddyline.answer.joins.held import held_join
from eddyline.answer.joins.sample_estimate import SampleEstimate
from eddyline.answer.rounding import may_be_cut_off, most_rows, widened
from eddyline.errors import PlanError
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.decide.ad_hoc import AdHocQuery
from eddyline.plan.decide.facets import ROWS, powers_of, quantity_of_group
from eddyline.plan.decide.repeated_links import is_answered_whole_only
from eddyline.plan.layout import PlannedQuery
from eddyline.sample.grouped_join import GroupedJoin
from eddyline.sample.sorting import BoolArray, IntArray
from eddyline.sql.query import ENDS, Aggregate, FormulaPart, GroupColumn, GroupQuery, NamedFormula, Query


@dataclass(frozen=True)
class Answered:
    """What is known of each group: its number, a column of values for each aggregate, and what is missing.

    most_rows: how many rows each group has at most, where they are not known. missing: the share of the join's rows
    that values may hold that are not followed. averages: parts of formulas that are averages, where they are not exact.
    unrounded: parts of formulas by name, where they are. exact_rows: which groups are exact although not all are.
    """

    groups: IntArray
    columns: tuple[Column, ...]
    exact: bool
    whole: bool
    rest: Mapping[str, Estimate]
    method: str
    notes: tuple[str, ...] = ()
    most_rows: FloatArray | None = None
    missing: float = 0.0
    averages: Mapping[FormulaPart, Column] = field(default_factory=dict)
    unrounded: Mapping[str, Sequence[Fraction | None]] = field(default_factory=dict)
    exact_rows: BoolArray | None = None


@dataclass(frozen=True)
class _Groups:
    """Groups with their labels, and the columns of all their aggregates and details; exact_rows: of each group.

    not_held: the names of MIN and MAX that a sample cannot tell, with a note on each.
    """

    answered: Answered
    labels: Mapping[GroupColumn, pa.Array]
    columns: dict[str, Column]
    rest: dict[str, Estimate]
    exact: bool
    negative: int
    exact_rows: BoolArray
    not_held: dict[str, str]


def answer_groups(
    snapshot: Snapshot,
    planned: PlannedQuery,
    query: GroupQuery,
    confidence: float,
    about: Sequence[str],
    *,
    simultaneous: bool = False,
) -> Groups:
    """Return the groups of a query with intervals; simultaneous: wide enough to hold all of them together."""
    read = _read_groups(snapshot, planned, query, confidence, simultaneous=simultaneous)
    answered, labels, columns, rest, exact = read.answered, read.labels, read.columns, read.rest, read.exact
    by_zero, reads = False, {confidence: read}
    for named in query.formulas:
        sure = confidence if exact else of_each(confidence, _unsure_parts(named, read))
        if sure not in reads:
            reads[sure] = _read_groups(snapshot, planned, query, sure, simultaneous=simultaneous)
        parts, known = reads[sure], reads[sure].answered
        column, zero = formula_column(
            named, parts.columns, known.averages, known.unrounded if exact else {}, exact=exact
        )
        columns[named.name], by_zero = column, by_zero or zero
        rest[named.name] = _rest_of_formula(f"{planned.name}.{named.name}", named, rest, confidence)
    if query.formulas:
        told = [*query.selected, *(test.name for test in query.having), *(each.name for each in query.order)]
        columns = {name: column for name, column in columns.items() if name in told}
    if read.not_held and not {*query.selected} & {*query.measures} - read.not_held.keys():
        raise PlanError(f"query {planned.name!r}: {next(iter(read.not_held.values()))}")
    made = _table(query, labels, columns, read.exact_rows)
    table, chosen = select_groups(made, query, whole=answered.whole, rest=rest)
    found = (
        *about,
        *answered.notes,
        *read.not_held.values(),
        *((notes.negative_values(read.negative),) if read.negative else ()),
        *chosen,
    )
    found += (notes.DIVIDED_BY_ZERO,) if by_zero else ()
    return Groups(
        planned.name,
        tuple(name for name in query.selected if name in {g.name for g in query.groups}),
        tuple(name for name in query.selected if name in query.measures),
        table,
        {name: rest[name] for name in query.selected if name in rest},
        confidence,
        "sample" if answered.exact and not exact else answered.method,
        answered.whole and exact,
        found,
    )


def _unsure_parts(named: NamedFormula, read: _Groups) -> int:
    """Return how many parts of a formula are not certain in every group: the others hold anyway."""
    columns = [read.answered.averages.get(part, read.columns[part.name]) for part in named.parts]
    return sum(not pc.all(pc.fill_null(pc.equal(low, high), False)).as_py() for _, low, high in columns)


def _rest_of_formula(
    name: str, named: NamedFormula, rest: Mapping[str, Estimate], confidence: float
) -> Estimate:
    """Return a formula over the groups that are not seen: told where all of its parts are exact there."""
    parts = {each for part in named.parts for each in (part.name, part.over) if each is not None}
    if not all(rest[each].exact for each in parts):
        return Estimate.unknown(name, confidence, "sample", [notes.UNSEEN_DETAIL])
    values = [(each, rest[each].value) for each in parts]
    columns = {each: column_of_values([(value,) * 3]) for each, value in values}
    unrounded = {each: [None if value is None else Fraction(str(value))] for each, value in values}
    (value, *_), _ = formula_column(named, columns, {}, unrounded, exact=True)
    return Estimate.exactly(name, value[0].as_py(), confidence)


def _read_groups(
    snapshot: Snapshot, planned: PlannedQuery, query: GroupQuery, confidence: float, *, simultaneous: bool
) -> _Groups:
    """Return the groups of a query with all their aggregates and details, before formulas, HAVING and LIMIT."""
    assert planned.shape is not None
    held = with_derived(snapshot, planned)
    join = held_join(held, planned)
    names = list(planned.shape.quantities)
    grouped = grouped_join(join, planned, query)
    if join.is_known:
        answered = _everything(grouped, names, planned, query, confidence)
    elif planned.totals and not query.links and not query.groups:
        answered = _counted(held, planned, query, confidence)
    elif planned.totals and not query.links:
        answered = _followed(held, grouped, names, planned, query, confidence)
    else:
        _check_links(planned, query)
        whole_join = WholeJoin(held, planned, grouped, confidence, row_bound(snapshot, query))
        if query.groups:
            answered = _sampled(whole_join, names, query, simultaneous=simultaneous)
        else:
            answered = _one_row(whole_join, query)
    labels = labels_of(grouped, query, answered.groups)
    columns = dict(zip((each.name for each in query.aggregates), answered.columns, strict=True))
    rest, exact = dict(answered.rest), answered.exact
    exact_rows = np.full(len(answered.groups), exact) if answered.exact_rows is None else answered.exact_rows
    negative, not_held = 0, dict[str, str]()
    if query.details:
        rows = rows_of(list(labels.values()), len(answered.groups))
        sure = of_each(confidence, len(rows) * len(query.measures)) if simultaneous else confidence
        for name, read in read_details(
            snapshot,
            planned,
            query,
            rows,
            sure,
            whole=answered.whole,
            most_rows=answered.most_rows,
            missing=answered.missing,
        ).items():
            columns[name], rest[name] = column_of_values(read.values, read.kind), read.rest
            not_held |= {name: read.note} if read.note is not None else {}
            exact &= read.exact
            exact_rows = exact_rows & read.exact
            negative = max(negative, read.negative)
    return _Groups(answered, labels, columns, rest, exact, negative, exact_rows, not_held)


def _table(
    query: GroupQuery,
    labels: Mapping[GroupColumn, pa.Array],
    columns: Mapping[str, Column],
    exact: BoolArray,
) -> pa.Table:
    """Return the groups as a table: group columns and then aggregates, each in the order of the SELECT list."""
    groups = {column.name: values for column, values in labels.items()}
    ordered = {name: groups[name] for name in query.selected if name in groups} | groups
    for name in dict.fromkeys((*(n for n in query.selected if n in columns), *columns)):
        for suffix, part in zip(("", *ENDS), columns[name], strict=True):
            ordered[name + suffix] = part
    ordered[EXACT] = pa.array(exact)
    return pa.table(ordered)


def _exact_rows(
    grouped: GroupedJoin, names: Sequence[str], query: GroupQuery
) -> tuple[IntArray, tuple[Column, ...], dict[str, np.ndarray], int]:
    """Return (groups with rows, their aggregates, their totals by name, how many groups have a negative count)."""
    groups, sums = grouped.exact()
    if not query.groups and len(groups) == 0:
        groups, sums = np.zeros(1, dtype=np.int64), np.zeros((1, len(names)), dtype=np.int64)
    rows = sums[:, list(names).index(ROWS)]
    kept = np.asarray(rows > 0 if query.groups else np.ones(len(groups)), dtype=np.bool_)
    totals = {name: sums[kept, place] for place, name in enumerate(names)}
    rounded = grouped.is_rounded
    columns = tuple(
        exact_column(query.single(each.aggregate), _own(query, i, totals), rounded=rounded)
        for i, each in enumerate(query.aggregates)
    )
    return groups[kept], columns, totals, int((rows < 0).sum())


T = TypeVar("T")


def _own(query: GroupQuery, aggregate: int, totals: Mapping[str, T]) -> dict[str, T]:
    """Return the totals that an aggregate is made of, by what they are to it."""
    function = query.aggregates[aggregate].aggregate.function
    return {name: totals[quantity_of_group(aggregate, name)] for name in powers_of(function)}


def _unrounded(query: GroupQuery, totals: Mapping[str, np.ndarray]) -> dict[str, list[Fraction | None]]:
    """Return the aggregates that formulas are made of in every group, before they are rounded to floats."""
    parts = {name for each in query.formulas for part in each.parts for name in (part.name, part.over)}
    return {
        each.name: unrounded_values(query.single(each.aggregate), _own(query, i, totals))
        for i, each in enumerate(query.aggregates)
        if each.name in parts
    }


def _told(
    planned: PlannedQuery,
    query: GroupQuery,
    aggregate: int,
    totals: Mapping[str, int],
    confidence: float,
    *,
    rounded: bool = False,
) -> Estimate:
    """Return an aggregate from exact totals; rounded: of numbers that were cut off."""
    each = query.aggregates[aggregate]
    single, own = query.single(each.aggregate), _own(query, aggregate, totals)
    rounded = rounded and may_be_cut_off(single)
    return told_exactly(f"{planned.name}.{each.name}", single, own, confidence, rounded=rounded)


def _everything(
    grouped: GroupedJoin, names: Sequence[str], planned: PlannedQuery, query: GroupQuery, confidence: float
) -> Answered:
    """Return the groups while everything is held."""
    groups, columns, totals, negative = _exact_rows(grouped, names, query)
    rest = _nothing(planned, query, confidence)
    about = (notes.negative_groups(negative),) if negative else ()
    if grouped.is_rounded:
        return Answered(groups, columns, False, True, rest, ROUNDED, (*about, notes.TINY_VALUES))
    unrounded = _unrounded(query, totals)
    return Answered(groups, columns, True, True, rest, "exact", about, unrounded=unrounded)


def _counted(snapshot: Snapshot, planned: PlannedQuery, query: GroupQuery, confidence: float) -> Answered:
    """Return the aggregates of one stream without groups, which exact counters hold."""
    totals = {name: snapshot.total(ids[0]) for name, ids in planned.totals.items()}
    rounded = _is_rounded(snapshot, planned)
    found = [
        _told(planned, query, i, totals, confidence, rounded=rounded) for i in range(len(query.aggregates))
    ]
    return Answered(
        np.zeros(1, dtype=np.int64),
        tuple(column_of_values([(each.value, each.low, each.high)]) for each in found),
        not rounded,
        True,
        _nothing(planned, query, confidence),
        ROUNDED if rounded else "exact",
        (notes.TINY_VALUES,) if rounded else (),
        unrounded=_unrounded(query, {name: np.array([each], object) for name, each in totals.items()}),
    )


def _is_rounded(snapshot: Snapshot, planned: PlannedQuery) -> bool:
    """Return whether an exact total of a query is of numbers that were cut off."""
    return any(snapshot.is_rounded(each) for ids in planned.totals.values() for each in ids)


def _nothing(planned: PlannedQuery, query: GroupQuery, confidence: float) -> dict[str, Estimate]:
    """Return the aggregates over groups that are not shown where there are none."""
    totals = {
        quantity_of_group(i, name): 0
        for i, each in enumerate(query.aggregates)
        for name in powers_of(each.aggregate.function)
    }
    return {
        each.name: _told(planned, query, i, totals, confidence) for i, each in enumerate(query.aggregates)
    }


def _followed(
    snapshot: Snapshot,
    grouped: GroupedJoin,
    names: Sequence[str],
    planned: PlannedQuery,
    query: GroupQuery,
    confidence: float,
) -> Answered:
    """Return the groups of one stream that are followed, each exact; the others together are the exact rest."""
    groups, columns, totals, negative = _exact_rows(grouped, names, query)
    left = {name: snapshot.total(planned.totals[name][0]) - sum(totals[name].tolist()) for name in names}
    rounded = _is_rounded(snapshot, planned)
    rest = {
        each.name: _told(planned, query, i, left, confidence, rounded=rounded)
        for i, each in enumerate(query.aggregates)
    }
    about = [notes.negative_groups(negative)] if negative else []
    about.append(notes.groups_not_followed(len(groups), left[ROWS]))
    about += [notes.TINY_VALUES] if rounded else []
    most = totals[ROWS].astype(np.float64)
    unrounded = _unrounded(query, totals)
    made = Answered(
        groups, columns, not rounded, False, rest, "followed", tuple(about), most, unrounded=unrounded
    )
    null = grouped.codes[0].nulls[0][grouped.part(0, groups)] if len(query.groups) == 1 else np.False_
    if not np.any(null) or not grouped.join.samples_null:
        return made
    place = int(np.flatnonzero(null)[0])
    left = {name: left[name] + totals[name][place] for name in names}
    sampled = SampledGroups(grouped, list(names), [False], (0.0, 0.0))
    return _with_sampled_null(made, place, left, sampled, planned, query, confidence)


def _with_sampled_null(
    made: Answered,
    place: int,
    left: Mapping[str, int],
    sampled: SampledGroups,
    planned: PlannedQuery,
    query: GroupQuery,
    confidence: float,
) -> Answered:
    """Return the groups of one stream, of which the one of NULL, at some place, is sampled row by row.

    left: the exact totals of that group and of all that are not shown, together.
    """
    asked = []
    for i, each in enumerate(query.aggregates):
        own = {name: quantity_of_group(i, name) for name in powers_of(each.aggregate.function)}
        asked.append(GroupAggregate(each.aggregate.function, own))
    rows = GroupAggregate("count", {"count": ROWS})
    *read, counted = sampled.read([*asked, rows], confidence)
    shown = sampled.groups == made.groups[place]
    at = int(np.flatnonzero(shown)[0])
    columns: list[Column] = []
    rest: dict[str, Estimate] = {}
    for i, (each, found, column) in enumerate(zip(query.aggregates, read, made.columns, strict=True)):
        function, single = each.aggregate.function, query.single(each.aggregate)
        quantities, about = asked[i].quantities, f"{planned.name}.{each.name}"
        rest[each.name] = Estimate(
            about, None, None, None, confidence, "sample", notes=(notes.UNSEEN_AVERAGE,)
        )
        capped = found
        if asked[i].is_sum:
            exact, positive = float(left[quantities[function]]), sampled.least is not None
            capped = _within_left(found, at, exact, positive=positive)
            ends = [exact - float(part[at]) for part in (capped.values, capped.highs, capped.lows)]
            unseen = Interval(*(max(end, 0.0) if positive else end for end in ends)).scaled(unit_of(single))
            rest[each.name] = _rest(about, unseen, function, confidence, max(exact, 0.0))
        none = sampled.sums[quantities["count"]] <= 0 if function != "count" else ~shown
        cell = sampled_column(capped, function, unit_of(single), shown, none)
        cell = widened_column(single, cell, counted.highs[shown])
        value, low, high = (_with_cell(old, place, new[0]) for old, new in zip(column, cell, strict=True))
        columns.append((value, low, high))
    assert made.most_rows is not None
    most = made.most_rows.copy()
    most[place] = counted.highs[at]
    exact_rows = np.full(len(made.groups), made.exact)
    exact_rows[place] = False
    return replace(
        made,
        columns=tuple(columns),
        exact=False,
        rest=rest,
        notes=(*made.notes, notes.NULL_GROUP_SAMPLED),
        most_rows=most,
        unrounded={},
        exact_rows=exact_rows,
    )


def _within_left(found: GroupIntervals, at: int, left: float, *, positive: bool) -> GroupIntervals:
    """Return intervals of groups in which one is no larger than what exact totals leave, where nothing is negative."""
    if not positive:
        return found
    values, lows, highs = (each.copy() for each in (found.values, found.lows, found.highs))
    for each in (values, lows, highs):
        each[at] = min(each[at], left)
    return GroupIntervals(values, lows, highs)


def _with_cell(column: pa.Array, place: int, value: pa.Scalar) -> pa.Array:
    """Return a column with another value at one place, as floats where the value is not an integer."""
    kind = column.type if value.type == column.type or not value.is_valid else pa.float64()
    parts = [
        column.slice(0, place).cast(kind),
        pa.array([value.as_py()], kind),
        column.slice(place + 1).cast(kind),
    ]
    return pa.concat_arrays(parts)


def _check_links(planned: PlannedQuery, query: GroupQuery) -> None:
    """Raise PlanError where a value is sampled once and stands in two links, and what it adds is not known then."""
    assert planned.shape is not None
    what = "groups" if query.groups else "has conditions between the relations of"
    if is_answered_whole_only(query, planned.shape):
        raise PlanError(
            f"query {planned.name!r} {what} a join in which one column stands in two links; its rows no longer fit the "
            "stream sample, and of such a query they are all needed: plan with a larger budget."
        )


def _one_row(whole_join: WholeJoin, query: GroupQuery) -> Answered:
    """Return the aggregates of a join without groups, with intervals: each as one of its own."""
    confidence = whole_join.confidence
    rows = whole_join.read("count", {"count": ROWS})
    columns: list[Column] = []
    heavy_tail = False
    for place, each in enumerate(query.aggregates):
        function = each.aggregate.function
        own = {power: quantity_of_group(place, power) for power in powers_of(function)}
        found = whole_join.read(function, own)
        heavy_tail |= found.heavy_tail
        single = query.single(each.aggregate)
        interval = Interval(found.value, found.low, found.high).scaled(unit_of(single))
        interval = widened(single, interval, most_rows(whole_join.snapshot, single))
        made = told(whole_join.planned, single, interval, confidence, "sample", [])
        made = within_rows(single, made, whole_join.most)
        value = (made.value, made.low, made.high) if made.known else not_known(is_number=True)
        columns.append(column_of_values([value]))
    averages = {}
    for part in query.averages:
        found = whole_join.read("avg", _average_of(query, part))
        heavy_tail |= found.heavy_tail
        single = _averaged(query, part)
        interval = Interval(found.value, found.low, found.high).scaled(unit_of(single))
        interval = widened(single, interval, most_rows(whole_join.snapshot, single))
        average = (interval.value, interval.low, interval.high)
        averages[part] = column_of_values([not_known(is_number=True) if isnan(average[0]) else average])
    about = notes.few_joined_values(rows.witnesses, rows.base)
    about += [notes.NO_ROWS_SEEN] if rows.witnesses == 0 else []
    about += [notes.HEAVY_VALUE_MISSED] if whole_join.misses_much else []
    about += [notes.HEAVY_TAIL] if heavy_tail else []
    rest = _nothing(whole_join.planned, query, confidence)
    most = np.array([min(rows.high, whole_join.most)])
    group = np.zeros(1, dtype=np.int64)
    missing = whole_join.missing_share
    return Answered(group, tuple(columns), False, True, rest, "sample", tuple(about), most, missing, averages)


def _average_of(query: GroupQuery, part: FormulaPart) -> dict[str, str]:
    """Return the quantities that an average in a formula is made of."""
    place = {each.name: i for i, each in enumerate(query.aggregates)}
    assert part.over is not None
    function = query.aggregates[place[part.name]].aggregate.function
    return {
        "sum": quantity_of_group(place[part.name], function),
        "count": quantity_of_group(place[part.over], "count"),
    }


def _averaged(query: GroupQuery, part: FormulaPart) -> Query:
    """Return the query of an average in a formula, as far as its unit goes."""
    over = next(each.aggregate for each in query.aggregates if each.name == part.name)
    return query.single(Aggregate("avg", over.factors))


def _sampled(whole_join: WholeJoin, names: list[str], query: GroupQuery, *, simultaneous: bool) -> Answered:
    """Return the groups of a join that the sample shows, with intervals."""
    planned, confidence = whole_join.planned, whole_join.confidence
    sampled = SampledGroups(
        whole_join.grouped, names, own_links(query, whole_join.grouped), whole_join.missed.surprises
    )
    shown = sampled.sums[ROWS] > 0
    compared = int(shown.sum()) * len(query.measures)
    sure = of_each(confidence, compared) if simultaneous else confidence
    asked = [_asked(whole_join, query, i) for i in range(len(query.aggregates))]
    rows = GroupAggregate("count", {"count": ROWS}, _ends(whole_join.read("count", {"count": ROWS})))
    quotients = [_average_of(query, part) for part in query.averages]
    asked += [
        (GroupAggregate("avg", own, differences=whole_join.differences(own)), None) for own in quotients
    ]
    *read, counted = sampled.read([*(each for each, _ in asked), rows], sure)
    tails = [
        isinstance(planned, AdHocQuery)
        and not each.is_sum
        and whole_join.read(each.function, each.quantities).heavy_tail
        for each, _ in asked
    ]
    read = [
        replace(each, highs=np.full_like(each.highs, inf)) if heavy else each
        for each, heavy in zip(read, tails, strict=True)
    ]
    missed = whole_join.misses_much
    unseen_rows = whole_join.missed.rows
    read = [
        _open_to_missing(
            each,
            whole,
            unseen_rows / np.maximum(sampled.sums[wanted.quantities["count"]], 1.0),
            missed=missed,
            least=-inf if wanted.function == "avg" else 0.0,
        )
        for each, (wanted, whole) in zip(read, asked, strict=True)
    ]
    counted = _open_to_missing(counted, whole_join.read("count", {"count": ROWS}), np.empty(0), missed=missed)
    most = whole_join.most
    read = [
        _at_most(each, most) if wanted.function == "count" else each
        for each, (wanted, _) in zip(read, asked, strict=True)
    ]
    counted = _at_most(counted, most)
    columns, rest, averages = [], {}, {}
    for part, quotient, found in zip(query.averages, quotients, read[len(query.aggregates) :], strict=True):
        single = _averaged(query, part)
        column = sampled_column(found, "avg", unit_of(single), shown, sampled.sums[quotient["count"]] <= 0)
        averages[part] = widened_column(single, column, counted.highs[shown])
    for each, (wanted, whole), found in zip(query.aggregates, asked, read, strict=False):
        function, own = wanted.function, wanted.quantities
        single = query.single(each.aggregate)
        unit, about = unit_of(single), f"{planned.name}.{each.name}"
        none = sampled.sums[own["count"]] <= 0 if function != "count" else ~shown
        column = sampled_column(found, function, unit, shown, none)
        columns.append(widened_column(single, column, counted.highs[shown]))
        rest[each.name] = Estimate.unknown(about, confidence, "sample", [notes.UNSEEN_AVERAGE])
        if whole is not None:
            unseen = rest_of_sum(sampled, own[function], found, shown, whole, confidence, missed=missed)
            unseen = widened(single, unseen.scaled(unit), most_rows(whole_join.snapshot, single))
            rest[each.name] = _rest(about, unseen, function, confidence, most)
    few = notes.few_joined_values(sampled.witnesses, sampled.base)
    few += [notes.HEAVY_VALUE_MISSED] if missed else []
    few += [notes.HEAVY_TAIL] if any(tails) else []
    few += [notes.NULL_GROUP_LEFT_OUT] if sampled.leaves_null_out else []
    groups, exact, unrounded = sampled.groups[shown], sampled.whole_groups, {}
    if exact:
        groups, known, totals, _ = _exact_rows(whole_join.grouped, names, query)
        whole_groups = np.isin(groups, sampled.groups[shown])  # the group of NULL may be left out
        groups, totals = groups[whole_groups], {name: each[whole_groups] for name, each in totals.items()}
        mask = pa.array(whole_groups)
        columns = [(value.filter(mask), low.filter(mask), high.filter(mask)) for value, low, high in known]
        unrounded = _unrounded(query, totals)
        exact = not whole_join.grouped.is_rounded
    return Answered(
        groups,
        tuple(columns),
        exact,
        False,
        rest,
        "sample",
        tuple(few),
        counted.highs[shown],
        whole_join.missing_share,
        averages,
        unrounded,
    )


def _asked(
    whole_join: WholeJoin, query: GroupQuery, place: int
) -> tuple[GroupAggregate, SampleEstimate | None]:
    """Return an aggregate as the sample is asked for it, and COUNT or SUM over all groups."""
    function = query.aggregates[place].aggregate.function
    own = {name: quantity_of_group(place, name) for name in powers_of(function)}
    if function not in ("count", "sum"):
        differences = whole_join.differences(own) if function == "avg" else 0.0
        return GroupAggregate(function, own, differences=differences), None
    whole = whole_join.read(function, {function: own[function]})
    return GroupAggregate(function, own, _ends(whole)), whole


def _at_most(read: GroupIntervals, most: float) -> GroupIntervals:
    """Return the numbers of rows of groups, none of which has more than all have."""
    return GroupIntervals(*(np.minimum(each, most) for each in (read.values, read.lows, read.highs)))


def _open_to_missing(
    read: GroupIntervals,
    whole: SampleEstimate | None,
    unseen: FloatArray,
    *,
    missed: bool,
    least: float = -inf,
) -> GroupIntervals:
    """Return the intervals of groups, each of which may hold what the whole join is missing.

    whole: of COUNT and SUM, over all groups. unseen: of ratios, the missing rows over those of each group. Where the
    whole join may be missing most of its rows, ratios may be anything from `least` on.
    """
    if whole is not None:
        return replace(read, lows=read.lows - whole.missing[0], highs=read.highs + whole.missing[1])
    if missed:
        return replace(read, lows=np.full_like(read.lows, least), highs=np.full_like(read.highs, inf))
    with np.errstate(invalid="ignore"):
        below, above = (
            np.sqrt(1.0 + unseen) * each for each in (read.values - read.lows, read.highs - read.values)
        )
    return replace(read, lows=np.maximum(read.values - below, least), highs=read.values + above)


def _ends(whole: SampleEstimate) -> tuple[float, float]:
    return whole.low, whole.high


def _rest(name: str, unseen: Interval, function: str, confidence: float, most: float) -> Estimate:
    """Return COUNT or SUM over the groups that are not seen; most: the rows that there are at most."""
    value, low, high = unseen
    if function == "count":
        value, low, high = (min(max(each, 0.0), most) for each in unseen)
        value, low, high = round(value), floor(low), ceil(high) if high < inf else inf
    return Estimate(name, value, low, high, confidence, "sample")
