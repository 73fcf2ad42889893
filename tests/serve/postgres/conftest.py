"""Servers on the loopback address: of an exact state and of a sampled one."""

import psycopg
import pytest

from tests.serve.postgres import shop
from tests.spark.postgres_server import server as real_server


@pytest.fixture(scope="session")
def exact_server():
    with shop.serving(shop.state()) as server:
        yield server


@pytest.fixture(scope="session")
def sampled_server():
    with shop.serving(shop.state("6 KB")) as server:
        yield server


@pytest.fixture
def dsn(exact_server):
    return f"host=127.0.0.1 port={exact_server.address[1]} user=me dbname=shop"


@pytest.fixture
def sampled_dsn(sampled_server):
    return f"host=127.0.0.1 port={sampled_server.address[1]} user=me dbname=shop"


@pytest.fixture(scope="session")
def real(tmp_path_factory):
    """A real PostgreSQL with the shop's tables."""
    with real_server(tmp_path_factory.mktemp("real")) as dsn:
        with psycopg.connect(dsn, autocommit=True) as client:
            client.execute(shop.TABLES)
            for name, rows in (("orders", shop.orders()), ("visits", shop.visits())):
                with client.cursor().copy(f"COPY {name} FROM STDIN") as copy:
                    for row in rows.to_pylist():
                        copy.write_row(tuple(row.values()))
        yield dsn
