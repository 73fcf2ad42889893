"""TPC-H: plain, with skewed foreign keys, and with old orders deleted.

tpchgen-cli makes the tables once, in .data/bank (not versioned); TPC-H has no seed, so that plain data are the same
for each seed. Customers, parts and suppliers are there from the start, orders come with their date and lines with
the date on which they ship.
"""

import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import duckdb
import numpy as np

from bank.dataset import Columns, Data, Table
from bank.draws import at_once, table, zipf

FOLDER = Path(__file__).parents[2] / ".data" / "bank"
SCHEMAS = {
    "customer": "c_custkey BIGINT, c_segment BIGINT",
    "part": "p_partkey BIGINT, p_size BIGINT",
    "partsupp": "ps_partkey BIGINT, ps_suppkey BIGINT, ps_availqty BIGINT",
    "supplier": "s_suppkey BIGINT, s_nationkey BIGINT",
    "orders": "o_orderkey BIGINT, o_custkey BIGINT, o_day BIGINT",
    "lineitem": (
        "l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_quantity BIGINT, l_price BIGINT, l_day BIGINT"
    ),
}
_SOURCES = {
    "c_segment": "ascii(c_mktsegment)::BIGINT",
    "p_size": "p_size::BIGINT",
    "ps_availqty": "ps_availqty::BIGINT",
    "s_nationkey": "s_nationkey::BIGINT",
    "o_day": "date_diff('day', DATE '1992-01-01', o_orderdate)",
    "l_quantity": "l_quantity::BIGINT",
    "l_price": "l_extendedprice::BIGINT",
    "l_day": "date_diff('day', DATE '1992-01-01', l_shipdate)",
}
_Q3 = (
    "customer, orders, lineitem WHERE c_custkey = o_custkey AND o_orderkey = l_orderkey "
    "AND c_segment = 66 AND o_day < 1169 AND l_day > 1169"
)
_STAR = (
    "lineitem, orders, part, supplier WHERE l_orderkey = o_orderkey AND l_partkey = p_partkey "
    "AND l_suppkey = s_suppkey"
)
QUERIES = {
    "orders_lines": "SELECT COUNT(*) FROM orders, lineitem WHERE o_orderkey = l_orderkey AND o_day < 1169",
    "customer_orders": "SELECT COUNT(*) FROM customer, orders WHERE c_custkey = o_custkey AND c_segment = 66",
    "lines_by_part": "SELECT SUM(l_quantity) FROM lineitem, part WHERE l_partkey = p_partkey AND p_size < 10",
    "same_part": "SELECT COUNT(*) FROM lineitem a JOIN lineitem b ON a.l_partkey = b.l_partkey",
    "q3": f"SELECT COUNT(*) FROM {_Q3}",
    "q3_revenue": f"SELECT SUM(l_price) FROM {_Q3}",
    "chain": (
        "SELECT SUM(ps_availqty) FROM part, partsupp, supplier WHERE p_partkey = ps_partkey "
        "AND ps_suppkey = s_suppkey AND p_size < 10"
    ),
    "star": f"SELECT COUNT(*) FROM {_STAR} AND p_size < 25",
    "star_mean": f"SELECT AVG(l_price) FROM {_STAR} AND o_day < 1169",
    "buyers": "SELECT COUNT(DISTINCT o_custkey) FROM orders WHERE o_day < 400",
    "idle": "SELECT COUNT(*) FROM (SELECT c_custkey FROM customer EXCEPT SELECT o_custkey FROM orders)",
}
_DAYS = 2557


@lru_cache(maxsize=2)
def _generated(scale: str) -> dict[str, Columns]:
    folder = FOLDER / f"tpch-{scale}"
    if not (folder / "lineitem.parquet").exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = Path(sys.executable).with_name("tpchgen-cli")
        tables = f"--tables={','.join(SCHEMAS)}"
        subprocess.run([command, "parquet", "-s", scale, tables, f"--output-dir={folder}"], check=True)
    found = {}
    with duckdb.connect() as connection:
        for name, schema in SCHEMAS.items():
            columns = [each.split()[0] for each in schema.split(", ")]
            listed = ", ".join(f"{_SOURCES.get(column, column)} AS {column}" for column in columns)
            found[name] = dict(connection.sql(f"SELECT {listed} FROM '{folder}/{name}.parquet'").fetchnumpy())
    return found


def plain(seed: int, size: int, *, scale: str) -> Data:
    """Return TPC-H as it is; of a smaller size, the first part of orders with their lines."""
    return Data(_tables(_cut(_generated(scale), size)), QUERIES, seed)


def skewed(seed: int, size: int, *, scale: str, exponent: float) -> Data:
    """Return TPC-H whose foreign keys to customers, parts and suppliers have Zipf laws; who is frequent is random."""
    rng = np.random.default_rng([seed, 6, int(100 * exponent)])
    columns = {name: dict(own) for name, own in _cut(_generated(scale), size).items()}
    for stream, key, other in (
        ("orders", "o_custkey", "customer"),
        ("lineitem", "l_partkey", "part"),
        ("lineitem", "l_suppkey", "supplier"),
        ("partsupp", "ps_partkey", "part"),
        ("partsupp", "ps_suppkey", "supplier"),
    ):
        values = rng.permutation(next(iter(columns[other].values())))
        columns[stream][key] = values[zipf(rng, exponent, len(values), len(columns[stream][key]))]
    return Data(_tables(columns), QUERIES, seed)


def refreshed(seed: int, size: int, *, scale: str, years: float) -> Data:
    """Return TPC-H in which seven in ten orders are deleted, with their lines, after some years."""
    rng = np.random.default_rng([seed, 7])
    columns = _cut(_generated(scale), size)
    stays = rng.random(columns["orders"]["o_orderkey"].max() + 1) < 0.3
    return Data(_tables(columns, stays, years), QUERIES, seed)


def _cut(columns: dict[str, Columns], size: int) -> dict[str, Columns]:
    """Return the tables with the first orders, their lines, and a number of parts of partsupp, within a size."""
    whole = sum(len(next(iter(own.values()))) for own in columns.values())
    if size >= whole:
        return columns
    last = np.quantile(columns["orders"]["o_orderkey"], size / whole)
    made = {name: dict(own) for name, own in columns.items()}
    for name, key in (("orders", "o_orderkey"), ("lineitem", "l_orderkey")):
        taken = columns[name][key] <= last
        made[name] = {column: values[taken] for column, values in columns[name].items()}
    return made


def _tables(
    columns: dict[str, Columns], stays: np.ndarray | None = None, years: float = 0.0
) -> dict[str, Table]:
    tables = {
        name: at_once(SCHEMAS[name], columns[name]) for name in ("customer", "part", "partsupp", "supplier")
    }
    for name, day, key in (("orders", "o_day", "o_orderkey"), ("lineitem", "l_day", "l_orderkey")):
        own = columns[name]
        born = own[day] / _DAYS
        ends = born + years * 365 / _DAYS
        goes = np.zeros(len(born), bool) if stays is None else ~stays[own[key]] & (ends < 1)
        tables[name] = table(SCHEMAS[name], own, born, np.where(goes, ends, np.inf))
    return tables
