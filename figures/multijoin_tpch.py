"""Joins of TPC-H tables through the whole product: relative error, coverage, and which reading carried the answer.

Each query is a workload of its own, with a budget of n words for each table that it joins; a table joined
with itself is kept once. Statistics are known: they come from the workload's own analysis, one pass over the same
data. Exact answers are DuckDB's, to the same text.

    python figures/multijoin.py --tpch [--seeds 40] [--scale 0.1]

makes the data with tpchgen-cli in a temporary folder, and writes data/multijoin_tpch.csv (one line for each query
and budget) and plots/multijoin_tpch.svg.
"""

import csv
import re
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from multijoin_report import report_tpch

import eddyline as el

BUDGETS = 5120, 20480, 81920
DATA = Path(__file__).parent / "data" / "multijoin_tpch.csv"
SCHEMAS = {
    "customer": "c_custkey BIGINT, c_mktsegment STRING",
    "orders": "o_orderkey BIGINT, o_custkey BIGINT, o_orderdate DATE",
    "lineitem": (
        "l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_quantity DECIMAL(15,2), "
        "l_extendedprice DECIMAL(15,2), l_discount DECIMAL(15,2), l_shipdate DATE"
    ),
    "part": "p_partkey BIGINT",
    "partsupp": "ps_partkey BIGINT, ps_suppkey BIGINT, ps_availqty INT",
    "supplier": "s_suppkey BIGINT, s_nationkey BIGINT",
    "nation": "n_nationkey BIGINT",
}
Q3 = (
    "customer, orders, lineitem WHERE c_custkey = o_custkey AND o_orderkey = l_orderkey "
    "AND c_mktsegment = 'BUILDING' AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'"
)
NATIONS = (
    "part, partsupp, supplier, nation "
    "WHERE p_partkey = ps_partkey AND ps_suppkey = s_suppkey AND s_nationkey = n_nationkey"
)
STAR = (
    "lineitem, orders, part, supplier "
    "WHERE l_orderkey = o_orderkey AND l_partkey = p_partkey AND l_suppkey = s_suppkey"
)
SAME_PART = "lineitem a JOIN lineitem b ON a.l_partkey = b.l_partkey"
QUERIES = {
    "Q3 chain, COUNT": f"SELECT COUNT(*) FROM {Q3}",
    "Q3 chain, SUM": f"SELECT SUM(l_extendedprice * (1 - l_discount)) FROM {Q3}",
    "part-partsupp-supplier-nation, COUNT": f"SELECT COUNT(*) FROM {NATIONS}",
    "star on lineitem, COUNT": f"SELECT COUNT(*) FROM {STAR}",
    "lineitem-lineitem on part, COUNT": f"SELECT COUNT(*) FROM {SAME_PART}",
    "part-partsupp-supplier-nation, SUM": f"SELECT SUM(ps_availqty) FROM {NATIONS}",
    "star on lineitem, SUM": f"SELECT SUM(l_quantity) FROM {STAR}",
    "lineitem-lineitem on part, SUM": f"SELECT SUM(a.l_quantity) FROM {SAME_PART}",
}


@dataclass(frozen=True)
class Measured:
    """A query with its tables, its exact answer, and the statistics that its plans have."""

    sql: str
    tables: dict[str, pa.Table]
    exact: float
    statistics: el.Statistics | None = None

    def workload(self, words: int, seed: int) -> el.Workload:
        """Return the workload of the query alone."""
        made = el.Workload(budget=8 * words * len(self.tables), seed=seed, samples=False)
        for table in self.tables:
            made.stream(table, SCHEMAS[table])
        return made.query("q", self.sql)

    def filled(self, plan: el.Plan) -> el.State:
        """Return the state of a plan after all rows."""
        state = plan.empty()
        for name, table in self.tables.items():
            state.update(name, table)
        return state

    def answer(self, words: int, seed: int) -> el.Estimate:
        """Return the product's answer."""
        plan = self.workload(words, seed).plan(statistics=self.statistics)
        return self.filled(plan).answer("q")


def load(connection: duckdb.DuckDBPyConnection, sql: str) -> Measured:
    """Return a query with its data: the columns that the streams declare."""
    tables = {}
    for name, schema in SCHEMAS.items():
        if re.search(rf"\b{name}\b", sql):
            columns = ", ".join(column.split()[0] for column in re.split(r", (?=[a-z])", schema))
            tables[name] = connection.sql(f"SELECT {columns} FROM {name}").to_arrow_table()
    exact = float(connection.sql(sql).fetchall()[0][0])
    known = Measured(sql, tables, exact)
    return Measured(sql, tables, exact, known.filled(known.workload(20480, 1000).analysis()).statistics())


def line(name: str, query: Measured, words: int, seeds: int) -> dict[str, str]:
    """Return one line of the data file."""
    answers = [query.answer(words, seed) for seed in range(seeds)]
    values, lows, highs = np.array([(a.value, a.low, a.high) for a in answers], dtype=np.float64).T
    errors = abs(values / query.exact - 1)
    methods = Counter("exact" if a.exact else a.method for a in answers)
    return {
        "query": name,
        "words": str(words),
        "seeds": str(seeds),
        "exact": f"{query.exact:.10g}",
        "mean_error": f"{errors.mean():.4g}",
        "median_error": f"{np.median(errors):.4g}",
        "worst_error": f"{errors.max():.4g}",
        "coverage": f"{((lows <= query.exact) & (query.exact <= highs)).mean():.4g}",
        "median_half_width": f"{np.median(highs - lows) / 2 / query.exact:.4g}",
        "methods": "; ".join(f"{method} {times}" for method, times in methods.most_common()),
    }


def measure(folder: Path, seeds: int) -> None:
    """Write the data file, after every budget, so that an interrupted run leaves what it has."""
    lines = []
    with duckdb.connect() as connection:
        for name in SCHEMAS:
            connection.sql(f"CREATE VIEW {name} AS SELECT * FROM '{folder / name}.parquet'")
        for name, sql in QUERIES.items():
            query = load(connection, sql)
            for words in BUDGETS:
                lines.append(line(name, query, words, seeds))
                print(lines[-1], flush=True)
                with DATA.open("w", newline="") as file:
                    writer = csv.DictWriter(file, fieldnames=list(lines[0]), lineterminator="\n")
                    writer.writeheader()
                    writer.writerows(lines)


def main(seeds: int, scale: str) -> None:
    """Make the data, measure, and report."""
    with tempfile.TemporaryDirectory() as folder:
        command = Path(sys.executable).with_name("tpchgen-cli")
        subprocess.run(
            [command, "parquet", "-s", scale, f"--tables={','.join(SCHEMAS)}", f"--output-dir={folder}"],
            check=True,
        )
        measure(Path(folder), seeds)
    report_tpch(DATA)
