"""The data of figures/sharing.py: streams of Zipf-distributed keys, and the keys of TPC-H."""

import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from sharing_queries import QUERIES, STREAMS, relations_of

from eddyline.plan.demands import Method

ROWS = {
    "lineitem": 4000,
    "orders": 2000,
    "customer": 1000,
    "partsupp": 2000,
    "part": 500,
    "supplier": 300,
    "nation": 200,
    "region": 50,
}
DOMAINS = {"orderkey": 30, "custkey": 30, "partkey": 30, "suppkey": 20, "nationkey": 25, "regionkey": 5}
FOREIGN, OWN = 1.5, 0.5
"""Zipf exponents of the keys that refer to another stream, and of a stream's own key."""
OWN_KEYS = ("o_orderkey", "c_custkey", "p_partkey", "s_suppkey", "n_nationkey", "r_regionkey")


@dataclass(frozen=True)
class Setting:
    """Data, the exact answers on it, the method that reads it, and the memory sizes of each workload in KB.

    changes: the column of the tables that holds how often a row occurs.
    """

    name: str
    tables: dict[str, pa.Table]
    exact: dict[str, int]
    method: Method
    changes: str | None
    budgets: Mapping[str, tuple[int, ...]]


def zipf_setting() -> Setting:
    """Return streams of Zipf-distributed keys, each key independent of the others in its row."""
    rng = np.random.default_rng(6)
    tables = {}
    for stream, rows in ROWS.items():
        names = [each.split()[0] for each in STREAMS[stream].split(", ")]
        drawn = pa.table({name: _zipf_keys(rng, name, rows) for name in names})
        counted = drawn.group_by(names).aggregate([([], "count_all")])
        tables[stream] = counted.rename_columns([*names, "w"]).sort_by(
            [(name, "ascending") for name in names]
        )
    budgets = {"1": (64, 112, 192), "2": (128, 192, 320), "3": (48, 80, 128)}
    return Setting("zipf", tables, exact_answers(tables, "w"), "agms", "w", budgets)


def _zipf_keys(rng: np.random.Generator, column: str, rows: int) -> np.ndarray:
    domain = DOMAINS[column.split("_")[1]]
    shares = np.arange(1, domain + 1, dtype=np.float64) ** -(OWN if column in OWN_KEYS else FOREIGN)
    return rng.choice(domain, size=rows, p=shares / shares.sum()).astype(np.int64)


def tpch_setting(scale: str) -> Setting:
    """Return the key columns of TPC-H tables."""
    connection = duckdb.connect()
    with tempfile.TemporaryDirectory() as folder:
        command = Path(sys.executable).with_name("tpchgen-cli")
        subprocess.run([command, "parquet", "-s", scale, f"--output-dir={folder}"], check=True)
        tables = {
            stream: connection.sql(f"SELECT {keys} FROM '{folder}/{stream}.parquet'").to_arrow_table()
            for stream, keys in ((name, schema.replace(" BIGINT", "")) for name, schema in STREAMS.items())
        }
    budgets = {"1": (500, 2000), "2": (2000,), "3": (1000,)}
    return Setting("tpch", tables, exact_answers(tables), "skimmed", None, budgets)


def exact_answers(tables: Mapping[str, pa.Table], weight: str | None = None) -> dict[str, int]:
    """Return the answer of every query; weight: the column that holds how often a row occurs."""
    connection = duckdb.connect()
    for stream, table in tables.items():
        connection.register(stream, table)
    found = {}
    for name, sql in QUERIES.items():
        times = " * ".join(f"{each}.{weight}::DOUBLE" for each in relations_of(name))
        text = sql if weight is None else sql.replace("COUNT(*)", f"SUM({times})")
        found[name] = int(connection.sql(text).fetchall()[0][0])
    return found
