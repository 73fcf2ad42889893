"""Encrypted connections and passwords: by libpq's environment and pgpass, and never to be read anywhere."""

import os
import pathlib
import shutil
import subprocess
import sys

import psycopg
import pytest

from eddyline.errors import PipelineError
from tests.spark.postgres_rows import Stream, held, tables
from tests.spark.postgres_server import give, server

pytestmark = [pytest.mark.spark, pytest.mark.processes]
SECRET = "Rhein-Moldau-7391"


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    """A server that takes encrypted connections with passwords alone, and its certificate; (dsn, certificate)."""
    folder = tmp_path_factory.mktemp("postgres")
    certificate = folder / "certificate.pem"

    def prepare(data):
        _certificate(data / "server.key", certificate, "localhost")
        shutil.copy(certificate, data / "server.crt")
        for name in ("server.key", "server.crt"):
            give(data / name)
        with (data / "postgresql.conf").open("a") as conf:
            conf.write("ssl = on\npassword_encryption = 'scram-sha-256'\n")
        (data / "pg_hba.conf").write_text(
            "hostnossl all tester 127.0.0.1/32 trust\nhostssl all eddyline 127.0.0.1/32 scram-sha-256\n"
        )

    with server(folder, prepare) as dsn:
        with psycopg.connect(dsn, sslmode="disable", autocommit=True) as connection:
            connection.execute(f"CREATE ROLE eddyline LOGIN SUPERUSER PASSWORD '{SECRET}'")
        yield dsn, certificate


def _certificate(key, certificate, name):
    command = [
        "openssl",
        "req",
        "-new",
        "-x509",
        "-nodes",
        "-days",
        "2",
        "-subj",
        f"/CN={name}",
        "-newkey",
        "rsa:2048",
    ]
    extra = ["-addext", f"subjectAltName=DNS:{name}", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *extra], check=True, capture_output=True)
    key.chmod(0o600)


def encrypted(dsn, certificate, host="localhost"):
    port = psycopg.conninfo.conninfo_to_dict(dsn)["port"]
    return (
        f"host={host} hostaddr=127.0.0.1 port={port} user=eddyline dbname=postgres sslmode=verify-full "
        f"sslrootcert={certificate}"
    )


@pytest.fixture
def given(secured, monkeypatch, tmp_path):
    """The same server, and a function that gives a password in one of two ways."""
    for name in ("PGPASSWORD", "PGPASSFILE"):
        monkeypatch.delenv(name, raising=False)

    def give_password(way, password=SECRET):
        if way == "PGPASSWORD":
            monkeypatch.setenv(way, password)
        else:
            (tmp_path / "pgpass").write_text(f"*:*:postgres:eddyline:{password}\n")
            (tmp_path / "pgpass").chmod(0o600)
            monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pgpass"))

    return *secured, give_password


@pytest.mark.parametrize("way", ["PGPASSWORD", "PGPASSFILE"])
def test_a_table_is_read_with_a_checked_certificate_and_a_password(given, way):
    dsn, certificate, give_password = given
    give_password(way)
    with tables(f"{dsn} sslmode=disable", "a") as connection:
        connection.execute("INSERT INTO a VALUES (1, 1)")
        stream = Stream(encrypted(dsn, certificate), "a").all()
        connection.execute("UPDATE a SET k = 2")
        assert stream.all().rows == held(connection, "a")
        with stream.reader._log.connected() as mine:
            assert mine.execute("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").fetchone()[0]
        assert SECRET not in f"{stream.reader._log!r} {vars(stream.reader)} {stream.at}"


@pytest.mark.parametrize("way", ["PGPASSWORD", "PGPASSFILE"])
def test_a_wrong_password_is_told_and_not_shown(given, way):
    dsn, certificate, give_password = given
    give_password(way, "Wolga-1")
    with pytest.raises(PipelineError, match=r"cannot be reached: .*password authentication failed") as shown:
        Stream(encrypted(dsn, certificate), "a")
    assert "Wolga" not in str(shown.value)
    assert "\n" not in str(shown.value)


def test_no_password_at_all_is_reported(given):
    dsn, certificate, _ = given
    with pytest.raises(PipelineError, match=r"cannot be reached: .*no password supplied"):
        Stream(encrypted(dsn, certificate), "a")


def test_a_certificate_that_does_not_fit_is_reported(given, tmp_path):
    dsn, certificate, give_password = given
    give_password("PGPASSWORD")
    other = tmp_path / "other.pem"
    _certificate(tmp_path / "other.key", other, "localhost")
    with pytest.raises(PipelineError, match=r"cannot be reached: .*certificate verify failed"):
        Stream(encrypted(dsn, other), "a")
    with pytest.raises(PipelineError, match=r"cannot be reached: .*does not match host name"):
        Stream(encrypted(dsn, certificate, "db.example"), "a")


@pytest.mark.slow
def test_a_run_leaves_the_password_nowhere(given, tmp_path):
    """Neither in what it prints, at the loudest log level, nor in any file: store, checkpoint, Spark's event log."""
    dsn, certificate, _ = given
    (tmp_path / "events").mkdir()
    (tmp_path / "pipeline.toml").write_text(f"""
[workload]
budget = "64 KB"
store = "state"
[spark]
conf = {{ "spark.eventLog.enabled" = "true", "spark.eventLog.dir" = "file://{tmp_path}/events", "spark.log.level" = "INFO" }}
[streams.a]
schema = "id BIGINT, k BIGINT"
changes = "change_type"
format = "eddyline-postgres"
options = {{ dsn = "{encrypted(dsn, certificate)}", table = "a" }}
[queries]
n = "SELECT COUNT(*) FROM a"
""")
    command = [sys.executable, "-m", "eddyline.cli"]
    env = {
        **os.environ,
        "PGPASSWORD": SECRET,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "TMPDIR": str(tmp_path),
    }
    with tables(f"{dsn} sslmode=disable", "a") as connection:
        connection.execute("INSERT INTO a SELECT i, i FROM generate_series(1, 42) i")
        done = [
            subprocess.run([*command, *what], env=env, cwd=tmp_path, capture_output=True, text=True, check=False)
            for what in (["run", "pipeline.toml", "--once", "--log-format", "json"], ["ask", "pipeline.toml"], ["plan", "pipeline.toml"])
        ]  # fmt: skip
    shown = "".join(each.stdout + each.stderr for each in done)
    assert [each.returncode for each in done] == [0, 0, 0], shown[-3000:]
    assert "42" in done[1].stdout
    assert SECRET not in shown
    files = [path for path in pathlib.Path(tmp_path).rglob("*") if path.is_file()]
    assert any("offsets" in str(path) for path in files), files
    assert any("events" in str(path) for path in files), files
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []
