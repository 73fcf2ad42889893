"""The planner: streams and queries to a layout within the budget.

Equal demands share one synopsis, and all sketches of a plan share one shape and one hash function, so
that any two of them can be joined: a query that is asked later is covered whenever its parts are.
"""

import hashlib
from collections.abc import Iterable, Sequence

import msgspec

from eddyline.errors import PlanError
from eddyline.plan.demands import Demand, Method, terms_of
from eddyline.plan.layout import Kept, Layout, Planned, Stream
from eddyline.plan.sizing import HINT_SHARE, MIN_DEPTH, MIN_WIDTH, shape_for
from eddyline.sketch.agms import AgmsSpec
from eddyline.sketch.candidates import CandidateSpec
from eddyline.sketch.families import Family, derive_seed
from eddyline.sketch.hash_sketch import HashSketchSpec
from eddyline.sketch.synopsis import Spec
from eddyline.sketch.total import TotalSpec
from eddyline.sql.query import Query

SKIMMING: frozenset[Method] = frozenset({"skimmed", "skimmed-paper"})
SMALLEST_SKETCH = 8 * MIN_DEPTH * MIN_WIDTH * HINT_SHARE // (HINT_SHARE - 1)


class Asked(msgspec.Struct, frozen=True):
    """A named query of the workload and the method that is to answer it."""

    name: str
    query: Query
    method: Method = "skimmed"


def make_layout(
    streams: Sequence[Stream],
    asked: Iterable[Asked],
    budget: int,
    seed: int,
    confidence: float,
    hash_family: Family = "mix",
) -> Layout:
    """Return the layout of a workload: never over budget, the same whatever the order of the queries."""
    queries = sorted(asked, key=lambda each: each.name)
    demands = {Demand(stream.name, "total") for stream in streams}
    skimmed: set[Demand] = set()
    for each in queries:
        wanted = {demand for term in terms_of(each.query, each.method).values() for demand in term}
        demands |= wanted
        if each.method in SKIMMING:
            skimmed |= wanted
    ordered = sorted(demands, key=msgspec.json.encode)
    share = _share(ordered, budget)
    kept = tuple(_kept(demand, share, seed, hash_family, skim=demand in skimmed) for demand in ordered)
    planned = tuple(_planned(each) for each in queries)
    return Layout(seed, confidence, tuple(sorted(streams, key=lambda s: s.name)), kept, planned)


def _planned(asked: Asked) -> Planned:
    terms = {
        name: tuple(_identifier(demand) for demand in demands)
        for name, demands in terms_of(asked.query, asked.method).items()
    }
    return Planned(asked.name, asked.query, asked.method, terms)


def _identifier(demand: Demand) -> str:
    """Return the id of a demand's synopsis: by content, so that it survives other queries coming and going."""
    return f"{demand.stream}-{hashlib.blake2b(msgspec.json.encode(demand), digest_size=4).hexdigest()}"


def _share(demands: list[Demand], budget: int) -> int:
    """Return the words that each sketch may take."""
    sketches = sum(demand.family != "total" for demand in demands)
    fixed = 8 * (len(demands) - sketches)
    needed = fixed + sketches * SMALLEST_SKETCH
    if needed > budget:
        raise PlanError(
            f"the workload keeps {sketches} sketches and {len(demands) - sketches} exact counters, which takes at "
            f"least {needed:,} bytes, and the budget is {budget:,}: raise it to that or drop queries."
        )
    return (budget - fixed) // 8 // sketches if sketches else 0


def _kept(demand: Demand, share: int, seed: int, family: Family, *, skim: bool) -> Kept:
    candidates = None
    if skim and demand.family == "hash":
        candidates = CandidateSpec.within(share // HINT_SHARE, derive_seed(seed, "candidates"))
        share -= candidates.words
    return Kept(
        id=_identifier(demand),
        stream=demand.stream,
        spec=_spec(demand, share, seed, family),
        keys=demand.keys,
        predicates=demand.predicates,
        measure=demand.measure,
        presence=demand.presence,
        candidates=candidates,
    )


def _spec(demand: Demand, share: int, seed: int, family: Family) -> Spec:
    if demand.family == "total":
        return TotalSpec()
    width, depth = shape_for(share)
    seeds = tuple(derive_seed(seed, "edge", index) for index in range(len(demand.keys)))
    if demand.family == "agms":
        return AgmsSpec(share // MIN_DEPTH, MIN_DEPTH, seeds)
    return HashSketchSpec(width, depth, seeds, family)
