"""Describes a state and how one query is answered, as text or as plain values.

A state: how full its stream samples are, what they hold and miss, how wide each interval is. A query by sketches:
for a join of two relations the thresholds, the dense keys found, the four sub-joins with their variances, and what is
left of the second moments; for other joins the second moment of each relation and the rows that the answer is read
from. For a set expression: the level that was read, and its witnesses. For a distinct count over a join by JD
sketches: the index that was read, and the copies whose bit is set. For a join that shares sketches: W, M, the
components that it is in, and why two sketches are not one.
"""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from math import isfinite, sqrt

import numpy as np

from eddyline.answer.aggregates import weighed_unit
from eddyline.answer.distinct_joins.query import read_document_pairs
from eddyline.answer.estimate import Estimate, Number, show_end
from eddyline.answer.groups.table import Groups
from eddyline.answer.input_check import check_stream
from eddyline.answer.joins.document import SubJoins
from eddyline.answer.joins.quantities import TreeReading, read_sub_joins, read_trees
from eddyline.answer.joins.sampled import in_second_stage
from eddyline.answer.sets.query import read_document_set, read_seen_cells
from eddyline.errors import EddylineError, SketchError
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.decide.ad_hoc import readable_columns
from eddyline.plan.decide.elements import explores
from eddyline.plan.decide.facets import flags_of
from eddyline.plan.demands import DEFAULT_METHOD
from eddyline.plan.layout import Demand, Elements, PlannedQuery, PlannedSample
from eddyline.plan.show.explain import askable
from eddyline.plan.show.picture import sharing_of
from eddyline.sample.dictionary import Dictionary
from eddyline.sample.reduction import bytes_of
from eddyline.sample.spec import COUNT
from eddyline.sample.state import Record, SampleState, held_keys
from eddyline.sql.query import JoinDistinctQuery, Query, SetQuery


def explain_state(
    snapshot: Snapshot, answers: Mapping[str, Estimate | Groups | EddylineError], ways: Mapping[str, str]
) -> str:
    """Return what a state holds, as text that fits a terminal.

    answers: for every query, or why it has none. ways: how the rows of streams arrived, if known.
    """
    rows = ", ".join(f"{name} {tally.rows:,} rows" for name, tally in snapshot.tallies.items())
    lines = [f"state of plan {snapshot.layout.digest[:12]}: {rows}; {snapshot.nbytes:,} bytes"]
    lines += [f"{stream} was read {way}" for stream, way in ways.items()]
    lines += [
        f"input check: {note}" for stream in snapshot.tallies for note in check_stream(snapshot, stream)
    ]
    costs: dict[str, Record] = {}
    for planned in snapshot.layout.samples:
        lines += _sample(planned, [snapshot])
        lines += [f"  {line}" for line in askable(planned, snapshot.layout)]
        lines += [f"  {line}" for line in _column_bytes(planned, snapshot)]
        costs |= snapshot.samples[planned.id].records
    for panes in snapshot.windows.values():
        for planned in panes.group.layout.samples:
            filled = list(panes.panes.values())
            lines += _sample(planned, filled) if filled else []
            lines += [f"  in its window, {line}" for line in askable(planned, panes.group.layout)]
            costs |= filled[0].samples[planned.id].records if filled else {}
    lines.append("queries")
    for name, estimate in answers.items():
        lines.append(f"  {name}: {_sureness(estimate)}{_cost(costs.get(name))}")
    return "\n".join(lines)


def _sample(planned: PlannedSample, panes: Sequence[Snapshot]) -> Iterator[str]:
    """Yield how full a sample is over all panes, its rates once it is sampled, and which rows it holds."""
    states = [pane.samples[planned.id] for pane in panes]
    held, first = bytes_of(states), states[0]
    budget = planned.spec.kept_budget if first.grouped else planned.spec.budget
    stage = "second stage" if first.grouped else "first stage, everything is held and exact"
    if first.grouped:
        stage += (
            ", everything is still followed and exact"
            if first.follows_all
            else ", a sample of the keys is held"
        )
    yield f"{planned.id}: {held:,} of {budget:,} bytes ({held / budget:.0%}), {stage}"
    if not first.grouped or first.follows_all:
        return
    for link in range(len(planned.spec.seeds)):
        yield from (f"  {line}" for line in _link(planned, states, link))
    for place, elements in enumerate(planned.kept):
        yield f"  {_rows(planned, panes, place)}"
        if not first.nulls(place).follows_all:
            yield (
                f"  {elements.stream}: rows with NULL in {_links(elements)} at a rate of "
                f"{first.nulls(place).base:.3g}"
            )


