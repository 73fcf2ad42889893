"""Intervals over the wire: as columns, by a setting, or in a NOTICE; a value that is not exact is never shown as exact."""

import psycopg
import pyarrow.compute as pc
import pytest
from typer.testing import CliRunner

from eddyline.api.jobs import save
from eddyline.api.plan import Plan
from eddyline.cli import app
from tests.serve.postgres import shop

JOINED = "SELECT count(*) AS n FROM orders o JOIN visits v ON o.customer = v.customer"


@pytest.fixture
def client(sampled_dsn):
    with psycopg.connect(sampled_dsn, autocommit=True) as client:
        client.printed = []
        client.add_notice_handler(lambda notice: client.printed.append(notice.message_primary))
        yield client


def test_a_value_alone_has_its_interval_in_a_notice(client):
    (value,) = client.execute(JOINED).fetchone()
    assert any(
        printed.startswith(f"n: {value:,}  [") and " at 95%" in printed for printed in client.printed
    ), client.printed


def test_columns_of_the_interval_hold_the_truth_and_agree_with_the_library(client):
    text = JOINED.replace("AS n", "AS n, n_low, n_high, exact, note")
    value, low, high, exact, _ = client.execute(text).fetchone()
    expected = shop.state("6 KB").answer(JOINED)
    counted = [pc.value_counts(table["customer"]).to_pylist() for table in (shop.orders(), shop.visits())]
    left, right = ({each["values"]: each["counts"] for each in counts} for counts in counted)
    truth = sum(count * right.get(customer, 0) for customer, count in left.items())
    assert not exact
    assert (value, low, high) == (round(expected.value), expected.low, expected.high)
    assert low <= truth <= high
    for printed in client.printed:
        assert not printed.startswith("n: ")
    functions = "SELECT eddyline.low(count(*)), count(*), eddyline.high(count(*)) AS up FROM orders o, visits v WHERE o.customer = v.customer"
    cursor = client.execute(functions)
    assert [column.name for column in cursor.description] == ["low", "count", "up"]
    assert cursor.fetchone() == (low, value, high)


def test_a_setting_adds_the_columns(client):
    client.execute("SET eddyline.intervals = on")
    names = [column.name for column in client.execute(JOINED).description]
    assert names == ["n", "n_low", "n_high", "exact"]
    cursor = client.execute("SELECT customer AS c, n AS rows FROM busiest LIMIT 2")
    assert [column.name for column in cursor.description] == ["c", "rows", "rows_low", "rows_high", "exact"]
    client.execute("RESET ALL")
    assert len(client.execute(JOINED).description) == 1


def test_confidence_widens_intervals(client):
    widths = []
    for confidence in ("0.8", "0.99"):
        client.execute(f"SET eddyline.confidence = {confidence}")
        low, high = client.execute("SELECT count_low, count_high FROM visits_by_buyers").fetchone()
        widths.append(high - low)
    assert widths[0] < widths[1]
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="between"):
        client.execute("SET eddyline.confidence = 2")
    with pytest.raises(psycopg.errors.UndefinedObject):
        client.execute("SET eddyline.nothing = 1")


def test_simultaneous_intervals_contain_those_of_each_group(client):
    grouped = "FROM orders GROUP BY is_paid"
    text = f"SELECT is_paid, sum(total) AS n, n_low, n_high {grouped} ORDER BY is_paid"
    alone = client.execute(text).fetchall()
    client.execute("SET eddyline.simultaneous = on")
    assert client.execute("SHOW eddyline.simultaneous").fetchone() == ("on",)
    together = client.execute(text).fetchall()
    assert [row[:2] for row in alone] == [row[:2] for row in together]
    assert len(alone) == 2
    for (*_, low, high), (*_, lower, higher) in zip(alone, together, strict=True):
        assert lower <= low < high < higher  # no fewer rows than are held
    asked = f"SELECT is_paid, SUM(total) AS n {grouped}"
    expected = shop.state("6 KB").answer(asked, simultaneous=True).to_arrow().to_pylist()
    assert {row["is_paid"]: (row["n_low"], row["n_high"]) for row in expected} == {
        row[0]: row[2:] for row in together
    }
    client.execute("RESET eddyline.simultaneous")
    assert client.execute(text).fetchall() == alone


