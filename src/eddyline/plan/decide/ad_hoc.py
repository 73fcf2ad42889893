"""Ad hoc queries: SQL that was not planned, bound to columns whose values the elements of a stream sample hold.

For each relation of the query, we look for a dictionary of its stream that holds all its links together, and from
whose columns everything else that the relation reads (predicates, measures, groups) can be evaluated. A dictionary
may follow more links than the query joins on. It then holds an element only if those values are followed, too, so
they become extra links of the query that no other relation shares. An aggregate of one stream has only such links.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as changed

import msgspec
import pyarrow as pa
from msgspec.structs import replace

from eddyline.errors import PipelineError, PlanError
from eddyline.expressions.arrow_eval import evaluate
from eddyline.expressions.arrow_values import to_arrow
from eddyline.expressions.nodes import columns_of
from eddyline.expressions.times import UTC, depends_on_zone, reads_clocks_alone
from eddyline.plan.decide.elements import exact_elements, explored_class, kept_elements, later_tier
from eddyline.plan.decide.facets import EVERY_ROW, PAIRS, ROWS, Facet, guards_of, unplanned_facets
from eddyline.plan.decide.shapes import (
    classes_of,
    code_identifies,
    column_expression,
    held_expression,
    knows_links,
    one_class_each,
    shape_of,
)
from eddyline.plan.demands import WorkloadQuery
from eddyline.plan.layout import Elements, Layout, PlannedQuery, PlannedSample, Stream, Tier
from eddyline.sample.spec import SampleSpec
from eddyline.sql.query import AnyQuery, Key, Role

_INNER: Role = "inner"
_NOT_COVERED = "what is kept does not cover this query"
_NOT_ALL_ROWS = "planned queries do not read all rows, so that their exact numbers say nothing about it."


class Derived(msgspec.Struct, frozen=True):
    """A dictionary derived for one query from a held one: its source, what it holds, and what the query wants."""

    source: int
    held: Elements
    wanted: Elements


class AdHocQuery(PlannedQuery, frozen=True, kw_only=True):
    """A query that was not planned, and the dictionaries that are derived for it in both stages of its sample."""

    exact: tuple[Derived, ...]
    kept: tuple[Derived, ...]
    spec: SampleSpec
    timezone: str | None


def readable_columns(elements: Elements, stream: Stream) -> dict[str, int]:
    """Return the columns of a stream whose values a dictionary can return, each with the key that holds it."""
    names = {column_expression(column): column.name for column in stream.columns}
    names |= {held_expression(column): column.name for column in stream.columns}
    return {
        names[key.columns[0]]: position
        for position, key in enumerate(elements.keys)
        if len(key.columns) == 1
        and key.columns[0] in names
        and _is_known(elements, key)
        and not elements.guard(key.columns[0].text)
    }


def loosened(key: Key) -> Key:
    """Return the key of a link that the query does not join on: here NULL is a value like any other."""
    return replace(key, null_is_value=True)


def bind_ad_hoc(layout: Layout, name: str, query: AnyQuery, timezone: str | None) -> AdHocQuery:
    """Return a query bound to the first sample whose columns can answer it, or raise PlanError.

    timezone: the zone of the plan, None if the plan recorded no zone.
    """
    gaps, asked = [], WorkloadQuery(name, query)
    for sample in layout.samples:
        for tier in _tiers(sample, query):
            try:
                details = tuple(_bind(layout, sample, each, timezone, tier) for each in asked.details)
                return replace(_bind(layout, sample, asked, timezone, tier), details=details)
            except _Gap as gap:
                gaps.append(gap)
    raise PlanError(f"{_NOT_COVERED}: {min(gaps, key=lambda gap: gap.far)}")


class _Gap(Exception):  # noqa: N818 - it says what is missing, and never leaves this module
    """What a sample lacks for a query, with what to do about it; far: how much is missing."""

    def __init__(self, text: str, far: int) -> None:
        super().__init__(text)
        self.far = far


def _tiers(sample: PlannedSample, query: AnyQuery) -> Sequence[Tier]:
    """Return the tiers of a sample that may answer a query, the better one first.

    Joins are better answered at the rates of planned queries, one stream by the combinations of explored columns.
    """
    if later_tier(sample) == "planned":
        return ("planned",)
    return ("planned", "explored") if query.links else ("explored", "planned")


def _bind(
    layout: Layout, sample: PlannedSample, asked: WorkloadQuery, timezone: str | None, tier: Tier
) -> AdHocQuery:
    quantities = unplanned_facets(asked.query)
    classes = classes_of(sample, tier)
    whole = asked.query.is_distinct
    read = [facets for name, facets in quantities.items() if name != EVERY_ROW]
    found = [
        _Reading(layout.stream(facets[0].stream), facets, timezone).source(sample, tier, whole=whole)
        for facets in zip(*read, strict=True)
    ]
    every_row = quantities.get(EVERY_ROW) or _of_every_row(asked.query, quantities)
    if any(sample.kept[source].counted for source in found):
        if tier != later_tier(sample):
            raise _Gap(_NOT_ALL_ROWS, 0)  # the other tier holds them
        quantities.pop(EVERY_ROW, None)  # what is held of a relation is not all of its rows
        every_row = ()
    if not one_class_each(quantities, classes):
        raise _Gap(
            "it joins on columns that no planned query joins with each other: add a query that does to the workload "
            "and rebuild the state.",
            3,
        )
    linked = _with_all_links(quantities, [sample.kept[source].links for source in found])
    classes |= {(stream, loosened(key)): link for (stream, key), link in classes.items()} | classes
    whole_streams = {facet.stream for facet in every_row}
    made = _derived(sample, asked, linked, found, classes, timezone, whole_streams)
    totals = tuple(facet.demand().id for facet in every_row)
    since_first = layout.by_id.keys() - set(layout.added)
    return replace(made, totals={EVERY_ROW: totals} if totals and since_first >= set(totals) else {})


def _of_every_row(query: AnyQuery, quantities: Mapping[str, tuple[Facet, ...]]) -> tuple[Facet, ...]:
    """Return what the relations of a grouped join or a distinct count read from all their rows that could join."""
    rows = quantities.get(PAIRS) or (quantities.get(ROWS, ()) if query.links else ())
    return tuple(changed(facet, flags=(), measure=None, groups=()) for facet in rows)


def _with_all_links(
    quantities: Mapping[str, tuple[Facet, ...]], links: Sequence[frozenset[Key]]
) -> dict[str, tuple[Facet, ...]]:
    """Return the facets, with each dictionary link that the query does not join on as a link of its own."""
    first = next(iter(quantities.values()))
    number = 1 + max((variable for facet in first for variable in facet.variables), default=-1)
    added = []
    for facet, every in zip(first, links, strict=True):
        more = sorted(every - set(facet.keys))
        added.append((tuple(map(loosened, more)), tuple(range(number, number + len(more)))))
        number += len(more)
    return {
        name: tuple(
            changed(
                facet,
                keys=facet.keys + keys,
                variables=facet.variables + variables,
                roles=(*facet.roles, *(_INNER for _ in keys)) if facet.roles else (),
            )
            for facet, (keys, variables) in zip(facets, added, strict=True)
        )
        for name, facets in quantities.items()
    }


def _derived(
    sample: PlannedSample,
    asked: WorkloadQuery,
    quantities: Mapping[str, tuple[Facet, ...]],
    sources: Sequence[int],
    classes: Mapping[tuple[str, Key], int],
    timezone: str | None,
    whole_streams: Collection[str],
) -> AdHocQuery:
    """Return the query with the dictionaries that it derives from those that its relations read.

    whole_streams: those of which all rows stay, whatever the predicates, because their exact number is compared.
    """
    everything = [facet for facets in quantities.values() for facet in facets]
    guards = guards_of(everything)
    exact, kept = exact_elements(everything, (), guards), kept_elements(everything, guards, whole_streams)
    first = next(iter(quantities.values()))
    read = {(f.stream, frozenset(f.keys)): source for f, source in zip(first, sources, strict=True)}
    shape = shape_of(asked, quantities, classes, exact, kept)
    assert shape is not None
    spec = replace(
        sample.spec,
        exact=tuple(part.spec(classes) for part in exact),
        kept=tuple(part.spec(classes) for part in kept),
        regrouped=(),
        shapes=(shape,),
    )
    whole = [next(i for i, e in enumerate(sample.exact) if e.stream == part.stream) for part in exact]
    parts = [read[part.stream, part.links] for part in kept]
    return AdHocQuery(
        asked.name,
        asked.query,
        asked.method,
        {},
        sample.id,
        {},
        shape,
        exact=tuple(Derived(i, sample.exact[i], part) for i, part in zip(whole, exact, strict=True)),
        kept=tuple(Derived(i, sample.kept[i], part) for i, part in zip(parts, kept, strict=True)),
        spec=spec,
        timezone=timezone,
    )


@dataclass(frozen=True)
class _Reading:
    """What one relation of a query reads from its stream, over all quantities of the query."""

    stream: Stream
    facets: tuple[Facet, ...]
    timezone: str | None

    def source(self, sample: PlannedSample, tier: Tier, *, whole: bool) -> int:
        """Return the dictionary of a sample that answers for the relation, with the fewest links besides its own.

        Among these, a dictionary that follows combinations of explored columns comes first. whole: no other links
        are allowed, because the query asks whether values exist, or counts pairs. Raises _Gap if there is no such
        dictionary.
        """
        keys = frozenset(self.facets[0].keys)
        linked = [
            i
            for i, each in enumerate(sample.kept)
            if each.stream == self.stream.name
            and each.tier == tier
            and (keys == each.links if whole else keys <= each.links)
            and all(knows_links(each, facet) for facet in self.facets)
        ]
        if not linked:
            raise _Gap(self._not_linked(keys, "counts or joins" if whole else "joins on"), 3)
        rows = explored_class(sample, self.stream.name)
        linked.sort(key=lambda i: (len(sample.kept[i].links), rows not in sample.spec.kept[i].classes, i))
        missing = [self._missing(sample.kept[i]) for i in linked]
        fitting = [i for i, names in zip(linked, missing, strict=True) if not names]
        if not fitting:
            raise _Gap(self._not_held(min(missing, key=len)), 2)
        fitting = [i for i in fitting if all(sample.kept[i].holds_rows_of(f.flags) for f in self.facets)]
        if not fitting:
            raise _Gap(self._rows_not_held(), 1)
        for text in self._evaluated(sample.kept[fitting[0]]):
            self._check(text)
        return fitting[0]

    def _evaluated(self, elements: Elements) -> Iterator[str]:
        """Yield the expressions that the relation reads and that the dictionary does not hold directly."""
        for facet in self.facets:
            counted, measure = facet.predicates, facet.measure
            for flag in facet.flags:
                known = all(elements.knows(part.text, 0, counted) for part in flag.presence)
                if flag not in elements.flags or not known:
                    yield from flag.predicates
                    yield from (part.text for part in flag.presence)
            if measure is not None and (
                measure not in elements.measures or not elements.knows(measure.text, measure.power, counted)
            ):
                yield from (part.expression.text for part in measure.parts)
            for key in facet.groups:
                (part,) = key.columns
                if not _is_known(elements, key) or not elements.knows(part.text, 0, counted):
                    yield part.text

    def _missing(self, elements: Elements) -> list[str]:
        """Return the columns that the relation needs and whose values the dictionary cannot return."""
        read = {name for text in self._evaluated(elements) for name in columns_of(text)}
        return sorted(read - readable_columns(elements, self.stream).keys())

    def _check(self, text: str) -> None:
        """Raise _Gap unless an expression can be evaluated on elements as Spark would in the plan's zone."""
        columns = self.stream.columns
        if self.timezone is None and depends_on_zone(text, columns) and not reads_clocks_alone(text, columns):
            raise _Gap(
                f"{text!r} depends on the time zone, and the plan recorded none: give the workload timezone=, or "
                "explore a TIMESTAMP column, or add the query to the workload, and build the state again.",
                1,
            )
        empty = pa.table({each.name: pa.array([], to_arrow(each.type)) for each in self.stream.columns})
        try:
            evaluate(text, empty, self.stream.columns, self.timezone or UTC)
        except PipelineError as error:
            kinds = {each.type.kind for each in columns if each.name in columns_of(text)}
            mixed = "timestamp_ntz" in kinds and "AS TIMESTAMP)" in text
            hint = "; of a TIMESTAMP_NTZ column write TIMESTAMP_NTZ '2026-01-31 10:00:00'" if mixed else ""
            raise _Gap(
                f"{text!r} can only be evaluated by Spark, and a query that was not planned is evaluated without it: "
                f"add the query to the workload and rebuild the state{hint}.",
                1,
            ) from error

    def _not_linked(self, keys: frozenset[Key], does: str) -> str:
        if not keys:
            return self._not_held(self._missing(Elements(self.stream.name, ())))
        joined = " and ".join(str(key).replace("`", "") for key in sorted(keys))
        return (
            f"no planned query {does} {joined} of stream {self.stream.name!r}, so that its values are not followed: "
            "add a query that does to the workload and rebuild the state."
        )

    def _rows_not_held(self) -> str:
        name = self.stream.columns[0].name
        return (
            f"it counts rows of stream {self.stream.name!r} that no planned query counts, so that they are not held: "
            f'explore what queries read with w.explore("{self.stream.name}", "{name}"), or add the query to the '
            "workload, and rebuild the state."
        )

    def _not_held(self, names: Sequence[str]) -> str:
        """Return which columns are missing, and how to add them."""
        if not names:
            return "no stream sample holds its rows: add the query to the workload and rebuild the state."
        written = ", ".join(f'"{name}"' for name in names)
        return (
            f"it reads {', '.join(names)} of stream {self.stream.name!r}, whose values are not held: explore "
            f'them with w.explore("{self.stream.name}", {written}), or add the query to the workload, and '
            "rebuild the state."
        )


def _is_known(elements: Elements, key: Key) -> bool:
    """Return whether a dictionary holds a key of one column and can return its values."""
    known = key in elements.labelled or code_identifies(key)
    return key in elements.keys and known and not key.null_is_value
