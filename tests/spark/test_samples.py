"""Stream samples through Spark: exact while they fit, the same bytes as without Spark, within budget when they spill."""

import numpy as np
import pyarrow as pa
import pytest

import eddyline as el
from eddyline.ingest import projection as stream_spec
from eddyline.ingest.arrow_path import project_table, read_table
from eddyline.ingest.projection import TIME
from eddyline.ingest.stream_pass import StreamPass
from eddyline.spark.tasks import Merger, Report, partial_rows, report_row
from tests.oracles.duckdb_sql import exact, net_rows

pytestmark = pytest.mark.spark

QUERIES = {
    "chain": "SELECT COUNT(*) FROM r JOIN s ON r.a = s.a JOIN t ON s.b = t.b",
    "money": "SELECT SUM(r.x) FROM r JOIN s ON r.a = s.a JOIN t ON s.b = t.b WHERE t.y > 3",
    "sold": "SELECT SUM(r.x) FROM r JOIN s ON r.a = s.a",
    "mean": "SELECT AVG(r.x) FROM r JOIN s ON r.a = s.a",
    "seen": "SELECT COUNT(DISTINCT a) FROM s",
    "both": "SELECT COUNT(*) FROM (SELECT a FROM r INTERSECT SELECT a FROM s)",
    "pairs": "SELECT COUNT(DISTINCT r.x, s.b) FROM r JOIN s ON r.a = s.a",
    "rows": "SELECT COUNT(*) FROM s WHERE b > 10",
}


DUCKDB = {"pairs": "SELECT COUNT(*) FROM (SELECT DISTINCT r.x, s.b FROM r JOIN s ON r.a = s.a)"}


def make_plan(budget):
    w = el.Workload(budget=budget, seed=3, max_distinct=1 << 20)
    w.stream("r", "a BIGINT, x INT").stream("s", "a BIGINT, b BIGINT", changes="w").stream(
        "t", "b BIGINT, y INT"
    )
    for name, sql in QUERIES.items():
        w.query(name, sql)
    return w.plan()


def make_tables(rows, values):
    rng = np.random.default_rng(7)

    def skewed():
        return (values * rng.random(rows) ** 3).astype(np.int64)

    a = pa.array(skewed(), mask=rng.random(rows) < 0.02)
    x, y = (rng.integers(0, 50, rows).astype(np.int32) for _ in range(2))
    # deletes undo rows that are there: the first fifth of s, once more with weight -1
    first, second = skewed(), skewed()
    gone = rows // 5
    return {
        "r": pa.table({"a": a, "x": x}),
        "s": pa.table(
            {
                "a": np.concatenate([first, first[:gone]]),
                "b": np.concatenate([second, second[:gone]]),
                "w": np.concatenate([np.ones(rows, np.int64), -np.ones(gone, np.int64)]),
            }
        ),
        "t": pa.table({"b": skewed(), "y": y}),
    }


def truths(tables):
    weights = tables["s"]["w"].to_pylist()
    net = {**tables, "s": net_rows(tables["s"].drop_columns("w"), weights)}
    return {name: exact(DUCKDB.get(name, sql), net) for name, sql in QUERIES.items()}


def sketched(spark, plan, tables, partitions=7):
    frames = {name: spark.createDataFrame(table).repartition(partitions) for name, table in tables.items()}
    return plan.sketch(spark, frames)


def test_what_fits_is_exact_and_the_same_as_without_spark(spark):
    plan, tables = make_plan("4 MB"), make_tables(3000, 400)
    state, arrow = sketched(spark, plan, tables), plan.empty()
    for name, table in tables.items():
        arrow.update(name, table)
    assert state == arrow
    assert state.to_bytes() == arrow.to_bytes()
    for name, exact_value in truths(tables).items():
        found = state.answer(name)
        assert found.exact, name
        assert found.method == "exact"
        assert found.value == pytest.approx(exact_value, rel=1e-12), name


def test_what_does_not_fit_stays_within_its_budget_and_its_intervals(spark):
    plan, tables = make_plan("2 MB"), make_tables(150_000, 100_000)
    state = sketched(spark, plan, tables)
    assert state.nbytes <= plan.nbytes
    assert any(sample.grouped for sample in state.snapshot.samples.values())
    for name, exact_value in truths(tables).items():
        found = state.answer(name)
        assert found.exact == (name == "rows")
        assert found.low <= exact_value <= found.high, name


def test_tasks_that_outgrow_their_room_go_over_by_themselves(monkeypatch):
    """Tasks and merges hold a bounded number of elements: what they send is under rosters of their own."""
    plan, tables = make_plan("2 MB"), make_tables(60_000, 50_000)
    small = plan.layout.samples[0].spec.budget // 8
    monkeypatch.setattr(stream_spec.SampleTask, "bytes_allowed", property(lambda _: small))
    state = plan.empty()
    for name, table in tables.items():
        parts = [Merger(state.snapshot.stream_spec(name)) for _ in range(2)]
        for start in range(0, table.num_rows, 10_000):
            task = StreamPass(state.snapshot.stream_spec(name), TIME)
            stream = plan.layout.stream(name)
            rows, weights = read_table(stream, table.slice(start, 10_000), None)
            task.feed(project_table(stream, rows, weights, task.projection, None))
            report = Report(task.tally)
            for row in (report_row(report), *partial_rows(task)):
                parts[start // 10_000 % 2].take(*row)
        for row in parts[1].rows():
            parts[0].take(*row)
        state.snapshot = state.snapshot.plus_stream(name, parts[0].stream_pass())
    assert state.nbytes <= plan.nbytes
    assert {name: tally.rows for name, tally in state.snapshot.tallies.items()} == {
        name: table.num_rows for name, table in tables.items()
    }
    for name, exact_value in truths(tables).items():
        found = state.answer(name)
        assert found.low <= exact_value <= found.high, name
