"""The workload: streams, queries and what they may cost."""

from typing import Self

from eddyline.api.plan import Plan
from eddyline.errors import PlanError, SqlError
from eddyline.ingest.changes import change_format
from eddyline.plan.demands import METHODS, Method, terms_of
from eddyline.plan.layout import Stream
from eddyline.plan.planner import Asked, make_layout
from eddyline.plan.sizing import parse_bytes, words_for_error
from eddyline.sketch.families import FAMILIES, Family
from eddyline.sql.parse import parse_query
from eddyline.sql.schema import NAME, parse_schema

DEFAULT_BUDGET = "1 MB"


class Workload:
    """Streams, the queries asked of them, and a budget in bytes or an error to reach.

    >>> w = Workload(budget="64 KB", seed=7)
    >>> w.stream("orders", "o_orderkey BIGINT, o_custkey BIGINT").query("n", "SELECT COUNT(*) FROM orders")
    Workload(1 streams, 1 queries)
    """

    def __init__(
        self,
        *,
        budget: str | int | None = None,
        error: float | None = None,
        confidence: float = 0.95,
        seed: int = 0,
        hash: Family = "mix",  # noqa: A002 - the word that users know
    ) -> None:
        if budget is not None and error is not None:
            raise PlanError("give a budget or an error, not both.")
        if not 0.5 <= confidence < 1:
            raise PlanError(f"confidence={confidence} is not between 0.5 and 1.")
        if hash not in FAMILIES:
            raise PlanError(f"hash={hash!r} is not one of {', '.join(FAMILIES)}.")
        self._budget = parse_bytes(budget if budget is not None else DEFAULT_BUDGET)
        self._error = error
        self._confidence = confidence
        self._seed = seed
        self._hash: Family = hash
        self._streams: dict[str, Stream] = {}
        self._asked: dict[str, Asked] = {}

    def stream(self, name: str, schema: str, *, changes: str | None = None) -> Self:
        """Declare a stream: its columns, and how its rows say what they change."""
        if not NAME.fullmatch(name):
            raise PlanError(f"stream name {name!r} is not a plain identifier of at most 64 characters.")
        if name.lower() in (known.lower() for known in self._streams):
            raise PlanError(f"stream {name!r} is declared twice.")
        change_format(name, changes)
        self._streams[name] = Stream(name, parse_schema(name, schema), changes)
        return self

    def query(self, name: str, sql: str, *, method: Method = "skimmed") -> Self:
        """Ask a query by name; it is checked against the declared streams at once."""
        if not NAME.fullmatch(name):
            raise PlanError(f"query name {name!r} is not a plain identifier of at most 64 characters.")
        if name in self._asked:
            raise PlanError(f"query {name!r} is asked twice.")
        if method not in METHODS:
            raise PlanError(f"method={method!r} is not one of {', '.join(METHODS)}.")
        try:
            parsed = parse_query(sql, {stream.name: stream.columns for stream in self._streams.values()})
        except SqlError as error:
            raise type(error)(f"query {name!r}: {error}") from error
        self._asked[name] = Asked(name, parsed, method)
        return self

    def plan(self) -> Plan:
        """Return the plan: what to keep for all queries within the budget."""
        if not self._asked:
            raise PlanError("the workload asks no query: add one with w.query(name, sql).")
        budget, assumption = self._budget, ""
        if self._error is not None:
            budget = self._budget_for_error(self._error)
            assumption = (
                f"sized for a relative error of {self._error:.2g} at {self._confidence:.0%}, if the joins are as "
                "concentrated as self-joins; sparser joins will show wider intervals"
            )
        layout = make_layout(
            list(self._streams.values()),
            self._asked.values(),
            budget,
            self._seed,
            self._confidence,
            self._hash,
        )
        return Plan(layout, assumption)

    def _budget_for_error(self, error: float) -> int:
        demands = {
            d for a in self._asked.values() for term in terms_of(a.query, a.method).values() for d in term
        }
        sketches = sum(demand.family != "total" for demand in demands)
        words = words_for_error(error, self._confidence)
        return 8 * (len(demands) + len(self._streams) + 2 * sketches * words)

    def __repr__(self) -> str:
        return f"Workload({len(self._streams)} streams, {len(self._asked)} queries)"
