"""The workload: streams, queries and their budget."""

from collections.abc import Mapping, Sequence
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any, Self, get_args

import numpy as np
from msgspec.structs import replace

from eddyline.api.given_schema import columns_of_stream, session_zone
from eddyline.api.operations.sizing import BUDGETS, SEEDS, MeasuredRows, Sizing, measure
from eddyline.api.plan import Plan
from eddyline.api.state import State
from eddyline.errors import PlanError, SqlError
from eddyline.expressions.nodes import names_in
from eddyline.expressions.schema import NAME, DeclaredKeys, parse_keys
from eddyline.expressions.times import machine_zone, normal_zone
from eddyline.ingest.changes import change_format
from eddyline.ingest.snapshot import Snapshot, held_bytes
from eddyline.plan.decide.coverage import SAMPLES_ALONE, check_same_zone, key_of_columns, with_timezone
from eddyline.plan.decide.elements import explored_columns, explored_names, exploring, is_whole
from eddyline.plan.decide.key_joins import key_join_queries, key_joins
from eddyline.plan.decide.planner import analysis_of, make_layout
from eddyline.plan.demands import (
    DEFAULT_METHOD,
    METHODS,
    Method,
    Partitions,
    WorkloadQuery,
    is_planned_for,
    methods_of,
)
from eddyline.plan.layout import Demand, Layout, Stream, Window
from eddyline.plan.sharing.coalesce import Objective, ObjectiveName
from eddyline.plan.sharing.space import checked_error_function
from eddyline.plan.size.guarantee import checked_guarantee
from eddyline.plan.size.specs import (
    MOST_DISTINCT,
    SMALLEST_BUDGET,
    OverBudget,
    PlanSettings,
    budget_for_error,
    checked_confidence,
    checked_most_distinct,
    least_budget,
    parse_bytes,
)
from eddyline.plan.statistics import PlanningInputs, Statistics
from eddyline.plan.windows import check_event_times, layout_with_windows, parse_window
from eddyline.sketch.hash_sketch import HashSketchSpec
from eddyline.sketch.keys import HASH_FAMILIES, HashFamily
from eddyline.sql.derived import derived_columns
from eddyline.sql.parse import parse_query
from eddyline.sql.query import AnyQuery

if TYPE_CHECKING:
    import os

    from pyspark.sql import DataFrame, SparkSession

    from eddyline.types import Column

DEFAULT_BUDGET = "1 MB"
ANALYSIS_BUDGET = "32 MB"
_NO_QUERY = "the workload has no query: add one to [queries] of the pipeline file (w.query(name, sql))."
LARGEST_GUARANTEE = 1 << 50
"""Guarantees are sized up to this many bytes, so that an error can say what they take."""
_LARGEST_WITHOUT_BUDGET = 1 << 30
"""Guarantees that take more than 1 GiB are planned only within a budget that is given. Chosen: a state is held in
memory by every task of a pass, and guarantees of JD sketches on BIGINT keys easily take 60 GB."""


class Workload:
    """Streams, queries, and a budget in bytes or an error to reach.

    objective: which expected error of join sketches is least: the weighted "average" of the squared errors, the
    "largest" of them, or the sum over queries of W * phi(M) for a convex function phi of the counters M of a query's
    smallest sketch, such as lambda words: words ** -0.5. samples: False plans sketches only: purely linear. method: of
    every query that does not name its own; "document" plans the documents' own synopses and estimators. guarantee:
    (epsilon, delta), by which the documents' theorems size every query; it needs a method that has one, and implies
    samples=False and hash="poly4". timezone: the zone of years, days and hours of timestamps, such as
    "Europe/Berlin". By default the zone of the active Spark session when the plan is made, or of the machine.

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
        hash: HashFamily = "mix",  # noqa: A002 - the word that users know
        max_distinct: int = MOST_DISTINCT,
        objective: Objective = "average",
        samples: bool = True,
        timezone: str | None = None,
        method: Method = DEFAULT_METHOD,
        guarantee: tuple[float, float] | None = None,
    ) -> None:
        if budget is not None and error is not None:
            raise PlanError("give a budget or an error, not both.")
        checked_confidence(confidence)
        if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**63:
            raise PlanError(f"seed={seed!r} is not a whole number from 0 to 2^63 - 1.")
        if error is not None and (isinstance(error, bool) or not isinstance(error, int | float)):
            raise PlanError(f"error={error!r} is not a relative error between 0 and 1.")
        if hash not in HASH_FAMILIES:
            raise PlanError(f"hash={hash!r} is not one of {', '.join(HASH_FAMILIES)}.")
        if method not in METHODS:
            raise PlanError(f"method={method!r} is not one of {', '.join(METHODS)}.")
        if callable(objective):
            checked_error_function(objective)
        elif objective not in get_args(ObjectiveName):
            raise PlanError(
                f"objective={objective!r} is not one of {', '.join(get_args(ObjectiveName))}, and not a function."
            )
        size = parse_bytes(budget if budget is not None else DEFAULT_BUDGET)
        most = checked_most_distinct(max_distinct)
        self._settings = PlanSettings(size, int(seed), confidence, hash, most, samples)
        self._method = method
        self._guarantee: tuple[float, float] | None = None
        self._has_budget = budget is not None
        if guarantee is not None:
            if error is not None:
                raise PlanError("give a guarantee or an error, not both.")
            self._guarantee = checked_guarantee(guarantee)
            self._settings = replace(self._settings, samples=False, hash="poly4")
        self._error = error
        self._objective: Objective = objective
        self._timezone = normal_zone(timezone) if timezone is not None else None
        self._streams: dict[str, Stream] = {}
        self._asked: dict[str, WorkloadQuery] = {}
        self._distinct_samples: list[Demand] = []
        self._windows: dict[str, Window] = {}
        self._explored: dict[str, tuple[Column, ...]] = {}
        self._keys: dict[str, DeclaredKeys] = {}
        self._whole: set[str] = set()

    def stream(
        self,
        name: str,
        schema: Any,
        *,
        changes: str | None = None,
        event_time: str | None = None,
        derive: Mapping[str, str] | None = None,
    ) -> Self:
        """Declare a stream: its columns, how its rows carry their change, and which column is their event time.

        derive: further columns as expressions over the row, {"month": "date_trunc('month', at)"}, for all queries.
        schema: "id BIGINT, total DECIMAL(12,2)"; or something that has the columns (those with a supported type are
        used): a Spark, pandas or polars frame, an Arrow schema or table, the path of a Parquet, CSV or JSON file.
        """
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise PlanError(f"stream name {name!r} is not a plain identifier of at most 64 characters.")
        if name.lower() in (known.lower() for known in self._streams):
            raise PlanError(f"stream {name!r} is declared twice.")
        columns = columns_of_stream(name, schema, change_format(name, changes))
        kinds = {column.name: column.type.kind for column in columns}
        if event_time is not None and kinds.get(event_time) not in ("timestamp", "timestamp_ntz"):
            raise PlanError(f"stream {name!r}: event_time={event_time!r} is not a TIMESTAMP column of it.")
        derived = derived_columns(name, columns, derive or {})
        self._streams[name] = Stream(name, columns, changes, event_time, derived)
        if isinstance(schema, str) and " " in schema:
            self._keys[name] = parse_keys(name, schema)
        return self

    def query(
        self,
        name: str,
        sql: str,
        *,
        method: Method | None = None,
        weight: float = 1.0,
        window: str | None = None,
        slide: str | None = None,
        guarantee: tuple[float, float] | None = None,
        partitions: Partitions = "auto",
    ) -> Self:
        """Declare a query; it is checked against the declared streams.

        method: how it is answered once not everything fits, by default the workload's: docs/reference/documents.md.
        weight: how much its squared error counts against that of other queries. window: over the last "1 hour" of
        event time; it moves by `slide` ("5 minutes"). guarantee: (epsilon, delta) of this query, under
        samples=False and hash="poly4". partitions: into how many parts a join's sketches are divided, by histograms
        of its statistics; "auto" does so where a gain is expected, "off" never.
        """
        if not isinstance(sql, str):
            raise PlanError(f"query {name!r} takes a SQL string, not {sql!r}.")
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise PlanError(f"query name {name!r} is not a plain identifier of at most 64 characters.")
        if name in self._asked:
            raise PlanError(f"query {name!r} is declared twice.")
        if method is not None and method not in METHODS:
            raise PlanError(f"method={method!r} is not one of {', '.join(METHODS)}.")
        try:
            parsed = parse_query(sql, {stream.name: stream.every_column for stream in self._streams.values()})
        except SqlError as error:
            raise type(error)(f"query {name!r}: {error}") from error
        if not (isfinite(weight) and weight > 0):
            raise PlanError(f"query {name!r}: weight={weight} is not a positive number.")
        if parsed.needs_sample and not self._settings.samples:
            raise PlanError(f"query {name!r}: {SAMPLES_ALONE}")
        chosen = self._method_of(name, parsed, method)
        given = self._guarantee_of(name, parsed, chosen, guarantee)
        self._check_partitions(name, parsed, chosen, partitions)
        asked = WorkloadQuery(name, parsed, chosen, weight, given, partitions)
        found = self._window_of(asked, window, slide)
        if found is not None:
            self._windows[name] = found
        self._asked[name] = asked
        return self

    def _window_of(self, asked: WorkloadQuery, window: str | None, slide: str | None) -> Window | None:
        """Return the window of a query, or raise PlanError if it cannot have the requested one."""
        if window is None:
            if slide is not None:
                raise PlanError(f"query {asked.name!r}: a slide needs a window.")
            return None
        if asked.guarantee is not None:
            raise PlanError(
                f"query {asked.name!r}: windows are planned within a budget, not for a guarantee."
            )
        check_event_times(asked, self._streams)
        return parse_window(window, slide)

    def _method_of(self, name: str, query: AnyQuery, method: Method | None) -> Method:
        """Return the method of a query, or raise PlanError if the requested one has no effect on it."""
        if method is None and query.is_total:
            return DEFAULT_METHOD  # exact counters, whatever the workload's method is
        chosen, known = method or self._method, methods_of(query)
        if chosen in known:
            return chosen
        reason = SAMPLES_ALONE if query.needs_sample else f"its methods are {', '.join(known)}."
        where = "" if method is not None else f": name one of its own, such as method={DEFAULT_METHOD!r}"
        raise PlanError(f"query {name!r}: method={chosen!r} has no effect on it{where}; {reason}")

    def _check_partitions(self, name: str, query: AnyQuery, method: Method, partitions: Partitions) -> None:
        """Raise PlanError if a query cannot be divided as requested."""
        if partitions in ("auto", "off"):
            return
        if isinstance(partitions, bool) or not isinstance(partitions, int) or partitions < 1:
            raise PlanError(
                f'query {name!r}: partitions={partitions!r} is not a whole number of 1 or more, "auto" or "off".'
            )
        if "agms" not in methods_of(query):
            raise PlanError(
                f"query {name!r}: partitions has no effect on it; only sketches of joins have parts."
            )
        if self._settings.samples and method == DEFAULT_METHOD:
            raise PlanError(
                f"query {name!r}: with a stream sample, sketches of all rows are not partitioned: give "
                "samples=False, or one "
                "of the methods hash, agms, document."
            )

    def _guarantee_of(
        self, name: str, query: AnyQuery, method: Method, guarantee: tuple[float, float] | None
    ) -> tuple[float, float] | None:
        """Return the guarantee that a query's sketches are sized for; None for exact counters or without one."""
        given = self._guarantee if guarantee is None else checked_guarantee(guarantee)
        if given is None or (query.is_total):
            return None
        if self._settings.samples or self._settings.hash != "poly4":
            raise PlanError(
                f"query {name!r}: a guarantee needs sketches alone, with 4-wise independent hashing: give "
                'Workload(samples=False, hash="poly4").'
            )
        known = [each for each in methods_of(query) if each not in (DEFAULT_METHOD, "hash")]
        if method not in known:
            raise PlanError(
                f"query {name!r}: method={method!r} has no guarantee; those with one are {', '.join(known)}."
            )
        return given

    def sample(self, stream: str, *columns: str, size: int = 1000, where: str | None = None) -> Self:
        """Keep a sample of about `size` distinct values of a stream's columns: `state.sample(stream, ...)`."""
        if not 1 <= size <= 1_000_000:
            raise PlanError(f"a sample holds 1 to 1,000,000 keys, not {size}.")
        declared = {each.name: each.every_column for each in self._streams.values()}
        key, predicates = key_of_columns(declared, stream, columns, where)
        self._distinct_samples.append(Demand(stream, "peeling", (key,), predicates, sample=size))
        return self

    def explore(self, stream: str, *columns: str) -> Self:
        """Keep columns of a stream with its sample, so that ad hoc SQL over them can be answered.

        `state.answer` takes any SQL whose predicates, measures and groups read explored columns and whose joins are
        on keys that planned queries join on. Without columns, or with "*", all columns are explored except BINARY
        ones and strings declared longer than VARCHAR(255), and streams explored in this way may be joined along
        their keys: those that PRIMARY KEY and FOREIGN KEY declare in the schemas, else those with the same names.
        """
        if stream not in self._streams:
            known = ", ".join(self._streams) or "none yet"
            raise PlanError(f"there is no stream {stream!r} to explore: the streams are {known}.")
        if not self._settings.samples:
            raise PlanError(
                f"the columns of stream {stream!r} cannot be explored under samples=False: sketches hold no columns, "
                "so leave samples=False out."
            )
        known_columns = self._explored.get(stream, ())
        long = self._keys.get(stream, DeclaredKeys()).long
        self._explored[stream] = explored_columns(self._streams[stream], columns, known_columns, long)
        if is_whole(columns):
            self._whole.add(stream)
        return self

    def plan(
        self, *, statistics: Statistics | None = None, keep: Layout | Plan | State | None = None
    ) -> Plan:
        """Return the plan: what to keep for all queries within the budget.

        statistics: what is known about the streams, from `analyze`, from a running `state.statistics()`, or given;
        without any, all joins count alike. keep: the state of a running store (`el.open(store)`), whose synopses
        stay as they are. Added queries are answered from them where that is possible; new synopses share what is
        left of the budget. A plan or a layout does not show how much of the budget is in use.
        """
        self._check_asked()
        held = held_bytes(keep.snapshot) if isinstance(keep, State) else {}
        given = keep.snapshot if isinstance(keep, State) else keep
        old = given.layout if isinstance(given, Plan | Snapshot) else given
        if not isinstance(old, Layout | None) or not isinstance(statistics, Statistics | None):
            raise PlanError(
                "plan() takes statistics= of el.Statistics (from_json reads a file) and keep= of a plan or a state."
            )
        known = PlanningInputs(statistics if statistics is not None else Statistics(), self._objective, held)
        settings = self._settings
        if old is not None and self._is_asked_by(old):
            return Plan(old, informed=bool(known.statistics.sizes))
        if self._error is not None:
            settings = replace(settings, budget=self._budget_for(self._error, known, old))
        elif not self._has_budget and any(each.guarantee is not None for each in self._asked.values()):
            settings = replace(settings, budget=self._budget_of_guarantees(settings, known, old))
        try:
            layout = self._layout(settings, known, old)
        except OverBudget as error:
            raise error if old is None else self._no_space(settings, known, old) from error
        if not self._has_budget and self._error is None:
            _check_guarantees(layout)
        return Plan(layout, informed=bool(known.statistics.sizes))

    def _is_asked_by(self, old: Layout) -> bool:
        """Return whether a layout was made for exactly this workload, so planning again would change nothing."""
        explored = {each.name for each in self._exploring()}
        weights = {name: each.weight for name, each in self._asked.items()}
        shapes = [shape for sample in old.samples for shape in sample.spec.shapes]
        settings = self._settings
        return (
            (old.budget == settings.budget if self._error is None else old.budget is not None)
            and (old.seed, old.confidence, old.error) == (settings.seed, settings.confidence, self._error)
            and {each.name: each for each in old.streams} == self._streams
            and sorted(old.query_names) == sorted(self.unchanged(old)) == sorted(self._asked)
            and {name for sample in old.samples for name in explored_names(sample)} == explored
            and {kept.demand for kept in old.kept if kept.demand.sample} == set(self._distinct_samples)
            and all(shape.weight == weights.get(shape.name, shape.weight) for shape in shapes)
            and (settings.samples or not old.samples)
            and all(k.spec.hash == settings.hash for k in old.kept if isinstance(k.spec, HashSketchSpec))
            and with_timezone(old, self._zone(old)) == old
        )

    def unchanged(self, layout: Layout) -> list[str]:
        """Return the queries that a layout answers with the same SQL, on the same columns of the same streams."""
        before: set[tuple[str, str, str, Window | None]]
        before = {(each.name, each.query.text, each.method, None) for each in layout.queries}
        before |= {
            (each.name, each.query.text, each.method, group.window)
            for group in layout.windows
            for each in group.layout.queries
        }
        streams = {stream.name: stream for stream in layout.streams}
        return [
            name
            for name, each in self._asked.items()
            if (name, each.query.text, each.method, self._windows.get(name)) in before
            and not any(name == old.name and not is_planned_for(each, old) for old in layout.queries)
            and all(
                stream in streams and _reads_the_same(each, streams[stream], self._streams[stream])
                for stream in each.streams
            )
        ]

    def _exploring(self) -> list[WorkloadQuery]:
        """Return the queries that represent explored columns, and joins along keys."""
        whole = [stream for stream in self._streams.values() if stream.name in self._whole]
        joins = key_join_queries(whole, key_joins(whole, self._keys))
        return [*(exploring(name, each) for name, each in self._explored.items()), *joins]

    def _no_space(self, settings: PlanSettings, known: PlanningInputs, old: Layout) -> PlanError:
        """Return what to do if the queries that were added to a plan do not fit the budget."""
        needed = least_budget(
            settings.budget, lambda budget: self._layout(replace(settings, budget=budget), known, old)
        )
        kept = old.counter_bytes + sum(group.nbytes for group in old.windows)
        kept += sum(
            known.held.get(sample.id, sum(sketch.nbytes for sketch in sample.sketches))
            for sample in old.samples
        )
        added = [name for name in self._asked if name not in self.unchanged(old)]
        return PlanError(
            f"the budget is {settings.budget:,} bytes: {kept:,} are kept as they are, and of the other "
            f"{max(settings.budget - kept, 0):,} there is no memory for {', '.join(added) or 'all queries'}. Write "
            f'budget = "{-(-needed // 1000)} KB" in [workload] of the pipeline file (Workload(budget=...)), or take '
            "queries out."
        )

    def _layout(self, settings: PlanSettings, known: PlanningInputs, keep: Layout | None = None) -> Layout:
        layout = layout_with_windows(
            self._streams,
            [*self._asked.values(), *self._exploring()],
            self._windows,
            settings,
            self._distinct_samples,
            keep,
            known,
        )
        made = replace(
            with_timezone(layout, self._zone(keep)),
            error=self._error,
            budget=settings.budget,
            added=_added(layout, keep),
        )
        _check_held(made, keep, known.held)
        return made

    def _zone(self, keep: Layout | None = None) -> str:
        """Return the given zone, that of the plan that is kept, of the Spark session, or of the machine."""
        if self._timezone is None and keep is not None and keep.timezone is not None:
            return keep.timezone
        zone = self._timezone or session_zone() or machine_zone()
        check_same_zone(keep, zone)
        return zone

    def _budget_for(self, error: float, known: PlanningInputs, keep: Layout | None) -> int:
        """Return the smallest budget that is expected to reach an error on every query."""
        if self._windows:
            raise PlanError("windows are planned within a budget, not for an error: give a budget.")

        def errors_at(budget: int) -> dict[str, float]:
            return self._layout(replace(self._settings, budget=budget), known, keep).expected_errors

        return budget_for_error(error, errors_at)

    def _budget_of_guarantees(
        self, settings: PlanSettings, known: PlanningInputs, keep: Layout | None
    ) -> int:
        """Return the smallest budget that holds what guarantees require; other queries share the default one."""
        plain = [
            each for each in self._asked.values() if each.guarantee is None and each.method != DEFAULT_METHOD
        ]
        least = settings.budget if plain else SMALLEST_BUDGET
        return least_budget(
            least,
            lambda budget: self._layout(replace(settings, budget=budget), known, keep),
            LARGEST_GUARANTEE,
        )

    def size(
        self,
        tables: Mapping[str, Any],
        *,
        rows: Mapping[str, int] | None = None,
        budgets: Sequence[str | int] = BUDGETS,
        seeds: int = SEEDS,
        statistics: Statistics | None = None,
    ) -> Sizing:
        """Return what to expect of each query at some budgets, measured on rows: `print(w.size(tables))`.

        tables: the rows of each stream, all or the first ones, as `state.update` takes them. rows: how many rows
        the streams have in all, if only a part is given. statistics: as `plan` takes them. The workload's own
        budget or error does not matter. It runs without Spark, in this process.
        """
        if not self._asked:
            raise PlanError(_NO_QUERY)
        if not isinstance(seeds, int) or seeds < 1 or not budgets:
            raise PlanError(f"size() takes at least one budget and one seed, not {budgets!r} and {seeds!r}.")
        part, first = MeasuredRows.of(self._streams, tables, rows), self._settings.seed
        return measure(
            part,
            partial(self.layout_at, samples=True, statistics=statistics),
            partial(self.layout_at, statistics=statistics),
            sorted({parse_bytes(each) for each in budgets}),
            self._windows,
            range(first, first + seeds),
        )

    def layout_at(
        self,
        budget: int,
        seed: int | None = None,
        *,
        samples: bool | None = None,
        statistics: Statistics | None = None,
    ) -> Layout:
        """Return what would be kept within another budget, under another seed, with samples or without."""
        self._check_asked()
        own = self._settings
        settings = replace(
            own,
            budget=budget,
            seed=own.seed if seed is None else seed,
            samples=own.samples if samples is None else samples,
        )
        return self._layout(settings, PlanningInputs(statistics or Statistics(), self._objective))

    def _check_asked(self) -> None:
        """Explore everything if there are no queries, or raise PlanError if that is not possible."""
        if self._asked or self._distinct_samples or self._explored:
            return
        if not self._streams or not self._settings.samples:
            raise PlanError(_NO_QUERY)
        for name in self._streams:
            self.explore(name)

    def analysis(self, *, budget: str | int = ANALYSIS_BUDGET) -> Plan:
        """Return a plan whose state has the statistics that planning uses: `plan.sketch(...).statistics()`.

        Only aggregates over joins need more than the number of rows for planning: without any, the plan counts
        rows.
        """
        settings = replace(self._settings, budget=parse_bytes(budget), samples=False)
        asked, samples = analysis_of(list(self._asked.values()), settings)
        if not self._asked and not self._distinct_samples:
            raise PlanError(_NO_QUERY)
        known = PlanningInputs()
        layout = make_layout(list(self._streams.values()), asked, settings, samples, known=known)
        layout = with_timezone(layout, self._zone())
        return Plan(layout)

    def analyze(
        self,
        spark: "SparkSession",
        frames: "Mapping[str, DataFrame | str | os.PathLike[str]]",
        *,
        budget: str | int = ANALYSIS_BUDGET,
    ) -> Statistics:
        """Return statistics of the streams from one pass over history, or over a sample of it."""
        return self.analysis(budget=budget).sketch(spark, frames).statistics()

    def __repr__(self) -> str:
        return f"Workload({len(self._streams)} streams, {len(self._asked)} queries)"


