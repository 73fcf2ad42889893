"""Derived columns in SQL clients: they are columns of their stream, in the catalog and in rows."""

import psycopg
import pyarrow as pa
import pytest

import eddyline as el
from tests.serve.postgres import shop


@pytest.fixture(scope="module")
def client():
    w = el.Workload(budget="1 MB", seed=1, timezone="UTC")
    derived = {"code": "upper(region)", "big": "amount > 50", "month": "trunc(day, 'MM')"}
    w.stream("orders", "region STRING, amount INT, day DATE", derive=derived)
    w.explore("orders")
    kept = (
        w.plan()
        .empty()
        .update("orders", pa.table({"region": ["n", "s"], "amount": [10, 60], "day": [None, None]}))
    )
    with shop.serving(kept) as server:
        dsn = f"host=127.0.0.1 port={server.address[1]} user=me dbname=shop"
        with psycopg.connect(dsn, autocommit=True) as connection:
            yield connection


def test_the_catalog_has_them(client):
    asked = "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'orders' ORDER BY ordinal_position"
    columns = [("region", "text"), ("amount", "integer"), ("day", "date")]
    assert client.execute(asked).fetchall() == [
        *columns,
        ("code", "text"),
        ("big", "boolean"),
        ("month", "date"),
    ]
    described = (
        "SELECT attname FROM pg_attribute WHERE attrelid = 'orders'::regclass AND attnum > 3 ORDER BY attnum"
    )
    assert client.execute(described).fetchall() == [("code",), ("big",), ("month",)]


def test_they_are_grouped_by_and_typed(client):
    found = client.execute(
        "SELECT code, big, sum(amount) / 7 AS s FROM orders GROUP BY code, big ORDER BY code"
    )
    assert found.fetchall() == [("N", False, 1), ("S", True, 8)]
    assert client.execute("SELECT count(*) FROM orders WHERE code || 'x' = %s", ["Nx"]).fetchone() == (1,)


def test_rows_have_them(client):
    assert client.execute("SELECT code FROM orders LIMIT 2").fetchall() == [("N", 1.0), ("S", 1.0)]
    found = client.execute("SELECT * FROM orders TABLESAMPLE (100 ROWS)")
    assert [each.name for each in found.description] == [
        "region",
        "amount",
        "day",
        "code",
        "big",
        "month",
        "weight",
    ]
    assert sorted(row[3:5] for row in found.fetchall()) == [("N", False), ("S", True)]
    found = client.execute("SELECT * FROM orders LIMIT 0")
    assert [each.name for each in found.description][:6] == [
        "region",
        "amount",
        "day",
        "code",
        "big",
        "month",
    ]
