"""`partitions=` of a query: a number of parts that is asked for, next to samples and in shared workloads."""

import numpy as np
import pyarrow as pa
import pytest

import eddyline as el
from tests.oracles.duckdb_sql import exact

JOIN = "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k"


def tables(rows=3000):
    """Return two relations that rank their keys differently."""
    rng = np.random.default_rng(1)
    return {
        "a": pa.table({"k": (rng.zipf(1.5, rows) % 400).astype(np.int16)}),
        "b": pa.table({"k": 400 - (rng.zipf(1.5, rows) % 400).astype(np.int16)}),
    }


def asked(partitions="auto", *, method="agms", **settings):
    made = el.Workload(seed=1, **{"budget": "60 KB", "samples": False, **settings})
    made.stream("a", "k SMALLINT").stream("b", "k SMALLINT")
    return made.query("q", JOIN, method=method, partitions=partitions)


@pytest.fixture(scope="module")
def statistics():
    state = asked().analysis(budget="4 MB").empty()
    for name, table in tables().items():
        state.update(name, table)
    return state.statistics()


@pytest.mark.parametrize("method", ["agms", "hash", "skimmed", "document"])
@pytest.mark.parametrize("partitions", [2, 3, "off"])
def test_a_join_has_the_parts_that_were_asked_for(statistics, method, partitions):
    plan = asked(partitions, method=method, budget="200 KB").plan(statistics=statistics)
    (planned,) = plan.layout.queries
    wanted = 1 if partitions == "off" else partitions
    assert len(planned.quantities["count"].sketches) == wanted
    state, rows = plan.empty(), tables()
    for name, table in rows.items():
        state.update(name, table)
    answer = state.answer("q")
    assert answer.low <= exact(JOIN, rows) <= answer.high
    if wanted > 1 and method != "agms":
        assert f"part {wanted} of {wanted}" in state.explain("q")


def test_parts_next_to_a_sample_and_in_a_shared_workload(statistics):
    workload = asked(2, method="agms", samples=True, budget="16 KB")
    workload.query("same", "SELECT COUNT(*) FROM a x JOIN b y ON x.k = y.k", method="agms", partitions="off")
    plan = workload.plan(statistics=statistics)
    parts = {each.name: len(each.quantities["count"].sketches) for each in plan.layout.queries}
    assert parts == {"q": 2, "same": 1}
    state, rows = plan.empty(), tables()
    for name, table in rows.items():
        state.update(name, table)
    answer = state.answer("q", method="agms")
    assert answer.low <= exact(JOIN, rows) <= answer.high


def test_what_cannot_be_divided_is_refused(statistics):
    with pytest.raises(el.PlanError, match="needs histograms"):
        asked(2).plan()
    with pytest.raises(el.PlanError, match="next to a sample"):
        asked(2, method="skimmed", samples=True)
    with pytest.raises(el.PlanError, match="is not a number from 1 on"):
        asked(0)
    with pytest.raises(el.PlanError, match="has no effect on it; only sketches of joins"):
        asked().query("d", "SELECT COUNT(DISTINCT k) FROM a", partitions=2)


def test_a_plan_to_keep_with_other_parts_or_another_guarantee_is_not_taken_for_the_same(statistics):
    plan = asked(2, budget="200 KB").plan(statistics=statistics)
    again = asked(2, budget="200 KB").plan(statistics=statistics, keep=plan)
    assert again.layout == plan.layout
    other = asked(3, budget="400 KB").plan(statistics=statistics, keep=plan)
    assert len(other.layout.queries[0].quantities["count"].sketches) == 3
    made = el.Workload(seed=1, samples=False, hash="poly4", budget="400 KB").stream("a", "k SMALLINT")
    text = "SELECT COUNT(DISTINCT k) FROM a"
    old = made.query("d", text, method="document").plan()
    sized = el.Workload(seed=1, samples=False, hash="poly4", budget="900 MB").stream("a", "k SMALLINT")
    with pytest.raises(el.PlanError, match="is not sized for the guarantee"):
        sized.query("d", text, method="document", guarantee=(0.3, 0.2)).plan(keep=old)
