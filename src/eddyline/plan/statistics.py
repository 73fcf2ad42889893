"""Statistics of streams and queries: what the planner knows before it divides the memory."""

import msgspec
from msgspec.structs import replace

from eddyline.errors import PlanError
from eddyline.plan.layout import OWN_ERROR_FUNCTION, Demand
from eddyline.plan.partition.histograms import Histogram
from eddyline.plan.sharing.coalesce import Objective
from eddyline.sql.query import AnyQuery, Key

# Statistics come from hints, from an analysis of history, or from a running state. Each entry is optional;
# without it, the planner treats all queries alike. They are plain values: `to_json` and `from_json` keep
# them.


class RelationStatistics(msgspec.Struct, frozen=True):
    """What is known about one relation of a join.

    self_join: the sum of squared frequencies (or measures) over its tuples of join keys. distinct: the number of
    distinct values of each key. total: the number of its rows, or the sum of its measure.
    """

    self_join: float
    distinct: tuple[float, ...] = ()
    total: float | None = None


class Statistics(msgspec.Struct, frozen=True):
    """Relations and histograms by description, join sizes by query and quantity, rows by stream."""

    relations: dict[str, RelationStatistics] = {}
    sizes: dict[str, dict[str, float]] = {}
    rows: dict[str, float] = {}
    histograms: dict[str, Histogram] = {}

    def relation(self, demand: Demand) -> RelationStatistics | None:
        """Return what is known about the relation that a demand sketches."""
        return self.relations.get(relation_name(demand))

    def size(self, query: AnyQuery, quantity: str) -> float | None:
        """Return the expected size of a quantity of a query."""
        return self.sizes.get(query_name(query), {}).get(quantity)

    def below_noise(self, query: AnyQuery, quantity: str) -> bool:
        """Return whether a quantity was measured and no size was found: nothing joins, or less than the noise."""
        sizes = self.sizes.get(query_name(query))
        return sizes is not None and not sizes.get(quantity)

    def histogram(self, demand: Demand, key: Key) -> Histogram | None:
        """Return the histogram of one key of the relation that a demand sketches."""
        return self.histograms.get(relation_name(replace(demand, keys=(key,))))

    def merged(self, other: "Statistics") -> "Statistics":
        """Return the union of both; on conflict, `other` wins."""
        sizes = {
            name: {**self.sizes.get(name, {}), **other.sizes.get(name, {})}
            for name in sorted(self.sizes.keys() | other.sizes.keys())
        }
        return Statistics(
            {**self.relations, **other.relations},
            sizes,
            {**self.rows, **other.rows},
            {**self.histograms, **other.histograms},
        )

    def to_json(self) -> str:
        """Return the statistics as JSON text."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> "Statistics":
        """Return the statistics that `to_json` wrote, or raise PlanError."""
        try:
            return msgspec.json.decode(text, type=cls)
        except (msgspec.DecodeError, ValueError) as error:
            raise PlanError(f"these statistics cannot be read: {error}.") from error


def query_name(query: AnyQuery) -> str:
    """Return the SQL of a query in one line: equal SQL strings are one query."""
    return " ".join(query.text.split())


def relation_name(demand: Demand) -> str:
    """Return what a demand sketches, regardless of the synopsis: equal names are one relation."""
    return f"{demand.stream} {held_of(demand)}".strip()


def held_of(demand: Demand) -> str:
    """Return what of its stream a demand's synopsis holds."""
    parts = []
    if demand.keys:
        parts.append("on " + " x ".join(map(str, demand.keys)))
    if demand.measure is not None:
        single = demand.measure.power == 1 or demand.measure.times  # a product is written with its powers
        power = "" if single else f" to the power of {demand.measure.power}"
        parts.append(f"of {demand.measure.text}{power}")
    conditions = [f"{part.text} is not null" for part in demand.presence] + list(demand.predicates)
    if conditions:
        parts.append("where " + " and ".join(conditions))
    return " ".join(parts).replace("`", "")


# Inputs of the planner besides the queries.


class PlanningInputs(msgspec.Struct, frozen=True):
    """Inputs of the planner besides the queries: statistics, and which error is to be least.

    held: bytes that each sample of a running plan holds now.
    """

    statistics: Statistics = Statistics()
    objective: Objective = "average"
    held: dict[str, int] = {}

    @property
    def objective_name(self) -> str:
        """Which error is least, as a plan records it."""
        return OWN_ERROR_FUNCTION if callable(self.objective) else self.objective
