"""Joins on one link once sampled, with keys that become heavy late: error, how often intervals hold, their width.

    python figures/late_joins.py [--seeds 20] [--first 7000] [--budget 64KB] [--arrivals both5,stationary]

Three streams of 60,000, 30,000 and 15,000 rows over 30,000 keys, fed together in eight batches. "late20": the last
fifth of the rows of the first stream has one key; the other streams came before. "both5": the last 5% of all three have
the same key. Truths are sums by key. To compare with another version, run it with that version's sources on PYTHONPATH.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from sample_core import Told, cell

import eddyline as el

ROWS, KEYS, BATCHES = 60_000, 30_000, 8
SCHEMAS = {"r": "a BIGINT, x BIGINT", "s": "a BIGINT", "t": "a BIGINT"}
STAR = "FROM r JOIN s ON r.a = s.a JOIN t ON r.a = t.a"
WORKLOADS = (
    {"star": f"SELECT COUNT(*) {STAR}", "star_average": f"SELECT AVG(r.x) {STAR}"},
    {
        "left_outer": "SELECT COUNT(*) FROM r LEFT JOIN s ON r.a = s.a",
        "left_average": "SELECT AVG(r.x) FROM r LEFT JOIN s ON r.a = s.a",
        "full_outer": "SELECT COUNT(*) FROM r FULL JOIN s ON r.a = s.a",
        "anti": "SELECT COUNT(*) FROM r LEFT ANTI JOIN s ON r.a = s.a",
        "semi": "SELECT COUNT(*) FROM r LEFT SEMI JOIN s ON r.a = s.a",
    },
)
ARRIVALS = ("stationary", "both5", "late20", "light to heavy")


def tables_of(arrival: str, rng: np.random.Generator) -> dict[str, pa.Table]:
    """Return the streams; r has Zipf keys, the others have uniform ones unless all are sorted."""
    share = 1.0 / np.arange(1, KEYS + 1)
    r = rng.permutation(KEYS)[rng.choice(KEYS, ROWS, p=share / share.sum())]
    s, t = rng.integers(0, KEYS, ROWS // 2), rng.integers(0, KEYS, ROWS // 4)
    if arrival == "light to heavy":
        r = r[np.lexsort((r, np.bincount(r, minlength=KEYS)[r]))]
        s, t = (r[np.sort(rng.permutation(ROWS)[: len(each)])] for each in (s, t))
    late = rng.integers(0, KEYS)
    for keys in {"both": (r, s, t), "late": (r,)}.get(arrival[:4], ()):
        keys[len(keys) - len(keys) * int(arrival[4:]) // 100 :] = late
    x = rng.integers(0, 1000, ROWS) + r % 7 * 30
    return {"r": pa.table({"a": r, "x": x}), "s": pa.table({"a": s}), "t": pa.table({"a": t})}


def truths_of(tables: dict[str, pa.Table]) -> dict[str, float]:
    """Return the exact answers, by key: the joined rows are too many for an engine that makes them."""
    r, s, t = (np.bincount(table["a"].to_numpy(), minlength=KEYS).astype(float) for table in tables.values())
    x = np.bincount(tables["r"]["a"].to_numpy(), tables["r"]["x"].to_numpy(), KEYS)
    left = np.maximum(s, 1.0)
    return {
        "star": float(r @ (s * t)),
        "star_average": float(x @ (s * t) / (r @ (s * t))),
        "left_outer": float(r @ left),
        "left_average": float(x @ left / (r @ left)),
        "full_outer": float(r @ left + s[r == 0].sum()),
        "anti": float(r[s == 0].sum()),
        "semi": float(r[s > 0].sum()),
    }


def answers(arrival: str, budget: str, seed: int) -> Iterator[Told]:
    """Yield every answer with its truth."""
    tables = tables_of(arrival, np.random.default_rng(seed))
    truths = truths_of(tables)
    together = ("r",) if arrival.startswith("late") else tuple(tables)
    for queries in WORKLOADS:
        w = el.Workload(budget=budget, seed=seed)
        for name, schema in SCHEMAS.items():
            w.stream(name, schema)
        for name, text in queries.items():
            w.query(name, text)
        state = w.plan().empty()
        for name in tables.keys() - set(together):
            state.update(name, tables[name])
        for batch in range(BATCHES):
            for name in together:
                size = len(tables[name]) // BATCHES
                state.update(name, tables[name].slice(batch * size, size))
        for name in queries:
            found = state.answer(name)
            ends = (-np.inf if found.low is None else found.low, np.inf if found.high is None else found.high)
            yield name, truths[name], float(found.value), *map(float, ends)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=7000)
    parser.add_argument("--budget", default="64KB")
    parser.add_argument("--arrivals", default=",".join(ARRIVALS))
    options = parser.parse_args()
    for arrival in options.arrivals.split(","):
        cells = defaultdict[str, list[Told]](list)
        for seed in range(options.first, options.first + options.seeds):
            for each in answers(arrival, options.budget, seed):
                cells[each[0]].append(each)
        print(f"\n{options.budget}, {arrival}: held (bounds), error, half-width", flush=True)
        for name, found in cells.items():
            print(f"  {name:14} {cell(found, options.seeds)}", flush=True)


if __name__ == "__main__":
    main()
