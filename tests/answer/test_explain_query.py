"""`state.explain("q")`: what the sketches of a query show on the way to its answer."""

import json
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import eddyline as el
from tests.data.zipf import zipf

JOIN = "SELECT COUNT(*) FROM r JOIN s ON r.k = s.k"
TEXTS = {
    "joined": JOIN,
    "summed": "SELECT SUM(r.x) FROM r JOIN s ON r.k = s.k",
    "both": "SELECT COUNT(*) FROM (SELECT k FROM r INTERSECT SELECT k FROM s)",
    "rows": "SELECT COUNT(*) FROM r",
}


def state_of(method, names=tuple(TEXTS), **settings):
    workload = el.Workload(
        seed=2, **{"budget": "2 MB", "max_distinct": 1 << 12, "samples": False, **settings}
    )
    workload.stream("r", "k SMALLINT, x DECIMAL(4,2)").stream("s", "k SMALLINT")
    for name in names:
        own = method if name in ("joined", "summed") or (name == "both" and method == "document") else None
        workload.query(name, TEXTS[name], method=own)
    state = workload.plan().empty()
    for name, shift in (("r", 0), ("s", 2)):
        keys = np.repeat(np.arange(2000), zipf(1.2, 20_000, shift=shift, domain=2000)).astype(np.int16)
        columns = {"k": keys}
        if name == "r":
            columns["x"] = pa.array([Decimal("1.25")] * len(keys), pa.decimal128(4, 2))
        state.update(name, pa.table(columns))
    return state


@pytest.mark.parametrize("method", ["document", "skimmed"])
def test_the_four_sub_joins_add_up_to_the_answer(method):
    state = state_of(method)
    for name in ("joined", "summed"):
        found = json.loads(state.explain(name, form="json"))
        quantity = "count" if name == "joined" else "sum"
        (part,) = found[f"sketches of {quantity}"]
        total = sum(each["size"] for each in part["sub-joins"].values())
        assert total == pytest.approx(float(state.answer(name).value), rel=1e-3)
        assert min(part["dense keys"]) > 3
        assert part["sub-joins"]["dense-dense"]["size"] > 0.5 * total
        for each in part["thresholds"]:
            assert each >= 0  # 0 where skimming leaves nothing


@pytest.mark.parametrize("method", ["hash", "agms"])
def test_a_join_that_is_not_skimmed_shows_its_rows_and_second_moments(method):
    state = state_of(method, ("joined", "summed"), budget="60 KB")
    squares = {"r": zipf(1.2, 20_000, shift=0, domain=2000), "s": zipf(1.2, 20_000, shift=2, domain=2000)}
    for name, unit in (("joined", 1), ("summed", 125)):  # counters of a DECIMAL(4,2) hold cents
        (part,) = json.loads(state.explain(name, form="json"))[
            f"sketches of {'count' if unit == 1 else 'sum'}"
        ]
        assert part["size"] == pytest.approx(float(state.answer(name).value), rel=1e-3)
        low, high = part["least and largest row"]
        assert low <= part["size"] <= high
        assert part.get("copies of a row", 0) > 1 or method == "hash"
        for relation, counts in squares.items():
            exact = float((counts.astype(float) ** 2).sum()) * (unit**2 if relation == "r" else 1)
            assert part["relations"][relation]["second moment"] == pytest.approx(exact, rel=0.15)


CHAIN = "SELECT COUNT(*) FROM l JOIN m ON l.x = m.x JOIN r ON m.y = r.y"


@pytest.mark.parametrize("method", ["skimmed", "hash", "agms", "document"])
def test_a_join_of_three_and_what_it_shares(method):
    workload = el.Workload(seed=2, budget="200 KB", samples=False)
    workload.stream("l", "x INT").stream("m", "x INT, y INT").stream("r", "y INT")
    workload.query("chain", CHAIN, method=method)
    # m twice, on keys that must not be hashed alike: two sketches of x that could not be one
    workload.query("again", "SELECT COUNT(*) FROM l JOIN m ON l.x = m.y JOIN r ON m.x = r.y", method=method)
    state = workload.plan().empty()
    rng = np.random.default_rng(1)
    for name, columns in {"l": "x", "m": "xy", "r": "y"}.items():
        state.update(name, pa.table({key: (rng.zipf(1.5, 3000) % 500).astype(np.int32) for key in columns}))
    found = json.loads(state.explain("chain", form="json"))
    (part,) = found["sketches of count"]
    assert set(part["relations"]) == {"l", "m", "r"}
    assert part["size"] == pytest.approx(state.answer("chain").value, rel=1e-3)
    if method == "skimmed":
        for each in part["relations"].values():
            assert each["dense tuples"] > 0
            assert each["second moment left"] < 0.1 * each["second moment"]
    sharing = found["sharing"]
    assert sharing["W"] > 0
    assert sharing["M"] > 100
    sized = [each for each in sharing["component"] if "chain" in each["sized by"]]
    assert {name for each in sized for name in each["sketches"]} >= set(state.snapshot.layout.queries[-1].ids)
    apart = sharing["two sketches that could not be one"]
    assert any("alike, and count rows that do not join" in each["why"] for each in apart), apart
    text = state.explain("chain")
    for line in ("second moment: ", "least and largest row: ", "  W: ", "sized by: ", "why: "):
        assert line in text


def test_our_own_reading_of_a_set_expression():
    state = state_of("skimmed", ("both",), budget="400 KB")
    found, answer = json.loads(state.explain("both", form="json")), state.answer("both")
    assert answer.exact
    assert found["witnesses among them"] == answer.value
    assert found["elements of the union that are known"] > answer.value
    many = el.Workload(seed=2, budget="40 KB", samples=False).stream("r", "k INT").stream("s", "k INT")
    full = many.query("both", TEXTS["both"]).plan().empty()
    for name, start in (("r", 0), ("s", 10_000)):
        full.update(name, pa.table({"k": np.arange(start, start + 30_000, dtype=np.int32)}))
    found = json.loads(full.explain("both", form="json"))
    assert 0 < found["witnesses among them"] < found["elements of the union that are known"]
    assert found["most likely union"] == pytest.approx(40_000, rel=0.2)


def test_the_witnesses_of_a_set_expression():
    state = state_of("document", ("both",))
    found = json.loads(state.explain("both", form="json"))
    assert 0 < found["witnesses among them"] <= found["union singletons there"]
    share = found["witnesses among them"] / found["union singletons there"]
    assert found["union"] * share == pytest.approx(state.answer("both").value, abs=1)
    assert "level of witnesses" in state.explain("both")


def test_the_text_and_what_is_refused():
    state = state_of("document")
    text = state.explain("joined")
    for line in (
        "dense keys: ",
        "dense-sparse",
        "thresholds: ",
        "second moments left: ",
        "read by: document",
    ):
        assert line in text
    assert "read by: exact" in state.explain("rows")
    with pytest.raises(el.PlanError, match="takes the name of a planned query"):
        state.explain("nothing")
    with pytest.raises(el.PlanError, match="name a query"):
        state.explain(form="json")


def test_while_everything_is_held_the_sketches_are_those_that_would_be_kept():
    state = state_of("document", ("joined",), samples=True)
    assert state.answer("joined").exact
    found = json.loads(state.explain("joined", form="json"))
    assert found["stage"].startswith("everything is held")
    assert found["sketches of count"][0]["rows"] >= 7
