"""Servers on the loopback address: of an exact state and of a sampled one."""

import pytest

from tests.serve.postgres import shop


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
