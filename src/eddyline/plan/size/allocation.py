"""Words for every synopsis of a workload, so that the average or the largest error is least."""

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

import msgspec
from msgspec.structs import replace

from eddyline.errors import PlanError
from eddyline.plan.demands import DecidedQuery, QuantityDemands
from eddyline.plan.layout import Demand, KeptSynopsis, Layout, PlannedQuery, SketchedQuantity
from eddyline.plan.sharing import join_graph as graphs
from eddyline.plan.sharing.coalesce import Objective, allocate
from eddyline.plan.size.specs import (
    HINT_SHARE,
    STEPPED,
    OverBudget,
    PlanSettings,
    candidates_for,
    least_words,
    spec_for,
    step_words,
    words_per_size,
)
from eddyline.sketch.synopsis import Spec

# Words for every synopsis so that the largest expected error is least, then the next largest, and so on.
#
# The squared error of a query is its weight over the size of its smallest bundle. For one bound on the
# errors of all queries, the required sizes are known, and so is the least bound that the memory allows.
# At that bound the error of some query cannot be lowered further: mostly a query whose synopses come in
# steps, the next of which does not fit. It keeps its size, and the bound of the others is lowered further;
# so a query that cannot gain takes nothing from those that can.
#
# Paper: sharing, paragraphs 0082 and 0083. Deviation: they stop at the largest error, and do not consider
# synopses in steps.


_ROUNDS = 60  # halvings of the bound's logarithm: accurate to about 1e-12 of it
_LOWER = 1e-6  # how much lower a bound is tried for a single query
_LOWEST, _HIGHEST = 1e-18, 1e18
_ROUNDING = 1e-9  # relative: sizes closer than this are equal

Steps = Callable[[Demand], Sequence[int] | None]
"""The sizes in which a synopsis comes, ascending; None if any size is possible."""


class Bundled(Protocol):
    """Synopses that are sized together, with their words per unit of size."""

    @property
    def members(self) -> tuple[tuple[Demand, float], ...]:
        """The synopses, each with its words per unit of size."""


class Weighted(Protocol):
    """A query: its weight and what it reads."""

    @property
    def weight(self) -> float:
        """Its squared error times the size of its smallest bundle."""

    @property
    def bundles(self) -> Sequence[Bundled]:
        """What it reads."""


def minimise_errors_in_turn(
    readers: Sequence[Weighted], least: Mapping[Demand, int], words: int, steps: Steps
) -> dict[Demand, int]:
    """Return the words of every demand, at most `words` together: the largest error least, then the next.

    least: the least that each demand takes; together no more than `words`.
    """
    sizes = {demand: float(size) for demand, size in least.items()}
    active = list(readers)
    while active:
        bound = _least_bound(active, sizes, words, steps)
        for each in _stuck(active, sizes, bound, words, steps):
            sizes = _raised_to_bound(sizes, [each], bound, steps)
            active.remove(each)
    return {demand: int(size) for demand, size in sizes.items()}


def _stuck(
    readers: Sequence[Weighted], sizes: Mapping[Demand, float], bound: float, words: int, steps: Steps
) -> list[Weighted]:
    """Return the readers, at least one, whose error cannot be lowered below the bound that all of them reach.

    If each could be lowered alone, but not all together, it is the one that would take most.
    """
    reached = _raised_to_bound(sizes, readers, bound, steps)
    lower = bound * (1 - _LOWER)
    taken = [_total(_raised_to_bound(reached, [each], lower, steps)) for each in readers]
    found = [
        each
        for each, total in zip(readers, taken, strict=True)
        if total > words or _at_its_largest(each, lower, steps)
    ]
    return found or [readers[max(range(len(readers)), key=lambda index: taken[index])]]


def _at_its_largest(reader: Weighted, bound: float, steps: Steps) -> bool:
    """Return whether a reader would need a synopsis larger than the largest possible one."""
    for bundle in reader.bundles:
        for demand, share in bundle.members:
            offered = steps(demand)
            if offered is not None and share * reader.weight / bound > offered[-1]:
                return True
    return False


