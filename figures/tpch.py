"""TPC-H in the form in which it fits: estimates next to exact answers, by budget.

Each query is a workload of its own. Tables are fed as streams of inserts, a million rows at a time; exact answers are
DuckDB's, to the same text. What of the 22 queries had to be changed or left out is in `QUERIES` and `REFUSED`, and in
docs/reference/tpch.md.

    python figures/tpch.py [--scale 1] [--budgets 8MB,64MB] [--queries q1,q3]

makes the data with tpchgen-cli in .data/tpch-SCALE and writes data/tpch.csv: for each query and budget how many groups
were shown of how many, whether all was exact, the median relative error of the shown numbers, the share of intervals
that hold, and the seconds of the answer.
"""

import argparse
import csv
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow.parquet as pq

import eddyline as el

FOLDER = Path(__file__).parents[1] / ".data"
DATA = Path(__file__).parent / "data" / "tpch.csv"
SCHEMAS = {
    "customer": "c_custkey BIGINT, c_name STRING, c_nationkey BIGINT, c_phone STRING, c_acctbal DECIMAL(15,2), "
    "c_mktsegment STRING",
    "orders": "o_orderkey BIGINT, o_custkey BIGINT, o_orderdate DATE, o_orderpriority STRING, o_shippriority INT, "
    "o_comment STRING",
    "lineitem": "l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_quantity DECIMAL(15,2), "
    "l_extendedprice DECIMAL(15,2), l_discount DECIMAL(15,2), l_tax DECIMAL(15,2), l_returnflag STRING, "
    "l_linestatus STRING, l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, l_shipmode STRING, "
    "l_shipinstruct STRING",
    "part": "p_partkey BIGINT, p_brand STRING, p_type STRING, p_size INT, p_container STRING",
    "partsupp": "ps_partkey BIGINT, ps_suppkey BIGINT, ps_availqty INT, ps_supplycost DECIMAL(15,2)",
    "supplier": "s_suppkey BIGINT, s_name STRING, s_nationkey BIGINT, s_comment STRING",
    "nation": "n_nationkey BIGINT, n_name STRING, n_regionkey BIGINT",
    "region": "r_regionkey BIGINT, r_name STRING",
}
_REVENUE = "SUM(l_extendedprice * (1 - l_discount))"
QUERIES = {
    "q1": "SELECT l_returnflag, l_linestatus, SUM(l_quantity) AS sum_qty, SUM(l_extendedprice) AS sum_price, "
    f"{_REVENUE} AS sum_disc_price, AVG(l_quantity) AS avg_qty, AVG(l_discount) AS avg_disc, COUNT(*) AS orders "
    "FROM lineitem WHERE l_shipdate <= DATE '1998-09-02' GROUP BY l_returnflag, l_linestatus "
    "ORDER BY l_returnflag, l_linestatus",
    "q3": f"SELECT l_orderkey, {_REVENUE} AS revenue, o_orderdate, o_shippriority FROM customer, orders, lineitem "
    "WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey "
    "AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15' "
    "GROUP BY l_orderkey, o_orderdate, o_shippriority ORDER BY revenue DESC, o_orderdate LIMIT 10",
    "q4": "SELECT o_orderpriority, COUNT(*) AS order_count FROM orders WHERE o_orderdate >= DATE '1993-07-01' "
    "AND o_orderdate < DATE '1993-10-01' AND EXISTS (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey "
    "AND l_commitdate < l_receiptdate) GROUP BY o_orderpriority ORDER BY o_orderpriority",
    "q5": f"SELECT n_name, {_REVENUE} AS revenue FROM customer, orders, lineitem, supplier, nation, region "
    "WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey AND c_nationkey = s_nationkey "
    "AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey AND r_name = 'ASIA' "
    "AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01' GROUP BY n_name ORDER BY revenue DESC",
    "q6": "SELECT SUM(l_extendedprice * l_discount) AS revenue FROM lineitem WHERE l_shipdate >= DATE '1994-01-01' "
    "AND l_shipdate < DATE '1995-01-01' AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24",
    "q7": "SELECT n1.n_name AS supp_nation, n2.n_name AS cust_nation, year(l_shipdate) AS l_year, "
    f"{_REVENUE} AS revenue FROM supplier, lineitem, orders, customer, nation n1, nation n2 "
    "WHERE s_suppkey = l_suppkey AND o_orderkey = l_orderkey AND c_custkey = o_custkey "
    "AND s_nationkey = n1.n_nationkey AND c_nationkey = n2.n_nationkey "
    "AND ((n1.n_name = 'FRANCE' AND n2.n_name = 'GERMANY') OR (n1.n_name = 'GERMANY' AND n2.n_name = 'FRANCE')) "
    "AND l_shipdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31' "
    "GROUP BY n1.n_name, n2.n_name, year(l_shipdate) ORDER BY supp_nation, cust_nation, l_year",
    "q10": f"SELECT c_custkey, c_name, {_REVENUE} AS revenue FROM customer, orders, lineitem "
    "WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND o_orderdate >= DATE '1993-10-01' "
    "AND o_orderdate < DATE '1994-01-01' AND l_returnflag = 'R' GROUP BY c_custkey, c_name "
    "ORDER BY revenue DESC LIMIT 20",
    "q12": "SELECT l_shipmode, SUM(CASE WHEN o_orderpriority = '1-URGENT' OR o_orderpriority = '2-HIGH' THEN 1 ELSE 0 "
    "END) AS high_line_count, COUNT(*) AS line_count FROM orders, lineitem WHERE o_orderkey = l_orderkey "
    "AND l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate "
    "AND l_receiptdate >= DATE '1994-01-01' AND l_receiptdate < DATE '1995-01-01' GROUP BY l_shipmode "
    "ORDER BY l_shipmode",
    "q13": "SELECT c_custkey, COUNT(o_orderkey) AS c_count FROM customer LEFT JOIN orders ON c_custkey = o_custkey "
    "AND o_comment NOT LIKE '%special%requests%' GROUP BY c_custkey ORDER BY c_count DESC LIMIT 20",
    "q14": "SELECT SUM(CASE WHEN p_type LIKE 'PROMO%' THEN 1 ELSE 0 END * (l_extendedprice * (1 - l_discount))) AS "
    f"promo, {_REVENUE} AS revenue FROM lineitem, part WHERE l_partkey = p_partkey "
    "AND l_shipdate >= DATE '1995-09-01' AND l_shipdate < DATE '1995-10-01'",
    "q15": f"SELECT l_suppkey, {_REVENUE} AS revenue FROM lineitem WHERE l_shipdate >= DATE '1996-01-01' "
    "AND l_shipdate < DATE '1996-04-01' GROUP BY l_suppkey ORDER BY revenue DESC LIMIT 1",
    "q16": "SELECT p_brand, p_size, COUNT(DISTINCT ps_suppkey) AS supplier_cnt FROM partsupp, part "
    "WHERE p_partkey = ps_partkey AND p_brand <> 'Brand#45' AND p_type NOT LIKE 'MEDIUM POLISHED%' "
    "AND p_size IN (49, 14, 23, 45, 19, 3, 36, 9) AND ps_suppkey NOT IN (SELECT s_suppkey FROM supplier "
    "WHERE s_comment LIKE '%Customer%Complaints%') GROUP BY p_brand, p_size "
    "ORDER BY supplier_cnt DESC, p_brand, p_size",
    "q18": "SELECT o_orderkey, o_custkey, SUM(l_quantity) AS quantity FROM orders, lineitem "
    "WHERE o_orderkey = l_orderkey GROUP BY o_orderkey, o_custkey HAVING SUM(l_quantity) > 300 "
    "ORDER BY quantity DESC LIMIT 100",
    "q19": f"SELECT {_REVENUE} AS revenue FROM lineitem, part WHERE p_partkey = l_partkey "
    "AND l_shipmode IN ('AIR', 'AIR REG') AND l_shipinstruct = 'DELIVER IN PERSON' AND ("
    "(p_brand = 'Brand#12' AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG') "
    "AND l_quantity BETWEEN 1 AND 11 AND p_size BETWEEN 1 AND 5) "
    "OR (p_brand = 'Brand#23' AND p_container IN ('MED BAG', 'MED BOX', 'MED PKG', 'MED PACK') "
    "AND l_quantity BETWEEN 10 AND 20 AND p_size BETWEEN 1 AND 10) "
    "OR (p_brand = 'Brand#34' AND p_container IN ('LG CASE', 'LG BOX', 'LG PACK', 'LG PKG') "
    "AND l_quantity BETWEEN 20 AND 30 AND p_size BETWEEN 1 AND 15))",
    "q21": "SELECT s_name, COUNT(*) AS numwait FROM supplier, lineitem l1, orders WHERE s_suppkey = l1.l_suppkey "
    "AND o_orderkey = l1.l_orderkey AND l1.l_receiptdate > l1.l_commitdate AND s_nationkey = 20 "
    "AND NOT EXISTS (SELECT * FROM lineitem l3 WHERE l3.l_orderkey = o_orderkey AND l3.l_returnflag = 'R') "
    "GROUP BY s_name ORDER BY numwait DESC, s_name LIMIT 100",
    "q22": "SELECT c_nationkey, COUNT(*) AS numcust, SUM(c_acctbal) AS totacctbal FROM customer "
    "WHERE c_nationkey IN (13, 31, 23, 19, 20, 18, 17) AND c_acctbal > 4500 "
    "AND NOT EXISTS (SELECT * FROM orders WHERE o_custkey = c_custkey) GROUP BY c_nationkey ORDER BY c_nationkey",
}
BATCH = 1_000_000


