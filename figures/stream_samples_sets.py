"""Distinct counts and set expressions from stream samples and from theta sketches at equal bytes.

Two streams hold 60,000 of 90,000 keys each, half of them in common. Three queries: the distinct keys of one stream,
those of both, those of the first only. The budget is an eighth of the bytes of the exact dictionaries, for all three
queries together; the theta sketches of the two streams have the same bytes, at 8 a key. Three moments:

    inserts     all rows are in
    halved      the rows of half of the keys were deleted again; theta, which cannot delete, is built from what is left
    shrunk      of a hundred keys one is left; next to it, Workload(samples=False), whose sketches never wear out

    python figures/stream_samples_sets.py [--seeds 40]

prints RMS errors relative to the exact answer, coverage of the 95% intervals, and the ratio to theta.
"""

import argparse
from collections import defaultdict

import numpy as np

import eddyline as el

KEYS, HELD, COMMON = 90_000, 60_000, 30_000
QUERIES = {
    "distinct": "SELECT COUNT(DISTINCT k) FROM a",
    "both": "SELECT COUNT(*) FROM (SELECT k FROM a INTERSECT SELECT k FROM b)",
    "first_only": "SELECT COUNT(*) FROM (SELECT k FROM a EXCEPT SELECT k FROM b)",
}
LEFT = {"inserts": 1, "halved": 2, "shrunk": 100}
"""One of this number of keys is left."""


def plan(budget: int, seed: int, *, samples: bool) -> el.Plan:
    """Return the plan of the three queries."""
    made = el.Workload(budget=budget, seed=seed, samples=samples, max_distinct=1 << 20)
    for name in "ab":
        made.stream(name, "k BIGINT")
    for name, text in QUERIES.items():
        made.query(name, text)
    return made.plan()


def drawn(seed: int) -> dict[str, np.ndarray]:
    """Return the keys of both streams."""
    keys = np.random.default_rng(seed).choice(1 << 40, KEYS, replace=False)
    return {"a": keys[:HELD], "b": keys[HELD - COMMON : 2 * HELD - COMMON]}


def gone(keys: np.ndarray, share: int) -> np.ndarray:
    """Return the keys that are deleted so that one of `share` is left: the same ones in both streams."""
    return keys[keys % share != 0] if share > 1 else keys[:0]


def state_of(made: el.Plan, streams: dict[str, np.ndarray], share: int) -> el.State:
    """Return the state after all inserts, in ten batches, and then the deletes."""
    state = made.empty()
    for part in range(10):
        for name, keys in streams.items():
            state.update(name, {"k": keys[part::10]})
    for name, keys in streams.items():
        out = gone(keys, share)
        state.update(name, {"k": out}, -np.ones(len(out), dtype=np.int64))
    return state


def theta(streams: dict[str, np.ndarray], size: int, seed: int) -> dict[str, float]:
    """Return the answers of theta sketches of n bytes a stream: the smallest hashes, and the first left out."""
    rng = np.random.default_rng(seed)
    keys = np.unique(np.concatenate(list(streams.values())))
    hashes = dict(zip(keys.tolist(), rng.random(len(keys)).tolist(), strict=True))
    kept, rates = [], []
    for own in streams.values():
        ordered = sorted(hashes[key] for key in own.tolist())
        rates.append(ordered[size // 8] if len(ordered) > size // 8 else 1.0)
        kept.append({each for each in ordered if each < rates[-1]})
    rate = min(rates)
    left, right = ({each for each in own if each < rate} for own in kept)
    return {
        "distinct": len(kept[0]) / rates[0],
        "both": len(left & right) / rate,
        "first_only": len(left - right) / rate,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--share", type=int, default=8, help="the budget, as a part of the exact bytes")
    arguments = parser.parse_args()
    errors: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    covered: dict[tuple[str, str, str], list[bool]] = defaultdict(list)
    for seed in range(arguments.seeds):
        streams = drawn(seed)
        exact_bytes = state_of(plan(1 << 28, seed, samples=True), streams, 1).nbytes
        budget = exact_bytes // arguments.share
        plans = {"ours": plan(budget, seed, samples=True)}
        plans["sketches only"] = plan(max(budget, 60_000), seed, samples=False)
        for moment, share in LEFT.items():
            left = {name: np.setdiff1d(keys, gone(keys, share)) for name, keys in streams.items()}
            a, b = set(left["a"].tolist()), set(left["b"].tolist())
            truth = {"distinct": len(a), "both": len(a & b), "first_only": len(a - b)}
            for method, made in plans.items():
                state = state_of(made, streams, share)
                for name in QUERIES:
                    found = state.answer(name)
                    errors[moment, name, method].append(found.value / truth[name] - 1)
                    covered[moment, name, method].append(found.low <= truth[name] <= found.high)
            for name, value in theta(left, budget // 2, seed + 1).items():
                errors[moment, name, "theta"].append(value / truth[name] - 1)
    print(f"{arguments.seeds} seeds, {budget:,} bytes")
    print("| moment | query | ours | coverage | theta | ratio | sketches only |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for moment in LEFT:
        for name in QUERIES:
            rms = {m: float(np.sqrt(np.mean(np.square(errors[moment, name, m])))) for m in (*plans, "theta")}
            ratio = rms["ours"] / rms["theta"] if rms["theta"] else float("nan")
            print(
                f"| {moment} | {name} | {rms['ours']:.2%} | {np.mean(covered[moment, name, 'ours']):.1%} "
                f"| {rms['theta']:.2%} | {ratio:.2f} | {rms['sketches only']:.2%} |"
            )


if __name__ == "__main__":
    main()
