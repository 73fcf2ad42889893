"""The largest groups of a stream once sampled, by how the data arrived: whether they are found, and their intervals.

    python figures/top_groups.py [--seeds 40] [--first 9000]

prints for each arrival and budget (a part of the bytes that all groups take) which share of the ten largest groups is
shown, how often the largest one is first, how many groups sketches show, how often their 95% intervals of COUNT, SUM
and AVG hold, and how often those of `rest` hold. Constants were chosen on seeds below 5,000.
"""

import argparse
from dataclasses import dataclass, field

import duckdb
import numpy as np
import pyarrow as pa
from bank.growth import attached

import eddyline as el

ROWS, KEYS, BATCHES = 60_000, 20_000, 20
EXPONENTS = (0.8, 1.0, 1.3)
BYTES = {"BIGINT": 14, "STRING": 24}
"""About what a group takes in an exact dictionary."""
ARRIVALS = ("stationary", "late5", "late20", "light to heavy", "heavy to light", "growing", "churning")
NAMES = ("n", "s", "m")


@dataclass
class Found:
    """What was found in one cell of the table."""

    recall: list[float] = field(default_factory=list)
    first: list[bool] = field(default_factory=list)
    held: dict[str, list[bool]] = field(default_factory=lambda: {name: [] for name in NAMES})
    errors: list[float] = field(default_factory=list)
    rest: list[bool] = field(default_factory=list)
    wrong: int = 0


def keys_of(arrival: str, rng: np.random.Generator, exponent: float) -> np.ndarray:
    """Return the groups of the rows in the order of their arrival."""
    if arrival == "growing":
        return attached(rng, ROWS, 0.15, 1.0)
    share = 1.0 / np.arange(1, KEYS + 1) ** exponent
    keys = rng.permutation(KEYS)[rng.choice(KEYS, ROWS, p=share / share.sum())]
    if arrival.startswith("late"):
        keys[ROWS - ROWS * int(arrival[4:]) // 100 :] = rng.integers(0, KEYS)
    if arrival.endswith(("heavy", "light")):
        counts = np.bincount(keys, minlength=KEYS)[keys]
        keys = keys[np.lexsort((keys, counts if arrival.endswith("heavy") else -counts))]
    return keys


def measure(arrival: str, kind: str, part: float, seed: int, into: Found) -> None:
    """Feed a stream, and compare its groups with DuckDB's."""
    rng = np.random.default_rng(seed)
    keys = keys_of(arrival, rng, EXPONENTS[seed % len(EXPONENTS)])
    values = pa.array([f"g{key}" for key in keys]) if kind == "STRING" else pa.array(keys)
    table = pa.table({"a": values, "x": rng.integers(-20, 200, ROWS)})
    budget = max(int(part * BYTES[kind] * len(np.unique(keys))), 20_000)
    w = el.Workload(budget=budget, seed=seed).stream("r", f"a {kind}, x BIGINT")
    w.query("groups", "SELECT a, COUNT(*) AS n, SUM(x) AS s, AVG(x) AS m FROM r GROUP BY a")
    state = w.plan().empty()
    for batch in range(BATCHES):
        state.update("r", table.slice(batch * ROWS // BATCHES, ROWS // BATCHES))
        if arrival == "churning" and batch in (5, 9, 13):
            burst = table.take(rng.integers(0, ROWS, ROWS // 4))
            key = values.take(pa.array(np.full(ROWS // 4, rng.integers(0, ROWS))))
            burst = burst.set_column(0, "a", key)
            state.update("r", burst)
            state.update("r", burst, weights=np.full(ROWS // 4, -1))
    compare(state.answer("groups"), table, into)


def compare(answer: el.Groups, table: pa.Table, into: Found) -> None:
    """Add one answer to a cell; groups of equal size may stand for each other."""
    connection = duckdb.connect().register("r", table)
    rows = connection.sql("SELECT a, COUNT(*), SUM(x), AVG(x) FROM r GROUP BY a").fetchall()
    truth = {key: tuple(map(float, sums)) for key, *sums in rows}
    sizes = sorted((sums[0] for sums in truth.values()), reverse=True)
    shown = sorted(answer.to_arrow().to_pylist(), key=lambda row: -row["n"])
    top = [truth.get(row["a"], (0.0,))[0] for row in shown[:10]]
    into.recall.append(sum(size >= sizes[9] for size in top) / 10)
    into.first.append(top[:1] == sizes[:1])
    seen = np.zeros(2)
    for row in shown:
        sums = truth.get(row["a"], (0.0, 0.0, 0.0))
        seen += sums[:2]
        for name, right in zip(NAMES, sums, strict=True):
            if row["exact"]:
                into.wrong += abs(row[name] - right) > 1e-6 * abs(right) + 1e-9
            elif row[name] is not None:
                into.held[name].append(row[f"{name}_low"] <= right <= row[f"{name}_high"])
        if not row["exact"]:
            into.errors.append((row["n"] - sums[0]) / max(sums[0], 1.0))
    whole = np.array([sums[:2] for sums in truth.values()]).sum(axis=0)
    for name, left in zip(NAMES, whole - seen, strict=False):
        rest = answer.rest[name]
        into.rest.append(rest.low - 1e-6 <= left <= rest.high + 1e-6)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--first", type=int, default=9000)
    parser.add_argument("--parts", default="0.125,0.33")
    parser.add_argument("--arrivals", default=",".join(ARRIVALS))
    parser.add_argument("--kinds", default="BIGINT,STRING")
    options = parser.parse_args()
    for kind in options.kinds.split(","):
        for part in map(float, options.parts.split(",")):
            print(f"\n{kind}, {part:.0%} of the bytes of all groups")
            print(
                "  arrival         recall first | by sketches: groups held COUNT SUM AVG, error | rest | wrong"
            )
            for arrival in options.arrivals.split(","):
                found = Found()
                for seed in range(options.first, options.first + options.seeds):
                    measure(arrival, kind, part, seed, found)
                held = " ".join(f"{np.mean(each):4.0%}" if each else "   -" for each in found.held.values())
                error = np.sqrt(np.mean(np.square(found.errors))) if found.errors else 0.0
                print(
                    f"  {arrival:15} {np.mean(found.recall):5.3f} {np.mean(found.first):5.2f} | "
                    f"{len(found.errors):5} {held} {error:6.3f} | {np.mean(found.rest):4.0%} | {found.wrong}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
