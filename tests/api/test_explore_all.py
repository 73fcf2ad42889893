"""Streams that are explored as a whole: every column, and every join along keys."""

import itertools

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import eddyline as el
from eddyline.api.pipeline import parse_pipeline
from tests.spark.postgres_server import server

SCHEMAS = {
    "orders": "id BIGINT PRIMARY KEY, customer BIGINT REFERENCES customers(id), total DOUBLE, photo BINARY, note VARCHAR(4000)",
    "customers": "id BIGINT PRIMARY KEY, city STRING, boss BIGINT REFERENCES customers",
    "lines": "order_id BIGINT, product BIGINT, qty INT, FOREIGN KEY (order_id) REFERENCES orders (id), CONSTRAINT p FOREIGN KEY (product) REFERENCES products",
    "products": "id BIGINT, name STRING, PRIMARY KEY (id)",
}
BY_NAME = {
    "orders": "id BIGINT, customer_id BIGINT, total DOUBLE",
    "customers": "id BIGINT, city STRING",
    "lines": "order_id BIGINT, product_id BIGINT, qty INT",
    "products": "id BIGINT, name STRING",
}
JOINS = [
    "SELECT c.city AS g, SUM(l.qty) AS n FROM lines l JOIN orders o ON l.order_id = o.id JOIN customers c ON o.customer{id} = c.id GROUP BY c.city",
    "SELECT p.name AS g, COUNT(*) AS n FROM lines l JOIN products p ON l.product{id} = p.id GROUP BY p.name",
    "SELECT p.name AS g, SUM(o.total) AS n FROM lines l JOIN products p ON l.product{id} = p.id JOIN orders o ON l.order_id = o.id JOIN customers c ON o.customer{id} = c.id WHERE c.city <> 'Kiel' GROUP BY p.name",
]


def tables(suffix: str = "", n: int = 400):
    rng = np.random.default_rng(1)
    made = {
        "orders": {
            "id": np.arange(n),
            f"customer{suffix}": rng.integers(0, 40, n),
            "total": rng.integers(0, 400, n) / 4,
        },
        "customers": {"id": np.arange(40), "city": rng.choice(["Bonn", "Kiel"], 40)},
        "lines": {
            "order_id": rng.integers(0, n, 3 * n),
            f"product{suffix}": rng.integers(0, 9, 3 * n),
            "qty": rng.integers(1, 9, 3 * n, dtype=np.int32),
        },
        "products": {"id": np.arange(9), "name": [f"p{i % 4}" for i in range(9)]},
    }
    if not suffix:
        made["orders"] |= {"photo": [b"x"] * n, "note": ["long"] * n}
        made["customers"]["boss"] = rng.integers(0, 5, 40)
    return {name: pa.table(columns) for name, columns in made.items()}


def state_of(schemas, given, **settings):
    w = el.Workload(seed=3, timezone="UTC", **settings)
    for name, schema in schemas.items():
        w.stream(name, schema)
    plan = w.plan()  # no query, and nothing is explored by name
    state = plan.empty()
    for name, table in given.items():
        state.update(name, table)
    return plan, state


def oracle_of(given):
    connection = duckdb.connect(":memory:")
    for name, table in given.items():
        connection.register(name, table)
    return connection


@pytest.mark.parametrize(
    ("schemas", "suffix"), [(SCHEMAS, ""), (BY_NAME, "_id")], ids=["declared", "by name"]
)
def test_a_workload_without_queries_answers_joins_along_keys(schemas, suffix):
    given = tables(suffix)
    _, state = state_of(schemas, given, budget="4 MB")
    with oracle_of(given) as oracle:
        for text in (f"{each.format(id=suffix)} ORDER BY g" for each in JOINS):
            wanted = oracle.execute(text).fetchall()
            got = state.sql(text, intervals=False)
            assert [tuple(row.values()) for row in got.to_pylist()] == wanted
            assert got.schema.metadata[b"eddyline.exact"] == b"true"


def test_a_key_that_refers_to_its_own_stream_joins():
    given = tables()
    _, state = state_of(SCHEMAS, given, budget="4 MB")
    text = "SELECT b.city AS g, COUNT(*) AS n FROM customers c JOIN customers b ON c.boss = b.id GROUP BY b.city ORDER BY g"
    with oracle_of(given) as oracle:
        assert [
            tuple(row.values()) for row in state.sql(text, intervals=False).to_pylist()
        ] == oracle.execute(text).fetchall()


def test_a_circle_of_keys_keeps_every_pair():
    """a - b - c - a: the last of three keys closes a circle, and joins along any two of them are answered."""
    schemas = {
        "a": "id BIGINT PRIMARY KEY, c BIGINT REFERENCES c(id), x INT",
        "b": "id BIGINT PRIMARY KEY, a BIGINT REFERENCES a(id), x INT",
        "c": "id BIGINT PRIMARY KEY, b BIGINT REFERENCES b(id), x INT",
    }
    rng = np.random.default_rng(5)
    given = {
        name: pa.table(
            {"id": np.arange(60), other: rng.integers(0, 60, 60), "x": rng.integers(0, 3, 60, dtype=np.int32)}
        )
        for name, other in (("a", "c"), ("b", "a"), ("c", "b"))
    }
    _, state = state_of(schemas, given, budget="4 MB")
    edges = ["b.a = a.id", "c.b = b.id", "a.c = c.id"]
    with oracle_of(given) as oracle:
        for one, two in itertools.combinations(edges, 2):
            text = (
                f"SELECT a.x AS g, COUNT(*) AS n FROM a, b, c WHERE {one} AND {two} GROUP BY a.x ORDER BY g"
            )
            assert [
                tuple(r.values()) for r in state.sql(text, intervals=False).to_pylist()
            ] == oracle.execute(text).fetchall()


