"""A line of `reproduce.py`: what a document claims and what was measured; and how a state of a query is measured."""

import csv
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec.structs import replace
from regions import JoinQuery

import eddyline as el
from eddyline.plan.partition.histograms import Histogram, equi_depth

WORD = 8
OWN: dict[str, dict[str, Any]] = {"product": {}}
SKETCHES: dict[str, dict[str, Any]] = {
    "agms": {"samples": False, "method": "agms"},
    "document": {"samples": False, "method": "document"},
    "our sketches": {"samples": False},
    **OWN,
}
MULTI_JOIN = {"document": SKETCHES["agms"], "our sketches": SKETCHES["our sketches"], **OWN}
"""The multi-join document's own method is AGMS, for joins of two relations as well."""
Streams = dict[str, tuple[str, pa.Table]]
Drawn = tuple[Streams, str, float]
"""The streams of a query with their schemas, its SQL, and its exact answer."""


@dataclass(frozen=True)
class Line:
    """A figure of a document: what it claims, what was measured, and how the set-up differs."""

    document: str
    figure: str
    claim: str
    setting: str
    budget: int
    seeds: int
    errors: dict[str, float]
    differences: str


@dataclass(frozen=True)
class Parts:
    """Into how many parts a join is divided at most, and by histograms of how many buckets."""

    most: int
    buckets: int


def planned(
    streams: Streams, sql: str, budget: int | None, seed: int, parts: Parts | None, given: dict[str, Any]
) -> el.Plan:
    """Return the plan of one query; parts take statistics of the same data."""
    made = asked(streams, sql, budget, seed, given, parts.most if parts is not None else "off")
    return made.plan(
        statistics=None if parts is None else known_of(streams, sql, (parts.buckets,))[parts.buckets]
    )


def asked(
    streams: Streams, sql: str, budget: int | None, seed: int, given: dict[str, Any], partitions: int | str
) -> el.Workload:
    """Return the workload of one query."""
    made = el.Workload(**{"budget": budget, "seed": seed, "max_distinct": 1 << 20, **given})
    for name, (schema, _) in streams.items():
        made.stream(name, f"{schema}, w BIGINT", changes="w")
    return made.query("q", sql, partitions=partitions)


def known_of(streams: Streams, sql: str, buckets: Iterable[int]) -> dict[int, el.Statistics]:
    """Return what an analysis of the data shows, for each number of buckets that its histograms may have."""
    made = asked(streams, sql, 1_000_000, 1, {"samples": False}, "auto")
    found = filled(made.analysis(), streams).statistics()
    return {
        most: replace(
            found, histograms={name: coarser(each, most) for name, each in found.histograms.items()}
        )
        for most in buckets
    }


def coarser(histogram: Histogram, buckets: int) -> Histogram:
    """Return a histogram with at most that many buckets, whose squares are not known, as in the document."""
    found = equi_depth(np.array(histogram.lows), np.array(histogram.rows), buckets)
    ends = np.append(np.searchsorted(histogram.lows, found.lows), len(histogram.lows))
    distinct = np.add.reduceat(histogram.distinct, ends[:-1])
    return Histogram(found.lows, histogram.high, found.rows, tuple(distinct.tolist()))


def filled(plan: el.Plan, streams: Streams) -> el.State:
    """Return the state of a plan after all rows."""
    state = plan.empty()
    for name, (_, table) in streams.items():
        state.update(name, table)
    return state


def mean_errors(
    draw: Callable[[int], Drawn],
    budget: int | None,
    seeds: int,
    methods: dict[str, dict[str, Any]],
    parts: Parts | None = None,
) -> dict[str, float]:
    """Return the mean relative error of each method over seeds, which draw data and hash functions."""
    return {
        name: float(np.mean(errors))
        for name, errors in errors_of(draw, budget, seeds, methods, parts).items()
    }


def errors_of(
    draw: Callable[[int], Drawn],
    budget: int | None,
    seeds: int,
    methods: dict[str, dict[str, Any]],
    parts: Parts | None = None,
) -> dict[str, list[float]]:
    """Return the relative errors of each method, one for each seed."""
    found: dict[str, list[float]] = {name: [] for name in methods}
    for seed in range(1, seeds + 1):
        streams, sql, truth = draw(seed)
        for name, given in methods.items():
            answer = filled(planned(streams, sql, budget, seed, parts, given), streams).answer("q")
            assert isinstance(answer, el.Estimate)
            found[name].append(abs(float(answer.value or 0) / truth - 1))
    return found


