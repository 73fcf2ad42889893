"""The documents' own experiments through Workload: what each claims, its method as written, and the product.

    python figures/reproduce.py 000|001|002|003|004|all [--quick] [--seeds 10] [--spark] [--into build/reproduce]
        [--page docs/reference/documents/claims.md]

Writes claims.csv and claims.md into a directory of its own, never over figures/data, and prints the tables. With
--page, the tables of the documents that were run replace those on a page.
Errors are |estimate / exact - 1|, the mean over seeds; an answer that is not known counts as 0. Every method of a
line has the same budget in bytes. `document` is method="document" under samples=False; `product` is a Workload
without options. A row with a weight stands for as many equal rows: sketches are the same bit for bit. With --spark, a
small state of each document is also made by Spark, and has to be equal to the one that is made without.
"""

import argparse
import os
import platform
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import sharing
from join_distinct_shapes import SHAPES, answers, tuples_of
from regions import Space, chain
from reproduce_lines import (
    MULTI_JOIN,
    OWN,
    SKETCHES,
    WORD,
    Drawn,
    Line,
    Row,
    errors_of,
    filled,
    markdown,
    mean_errors,
    of_query,
    planned,
    put_on_page,
    tables,
    weighted,
    write,
)
from reproduce_multijoin import multi_joins
from sharing_data import tpch_setting, zipf_setting

ELEMENTS, KEYS, UNION, TUPLES = 4_000_000, 1 << 16, 1 << 18, 3000
FEW = {name: SKETCHES[name] for name in ("document", "our sketches", "product")}
PAIR_BUDGET = 64_000_000
EPSILON, DELTA = 0.45, 0.4
THEOREM = (
    "within epsilon but for a chance of delta, s1 = O(e(p) log(1/delta) / epsilon), "
    "s2 = O(log(1/delta) / epsilon^3)"
)
WITNESSES = (
    "Compose tests for a common witness; IntersectionEstimator >= 1, as written, sees fewer common values and is in "
    "`figures/join_distinct.py` and in tests alone"
)
SMOKE_ROWS = 2000


def zipf_pair(exponent: float, shift: int, elements: int, seed: int) -> Drawn:
    """Return two Zipf streams, one of them shifted, and their join."""
    shares = np.arange(1, KEYS + 1, dtype=np.float64) ** -exponent
    left, right = np.random.default_rng([5, seed]).multinomial(elements, shares / shares.sum(), size=2)
    right = np.roll(right, shift)
    keys = (np.arange(KEYS) - (1 << 15)).astype(np.int16)
    streams = {
        name: ("k SMALLINT", weighted({"k": keys[own > 0]}, own[own > 0]))
        for name, own in (("f", left), ("g", right))
    }
    return streams, "SELECT COUNT(*) FROM f JOIN g ON f.k = g.k", float(left @ right)


def skimmed(seeds: int, *, quick: bool) -> Iterator[Line]:
    """FIG. 5 of the skimmed-sketch document."""
    cases = [
        (exponent, shift, 2000) for exponent in (1.0, 1.5) for shift in ((100,) if quick else (50, 100, 300))
    ]
    if not quick:
        cases += [(exponent, 100, words) for exponent in (1.0, 1.5) for words in (1000, 4000)]
    for exponent, shift, words in cases:
        budget = 2 * words * WORD
        yield Line(
            "000",
            "FIG. 5",
            "skimmed sketches have roughly half the relative error of basic sketches (AGMS)",
            f"Zipf {exponent} against its shift by {shift}, {words:,} words a stream",
            budget,
            seeds,
            mean_errors(partial(zipf_pair, exponent, shift, ELEMENTS), budget, seeds, SKETCHES),
            f"{ELEMENTS:,} elements as in the document; it gives no domain and no s2: 2^16 keys, all of which "
            "are tried for density, s2 as the planner has it",
        )


SHARING = "errors are generally a factor of two smaller with sharing, more with workload 2"
TPCH_SCALE, TPCH_BUDGET = "0.01", 250_000
ARRANGEMENTS = {"separate": "document, not shared", "shared": "document", "product": "product"}


