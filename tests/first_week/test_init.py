"""`eddyline init`: a pipeline file from files and tables that works at once."""

import csv
import datetime as dt
import json
import re
import tomllib

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from eddyline.cli import app

ORDERS = pa.table(
    {
        "order": [1, 2, 3],
        "customer_id": [7, 7, 9],
        "Net Total": [1.5, 2.5, 3.0],
        "at": pa.array([dt.datetime(2026, 1, 1, 12)] * 3, pa.timestamp("us")),
        "tags": [["x"], [], ["y"]],
    }
)
VISITS = pa.table({"customer_id": [7, 9, 9, 11], "page": ["a", "b", "b", "c"], "weight": [1, 1, 1, 1]})


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders").mkdir()
    pq.write_table(ORDERS, tmp_path / "orders" / "1.parquet")
    pc.write_csv(VISITS, tmp_path / "visits 2026.csv", pc.WriteOptions(delimiter=";"))
    (tmp_path / "clicks.jsonl").write_text("\n".join(map(json.dumps, VISITS.to_pylist())))
    (tmp_path / "cdc.json").write_text(
        json.dumps({"op": "c", "before": None, "after": {"id": 1, "v": "x"}}) + "\n"
    )
    return tmp_path


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


def test_a_file_is_written_with_columns_formats_and_queries(files):
    shown = run("init", "orders", "visits 2026.csv", "clicks.jsonl", "cdc.json")
    assert "pipeline.toml has 4 streams" in shown
    written = tomllib.loads((files / "pipeline.toml").read_text())
    streams = written["streams"]
    assert streams["orders"] == {
        "schema": "order BIGINT, customer_id BIGINT, `Net Total` DOUBLE, at TIMESTAMP_NTZ",
        "format": "parquet",
        "path": "orders",
    }
    assert streams["visits_2026"] == {
        "schema": "customer_id BIGINT, page STRING, weight BIGINT",
        "format": "csv",
        "path": "visits 2026.csv",
        "options": {"header": "true", "sep": ";"},
        "batch": True,
    }
    assert streams["clicks"]["format"] == "json"
    assert (streams["cdc"]["schema"], streams["cdc"]["changes"]) == ("id BIGINT, v STRING", "debezium")
    assert written["queries"]["orders_with_visits_2026"].endswith("ON l.customer_id = r.customer_id")
    text = (files / "pipeline.toml").read_text()
    assert "# left out, for their types are not read: 'tags'" in text
    assert '# event_time = "at"' in text
    assert "exact" in run("plan", "pipeline.toml")


def test_a_file_that_is_there_stays_unless_told_otherwise(files):
    (files / "mine.toml").write_text("mine")
    assert "there is a file 'mine.toml'" in run("init", "orders", "--out", "mine.toml", code=1)
    assert (files / "mine.toml").read_text() == "mine"
    run("init", "orders", "--out", "mine.toml", "--force")


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("nowhere", "there is no file or folder 'nowhere'"),
        ("empty", "has no Parquet, CSV or JSON file"),
        ("notes.txt", "is not a Parquet, CSV or JSON file by its name"),
        ("bad.parquet", "cannot be read as parquet"),
        ("bad.json", "cannot be read as json"),
        ("empty.csv", "has no column of a type that is read"),
        ("empty.json", "cannot be read as json"),
        ("host=127.0.0.1 port=1 dbname=x", "the database cannot be asked"),
    ],
)
def test_what_is_no_source_gets_a_sentence(files, source, sentence):
    (files / "empty").mkdir()
    for name in ("notes.txt", "bad.parquet", "bad.json"):
        (files / name).write_bytes(b"\x00\xff no such thing {")
    (files / "empty.csv").touch()
    (files / "empty.json").touch()
    assert sentence in run("init", source, code=1)
    assert not (files / "pipeline.toml").exists()


TITLES = ['He said "no"', '"quoted"', "plain, with a comma", "", "a\\b"]


