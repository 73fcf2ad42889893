"""Tables, queries and keys of TPC-H, TPC-DS and the Star Schema Benchmark.

TPC-H: data from tpchgen-cli, queries with the parameters of the specification's validation run. The Star Schema
Benchmark is made from TPC-H's tables by the rules of its paper (O'Neil, O'Neil, Chen, 2009): orders and line items
become one table, prices in cents; city and brand take their last digits from the key. TPC-DS: data and queries from
DuckDB's extension on PyPI, in a folder of its own because it is built for one version of DuckDB.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).parent
FOLDER = HERE.parents[1] / ".data" / "warehouse"
VERSION = "1.5.5"  # the newest DuckDB whose extension is on PyPI
_MAKE_TPCDS = """
import sys, glob, pathlib, json
sys.path.insert(0, sys.argv[1])
import duckdb
scale, into = sys.argv[2:]
connection = duckdb.connect(f"{into}/made.duckdb", config={"allow_unsigned_extensions": "true", "threads": 2})
connection.execute(f"LOAD '{glob.glob(f'{sys.argv[1]}/duckdb_extension_tpcds/extensions/*/*')[0]}'")
connection.execute(f"CALL dsdgen(sf={scale})")
for (table,) in connection.execute("SELECT table_name FROM information_schema.tables").fetchall():
    connection.execute(f"COPY {table} TO '{into}/{table}.parquet'")