def _least_bound(
    readers: Sequence[Weighted], sizes: Mapping[Demand, float], words: int, steps: Steps
) -> float:
    """Return the least squared error that all readers can have together, given the sizes that are fixed."""
    low, high = _LOWEST, _HIGHEST
    for _ in range(_ROUNDS):
        middle = (low * high) ** 0.5
        if _total(_raised_to_bound(sizes, readers, middle, steps)) <= words:
            high = middle
        else:
            low = middle
    return high


def _raised_to_bound(
    sizes: Mapping[Demand, float], readers: Sequence[Weighted], bound: float, steps: Steps
) -> dict[Demand, float]:
    """Return the sizes, raised if a reader needs more for its squared error to be within the bound."""
    out = dict(sizes)
    for reader in readers:
        for bundle in reader.bundles:
            for demand, share in bundle.members:
                if demand in out:
                    wanted = _next_step(share * reader.weight / bound, steps(demand))
                    out[demand] = max(out[demand], wanted)
    return out


def _next_step(size: float, steps: Sequence[int] | None) -> float:
    """Return the first step of at least this size; otherwise the last step, which is the best possible."""
    if steps is None:
        return size
    return float(steps[min(bisect_left(steps, size), len(steps) - 1)])


def _total(sizes: Mapping[Demand, float]) -> float:
    return sum(sizes.values())


# Words for every synopsis of a workload, so that the average or the largest error is least.
#
# Exact counters and requested samples take what they need. Everything else takes part in one optimization
# (Paper: sharing, ComputeSpace; the largest error has its own, above): a relation of a query is a vertex, and
# its sketch, or the sketches of its parts, are the vertex's words. What would be smaller than its kind can be
# gets the least, and the rest is optimized again without it; kinds that come in steps leave what they do not
# use to the join sketches.


class Bundle(msgspec.Struct, frozen=True):
    """The synopses of one relation of a query that are sized together: each with its words per unit of size."""

    members: tuple[tuple[Demand, float], ...]

    @property
    def cost(self) -> float:
        """The words of all of them per unit of size."""
        return sum(share for _, share in self.members)


class BundleReader(msgspec.Struct, frozen=True):
    """A query: its weight and the bundles that it reads."""

    name: str
    weight: float
    bundles: tuple[Bundle, ...]


def share_words(
    readers: Sequence[BundleReader],
    own: Mapping[Demand, int],
    settings: PlanSettings,
    objective: Objective = "average",
) -> dict[Demand, int]:
    """Return the words of every demand, in all at most the budget; own: demands that already have a size."""
    wanted = {
        demand for reader in readers for bundle in reader.bundles for demand, _ in bundle.members
    } - own.keys()
    least = {demand: least_words(demand, settings) for demand in sorted(wanted, key=msgspec.json.encode)}
    left = settings.budget // 8 - sum(own.values())
    if sum(least.values()) > left:
        needed = 8 * (sum(least.values()) + sum(own.values()))
        raise OverBudget(
            f"the workload keeps {len(least) + len(own)} synopses, which take at least {needed:,} bytes, and "
            f"the budget is {settings.budget:,}: raise it to that, or drop queries."
        )
    if not least:
        return dict(own)
    if objective == "largest":
        wide = [_with_hints(reader) for reader in readers]
        return dict(own) | minimise_errors_in_turn(wide, least, left, lambda demand: _steps(demand, settings))
    shares = _optimum(readers, least, left, objective)
    stepped = _stepped(
        {demand: shares[demand] for demand in least if demand.kind in STEPPED}, least, settings
    )
    rest = {demand: size for demand, size in least.items() if demand not in stepped}
    if stepped and rest:
        shares = _optimum(readers, rest, left - sum(stepped.values()), objective)
    return dict(own) | stepped | {demand: int(shares[demand]) for demand in rest}


def _with_hints(reader: BundleReader) -> BundleReader:
    """Return a reader whose hash sketches have their candidate tables next to them."""
    hinted = HINT_SHARE / (HINT_SHARE - 1)
    bundles = (
        Bundle(
            tuple(
                (demand, share * (hinted if demand.kind == "hash" else 1.0)) for demand, share in each.members
            )
        )
        for each in reader.bundles
    )
    return BundleReader(reader.name, reader.weight, tuple(bundles))


def _steps(demand: Demand, settings: PlanSettings) -> tuple[int, ...] | None:
    """Return the possible sizes of a demand's synopsis, ascending; None if any size is possible."""
    return (
        step_words(demand.kind, settings.max_distinct, demand.domain_bits) if demand.kind in STEPPED else None
    )


