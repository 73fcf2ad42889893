"""SQL around aggregates, from a client's connection: held to DuckDB on the same rows, which reads PostgreSQL's SQL."""

import datetime as dt
import decimal
import math
import pathlib
import threading
from types import SimpleNamespace

import duckdb
import psycopg
import pyarrow as pa
import pytest
import sqlglot

import eddyline as el
from eddyline.cli.serving import _wire_for
from eddyline.serve.postgres.dialect.kinds import annotate, kind_of
from eddyline.serve.postgres.engine import Client
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
    assert any("most" in each for each in notices), notices
    text = "WITH c AS (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer) SELECT AVG(n) AS mean FROM c"
    names, rows, notices = asked(sampled_dsn, text, "SET eddyline.intervals = on")
    assert (names[0], len(rows)) == ("mean", 1)
    assert any("groups" in each or "mean" in each for each in notices), "what is not seen is said"


ANALYST = (pathlib.Path(__file__).parent / "analyst.sql").read_text().splitlines()
KINDS = {
    16: "boolean", 20: "bigint", 21: "smallint", 23: "int", 25: "text", 700: "real", 701: "double", 1082: "date",
    1114: "timestamp", 1184: "timestamptz", 1186: "interval", 1700: "numeric",
}  # fmt: skip
"""PostgreSQL's types by their numbers."""


@pytest.fixture(scope="module")
def postgresql(real):
    with psycopg.connect(real, autocommit=True) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


def is_same(got, wanted):
    numbers = [isinstance(each, int | float | decimal.Decimal) for each in (got, wanted)]
    if all(numbers) and not isinstance(wanted, bool):
        return math.isclose(got, wanted, rel_tol=1e-9, abs_tol=1e-9)
    return got == wanted


def are_same(rows, wanted):
    return len(rows) == len(wanted) and all(
        len(row) == len(other) and all(map(is_same, row, other))
        for row, other in zip(rows, wanted, strict=True)
    )


def test_there_are_enough_texts():
    assert len(set(ANALYST)) >= 90


@pytest.mark.parametrize("place", range(len(ANALYST)))
def test_what_an_analyst_asks_is_answered_as_by_postgresql(dsn, postgresql, place):
    names, rows, notices = asked(dsn, ANALYST[place])
    expected = postgresql.execute(ANALYST[place])
    assert names == [column.name for column in expected.description]
    assert are_same(rows, expected.fetchall())
    for each in notices:
        assert "interval" not in each


def test_the_types_on_which_meanings_depend_are_those_of_postgresql(exact_server, postgresql):
    relations = Client(exact_server.engine).schema().kinds()
    known = 0
    for text in ANALYST:
        tree = sqlglot.parse_one(text, dialect="postgres")
        annotate(tree, relations)
        columns = postgresql.execute(text).description
        for item, column in zip(tree.selects, columns, strict=True):
            kind = kind_of(item)
            known += kind is not None
            # EXTRACT is a numeric, and its older form date_part a double: both have a fraction
            both = {kind, KINDS[column.type_code]} == {"numeric", "double"} and "date_part" in text
            assert kind is None or both or kind == KINDS[column.type_code], (text, column.name, kind)
    assert known > 180


@pytest.mark.parametrize("place", range(len(ANALYST)))
def test_no_estimate_is_silent(sampled_dsn, postgresql, place):
    """What differs from PostgreSQL's rows comes with a sentence on intervals, groups or what is not known."""
    try:
        _, rows, notices = asked(sampled_dsn, ANALYST[place])
    except psycopg.errors.FeatureNotSupported as refused:
        if "is not known" not in str(refused):  # as a MIN or MAX of a sample
            raise
        return
    if are_same(rows, postgresql.execute(ANALYST[place]).fetchall()):
        return
    said = " ".join(notices)
    assert any(
        each in said for each in (" at 95%", "intervals", "interval is not carried", "groups", "not known")
    )


