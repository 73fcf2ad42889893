"""Every row is in one place when tasks, merges of tasks and the driver each lower rates by themselves."""

import numpy as np
import pyarrow as pa
import pytest

import eddyline as el
from eddyline.ingest import projection as stream_spec
from eddyline.ingest.arrow_path import project_table, read_table
from eddyline.ingest.projection import TIME
from eddyline.ingest.stream_pass import StreamPass
from eddyline.spark.tasks import Merger, Report, partial_rows, report_row
from tests.oracles.rest_sketches import check, fed, plan_of, rows_of, table_of

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("room", [1 << 26, 4_000])
def test_tasks_and_merges_keep_every_row_in_one_place(monkeypatch, room):
    monkeypatch.setattr(stream_spec.SampleTask, "bytes_allowed", property(lambda _: room))
    plan, before, rows = plan_of(), rows_of(7101), rows_of(7102, 24_000)
    state, table = fed(plan.empty(), before), table_of(rows)
    stream = plan.layout.stream("r")
    parts = [Merger(state.snapshot.stream_spec("r")) for _ in range(2)]
    for place, start in enumerate(range(0, len(table), 4_000)):
        task = StreamPass(state.snapshot.stream_spec("r"), TIME)
        taken, weights = read_table(stream, table.slice(start, 4_000), None)
        task.feed(project_table(stream, taken, weights, task.projection, None))
        for row in (report_row(Report(task.tally)), *partial_rows(task)):
            parts[place % 2].take(*row)
    for row in parts[1].rows():
        parts[0].take(*row)
    check(state.snapshot.plus_stream("r", parts[0].stream_pass()), [before, rows])


def test_a_late_group_of_texts_is_shown_after_a_pass_by_spark(spark):
    w = el.Workload(budget="32 KB", seed=3).stream("r", "a STRING, b BIGINT")
    plan = w.query("top", "SELECT b, a, COUNT(*) AS n FROM r GROUP BY b, a ORDER BY n DESC LIMIT 2").plan()
    rng = np.random.default_rng(4)
    keys = [f"k{key}" for key in rng.integers(0, 9_000, 20_000)]
    early = plan.sketch(spark, {"r": spark.createDataFrame(pa.table({"a": keys, "b": [1] * len(keys)}))})
    late = pa.table({"a": ["late"] * 5_000, "b": pa.array([None] * 5_000, pa.int64())})
    both = early + plan.sketch(spark, {"r": spark.createDataFrame(late).repartition(3)})
    first = both.answer("top", confidence=0.999).to_arrow().to_pylist()[0]
    assert (first["a"], first["b"]) == ("late", None)
    assert first["n_low"] <= 5_000 <= first["n_high"]
