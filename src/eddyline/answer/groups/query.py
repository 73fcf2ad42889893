"""GROUP BY queries: chooses the reading that answers, and builds the resulting table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf, isnan
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.aggregates.moments import Moment
from eddyline.answer import notes
from eddyline.answer.ad_hoc import with_derived
from eddyline.answer.aggregates import ROUNDED, estimate_of, exact_estimate, row_bound, unit_of, within_rows
from eddyline.answer.estimate import Estimate, may_be_cut_off, most_rows, widened
from eddyline.answer.groups.columns import (
    Answered,
    Column,
    column_of_values,
    exact_column,
    labels_of,
    not_known,
    rows_of,
    sampled_column,
    unrounded_values,
    widened_column,
)
from eddyline.answer.groups.details import read_details
from eddyline.answer.groups.formulas import formula_column
from eddyline.answer.groups.heavy import with_heavy_groups
from eddyline.answer.groups.sampled import (
    GroupAggregate,
    GroupIntervals,
    SampledGroups,
    own_links,
    rest_estimate,
    rest_of_sum,
)
from eddyline.answer.groups.selection import select_groups
from eddyline.answer.groups.table import EXACT, Groups
from eddyline.answer.groups.tuples import grouped_join
from eddyline.answer.groups.whole import WholeJoin
from eddyline.answer.interval import FloatArray, Interval, of_each, tail_share
from eddyline.answer.joins.late import SAMPLE, late_keys
from eddyline.answer.joins.sampled import held_join
from eddyline.answer.joins.sampled_ratios import SampleEstimate
from eddyline.errors import PlanError
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.decide.ad_hoc import AdHocQuery
from eddyline.plan.decide.facets import ROWS, quantity_of_group
from eddyline.plan.decide.shapes import is_answered_whole_only
from eddyline.plan.layout import PlannedQuery
from eddyline.sample.grouped_join import GroupedJoin
from eddyline.sample.packing import BoolArray, IntArray
from eddyline.sql.query import ENDS, Aggregate, FormulaPart, GroupColumn, NamedFormula, Query


@dataclass(frozen=True)
class _Groups:
    """Groups with labels and the columns of all their aggregates and details; exact_rows: for each group.

    not_held: the names of MIN and MAX that a sample cannot answer, with a note on each.
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
    query: Query,
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
        wanted = [
            *query.selected,
            *(test.name for test in query.having),
            *(each.name for each in query.order),
        ]
        columns = {name: column for name, column in columns.items() if name in wanted}
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
        SAMPLE if answered.exact and not exact else answered.method,
        answered.whole and exact,
        found,
    )


def _unsure_parts(named: NamedFormula, read: _Groups) -> int:
    """Return how many parts of a formula are uncertain in some group: the others always hold."""
    columns = [read.answered.averages.get(part, read.columns[part.name]) for part in named.parts]
    return sum(not pc.all(pc.fill_null(pc.equal(low, high), False)).as_py() for _, low, high in columns)


def _rest_of_formula(
    name: str, named: NamedFormula, rest: Mapping[str, Estimate], confidence: float
) -> Estimate:
    """Return a formula over the unseen groups: known where all of its parts are exact there."""
    parts = {each for part in named.parts for each in (part.name, part.over) if each is not None}
    if not all(rest[each].exact for each in parts):
        return Estimate.unknown(name, confidence, "sample", [notes.UNSEEN_DETAIL])
    values = [(each, rest[each].value) for each in parts]
    columns = {each: column_of_values([(value,) * 3]) for each, value in values}
    unrounded = {each: [None if value is None else Fraction(str(value))] for each, value in values}
    (value, *_), _ = formula_column(named, columns, {}, unrounded, exact=True)
    return Estimate.exactly(name, value[0].as_py(), confidence)