def tables(scale: str) -> Path:
    """Return the folder with the tables as Parquet files, made once."""
    folder = FOLDER / f"tpch-{scale}"
    if not (folder / "lineitem.parquet").exists():
        command = [
            str(Path(sys.executable).parent / "tpchgen-cli"),
            "parquet",
            "-s",
            scale,
            "-o",
            str(folder),
        ]
        if subprocess.run(command, check=False, capture_output=True).returncode:
            command = [command[0], "-s", scale, "--format", "parquet", "--output-dir", str(folder)]
            subprocess.run(command, check=True)
    return folder


def state_of(text: str, budget: str, folder: Path) -> el.State:
    """Return the state of one query after all rows of its tables."""
    made = el.Workload(budget=budget, seed=1)
    for name, schema in SCHEMAS.items():
        made.stream(name, schema)
    state = made.query("q", text).plan().empty()
    names = [name for name in SCHEMAS if name in text.replace(",", " ").split()]
    for name in names:
        columns = [part.split()[0] for part in SCHEMAS[name].split(", ")]
        for batch in pq.ParquetFile(folder / f"{name}.parquet").iter_batches(BATCH, columns=columns):
            state.update(name, batch)
    return state


def exact(text: str, folder: Path) -> list[tuple[object, ...]]:
    """Return the exact answer of the same text, without LIMIT: groups that are shown are looked up in it."""
    with duckdb.connect() as connection:
        for name in SCHEMAS:
            connection.execute(f"CREATE VIEW {name} AS SELECT * FROM '{folder / name}.parquet'")
        return connection.sql(
            text.split(" HAVING ", maxsplit=1)[0].split(" ORDER BY ", maxsplit=1)[0]
        ).fetchall()


