"""Intervals that hold for all groups of a table together: what their joint distribution gains over Bonferroni's rule.

    python figures/groups_together.py [--samples 40] [--groups 2000]

The same rows are sampled many times, with other hash functions. Printed for each aggregate: the median half-width of an
interval by itself and with `simultaneous=True`, over the root mean square of the group's error; how often all intervals
of the table held together; which part of their upper halves was needed for that in 95% of the samples (lower ends are
also cut at the rows that are held).
Then the 95% quantile of the largest error of the table, in standard errors of its group: of normal errors by
Bonferroni's rule, as measured, and with the samples of each group shuffled, which makes groups independent. Where the
last two agree, the joint distribution of the estimates shows nothing that their number does not.
"""

import argparse

import duckdb
import numpy as np
import pyarrow as pa

import eddyline as el
from eddyline.answer.interval import of_each
from eddyline.plan.size.specs import two_sided_z

ROWS, KEYS, SHARE = 40_000, 20_000, 0.15
TEXT = "SELECT o.g, COUNT(*) AS n, SUM(i.x) AS s, AVG(i.x) AS a FROM o JOIN i ON o.k = i.k GROUP BY o.g ORDER BY o.g"
NAMES = {"n": "COUNT", "s": "SUM", "a": "AVG"}
BYTES = 16
"""About what a row takes in memory."""


def tables_of(kind: str, groups: int) -> dict[str, pa.Table]:
    """Return groups of about equal size, whose measure has light or heavy tails, or differs in scale between groups."""
    rng = np.random.default_rng(7)
    own, keys = rng.integers(0, groups, ROWS), rng.integers(0, KEYS, ROWS)
    scale = np.exp(rng.normal(0, 1, groups)) if kind == "scales" else np.ones(groups)
    x = rng.lognormal(3, 1.5, ROWS) if kind == "heavy" else rng.gamma(2, 100, ROWS) * scale[own[keys]]
    return {
        "o": pa.table({"k": np.arange(ROWS) % KEYS, "g": own}),
        "i": pa.table({"k": keys, "x": x.astype(np.int64)}),
    }


def sampled(tables: dict[str, pa.Table], seed: int) -> el.State:
    """Return a state that holds about a given share of the rows."""
    w = el.Workload(budget=int(SHARE * 2 * ROWS * BYTES), seed=seed)
    w.stream("o", "k BIGINT, g BIGINT").stream("i", "k BIGINT, x BIGINT").query("q", TEXT)
    state = w.plan().empty()
    for name, table in tables.items():
        state.update(name, table)
    return state


def columns(found: el.Groups, groups: int) -> np.ndarray:
    """Return (value, low, high) of each aggregate by group; not a number for groups that are not shown."""
    table, made = found.to_arrow(), np.full((len(NAMES), 3, groups), np.nan)
    at = table["g"].to_numpy()
    for place, name in enumerate(NAMES):
        for end, suffix in enumerate(("", "_low", "_high")):
            made[place, end, at] = table[name + suffix].cast(pa.float64()).to_numpy(zero_copy_only=False)
    return made


def report(name: str, truth: np.ndarray, alone: np.ndarray, together: np.ndarray) -> str:
    """Return a row of the table; alone, together: (samples, 3, groups)."""
    often = np.isfinite(alone).all(axis=1).mean(axis=0) > 0.9
    truth, alone, together = truth[often], alone[:, :, often], together[:, :, often]
    error = alone[:, 0] - truth
    rms = np.sqrt(np.nanmean(error**2, axis=0))
    half, wide = ((each[:, 2] - each[:, 1]) / 2 / rms for each in (alone, together))
    used = np.where(error < 0, -error / np.maximum(together[:, 2] - together[:, 0], 1e-9), 0.0)
    needed = np.quantile(np.nanmax(used, axis=1), 0.95)
    missed = (together[:, 1] > truth + 1e-9) | (truth > together[:, 2] + 1e-9)
    held = 1.0 - missed.any(axis=1).mean()
    rng, scaled = np.random.default_rng(1), np.nan_to_num(np.abs(error) / rms)
    largest = np.quantile(scaled.max(axis=1), 0.95)
    shuffled = np.quantile(rng.permuted(scaled, axis=0).max(axis=1), 0.95)
    bonferroni = two_sided_z(of_each(0.95, len(truth)))
    parts = (np.nanmedian(half), np.nanmedian(wide), held, needed, bonferroni, largest, shuffled)
    return f"| {name} | {len(truth)} | " + " | ".join(f"{each:.2f}" for each in parts) + " |"


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=40)
    parser.add_argument("--groups", type=int, default=2000)
    options = parser.parse_args()
    print("| measure | groups | alone | together | held | needed | Bonferroni | largest | shuffled |")
    print("| --- |" + " --- |" * 8)
    for kind in ("light", "scales", "heavy"):
        tables = tables_of(kind, options.groups)
        with duckdb.connect() as connection:
            for name, table in tables.items():
                connection.register(name, table)
            rows = np.array(connection.sql(TEXT).fetchall(), dtype=np.float64)
        truth = np.full((len(NAMES), options.groups), np.nan)
        truth[:, rows[:, 0].astype(int)] = rows[:, 1:].T
        found = {way: list[np.ndarray]() for way in (False, True)}
        for seed in range(options.samples):
            state = sampled(tables, seed)
            for way, each in found.items():
                each.append(columns(state.answer("q", simultaneous=way), options.groups))
        alone, together = (np.array(each) for each in found.values())
        for place, name in enumerate(NAMES.values()):
            print(report(f"{kind}, {name}", truth[place], alone[:, place], together[:, place]), flush=True)


if __name__ == "__main__":
    main()
