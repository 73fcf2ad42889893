"""Pathway as a peer, in an environment of its own; prints what was measured as JSON, as peer.py does.

Settings: the Python connector that Pathway documents for custom sources, with a primary key, so that a delete names its
row. One connector carries all three tables, so that a batch is one commit; automatic commits are off. One worker, no
persistence. The next batch follows when all answers of the last have arrived.
"""

import json
import os
import statistics
import sys
import threading
import time
from collections.abc import Iterator

import pathway as pw
import pyarrow as pa
from changes import COLUMNS, IDS, QUERIES, batches

CHANGES = int(sys.argv[2])
NUMBERS = {name: number for number, name in enumerate(COLUMNS)}
FIELDS = "abcd"


class Row(pw.Schema):
    """A row of any table: its number, and its columns in order."""

    key: int = pw.column_definition(primary_key=True)
    table: int
    a: int
    b: int
    c: int
    d: int


class Answers:
    """The latest answers, and whether all queries have seen the end of a commit."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[object, tuple]] = {name: {} for name in QUERIES}
        self._ended: set[str] = set()
        self._all = threading.Event()

    def subscribe(self, name: str, table: pw.Table) -> None:
        """Keep the rows of an answer."""

        def change(key: object, row: dict, time: int, is_addition: bool) -> None:  # noqa: ARG001
            if is_addition:
                self.rows[name][key] = tuple(row.values())
            elif self.rows[name].get(key) == tuple(row.values()):
                del self.rows[name][key]

        def ended(time: int) -> None:  # noqa: ARG001
            self._ended.add(name)
            if len(self._ended) == len(QUERIES):
                self._all.set()

        pw.io.subscribe(table, on_change=change, on_time_end=ended)

    def wait(self) -> None:
        """Wait for the end of a commit."""
        self._all.wait()
        self._ended.clear()
        self._all.clear()


class Feed(pw.io.python.ConnectorSubject):
    """All batches, each a commit."""

    def __init__(self, answers: Answers) -> None:
        super().__init__()
        self._answers = answers
        self.latencies: list[float] = []

    def run(self) -> None:
        """Pass batches on."""
        for batch in batches(CHANGES):
            start = time.perf_counter()
            for name, gone, new in batch:
                for row in rows_of(name, gone):
                    self.delete(**row)
                for row in rows_of(name, new):
                    self.next(**row)
            self.commit()
            self._answers.wait()
            self.latencies.append(time.perf_counter() - start)


def rows_of(name: str, table: pa.Table) -> Iterator[dict[str, int]]:
    """Yield the rows of a table in the connector's schema."""
    number, at = NUMBERS[name], COLUMNS[name].index(IDS[name])
    for row in zip(*(table[column].to_pylist() for column in COLUMNS[name]), strict=True):
        yield {
            "key": number + 3 * row[at],
            "table": number,
            **dict(zip(FIELDS, (*row, 0, 0, 0), strict=False)),
        }


def queries(rows: pw.Table) -> dict[str, pw.Table]:
    """Return the queries of changes.py."""
    tables = {
        name: rows.filter(pw.this.table == NUMBERS[name]).select(
            **{column: pw.this[field] for column, field in zip(columns, FIELDS, strict=False)}
        )
        for name, columns in COLUMNS.items()
    }
    customers, orders, items = tables["customers"], tables["orders"], tables["items"]
    ours = customers.filter(pw.this.seg == 1)
    near = orders.filter(pw.this.region < 20)
    spent = ours.join(orders, ours.c == orders.c).select(orders.o, orders.amount)
    return {
        "pairs": near.join(items, near.o == items.o).select(items.i).reduce(n=pw.reducers.count()),
        "spend": spent.reduce(n=pw.reducers.sum(pw.this.amount)),
        "chain": spent.join(items, spent.o == items.o)
        .select(items.qty)
        .reduce(n=pw.reducers.sum(pw.this.qty)),
        "buyers": orders.groupby(pw.this.c).reduce(pw.this.c).reduce(n=pw.reducers.count()),
        "regions": orders.groupby(pw.this.region).reduce(
            pw.this.region, n=pw.reducers.count(), total=pw.reducers.sum(pw.this.amount)
        ),
    }


def main() -> None:
    """Run, as run.py asks."""
    answers = Answers()
    feed = Feed(answers)
    rows = pw.io.python.read(feed, schema=Row, autocommit_duration_ms=None)
    for name, table in queries(rows).items():
        answers.subscribe(name, table)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    shown = {
        "seconds": sum(feed.latencies),
        "latency": statistics.median(feed.latencies),
        "disk": 0,
        "answers": {name: list(own.values()) for name, own in answers.rows.items()},
    }
    sys.stdout.write("\n" + json.dumps(shown) + "\n")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
