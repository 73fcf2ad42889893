"""Random rows for the fuzzer: every type that the reference documents, with the values that break things."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa

UTC = dt.UTC
T_DDL = (
    "a BIGINT, b BIGINT, i INT, ti TINYINT, big BIGINT, m DECIMAL(12,2), k DECIMAL(20,5), x DOUBLE, y DOUBLE, f FLOAT, "
    "s STRING, s2 STRING, p BOOLEAN, q BOOLEAN, d DATE, d2 DATE, ts TIMESTAMP, n TIMESTAMP_NTZ, bin BINARY"
)
U_DDL = "b BIGINT, z INT, v DECIMAL(9,3), c STRING, r BOOLEAN"
TYPES = {
    "BIGINT": pa.int64(), "INT": pa.int32(), "TINYINT": pa.int8(), "DECIMAL(12,2)": pa.decimal128(12, 2),
    "DECIMAL(20,5)": pa.decimal128(20, 5), "DECIMAL(9,3)": pa.decimal128(9, 3), "DOUBLE": pa.float64(),
    "FLOAT": pa.float32(), "STRING": pa.string(), "BOOLEAN": pa.bool_(), "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", "UTC"), "TIMESTAMP_NTZ": pa.timestamp("us"), "BINARY": pa.binary(),
}  # fmt: skip
_TIMES = [
    dt.datetime(1969, 12, 31, 23, 30, 0, 5, UTC), dt.datetime(2000, 12, 31, 23, 30, tzinfo=UTC),
    dt.datetime(2001, 1, 1, 0, 0, tzinfo=UTC), dt.datetime(2024, 3, 31, 0, 59, 59, 999999, UTC),
    dt.datetime(2024, 3, 31, 1, 0, tzinfo=UTC), dt.datetime(2024, 10, 27, 0, 30, tzinfo=UTC),
    dt.datetime(1950, 6, 15, 12, 0, tzinfo=UTC), dt.datetime(2024, 2, 29, 18, 45, 30, tzinfo=UTC),
]  # fmt: skip
_DAYS = [
    dt.date(1969, 12, 31),
    dt.date(1970, 1, 1),
    dt.date(2001, 1, 1),
    dt.date(2024, 2, 29),
    dt.date(1899, 3, 1),
]
WORDS = [
    "",
    "x",
    "X",
    "xy",
    "x%",
    "a_b",
    "it's",
    "back\\slash",
    "größe",
    "STRASSE",
    "straße",
    " 1",
    "5",
    "%",
    "_",
]
POOLS = {
    "a": range(-3, 6), "b": range(6), "i": [-7, 0, 1, 2, 100, 2**31 - 1], "ti": [-128, -1, 0, 1, 2, 127],
    "big": [2**63 - 1, -(2**63), 2**53 + 1, 2**53, 0, 1], "z": range(-2, 5),
    "m": [Decimal(v).scaleb(-2) for v in (-250, 0, 10, 30, 110, 99999, 30, 250)],
    "k": [Decimal(v).scaleb(-5) for v in (30000, 110000, -1, 0, 12345, 10**15 + 7)],
    "v": [Decimal(v).scaleb(-3) for v in (0, 300, -1100, 2500)],
    "x": [0.3, 0.1, 1.1, 2.5, -0.0, 0.0, -7.25, 1e6, 9007199254740992.0],
    "y": [0.3, float("nan"), float("inf"), float("-inf"), -0.0, 1.1], "f": [0.1, 0.5, -2.0, 0.0],
    "s": WORDS, "s2": WORDS, "c": WORDS[:7], "p": [True, False], "q": [True, False], "r": [True, False],
    "d": _DAYS, "d2": _DAYS, "ts": _TIMES, "n": [time.replace(tzinfo=None) for time in _TIMES],
    "bin": [b"", b"\x00", b"x", b"\xff\x00"],
}  # fmt: skip


def schema_of(ddl):
    """The Arrow schema of a DDL text."""
    names = [column.strip().split(" ", 1) for column in ddl.replace(", ", "\n").split("\n")]
    return pa.schema([(name, TYPES[kind]) for name, kind in names])


def random_changes(rng, ddl, count):
    """(net rows, changes, weights): rows inserted, some several times, and others that came and went."""
    schema = schema_of(ddl)

    def row():
        return {name: None if rng.random() < 0.12 else rng.choice(POOLS[name]) for name in schema.names}

    kept = [(row(), rng.choice([1, 1, 1, 2, 3])) for _ in range(count)]
    gone = [row() for _ in range(count // 4)]
    changes = [*kept, *((one, 1) for one in gone), *((one, -1) for one in gone)]
    rng.shuffle(changes)
    net = [one for one, times in kept for _ in range(times)]
    return (
        pa.Table.from_pylist(net, schema),
        pa.Table.from_pylist([one for one, _ in changes], schema),
        [weight for _, weight in changes],
    )
