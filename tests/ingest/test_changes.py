"""Change rows in Arrow tables: envelopes of Debezium that cannot be used are refused, each with its reason."""

import pyarrow as pa
import pytest

import eddyline as el
from eddyline.ingest.changes import UNAVAILABLE

DDL = "k STRING, note STRING, raw BINARY, x INT"


def table(*changes, text=None):
    kinds = {"k": text or pa.string(), "note": text or pa.string(), "raw": pa.binary(), "x": pa.int32()}
    image = pa.struct([pa.field(name, kind) for name, kind in kinds.items()])
    op, before, after = zip(*changes, strict=True)
    return pa.table({"op": op, "before": pa.array(before, image), "after": pa.array(after, image)})


def row(k="a", note="n", raw=b"r", x=1):
    return {"k": k, "note": note, "raw": raw, "x": x}


def state_of(*queries):
    workload = el.Workload(budget="64 KB", seed=2).stream("s", DDL, changes="debezium")
    for number, query in enumerate(queries):
        workload.query(f"q{number}", query)
    return workload.plan().empty()


BAD = {
    "an unknown op": (("t", None, row()), "its op is not c, r, u or d"),
    "an op that is NULL": ((None, None, row()), "its op is not c, r, u or d"),
    "an insert without its row": (("c", None, None), "its op needs after, which is missing"),
    "a delete without its row": (("d", None, None), "its op needs before, which is missing; let the database"),
    "a text that was not sent": (("u", row(), row(note=UNAVAILABLE)), "its after.note was too large to be sent"),
    "bytes that were not sent": (
        ("u", row(raw=UNAVAILABLE.encode()), row()), "its before.raw was too large to be sent",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_an_envelope_that_cannot_be_used_is_refused_with_its_reason(case):
    bad, reason = BAD[case]
    state = state_of("SELECT COUNT(note) FROM s WHERE raw IS NOT NULL")
    with pytest.raises(el.ChangeError, match="1 of 2 rows") as caught:
        state.update("s", table(("c", None, row()), bad))
    assert reason in str(caught.value)
    assert state.answer("q0").value == 0, "nothing was applied"


@pytest.mark.parametrize(
    "text", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())], ids=str
)
def test_a_value_that_was_not_sent_matters_only_where_it_is_read(text):
    change = table(("c", None, row()), ("u", row(), row(k="b", note=UNAVAILABLE, x=5)), text=text)
    assert state_of("SELECT SUM(x) FROM s WHERE k = 'b'").update("s", change).answer("q0").value == 5
    with pytest.raises(el.ChangeError, match=r"its after\.note was too large"):
        state_of("SELECT COUNT(DISTINCT note) FROM s").update("s", change)


def test_a_placeholder_in_an_image_that_the_op_does_not_use_is_ignored():
    change = table(("c", row(note=UNAVAILABLE), row()))
    assert state_of("SELECT COUNT(note) FROM s").update("s", change).answer("q0").value == 1
