"""SQL around aggregates, from a client's connection: held to DuckDB on the same rows, which reads PostgreSQL's SQL."""

import duckdb
import psycopg
import pytest

from tests.serve.postgres import shop

TEXTS = {
    "with": "WITH r AS (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) SELECT AVG(n) AS mean FROM r",
    "subquery in FROM": "SELECT MAX(n) AS most FROM (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer) AS c",
    "window function": "SELECT region, n, RANK() OVER (ORDER BY n DESC) AS place FROM "
    "(SELECT region, COUNT(*) AS n FROM orders GROUP BY region) AS r ORDER BY place, region",
    "UNION ALL": "SELECT region, COUNT(*) AS n FROM orders WHERE is_paid GROUP BY region UNION ALL "
    "SELECT 'all', COUNT(*) FROM orders ORDER BY n DESC, region",
    "join of grouped results": "SELECT a.region, a.n, b.n AS paid FROM "
    "(SELECT region, COUNT(*) AS n FROM orders GROUP BY region) AS a JOIN "
    "(SELECT region, COUNT(*) AS n FROM orders WHERE is_paid GROUP BY region) AS b ON a.region = b.region ORDER BY 1",
    "a view and a stream": "SELECT r.region, r.n FROM by_region AS r, (SELECT COUNT(*) AS total FROM orders) AS t "
    "WHERE r.n * 5 > t.total ORDER BY r.region",
    "percentile of two streams": "SELECT PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY v.seconds - o.customer) AS p "
    "FROM orders AS o JOIN visits AS v ON o.customer = v.customer",
    "NULLs last": "SELECT NULLIF(region, 'east') AS known, n FROM "
    "(SELECT region, COUNT(*) AS n FROM orders GROUP BY region) AS r ORDER BY known",
}


@pytest.fixture(scope="module")
def oracle():
    made = duckdb.connect()
    made.register("orders", shop.orders())
    made.register("visits", shop.visits())
    made.execute(f"CREATE VIEW by_region AS {shop.QUERIES['by_region']}")
    yield made
    made.close()


def asked(dsn, text, *before):
    notices = []
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.add_notice_handler(lambda notice: notices.append(notice.message_primary))
        for each in before:
            connection.execute(each)
        found = connection.execute(text)
        return [column.name for column in found.description], found.fetchall(), notices


@pytest.mark.parametrize("name", TEXTS)
def test_an_exact_result_is_duckdbs(dsn, oracle, name):
    names, rows, notices = asked(dsn, TEXTS[name])
    expected = oracle.execute(TEXTS[name])
    assert names == [column[0] for column in expected.description]
    assert rows == expected.fetchall()
    assert not any("interval" in each for each in notices), "exact numbers need no sentence about intervals"


def test_a_sampled_result_says_what_is_estimated(sampled_dsn):
    _, ((value,),), notices = asked(sampled_dsn, TEXTS["subquery in FROM"])
    assert value > 0
    assert any("most" in each for each in notices)
    names, rows, notices = asked(sampled_dsn, TEXTS["with"], "SET eddyline.intervals = on")
    assert (names[0], len(rows)) == ("mean", 1)
    assert any("groups" in each or "mean" in each for each in notices), "what is not seen is said"


def test_whole_number_division_around_aggregates_is_refused(dsn):
    text = "SELECT n / 2 FROM (SELECT region, COUNT(*) AS n FROM orders GROUP BY region) AS r"
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="divides whole numbers"):
        asked(dsn, text)


def test_limit_and_tablesample_return_rows_with_weights(dsn, sampled_dsn, oracle):
    names, rows, _ = asked(dsn, "SELECT * FROM orders TABLESAMPLE SYSTEM (100) WHERE total > 100")
    assert names == ["customer", "region", "total", "is_paid", "weight"]
    found = {row[:4]: row[4] for row in rows}
    expected = oracle.execute("SELECT o.*, COUNT(*) FROM orders o WHERE total > 100 GROUP BY ALL").fetchall()
    assert found == {row[:4]: row[4] for row in expected}
    names, rows, notices = asked(
        sampled_dsn, 'SELECT "public"."orders"."region" AS "region" FROM "public"."orders" LIMIT 3'
    )
    assert (names, len(rows)) == (["region", "weight"], 3)
    assert any("`weight` says how many each represents" in each for each in notices)
