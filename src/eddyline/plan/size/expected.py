"""Expected errors: how the relative variance of a query falls with the words of its synopses.

The variance of a sketched join is about the product of the self-join sizes over the words of a sketch; relative
to the square of the join size that is W / words, and W is the query's weight. Without statistics a join counts
as one that is as concentrated as a self-join. Paper: sharing, W_Q = 8 Var[X_Q] / E[X_Q]^2.
"""

from collections.abc import Mapping, Sequence
from math import prod

import msgspec

from eddyline.plan.demands import QuantityDemands, links_of
from eddyline.plan.layout import Demand
from eddyline.plan.statistics import RelationStatistics, Statistics
from eddyline.sketch.distinct import DistinctSpec
from eddyline.sketch.join_distinct import JoinDistinctSpec
from eddyline.sql.query import AnyQuery, JoinDistinctQuery, Query, SetQuery

FAVOURABLE = 2.0
"""The weight of a join that is as concentrated as a self-join: the row variance is then 2 J^2 / width."""
_DEPTH_SHARE = 1.2  # rows and buckets that do not fill the words
_PROBE = 0.05  # a standard error at which kinds with sizes in steps are weighed


def sketch_weight(
    query: AnyQuery, quantities: Mapping[str, QuantityDemands], statistics: Statistics, most: int
) -> float:
    """Return W of a query: its relative variance by sketches, times their words."""
    if isinstance(query, SetQuery):
        return DistinctSpec.for_error(most, _PROBE, 0, share=0.5).words * _PROBE**2
    if isinstance(query, JoinDistinctQuery):
        return JoinDistinctSpec.for_error(_PROBE, most, 0).words * _PROBE**2
    if not query.links:
        return FAVOURABLE
    known = [_quantity_weight(query, name, quantity, statistics) for name, quantity in quantities.items()]
    return max((each for each in known if each is not None), default=FAVOURABLE)


def _quantity_weight(
    query: Query, name: str, quantity: QuantityDemands, statistics: Statistics
) -> float | None:
    size = quantity_size(query, name, quantity, statistics)
    found = [statistics.relation(demand) for demand in relations_of(quantity)]
    if not size or any(each is None for each in found):
        return None
    # atomic sketches of several links repeat pairs of rows in their products: measured, figures/sharing.py
    crossed = 2.0 ** (len(query.links) - 1) if quantity.parts[0][0].kind == "agms" else 1.0
    return crossed * _DEPTH_SHARE * prod(each.self_join for each in found if each is not None) / size**2


def quantity_size(query: Query, name: str, quantity: QuantityDemands, statistics: Statistics) -> float | None:
    """Return the size of a quantity: as measured, else as totals and numbers of values make it likely; None if unknown.

    The likely size is the product of the relations' totals over, for each link, the numbers of values of all its
    relations but the smallest: values spread evenly, those of the smaller side among those of the larger.
    """
    measured = statistics.size(query, name)
    if measured:
        return measured
    known = [statistics.relation(demand) for demand in relations_of(quantity)]
    totals = [each.total if each is not None else None for each in known]
    if any(total is None for total in totals) or not _counted(known, relations_of(quantity)):
        return None
    return _likely_size(query, known, [total for total in totals if total is not None])


def _counted(known: Sequence[RelationStatistics | None], relations: Sequence[Demand]) -> bool:
    """Return whether the values of every key of every relation are counted."""
    return all(
        each is not None and len(each.distinct) == len(demand.keys)
        for each, demand in zip(known, relations, strict=True)
    )


def _likely_size(query: Query, known: Sequence[RelationStatistics | None], totals: Sequence[float]) -> float:
    values: dict[int, list[float]] = {}
    for index, each in enumerate(known):
        for link, distinct in zip(
            links_of(query, index), each.distinct if each is not None else (), strict=True
        ):
            values.setdefault(link, []).append(max(distinct, 1.0))
    return prod(totals) / prod(prod(sorted(each)[1:]) for each in values.values())


def relations_of(quantity: QuantityDemands) -> tuple[Demand, ...]:
    """Return a demand for each relation of a quantity, without the cuts of its parts."""
    if len(quantity.parts) == 1:
        return quantity.parts[0]
    common = [
        set.intersection(*(set(demand.predicates) for demand in each))
        for each in zip(*quantity.parts, strict=True)
    ]
    return tuple(
        msgspec.structs.replace(demand, predicates=tuple(sorted(shared)))
        for demand, shared in zip(quantity.parts[0], common, strict=True)
    )