def weighted(columns: dict[str, np.ndarray], counts: np.ndarray) -> pa.Table:
    """Return rows with how often each occurs."""
    return pa.table({**columns, "w": counts.astype(np.int64)})


def of_query(query: JoinQuery) -> Drawn:
    """Return the streams and the SQL of a join query; a relation that occurs twice is one stream."""
    names = {id(relation): f"r{index}" for index, relation in reversed(list(enumerate(query.relations)))}
    streams: Streams = {}
    places: dict[int, list[str]] = {}
    for index, (relation, links) in enumerate(zip(query.relations, query.links, strict=True)):
        columns = {f"k{place}": keys.astype(np.int64) for place, keys in enumerate(relation.keys)}
        schema = ", ".join(f"{name} BIGINT" for name in columns)
        streams[names[id(relation)]] = schema, weighted(columns, relation.counts)
        for place, link in enumerate(links):
            places.setdefault(link, []).append(f"x{index}.k{place}")
    tables = ", ".join(f"{names[id(each)]} x{index}" for index, each in enumerate(query.relations))
    joins = " AND ".join(f"{left} = {right}" for left, right in places.values())
    return streams, f"SELECT COUNT(*) FROM {tables} WHERE {joins}", query.exact()


Row = tuple[str, ...]
HEADS: tuple[Row, ...] = (
    ("document", "seeds", "minutes", "CPU seconds", "on"),
    ("document", "figure", "what the document claims", "differences of set-up"),
    ("document", "figure", "setting", "bytes", "seeds", "error"),
)
"""The tables: how long each document took, what it claims, and what was measured."""


def tables(lines: list[Line], took: dict[str, Row]) -> list[list[Row]]:
    """Return the rows of the three tables."""
    claims = dict.fromkeys((line.document, line.figure, line.claim, line.differences) for line in lines)
    measured = []
    for line in lines:
        errors = ", ".join(f"{name} {value:.3g}" for name, value in line.errors.items())
        setting = line.setting.replace("|", "\\|")
        measured.append((line.document, line.figure, setting, f"{line.budget:,}", str(line.seeds), errors))
    return [[(name, *rest) for name, rest in took.items()], list(claims), measured]


def markdown(found: list[list[Row]]) -> str:
    """Return the tables as Markdown."""
    parts = []
    for head, rows in zip(HEADS, found, strict=True):
        shown = [head, ("---",) * len(head), *rows]
        parts.append("\n".join(f"| {' | '.join(row)} |" for row in shown))
    return "\n\n".join(parts)


BEGIN, END = "<!-- scripts/reproduce --page writes what follows -->\n\n", "\n\n<!-- end of it -->"


def put_on_page(page: Path, found: list[list[Row]]) -> None:
    """Write the tables into a page; rows of documents that were not run stay."""
    before, _, rest = page.read_text().partition(BEGIN)
    old, _, after = rest.partition(END)
    ran = {row[0] for row in found[0]}
    merged = []
    for rows, text in zip(found, old.split("\n\n"), strict=True):
        cells = (line.removeprefix("| ").removesuffix(" |").split(" | ") for line in text.splitlines()[2:])
        kept = [tuple(each) for each in cells if each[0] not in ran]
        merged.append(sorted([*kept, *rows], key=lambda row: row[0]))
    page.write_text(before + BEGIN + markdown(merged) + END + after)


def write(folder: Path, lines: list[Line], took: dict[str, Row]) -> None:
    """Write both files: after every line, so that an interrupted run leaves what it has."""
    (folder / "claims.md").write_text(markdown(tables(lines, took)) + "\n")
    plain = [field.name for field in fields(Line) if field.name != "errors"]
    with (folder / "claims.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*plain, "method", "error"])
        for line in lines:
            for method, error in line.errors.items():
                writer.writerow([*(getattr(line, name) for name in plain), method, f"{error:.5g}"])
