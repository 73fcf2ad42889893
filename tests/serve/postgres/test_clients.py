"""Real clients: psql, psycopg, asyncpg, SQLAlchemy, ADBC and pgjdbc ask, browse, and get the same answers."""

import asyncio
import datetime as dt
import decimal
import os
import pathlib
import pty
import select
import shutil
import subprocess

import psycopg
import pyarrow.compute as pc
import pytest

from tests.serve.postgres import shop

asyncpg = pytest.importorskip("asyncpg")
sqlalchemy = pytest.importorskip("sqlalchemy")
HERE = pathlib.Path(__file__).parent
NORTH = pc.sum(pc.equal(shop.orders()["region"], "north")).as_py()


@pytest.fixture
def psql(exact_server, tmp_path):
    program = shutil.which("psql")
    if program is None:
        pytest.skip("psql is not installed")

    def run(*commands, sure=True):
        place = ["-h", "127.0.0.1", "-p", str(exact_server.address[1]), "-U", "me", "-d", "shop"]
        given = [part for command in commands for part in ("-c", command)]
        done = subprocess.run(
            [program, "-X", *place, *given], check=False, capture_output=True, text=True, cwd=tmp_path
        )
        assert (done.returncode == 0) is sure, done.stdout + done.stderr
        return done.stdout if sure else done.stderr

    return run


def test_psql_describes_streams_and_planned_queries(psql):
    shown = psql(
        "\\d", "\\dt", "\\dv", "\\d orders", "\\d+ by_region", "\\dn", "\\l", "\\du", "\\df", "\\sv by_region", "\\d+ orders",
        "\\sf now", "\\dT+ bool*", "\\d+", "\\dp orders", "\\dx", "\\dconfig *timeout", "\\df+ now", "\\conninfo",
    )  # fmt: skip
    lines = [" ".join(line.replace("|", " ").split()) for line in shown.splitlines()]
    assert "public orders table me" in lines
    assert "public by_region view me" in lines
    assert "total numeric(12,2)" in lines
    assert "n_low double precision plain" in lines
    assert "CREATE OR REPLACE VIEW public.by_region AS" in lines
    assert "AS $function$now$function$" in lines


def test_psql_shows_how_functions_are_called(psql):
    shown = [
        " ".join(line.replace("|", " ").split())
        for line in psql("\\df pg_catalog.date_trunc", "\\da bool_*").splitlines()
    ]
    assert "pg_catalog date_trunc timestamp without time zone text, timestamp without time zone func" in shown
    assert "pg_catalog bool_or boolean boolean" in shown
    assert 'function "nothing" does not exist' in psql("\\sf nothing", sure=False)
    assert 'more than one function named "sum"' in psql("\\sf sum", sure=False)
    assert "is an aggregate function" in psql("\\sf bool_or", sure=False)


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("SELECT n FROM by_r", "egion "),
        ("\\d ord", "ers"),
        ("SELECT count(*) FROM visits WHERE sec", "onds "),
        ("SET stat", "ement_timeout "),
        ("\\dv bus", "iest "),
        ("\\sf pg_get_viewd", "ef"),
        ("SHOW eddyline.conf", "idence "),
    ],
)
def test_psql_completes_what_is_typed_at_a_terminal(exact_server, typed, completed):
    program = shutil.which("psql")
    if program is None:
        pytest.skip("psql is not installed")
    place = f"host=127.0.0.1 port={exact_server.address[1]} user=me dbname=shop"
    terminal, its_side = pty.openpty()
    with subprocess.Popen(
        [program, "-X", place], stdin=its_side, stdout=its_side, stderr=its_side, start_new_session=True,
        env={"PATH": os.environ["PATH"], "TERM": "dumb"},
    ) as process:  # fmt: skip
        os.close(its_side)
        try:
            printed_until(terminal, "shop=> ")
            os.write(terminal, f"{typed}\t".encode())
            printed_until(terminal, typed + completed)
        finally:
            process.kill()
            os.close(terminal)


def printed_until(terminal, words):
    """Read a terminal until it shows some words."""
    shown = ""
    while words not in shown:
        ready, _, _ = select.select([terminal], [], [], 20)
        assert ready, f"{words!r} did not come after {shown!r}"
        shown += os.read(terminal, 4096).decode().replace("\a", "")


