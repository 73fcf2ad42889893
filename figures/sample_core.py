"""Answers once sampled, by kind of answer and by how the data arrived: how often intervals hold, and how wide they are.

    python figures/sample_core.py [--seeds 20] [--first 5000] [--budgets 16KB,64KB] [--arrivals late20,growing]
    python figures/sample_core.py --only left,condition --arrivals "light to heavy"
    python figures/sample_core.py --arrivals forum,"late member" --budgets 256KB,512KB

prints for each kind and arrival how often 95% intervals hold, with the Clopper-Pearson bounds of that share (groups of
one state fail together, so that bounds count states), the root mean square of the relative error, and the median
half-width over the answer. A cell whose upper bound is below 93% is marked with "short". Constants were chosen on seeds
below 5,000. --only: the workloads that have one of these kinds. The forum (figures/bank/forum.py) has seven queries
over members, topics, notes and awards in the order of time; "late member": one comes late, and soon has most of the
joined rows.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator

import duckdb
import numpy as np
import pyarrow as pa
import scipy
from bank.dataset import Data
from bank.forum import forum, truths
from bank.growth import attached

import eddyline as el

ROWS, KEYS, FORUM_ROWS = 12_000, 2_000, 100_000
LEAST = 0.93
SCHEMAS = {
    "r": "a BIGINT, x BIGINT, m BIGINT, d BIGINT, c BIGINT",
    "s": "a BIGINT, x BIGINT, b BIGINT",
    "t": "a BIGINT",
    "u": "b BIGINT",
}
JOIN = "FROM r JOIN s ON r.a = s.a"
WORKLOADS = (
    {
        "count": f"SELECT COUNT(*) {JOIN}",
        "negative sum": f"SELECT SUM(r.m) {JOIN}",
        "mixed sum": f"SELECT SUM(r.d) {JOIN}",
        "average": f"SELECT AVG(r.x) {JOIN}",
        "variance": f"SELECT VARIANCE(r.x) {JOIN}",
    },
    {
        "left": "SELECT COUNT(*) FROM r LEFT JOIN s ON r.a = s.a",
        "left negative": "SELECT SUM(r.m) FROM r LEFT JOIN s ON r.a = s.a",
        "left average": "SELECT AVG(r.x) FROM r LEFT JOIN s ON r.a = s.a",
        "full": "SELECT COUNT(*) FROM r FULL JOIN s ON r.a = s.a",
        "anti": "SELECT COUNT(*) FROM r ANTI JOIN s ON r.a = s.a",
        "anti average": "SELECT AVG(r.x) FROM r ANTI JOIN s ON r.a = s.a",
        "semi": "SELECT COUNT(*) FROM r SEMI JOIN s ON r.a = s.a",
        "semi negative": "SELECT SUM(r.m) FROM r SEMI JOIN s ON r.a = s.a",
    },
    {
        "condition": f"SELECT COUNT(*) {JOIN} WHERE r.x < s.x",
        "condition sum": f"SELECT SUM(r.m) {JOIN} WHERE r.x < s.x",
        "condition average": f"SELECT AVG(r.x) {JOIN} WHERE r.x < s.x",
    },
    {
        "groups": f"SELECT r.c AS g, COUNT(*) AS n, SUM(r.m) AS m, AVG(r.x) AS x {JOIN} GROUP BY r.c",
        "median": f"SELECT MEDIAN(r.x) AS v, COUNT(*) AS n {JOIN}",
    },
    {"star": f"SELECT COUNT(*) {JOIN} JOIN t ON r.a = t.a"},
    {"chain": f"SELECT COUNT(*) {JOIN} JOIN u ON s.b = u.b"},
)
ARRIVALS = (
    "stationary",
    "late5",
    "late20",
    "late both",
    "light to heavy",
    "heavy to light",
    "growing",
    "churning",
)
LATE = {"late5": 5, "late20": 20, "late both": 20}
"""The percentage of the rows of r that come last and have the same key."""
FORUMS = {"forum": 0.0, "late member": 0.1}
"""Shares of the later rows that are of one new member."""
Told = tuple[str, float, float, float, float]
"""The kind of an answer, the truth, the estimate, and its ends."""


def keys_of(arrival: str, rng: np.random.Generator) -> np.ndarray:
    """Return the keys of r in the order of their arrival."""
    share = 1.0 / np.arange(1, KEYS + 1)
    keys = rng.permutation(KEYS)[rng.choice(KEYS, ROWS, p=share / share.sum())]
    if arrival == "growing":
        return attached(rng, ROWS, 0.15, 1.0)
    if arrival.startswith("late"):
        late = ROWS * LATE[arrival] // 100
        keys[ROWS - late :] = rng.integers(0, KEYS)
    if arrival.endswith(("heavy", "light")):
        counts = np.bincount(keys, minlength=KEYS)[keys]
        keys = keys[np.lexsort((keys, counts if arrival.endswith("heavy") else -counts))]
    return keys


def tables_of(arrival: str, rng: np.random.Generator) -> dict[str, pa.Table]:
    """Return the net rows of all streams.

    Where r is sorted or grows, s has the same heavy keys. "late both": a tenth of s comes late with the late key of r.
    """
    keys = keys_of(arrival, rng)
    most = max(KEYS, int(keys.max()) + 1)
    alike = arrival.endswith(("heavy", "light", "growing"))
    others = rng.permutation(keys)[: ROWS // 2] if alike else rng.integers(0, most, ROWS // 2)
    if arrival == "late both":
        others[-len(others) // 10 :] = keys[-1]
    x = rng.integers(0, 1000, ROWS) + keys % 7 * 30
    return {
        "r": pa.table({"a": keys, "x": x, "m": -10 * x, "d": x - 500, "c": keys % 5}),
        "s": pa.table(
            {"a": others, "x": rng.integers(0, 1200, ROWS // 2), "b": rng.integers(0, 300, ROWS // 2)}
        ),
        "t": pa.table({"a": rng.integers(0, most, ROWS // 4)}),
        "u": pa.table({"b": rng.integers(0, 300, ROWS // 8)}),
    }


def fed(state: el.State, tables: dict[str, pa.Table], arrival: str, rng: np.random.Generator) -> None:
    """Feed all rows in twelve batches; s before r, unless both are sorted, grow or become late together."""
    together = ("r", "s") if arrival.endswith(("both", "heavy", "light", "growing")) else ("r",)
    for name in SCHEMAS:
        if name not in together:
            state.update(name, tables[name])
    for batch in range(12):
        for name in together:
            size = len(tables[name]) // 12
            state.update(name, tables[name].slice(batch * size, size if batch < 11 else None))
        if arrival == "churning" and batch in (3, 6, 9):
            burst = tables["r"].take(rng.integers(0, ROWS, ROWS // 4))
            burst = burst.set_column(0, "a", pa.array(np.full(ROWS // 4, rng.integers(0, KEYS))))
            state.update("r", burst)
            state.update("r", burst, weights=np.full(ROWS // 4, -1))


def answers(arrival: str, budget: str, seed: int, only: frozenset[str]) -> Iterator[Told]:
    """Yield every answer of all workloads, with its truth; only: of those that have one of these kinds, if any."""
    tables = tables_of(arrival, np.random.default_rng(seed))
    connection = duckdb.connect()
    for name, table in tables.items():
        connection.register(name, table)
    for queries in WORKLOADS:
        if only and not only & queries.keys():
            continue
        w = el.Workload(budget=budget, seed=seed)
        for name, schema in SCHEMAS.items():
            w.stream(name, schema)
        for kind, text in queries.items():
            w.query(
                kind.replace(" ", "_"), text.replace(" ANTI", " LEFT ANTI").replace(" SEMI", " LEFT SEMI")
            )
        state = w.plan().empty()
        fed(state, tables, arrival, np.random.default_rng(seed + 1))
        for kind, text in queries.items():
            yield from shown(kind, state.answer(kind.replace(" ", "_")), connection.sql(text).fetchall())


def answers_of_forum(data: Data, budget: str) -> Iterator[Told]:
    """Yield the answers over a forum, with their truths."""
    w = el.Workload(budget=budget, seed=data.seed)
    for name, schema in data.schemas.items():
        w.stream(name, schema)
    for kind, text in data.queries.items():
        w.query(kind.replace(" ", "_"), text)
    state = w.plan().empty()
    for batch in data.batches("by_time"):
        state.update(batch.stream, batch.columns, weights=batch.weights)
    for kind, truth in truths(data):
        yield from shown(kind, state.answer(kind.replace(" ", "_")), truth)


def shown(kind: str, found: el.Estimate | el.Groups, truth: list[tuple[float, ...]]) -> Iterator[Told]:
    """Yield the numbers of one answer; ends that are not known are infinite."""
    if isinstance(found, el.Estimate):
        rows = [{"v": found.value, "v_low": found.low, "v_high": found.high}]
    else:
        rows = found.to_arrow().to_pylist()
    exact = {row[0]: row[1:] for row in truth} if kind == "groups" else {None: truth[0]}
    for row in rows:
        names = [name for name in row if name + "_low" in row]
        for name, right in zip(names, exact.get(row.get("g"), ()), strict=False):
            if row[name] is not None:
                low, high = row[name + "_low"], row[name + "_high"]
                ends = (-np.inf if low is None else low, np.inf if high is None else high)
                label = f"{kind} {name}" if kind == "groups" else kind
                if kind != "median" or name == "v":
                    yield label, float(right), float(row[name]), *map(float, ends)


def cell(found: list[Told], states: int) -> str:
    """Return how often intervals hold, with its bounds by the number of states, the error and the width."""
    _, truth, value, low, high = (np.array(part) for part in zip(*found, strict=True))
    slack = 1e-6 * np.abs(truth) + 1e-9
    held = (low <= truth + slack) & (truth <= high + slack)
    least, most = bounds(float(held.mean()) * states, states)
    size = np.maximum(np.abs(truth), 1e-9)
    error = np.sqrt(np.mean(((value - truth) / size) ** 2))
    width = np.median((high - low) / 2 / size)
    short = " short" if most < LEAST else ""
    return f"{held.mean():4.0%} ({least:3.0%} to {most:4.0%}) {error:7.4f} {width:7.3f}{short}"


def bounds(held: float, states: int) -> tuple[float, float]:
    """Return the Clopper-Pearson bounds of a share, at 95%."""
    low = float(scipy.stats.beta.ppf(0.025, held, states - held + 1)) if held > 0 else 0.0
    high = float(scipy.stats.beta.ppf(0.975, held + 1, states - held)) if held < states else 1.0
    return low, high


def main() -> None:
    """Print the table of each budget."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=5000)
    parser.add_argument("--budgets", default="16KB,64KB")
    parser.add_argument("--arrivals", default=",".join(ARRIVALS), help="also: " + ", ".join(FORUMS))
    parser.add_argument("--forum-rows", type=int, default=FORUM_ROWS)
    parser.add_argument("--only", default="", help="kinds of answers")
    options = parser.parse_args()
    only = frozenset(each for each in options.only.split(",") if each)
    for budget in options.budgets.split(","):
        for arrival in options.arrivals.split(","):
            cells = defaultdict[str, list[Told]](list)
            for seed in range(options.first, options.first + options.seeds):
                data = forum(seed, options.forum_rows, late=FORUMS[arrival]) if arrival in FORUMS else None
                asked = answers_of_forum(data, budget) if data else answers(arrival, budget, seed, only)
                for each in asked:
                    cells[each[0]].append(each)
            print(f"\n{budget}, {arrival}: held (bounds), error, half-width", flush=True)
            for kind, found in cells.items():
                print(f"  {kind:18} {cell(found, options.seeds)}")


if __name__ == "__main__":
    main()
