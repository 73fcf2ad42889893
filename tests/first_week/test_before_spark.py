"""What is wrong with a pipeline's store or its database is reported before Spark starts, which takes half a minute."""

from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import psycopg
import pytest
from typer.testing import CliRunner

from eddyline.cli import app
from tests.spark.postgres_server import server

needs_server = pytest.mark.spark  # the quick tests install no PostgreSQL; nothing here starts Spark
SECRET = "Rhein-Moldau-7391"
FILES = """
[workload]
budget = "64 KB"
store = "{store}"
[streams.s]
schema = "k BIGINT"
format = "json"
path = "s"
[queries]
n = "SELECT COUNT(*) FROM s"
"""
TABLE = """
[workload]
budget = "64 KB"
store = "state"
[streams.a]
schema = "{schema}"
changes = "change_type"
format = "eddyline-postgres"
{more}
options = {{ dsn = "{dsn}", table = "a" }}
[queries]
n = "SELECT COUNT(*) FROM a"
"""


@pytest.fixture(autouse=True)
def no_spark(monkeypatch, tmp_path):
    monkeypatch.setattr("eddyline.cli.console.session", lambda *_: pytest.fail("Spark was started"))
    for name in ("PGPASSWORD", "PGPASSFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def shown(*arguments, code=1):
    """Return what a command prints; `no_spark` fails the test if the command starts Spark."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return " ".join(result.output.split())


@pytest.mark.parametrize("command", ["run", "ask"])
@pytest.mark.parametrize("place", ["/proc/nothing/state", "pipeline.toml/state"])
def test_a_store_that_cannot_be_made(tmp_path, command, place):
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "1.json").write_text('{"k": 1}\n')
    (tmp_path / "pipeline.toml").write_text(FILES.format(store=place))
    assert "StoreError" in shown(command, "pipeline.toml")
    assert "FAIL" in shown("doctor", "pipeline.toml")


def test_looking_whether_a_store_can_be_made_leaves_nothing(tmp_path):
    (tmp_path / "pipeline.toml").write_text(FILES.format(store="new/state"))
    assert "ok store" in shown("doctor", "pipeline.toml", code=0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pipeline.toml"]


@pytest.mark.parametrize("command", [("run", "--once"), ("ask",)])
def test_a_header_without_a_column(tmp_path, command):
    text = FILES.replace('"json"', '"csv"').replace("COUNT(*)", "SUM(k)").format(store="state")
    text = text.replace('path = "s"', 'path = "s"\noptions = { header = "true", sep = ";" }')
    (tmp_path / "pipeline.toml").write_text(text)
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "1.csv").write_bytes(b'\xef\xbb\xbf\n"a;b" ; c\n1;2\n')
    assert "there is no column 'k' in" in (said := shown(command[0], "pipeline.toml", *command[1:]))
    assert 'it has a;b, c; add sep = ";" to the options of the stream.' in said


def test_sources_that_are_elsewhere_are_looked_for(tmp_path):
    """A path that is a URI, and the brokers of a topic; nothing is started, and nothing is created."""
    (tmp_path / "there").mkdir()
    pipeline, text = tmp_path / "pipeline.toml", FILES.format(store="state")
    for path, sentence, code in (
        (f"file://{tmp_path}/there", "there can be read", 0),
        (f"file://{tmp_path}/none", "none does not exist: correct path", 1),
        (
            "elsewhere://user:secret@host/data",
            "elsewhere://host/data was not looked for: only Spark opens it",
            0,
        ),
        ("s3a://bucket/day=*/", "it is a pattern, which Spark reads", 0),
    ):
        pipeline.write_text(text.replace('path = "s"', f'path = "{path}"'))
        assert sentence in shown("doctor", "pipeline.toml", code=code)
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as no_broker:
        Thread(target=no_broker.serve_forever, daemon=True).start()
        for servers in ("127.0.0.1:1", f"127.0.0.1:1,127.0.0.1:{no_broker.server_port}", "no port"):
            options = f'{{ "kafka.bootstrap.servers" = "{servers}", subscribe = "t" }}'
            pipeline.write_text(
                text.replace('"json"', '"kafka"').replace('path = "s"', f"options = {options}")
            )
            assert f"no Kafka broker answers at {servers}" in shown("doctor", "pipeline.toml")
        no_broker.shutdown()
    pipeline.write_text(
        pipeline.read_text().replace("subscribe", '"kafka.security.protocol" = "SASL_SSL", subscribe')
    )
    assert "not looked for: its brokers need SASL_SSL" in shown("doctor", "pipeline.toml")


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """The DSN of a server that asks the user eddyline for a password, and has a table to follow and one that is not."""

    def prepare(data):
        (data / "pg_hba.conf").write_text(
            "host all tester 127.0.0.1/32 trust\nhost all eddyline 127.0.0.1/32 scram-sha-256\n"
        )

    with server(tmp_path_factory.mktemp("postgres"), prepare) as dsn:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(f"CREATE ROLE eddyline LOGIN SUPERUSER PASSWORD '{SECRET}'")
            connection.execute("CREATE TABLE a (id BIGINT, k BIGINT)")
            connection.execute("ALTER TABLE a REPLICA IDENTITY FULL")
            connection.execute("CREATE TABLE plain (id BIGINT)")
        yield dsn.replace("user=tester", "user=eddyline")


def write(folder, dsn, schema="id BIGINT, k BIGINT", more=""):
    (folder / "pipeline.toml").write_text(TABLE.format(dsn=dsn, schema=schema, more=more))


@needs_server
def test_a_login_that_fails(tmp_path, database, monkeypatch):
    write(tmp_path, database)
    for password in (None, "Wolga-1"):
        if password is not None:
            monkeypatch.setenv("PGPASSWORD", password)
        sentence = shown("run", "pipeline.toml", "--once")
        assert "stream 'a'" in sentence
        assert "password" in sentence
        assert "FAIL stream a (eddyline-postgres)" in shown("doctor", "pipeline.toml")
    assert not (tmp_path / "state").exists()


@needs_server
def test_a_table_that_cannot_be_followed(tmp_path, database, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", SECRET)
    write(tmp_path, database)
    assert "ok stream a (eddyline-postgres)" in shown("doctor", "pipeline.toml", code=0)
    write(tmp_path, database, "id BIGINT, nothing BIGINT")
    assert "has no column 'nothing'" in shown("run", "pipeline.toml", "--once")
    write(tmp_path, database)
    text = (tmp_path / "pipeline.toml").read_text()
    for table, sentence in (("plain", "REPLICA IDENTITY FULL"), ("none", "there is no table public.none")):
        (tmp_path / "pipeline.toml").write_text(
            text.replace('table = "a"', f'table = "{table}"').replace("id BIGINT, k BIGINT", "id BIGINT")
        )
        assert sentence in shown("run", "pipeline.toml", "--once")


@needs_server
def test_a_password_in_the_dsn_is_refused_in_our_words(tmp_path, database):
    write(tmp_path, f"{database} password={SECRET}")
    for command in (["run", "pipeline.toml", "--once"], ["doctor", "pipeline.toml"]):
        sentence = shown(*command)
        assert "the option dsn holds a password" in sentence
        assert SECRET not in sentence


def test_a_server_that_is_not_there(tmp_path):
    write(tmp_path, "host=127.0.0.1 port=1 dbname=x user=y")
    assert "cannot be reached" in shown("run", "pipeline.toml")
    assert "cannot be reached" in shown(
        "run", "pipeline.toml", "--full-refresh", "n"
    )  # it copies the table again
    pipeline = tmp_path / "pipeline.toml"
    pipeline.write_text(pipeline.read_text().replace("table =", 'snapshot = "never", table ='))
    assert "cannot be rebuilt" in shown("run", "pipeline.toml", "--full-refresh", "n")


@needs_server
def test_a_table_is_not_read_in_one_pass(tmp_path, database, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", SECRET)
    write(tmp_path, database)
    for command in (["ask", "pipeline.toml"], ["analyze", "pipeline.toml", "--out", "x.json"]):
        assert "start `eddyline run FILE --once`" in shown(*command)
    write(tmp_path, database, more="batch = true")
    assert "is followed by `eddyline run`" in shown("run", "pipeline.toml", "--once")


@needs_server
def test_init_of_a_table_says_what_to_do_next(tmp_path, database, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", SECRET)
    said = shown("init", database, "--table", "a", code=0)
    assert "then: eddyline run pipeline.toml --once, and eddyline ask pipeline.toml" in said
    text = (tmp_path / "pipeline.toml").read_text()
    assert "by one pass" not in text
    assert text.index("eddyline run pipeline.toml --once") < text.index("eddyline ask pipeline.toml")
