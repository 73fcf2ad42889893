"""Data that both paths read: all key types, NULLs, skew and changes, as Arrow tables and as frames."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa

ALL_TYPES_DDL = (
    "b BOOLEAN, i8 TINYINT, i16 SMALLINT, i32 INT, i64 BIGINT, dec DECIMAL(12,2), big DECIMAL(38,0), whole DECIMAL(9,0), "
    "s STRING, bin BINARY, d DATE, ts TIMESTAMP, nts TIMESTAMP_NTZ, x DOUBLE"
)
ALL_TYPES = pa.schema(
    [
        ("b", pa.bool_()),
        ("i8", pa.int8()),
        ("i16", pa.int16()),
        ("i32", pa.int32()),
        ("i64", pa.int64()),
        ("dec", pa.decimal128(12, 2)),
        ("big", pa.decimal128(38, 0)),
        ("whole", pa.decimal128(9, 0)),
        ("s", pa.string()),
        ("bin", pa.binary()),
        ("d", pa.date32()),
        ("ts", pa.timestamp("us", "UTC")),
        ("nts", pa.timestamp("us")),
        ("x", pa.float64()),
    ]
)


def all_types(n=400, seed=1):
    """A table with a column of every type, about a tenth of its values NULL."""
    rng = np.random.default_rng(seed)
    epoch = dt.datetime(2001, 2, 3, 4, 5, 6, 789, tzinfo=dt.UTC)
    small = rng.integers(-20, 20, n).tolist()
    columns = {
        "b": [v > 0 for v in small],
        "i8": small,
        "i16": [v * 300 for v in small],
        "i32": [v * 10**7 for v in small],
        "i64": [v * 10**17 for v in small],
        "dec": [Decimal(v).scaleb(-1) for v in small],
        "big": [Decimal(v) * 10**30 for v in small],
        "whole": [Decimal(v) for v in small],
        "s": [f"schlüssel {v} " * abs(v % 7) for v in small],
        "bin": [bytes([v % 256, 0, 255]) * abs(v % 5) for v in small],
        "d": [dt.date(1969, 12, 20) + dt.timedelta(days=v) for v in small],
        "ts": [epoch + dt.timedelta(microseconds=v * 10**15) for v in small],
        "nts": [(epoch + dt.timedelta(microseconds=v * 10**12)).replace(tzinfo=None) for v in small],
        "x": [v / 3 for v in small],
    }
    masks = rng.random((len(columns), n)) < 0.1
    return pa.table(
        {
            name: pa.array(
                [None if hide else v for v, hide in zip(values, mask, strict=True)],
                ALL_TYPES.field(name).type,
            )
            for (name, values), mask in zip(columns.items(), masks, strict=True)
        }
    )
