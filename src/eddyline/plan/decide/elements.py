"""What a stream sample holds of each stream: the plan of dictionaries.

All facets of a stream share its exact dictionary; facets on the same links share a dictionary of the second stage.
Keys that some query equates are one link class, whose values all streams follow together.
"""

import dataclasses
import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from eddyline.plan.decide.exploring import explored_keys
from eddyline.plan.decide.facets import Facet, element_keys, facets_of, flags_of
from eddyline.plan.decide.guards import guards_of
from eddyline.plan.decide.held_columns import code_tells
from eddyline.plan.decide.shapes import shape_of
from eddyline.plan.demands import WorkloadQuery, pair_demands
from eddyline.plan.layout import (
    Demand,
    Elements,
    Flag,
    Guard,
    KeptSynopsis,
    Measure,
    PlannedSample,
    as_first_written,
)
from eddyline.sample.spec import Regrouped, SampleSpec
from eddyline.sketch.hash_families import derive_seed
from eddyline.sql.query import JoinDistinctQuery, Key


def plan_sample(
    asked: Sequence[WorkloadQuery],
    sketches: Sequence[KeptSynopsis],
    seed: int,
    budget: int,
    kept_budget: int,
    taken: Collection[str] = (),
) -> PlannedSample:
    """Return the stream sample of some queries: what is kept of their streams, and how they read it.

    sketches: what stands beside it in the second stage, all of which is built from the exact dictionaries. Their ids
    begin with the sample's, because two samples may keep sketches of equal demands. taken: ids of other samples.
    """
    facets = {each.name: facets_of(each.query) for each in asked}
    explored = explored_keys(asked)
    everything = [
        _with_columns(facet, explored.get(facet.stream, ()))
        for quantities in facets.values()
        for quantity in quantities.values()
        for facet in quantity
    ]
    classes = _classes(facets.values())
    pairs = [
        d for each in asked if isinstance(each.query, JoinDistinctQuery) for d in pair_demands(each.query)
    ]
    demands = [*(kept.demand for kept in sketches), *pairs]
    guards = guards_of(everything, demands)
    exact = exact_elements(everything, demands, guards, explored)
    kept = kept_elements(everything, guards, explored)
    shapes = tuple(
        made
        for each in asked
        if (made := shape_of(each, facets[each.name], classes, exact, kept)) is not None
    )
    spec = SampleSpec(
        tuple(part.spec(classes) for part in exact),
        tuple(part.spec(classes) for part in kept),
        tuple(_regrouped(part, exact) for part in kept),
        tuple(derive_seed(seed, "link class", link) for link in range(len(set(classes.values())))),
        shapes,
        budget,
        kept_budget,
    )
    name = _sample_id((exact, kept, spec.exact, spec.kept, spec.seeds, tuple(sketches)), taken)
    beside = tuple(replace(each, id=f"{name}/{each.id}") for each in sketches)
    return PlannedSample(name, exact, kept, spec, beside)


def _with_columns(facet: Facet, explored: Sequence[Key]) -> Facet:
    """Return a facet whose dictionaries hold explored columns as they hold group columns."""
    return dataclasses.replace(facet, groups=tuple(dict.fromkeys((*facet.groups, *explored))))


def _sample_id(content: tuple[object, ...], taken: Collection[str]) -> str:
    """Return a name by content, which survives other queries coming and going, and is not taken."""
    for number in range(len(taken) + 1):
        written = msgspec.json.decode(msgspec.json.encode((*content, number) if number else content))
        encoded = msgspec.json.encode(as_first_written(written))
        name = f"sample-{hashlib.blake2b(encoded, digest_size=4).hexdigest()}"
        if name not in taken:
            return name
    raise AssertionError