def test_the_last_days_are_those_before_the_answer(dsn, postgresql):
    """Filters on the last days, as analysts, Metabase and Grafana write them, on rows of long ago and of today."""
    texts = [
        "SELECT count(*) FROM visits WHERE day < current_date - 7",
        "SELECT count(*) FROM visits WHERE day < CURRENT_DATE - INTERVAL '7 days' AND at < now()",
        "SELECT count(*) FROM visits WHERE at > now() - interval '7 days'",
        "SELECT count(*) FROM visits WHERE at >= date_trunc('day', (NOW() + INTERVAL '-30 day')) AND at < date_trunc('day', NOW())",
        "SELECT count(*) FROM visits WHERE at BETWEEN (CAST(now() AS timestamp) - interval '90000 day') AND date_trunc('month', now())",
        "SELECT date_trunc('month', at) AS m, count(*) FROM visits WHERE at < date_trunc('year', now()) GROUP BY 1 ORDER BY 1",
        "SELECT count(*) FROM visits WHERE CAST(at AS date) BETWEEN CAST((NOW() + INTERVAL '-30 year') AS date) AND CAST(NOW() AS date)",
    ]  # fmt: skip
    for text in texts:
        _, rows, notices = asked(dsn, text)
        assert rows == postgresql.execute(text).fetchall(), text
        assert any("are the time of this answer" in each for each in notices), notices


ADVERSARY = (pathlib.Path(__file__).parent / "adversary.sql").read_text()
"""Texts that look for faults: types, time zones, quotes, names, NULLs, ties, frames, empty results."""
EQUAL, REFUSED_HERE = (part.splitlines()[1:] for part in ADVERSARY.split("-- ")[1:])


def sorted_unless_ordered(text, rows):
    return rows if "ORDER BY" in text.rpartition(")")[2] else sorted(rows, key=repr)


@pytest.mark.parametrize("part", range(4))
def test_texts_that_look_for_faults_are_answered_as_by_postgresql(dsn, postgresql, part):
    assert len(set(EQUAL)) >= 240
    with psycopg.connect(dsn, autocommit=True) as connection:
        for text in EQUAL[part::4]:
            found, expected = connection.execute(text), postgresql.execute(text)
            assert [column.name for column in found.description] == [c.name for c in expected.description], (
                text
            )
            rows, wanted = (sorted_unless_ordered(text, each.fetchall()) for each in (found, expected))
            assert are_same(rows, wanted), (text, rows, wanted)


def test_times_with_a_zone_are_instants_and_others_are_in_the_plans_zone():
    w = (
        el.Workload(budget="1 MB", timezone="Europe/Berlin")
        .stream("events", "at TIMESTAMP")
        .explore("events")
    )
    times = [dt.datetime(2024, 3, 31, hour, tzinfo=dt.UTC) for hour in range(24)]
    kept = w.plan().empty().update("events", pa.table({"at": pa.array(times, pa.timestamp("us", "UTC"))}))
    after = {
        "'2024-03-31 12:00+02'": 14,
        "'2024-03-31 12:00+0230'": 14,
        "timestamptz '2024-03-31 12:00Z'": 12,
        "timestamptz '2024-03-31 12:00-03:30'": 8,
        "'2024-03-31 12:00'": 14,  # summer time began that day: it is two hours before UTC
        "timestamp '2024-03-31 12:00'": 14,
        "date '2024-04-01'": 2,
    }
    with shop.serving(kept) as server:
        dsn = f"host=127.0.0.1 port={server.address[1]} user=me dbname=shop"
        for constant, count in after.items():
            assert asked(dsn, f"SELECT count(*) FROM events WHERE at >= {constant}")[1] == [(count,)], (
                constant
            )


def test_texts_with_another_meaning_in_spark_are_refused(dsn):
    with psycopg.connect(dsn, autocommit=True) as connection:
        for text in REFUSED_HERE:
            with pytest.raises(psycopg.errors.FeatureNotSupported):
                connection.execute(text)


