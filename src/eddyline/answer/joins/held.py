"""A query over the stream sample that answers it, and whether the sample can."""

from eddyline.errors import PlanError
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.decide.ad_hoc import AdHocQuery
from eddyline.plan.decide.facets import EVERY_ROW
from eddyline.plan.layout import PlannedQuery
from eddyline.sample.join import Join
from eddyline.sample.spec import Shape


def held_join(snapshot: Snapshot, planned: PlannedQuery, shape: Shape | None = None) -> Join:
    """Return a query over its sample; shape: some of its quantities, all of them by default.

    Raises PlanError where the sample no longer holds everything that the query needs: see `Shape.has_deep_sides`,
    `Shape.groups_missing_keys` and `Join.may_be_empty`.
    """
    assert planned.sample is not None
    assert planned.shape is not None
    shape = planned.shape if shape is None else shape
    join = Join(snapshot.samples[planned.sample], shape, _filled(snapshot, planned))
    if not join.follows_all and shape.has_deep_sides:
        why, what = "is itself a join", "plan with a larger budget"
        if isinstance(planned, AdHocQuery):
            why, what = "is held for a join on other columns, too", "add the query to the workload"
        raise PlanError(
            f"query {planned.name!r} has an outer, semi or anti join whose optional side {why}; its rows no longer fit "
            f"the stream sample, and such a side is answered only while they do: {what}."
        )
    if not join.follows_all and shape.groups_missing_keys:
        raise PlanError(
            f"query {planned.name!r} groups by the join column of a side that may be missing; its rows no longer fit "
            "the stream sample, and such groups are answered only while they do: group by the other side's column, or "
            "plan with a larger budget."
        )
    if not join.follows_all and join.may_be_empty and planned.totals.keys() <= {EVERY_ROW}:
        raise PlanError(
            f"query {planned.name!r}: the stream sample shows no row of the subquery of NOT IN, and whether it has any "
            "decides what becomes of NULL: add the query to the workload, so that its rows are counted, and build the "
            "state anew."
        )
    if join.may_have_null:
        raise PlanError(
            f"query {planned.name!r}: the stream sample shows no NULL in the subquery of NOT IN, whose NULLs no longer "
            "all fit it, and a single one would leave no row: plan with a larger budget, or write NOT EXISTS."
        )
    return join


def _filled(snapshot: Snapshot, planned: PlannedQuery) -> frozenset[int]:
    """Return the relations whose exact totals say that they have rows; those of EVERY_ROW are without predicates."""
    assert planned.shape is not None
    found = set()
    quantities = {name: each for name, each in planned.shape.quantities.items() if name != EVERY_ROW}
    for name, quantity in quantities.items():
        for index, (node, total) in enumerate(
            zip(quantity.nodes, planned.totals.get(name, ()), strict=False)
        ):
            if "not in" in node.roles and snapshot.total(total) > 0:
                found.add(index)
    return frozenset(found)