def test_joins_along_keys_have_intervals_once_sampled():
    given = tables(n=4_000)
    _, state = state_of(SCHEMAS, given, budget="150 KB")
    with oracle_of(given) as oracle:
        inside = total = 0
        for text in (each.format(id="") for each in JOINS):
            truth = dict(oracle.execute(text).fetchall())
            for row in state.sql(text).to_pylist():
                total += 1
                inside += row["n_low"] <= truth[row["g"]] <= row["n_high"]
    assert inside >= 0.8 * total > 5


def test_what_columns_cost_is_shown():
    given = tables()
    plan, state = state_of(SCHEMAS, given, budget="4 MB")
    shown = plan.explain()
    assert "at most, in bytes of a row of orders: id" in shown
    assert "not held: photo (BINARY), note (STRING)" in shown
    assert "bytes of the columns of lines: order_id" in state.explain()


def test_a_star_explores_every_column_and_a_file_needs_no_query(tmp_path):
    text = """
    [workload]
    budget = "1 MB"
    timezone = "UTC"
    [streams.s]
    schema = "k INT, g STRING, b BINARY"
    format = "parquet"
    path = "s"
    """
    for explore in ("", 'explore = ["*"]'):
        state = parse_pipeline(text + explore, tmp_path / "p.toml").plan().empty()
        state.update(
            "s", pa.table({"k": pa.array([1, 2, 2], pa.int32()), "g": ["u", "v", None], "b": [b"x"] * 3})
        )
        assert state.answer("SELECT SUM(k) FROM s WHERE g IS NULL").value == 2
        with pytest.raises(el.EddylineError, match="b of stream 's'"):
            state.answer("SELECT COUNT(b) FROM s WHERE b = X'78'")


def test_joins_of_what_is_not_a_key_are_refused():
    _, state = state_of(BY_NAME, tables("_id"), budget="4 MB")
    with pytest.raises(el.PlanError, match="joins on"):
        state.answer("SELECT COUNT(*) FROM orders o JOIN products p ON o.id = p.id WHERE p.name = 'p1'")


def test_a_file_with_nothing_but_a_database_explores_its_tables(tmp_path):
    psycopg = pytest.importorskip("psycopg")
    with server(tmp_path) as dsn:
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("CREATE TABLE customers (id bigint PRIMARY KEY, city text)")
            connection.execute(
                "CREATE TABLE orders (number bigint PRIMARY KEY, who bigint REFERENCES customers, doc bytea)"
            )
            connection.execute(
                "CREATE SCHEMA eddyline"
            )  # the positions of a run that read these tables before
            connection.execute("CREATE TABLE eddyline.slot_positions (slot text, relation text, lsn bigint)")
        text = f'[workload]\nbudget = "1 MB"\n[postgres]\ndsn = "{dsn}"\n'
        pipeline = parse_pipeline(text, tmp_path / "db.toml")
        named = parse_pipeline(f'{text}slot = "mine"\n', tmp_path / "db.toml")
    assert list(pipeline.streams) == ["customers", "orders"]
    assert pipeline.workload.store == str(tmp_path / "state")
    for read, slot in ((pipeline, "eddyline_postgres"), (named, "mine")):
        for stream in read.streams.values():
            assert (stream.options["slot"], stream.options["shared"]) == (slot, "true")
    assert "FOREIGN KEY (who) REFERENCES customers (id)" in pipeline.streams["orders"].schema
    state = pipeline.plan().empty()
    change = {"_change_type": ["insert"] * 2}
    state.update("customers", pa.table({"id": [1, 2], "city": ["Bonn", "Kiel"], **change}))
    state.update("orders", pa.table({"number": [7, 8], "who": [1, 1], **change}))
    joined = "SELECT city, COUNT(*) AS n FROM orders JOIN customers ON who = id GROUP BY city"
    assert state.sql(joined, intervals=False).to_pylist() == [{"city": "Bonn", "n": 2}]


def test_a_file_without_streams_is_refused(tmp_path):
    with pytest.raises(el.PipelineError, match="it has no stream"):
        parse_pipeline('[workload]\nbudget = "1 MB"\n', tmp_path / "p.toml")


def test_distinct_values_of_a_column_that_nothing_follows_have_an_interval_that_holds():
    """Some values have one row and others most of them; at least 38 of 40 intervals hold, few of them wide."""
    held, widths = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        ranks = np.minimum(rng.zipf(1.4, 20_000), 100 if seed % 2 else 5)
        rows = {
            "id": np.arange(20_000),
            "shop": np.char.add("shop ", ranks.astype(str)),
            "day": rng.integers(0, 90, 20_000),
        }
        schemas = {"sales": "id BIGINT PRIMARY KEY, shop STRING, day BIGINT"}
        _, state = state_of(schemas, {"sales": pa.table(rows)}, budget="60 KB")
        for column in ("shop", "day"):
            found = state.answer(f"SELECT COUNT(DISTINCT {column}) FROM sales")
            truth = len(np.unique(rows[column]))
            assert not found.exact
            held.append(found.low <= truth <= found.high)
            widths.append((found.high - found.low) / truth)
    assert sum(held) >= 38
    assert np.median(widths) < 2