def _classes(queries: Iterable[Mapping[str, tuple[Facet, ...]]]) -> dict[tuple[str, Key], int]:
    """Return the link class of every key of a stream: keys that a query equates are in one."""
    groups: list[set[tuple[str, Key]]] = []
    for quantities in queries:
        met: dict[int, set[tuple[str, Key]]] = {}
        for facet in next(iter(quantities.values()), ()):
            for key, variable in zip(facet.keys, facet.variables, strict=True):
                met.setdefault(variable, set()).add((facet.stream, key))
        for keys in met.values():
            joined = keys.union(*(group for group in groups if group & keys))
            groups = [group for group in groups if not group & keys] + [joined]
    ordered = sorted(groups, key=lambda group: msgspec.json.encode(sorted(group)))
    return {key: link for link, group in enumerate(ordered) for key in group}


Guards = Mapping[str, tuple[Guard, ...]]
"""The guards of each stream: the same for all its dictionaries, so that they hold the same of a row."""


def exact_elements(
    facets: Iterable[Facet], demands: Iterable[Demand], guards: Guards, whole: Collection[str] = ()
) -> tuple[Elements, ...]:
    """Return what the exact dictionary of each stream holds: all that any query or synopsis reads of it.

    whole: streams of which every row is held, because nobody knows what will be asked.
    """
    parts = [(f.stream, *_part(f)) for f in facets]
    parts += [
        (d.stream, set(element_keys(d)), set(flags_of(d)), {d.measure} - {None}, set()) for d in demands
    ]
    return tuple(
        _merged(stream, [part[1:] for part in parts if part[0] == stream], guards, whole)
        for stream in sorted({part[0] for part in parts})
    )


def kept_elements(
    facets: Iterable[Facet], guards: Guards, whole: Collection[str] = ()
) -> tuple[Elements, ...]:
    """Return what each dictionary of the second stage holds: facets of a stream on the same keys share one."""
    found: dict[tuple[str, frozenset[Key]], list[_Part]] = {}
    for facet in facets:
        found.setdefault((facet.stream, frozenset(facet.keys)), []).append(_part(facet))
    return tuple(sorted(_merged(stream, parts, guards, whole) for (stream, _), parts in found.items()))


_Part = tuple[set[Key], set[Flag], set[Measure | None], set[Key]]
"""Links, flags, measures and groups that a dictionary must hold."""


def _part(facet: Facet) -> _Part:
    return set(facet.keys), set(facet.flags), {facet.measure} - {None}, set(facet.groups)


def _merged(stream: str, parts: Sequence[_Part], guards: Guards, whole: Collection[str]) -> Elements:
    links, flags, measures, groups = (set().union(*column) for column in zip(*parts, strict=True))
    used = {part.text for key in links | groups for part in key.columns}
    used |= {part.text for flag in flags for part in flag.presence} | {m.expression.text for m in measures}
    labelled = (key for key in groups if not code_tells(key))
    counted = () if stream in whole else _counted([part[1] for part in parts], sorted(flags))
    return Elements(
        stream,
        tuple(sorted(links | groups)),
        tuple(sorted(flags)),
        tuple(sorted(measures)),
        tuple(sorted(groups - links)),
        tuple(sorted(labelled)),
        counted,
        tuple(guard for guard in guards.get(stream, ()) if guard.text in used),
    )


def _counted(wanted: Sequence[set[Flag]], flags: Sequence[Flag]) -> tuple[tuple[int, ...], ...]:
    """Return the flags, by position, of which rows carry all for some reader; none where one reads every row."""
    least = [one for one in wanted if not any(other < one for other in wanted)]
    places = {tuple(sorted(flags.index(flag) for flag in one)) for one in least}
    return () if () in places else tuple(sorted(places))


def _regrouped(part: Elements, exact: Sequence[Elements]) -> Regrouped:
    source = next(i for i, each in enumerate(exact) if each.stream == part.stream)
    whole = exact[source]
    return Regrouped(
        source,
        tuple(whole.keys.index(key) for key in part.keys),
        tuple(whole.flags.index(flag) for flag in part.flags),
        tuple(column for measure in part.measures for column in whole.columns(measure)),
    )
