"""TPC-H, against DuckDB's exact answers of the same text: exact where we say exact, within intervals elsewhere.

Chance of failing: 8 intervals of 95%, seeds fixed; each is asked to hold at 99.9%, so a correct product fails with a
chance below 1%, once and for all.
"""

import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

import eddyline as el

pytestmark = pytest.mark.spark
SCHEMAS = {
    "orders": "o_orderkey BIGINT, o_custkey BIGINT, o_orderstatus STRING, o_totalprice DECIMAL(15,2), o_orderdate DATE",
    "lineitem": (
        "l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_quantity DECIMAL(15,2), "
        "l_extendedprice DECIMAL(15,2), l_discount DECIMAL(15,2), l_shipdate DATE, l_shipmode STRING"
    ),
    "partsupp": "ps_partkey BIGINT, ps_suppkey BIGINT, ps_availqty INT",
}
DIMENSIONS = {
    "customer": "c_custkey BIGINT, c_nationkey BIGINT, c_mktsegment STRING",
    "part": "p_partkey BIGINT, p_size INT",
    "supplier": "s_suppkey BIGINT, s_nationkey BIGINT",
    "nation": "n_nationkey BIGINT, n_name STRING",
}
EXACT = {
    "orders": "SELECT COUNT(*) FROM orders",
    "late": "SELECT COUNT(*) FROM lineitem WHERE l_shipdate > DATE '1998-06-01' AND l_shipmode IN ('AIR', 'RAIL')",
    "q6": (
        "SELECT SUM(l_extendedprice * l_discount) FROM lineitem WHERE l_shipdate >= DATE '1994-01-01' "
        "AND l_shipdate < DATE '1995-01-01' AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24"
    ),
    "mean": "SELECT AVG(o_totalprice) FROM orders WHERE o_orderstatus = 'F'",
}
JOINS = {
    "fk": "SELECT COUNT(*) FROM orders o JOIN lineitem l ON o.o_orderkey = l.l_orderkey",
    "revenue": (
        "SELECT SUM(l_extendedprice * (1 - l_discount)) FROM orders, lineitem WHERE o_orderkey = l_orderkey "
        "AND o_orderdate < DATE '1995-03-15'"
    ),
    "quantity": "SELECT AVG(l_quantity) FROM orders o JOIN lineitem l ON o.o_orderkey = l.l_orderkey",
    "same_part": "SELECT COUNT(*) FROM lineitem a JOIN lineitem b ON a.l_partkey = b.l_partkey",
    "composite": "SELECT COUNT(*) FROM lineitem JOIN partsupp ON l_partkey = ps_partkey AND l_suppkey = ps_suppkey",
    "stock": "SELECT SUM(ps_availqty) FROM lineitem l JOIN partsupp p ON l.l_partkey = p.ps_partkey",
    "product": "SELECT SUM(l_quantity * ps_availqty) FROM lineitem, partsupp WHERE l_partkey = ps_partkey",
    "by_customer": "SELECT COUNT(*) FROM orders a, orders b WHERE a.o_custkey = b.o_custkey AND a.o_orderstatus = 'F'",
}

Q3 = (
    "FROM customer, orders, lineitem WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND "
    "l_orderkey = o_orderkey AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'"
)
MULTI = {
    "q3_rows": f"SELECT COUNT(*) {Q3}",
    "q3_revenue": f"SELECT SUM(l_extendedprice * (1 - l_discount)) {Q3}",
    "q3_spread": f"SELECT STDDEV(l_quantity) {Q3}",
    "stocked": (
        "SELECT COUNT(*) FROM part JOIN partsupp ON p_partkey = ps_partkey JOIN supplier ON s_suppkey = ps_suppkey "
        "JOIN nation ON s_nationkey = n_nationkey WHERE p_size < 20 AND n_name LIKE 'C%'"
    ),
    "star": (
        "SELECT COUNT(*) FROM lineitem, orders, part, supplier WHERE l_orderkey = o_orderkey AND l_partkey = p_partkey "
        "AND l_suppkey = s_suppkey AND p_size = 10"
    ),
    "neighbours": (
        "SELECT COUNT(*) FROM customer c, supplier s, nation n WHERE c.c_nationkey = n.n_nationkey AND "
        "s.s_nationkey = n.n_nationkey"
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("tpch")
    command = Path(sys.executable).with_name("tpchgen-cli")
    tables = ",".join(SCHEMAS | DIMENSIONS)
    subprocess.run(
        [command, "parquet", "-s", "0.01", f"--tables={tables}", f"--output-dir={path}"],
        check=True,
        capture_output=True,
    )
    return path


@pytest.fixture(scope="module")
def truth(folder):
    with duckdb.connect() as connection:
        for name in SCHEMAS | DIMENSIONS:
            connection.sql(f"CREATE VIEW {name} AS SELECT * FROM '{folder}/{name}.parquet'")
        texts = EXACT | JOINS | MULTI
        return {name: float(connection.sql(text).fetchall()[0][0]) for name, text in texts.items()}


@pytest.fixture(scope="module")
def state(spark, folder):
    workload = el.Workload(budget="2 MB", seed=42, confidence=0.999, samples=False)
    for name, schema in SCHEMAS.items():
        workload.stream(name, schema)
    for name, text in (EXACT | JOINS).items():
        workload.query(name, text)
    return workload.plan().sketch(
        spark, {name: spark.read.parquet(f"{folder}/{name}.parquet") for name in SCHEMAS}
    )


@pytest.mark.parametrize("name", EXACT)
def test_one_stream_is_exact(state, truth, name):
    estimate = state.answer(name)
    assert estimate.exact
    assert estimate.value == pytest.approx(truth[name], rel=1e-12)


@pytest.mark.parametrize("name", JOINS)
def test_joins_lie_in_their_intervals(state, truth, name):
    estimate = state.answer(name)
    assert estimate.low <= truth[name] <= estimate.high
    assert not estimate.exact


def test_many_relations_lie_in_their_intervals_with_statistics_and_without(spark, folder, truth):
    # 12 intervals of 99.9%: a correct product fails with a chance of about 1%, once and for all
    workload = el.Workload(budget="1 MB", seed=7, confidence=0.999, samples=False)
    for name, schema in (SCHEMAS | DIMENSIONS).items():
        workload.stream(name, schema)
    for name, text in MULTI.items():
        workload.query(name, text)
    frames = {name: spark.read.parquet(f"{folder}/{name}.parquet") for name in SCHEMAS | DIMENSIONS}
    blind = workload.plan().sketch(spark, frames)
    informed = workload.plan(statistics=workload.analyze(spark, frames, budget="8 MB")).sketch(spark, frames)
    for name in MULTI:
        for state in (blind, informed):
            estimate = state.answer(name)
            assert estimate.low <= truth[name] <= estimate.high, name


def test_spark_and_duckdb_agree_on_the_truth(spark, folder, truth):
    for name in SCHEMAS | DIMENSIONS:
        spark.read.parquet(f"{folder}/{name}.parquet").createOrReplaceTempView(name)
    for name, text in (EXACT | JOINS | MULTI).items():
        assert float(spark.sql(text).collect()[0][0]) == pytest.approx(truth[name], rel=1e-9)
