"""The planner: streams and queries to a layout within the budget. Equal demands share one synopsis."""

import hashlib
from collections.abc import Iterable, Sequence

import msgspec

from eddyline.plan.demands import Demand, Method, terms_of
from eddyline.plan.layout import Kept, Layout, Planned, Stream
from eddyline.plan.specs import Settings, candidates_for, share_words, spec_for
from eddyline.sql.query import AnyQuery

SKIMMING: frozenset[Method] = frozenset({"skimmed", "skimmed-paper"})


class Asked(msgspec.Struct, frozen=True):
    """A named query of the workload and the method that is to answer it."""

    name: str
    query: AnyQuery
    method: Method = "skimmed"


def make_layout(
    streams: Sequence[Stream], asked: Iterable[Asked], settings: Settings, samples: Iterable[Demand] = ()
) -> Layout:
    """Return the layout of a workload: never over budget, the same whatever the order of the queries."""
    queries = sorted(asked, key=lambda each: each.name)
    demands = {Demand(stream.name, "total") for stream in streams} | set(samples)
    skimmed: set[Demand] = set()
    for each in queries:
        wanted = {demand for term in terms_of(each.query, each.method).values() for demand in term}
        demands |= wanted
        if each.method in SKIMMING:
            skimmed |= wanted
    ordered = sorted(demands, key=msgspec.json.encode)
    shares = share_words(ordered, settings)
    kept = tuple(_kept(demand, shares[demand], settings, skim=demand in skimmed) for demand in ordered)
    planned = tuple(_planned(each) for each in queries)
    by_name = tuple(sorted(streams, key=lambda stream: stream.name))
    return Layout(settings.seed, settings.confidence, by_name, kept, planned)


def _planned(asked: Asked) -> Planned:
    terms = {
        name: tuple(identifier(demand) for demand in demands)
        for name, demands in terms_of(asked.query, asked.method).items()
    }
    return Planned(asked.name, asked.query, asked.method, terms)


def identifier(demand: Demand) -> str:
    """Return the id of a demand's synopsis: by content, so that it survives other queries coming and going."""
    return f"{demand.stream}-{hashlib.blake2b(msgspec.json.encode(demand), digest_size=4).hexdigest()}"


def _kept(demand: Demand, words: int, settings: Settings, *, skim: bool) -> Kept:
    candidates = candidates_for(words, settings) if skim and demand.family == "hash" else None
    if candidates is not None:
        words -= candidates.words
    return Kept(
        id=identifier(demand),
        stream=demand.stream,
        spec=spec_for(demand, words, settings),
        keys=demand.keys,
        predicates=demand.predicates,
        measure=demand.measure,
        presence=demand.presence,
        sample=demand.sample,
        candidates=candidates,
    )