REFUSED = {
    "SELECT day + n FROM (SELECT day, count(*) AS n FROM visits GROUP BY day) AS t(day, n)": "INTERVAL",
    "SELECT a / b FROM (SELECT count(*), (SELECT array_agg(3)) FROM orders) AS t(a, b)": "ARRAY_AGG",
    "SELECT round(CAST(total AS double precision)) AS r, count(*) FROM orders GROUP BY 1": "rounds a double precision to even",
    "SELECT log(count(*)) FROM orders": "LOG",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY total DESC) FROM orders": "PERCENTILE_CONT",
    "SELECT to_char(day, 'Month') AS m, count(*) FROM visits GROUP BY 1": "to_char takes",
    "SELECT left(region, -1) AS l, count(*) FROM orders GROUP BY 1": "number of characters",
    "SELECT concat(region, total) AS c, count(*) FROM orders GROUP BY 1": "is neither a text",
    "SELECT region FROM orders GROUP BY region FETCH FIRST 3 ROWS WITH TIES": "WITH TIES",
    "SELECT count(*) FROM orders TABLESAMPLE SYSTEM (10)": "TABLESAMPLE of 'orders' next to aggregates",
    "SELECT region, n FROM (SELECT region, count(*) AS n FROM orders GROUP BY region) t WHERE region ~ 'x.y$'": "written pattern",
    "SELECT string_agg(region, ',') FROM (SELECT region, count(*) FROM orders GROUP BY region) t": "ORDER BY",
    "SELECT extract(epoch FROM at) AS e, count(*) FROM visits GROUP BY 1": "floor(extract(epoch FROM t) / 300)",
    "SELECT DISTINCT ON (region) region, customer FROM orders": "DISTINCT ON",
}  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_what_may_mean_something_else_is_refused(dsn, text):
    with pytest.raises(psycopg.errors.FeatureNotSupported) as refused:
        asked(dsn, text)
    diagnosis = refused.value.diag
    assert REFUSED[text] in f"{diagnosis.message_primary} {diagnosis.message_hint}"


@pytest.mark.parametrize(
    ("text", "state", "message", "hint"),
    [
        ("SELECT 1 / 0", "22012", "division by zero", None),
        (
            "SELECT count(*) FROM ordrs",
            "42P01",
            'relation "ordrs" does not exist',
            'Perhaps you meant "orders".',
        ),
        ("SELECT min(total) FROM orders WHERE is_paid", "0A000", "min is not known", "PERCENTILE_APPROX"),
    ],
)
def test_errors_say_what_is_wrong_as_postgresql_does(sampled_dsn, text, state, message, hint):
    with pytest.raises(psycopg.Error) as found:
        asked(sampled_dsn, text)
    said = found.value.diag
    assert (said.sqlstate, said.message_primary) == (state, message)
    assert hint is None or hint in said.message_hint


def test_a_statement_waits_until_the_store_was_read():
    newest = shop.state("6 KB")
    view = SimpleNamespace(state=None, sighting=SimpleNamespace(problem=None))
    server = _wire_for(SimpleNamespace(view=view), "127.0.0.1:0", None, None, None)
    server.start()
    try:
        threading.Timer(1.0, lambda: setattr(view, "state", newest)).start()
        dsn = f"host=127.0.0.1 port={server.address[1]} user=me dbname=shop"
        assert asked(dsn, "SELECT n FROM by_region LIMIT 0")[0] == ["n"]
        view.state, view.sighting.problem = None, "the store cannot be read"
        with pytest.raises(psycopg.errors.CannotConnectNow, match="cannot be read"):
            asked(dsn, "SELECT n FROM by_region")
    finally:
        server.stop()


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
    assert any("`weight` says how many each represents" in each for each in notices), notices
