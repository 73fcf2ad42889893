"""Explains one query of a state: what its synopses show on the way to the answer, as text or as plain values.

For a join of two relations by sketches: the thresholds, the dense keys found, the four sub-joins with their
variances, and what is left of the second moments. For a set expression by the document's sketches: the level that
was read, and its witnesses. For a distinct count over a join by JD sketches: the index that was read, and the
copies whose bit is set there.
"""

from collections.abc import Iterator, Mapping

from eddyline.answer.aggregates import weighed_unit
from eddyline.answer.distinct_joins.query import read_document_pairs
from eddyline.answer.estimate import Estimate
from eddyline.answer.groups.table import Groups
from eddyline.answer.joins.document import SubJoins
from eddyline.answer.joins.quantities import read_sub_joins
from eddyline.answer.joins.sampled import in_second_stage
from eddyline.answer.sets.query import read_document_set
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.demands import DEFAULT_METHOD
from eddyline.plan.layout import PlannedQuery
from eddyline.sql.query import JoinDistinctQuery, Query, SetQuery

Plain = str | int | float | bool | None | list["Plain"] | dict[str, "Plain"]
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
    return found


def _synopses(snapshot: Snapshot, planned: PlannedQuery, confidence: float) -> dict[str, Plain]:
    query = planned.query
    if isinstance(query, Query) and len(query.relations) == 2:
        parts = read_sub_joins(snapshot, query, planned.quantities, planned.method)
        return {
            f"sketches of {name}": [_sub_joins(each, weighed_unit(query, name)) for each in made]
            for name, made in parts.items()
        }
    if isinstance(query, SetQuery) and planned.method != DEFAULT_METHOD:
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
