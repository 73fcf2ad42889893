"""The workload: streams, queries and what they may cost."""

from typing import Self

from msgspec.structs import replace

from eddyline.api.plan import Plan
from eddyline.errors import PlanError, SqlError
from eddyline.ingest.changes import change_format
from eddyline.plan.coverage import key_of_columns
from eddyline.plan.demands import METHODS, Method, demands_of
from eddyline.plan.layout import Demand, Layout, Stream, Window
from eddyline.plan.planner import Asked
from eddyline.plan.sizing import parse_bytes
from eddyline.plan.specs import MOST_DISTINCT, Settings, budget_for_error
from eddyline.plan.window_planner import check_event_times, layout_with_windows
from eddyline.plan.windows import parse_window
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
        max_distinct: int = MOST_DISTINCT,
    ) -> None:
        if budget is not None and error is not None:
            raise PlanError("give a budget or an error, not both.")
        if not 0.5 <= confidence < 1:
            raise PlanError(f"confidence={confidence} is not between 0.5 and 1.")
        if hash not in FAMILIES:
            raise PlanError(f"hash={hash!r} is not one of {', '.join(FAMILIES)}.")
        size = parse_bytes(budget if budget is not None else DEFAULT_BUDGET)
        self._settings = Settings(size, seed, confidence, hash, max_distinct)
        self._error = error
        self._streams: dict[str, Stream] = {}
        self._asked: dict[str, Asked] = {}
        self._samples: list[Demand] = []
        self._windows: dict[str, Window] = {}

    def stream(
        self, name: str, schema: str, *, changes: str | None = None, event_time: str | None = None
    ) -> Self:
        """Declare a stream: its columns, how its rows say what they change, and which column is their time."""
        if not NAME.fullmatch(name):
            raise PlanError(f"stream name {name!r} is not a plain identifier of at most 64 characters.")
        if name.lower() in (known.lower() for known in self._streams):
            raise PlanError(f"stream {name!r} is declared twice.")
        change_format(name, changes)
        columns = parse_schema(name, schema)
        kinds = {column.name: column.type.kind for column in columns}
        if event_time is not None and kinds.get(event_time) not in ("timestamp", "timestamp_ntz"):
            raise PlanError(f"stream {name!r}: event_time={event_time!r} is not a TIMESTAMP column of it.")
        self._streams[name] = Stream(name, columns, changes, event_time)
        return self

    def query(
        self,
        name: str,
        sql: str,
        *,
        method: Method = "skimmed",
        window: str | None = None,
        slide: str | None = None,
    ) -> Self:
        """Ask a query by name; it is checked against the declared streams at once.

        window: over the last "1 hour" of event time, complete, moving on by `slide` ("5 minutes").
        """
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
        asked = Asked(name, parsed, method)
        if window is not None:
            check_event_times(asked, self._streams)
            self._windows[name] = parse_window(window, slide)
        elif slide is not None:
            raise PlanError(f"query {name!r}: a slide needs a window.")
        self._asked[name] = asked
        return self

    def sample(self, stream: str, *columns: str, size: int = 1000, where: str | None = None) -> Self:
        """Ask for a sample of about `size` distinct values of a stream's columns: `state.sample(stream, ...)`."""
        if not 1 <= size <= 1_000_000:
            raise PlanError(f"a sample holds 1 to 1,000,000 keys, not {size}.")
        declared = {each.name: each.columns for each in self._streams.values()}
        key, predicates = key_of_columns(declared, stream, columns, where)
        self._samples.append(Demand(stream, "peeling", (key,), predicates, sample=size))
        return self

    def plan(self, *, keep: Layout | None = None) -> Plan:
        """Return the plan: what to keep for all queries within the budget.

        keep: the layout of a running store (`el.open(store).snapshot.layout`), whose synopses stay as they
        are; those of added queries share what it leaves of the budget.
        """
        if not self._asked and not self._samples:
            raise PlanError("the workload asks no query: add one with w.query(name, sql).")
        settings, assumption = self._settings, ""
        if self._error is not None:
            if self._windows:
                raise PlanError("windows are planned within a budget, not for an error: give a budget.")
            settings = replace(settings, budget=budget_for_error(self._error, self._demands(), settings))
            assumption = (
                f"sized for a relative error of {self._error:.2g} at {settings.confidence:.0%}, if the joins are as "
                "concentrated as self-joins; sparser joins will show wider intervals"
            )
        layout = layout_with_windows(
            self._streams, list(self._asked.values()), self._windows, settings, self._samples, keep
        )
        return Plan(layout, assumption)

    def _demands(self) -> set[Demand]:
        """Return everything that the workload asks to be kept."""
        asked = {d for each in self._asked.values() for d in demands_of(each.query, each.method)}
        return asked | {Demand(name, "total") for name in self._streams} | set(self._samples)

    def __repr__(self) -> str:
        return f"Workload({len(self._streams)} streams, {len(self._asked)} queries)"