def _read_groups(
    snapshot: Snapshot, planned: PlannedQuery, query: Query, confidence: float, *, simultaneous: bool
) -> _Groups:
    """Return the groups of a query with all their aggregates and details, before formulas, HAVING and LIMIT."""
    assert planned.shape is not None
    held = with_derived(snapshot, planned)
    join = held_join(held, planned)
    late = late_keys(held, planned, join)
    join = join if late is None else late.join
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
        whole_join = WholeJoin(held, planned, grouped, confidence, row_bound(snapshot, query), late)
        if query.groups:
            answered = _sampled(whole_join, names, query, simultaneous=simultaneous)
        else:
            answered = _one_row(whole_join, query)
    labels = labels_of(grouped, query, answered.groups)
    if answered.found:
        labels = {column: pa.concat_arrays([each, answered.found[column]]) for column, each in labels.items()}
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
    query: Query,
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
    grouped: GroupedJoin, names: Sequence[str], query: Query
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
        exact_column(each.aggregate, _own(query, i, totals), rounded=rounded)
        for i, each in enumerate(query.aggregates)
    )
    return groups[kept], columns, totals, int((rows < 0).sum())


T = TypeVar("T")


def _own(query: Query, aggregate: int, totals: Mapping[str, T]) -> dict[str, T]:
    """Return the totals that an aggregate is made of, by their role in it."""
    sums = query.aggregates[aggregate].aggregate.moment.sums
    return {name: totals[quantity_of_group(aggregate, name)] for name in sums}


def _unrounded(query: Query, totals: Mapping[str, np.ndarray]) -> dict[str, list[Fraction | None]]:
    """Return the aggregates used by formulas in every group, before they are rounded to floats."""
    parts = {name for each in query.formulas for part in each.parts for name in (part.name, part.over)}
    return {
        each.name: unrounded_values(each.aggregate, _own(query, i, totals))
        for i, each in enumerate(query.aggregates)
        if each.name in parts
    }


def _exact_estimate(
    planned: PlannedQuery,
    query: Query,
    aggregate: int,
    totals: Mapping[str, int],
    confidence: float,
    *,
    rounded: bool = False,
) -> Estimate:
    """Return an aggregate from exact totals; rounded: digits of some numbers were cut off."""
    each = query.aggregates[aggregate]
    single, own = each.aggregate, _own(query, aggregate, totals)
    rounded = rounded and may_be_cut_off(single)
    return exact_estimate(f"{planned.name}.{each.name}", single, own, confidence, rounded=rounded)


def _everything(
    grouped: GroupedJoin, names: Sequence[str], planned: PlannedQuery, query: Query, confidence: float
) -> Answered:
    """Return the groups while everything is held."""
    groups, columns, totals, negative = _exact_rows(grouped, names, query)
    rest = _nothing(planned, query, confidence)
    about = (notes.negative_groups(negative),) if negative else ()
    if grouped.is_rounded:
        return Answered(groups, columns, False, True, rest, ROUNDED, (*about, notes.TINY_VALUES))
    unrounded = _unrounded(query, totals)
    return Answered(groups, columns, True, True, rest, "exact", about, unrounded=unrounded)


