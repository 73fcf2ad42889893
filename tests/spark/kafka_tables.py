"""Tables whose changes go to Kafka as a connector would send them, with the rows that they hold now as the oracle."""

import json
import random

import pyarrow as pa

import eddyline as el

SCHEMAS = {
    "orders": "id BIGINT, customer BIGINT, total BIGINT",
    "visits": "id BIGINT, customer BIGINT, total BIGINT",
    "clicks": "customer BIGINT, page STRING",
}
CHANGES = {"orders": "debezium", "visits": "debezium", "clicks": "w"}
PARTITIONS = {"orders": 3, "visits": 2, "clicks": 4}
PAIRS = "FROM orders o JOIN visits v ON o.customer = v.customer"
QUERIES = {
    "pairs": f"SELECT COUNT(*) {PAIRS}",
    "money": f"SELECT SUM(o.total) {PAIRS}",
    "kept": "SELECT COUNT(*) FROM orders",
    "revenue": "SELECT SUM(total) FROM orders",
    "visited": "SELECT COUNT(*) FROM visits",
    "pages": "SELECT COUNT(*) FROM clicks WHERE page = 'p1'",
    "clicked": "SELECT COUNT(*) FROM clicks c JOIN orders o ON c.customer = o.customer",
}
CONFIDENCE = 0.999


def pipeline_text(servers, jars, *, streams=tuple(SCHEMAS), extra="", prefix=""):
    """A pipeline file over topics named like their streams, after a prefix; `extra` goes to the table of the last stream."""
    lines = [
        f'[workload]\nbudget = "64 KB"\nseed = 5\nconfidence = {CONFIDENCE}\nsamples = false\nstore = "state"'
    ]
    lines += [f'[spark]\njars = ["{jars}"]', '[run]\non_bad = "skip"\ntrigger = "200 milliseconds"']
    for name in streams:
        lines.append(
            f'[streams.{name}]\nschema = "{SCHEMAS[name]}"\nchanges = "{CHANGES[name]}"\nformat = "kafka"'
        )
        lines.append(
            f'options = {{ "kafka.bootstrap.servers" = "{servers}", subscribe = "{prefix}{name}", maxOffsetsPerTrigger = "400" }}'
        )
    lines += [extra, "[queries]"]
    read = {name: text for name, text in QUERIES.items() if _streams_of(text) <= set(streams)}
    return "\n".join([*lines, *(f'{name} = "{text}"' for name, text in read.items())])


def _streams_of(text):
    return {name for name in SCHEMAS if f" {name}" in text}


class Tables:
    """Orders (envelopes with their schema), visits (without), and clicks (plain JSON with a signed weight)."""

    def __init__(self, broker, seed=1, prefix=""):
        self._prefix = prefix
        self._broker = broker
        self._rng = random.Random(seed)
        self.rows = {name: [] for name in SCHEMAS}
        self._next = 0

    def create(self):
        for name, partitions in PARTITIONS.items():
            self._broker.create(f"{self._prefix}{name}", partitions)

    def work(self, changes):
        """Make a number of changes of each table and send them."""
        for name in SCHEMAS:
            made = [record for _ in range(changes) for record in self._change(name)]
            self._broker.send(f"{self._prefix}{name}", made)

    def _change(self, name):
        rows, what = self.rows[name], self._rng.random()
        if what < 0.55 or not rows:
            rows.append(self._row(name))
            return self._records(name, "c", None, rows[-1])
        at = self._rng.randrange(len(rows))
        before = rows[at]
        if what < 0.75:
            rows[at] = {**self._row(name), **({"id": before["id"]} if "id" in before else {})}
            return self._records(name, "u", before, rows[at])
        rows[at] = rows[-1]
        rows.pop()
        return self._records(name, "d", before, None)

    def _row(self, name):
        customer = int(30 * self._rng.random() ** 2)
        if name == "clicks":
            return {"customer": customer, "page": f"p{self._rng.randrange(5)}"}
        self._next += 1
        return {"id": self._next, "customer": customer, "total": self._rng.randrange(1, 100)}

    def _records(self, name, op, before, after):
        """The records of a change; a delete is followed by a tombstone."""
        if name == "clicks":
            signed = [(before, -1), (after, 1)]
            return [(None, json.dumps({**row, "w": w}).encode()) for row, w in signed if row is not None]
        key = {"id": (after or before)["id"]}
        body = {"op": op, "before": before, "after": after, "ts_ms": 5, "source": {"table": name}}
        if name == "orders":
            key, body = ({"schema": {"type": "struct"}, "payload": part} for part in (key, body))
        named = json.dumps(key).encode()
        return [(named, json.dumps(body).encode()), *([(named, None)] if op == "d" else [])]

    def state(self, plan):
        """The state of a batch pass over the rows that the tables hold now."""
        state = plan.empty()
        for name, rows in self.rows.items():
            table = pa.Table.from_pylist(rows)
            if name == "clicks":
                state = state.update(name, table.append_column("w", pa.array([1] * len(rows))))
            else:
                nothing = pa.nulls(len(rows), pa.struct(table.schema))
                images = {"op": ["c"] * len(rows), "before": nothing, "after": table.to_struct_array()}
                state = state.update(name, pa.table(images))
        return state

    def exact(self):
        orders, visits, clicks = (self.rows[name] for name in ("orders", "visits", "clicks"))
        by_customer = [(o["total"], sum(v["customer"] == o["customer"] for v in visits)) for o in orders]
        return {
            "pairs": sum(n for _, n in by_customer),
            "money": sum(total * n for total, n in by_customer),
            "kept": len(orders),
            "revenue": sum(o["total"] for o in orders),
            "visited": len(visits),
            "pages": sum(c["page"] == "p1" for c in clicks),
            "clicked": sum(c["customer"] == o["customer"] for c in clicks for o in orders),
        }

    def check(self, store, plan):
        """Hold a store to the tables: counters bit by bit, answers by their intervals."""
        state = el.open(store)
        assert state == self.state(plan)
        for name, exact in self.exact().items():
            answer = state.answer(name)
            assert answer.low <= exact <= answer.high, (name, exact, answer)
            if name in ("kept", "revenue", "visited", "pages"):
                assert answer.exact
                assert answer.value == exact