queries = connection.execute("FROM tpcds_queries()").fetchall()
pathlib.Path(f"{into}/queries.json").write_text(json.dumps({str(number): text for number, text in queries}))
"""

_TPCDS_DIMENSIONS = {
    "date": ("date_dim", "d_date_sk"),
    "time": ("time_dim", "t_time_sk"),
    "item": ("item", "i_item_sk"),
    "customer": ("customer", "c_customer_sk"),
    "cdemo": ("customer_demographics", "cd_demo_sk"),
    "hdemo": ("household_demographics", "hd_demo_sk"),
    "addr": ("customer_address", "ca_address_sk"),
    "store": ("store", "s_store_sk"),
    "promo": ("promotion", "p_promo_sk"),
    "call_center": ("call_center", "cc_call_center_sk"),
    "catalog_page": ("catalog_page", "cp_catalog_page_sk"),
    "ship_mode": ("ship_mode", "sm_ship_mode_sk"),
    "warehouse": ("warehouse", "w_warehouse_sk"),
    "web_site": ("web_site", "web_site_sk"),
    "web_page": ("web_page", "wp_web_page_sk"),
    "reason": ("reason", "r_reason_sk"),
    "income_band": ("income_band", "ib_income_band_sk"),
}
_TPCH_KEYS = {
    "c_nationkey": ("nation", "n_nationkey"),
    "s_nationkey": ("nation", "n_nationkey"),
    "n_regionkey": ("region", "r_regionkey"),
    "o_custkey": ("customer", "c_custkey"),
    "l_orderkey": ("orders", "o_orderkey"),
    "l_partkey": ("part", "p_partkey"),
    "l_suppkey": ("supplier", "s_suppkey"),
    "ps_partkey": ("part", "p_partkey"),
    "ps_suppkey": ("supplier", "s_suppkey"),
}
_PAIRS = {
    ("l_partkey", "l_suppkey"): ("partsupp", "ps_partkey", "ps_suppkey"),
    ("sr_item_sk", "sr_ticket_number"): ("store_sales", "ss_item_sk", "ss_ticket_number"),
    ("cr_item_sk", "cr_order_number"): ("catalog_sales", "cs_item_sk", "cs_order_number"),
    ("wr_item_sk", "wr_order_number"): ("web_sales", "ws_item_sk", "ws_order_number"),
}
_SSB_KEYS = {
    "lo_custkey": ("customer", "c_custkey"),
    "lo_partkey": ("part", "p_partkey"),
    "lo_suppkey": ("supplier", "s_suppkey"),
    "lo_orderdate": ("dates", "d_datekey"),
}
_SSB_TABLES = {
    "lineorder": "SELECT l_orderkey AS lo_orderkey, l_linenumber AS lo_linenumber, o_custkey AS lo_custkey, "
    "l_partkey AS lo_partkey, l_suppkey AS lo_suppkey, strftime(o_orderdate, '%Y%m%d')::INT AS lo_orderdate, "
    "l_quantity::INT AS lo_quantity, (100 * l_extendedprice)::INT AS lo_extendedprice, "
    "(100 * l_discount)::INT AS lo_discount, (l_extendedprice * (100 - 100 * l_discount))::INT AS lo_revenue, "
    "(60 * p_retailprice)::INT AS lo_supplycost "
    "FROM lineitem JOIN orders ON l_orderkey = o_orderkey JOIN part ON l_partkey = p_partkey",
    "customer": "SELECT c_custkey, rpad(left(n_name, 9), 9, ' ') || c_custkey % 10 AS c_city, n_name AS c_nation, "
    "r_name AS c_region FROM customer JOIN nation ON c_nationkey = n_nationkey "
    "JOIN region ON n_regionkey = r_regionkey",
    "supplier": "SELECT s_suppkey, rpad(left(n_name, 9), 9, ' ') || s_suppkey % 10 AS s_city, n_name AS s_nation, "
    "r_name AS s_region FROM supplier JOIN nation ON s_nationkey = n_nationkey "
    "JOIN region ON n_regionkey = r_regionkey",
    "part": "SELECT p_partkey, 'MFGR#' || right(p_mfgr, 1) AS p_mfgr, 'MFGR#' || right(p_brand, 2) AS p_category, "
    "'MFGR#' || right(p_brand, 2) || (1 + p_partkey % 40) AS p_brand1 FROM part",
    "dates": "SELECT strftime(d, '%Y%m%d')::INT AS d_datekey, year(d)::INT AS d_year, "
    "strftime(d, '%Y%m')::INT AS d_yearmonthnum, strftime(d, '%b%Y') AS d_yearmonth, "
    "weekofyear(d)::INT AS d_weeknuminyear FROM "
    "(SELECT unnest(generate_series(DATE '1992-01-01', DATE '1998-12-31', INTERVAL 1 DAY))::DATE AS d)",
}


@dataclass(frozen=True)
class Benchmark:
    """Tables as Parquet files, queries by name, and foreign keys: the table and column that a column refers to."""

    name: str
    folder: Path
    queries: Mapping[str, str]

    @property
    def tables(self) -> dict[str, Path]:
        """The files, by table."""
        return {path.stem: path for path in sorted(self.folder.glob("*.parquet"))}

    def referred(self, table: str, column: str) -> tuple[str, str] | None:
        """Return what a column refers to, or None."""
        if self.name != "tpcds":
            return (_TPCH_KEYS if self.name == "tpch" else _SSB_KEYS).get(column)
        fitting = [end for end in _TPCDS_DIMENSIONS if column.endswith(f"_{end}_sk")]
        found = _TPCDS_DIMENSIONS[max(fitting, key=len)] if fitting else None
        return None if found is None or found == (table, column) else found

    def columns(self, table: str, names: set[str]) -> list[pa.Field]:
        """Return the columns of a table that a query names; the first one where it names none."""
        schema = pq.read_schema(self.tables[table])
        return [field for field in schema if field.name in names] or [schema.field(0)]

    def declared(self, table: str, names: set[str], used: set[str]) -> str:
        """Return the schema of the columns of a table that a query names, with keys that refer to its other tables."""
        mine = self.columns(table, names)
        parts = []
        for field in mine:
            where = self.referred(table, field.name)
            parts.append(f"{field.name} {_sql_type(field.type)}")
            if where is not None and where[0] in used and where[1] in names:
                parts[-1] += f" REFERENCES {where[0]}({where[1]})"
            elif self._is_primary(table, field.name):
                parts[-1] += " PRIMARY KEY"
        for own, (other, *keys) in _PAIRS.items():
            if {field.name for field in mine} >= set(own) and other in used and names >= set(keys):
                parts.append(f"FOREIGN KEY ({', '.join(own)}) REFERENCES {other} ({', '.join(keys)})")
        return ", ".join(parts)

    def _is_primary(self, table: str, column: str) -> bool:
        keys = {"tpch": _TPCH_KEYS, "ssb": _SSB_KEYS, "tpcds": _TPCDS_DIMENSIONS}[self.name]
        return (table, column) in keys.values()


def _sql_type(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    names = {
        pa.int32(): "INT",
        pa.int64(): "BIGINT",
        pa.string(): "STRING",
        pa.string_view(): "STRING",
        pa.date32(): "DATE",
        pa.float64(): "DOUBLE",
    }
    return names[kind]


def benchmark(name: str, scale: str) -> Benchmark:
    """Return a benchmark at a scale; its data are made on the first call."""
    folder = FOLDER / f"{name}-{scale}"
    if name == "tpcds":
        _make_tpcds(folder, scale)
        found = json.loads((folder / "queries.json").read_text(encoding="utf-8"))
        return Benchmark(
            name, folder, {number: text.strip().rstrip(";").strip() for number, text in found.items()}
        )
    _make_tpch(FOLDER / f"tpch-{scale}", scale)
    if name == "ssb":
        _make_ssb(folder, FOLDER / f"tpch-{scale}")
    blocks = [
        block.split("\n", 1) for block in (HERE / f"{name}.sql").read_text(encoding="utf-8").split("\n\n")
    ]
    return Benchmark(
        name, folder, {head.removeprefix("-- "): text.strip().rstrip(";") for head, text in blocks}
    )


def _make_tpch(folder: Path, scale: str) -> None:
    if not (folder / "lineitem.parquet").exists():
        command = str(Path(sys.executable).with_name("tpchgen-cli"))
        subprocess.run([command, "parquet", "-s", scale, "-o", str(folder)], check=True, capture_output=True)


def _make_tpcds(folder: Path, scale: str) -> None:
    if (folder / "queries.json").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    libraries = FOLDER / "duckdb"
    if not libraries.exists():
        wanted = (f"duckdb=={VERSION}", f"duckdb-extension-tpcds=={VERSION}")
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(libraries), *wanted],
            check=True,
        )
    subprocess.run([sys.executable, "-c", _MAKE_TPCDS, str(libraries), scale, str(folder)], check=True)
    (folder / "made.duckdb").unlink()


def _make_ssb(folder: Path, tpch: Path) -> None:
    if len(list(folder.glob("*.parquet"))) == len(_SSB_TABLES):
        return
    folder.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(config={"threads": 2}) as connection:
        for path in tpch.glob("*.parquet"):
            connection.execute(f"CREATE VIEW {path.stem} AS FROM '{path}'")
        for table, text in _SSB_TABLES.items():
            connection.execute(f"COPY ({text}) TO '{folder}/{table}.parquet'")
