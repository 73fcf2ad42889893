"""Change spellings: the same net counters on frames and on tables, and bad rows shown."""

import pyarrow as pa
import pytest

import eddyline as el

pytestmark = pytest.mark.spark
DDL = "k STRING, x INT"
ROW = pa.struct([("k", pa.string()), ("x", pa.int32()), ("extra", pa.float64())])
QUERIES = {
    "pairs": "SELECT COUNT(*) FROM s a JOIN s b USING (k)",
    "total": "SELECT SUM(x) FROM s WHERE k != 'z'",
}

NET = [("a", 1)] * 3 + [("b", 5), ("c", None)]
CHANGES = [
    ("insert", "a", 1),
    ("insert", "a", 1),
    ("insert", "z", 9),
    ("delete", "z", 9),
    ("insert", "b", 4),
    ("update_preimage", "b", 4),
    ("update_postimage", "b", 5),
    ("insert", "c", None),
    ("insert", "a", 1),
]
FLINK = {"insert": "+I", "delete": "-D", "update_preimage": "-U", "update_postimage": "+U"}


def rows(words, column):
    return pa.table(
        {
            column: [words(change) for change, _, _ in CHANGES],
            "k": [k for _, k, _ in CHANGES],
            "x": pa.array([x for _, _, x in CHANGES], pa.int32()),
        }
    )


def image(k, x):
    return {"k": k, "x": x, "extra": 0.5}


def envelopes():
    return pa.table(
        {
            "op": ["r", "c", "c", "d", "c", "u", "c", "c"],
            "before": pa.array([None, None, None, image("z", 9), None, image("b", 4), None, None], ROW),
            "after": pa.array(
                [
                    image("a", 1),
                    image("a", 1),
                    image("z", 9),
                    None,
                    image("b", 4),
                    image("b", 5),
                    image("c", None),
                    image("a", 1),
                ],
                ROW,
            ),
        }
    )


SPELLINGS = {
    "change_type": rows(str, "_change_type"),
    "change_type:op": rows(str, "op"),
    "flink": rows(FLINK.get, "row_kind"),
    "flink:kind": rows(FLINK.get, "kind"),
    "weight": rows(lambda change: 1 if change in ("insert", "update_postimage") else -1, "weight"),
    "debezium": envelopes(),
    "debezium ": pa.table({"payload": pa.StructArray.from_arrays(
        [column.combine_chunks() for column in envelopes().columns], names=["op", "before", "after"])}),
}  # fmt: skip


def plan_for(changes):
    workload = el.Workload(budget="64 KB", seed=2, samples=False).stream("s", DDL, changes=changes)
    for name, text in QUERIES.items():
        workload.query(name, text)
    return workload.plan()


def net_counters():
    table = pa.table({"k": [k for k, _ in NET], "x": pa.array([x for _, x in NET], pa.int32())})
    return plan_for(None).empty().update("s", table).snapshot.counters


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_gives_the_net_rows_on_both_paths(spark, spelling):
    plan, table = plan_for(spelling.strip()), SPELLINGS[spelling]
    arrow, frame = plan.empty().update("s", table), plan.sketch(spark, {"s": spark.createDataFrame(table)})
    assert arrow == frame
    assert arrow.snapshot.tallies == frame.snapshot.tallies
    assert {name: values.tolist() for name, values in arrow.snapshot.counters.items()} == {
        name: values.tolist() for name, values in net_counters().items()
    }
    assert arrow.answer("total").value == 8


BAD = {
    "change_type": (rows(lambda c: "upsert" if c == "delete" else c, "_change_type"), "1 of 9", "upsert"),
    "flink": (rows(lambda c: None if c == "delete" else FLINK[c], "row_kind"), "1 of 9", "z"),
    "debezium": (
        envelopes().set_column(0, "op", pa.array(["r", "c", "t", "d", "c", "d", "c", "x"])),
        "2 of",
        "op",
    ),
    "debezium without before": (envelopes().set_column(1, "before", pa.nulls(8, ROW)), "2 of", "before"),
}


@pytest.mark.parametrize("case", BAD)
def test_unreadable_changes_show_the_row_and_the_count(spark, case):
    table, counts, shown = BAD[case]
    plan = plan_for(case.split()[0])
    for attempt in (
        lambda: plan.empty().update("s", table),
        lambda: plan.sketch(spark, {"s": spark.createDataFrame(table)}),
    ):
        with pytest.raises(el.ChangeError, match=counts) as caught:
            attempt()
        assert shown in str(caught.value)


def test_the_column_that_carries_the_change_must_be_there(spark):
    table = rows(str, "other")
    plan = plan_for("change_type")
    with pytest.raises(el.ChangeError, match="_change_type"):
        plan.empty().update("s", table)
    with pytest.raises(el.ChangeError, match="_change_type"):
        plan.sketch(spark, {"s": spark.createDataFrame(table)})
    with pytest.raises(el.PipelineError, match="leave weights out"):
        plan.empty().update("s", table, [1])