def write_forum(folder, rows=400):
    """Files as those of a forum: users and posts, each with its own Id, and times that few posts have."""
    start = dt.datetime(2026, 1, 1)
    posts = [
        {
            "Id": i,
            "ClosedDate": (start + dt.timedelta(days=9)).isoformat() if i % 40 == 0 else "",
            "LastEditDate": (start + dt.timedelta(minutes=i * 7919 % 5000)).isoformat(),
            "CreationDate": (start + dt.timedelta(minutes=i)).isoformat(),
            "OwnerUserId": i % 90,
            "Score": i % 5,
            "Title": TITLES[i % len(TITLES)],
        }
        for i in range(rows)
    ]
    users = [{"Id": i, "Reputation": i * 3, "Score": i % 3} for i in range(100)]
    for name, table in (("posts.csv", posts), ("users.csv", users)):
        with (folder / name).open("w", newline="") as file:
            writer = csv.DictWriter(file, table[0])
            writer.writeheader()
            writer.writerows(table)


def test_quotes_that_are_doubled_get_their_escape(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_forum(tmp_path)
    (tmp_path / "other.csv").write_text('a,b\n1,""\n2,"x, y"\n"3","he said \\"no\\""\n')
    run("init", "posts.csv", "users.csv", "other.csv")
    streams = tomllib.loads((tmp_path / "pipeline.toml").read_text())["streams"]
    assert streams["posts"]["options"] == {"header": "true", "escape": '"'}
    assert streams["users"]["options"] == streams["other"]["options"] == {"header": "true"}


def test_quotes_that_are_doubled_far_into_a_file_are_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f'{i},"text, {i}"' for i in range(200_000)]
    (tmp_path / "long.csv").write_text("\n".join(["id,t", *lines, '200000,"he said ""no"""']) + "\n")
    run("init", "long.csv")
    assert (
        tomllib.loads((tmp_path / "pipeline.toml").read_text())["streams"]["long"]["options"]["escape"] == '"'
    )


def test_a_time_that_few_rows_have_is_not_the_event_time(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_forum(tmp_path)
    run("init", "posts.csv")
    assert re.findall(r"event_time = (.*?) ", (tmp_path / "pipeline.toml").read_text()) == ['"CreationDate"']


@pytest.mark.parametrize(
    ("left", "right", "on"),
    [
        ({"Id": [1, 2, 3]}, {"Id": [1, 2, 3], "v": [1, 1, 1]}, None),
        ({"Id": [1, 2, 3]}, {"Id": [7, 8, 9], "LeftId": [1, 1, 3]}, "l.Id = r.LeftId"),
        ({"RightId": [1, 2, 3]}, {"Id": [1, 2, 3]}, "l.RightId = r.Id"),
        ({"order_id": [1, 2]}, {"order_id": [2, 2]}, "l.order_id = r.order_id"),
        ({"order_id": [1, 2]}, {"order_id": [900, 901]}, None),
        ({"customer": ["a", "b"]}, {"customer": ["b", "c"]}, "l.customer = r.customer"),
        ({"customer": ["a", "b"]}, {"customer": ["x", "y"]}, None),
        ({"score": [1, 2]}, {"score": [1, 2]}, None),
        ({"customer_id": [1, 2]}, {"customer_id": ["1", "2"]}, None),
    ],
)
def test_joins_are_of_columns_that_belong_together(tmp_path, monkeypatch, left, right, on):
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table(left), "left.parquet")
    pq.write_table(pa.table(right), "right.parquet")
    run("init", "left.parquet", "right.parquet", "--out", "p.toml")
    queries = tomllib.loads((tmp_path / "p.toml").read_text())["queries"]
    joins = [text.partition(" ON ")[2] for name, text in queries.items() if "_with_" in name]
    assert joins == ([] if on is None else [on])


