"""Answers: from a snapshot and a planned query to an estimate. Each kind of query has a folder beside this file."""

from dataclasses import replace

from eddyline.answer import notes
from eddyline.answer.ad_hoc import with_derived
from eddyline.answer.aggregates import told_exactly
from eddyline.answer.bounds import row_bound, within_rows
from eddyline.answer.distinct_joins.query import answer_distinct_join
from eddyline.answer.estimate import Estimate
from eddyline.answer.groups.query import answer_groups
from eddyline.answer.groups.table import Groups
from eddyline.answer.joins.query import answer_join
from eddyline.answer.second_stage import in_second_stage
from eddyline.answer.sets.query import answer_set
from eddyline.answer.unseen_deletes import noted_deletes
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.decide.ad_hoc import AdHocQuery
from eddyline.plan.layout import PlannedQuery
from eddyline.sql.literals import double_quoted_columns, quoted_column_note
from eddyline.sql.query import GroupQuery, JoinDistinctQuery, Query, SetQuery


def answer(
    snapshot: Snapshot, planned: PlannedQuery, confidence: float, *, simultaneous: bool = False
) -> Estimate | Groups:
    """Return the estimate of a planned query at a confidence, or the groups of a GROUP BY query."""
    about = [*_double_quotes(snapshot, planned), *_unseen_deletes(snapshot, planned)]
    if isinstance(planned, AdHocQuery):
        about = [notes.NOT_PLANNED, *about]
    if isinstance(planned.query, GroupQuery):
        groups = answer_groups(snapshot, planned, planned.query, confidence, about, simultaneous=simultaneous)
        single = not planned.query.groups and len(planned.query.selected) == 1
        return groups.only_estimate() if single else groups
    estimate = _estimate(with_derived(snapshot, planned), planned, confidence, about)
    if not estimate.exact:
        estimate = within_rows(planned.query, estimate, row_bound(snapshot, planned.query))
    if isinstance(planned, AdHocQuery) and _is_sampled_variance(planned, estimate):
        estimate = replace(estimate, notes=(*estimate.notes, notes.FEW_LARGE_VALUES))
    wanted = snapshot.layout.error
    if wanted is None or estimate.value is None or estimate.relative_error <= wanted:
        return estimate
    return replace(estimate, notes=(*estimate.notes, notes.error_not_reached(wanted)))


def _is_sampled_variance(planned: PlannedQuery, estimate: Estimate) -> bool:
    query = planned.query
    return (
        isinstance(query, Query)
        and not estimate.exact
        and notes.HEAVY_TAIL not in estimate.notes
        and query.aggregate.function.startswith(("var", "stddev"))
    )


def _estimate(snapshot: Snapshot, planned: PlannedQuery, confidence: float, about: list[str]) -> Estimate:
    query = planned.query
    assert not isinstance(query, GroupQuery)
    if planned.sample is None:
        snapshot = _with_sketches(snapshot, planned)
    if isinstance(query, SetQuery):
        return answer_set(snapshot, planned, query, confidence, about)
    if isinstance(query, JoinDistinctQuery):
        return answer_distinct_join(snapshot, planned, query, confidence, about)
    if query.links or planned.sample is not None:
        return answer_join(snapshot, planned, query, confidence, about)
    return _one_stream(snapshot, planned, query, confidence, about)


def _with_sketches(snapshot: Snapshot, planned: PlannedQuery) -> Snapshot:
    """Return the snapshot with the sketches that a query reads, built where they stand beside an exact sample."""
    for sample in snapshot.layout.samples:
        if any(kept.id in planned.ids for kept in sample.sketches):
            snapshot = in_second_stage(snapshot, sample.id)
    return snapshot


def _one_stream(
    snapshot: Snapshot, planned: PlannedQuery, query: Query, confidence: float, about: list[str]
) -> Estimate:
    """Return an aggregate over one stream, which exact counters hold."""
    ids = {name: quantity.sketches[0][0] for name, quantity in planned.quantities.items()}
    totals = {name: snapshot.total(each) for name, each in ids.items()}
    rounded = any(map(snapshot.is_rounded, ids.values()))
    return told_exactly(planned.name, query, totals, confidence, about, rounded=rounded)


def _double_quotes(snapshot: Snapshot, planned: PlannedQuery) -> list[str]:
    """Return a note for each column whose name the query has in double quotes, as a literal."""
    columns = [each for stream in planned.streams for each in snapshot.layout.stream(stream).columns]
    return [quoted_column_note(name) for name in double_quoted_columns(planned.query.text, columns)]


def _unseen_deletes(snapshot: Snapshot, planned: PlannedQuery) -> list[str]:
    """Return a note for each stream of which rows were deleted that never came."""
    return [note for stream in planned.streams if (note := noted_deletes(snapshot, stream)) is not None]