def _check_guarantees(layout: Layout) -> None:
    """Raise PlanError if guarantees take more than a workload without a budget may."""
    given = {each.name: each.guarantee.nbytes for each in layout.queries if each.guarantee is not None}
    given |= {
        each.name: group.nbytes
        for group in layout.windows
        for each in group.layout.queries
        if each.guarantee is not None
    }
    if layout.nbytes > _LARGEST_WITHOUT_BUDGET and given:
        name = max(given, key=lambda each: given[each])
        raise PlanError(
            f"the guarantees take {layout.nbytes:,} bytes, {given[name]:,} of them for query {name!r}. Larger epsilon "
            "and delta, a smaller max_distinct and narrower types of keys (INT, not BIGINT) take less; a budget of "
            "that size plans them as they are."
        )


def _reads_the_same(asked: WorkloadQuery, old: Stream, new: Stream) -> bool:
    """Return whether a query means the same on two declarations of a stream, whatever other columns they have."""
    names = names_in(asked.query.text)
    columns = [
        {column for column in each.every_column if column.name.lower() in names} for each in (old, new)
    ]
    return columns[0] == columns[1] and (old.changes, old.event_time) == (new.changes, new.event_time)


def _added(layout: Layout, old: Layout | None) -> tuple[str, ...]:
    """Return the synopses of a layout that an older one does not keep, or added later itself."""
    if old is None:
        return ()
    first = {kept.id for kept in old.kept} - set(old.added)
    return tuple(kept.id for kept in layout.kept if kept.id not in first)


def _check_held(layout: Layout, old: Layout | None, held: Mapping[str, int]) -> None:
    """Raise OverBudget if a sample that stays gets less than it holds, unless the budget was lowered."""
    if old is None or layout.budget is None or layout.budget < (old.budget or old.nbytes):
        return
    for sample in layout.samples:
        if sample.spec.budget < held.get(sample.id, 0):
            raise OverBudget(
                f"a kept sample holds {held[sample.id]:,} bytes, and {sample.spec.budget:,} are left for it: "
                "raise the budget."
            )