def test_psql_copies_a_query_to_a_file(psql, tmp_path):
    psql("\\copy (select region, n from by_region order by n desc limit 2) to 'out.csv' csv header")
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[0] == "region,n"
    assert len(lines) == 3
    psql("\\copy (select region from by_region order by 1) to 'out.txt'")
    assert (tmp_path / "out.txt").read_text().splitlines()[0] == 'O\'Hare \\\\ "x"'


def test_psql_reads_message_detail_and_hint_of_a_refusal(psql):
    printed = psql("\\set VERBOSITY verbose", "DELETE FROM orders", sure=False)
    assert "25006" in printed
    assert "read-only" in printed
    assert "DETAIL" in printed
    printed = psql("SELECT * FROM orders", sure=False)
    assert "selects rows, and rows are not kept" in printed
    assert "HINT" in printed


def test_psycopg_gets_values_as_text_and_in_binary(dsn):
    text = "SELECT region, n, n_low, money, exact, note FROM by_region WHERE region = %s"
    with psycopg.connect(dsn, autocommit=True) as client:
        for binary in (False, True):
            with client.cursor(binary=binary) as cursor:
                (row,) = cursor.execute(text, ("north",)).fetchall()
                assert row[:3] == ("north", NORTH, float(NORTH))
                assert row[4:] == (True, None)
        types = "SELECT %s::int8, %s::numeric, %s::date, %s::timestamp, %s::text, %s::boolean, %s::float8, %s::int[]"
        given = (
            -5,
            decimal.Decimal("-12.50"),
            dt.date(1999, 2, 3),
            dt.datetime(2024, 2, 29, 1, 2, 3, 40),
            "é'\\",
            True,
            0.1,
            [1, -2],
        )
        for binary in (False, True):
            with client.cursor(binary=binary) as cursor:
                assert cursor.execute(types, given).fetchone() == given


def test_psycopg_prepares_pipelines_and_reads_with_a_cursor(dsn):
    with psycopg.connect(dsn) as client:
        for _ in range(7):
            found = client.execute(
                "SELECT count(*) FROM orders WHERE region = %s", ("north",), prepare=True
            ).fetchone()
        assert found == (NORTH,)
        with client.pipeline():
            first, second = client.execute("SELECT 1"), client.execute("SELECT 2")
            assert (first.fetchone(), second.fetchone()) == ((1,), (2,))
        with client.cursor("many") as cursor:
            cursor.execute("SELECT customer, n FROM busiest")
            assert len(cursor.fetchmany(10)) == 10
            assert len(cursor.fetchall()) == len(set(shop.orders()["customer"].to_pylist())) - 10
        with client.cursor().copy("COPY (SELECT region, n FROM by_region) TO STDOUT (FORMAT binary)") as copy:
            copy.set_types(["text", "int8"])
            assert dict(copy.rows())["north"] == NORTH


def test_a_failed_transaction_waits_for_its_end(dsn):
    with psycopg.connect(dsn) as client:
        with pytest.raises(psycopg.errors.UndefinedTable):
            client.execute("SELECT * FROM nothing")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            client.execute("SELECT 1")
        client.rollback()
        client.execute("SET application_name = 'a'")
        client.rollback()
        assert client.execute("SHOW application_name").fetchone() == ("",)


def test_asyncpg_asks_by_statement_and_by_cursor(exact_server):
    async def ask():
        client = await asyncpg.connect(
            host="127.0.0.1", port=exact_server.address[1], user="me", database="shop"
        )
        rows = await client.fetch(
            "SELECT region, n FROM by_region WHERE n > $1 AND region = ANY($2)", 5, ["north"]
        )
        assert [tuple(row) for row in rows] == [("north", NORTH)]
        assert await client.fetchval("SELECT count(*) FROM orders WHERE region = $1", "north") == NORTH
        moment = dt.datetime(2024, 1, 2, 3, tzinfo=dt.UTC)
        found = await client.fetchrow(
            "SELECT $1::numeric, $2::timestamptz, $3::date",
            decimal.Decimal("12.50"),
            moment,
            dt.date(2024, 1, 2),
        )
        assert tuple(found) == (decimal.Decimal("12.50"), moment, dt.date(2024, 1, 2))
        async with client.transaction():
            read = [
                row["n"]
                async for row in client.cursor("SELECT n FROM busiest ORDER BY n DESC LIMIT 5", prefetch=2)
            ]
        assert len(read) == 5
        assert read == sorted(read, reverse=True)
        await client.reset()
        await client.close()

    asyncio.run(ask())