def _optimum(
    readers: Sequence[BundleReader], least: Mapping[Demand, int], words: int, objective: Objective
) -> dict[Demand, float]:
    """Return the sizes that minimize the error with none below its least, at most `words` in all.

    What the optimum would make smaller than its least gets the least, and the rest is optimized again. Next to such
    a demand no size is of use beyond what the queries read of both; it is fixed there, too. The error is 0.1% above a
    general solver's on average, 5% at most, over 60 random workloads: `tests/plan/test_allocation.py`.
    """
    fixed: dict[Demand, float] = {}
    while True:
        free = {demand: None for demand in least if demand not in fixed}
        found = fixed | (_ideal(readers, words - sum(fixed.values()), objective, free) if free else {})
        small = {demand: float(least[demand]) for demand in free if found[demand] < least[demand]}
        if not small:
            useful = _useful_sizes(readers, found) if fixed else found
            small = {
                demand: max(useful[demand], float(least[demand]))
                for demand in free
                if useful[demand] < found[demand] * (1 - _ROUNDING)
            }
        if not small:
            return found
        fixed |= small


def _useful_sizes(readers: Sequence[BundleReader], sizes: Mapping[Demand, float]) -> dict[Demand, float]:
    """Return the size of each demand beyond which no query's smallest bundle grows."""
    useful = dict.fromkeys(sizes, 0.0)
    for reader in readers:
        members = [each for bundle in reader.bundles for each in bundle.members if each[0] in sizes]
        smallest = min((sizes[demand] / share for demand, share in members), default=0.0)
        for demand, share in members:
            useful[demand] = max(useful[demand], share * smallest)
    return useful


def _ideal(
    readers: Sequence[BundleReader], words: float, objective: Objective, wanted: Collection[Demand]
) -> dict[Demand, float]:
    """Return the sizes of the optimum, in words, without regard to the least."""
    queries: list[graphs.GraphQuery] = []
    held: dict[graphs.VertexId, Bundle] = {}
    for reader in readers:
        own = (tuple(each for each in bundle.members if each[0] in wanted) for bundle in reader.bundles)
        bundles = tuple(Bundle(members) for members in own if members)
        if bundles:
            made = tuple(graphs.Vertex(bundle, cost=bundle.cost) for bundle in bundles)
            queries.append(graphs.GraphQuery(reader.name, reader.weight, made))
            held |= {(reader.name, place): bundle for place, bundle in enumerate(bundles)}
    graph = _coalesced(graphs.JoinGraph.separate(queries), held)
    sizes = allocate(graph, words, objective).sizes
    shares: dict[Demand, float] = {}
    for vertex, size in sizes.items():
        for demand, share in held[vertex].members:
            shares[demand] = max(shares.get(demand, 0.0), size * share)
    return shares


def _coalesced(graph: graphs.JoinGraph, held: Mapping[graphs.VertexId, Bundle]) -> graphs.JoinGraph:
    """Return the graph in which equal bundles are one vertex."""
    groups: dict[Bundle, list[graphs.VertexId]] = {}
    for vertex in graph.members:
        groups.setdefault(held[vertex], []).append(vertex)
    return graphs.JoinGraph(graph.queries, {group[0]: tuple(group) for group in groups.values()})


