"""Every method for every kind of query through Spark: deletes, a merge of three sites, a store and a restart.

The oracle is DuckDB on the net rows; counters are compared bit for bit with those of the net rows alone.
"""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eddyline as el
from eddyline.plan.demands import methods_of
from tests.data.documents import QUERIES, SCHEMAS, asked, by_duckdb, drawn

pytestmark = pytest.mark.spark


def workload():
    """Every query by every method that it has."""
    made = el.Workload(budget="24 MB", seed=5, samples=False, max_distinct=1 << 10)
    for name, schema in SCHEMAS.items():
        made.stream(name, f"{schema}, w INT", changes="w")
    for planned in asked(method="skimmed").plan().layout.queries:
        for method in methods_of(planned.query):
            # so much of the memory goes to wide keys that the search of their hierarchies finds dense ones
            weight = 500 if planned.name in ("ints", "longs") else 1
            made.query(named(planned.name, method), QUERIES[planned.name], method=method, weight=weight)
    made.query("two_in_parts", QUERIES["two"], method="agms", partitions=2)
    return made


def named(query, method):
    return f"{query}_{method.replace('-', '_')}"


def with_guests(seed):
    """Return the rows of a site, among them some that are inserted and deleted again, and the net rows."""
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


def statistics(net):
    """What an analysis of the net rows finds: histograms, by which a join is divided into parts."""
    analysis = workload().analysis(budget="4 MB").empty()
    for name, table in net.items():
        analysis.update(name, table.append_column("w", pa.array(np.ones(table.num_rows, dtype=np.int32))))
    return analysis.statistics()


def test_every_method_through_spark(spark, tmp_path):
    made = [with_guests(seed) for seed in (1, 2, 3)]
    net = {name: pa.concat_tables([own[name] for _, own in made]) for name in SCHEMAS}
    plan = workload().plan(statistics=statistics(net))
    queries = {each.name: each for each in plan.layout.queries}
    assert len(queries["two_in_parts"].quantities["count"].sketches) == 2
    assert (
        len(queries) == 8 * 4 + 5 * 3 + 4 * 2 + 1 + 1
    )  # joins, sets, distinct joins, rows, and the one in parts
    direct = plan.empty()
    for name, table in net.items():
        direct.update(name, table.append_column("w", pa.array(np.ones(table.num_rows, dtype=np.int32))))

    # three sites, each with a pass of its own
    states = []
    for rows, _ in made:
        frames = {name: spark.createDataFrame(table) for name, table in rows.items()}
        states.append(plan.sketch(spark, frames))
    assert el.State.from_bytes((states[0] + states[1] + states[2]).to_bytes()) == direct

    # one store that is stopped and started again: two sites before, one after
    def run(number):
        rows, _ = made[number]
        for name, table in rows.items():
            (tmp_path / name).mkdir(exist_ok=True)
            pq.write_table(table, tmp_path / name / f"{number}.parquet")
        if number == 0:
            return
        frames = {
            name: spark.readStream.schema(f"{schema}, w INT").parquet(str(tmp_path / name))
            for name, schema in SCHEMAS.items()
        }
        with plan.start(spark, frames, store=str(tmp_path / "store"), trigger="available now") as started:
            started.await_termination()

    for number in range(3):
        run(number)
    restarted = el.open(tmp_path / "store")
    assert restarted == direct
    truths = {name: by_duckdb(sql, net) for name, sql in QUERIES.items()}
    # of 57 intervals at 95%, many from the same sketches, 3 are expected to miss: more than 8 do with a chance of 0.2% if
    # they are independent; a quarter of a width further off is beyond 99.6%. Coverage over seeds: tests/answer/test_document_*
    missed = []
    for name in queries:
        estimate, truth = restarted.answer(name), truths[name.split("_")[0]]
        low, high = float(estimate.low), float(estimate.high)
        if not low <= truth <= high:
            missed.append(name)
        assert low - (high - low) / 4 <= truth <= high + (high - low) / 4, name
    assert len(missed) <= 8, missed
    for name in ("ints_document", "longs_document"):
        shown = json.loads(restarted.explain(name, form="json"))
        (read,) = (each for word, each in shown.items() if word.startswith("sketches of"))
        assert min(read[0]["dense keys"]) >= 2