def shared(seeds: int, *, quick: bool) -> Iterator[Line]:
    """FIG. 9 of the sharing document, and the largest error that planning for the average leaves."""
    setting = zipf_setting()
    known = sharing.analysed(setting)
    for name in ("1", "3") if quick else ("1", "2", "3"):
        budgets = setting.budgets[name]
        for budget in (budgets[len(budgets) // 2],) if quick else budgets:
            average: dict[str, float] = {}
            largest: dict[str, float] = {}
            for objective, arrangement in (
                *(("average", each) for each in ARRANGEMENTS),
                *(("largest", each) for each in ("separate", "shared")),
            ):
                run = sharing.Run(name, objective, arrangement, 1000 * budget)  # type: ignore[arg-type]
                lines = sharing.measure(setting, run, known, seeds)
                label = ARRANGEMENTS[arrangement]
                worst = max(
                    float(str(line["rms_error"])) * float(str(line["weight"])) ** 0.5 for line in lines
                )
                if objective == "average":
                    average[label] = float(np.mean([float(str(line["mean_error"])) for line in lines]))
                    if arrangement != "product":
                        largest[f"{label}, planned for the average"] = worst
                else:
                    largest[label] = worst
            for measured, errors in (
                ("mean relative error over queries", average),
                ("largest root of weight times mean squared error", largest),
            ):
                yield Line(
                    "001",
                    "FIG. 9",
                    SHARING,
                    f"workload {name}: {measured}",
                    1000 * budget,
                    seeds,
                    errors,
                    "Zipf streams of 50 to 4,000 rows in place of TPC-H; FIG. 7 cannot be read: edges are numbered as "
                    "figures/sharing_queries.py says; the document's plans know statistics; the product's sample holds "
                    "all of these rows",
                )
    if not quick:
        yield from shared_tpch(seeds)


def shared_tpch(seeds: int) -> Iterator[Line]:
    """FIG. 9 on TPC-H's own keys, which the document's atomic sketches cannot join: our methods alone."""
    setting = tpch_setting(TPCH_SCALE)
    known = sharing.analysed(setting)
    for name in ("1", "3"):
        errors = {}
        for arrangement, label in (
            ("separate", "our sketches, not shared"),
            ("shared", "our sketches"),
            ("product", "product"),
        ):
            lines = sharing.measure(
                setting, sharing.Run(name, "average", arrangement, TPCH_BUDGET), known, seeds
            )
            errors[label] = float(np.mean([float(str(line["mean_error"])) for line in lines]))
        yield Line(
            "001",
            "FIG. 9",
            SHARING,
            f"workload {name}, TPC-H at scale {TPCH_SCALE}: mean relative error over queries",
            TPCH_BUDGET,
            seeds,
            errors,
            "FIG. 7 cannot be read: edges are as figures/sharing_queries.py numbers them; TPC-H's keys are out of reach"
            " of the document's atomic sketches: ours in their place; at scale 0.1: `figures/sharing.py --only tpch`",
        )


def set_streams(figure: str, share: float, union: int, seed: int) -> Drawn:
    """Return the streams of an expression that holds a share of their union, and the expression."""
    one = {name: f"SELECT k FROM {name}" for name in "abc"}
    texts = {
        "FIG. 4A": f"{one['a']} INTERSECT {one['b']}",
        "FIG. 4B": f"{one['a']} EXCEPT {one['b']}",
        "FIG. 4C": f"({one['a']} EXCEPT {one['b']}) INTERSECT {one['c']}",
    }
    keys = np.random.default_rng(seed).choice(1 << 31, union, replace=False).astype(np.int32)
    inside = int(union * share)
    first, second, third = np.split(keys, [inside, inside + (union - inside) // 2])
    held = {"a": (first, second), "b": (second, third), "c": (first, third)}
    if figure == "FIG. 4A":
        held = {"a": (first, second), "b": (first, third)}
    elif figure == "FIG. 4B":
        del held["c"]
    streams = {
        name: ("k INT", weighted({"k": np.concatenate(own)}, np.ones(sum(map(len, own)))))
        for name, own in held.items()
    }
    return streams, f"SELECT COUNT(*) FROM ({texts[figure]})", float(inside)


def sets(seeds: int, *, quick: bool) -> Iterator[Line]:
    """FIG. 4 of the document on set expressions."""
    for sketches in (256,) if quick else (256, 512):
        for figure, streams in (("FIG. 4A", 2), ("FIG. 4B", 2), ("FIG. 4C", 3)):
            for share in (1 / 2,) if quick else (1 / 2, 1 / 4, 1 / 8):
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
                    mean_errors(partial(set_streams, figure, share, UNION), budget, seeds, FEW),
                    f"union of {UNION:,}; the time-efficient form, whose sketches are a power of two, in 33 counters "
                    "of 8 bytes a bucket; means are not trimmed; the three expressions of one seed read the same "
                    "hash functions",
                )


def tuple_streams(shape: str, seed: int) -> Drawn:
    """Return two streams of tuples, and the distinct pairs that join."""
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


def distinct_joins(seeds: int, *, quick: bool) -> Iterator[Line]:
    """Yield lines on the theorem of the join-distinct document, which has no experiments."""
    for shape in ("random, |B| = n/10",) if quick else ("random, |B| = n/10", "random, |B| = n", "Zipf on b"):
        draw = partial(tuple_streams, shape)
        errors = mean_errors(draw, PAIR_BUDGET, seeds, {"document": SKETCHES["document"], **OWN})
        errors |= {"product at 64 KB": mean_errors(draw, 64_000, seeds, OWN)["product"]}
        yield Line(
            "003",
            "theorem of 0060",
            THEOREM,
            f"{shape}, {TUPLES:,} tuples a side",
            PAIR_BUDGET,
            seeds,
            errors,
            f"the document has no experiments; 64 MB is our choice, not sized by the theorem; {WITNESSES}; where the "
            "product's error is 0, its sample holds all rows",
        )
    if quick:
        return
    sized = {"guarantee": (EPSILON, DELTA), "method": "document", "max_distinct": 1 << 12}
    for shape in ("key - foreign key", "random, |B| = n", "random, |B| = n/10"):
        draw = partial(tuple_streams, shape)
        found = errors_of(draw, None, seeds, {"document": sized})["document"]
        streams, sql, _ = draw(1)
        yield Line(
            "003",
            "theorem of 0060",
            THEOREM,
            f"{shape}, {TUPLES:,} tuples a side, sized by the theorem at ({EPSILON}, {DELTA})",
            planned(streams, sql, None, 1, None, sized).nbytes,
            seeds,
            {
                "document": float(np.mean(found)),
                "document, share that misses": float(np.mean(np.array(found) > EPSILON)),
            },
            f"the document has no experiments; smaller epsilon take 1 / epsilon^4 as much; {WITNESSES}; pairs share "
            "values of a and c, which the theorem does not allow for",
        )


PARTS = {"000": skimmed, "001": shared, "002": sets, "003": distinct_joins, "004": multi_joins}


def smokes() -> Iterator[tuple[str, Drawn, int, dict[str, Any]]]:
    """Yield a small query of each document, with its budget and its method."""
    document = SKETCHES["document"]
    yield "000", zipf_pair(1.0, 100, SMOKE_ROWS, 1), 32_000, document
    yield "001", of_query(chain(Space(2, tuples=SMOKE_ROWS), 3, 2)), 32_000, MULTI_JOIN["document"]
    yield "002", set_streams("FIG. 4C", 0.5, SMOKE_ROWS, 1), 3_300_000, document
    yield "003", tuple_streams("random, |B| = n/10", 1), PAIR_BUDGET // 2, document
    yield "004", of_query(chain(Space(2, tuples=SMOKE_ROWS), 3, 1)), 72_000, MULTI_JOIN["document"]


def through_spark(name: str) -> None:
    """Make a small state of a document by Spark, and raise AssertionError unless it equals the one made without."""
    from eddyline.spark.session import local_session  # noqa: PLC0415 - only where it is asked for

    spark = local_session()
    for document, (streams, sql, _), budget, given in smokes():
        if document == name:
            plan = planned(streams, sql, budget, 1, None, given)
            frames = {each: spark.createDataFrame(table) for each, (_, table) in streams.items()}
            if plan.sketch(spark, frames) != filled(plan, streams):
                raise AssertionError(f"{name}: Spark's state differs")
            print(f"{name}: the state that Spark makes is the same", flush=True)


def main() -> None:
    """Run the documents' experiments, write both files, and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("document", choices=[*PARTS, "all"])
    parser.add_argument("--quick", action="store_true", help="2 seeds and fewer settings")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument(
        "--spark", action="store_true", help="also make a small state of each document by Spark"
    )
    parser.add_argument("--page", type=Path, help="a page whose tables are replaced")
    parser.add_argument("--into", type=Path, default=Path("build") / "reproduce")
    options = parser.parse_args()
    options.into.mkdir(parents=True, exist_ok=True)
    lines: list[Line] = []
    took: dict[str, Row] = {}
    began = time.perf_counter()
    for name, part in PARTS.items():
        if options.document in (name, "all"):
            start, used = time.perf_counter(), time.process_time()
            seeds = 2 if options.quick else options.seeds
            for line in part(seeds, quick=options.quick):
                lines.append(line)
                write(options.into, lines, took)
            minutes, cpu = (time.perf_counter() - start) / 60, time.process_time() - used
            took[name] = str(seeds), f"{minutes:.1f}", f"{cpu:.0f}", machine()
            print(f"{name}: {minutes:.1f} minutes, {cpu:.0f} CPU seconds", flush=True)
            if options.spark:
                through_spark(name)
    write(options.into, lines, took)
    if options.page is not None:
        put_on_page(options.page, tables(lines, took))
    print(markdown(tables(lines, took)))
    print(f"\n{time.perf_counter() - began:.0f} s in all; written to {options.into}")


def machine() -> str:
    """Return what the machine and its software are, without names."""
    load = os.getloadavg()[2]
    return (
        f"{os.cpu_count()} cores ({platform.machine()}), load {load:.0f} at the end, Python "
        f"{platform.python_version()}, NumPy {np.__version__}"
    )


if __name__ == "__main__":
    main()
