"""Words for every synopsis of a workload, so that the average or the largest error is least.

Exact counters and samples that were asked for take what they need. Everything else takes part in one
optimisation (Paper: sharing, ComputeSpace; the largest error has its own, in `largest_error`): a relation of a
query is a vertex, its sketch, or the sketches of its parts, are the vertex's words. Sizes are then
raised to the least that each kind needs, and kinds that come in steps leave what they do not use to the join
sketches.
"""

from collections.abc import Mapping, Sequence

import msgspec

from eddyline.plan.layout import Demand
from eddyline.plan.sharing import join_graph as graphs
from eddyline.plan.sharing.coalesce import Objective, allocate
from eddyline.plan.size.budget import OverBudget
from eddyline.plan.size.largest_error import minimise_errors_in_turn
from eddyline.plan.size.shapes import HINT_SHARE
from eddyline.plan.size.specs import STEPPED, PlanSettings, least_words, spec_for, step_words


class Bundle(msgspec.Struct, frozen=True):
    """The synopses of one relation of a query that are sized together: each with its words per unit of size."""

    members: tuple[tuple[Demand, float], ...]

    @property
    def cost(self) -> float:
        """The words of all of them per unit of size."""
        return sum(share for _, share in self.members)


class Reader(msgspec.Struct, frozen=True):
    """A query: its weight and the bundles that it reads."""

    name: str
    weight: float
    bundles: tuple[Bundle, ...]


def share_words(
    readers: Sequence[Reader],
    own: Mapping[Demand, int],
    settings: PlanSettings,
    objective: Objective = "average",
) -> dict[Demand, int]:
    """Return the words of every demand, never more than the budget together; own: those that are sized already."""
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
    shares = _raised(_ideal(readers, left, objective, set(least)), least, left)
    return dict(own) | _stepped(shares, least, left, settings)


def _with_hints(reader: Reader) -> Reader:
    """Return a reader whose hash sketches take their candidate tables beside them."""
    hinted = HINT_SHARE / (HINT_SHARE - 1)
    bundles = (
        Bundle(
            tuple(
                (demand, share * (hinted if demand.kind == "hash" else 1.0)) for demand, share in each.members
            )
        )
        for each in reader.bundles
    )
    return Reader(reader.name, reader.weight, tuple(bundles))


def _steps(demand: Demand, settings: PlanSettings) -> tuple[int, ...] | None:
    """Return the sizes that a demand's synopsis comes in, rising; None where any size will do."""
    return step_words(demand.kind, settings.max_distinct) if demand.kind in STEPPED else None


def _ideal(
    readers: Sequence[Reader], words: int, objective: Objective, wanted: set[Demand]
) -> dict[Demand, float]:
    """Return the sizes of the optimum, in words."""
    queries: list[graphs.Query] = []
    held: dict[graphs.VertexId, Bundle] = {}
    for reader in readers:
        bundles = tuple(bundle for bundle in reader.bundles if any(d in wanted for d, _ in bundle.members))
        if bundles:
            made = tuple(graphs.Vertex(bundle, cost=bundle.cost) for bundle in bundles)
            queries.append(graphs.Query(reader.name, reader.weight, made))
            held |= {(reader.name, place): bundle for place, bundle in enumerate(bundles)}
    graph = _coalesced(graphs.JoinGraph.separate(queries), held)
    sizes = allocate(graph, float(words), objective).sizes
    shares: dict[Demand, float] = {}
    for vertex, size in sizes.items():
        for demand, share in held[vertex].members:
            if demand in wanted:
                shares[demand] = max(shares.get(demand, 0.0), size * share)
    return shares


def _coalesced(graph: graphs.JoinGraph, held: Mapping[graphs.VertexId, Bundle]) -> graphs.JoinGraph:
    """Return the graph in which equal bundles are one vertex."""
    groups: dict[Bundle, list[graphs.VertexId]] = {}
    for vertex in graph.members:
        groups.setdefault(held[vertex], []).append(vertex)
    return graphs.JoinGraph(graph.queries, {group[0]: tuple(group) for group in groups.values()})


def _raised(ideal: Mapping[Demand, float], least: Mapping[Demand, int], words: int) -> dict[Demand, float]:
    """Return the sizes with none below its least; what that takes is taken from the others' excess."""
    excess = {demand: max(ideal[demand] - least[demand], 0.0) for demand in least}
    spare = words - sum(least.values())
    scale = min(spare / sum(excess.values()), 1.0) if any(excess.values()) else 0.0
    return {demand: least[demand] + scale * excess[demand] for demand in least}


def _stepped(
    shares: Mapping[Demand, float], least: Mapping[Demand, int], words: int, settings: PlanSettings
) -> dict[Demand, int]:
    """Return whole sizes: kinds in steps all of one size, what they leave to the others in proportion."""
    done: dict[Demand, int] = {}
    for kind in STEPPED:
        group = [demand for demand in shares if demand.kind == kind]
        if group:
            each = max(int(sum(shares[demand] for demand in group)) // len(group), least[group[0]])
            done |= dict.fromkeys(group, spec_for(group[0], each, settings).words)
    rest = {demand: share for demand, share in shares.items() if demand not in done}
    spare = words - sum(done.values())
    scale = spare / sum(rest.values()) if rest else 0.0
    if scale >= 1:
        return done | {demand: int(share * scale) for demand, share in rest.items()}
    raised = _raised(rest, {d: least[d] for d in rest}, spare)
    return done | {demand: int(share) for demand, share in raised.items()}
