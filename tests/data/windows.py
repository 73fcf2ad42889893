"""A windowed workload, its rows, and its exact answers by hand."""

import numpy as np
import pyarrow as pa

import eddyline as el

MINUTE = 60_000_000
START = 1_700_000_000_000_000
SLIDE, PANES = 5 * MINUTE, 3
DDL = "k BIGINT, x INT, ts TIMESTAMP"
TABLES = (0, 2, 9, 11, 4, 23, 30)


def plan(keep=None):
    window = {"window": "15 minutes", "slide": "5 minutes"}
    return (
        el.Workload(budget="400 KB", seed=3, samples=False)
        .stream("a", DDL, changes="w", event_time="ts")
        .stream("b", DDL, changes="w", event_time="ts")
        .query("n", "SELECT COUNT(*) FROM a", **window)
        .query("total", "SELECT SUM(x) FROM a WHERE k < 30", **window)
        .query("pairs", "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k", **window)
        .query("n_all", "SELECT COUNT(*) FROM a")
        .plan(keep=keep)
    )


def rows(stream, minute, count=60):
    """Rows whose times lie around a minute, up to four before and after."""
    rng = np.random.default_rng([minute, ord(stream)])
    times = START + minute * MINUTE + rng.integers(-4 * MINUTE, 4 * MINUTE, count)
    return pa.table(
        {
            "k": rng.integers(0, 40, count),
            "x": rng.integers(0, 9, count).astype(np.int32),
            "w": rng.choice([1, 1, 1, -1], count),
            "ts": pa.array(times.astype("datetime64[us]"), pa.timestamp("us", "UTC")),
        }
    )


def oracle(seen):
    """Return (start, end, answers) of the last complete window over all rows seen, late or not.

    No row of these tables is late: it would have to be more than three slides behind.
    """
    whole = {stream: pa.concat_tables(tables).to_pydict() for stream, tables in seen.items() if tables}
    times = {
        stream: pa.concat_tables(tables)["ts"].cast(pa.int64()).to_numpy() for stream, tables in seen.items()
    }
    answers = {}
    for names, queries in ((("a",), ("n", "total")), (("a", "b"), ("pairs",))):
        end = max(int(times[name].max()) for name in names) // SLIDE * SLIDE
        start = end - PANES * SLIDE
        inside = {name: (times[name] >= start) & (times[name] < end) for name in names}
        for query in queries:
            answers[query] = _answer(query, {name: whole[name] for name in names}, inside)
    return start, end, answers


def _answer(query, whole, inside):
    if query == "pairs":
        net = {name: np.zeros(40, dtype=int) for name in whole}
        for name, columns in whole.items():
            np.add.at(net[name], np.array(columns["k"])[inside[name]], np.array(columns["w"])[inside[name]])
        return int(net["a"] @ net["b"])
    k, x, w = (np.array(whole["a"][name])[inside["a"]] for name in "kxw")
    return int(w.sum()) if query == "n" else int((w * x)[k < 30].sum())
