"""Tables of a PostgreSQL server whose changes Debezium sends, and the truth about them from the server itself."""

import json
import random

import psycopg
import pyarrow as pa
import pytest

import eddyline as el
from eddyline.expressions.arrow_values import to_arrow
from eddyline.expressions.schema import parse_schema

TABLES = """
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT, total NUMERIC(12,2), weight NUMERIC, large NUMERIC(30,4),
  placed TIMESTAMP, seen TIMESTAMPTZ, day DATE, hour TIME, note TEXT);
CREATE TABLE visits (id BIGINT PRIMARY KEY, customer BIGINT, seconds INT);
CREATE TABLE pages (id BIGINT PRIMARY KEY, views INT, body TEXT);
ALTER TABLE orders REPLICA IDENTITY FULL;
ALTER TABLE visits REPLICA IDENTITY FULL;
ALTER TABLE orders ALTER note SET STORAGE EXTERNAL;
ALTER TABLE pages ALTER body SET STORAGE EXTERNAL;
"""
SCHEMAS = {
    "orders": "id BIGINT, customer BIGINT, total DECIMAL(12,2), weight DECIMAL(12,4), large DECIMAL(30,4), "
    "placed TIMESTAMP_NTZ, seen TIMESTAMP, day DATE, hour STRING, note STRING",
    "visits": "id BIGINT, customer BIGINT, seconds INT",
    "pages": "id BIGINT, views INT, body STRING",
}
PAIRS = "FROM orders o JOIN visits v ON o.customer = v.customer"
QUERIES = {
    "kept": "SELECT COUNT(*) FROM orders",
    "revenue": "SELECT SUM(total) FROM orders",
    "mass": "SELECT SUM(weight) FROM orders",
    "rich": "SELECT COUNT(*) FROM orders WHERE large < 1234567890123456700000.5",
    "moments": "SELECT COUNT(DISTINCT placed, seen) FROM orders",
    "late": "SELECT COUNT(*) FROM orders WHERE placed >= TIMESTAMP_NTZ '2024-03-01 00:00:00' AND day < DATE '2024-06-01'",
    "zoned": "SELECT COUNT(*) FROM orders WHERE seen < TIMESTAMP '2024-03-01 00:00:00Z'",
    "mornings": "SELECT COUNT(*) FROM orders WHERE hour < '12:00:00'",
    "noted": "SELECT COUNT(*) FROM orders WHERE note LIKE 'long%'",
    "pairs": f"SELECT COUNT(*) {PAIRS}",
    "money": f"SELECT SUM(o.total) {PAIRS}",
    "viewed": "SELECT SUM(views) FROM pages",
    "bodies": "SELECT COUNT(*) FROM pages WHERE body LIKE 'long%'",
}
IN_POSTGRES = {"COUNT(DISTINCT placed, seen)": "COUNT(DISTINCT (placed, seen))", "TIMESTAMP_NTZ": "TIMESTAMP",
               "TIMESTAMP '2024-03-01 00:00:00Z'": "TIMESTAMPTZ '2024-03-01 00:00:00Z'"}  # fmt: skip


def pipeline_text(servers, jars, queries, on_bad="skip"):
    """A pipeline file over the topics of the tables that queries read."""
    texts = {name: QUERIES[name] for name in queries}
    lines = [
        '[workload]\nbudget = "256 KB"\nseed = 5\nsamples = false\nstore = "state"',
        f'[spark]\njars = ["{jars}"]',
    ]
    lines.append(f'[run]\non_bad = "{on_bad}"\ntrigger = "200 milliseconds"')
    for name, schema in SCHEMAS.items():
        if any(f" {name}" in text for text in texts.values()):
            lines.append(f'[streams.{name}]\nschema = "{schema}"\nchanges = "debezium"\nformat = "kafka"')
            lines.append(
                f'options = {{ "kafka.bootstrap.servers" = "{servers}", subscribe = "shop.public.{name}" }}'
            )
    return "\n".join([*lines, "[queries]", *(f"{name} = {json.dumps(text)}" for name, text in texts.items())])


class Shop:
    """A connection that changes the tables; every change is a transaction."""

    def __init__(self, dsn):
        self._database = psycopg.connect(dsn, autocommit=True)
        self._database.execute("SET TIME ZONE 'Asia/Tokyo'")
        self._random = random.Random(7)
        self._next = 0
        self.change(TABLES)

    def close(self):
        self._database.close()

    def change(self, text, *values):
        return self._database.execute(text, values or None)

    def insert(self, rows):
        """Rows of both tables, some of them with a note so long that it is kept apart (TOAST)."""
        for _ in range(rows):
            self._next += 1
            customer = int(30 * self._random.random() ** 2)
            cents, micros = self._random.randrange(-(10**5), 10**6), self._random.randrange(10**13)
            moment = "timestamp '2024-01-01' + interval '1 microsecond' * %s"
            self.change(
                f"INSERT INTO orders VALUES (%s, %s, %s::numeric / 100, nullif(%s, 3)::numeric / 1000, "
                f"%s::numeric * 12345678901234567, {moment}, ({moment}) at time zone 'UTC', ({moment})::date, "
                f"({moment})::time, %s)",
                self._next, customer, cents, cents % 7, cents, micros, micros, micros, micros,
                "long" * 2000 if cents % 5 == 0 else "short",
            )  # fmt: skip
            self.change("INSERT INTO visits VALUES (%s, %s, %s)", self._next, customer, cents % 60)

    def work(self):
        """Updates of values and of keys, of rows with long notes among them, and deletes."""
        self.change(
            "UPDATE orders SET customer = customer + 1, total = total + 0.01 WHERE id %% 4 = 0 AND %s", True
        )
        self.change("UPDATE orders SET id = id + 100000 WHERE id %% 7 = 0 AND %s", True)
        self.change("UPDATE visits SET id = -id, customer = 3 WHERE id %% 9 = 0 AND %s", True)
        self.change("DELETE FROM orders WHERE id %% 5 = 0 AND %s", True)
        self.change("DELETE FROM visits WHERE id %% 11 = 0 AND %s", True)

    def exact(self, name):
        """The server's own answer to a query."""
        text = QUERIES[name]
        for ours, theirs in IN_POSTGRES.items():
            text = text.replace(ours, theirs)
        return self.change(text).fetchone()[0]

    def state(self, plan):
        """The state of a batch pass over the rows that the tables hold now."""
        state = plan.empty()
        for stream in plan.layout.streams:
            columns = parse_schema(stream.name, SCHEMAS[stream.name])
            names = ", ".join("hour::text" if c.name == "hour" else c.name for c in columns)
            rows = self.change(f"SELECT {names} FROM {stream.name}").fetchall()
            arrays = [
                pa.array([row[place] for row in rows], to_arrow(column.type))
                for place, column in enumerate(columns)
            ]
            after = pa.StructArray.from_arrays(arrays, [column.name for column in columns])
            images = {"op": ["c"] * len(rows), "before": pa.nulls(len(rows), after.type), "after": after}
            state = state.update(stream.name, pa.table(images))
        return state

    def check(self, store, queries):
        """Hold the answers of a store to the server's."""
        state = el.open(store)
        for name in queries:
            answer, exact = state.answer(name), float(self.exact(name))
            if name in ("pairs", "money", "moments"):
                assert answer.low <= exact <= answer.high, (name, exact, answer)
            else:
                assert answer.exact, name
                assert float(answer.value) == pytest.approx(exact, rel=1e-12), name