def _column_bytes(planned: PlannedSample, snapshot: Snapshot) -> Iterator[str]:
    """Yield how many bytes the columns of each explored stream take now, in all dictionaries together."""
    state = snapshot.samples[planned.id]
    parts = planned.kept if state.grouped else planned.exact
    for stream in snapshot.layout.streams:
        if not explores(planned, stream.name):
            continue
        taken: dict[str, int] = {}
        for elements, dictionary in zip(parts, state.dictionaries, strict=True):
            for name, place in (
                readable_columns(elements, stream).items() if elements.stream == stream.name else ()
            ):
                labels = dictionary.labels[place].nbytes if place in dictionary.labels else 0
                taken[name] = taken.get(name, 0) + dictionary.elements[place].nbytes + labels
        shown = ", ".join(f"{name} {taken[name]:,}" for name in sorted(taken, key=lambda name: -taken[name]))
        yield f"bytes of the columns of {stream.name}: {shown}"


def _link(planned: PlannedSample, states: Sequence[SampleState], link: int) -> Iterator[str]:
    """Yield how many keys of a link are held, of about how many, and at which rates."""
    names = ", ".join(dict.fromkeys(_members(planned, link)))
    roster = states[0].rosters[link]
    values = held_keys(states, link)
    if roster.follows_all:
        yield f"{names}: every key is followed, {len(values):,} are in the rows that are held"
        return
    about = round(float((1.0 / roster.rates_of_held(values)).sum()))
    yield (
        f"{names}: {len(values):,} of about {about:,} keys are held: {len(roster.values):,} have rates of their own, "
        f"all others are followed at a rate of {roster.base:.3g}"
    )


def _rows(planned: PlannedSample, panes: Sequence[Snapshot], place: int) -> str:
    """Return how many rows one dictionary of a sample holds, and how many an exact total shows to be missing."""
    elements = planned.kept[place]
    dictionaries = [pane.samples[planned.id].dictionaries[place] for pane in panes]
    counted = max(
        (kept for kept in panes[0].layout.kept_for(elements.stream) if _counts(kept.demand, elements)),
        key=lambda kept: (sum(pane.total(kept.id) for pane in panes), not _condition(kept.demand), kept.id),
        default=None,
    )
    shown = f"{elements.stream} by {_links(elements)}, {sum(map(len, dictionaries)):,} elements"
    if counted is not None:
        total = sum(pane.total(counted.id) for pane in panes)
        own = sum(_held(counted.demand, elements, dictionary) for dictionary in dictionaries)
        if own <= total:
            rows = f"{own:,} of {total:,} rows{_condition(counted.demand)}"
            return f"{shown}: {rows} are held, {total - own:,} are missing"
    rows = f"{sum(int(each.total(COUNT).sum()) for each in dictionaries):,} rows"
    return f"{shown}: {rows} are held, how many are missing is not known"


def _condition(demand: Demand) -> str:
    """Return which rows a synopsis counts; empty where it counts all of them."""
    met = [f"{key} is not NULL" for key in demand.keys] + [
        f"{each.text} is not NULL" for each in demand.presence
    ]
    conditions = " and ".join([*met, *demand.predicates])
    return f" where {conditions}" if conditions else ""


def _counts(demand: Demand, elements: Elements) -> bool:
    """Return whether a dictionary would hold all rows that a synopsis counts, and could distinguish them."""
    return (
        demand.kind == "total"
        and demand.measure is None
        and elements.holds_rows_of(flags_of(demand))
        and set(flags_of(demand)) <= set(elements.flags)
        and set(demand.keys) <= set(elements.keys)
    )


def _held(demand: Demand, elements: Elements, dictionary: Dictionary) -> int:
    """Return how many rows a dictionary holds, of those that a synopsis counts."""
    chosen = np.ones(len(dictionary), dtype=np.bool_)
    for flag in flags_of(demand):
        chosen &= dictionary.flag(elements.flags.index(flag))
    for key in demand.keys:
        chosen &= ~dictionary.is_null(elements.keys.index(key))
    return int(dictionary.total(COUNT)[chosen].sum())


def _links(elements: Elements) -> str:
    return ", ".join(str(key) for key in sorted(elements.links))


def _members(planned: PlannedSample, link: int) -> Iterator[str]:
    for elements, spec in zip(planned.kept, planned.spec.kept, strict=True):
        for key, own in zip(elements.keys, spec.classes, strict=True):
            if own == link:
                yield f"{elements.stream}{key}"