def _stepped(
    shares: Mapping[Demand, float], least: Mapping[Demand, int], settings: PlanSettings
) -> dict[Demand, int]:
    """Return whole sizes of kinds in steps: those of one kind all get one size, at most their mean share."""
    done: dict[Demand, int] = {}
    for family in dict.fromkeys((demand.kind, demand.domain_bits) for demand in shares):
        group = [demand for demand in shares if (demand.kind, demand.domain_bits) == family]
        each = max(int(sum(shares[demand] for demand in group)) // len(group), least[group[0]])
        done |= dict.fromkeys(group, spec_for(group[0], each, settings).words)
    return done


# The synopses of queries: what is kept under the decisions for them, each with its words of the budget.


def kept_for(
    queries: Sequence[DecidedQuery],
    weights: Mapping[str, float],
    fixed: set[Demand],
    settings: PlanSettings,
    old: Layout | None,
    objective: Objective,
    guaranteed: Mapping[Demand, Spec] = MappingProxyType({}),
) -> tuple[KeptSynopsis, ...]:
    """Return every synopsis with its spec, those of the old layout unchanged. weights: W of each query.

    guaranteed: specs that guarantees require.
    """
    demands = set(fixed)
    skimmed: set[Demand] = set()
    for each in queries:
        demands |= each.demands
        skimmed |= each.demands if each.asked.method == "skimmed" else set()
    held = {kept.demand: kept for kept in old.kept if kept.demand in demands} if old is not None else {}
    taken = sum(each.nbytes for each in held.values())
    if taken > settings.budget:
        raise OverBudget(
            f"what is kept from the earlier plan takes {taken:,} bytes, and the budget is {settings.budget:,}: raise "
            "it, or make a new plan."
        )
    small = [demand for demand, spec in guaranteed.items() if demand in held and held[demand].spec != spec]
    if small:
        raise PlanError(
            f"what is kept of stream {small[0].stream!r} is too small for the requested guarantee: build "
            "the state again."
        )
    rest = replace(settings, budget=settings.budget - taken)
    counted = fixed | {demand for demand in demands if demand.kind == "total"}
    sized = {demand: least_words(demand, settings) for demand in counted - held.keys()}
    sized |= {demand: spec.words for demand, spec in guaranteed.items() if demand not in held}
    readers = _readers(queries, weights, held.keys() | sized.keys())
    shares = share_words(readers, sized, rest, objective)
    made = {
        demand: KeptSynopsis(demand.id, demand, guaranteed[demand])
        if demand in guaranteed
        else sized_synopsis(demand, words, settings, skim=demand in skimmed)
        for demand, words in shares.items()
    }
    return tuple((held | made)[demand] for demand in sorted(demands, key=msgspec.json.encode))


def _readers(
    queries: Sequence[DecidedQuery], weights: Mapping[str, float], held: Iterable[Demand]
) -> list[BundleReader]:
    """Return the queries as readers of bundles: what each relation keeps, without demands already sized."""
    have = set(held)
    readers = []
    for each in queries:
        bundles: dict[Bundle, None] = {}
        for quantity in each.quantities.values():
            for index in range(len(quantity.whole)):
                members = _members(quantity, index, each)
                left = tuple((demand, share) for demand, share in members if demand not in have)
                if left and left[0][0].kind != "total":
                    bundles[Bundle(left)] = None
        if bundles:
            name = each.asked.name
            readers.append(BundleReader(name, each.asked.weight * weights[name], tuple(bundles)))
    return readers


def _members(quantity: QuantityDemands, index: int, query: DecidedQuery) -> list[tuple[Demand, float]]:
    """Return the sketches of one relation, one for each part, with their words per unit of size."""
    parts: dict[Demand, float] = {}
    skimmed = query.asked.method == "skimmed"
    for row, share in zip(quantity.parts, query.decision.shares, strict=True):
        words = share * words_per_size(row[index], skimmed=skimmed)
        parts[row[index]] = max(parts.get(row[index], 0.0), words)
    return list(parts.items())


def planned_query(
    decided: DecidedQuery,
    expected_error: float | None,
    ids: Mapping[Demand, str] | None = None,
    weight: float | None = None,
) -> PlannedQuery:
    """Return a query with the ids of the synopses that it reads; ids: those that differ from the demands' ids.

    weight: W of its sketches.
    """
    names, asked = ids or {}, decided.asked
    quantities = {
        name: SketchedQuantity(
            tuple(tuple(names.get(demand, demand.id) for demand in part) for part in quantity.parts)
        )
        for name, quantity in decided.quantities.items()
    }
    return PlannedQuery(
        asked.name,
        asked.query,
        asked.method,
        quantities,
        decision=decided.decision,
        expected_error=expected_error,
        sketch_weight=None if weight is None else asked.weight * weight,
    )


def sized_synopsis(demand: Demand, words: int, settings: PlanSettings, *, skim: bool) -> KeptSynopsis:
    """Return the synopsis of a demand within a number of words; skim: with a candidate table."""
    candidates = candidates_for(demand, words, settings) if skim and demand.kind == "hash" else None
    if candidates is not None:
        words -= candidates.words
    return KeptSynopsis(demand.id, demand, spec_for(demand, words, settings), candidates)
