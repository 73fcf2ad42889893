"""Values of PostgreSQL's texts: what Spark itself makes of them row by row is the oracle."""

import datetime as dt
import math
from decimal import Decimal

import pytest
from pyspark.sql import types as t
from pyspark.sql.worker.plan_data_source_read import records_to_arrow_batches

from eddyline.errors import PipelineError
from eddyline.spark.postgres import messages as module
from eddyline.spark.postgres.messages import batches

pytestmark = pytest.mark.spark
VALUES = {
    t.ByteType(): (int, ["1", "-128", "127"]),
    t.ShortType(): (int, ["1", "-32768"]),
    t.IntegerType(): (int, ["0", "2147483647"]),
    t.LongType(): (int, ["-9223372036854775808", "9223372036854775807"]),
    t.FloatType(): (float, ["0.1", "3.4028235e+38", "1e-45", "-0", "Infinity", "-Infinity"]),
    t.DoubleType(): (float, ["0.1", "-0", "5e-324", "1.7976931348623157e+308", "Infinity", "-Infinity"]),
    t.DecimalType(10, 2): (Decimal, ["0", "-12.30", "99999999.99", "1e3", "1.5000"]),
    t.DecimalType(38, 0): (Decimal, ["9" * 38, "-1"]),
    t.BooleanType(): ({"t": True, "f": False}.__getitem__, ["t", "f"]),
    t.DateType(): (dt.date.fromisoformat, ["2024-02-29", "0001-01-01", "9999-12-31"]),
    t.TimestampType(): (
        dt.datetime.fromisoformat,
        ["2024-02-29 12:34:56.789+02", "2024-02-29 12:34:56+05:30", "1890-01-01 00:00:00.000001-04:56:02", "2024-07-01"],
    ),
    t.TimestampNTZType(): (dt.datetime.fromisoformat, ["2024-02-29 12:34:56.789", "0001-01-01 00:00:00"]),
    t.StringType(): (str, ["", "ö\t\\N", "NULL"]),
    t.BinaryType(): (lambda text: bytes.fromhex(text[2:]), ["\\x", "\\x00ff"]),
}  # fmt: skip


def schema(kind):
    return t.StructType().add("_change_type", t.StringType()).add("v", kind)


def ours(kind, texts):
    return list(batches((("insert", (text,)) for text in texts), schema(kind), "public.t"))


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_values_are_those_that_spark_makes(kind, monkeypatch):
    """Batches of two, so that the last one is short; Spark refuses a batch of another schema than the frame's."""
    monkeypatch.setattr(module, "_ROWS", 2)
    make, texts = VALUES[kind]
    rows = (("insert", None if text is None else make(text)) for text in [*texts, None])
    theirs = list(records_to_arrow_batches(rows, 2, schema(kind), None))
    found = list(records_to_arrow_batches(iter(ours(kind, [*texts, None])), 2, schema(kind), None))
    assert found == theirs


@pytest.mark.parametrize("kind", [t.FloatType(), t.DoubleType()], ids=str)
def test_nan_is_a_number_of_floats(kind):
    assert math.isnan(ours(kind, ["NaN"])[0]["v"][0].as_py())


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (t.ByteType(), "128"), (t.IntegerType(), "0x1f"), (t.LongType(), "1.0"), (t.LongType(), "9223372036854775808"),
        (t.DoubleType(), "one"), (t.DecimalType(4, 2), "100.00"), (t.DecimalType(4, 2), "Infinity"), (t.DecimalType(4, 2), "NaN"), (t.DecimalType(4, 2), "1.005"), (t.BooleanType(), "true"), (t.DateType(), "infinity"),
        (t.DateType(), "0044-03-15 BC"), (t.DateType(), "10000-01-01"), (t.TimestampType(), "infinity"),
        (t.TimestampType(), "0044-03-15 12:00:00+00 BC"), (t.TimestampNTZType(), "2024-01-01 00:00:00+00"),
        (t.BinaryType(), "no hex"), (t.ArrayType(t.IntegerType()), "{1,2}"),
    ],
)  # fmt: skip
def test_what_is_no_such_value_is_reported(kind, text):
    with pytest.raises(
        PipelineError, match=r"column 'v' of public.t has .*, which is not a valid .*: declare it"
    ) as shown:
        ours(kind, [None, text, None])
    assert repr(text) in str(shown.value)
