"""`state.explain()` once sampled: fill, rates, rows held and missing, and the cost of reductions, against the rows."""

import re

import numpy as np
import pyarrow as pa
import pytest

import eddyline as el

ROWS, KEYS = 30_000, 6_000


def drawn(seed, nulls=0.0):
    rng = np.random.default_rng(seed)
    share = 1.0 / np.arange(1, KEYS + 1)
    keys = rng.choice(KEYS, ROWS, p=share / share.sum())
    return pa.table({"k": pa.array(keys, mask=rng.random(ROWS) < nulls), "v": rng.integers(0, 100, ROWS)})


def built(budget, queries, nulls=0.0):
    workload = el.Workload(budget=budget, seed=3)
    workload.stream("a", "k BIGINT, v BIGINT").stream("b", "k BIGINT, v BIGINT")
    for name, sql in queries.items():
        workload.query(name, sql)
    state = workload.plan().empty()
    return state.update("a", drawn(1, nulls)).update("b", drawn(2))


def numbers(pattern, text):
    found = re.search(pattern, text)
    assert found, f"{pattern} is not in\n{text}"
    return [float(each.replace(",", "")) for each in found.groups()]


COUNTED = r"([\d,]+) of ([\d,]+) rows are held, ([\d,]+) are missing"


def test_rows_and_keys_add_up_to_those_that_came():
    state = built("32 KB", {"j": "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k"})
    text = state.explain()
    (planned,) = state.snapshot.layout.samples
    sample = state.snapshot.samples[planned.id]
    full, budget = numbers(rf"{planned.id}: ([\d,]+) of ([\d,]+) bytes", text)
    assert full == sample.nbytes <= budget == planned.spec.kept_budget
    assert "second stage, a sample of the keys is held" in text
    for place, stream in enumerate(("a", "b")):
        held, total, missing = numbers(rf"{stream} by \(`k`\), [\d,]+ elements: {COUNTED}", text)
        rows = drawn(place + 1).column("k").to_numpy()
        followed = sample.dictionaries[place].key(0)
        assert total == ROWS
        assert held == np.isin(rows, followed).sum()
        assert held + missing == total
        assert missing > 0
    keys, about, own, base = numbers(
        r"([\d,]+) of about ([\d,]+) keys are held: ([\d,]+) have rates of their own, .* at a rate of ([\d.]+)",
        text,
    )
    truth = set(drawn(1).column("k").to_pylist()) | set(drawn(2).column("k").to_pylist())
    assert keys == len({*sample.dictionaries[0].key(0).tolist(), *sample.dictionaries[1].key(0).tolist()})
    assert abs(about / len(truth) - 1.0) < 0.25
    assert own == len(sample.rosters[0].values)
    assert base == pytest.approx(sample.rosters[0].base, rel=0.01)


def test_rows_under_a_predicate_are_counted_under_it():
    state = built("16 KB", {"j": "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k WHERE a.v < 50"})
    line = next(each for each in state.explain().splitlines() if each.startswith("  a by"))
    held, total, missing = numbers(
        r"([\d,]+) of ([\d,]+) rows where .*`v` < 50 are held, ([\d,]+) are missing", line
    )
    assert total == (drawn(1).column("v").to_numpy() < 50).sum()
    assert held + missing == total


def test_nulls_have_their_rate():
    state = built(
        "16 KB", {"g": "SELECT a.v, COUNT(*) AS n FROM a JOIN b ON a.k = b.k GROUP BY a.v"}, nulls=0.5
    )
    text = state.explain()
    (rate,) = numbers(r"a: rows with NULL in \(`k`\) at a rate of ([\d.e-]+)", text)
    (planned,) = state.snapshot.layout.samples
    place = next(i for i, each in enumerate(planned.kept) if each.stream == "a")
    assert rate == pytest.approx(state.snapshot.samples[planned.id].nulls(place).base, rel=0.01)


def test_reductions_have_their_price():
    state = built("32 KB", {"j": "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k"})
    (cost,) = numbers(r"j: within .* may have cost it ([\d.e-]+) of the answer", state.explain())
    (planned,) = state.snapshot.layout.samples
    record = state.snapshot.samples[planned.id].records["j"]
    assert cost == pytest.approx(record.variance**0.5, rel=0.1)


def test_nothing_is_missing_while_everything_fits():
    text = built("4 MB", {"j": "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k"}).explain()
    assert "first stage, everything is held and exact" in text
    assert "missing" not in text
    assert "cost it" not in text


def test_windows_count_the_rows_of_all_panes():
    workload = el.Workload(budget="40 KB", seed=3)
    for name in ("a", "b"):
        workload.stream(name, "k BIGINT, v BIGINT, t TIMESTAMP", event_time="t")
    workload.query("j", "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k", window="1 hour", slide="30 minutes")
    state = workload.plan().empty()
    times = pa.array(np.linspace(0, 2 * 3600e6 - 1, ROWS).astype("i8"), pa.timestamp("us", "UTC"))
    for name, seed in (("a", 1), ("b", 2)):
        state.update(name, drawn(seed).append_column("t", times))
    held, total, missing = numbers(rf"a by \(`k`\), [\d,]+ elements: {COUNTED}", state.explain())
    assert total == ROWS * 3 // 4  # three panes of half an hour, of two hours
    assert held + missing == total
    assert missing > 0