def compared(
    groups: el.Groups, truth: list[tuple[object, ...]], selected: list[str]
) -> tuple[list[float], int]:
    """Return (relative errors, intervals that hold) of the numbers that are shown."""
    at = [selected.index(name) for name in groups.group_columns]
    by_group = {tuple(row[k] for k in at): row for row in truth}
    errors, held = [], 0
    for row in groups:
        right = by_group[tuple(row[name] for name in groups.group_columns)]
        for name in groups.aggregates:
            value = float(right[selected.index(name)])
            errors.append(abs(float(row[name]) - value) / max(abs(value), 1e-9))
            slack = 1e-9 * max(abs(value), 1.0)
            held += float(row[f"{name}_low"]) - slack <= value <= float(row[f"{name}_high"]) + slack
    return errors, held


def measure(name: str, budget: str, folder: Path) -> dict[str, object]:
    """Return what one query has at one budget."""
    text = QUERIES[name]
    started = time.perf_counter()
    state = state_of(text, budget, folder)
    fed = time.perf_counter() - started
    line: dict[str, object] = {
        "query": name,
        "budget": budget,
        "bytes": state.nbytes,
        "fed_seconds": round(fed, 1),
    }
    started = time.perf_counter()
    try:
        found = state.answer("q")
    except el.EddylineError as error:
        return line | {"note": str(error)}
    line["seconds"] = round(time.perf_counter() - started, 2)
    truth = exact(text, folder)
    if isinstance(found, el.Estimate):
        value = float(truth[0][0])
        error = abs(float(found.value) - value) / value
        return line | {"shown": 1, "groups": 1, "exact": found.exact, "error": error, "held": 1.0}
    selected = [part.split(" AS ")[-1].strip() for part in _selected(text)]
    errors, held = compared(found, truth, selected)
    everything = found.exact or all(row["exact"] for row in found)
    return line | {
        "shown": len(found),
        "groups": len(truth),
        "exact": everything,
        "error": float(np.median(errors)) if errors else 0.0,
        "held": held / max(len(errors), 1),
    }


def _selected(text: str) -> list[str]:
    """Return the parts of a SELECT list, which no comma inside parentheses divides."""
    parts, depth = [""], 0
    for letter in text.split(" FROM ", maxsplit=1)[0].removeprefix("SELECT "):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def row_of(line: Mapping[str, Any]) -> str:
    """Return a line as the table of docs/reference/tpch.md has it."""
    start = f"| {line['query'].removeprefix('q')} | {line['budget'].replace('MB', ' MB')} |"
    if "note" in line:
        return f"{start} refused: {line['note']} | | | |"
    error, held = ("exact", "") if line["exact"] else (f"{line['error']:.2%}", f"{line['held']:.0%}")
    return f"{start} {line['shown']} of {line['groups']:,} | {error} | {held} | {line['seconds']} s |"


def main() -> None:
    """Measure and write the file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--scale", default="1")
    parser.add_argument("--budgets", default="8MB,64MB")
    parser.add_argument("--queries", default=",".join(QUERIES))
    options = parser.parse_args()
    folder = tables(options.scale)
    lines = []
    for name in options.queries.split(","):
        for budget in options.budgets.split(","):
            lines.append(measure(name, budget, folder))
            print(lines[-1], flush=True)
    fields = [
        "query",
        "budget",
        "bytes",
        "shown",
        "groups",
        "exact",
        "error",
        "held",
        "seconds",
        "fed_seconds",
        "note",
    ]
    with DATA.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fields, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    print(*map(row_of, lines), sep="\n")


if __name__ == "__main__":
    main()
