"""The planner: streams and queries to a layout within the budget.

First each query is given its choices (hash families by what it can share, key samples, parts), which say what is
kept; then the budget is shared out over everything that is kept. Equal demands share one synopsis.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import prod

import msgspec
from msgspec.structs import replace

from eddyline.errors import PlanError
from eddyline.plan.allocation import Bundle, Reader, share_words
from eddyline.plan.choices import balanced, choose, query_weights, with_samples, without_samples
from eddyline.plan.demands import Asked, Choice, TermDemands, demands_of, links_of, terms_of
from eddyline.plan.expected import Balance, sampling_of, words_to_hold
from eddyline.plan.layout import Demand, Kept, Layout, Planned, Stream, Term
from eddyline.plan.sharing.coalesce import Objective
from eddyline.plan.specs import Sampled, Settings, candidates_for, least_words, spec_for
from eddyline.plan.statistics import Statistics
from eddyline.sketch.hash_sketch import HashSketchSpec
from eddyline.sql.query import Query

SKIMMING = frozenset({"skimmed", "skimmed-paper"})
_EXACT_WEIGHT = 1e-6
_EXACT_SHARES = 4


class Known(msgspec.Struct, frozen=True):
    """What the planner goes by beside the queries: statistics, which error is to be least, and whether every join
    keeps key samples, for an analysis.
    """  # noqa: D205

    statistics: Statistics = Statistics()
    objective: Objective = "average"
    sample_all: bool = False


def make_layout(
    streams: Sequence[Stream],
    asked: Iterable[Asked],
    settings: Settings,
    samples: Iterable[Demand] = (),
    keep: Layout | None = None,
    known: Known = Known(),  # noqa: B008 - a frozen value
) -> Layout:
    """Return the layout of a workload: never over budget, the same whatever the order of the queries.

    keep: a layout whose synopses stay as they are, where they are still asked for; new ones share what is
    left of the budget.
    """
    queries = sorted(asked, key=lambda each: each.name)
    old = keep if keep is not None and keep.seed == settings.seed else None
    _check_keep(old, settings)
    choices = choose(queries, settings, known.statistics, known.objective, old)
    if known.sample_all:
        choices = with_samples(queries, choices)
    fixed = {Demand(stream.name, "total") for stream in streams} | set(samples)
    try:
        kept = _kept(queries, choices, fixed, settings, old, known)
    except PlanError:
        fresh = {each.name for each in queries} - _names(old)
        if not any(choices[name].sampled for name in fresh):
            raise
        choices = without_samples(choices, fresh)
        kept = _kept(queries, choices, fixed, settings, old, known)
    planned = tuple(_planned(each, choices[each.name]) for each in queries)
    by_name = tuple(sorted(streams, key=lambda stream: stream.name))
    return Layout(settings.seed, settings.confidence, by_name, kept, planned)


def _names(layout: Layout | None) -> set[str]:
    return {each.name for each in layout.queries} if layout is not None else set()


def _check_keep(old: Layout | None, settings: Settings) -> None:
    """Raise PlanError where what is to stay cannot: it hashes otherwise than new synopses would."""
    hashes = {kept.spec.hash for kept in old.kept if isinstance(kept.spec, HashSketchSpec)} if old else set()
    if hashes - {settings.hash}:
        raise PlanError(
            f"the plan to keep hashes by {', '.join(sorted(hashes))} and this workload by {settings.hash}: give "
            f"Workload(hash={min(hashes)!r})."
        )


def _kept(
    queries: Sequence[Asked],
    choices: Mapping[str, Choice],
    fixed: set[Demand],
    settings: Settings,
    old: Layout | None,
    known: Known,
) -> tuple[Kept, ...]:
    """Return every synopsis with its spec, those of the old layout as they are."""
    demands = set(fixed)
    skimmed: set[Demand] = set()
    for each in queries:
        wanted = demands_of(each.query, each.method, choices[each.name])
        demands |= wanted
        skimmed |= wanted if each.method in SKIMMING else set()
    held = {kept.demand: kept for kept in old.kept if kept.demand in demands} if old is not None else {}
    taken = sum(each.nbytes for each in held.values())
    if taken > settings.budget:
        raise PlanError(
            f"what is to stay takes {taken:,} bytes and the budget is {settings.budget:,}: raise it, or plan anew."
        )
    rest = replace(settings, budget=settings.budget - taken)
    counted = fixed | {demand for demand in demands if demand.family == "total"}
    sized = {demand: least_words(demand, settings) for demand in counted - held.keys()}
    sized |= _whole_samples(queries, choices, known.statistics, rest.budget // 8, len(demands))
    sized = {demand: words for demand, words in sized.items() if demand not in held}
    readers = _readers(queries, choices, held.keys() | sized.keys(), known, settings)
    shares = share_words(readers, sized, rest, known.objective)
    sampled = _sampled(queries, choices, shares, known.statistics)
    sampled |= {d: _whole(d, known.statistics) for d in sized if d.family == "key-sample"}
    made = {
        demand: _synopsis(demand, words, settings, sampled.get(demand), skim=demand in skimmed)
        for demand, words in shares.items()
    }
    return tuple((held | made)[demand] for demand in sorted(demands, key=msgspec.json.encode))


def _whole_samples(
    queries: Sequence[Asked], choices: Mapping[str, Choice], statistics: Statistics, words: int, demands: int
) -> dict[Demand, int]:
    """Return the key samples that hold all of their relation, and their words.

    A relation that fits an equal share of the budget is held; and a query all of whose relations fit four times
    that, cheapest first while half the budget lasts, because it is then exact.
    """
    share = words // max(demands, 1)
    found: dict[Demand, int] = {}
    wanted: list[tuple[int, str, dict[Demand, int]]] = []
    for each in queries:
        terms = terms_of(each.query, each.method, choices[each.name]).values()
        needs = {demand: words_to_hold(demand, statistics) for term in terms for demand in term.samples}
        known = {demand: need for demand, need in needs.items() if need is not None}
        found |= {demand: need for demand, need in known.items() if need <= share}
        if known and len(known) == len(needs) and sum(known.values()) <= _EXACT_SHARES * share * len(known):
            wanted.append((sum(known.values()), each.name, known))
    for _, _, known in sorted(wanted, key=lambda item: item[:2]):
        if sum((found | known).values()) <= words // 2:
            found |= known
    return found


def _readers(
    queries: Sequence[Asked],
    choices: Mapping[str, Choice],
    held: Iterable[Demand],
    known: Known,
    settings: Settings,
) -> list[Reader]:
    """Return the queries as readers of bundles: what each relation keeps, without what has its size already.

    A query whose samples hold all of its relations is exact, and its sketches matter little.
    """
    have = set(held)
    balances = _balances(queries, choices, known.statistics, settings)
    splits = _splits(queries, choices, balances)
    readers = []
    for each in queries:
        bundles: dict[Bundle, None] = {}
        for term in terms_of(each.query, each.method, choices[each.name]).values():
            for index in range(len(term.parts[0])):
                members = _members(term, index, choices[each.name], splits)
                left = tuple((demand, share) for demand, share in members if demand not in have)
                if left and left[0][0].family != "total":
                    bundles[Bundle(left)] = None
        if bundles:
            terms = terms_of(each.query, each.method, choices[each.name]).values()
            whole = all(term.samples and have.issuperset(term.samples) for term in terms)
            weight = each.weight * balances[each.name].weight * (_EXACT_WEIGHT if whole else 1.0)
            readers.append(Reader(each.name, weight, tuple(bundles)))
    return readers


def _members(
    term: TermDemands, index: int, choice: Choice, splits: Mapping[Demand, float]
) -> list[tuple[Demand, float]]:
    """Return the synopses of one relation with their words per unit of size: its parts, and its sample."""
    parts: dict[Demand, float] = {}
    for row, share in zip(term.parts, choice.shares, strict=True):
        parts[row[index]] = max(parts.get(row[index], 0.0), share)
    sample = [(term.samples[index], splits[term.samples[index]])] if term.samples else []
    return [*parts.items(), *sample]


def _balances(
    queries: Sequence[Asked], choices: Mapping[str, Choice], statistics: Statistics, settings: Settings
) -> dict[str, Balance]:
    """Return how sketches and samples of each query share memory, seen from an equal share of the budget."""
    weights = query_weights(queries, statistics, settings)
    synopses = {
        demand for each in queries for demand in demands_of(each.query, each.method, choices[each.name])
    }
    words = settings.budget // 8 // max(len(synopses), 1)
    return {
        each.name: balanced(each.query, each.method, weights[each.name], statistics, words)
        if isinstance(each.query, Query) and choices[each.name].sampled
        else Balance(0.0, weights[each.name])
        for each in queries
    }


def _splits(
    queries: Sequence[Asked], choices: Mapping[str, Choice], balances: Mapping[str, Balance]
) -> dict[Demand, float]:
    """Return for each key sample its words per word of the sketch beside it, the most that any query asks."""
    found: dict[Demand, float] = {}
    for each in queries:
        for term in terms_of(each.query, each.method, choices[each.name]).values():
            for demand in term.samples:
                found[demand] = max(found.get(demand, 0.0), balances[each.name].split)
    return found


def _sampled(
    queries: Sequence[Asked],
    choices: Mapping[str, Choice],
    shares: Mapping[Demand, int],
    statistics: Statistics,
) -> dict[Demand, Sampled]:
    """Return how each key sample is taken, where statistics say: by the highest rates that any query asks.

    Each query's rates fit the sample; a join cuts it to the lowest rate of its relations.
    """
    found: dict[Demand, Sampled] = {}
    for each in queries:
        query = each.query
        if not isinstance(query, Query) or not choices[each.name].sampled:
            continue
        for name, term in terms_of(query, each.method, choices[each.name]).items():
            words = [shares.get(demand, 0) for demand in term.samples]
            sampling = sampling_of(query, name, term, statistics, words)
            if sampling is None or not all(words):
                continue
            for index, demand in enumerate(term.samples):
                relation = statistics.relation(demand)
                assert relation is not None
                rates = tuple(sampling.rates[link] for link in links_of(query, index))
                found[demand] = _raised(found.get(demand), rates, relation.elements)
    return found


def _whole(demand: Demand, statistics: Statistics) -> Sampled:
    """Return how a sample that holds all of its relation is taken."""
    relation = statistics.relation(demand)
    assert relation is not None
    return Sampled((1.0,) * len(demand.keys), relation.elements)


def _raised(old: Sampled | None, rates: tuple[float, ...], elements: float) -> Sampled:
    highest = rates if old is None else tuple(map(max, old.rates, rates))
    return Sampled(highest, elements * prod(highest))


def _planned(asked: Asked, choice: Choice) -> Planned:
    terms = {
        name: Term(tuple(_ids(part) for part in term.parts), _ids(term.samples))
        for name, term in terms_of(asked.query, asked.method, choice).items()
    }
    return Planned(asked.name, asked.query, asked.method, terms)


def _ids(demands: tuple[Demand, ...]) -> tuple[str, ...]:
    return tuple(demand.id for demand in demands)


def _synopsis(demand: Demand, words: int, settings: Settings, sampled: Sampled | None, *, skim: bool) -> Kept:
    candidates = candidates_for(demand, words, settings) if skim and demand.family == "hash" else None
    if candidates is not None:
        words -= candidates.words
    return Kept(demand.id, demand, spec_for(demand, words, settings, sampled), candidates)