def test_sqlalchemy_inspects_reflects_and_asks(exact_server):
    engine = sqlalchemy.create_engine(f"postgresql+psycopg://me@127.0.0.1:{exact_server.address[1]}/shop")
    inspector = sqlalchemy.inspect(engine)
    assert sorted(inspector.get_table_names()) == ["orders", "visits"]
    assert sorted(inspector.get_view_names()) == sorted(shop.QUERIES)
    columns = {each["name"]: str(each["type"]) for each in inspector.get_columns("orders")}
    assert columns == {
        "customer": "BIGINT",
        "region": "TEXT",
        "total": "NUMERIC(12, 2)",
        "is_paid": "BOOLEAN",
    }
    assert inspector.get_pk_constraint("orders")["constrained_columns"] == []
    assert inspector.get_foreign_keys("orders") == inspector.get_indexes("orders") == []
    assert not inspector.has_table("nothing")
    reflected = sqlalchemy.MetaData()
    reflected.reflect(engine, views=True)
    orders = reflected.tables["orders"]
    counted = sqlalchemy.select(orders.c.region, sqlalchemy.func.count().label("n")).group_by(orders.c.region)
    with engine.connect() as client:
        assert (
            dict(map(tuple, client.execute(counted.order_by(sqlalchemy.desc("n")).limit(100))))["north"]
            == NORTH
        )
    engine.dispose()


def test_adbc_reads_arrow(exact_server):
    dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi")
    with dbapi.connect(f"postgresql://me@127.0.0.1:{exact_server.address[1]}/shop") as client:
        with client.cursor() as cursor:
            cursor.execute("SELECT region, n, exact FROM by_region WHERE region = $1", ("north",))
            assert cursor.fetch_arrow_table().to_pylist() == [{"region": "north", "n": NORTH, "exact": True}]
        assert client.adbc_get_table_schema("orders").names == ["customer", "region", "total", "is_paid"]
        objects = client.adbc_get_objects(depth="tables").read_all().to_pylist()
        named = {
            t["table_name"] for c in objects for s in c["catalog_db_schemas"] for t in s["db_schema_tables"]
        }
        assert {"orders", "by_region"} <= named


@pytest.fixture(scope="session")
def pgjdbc(tmp_path_factory):
    """The driver from Maven Central."""
    if shutil.which("java") is None or shutil.which("mvn") is None:
        pytest.skip("Java or Maven is not installed")
    where = tmp_path_factory.mktemp("pgjdbc")
    copy = [
        "mvn",
        "-q",
        "-B",
        "dependency:copy",
        "-Dartifact=org.postgresql:postgresql:42.7.4",
        f"-DoutputDirectory={where}",
    ]
    done = subprocess.run(copy, check=False, capture_output=True, text=True, timeout=240)
    found = list(where.glob("postgresql-*.jar"))
    if done.returncode or not found:
        pytest.skip("Maven Central is out of reach")
    return found[0]


def test_pgjdbc_browses_and_goes_binary(pgjdbc, exact_server):
    address = f"jdbc:postgresql://127.0.0.1:{exact_server.address[1]}/shop"
    done = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", "-cp", str(pgjdbc), str(HERE / "Client.java"), address],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    printed = [line.split("\t") for line in done.stdout.splitlines()]
    names = {
        part.removeprefix("TABLE_NAME=")
        for line in printed
        if line[0] == "table"
        for part in line
        if part.startswith("TABLE_NAME")
    }
    assert names == {"orders", "visits", *shop.QUERIES}
    assert [line[3] for line in printed if line[0] == "prepared"] == [str(NORTH)] * 8
    assert [line[2] for line in printed if line[0] == "bound"] == [str(NORTH)] * 8
    assert len({tuple(line) for line in printed if line[0] == "types"}) == 1
    assert ["refused", "25006"] in [line[:2] for line in printed]
