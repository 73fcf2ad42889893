"""`partitions=` of a query: a number of parts that is asked for, next to samples and in shared workloads."""

import numpy as np
import pyarrow as pa
import pytest

import eddyline as el
from eddyline.plan.partition.histograms import equi_depth
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
    with pytest.raises(el.PlanError, match="with a stream sample"):
        asked(2, method="skimmed", samples=True)
    with pytest.raises(el.PlanError, match="is not a whole number of 1 or more"):
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
    with pytest.raises(el.PlanError, match="too small for the requested guarantee"):
        sized.query("d", text, method="document", guarantee=(0.3, 0.2)).plan(keep=old)


CHAIN = "SELECT COUNT(*) FROM l JOIN m ON l.x = m.x JOIN r ON m.y = r.y"


def test_cells_have_independent_hash_functions():
    """Both cells read all values of m.y = r.y: with common signs their atomic estimates would be equal."""
    y = np.arange(100)
    rows = {
        "l": pa.table({"x": np.repeat([0, 1], [100, 1])}),
        "m": pa.table({"x": np.repeat([0, 1], [100, 10_000]), "y": np.concatenate([y, np.repeat(y, 100)])}),
        "r": pa.table({"y": y}),
    }

    def asked():
        made = el.Workload(seed=3, budget="400 KB", samples=False)
        made.stream("l", "x BIGINT").stream("m", "x BIGINT, y BIGINT").stream("r", "y BIGINT")
        return made.query("q", CHAIN, method="agms", partitions=2)

    analysis = asked().analysis(budget="4 MB").empty()
    for name, table in rows.items():
        analysis.update(name, table)
    plan = asked().plan(statistics=analysis.statistics())
    state = plan.empty()
    for name, table in rows.items():
        state.update(name, table)
    (cells,) = (each.quantities["count"].sketches for each in plan.layout.queries)
    assert len(cells) == 2
    copies = min(len(state.snapshot.counters[name]) for cell in cells for name in cell)
    atomic = [np.prod([state.snapshot.counters[name][:copies] for name in cell], axis=0) for cell in cells]
    assert abs(np.corrcoef(*atomic)[0, 1]) < 5 / copies**0.5  # 5 standard errors of independent copies
    assert state.answer("q").low <= exact(CHAIN, rows) <= state.answer("q").high
    text = plan.explain()
    assert text.count("% of the words: x ") == 2
    assert "partitioned into 2 parts" in text


def test_auto_divides_next_to_a_sample_and_in_a_shared_workload_where_it_pays(statistics):
    sampled = asked(method="agms", samples=True, budget="16 KB").plan(statistics=statistics)
    assert len(sampled.layout.queries[0].decision.parts) == 4
    shared = asked(method="agms")
    shared.query("again", "SELECT COUNT(*) FROM b JOIN a ON a.k = b.k", method="agms", weight=0.001)
    plan = shared.plan(statistics=statistics)
    parts = {each.name: len(each.decision.parts) for each in plan.layout.queries}
    assert parts["q"] == 4
    for each in plan.layout.queries:
        assert each.decision.independent == (parts[each.name] > 1)


TYPED = {
    "DATE": lambda keys: pa.array(keys.astype("datetime64[D]")),
    "TIMESTAMP": lambda keys: pa.array((keys * 10**6).astype("datetime64[us]"), pa.timestamp("us", "UTC")),
    "TIMESTAMP_NTZ": lambda keys: pa.array((keys * 10**6).astype("datetime64[us]")),
    "DECIMAL(10,2)": lambda keys: (
        pa.array(keys.astype(np.int32)).cast(pa.decimal128(12, 2)).cast(pa.decimal128(10, 2))
    ),
    "STRING": lambda keys: pa.array([f"k{key:04}" for key in keys]),
}


@pytest.mark.parametrize("kind", TYPED)
def test_every_key_type_that_can_have_a_histogram(kind):
    """An analysis makes histograms of integers and dates; those of other types can be given."""
    rows = {
        name: pa.table({"k": TYPED[kind](table["k"].to_numpy().astype(np.int64))})
        for name, table in tables().items()
    }

    def asked():
        made = el.Workload(seed=1, budget="60 KB", samples=False)
        made.stream("a", f"k {kind}").stream("b", f"k {kind}")
        return made.query("q", JOIN, method="agms", partitions=3)

    histograms = {}
    for name, table in rows.items():
        counted = table["k"].value_counts()
        values = [each.as_py()["values"] for each in counted]
        written = [
            float(value)
            if kind.startswith("DECIMAL")
            else value
            if isinstance(value, str)
            else value.isoformat().removesuffix("+00:00")
            for value in values
        ]
        counts = np.array([each.as_py()["counts"] for each in counted])
        histograms[f"{name} on (k)"] = equi_depth(np.array(written), counts, 50)
    plan = asked().plan(statistics=el.Statistics({}, {}, {}, histograms))
    assert len(plan.layout.queries[0].decision.parts) == 3
    state = plan.empty()
    for name, table in rows.items():
        state.update(name, table)
    held = [
        sum(abs(state.snapshot.counters[name]).sum() > 0 for name in cell)
        for cell in plan.layout.queries[0].quantities["count"].sketches
    ]
    assert sum(held) >= 4  # rows of both sides are in cells, not left out
    answer = state.answer("q")
    assert answer.low <= exact(JOIN, rows) <= answer.high
