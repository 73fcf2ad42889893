"""Every method for every kind of query through Spark: deletes, a merge of three sites, a store and a restart."""

import numpy as np
import pyarrow as pa
import pytest

import eddyline as el
from tests.data.documents import QUERIES, SCHEMAS, by_duckdb, drawn

pytestmark = pytest.mark.spark

METHODS = {
    "hash": ("two", "mean", "chain"),
    "agms": ("two", "mean", "chain"),
    "document": tuple(QUERIES)[:-1],
    "document-copies": ("distinct", "union", "both", "except", "nested"),
}


def workload():
    made = el.Workload(budget="16 MB", seed=5, samples=False, max_distinct=1 << 10)
    for name, schema in SCHEMAS.items():
        made.stream(name, f"{schema}, w INT", changes="w")
    for method, names in METHODS.items():
        for name in names:
            made.query(f"{name}_{method.replace('-', '_')}", QUERIES[name], method=method)
    return made


def with_guests(seed):
    """Return the rows of a site, among them some that are inserted and deleted again."""
    own, guests = drawn(seed, rows=300), drawn(seed + 50, rows=100)
    return {
        name: pa.concat_tables(
            [
                table.append_column("w", pa.array(np.full(table.num_rows, weight, dtype=np.int32)))
                for table, weight in ((own[name], 1), (guests[name], 1), (guests[name], -1))
            ]
        )
        for name in SCHEMAS
    }, own


def test_every_method_through_spark(spark, tmp_path):
    plan = workload().plan()
    made = [with_guests(seed) for seed in (1, 2, 3)]
    states = []
    for rows, _ in made:
        frames = {name: spark.createDataFrame(table) for name, table in rows.items()}
        states.append(plan.sketch(spark, frames))
    merged = el.State.from_bytes((states[0] + states[1] + states[2]).to_bytes())
    net = {name: pa.concat_tables([own[name] for _, own in made]) for name in SCHEMAS}
    direct = plan.empty()
    for name, table in net.items():
        direct.update(name, table.append_column("w", pa.array(np.ones(table.num_rows, dtype=np.int32))))
    assert merged == direct
    everything = {
        name: spark.createDataFrame(pa.concat_tables([rows[name] for rows, _ in made])) for name in SCHEMAS
    }
    plan.start(spark, everything, store=str(tmp_path / "store"), trigger="available now").stop()
    restarted = el.open(tmp_path / "store")
    assert restarted == direct
    for method, names in METHODS.items():
        for name in names:
            estimate = restarted.answer(f"{name}_{method.replace('-', '_')}")
            truth = by_duckdb(QUERIES[name], net)
            assert estimate.low <= truth <= estimate.high, (method, name)
