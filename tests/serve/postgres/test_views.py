"""SQL over planned queries: each expression means what it means in PostgreSQL, or is refused with its name."""

import pathlib
import re

import psycopg
import pytest

import eddyline as el
from tests.serve.postgres import shop
from tests.serve.postgres.test_around import are_same

VIEWS = {
    "by_region": "SELECT region, COUNT(*) AS n, SUM(total) AS money FROM orders GROUP BY region",
    "by_day": "SELECT day, COUNT(*) AS n FROM visits GROUP BY day",
    "by_hour": "SELECT DATE_TRUNC('HOUR', at) AS hour, COUNT(*) AS n, SUM(seconds) AS seconds FROM visits "
    "GROUP BY DATE_TRUNC('HOUR', at)",
    "by_kind": "SELECT region, is_paid, COUNT(*) AS n, AVG(customer) AS mean FROM orders GROUP BY region, is_paid",
}
"""Names and Spark's SQL; a mean is a double there, and a truncated time has a zone."""
THEIRS = {
    "AVG(customer)": "avg(customer)::float8",
    "DATE_TRUNC('HOUR', at)": "date_trunc('hour', at) AT TIME ZONE 'UTC'",
}


def expressions():
    """Yield how each statement of expressions.sql ends, and the statement."""
    ends = ""
    for line in (pathlib.Path(__file__).parent / "expressions.sql").read_text().splitlines():
        if line.startswith("-- "):
            ends = line.removeprefix("-- ")
        else:
            yield ends, line


ALL = list(expressions())


@pytest.fixture(scope="module")
def ours():
    w = el.Workload(budget="4 MB", seed=7, timezone="UTC")
    w.stream("orders", "customer BIGINT, region STRING, total DECIMAL(12,2), is_paid BOOLEAN")
    w.stream("visits", "customer BIGINT, seconds INT, day DATE, at TIMESTAMP_NTZ")
    for name, text in VIEWS.items():
        w.query(name, text)
    kept = w.plan().empty().update("orders", shop.orders()).update("visits", shop.visits())
    with shop.serving(kept) as server:
        dsn = f"host=127.0.0.1 port={server.address[1]} user=me dbname=shop"
        with psycopg.connect(dsn, autocommit=True) as connection:
            yield connection


@pytest.fixture(scope="module")
def theirs(real):
    with psycopg.connect(real, autocommit=True) as connection:
        connection.execute("SET TimeZone = 'UTC'; CREATE SCHEMA views; SET search_path = views, public")
        for name, text in VIEWS.items():
            written = re.sub("|".join(map(re.escape, THEIRS)), lambda found: THEIRS[found[0]], text)
            connection.execute(f"CREATE VIEW views.{name} AS {written}")
        yield connection
        connection.execute("DROP SCHEMA views CASCADE")


def test_most_expressions_are_answered():
    assert sum(ends == "equal" for ends, _ in ALL) >= 250


@pytest.mark.parametrize(("ends", "text"), ALL, ids=[text for _, text in ALL])
def test_an_expression_is_equal_or_refused(ends, text, ours, theirs):
    if ends == "equal":
        found, expected = ours.execute(text), theirs.execute(text)
        assert [each.name for each in found.description] == [each.name for each in expected.description]
        assert are_same(found.fetchall(), expected.fetchall())
        return
    with pytest.raises(psycopg.Error) as refused:
        ours.execute(text)
    if ends == "refused here":
        assert refused.value.sqlstate in ("0A000", "42883")
        theirs.execute(text)
        return
    with pytest.raises(psycopg.Error):
        theirs.execute(text)


def test_a_refusal_names_the_part_as_it_was_written(ours):
    with pytest.raises(psycopg.errors.FeatureNotSupported) as refused:
        ours.execute("SELECT upper(to_char(day, 'Month')) AS m, round(n / 7.0, 1) FROM by_day")
    assert "\"TO_CHAR(day, 'Month')\" over planned queries" in refused.value.diag.message_primary
    assert "YYYY" in refused.value.diag.message_hint