def test_the_posts_of_a_forum_join_their_owners(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_forum(tmp_path)
    run("init", "posts.csv", "users.csv")
    queries = tomllib.loads((tmp_path / "pipeline.toml").read_text())["queries"]
    assert queries["posts_with_users"].endswith("ON l.OwnerUserId = r.Id")


@pytest.mark.spark
def test_quotes_come_back_as_they_were_written(tmp_path, spark, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("eddyline.cli.console.session", lambda *_: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)
    write_forum(tmp_path)
    run("init", "posts.csv", "users.csv")
    text = (tmp_path / "pipeline.toml").read_text()
    asked = 'said = "SELECT COUNT(*) FROM posts WHERE Title = \'He said \\"no\\"\'"'
    (tmp_path / "pipeline.toml").write_text(f"{text}{asked}\n")
    shown = run("ask", "pipeline.toml")
    assert re.search(r"posts_rows 400 400 400 exact", shown), shown
    assert re.search(r"said 80 80 80 exact", shown), shown
    assert re.search(r"posts_with_users 400 400 400 exact", shown), shown


@pytest.mark.spark
def test_the_file_answers_and_runs_at_once(files, spark, monkeypatch):
    monkeypatch.setattr("eddyline.cli.console.session", lambda *_: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)
    run("init", "orders", "visits 2026.csv", "clicks.jsonl", "cdc.json")
    expected = {
        "orders_rows": 3,
        "visits_2026_rows": 4,
        "clicks_rows": 4,
        "cdc_rows": 1,
        "orders_with_visits_2026": 4,
    }
    answered = run("ask", "pipeline.toml")
    run("run", "pipeline.toml", "--once")
    again = run("ask", "pipeline.toml")
    for shown in (answered, again):
        for name, value in expected.items():
            assert re.search(rf"{name} {value} {value} {value} exact", shown), shown


def test_tables_of_a_database(tmp_path, monkeypatch):
    import psycopg

    from tests.spark.postgres_server import server

    monkeypatch.chdir(tmp_path)
    with server(tmp_path) as dsn:
        with psycopg.connect(dsn) as connection:
            connection.execute(
                "CREATE TABLE orders (id bigint, total numeric(12,2), at timestamptz, tags text[])"
            )
            connection.execute('CREATE TABLE "Line Items" (id bigint, item varchar(9))')
        run("init", f"{dsn} password=secret")
        text = (tmp_path / "pipeline.toml").read_text()
        assert "no table public.nothing" in run("init", dsn, "--table", "nothing", "--force", code=1)
    assert "secret" not in text
    streams = tomllib.loads(text)["streams"]
    assert streams["orders"]["schema"] == "id BIGINT, total DECIMAL(12,2), at TIMESTAMP"
    assert streams["orders"]["changes"] == "change_type"
    assert streams["line_items"]["options"]["table"] == "public.Line Items"
    assert "'tags'" in text


def test_keys_of_a_database_are_those_of_its_catalog(tmp_path, monkeypatch):
    """Names mislead here: both tables have an `id` and a `total`, and only the catalog knows which columns join."""
    import psycopg

    from tests.spark.postgres_server import server

    monkeypatch.chdir(tmp_path)
    with server(tmp_path) as dsn:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(
                """
                CREATE TABLE shops (country text, number int, total bigint, id bigint, PRIMARY KEY (country, number));
                CREATE TABLE sales (
                    id bigint, total bigint, "Of" text, place int, part_of bigint, seen date NOT NULL,
                    PRIMARY KEY (id, seen), FOREIGN KEY ("Of", place) REFERENCES shops
                ) PARTITION BY RANGE (seen);
                CREATE TABLE sales_2026 PARTITION OF sales FOR VALUES FROM ('2026-01-01') TO ('2027-01-01');
                CREATE TABLE people (id bigint PRIMARY KEY, boss bigint REFERENCES people, tags text[] UNIQUE);
                INSERT INTO shops VALUES ('DE', 1, 5, 5), ('FR', 1, 5, 5);
                INSERT INTO sales VALUES (1, 5, 'DE', 1, NULL, '2026-02-03');
                """
            )
        run("init", dsn)
        run("init", dsn, "--table", "sales", "--out", "alone.toml")
        run("init", dsn, "--table", "sales_2026", "--out", "part.toml")
    written = tomllib.loads((tmp_path / "pipeline.toml").read_text())
    assert {
        name: stream["schema"].partition(", PRIMARY")[2] for name, stream in written["streams"].items()
    } == {
        "shops": " KEY (country, number)",
        "sales": " KEY (id, seen), FOREIGN KEY (Of, place) REFERENCES shops (country, number)",
        "people": " KEY (id), FOREIGN KEY (boss) REFERENCES people (id)",
    }  # and sales_2026 is read with sales
    on = "l.Of = r.country AND l.place = r.number"
    assert written["queries"]["sales_with_shops"] == f"SELECT COUNT(*) FROM sales l JOIN shops r ON {on}"
    alone = tomllib.loads((tmp_path / "alone.toml").read_text())
    assert alone["streams"]["sales"]["schema"].endswith("PRIMARY KEY (id, seen)")
    assert list(tomllib.loads((tmp_path / "part.toml").read_text())["streams"]) == ["sales_2026"]