def _cost(record: Record | None) -> str:
    """Return what reductions of the sample may have cost an answer, as a further clause."""
    if record is None or record.variance <= 0.0:
        return ""
    keys = "1 key" if round(record.carriers) == 1 else f"{record.carriers:,.0f} keys"
    return (
        f"; reductions of the sample may have cost it {sqrt(record.variance):.2g} of the answer (a standard error), "
        f"most of it by about {keys}"
    )


def _sureness(estimate: Estimate | Groups | EddylineError) -> str:
    """Return how sure an answer is, and what it was read from."""
    if isinstance(estimate, EddylineError):
        return f"not answered: {estimate}"
    if estimate.exact:
        return "exact"
    if isinstance(estimate, Groups):
        return f"{len(estimate):,} groups with intervals at {estimate.confidence:.0%}, by {estimate.method}"
    if not estimate.known:
        return "not known"
    error = estimate.relative_error
    if not isinstance(estimate.value, Number | Decimal):
        ends = f"from {show_end(estimate.low, low=True)} to {show_end(estimate.high)}"
        return f"{ends} at {estimate.confidence:.0%}, by {estimate.method}"
    within = f"within {error:.2g} of the answer" if isfinite(error) else "the answer may be 0"
    return f"{within} at {estimate.confidence:.0%}, by {estimate.method}"


# What a rebuild would buy, after the budget was raised.


def gain_of_rebuild(snapshot: Snapshot, budget: int) -> str | None:
    """Return what a rebuild within a larger budget would hold, None if the state lacks nothing."""
    sampled = [state for state in snapshot.samples.values() if not state.follows_all]
    if not sampled:
        return None
    held = sum(state.nbytes for state in sampled)
    whole = sum(state.nbytes / part for state in sampled if (part := state.part_of_keys) > 0)
    now, then = held / whole if whole else 0.0, min(budget / whole, 1.0) if whole else 1.0
    would = "everything, and be exact" if then >= 1.0 else f"about {then:.0%}"
    return (
        f"the samples hold about {now:.0%} of the data; keys that were dropped stay so, and no more are dropped until "
        f"the larger budget is full. `eddyline rebuild` reads the sources again and would hold {would}."
    )


Plain = str | int | float | bool | None | list["Plain"] | dict[str, "Plain"]
_SKIMMING = (DEFAULT_METHOD, "document")
"""The methods that skim joins of two relations."""
SUB_JOINS = ("dense-dense", "dense-sparse", "sparse-dense", "sparse-sparse")


def explain_query(
    snapshot: Snapshot, planned: PlannedQuery, answered: Estimate | Groups, confidence: float
) -> dict[str, Plain]:
    """Return how a query was answered: its answer, what was decided for it, and what its synopses show."""
    decision = planned.decision
    found: dict[str, Plain] = {
        "query": planned.name,
        "sql": planned.query.text,
        "method": planned.method,
        "answer": str(answered),
        "read by": answered.method,
    }
    if planned.guarantee is not None:
        given = planned.guarantee
        found["guarantee"] = {"epsilon": given.epsilon, "delta": given.delta, "theorem": given.theorem}
    if len(decision.parts) > 1:
        shares: list[Plain] = [round(share, 3) for share in decision.shares]
        found["parts"] = {"number": len(decision.parts), "shares": shares, "expected gain": decision.gain}
    if planned.sample is not None and not snapshot.samples[planned.sample].grouped:
        found["stage"] = "everything is held, and the answer is exact; sketches are those that would be kept"
        snapshot = in_second_stage(snapshot, planned.sample)
    if planned.quantities:
        found |= _synopses(snapshot, planned, confidence)
        found |= _sharing(snapshot, planned)
    return found


def _sharing(snapshot: Snapshot, planned: PlannedQuery) -> dict[str, Plain]:
    """Return W and M of a join, the components of one size that it is in, and the sketches that could not be one.

    Paper: sharing, W_Q, M_Q and the ≡-components, whose size is m_v.
    """
    sharing = sharing_of(snapshot.layout)
    weighed = next((each for each in sharing.queries if each.query == planned.name), None)
    if weighed is None:
        return {}
    own = set(planned.ids)
    components: list[Plain] = [
        {"sketches": list(each.sketches), "counters of each": each.size, "sized by": list(each.queries)}
        for each in sharing.components
        if own & set(each.sketches)
    ]
    apart: list[Plain] = [
        {"sketches": list(each.ids), "why": each.why} for each in sharing.apart if own & set(each.ids)
    ]
    found: dict[str, Plain] = {"W": weighed.weight, "M": weighed.size}
    if components:
        found["component"] = components
    if apart:
        found["two sketches that could not be one"] = apart
    return {"sharing": found}


def _synopses(snapshot: Snapshot, planned: PlannedQuery, confidence: float) -> dict[str, Plain]:
    query = planned.query
    if isinstance(query, Query) and len(query.relations) == 2 and planned.method in _SKIMMING:
        parts = read_sub_joins(snapshot, query, planned.quantities, planned.method)
        return {
            f"sketches of {name}": [_sub_joins(each, weighed_unit(query.aggregate, name)) for each in made]
            for name, made in parts.items()
        }
    if isinstance(query, Query) and query.links:
        trees = read_trees(snapshot, query, planned.quantities, planned.method)
        return {
            f"sketches of {name}": [_tree(query, each, weighed_unit(query.aggregate, name)) for each in made]
            for name, made in trees.items()
        }
    if isinstance(query, SetQuery) and planned.method == DEFAULT_METHOD:
        return _seen_cells(snapshot, planned, query)
    if isinstance(query, SetQuery):
        _, read = read_document_set(snapshot, planned, query, confidence)
        return {
            "sketches": read.copies,
            "level of the union": read.union_level,
            "filled buckets there": read.filled,
            "union": read.union,
            "level of witnesses": read.level,
            "union singletons there": read.singletons,
            "witnesses among them": read.witnesses,
        }
    if isinstance(query, JoinDistinctQuery) and planned.method != DEFAULT_METHOD:
        _, composed = read_document_pairs(snapshot, planned, query, confidence)
        return {
            "copies": composed.copies,
            "index that was read": composed.index,
            "copies whose bit is set there": composed.count,
            "values of either side, at most": [composed.left, composed.right],
            "chance to see a common join value": composed.seen,
        }
    return {}


def _seen_cells(snapshot: Snapshot, planned: PlannedQuery, query: SetQuery) -> dict[str, Plain]:
    """Return what our own sketches of a set expression show: they are read at all levels."""
    try:
        seen = read_seen_cells(snapshot, planned, query)
    except SketchError as error:
        return {"sketches": str(error)}
    if seen is None:
        return {}
    found: dict[str, Plain] = {
        "different sketches with elements": seen.streams,
        "levels, all of which are read": seen.levels,
        "cells of a level": seen.cells,
        "elements of the union that are known": seen.known,
        "witnesses among them": seen.witnesses,
    }
    return found if seen.union is None else {**found, "most likely union": seen.union}


def _tree(query: Query, found: TreeReading, unit: float) -> dict[str, Plain]:
    """Return what the sketches of a join show; sizes in the units of the answer, moments in those of the sketches."""
    relations: dict[str, Plain] = {}
    for place, relation in enumerate(query.relations):
        own: dict[str, Plain] = {"second moment": found.second_moments[place]}
        if found.left:
            own |= {"dense tuples": found.dense[place], "second moment left": found.left[place]}
        relations[relation.alias] = own
    rows = found.rows.scaled(unit)
    shown: dict[str, Plain] = {
        "relations": relations,
        "size": rows.value,
        "least and largest row": [float(rows.rows.min()), float(rows.rows.max())],
        "variance of a row": rows.row_variance,
        "rows": len(rows.rows),
    }
    return shown if found.copies is None else {**shown, "copies of a row": found.copies}


def _sub_joins(found: SubJoins, unit: float) -> dict[str, Plain]:
    """Return sub-joins as plain values; sizes in the units of the answer, the rest in those of the sketches."""
    sizes: dict[str, Plain] = {
        name: {"size": size * unit, "variance of a row": variance * unit**2}
        for name, size, variance in zip(SUB_JOINS, found.values, found.variances, strict=True)
    }
    return {
        "thresholds": list(found.thresholds),
        "dense keys": list(found.dense),
        "sub-joins": sizes,
        "second moments left": list(found.second_moments),
        "rows": len(found.rows),
    }


def as_text(found: Mapping[str, Plain]) -> str:
    """Return an explained query as text that fits a terminal."""
    return "\n".join(_lines(found, 0))


def _lines(values: Mapping[str, Plain], depth: int) -> Iterator[str]:
    pad = "  " * depth
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield f"{pad}{name}"
            yield from _lines(value, depth + 1)
        elif isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
            for number, each in enumerate(value):
                yield f"{pad}{name}" + (f", part {number + 1} of {len(value)}" if len(value) > 1 else "")
                yield from _lines(each if isinstance(each, Mapping) else {}, depth + 1)
        else:
            yield f"{pad}{name}: {_shown(value)}"


def _shown(value: Plain) -> str:
    if isinstance(value, list):
        return " and ".join(map(_shown, value))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return " ".join(str(value).split())
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