def test_what_is_computed_from_estimates_says_that_its_interval_is_not_carried(client):
    for text, printed in (
        ("SELECT count * 2 AS twice FROM visits_by_buyers", "twice: computed from estimates"),
        ("SELECT sum(n) FROM busiest", "computed from estimates of busiest: intervals are not carried"),
        ("SELECT sum(n) FROM busiest", "n of groups that are not shown"),
        ("SELECT b.n FROM busiest b JOIN by_region r ON r.n > b.n", "computed from estimates of"),
        ("SELECT n FROM busiest ORDER BY n DESC LIMIT 3", "rows were chosen by estimates of n"),
        ("SELECT customer FROM busiest WHERE n > 10", "rows were chosen by estimates of n"),
    ):
        client.printed.clear()
        client.execute(text)
        assert any(printed in each for each in client.printed), (text, client.printed)


def test_groups_that_may_be_missing_are_in_a_notice(client):
    client.execute("SELECT customer, n FROM busiest")
    assert any("groups that are not shown" in printed for printed in client.printed), client.printed


def test_an_exact_answer_has_no_notice_of_an_interval(dsn):
    printed = []
    with psycopg.connect(dsn, autocommit=True) as client:
        client.add_notice_handler(lambda notice: printed.append(notice.message_primary))
        client.execute("SELECT region, n FROM by_region")
        client.execute("SELECT sum(n) FROM by_region")
        assert printed == []


def test_what_may_mean_something_else_in_spark_is_refused(client):
    for text in (
        "SELECT count(*) FROM orders WHERE region ~ 'n'",
        "SELECT count(*) FROM visits WHERE extract(epoch FROM at) = 0",
        "SELECT count(*) FROM orders WHERE substring(region, 0, 2) = 'n'",
        "SELECT region FROM orders",
        "SELECT n FROM by_region, orders",
    ):
        with pytest.raises(psycopg.errors.FeatureNotSupported):
            client.execute(text)
    for text, error in (
        ("SELECT count(*) FROM nothing", psycopg.errors.UndefinedTable),
        ("SELECT count(nothing) FROM orders", psycopg.errors.UndefinedColumn),
        ("SELECT nothing FROM by_region", psycopg.errors.UndefinedColumn),
        ("SELECT total_low FROM orders", psycopg.errors.UndefinedColumn),
        ("SELEC 1", psycopg.errors.SyntaxError),
    ):
        with pytest.raises(error):
            client.execute(text)


@pytest.fixture
def store(tmp_path):
    state = shop.state()
    save(str(tmp_path / "state"), Plan(state.snapshot.layout), state)
    return str(tmp_path / "state")


def test_the_terminal_answers_without_a_server(store):
    def run(*arguments, given=None):
        return CliRunner().invoke(app, ["sql", store, *arguments], input=given)

    shown = run("SELECT count, count_low FROM visits_by_buyers")
    assert shown.exit_code == 0, shown.output
    assert "count_low" in shown.stdout
    written = run("SELECT region, n FROM by_region ORDER BY region DESC LIMIT 1", "--format", "csv")
    assert written.stdout.splitlines()[0] == "region,n"
    assert written.stdout.splitlines()[1].startswith("west,")
    assert '"rows"' in run("--format", "json", given="SET eddyline.intervals = on; SELECT 1 AS x").stdout
    refused = run("DROP TABLE orders")
    assert refused.exit_code == 1
    assert "read-only" in refused.stderr


def test_pg_may_stand_without_an_address():
    for arguments in (
        ["nowhere", "--pg"],
        ["--pg", "nowhere"],
        ["--pg", "--wait", "nowhere", "--host", "256.1.1.1"],
    ):
        done = CliRunner().invoke(app, ["serve", *arguments])
        assert done.exit_code == 1
        assert "no store at" in done.output or "256.1.1.1" in done.output


def test_serve_checks_where_sql_clients_connect(store):
    for arguments, sentence in (
        (["--pg", "0.0.0.0:0"], "can be reached from other machines"),
        (["--pg", "127.0.0.1:99999"], "is not an address"),
        (["--pg-key", "key.pem"], "add --pg"),
        (["--pg", "127.0.0.1:0", "--pg-certificate", "nowhere.pem"], "cannot be used"),
    ):
        done = CliRunner().invoke(app, ["serve", store, "--port", "0", *arguments])
        assert done.exit_code == 1
        assert sentence in " ".join(done.output.split()), done.output
