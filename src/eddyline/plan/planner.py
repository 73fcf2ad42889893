"""The planner: streams and queries to a layout within the budget. Equal demands share one synopsis."""

from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from eddyline.plan.demands import Method, demands_of, terms_of
from eddyline.plan.layout import Demand, Kept, Layout, Planned, Stream, Term
from eddyline.plan.specs import Settings, candidates_for, share_words, spec_for
from eddyline.sql.query import AnyQuery

SKIMMING: frozenset[Method] = frozenset({"skimmed", "skimmed-paper"})


class Asked(msgspec.Struct, frozen=True):
    """A named query of the workload and the method that is to answer it."""

    name: str
    query: AnyQuery
    method: Method = "skimmed"


def make_layout(
    streams: Sequence[Stream],
    asked: Iterable[Asked],
    settings: Settings,
    samples: Iterable[Demand] = (),
    keep: Layout | None = None,
) -> Layout:
    """Return the layout of a workload: never over budget, the same whatever the order of the queries.

    keep: a layout whose synopses stay as they are, where they are still asked for; new ones share what is
    left of the budget.
    """
    queries = sorted(asked, key=lambda each: each.name)
    demands = {Demand(stream.name, "total") for stream in streams} | set(samples)
    skimmed: set[Demand] = set()
    for each in queries:
        wanted = demands_of(each.query, each.method)
        demands |= wanted
        if each.method in SKIMMING:
            skimmed |= wanted
    ordered = sorted(demands, key=msgspec.json.encode)
    held = _held(keep, demands, settings)
    rest = replace(settings, budget=max(settings.budget - sum(each.nbytes for each in held.values()), 0))
    shares = share_words([demand for demand in ordered if demand not in held], rest)
    kept = tuple(
        held[demand] if demand in held else _kept(demand, shares[demand], settings, skim=demand in skimmed)
        for demand in ordered
    )
    planned = tuple(_planned(each) for each in queries)
    by_name = tuple(sorted(streams, key=lambda stream: stream.name))
    return Layout(settings.seed, settings.confidence, by_name, kept, planned)


def _held(keep: Layout | None, demands: set[Demand], settings: Settings) -> dict[Demand, Kept]:
    """Return the synopses of an older layout that stay: those still asked for, if the seed is the same."""
    if keep is None or keep.seed != settings.seed:
        return {}
    return {kept.demand: kept for kept in keep.kept if kept.demand in demands}


def _planned(asked: Asked) -> Planned:
    terms = {
        name: Term((_ids(term.sketches),), _ids(term.samples))
        for name, term in terms_of(asked.query, asked.method).items()
    }
    return Planned(asked.name, asked.query, asked.method, terms)


def _ids(demands: tuple[Demand, ...]) -> tuple[str, ...]:
    return tuple(demand.id for demand in demands)


def _kept(demand: Demand, words: int, settings: Settings, *, skim: bool) -> Kept:
    candidates = candidates_for(demand, words, settings) if skim and demand.family == "hash" else None
    if candidates is not None:
        words -= candidates.words
    return Kept(demand.id, demand, spec_for(demand, words, settings), candidates)
