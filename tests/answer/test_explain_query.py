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


@pytest.mark.parametrize("method", ["document", "skimmed", "hash"])
def test_the_four_sub_joins_add_up_to_the_answer(method):
    state = state_of(method)
    for name in ("joined", "summed"):
        found = json.loads(state.explain(name, form="json"))
        quantity = "count" if name == "joined" else "sum"
        (part,) = found[f"sketches of {quantity}"]
        total = sum(each["size"] for each in part["sub-joins"].values())
        if method != "hash":  # its answer is the median over rows, not their mean
            assert total == pytest.approx(float(state.answer(name).value), rel=1e-3)
            assert min(part["dense keys"]) > 3
            assert part["sub-joins"]["dense-dense"]["size"] > 0.5 * total
        else:
            assert part["dense keys"] == [0, 0]
            assert part["sub-joins"]["sparse-sparse"]["size"] == total
        assert all(each >= 0 for each in part["thresholds"])  # 0 where skimming leaves nothing


def test_the_witnesses_of_a_set_expression():
    state = state_of("document")
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