def _counted(snapshot: Snapshot, planned: PlannedQuery, query: Query, confidence: float) -> Answered:
    """Return the aggregates of one stream without groups, which exact counters hold."""
    totals = {name: snapshot.total(ids[0]) for name, ids in planned.totals.items()}
    rounded = _is_rounded(snapshot, planned)
    found = [
        _exact_estimate(planned, query, i, totals, confidence, rounded=rounded)
        for i in range(len(query.aggregates))
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
    """Return whether digits of numbers in an exact total of a query were cut off."""
    return any(snapshot.is_rounded(each) for ids in planned.totals.values() for each in ids)


def _nothing(planned: PlannedQuery, query: Query, confidence: float) -> dict[str, Estimate]:
    """Return the aggregates over unshown groups where there are no such groups."""
    totals = {
        quantity_of_group(i, name): 0
        for i, each in enumerate(query.aggregates)
        for name in each.aggregate.moment.sums
    }
    return {
        each.name: _exact_estimate(planned, query, i, totals, confidence)
        for i, each in enumerate(query.aggregates)
    }


def _followed(
    snapshot: Snapshot,
    grouped: GroupedJoin,
    names: Sequence[str],
    planned: PlannedQuery,
    query: Query,
    confidence: float,
) -> Answered:
    """Return the followed groups of one stream, each exact; the others together are the exact rest."""
    groups, columns, totals, negative = _exact_rows(grouped, names, query)
    left = {name: snapshot.total(planned.totals[name][0]) - sum(totals[name].tolist()) for name in names}
    rounded = _is_rounded(snapshot, planned)
    rest = {
        each.name: _exact_estimate(planned, query, i, left, confidence, rounded=rounded)
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
    if np.any(null) and grouped.join.samples_null:
        place = int(np.flatnonzero(null)[0])
        left = {name: left[name] + totals[name][place] for name in names}
        sampled = SampledGroups(grouped, list(names), [False], (0.0, 0.0))
        made = _with_sampled_null(made, place, left, sampled, planned, query, confidence)
    return with_heavy_groups(made, snapshot, planned, query, left, confidence)


def _with_sampled_null(
    made: Answered,
    place: int,
    left: Mapping[str, int],
    sampled: SampledGroups,
    planned: PlannedQuery,
    query: Query,
    confidence: float,
) -> Answered:
    """Return the groups of one stream, where the NULL group, at `place`, is sampled row by row.

    left: the exact totals over that group and all groups that are not shown.
    """
    asked = []
    for i, each in enumerate(query.aggregates):
        own = {name: quantity_of_group(i, name) for name in each.aggregate.moment.sums}
        asked.append(GroupAggregate(each.aggregate.function, own))
    rows = GroupAggregate("count", {"count": ROWS})
    *read, counted = sampled.read([*asked, rows], confidence)
    shown = sampled.groups == made.groups[place]
    at = int(np.flatnonzero(shown)[0])
    columns: list[Column] = []
    rest: dict[str, Estimate] = {}
    for i, (each, found, column) in enumerate(zip(query.aggregates, read, made.columns, strict=True)):
        function, single = each.aggregate.function, each.aggregate
        quantities, about = asked[i].quantities, f"{planned.name}.{each.name}"
        rest[each.name] = Estimate(
            about, None, None, None, confidence, "sample", notes=(notes.UNSEEN_AVERAGE,)
        )
        capped = found
        if asked[i].is_sum:
            exact, positive = float(left[quantities[function]]), sampled.least is not None
            positive |= single.moment.is_count and bool(np.all(sampled.sums[quantities["count"]] >= 0))
            capped = _within_left(found, at, exact, positive=positive)
            ends = [exact - float(part[at]) for part in (capped.values, capped.highs, capped.lows)]
            unseen = Interval(*(max(end, 0.0) if positive else end for end in ends)).scaled(unit_of(single))
            rest[each.name] = rest_estimate(about, unseen, function, confidence, max(exact, 0.0))
        none = ~shown if each.aggregate.moment.is_count else sampled.sums[quantities["count"]] <= 0
        cell = sampled_column(capped, each.aggregate.moment, unit_of(single), shown, none)
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
    """Return intervals of groups, with that of one group cut at what exact totals leave, if no measure is negative."""
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


def _check_links(planned: PlannedQuery, query: Query) -> None:
    """Raise PlanError where a value is sampled once and occurs in two links, as what it adds is unknown then."""
    assert planned.shape is not None
    what = "groups" if query.groups else "has conditions between the relations of"
    if is_answered_whole_only(query, planned.shape):
        raise PlanError(
            f"query {planned.name!r} {what} a join that uses one column in two links. Such a query needs all rows, "
            "and they no longer fit the stream sample: plan with a larger budget."
        )


def _one_row(whole_join: WholeJoin, query: Query) -> Answered:
    """Return the aggregates of a join without groups, with intervals: each is read separately."""
    confidence = whole_join.confidence
    rows = whole_join.read("count", {"count": ROWS})
    columns: list[Column] = []
    heavy_tail = False
    for place, each in enumerate(query.aggregates):
        function = each.aggregate.function
        own = {power: quantity_of_group(place, power) for power in each.aggregate.moment.sums}
        found = whole_join.read(function, own)
        heavy_tail |= found.heavy_tail
        single = each.aggregate
        interval = Interval(found.value, found.low, found.high).scaled(unit_of(single))
        interval = widened(single, interval, most_rows(whole_join.snapshot, query))
        made = estimate_of(whole_join.planned, single, interval, confidence, whole_join.method, [])
        made = within_rows(made, whole_join.most) if single.moment.is_count else made
        value = (made.value, made.low, made.high) if made.known else not_known(is_number=True)
        columns.append(column_of_values([value]))
    averages = {}
    for part in query.averages:
        found = whole_join.read("avg", _average_of(query, part))
        heavy_tail |= found.heavy_tail
        single = _averaged(query, part)
        interval = Interval(found.value, found.low, found.high).scaled(unit_of(single))
        interval = widened(single, interval, most_rows(whole_join.snapshot, query))
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
    method = whole_join.method
    return Answered(group, tuple(columns), False, True, rest, method, tuple(about), most, missing, averages)


def _average_of(query: Query, part: FormulaPart) -> dict[str, str]:
    """Return the quantities that an average in a formula is made of."""
    place = {each.name: i for i, each in enumerate(query.aggregates)}
    assert part.over is not None
    function = query.aggregates[place[part.name]].aggregate.function
    return {
        "sum": quantity_of_group(place[part.name], function),
        "count": quantity_of_group(place[part.over], "count"),
    }


def _averaged(query: Query, part: FormulaPart) -> Aggregate:
    """Return an average in a formula, of which only the unit is used."""
    over = next(each.aggregate for each in query.aggregates if each.name == part.name)
    return Aggregate("avg", over.factors)


def _sampled(whole_join: WholeJoin, names: list[str], query: Query, *, simultaneous: bool) -> Answered:
    """Return the groups of a join that the sample shows, with intervals."""
    planned, confidence = whole_join.planned, whole_join.confidence
    surprises = whole_join.missed.surprises
    asked = [_asked(whole_join, query, i) for i in range(len(query.aggregates))]
    rows = GroupAggregate("count", {"count": ROWS}, _ends(whole_join.read("count", {"count": ROWS})))
    quotients = [_average_of(query, part) for part in query.averages]
    asked += [
        (GroupAggregate("avg", own, differences=whole_join.differences("avg", own)), None)
        for own in quotients
    ]
    # the whole join is read before its groups, so that what both need is not held at the same time
    sampled = SampledGroups(whole_join.grouped, names, own_links(query, whole_join.grouped), surprises)
    shown = sampled.sums[ROWS] > 0
    compared = int(shown.sum()) * len(query.measures)
    sure = of_each(confidence, compared) if simultaneous else confidence
    *read, counted = sampled.read([*(each for each, _ in asked), rows], sure)
    wholes = [whole_join.read(each.function, each.quantities) for each, _ in asked]
    if isinstance(planned, AdHocQuery):
        read = [
            _open_to_tails(each, whole, sampled.sums[ROWS], wanted.moment)
            for each, (wanted, _), whole in zip(read, asked, wholes, strict=True)
        ]
    missed = whole_join.misses_much
    unseen_rows = whole_join.missed.rows
    read = [
        _open_to_missing(
            each,
            whole,
            unseen_rows / np.maximum(sampled.sums[wanted.quantities["count"]], 1.0),
            missed=missed,
            least=wanted.moment.least,
            most=wanted.moment.most,
        )
        for each, (wanted, whole) in zip(read, asked, strict=True)
    ]
    counted = _open_to_missing(counted, whole_join.read("count", {"count": ROWS}), np.empty(0), missed=missed)
    most = whole_join.most
    read = [
        _at_most(each, most) if wanted.moment.is_count else each
        for each, (wanted, _) in zip(read, asked, strict=True)
    ]
    counted = _at_most(counted, most)
    columns, rest, averages = [], {}, {}
    for part, quotient, found in zip(query.averages, quotients, read[len(query.aggregates) :], strict=True):
        single = _averaged(query, part)
        column = sampled_column(
            found, single.moment, unit_of(single), shown, sampled.sums[quotient["count"]] <= 0
        )
        averages[part] = widened_column(single, column, counted.highs[shown])
    for each, (wanted, whole), found in zip(query.aggregates, asked, read, strict=False):
        function, own = wanted.function, wanted.quantities
        single = each.aggregate
        unit, about = unit_of(single), f"{planned.name}.{each.name}"
        none = ~shown if wanted.moment.is_count else sampled.sums[own["count"]] <= 0
        column = sampled_column(found, wanted.moment, unit, shown, none)
        columns.append(widened_column(single, column, counted.highs[shown]))
        rest[each.name] = Estimate.unknown(about, confidence, "sample", [notes.UNSEEN_AVERAGE])
        if whole is not None:
            unseen = rest_of_sum(sampled, own[function], found, shown, whole, confidence, missed=missed)
            unseen = widened(single, unseen.scaled(unit), most_rows(whole_join.snapshot, query))
            rest[each.name] = rest_estimate(about, unseen, function, confidence, most)
    few = notes.few_joined_values(sampled.witnesses, sampled.base)
    few += [notes.HEAVY_VALUE_MISSED] if missed else []
    few += [notes.HEAVY_TAIL] if _is_heavy(planned, wholes) else []
    few += [notes.NULL_GROUP_LEFT_OUT] if sampled.leaves_null_out else []
    groups, exact, unrounded = sampled.groups[shown], sampled.whole_groups, {}
    if exact:
        groups, known, totals, _ = _exact_rows(whole_join.grouped, names, query)
        whole_groups = np.isin(groups, sampled.groups[shown])  # the NULL group may be left out
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
        whole_join.method,
        tuple(few),
        counted.highs[shown],
        whole_join.missing_share,
        averages,
        unrounded,
    )


def _asked(whole_join: WholeJoin, query: Query, place: int) -> tuple[GroupAggregate, SampleEstimate | None]:
    """Return the request for an aggregate of the sample, and COUNT or SUM over all groups."""
    aggregate = query.aggregates[place].aggregate
    function, moment = aggregate.function, aggregate.moment
    own = {name: quantity_of_group(place, name) for name in moment.sums}
    if not moment.is_sum:
        return GroupAggregate(function, own, differences=whole_join.differences(function, own)), None
    whole = whole_join.read(function, own)
    return GroupAggregate(function, own, _ends(whole)), whole


def _at_most(read: GroupIntervals, most: float) -> GroupIntervals:
    """Return the numbers of rows of groups, each limited to that of all groups."""
    return GroupIntervals(*(np.minimum(each, most) for each in (read.values, read.lows, read.highs)))


def _is_heavy(planned: PlannedQuery, wholes: Sequence[SampleEstimate]) -> bool:
    """Return whether an aggregate has no bound as the largest values carry it; planned ones have exact totals."""
    return isinstance(planned, AdHocQuery) and any(each.heavy_tail for each in wholes)


def _open_to_tails(
    read: GroupIntervals, whole: SampleEstimate, rows: FloatArray, moment: Moment
) -> GroupIntervals:
    """Return intervals of groups that allow for values larger than all held ones, as the whole join's does.

    rows: those of each group, which give its share of the unseen values.
    """
    if not any(whole.tails):
        return read
    if (
        moment.degree > 1
    ):  # the variance of squares and higher powers is margin enough, unless the largest values carry them
        return replace(read, highs=np.full_like(read.highs, moment.most)) if whole.heavy_tail else read
    share = np.maximum(rows, 1.0) / max(float(rows.sum()), 1.0)
    part = tail_share(share) if moment.is_sum else tail_share(share) / share
    below, above = (each * part for each in whole.tails)
    return replace(
        read,
        lows=np.minimum(read.lows, read.values - below),
        highs=np.maximum(read.highs, read.values + above),
    )


def _open_to_missing(
    read: GroupIntervals,
    whole: SampleEstimate | None,
    unseen: FloatArray,
    *,
    missed: bool,
    least: float = -inf,
    most: float = inf,
) -> GroupIntervals:
    """Return the intervals of groups, where each group may hold what the whole join is missing.

    whole: COUNT and SUM over all groups. unseen: for ratios, the missing rows over those of each group. Where the
    whole join may be missing most of its rows, ratios may be anything from `least` to `most`.
    """
    if whole is not None:
        return replace(read, lows=read.lows - whole.missing[0], highs=read.highs + whole.missing[1])
    if missed:
        return replace(read, lows=np.full_like(read.lows, least), highs=np.full_like(read.highs, most))
    with np.errstate(invalid="ignore"):
        below, above = (
            np.sqrt(1.0 + unseen) * each for each in (read.values - read.lows, read.highs - read.values)
        )
    lows, highs = np.maximum(read.values - below, least), np.minimum(read.values + above, most)
    return replace(read, lows=lows, highs=highs)


def _ends(whole: SampleEstimate) -> tuple[float, float]:
    return whole.low, whole.high
