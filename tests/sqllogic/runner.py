"""Runs a file of records against eddyline: all queries of a file are one workload, large enough to stay exact.

A path is how rows become answers: `arrow` is `State.update`, `restored` is the same state through bytes and a store,
`spark` is a pass over frames of the changes.
"""

from dataclasses import dataclass

import pyarrow as pa

import eddyline as el
from eddyline.errors import EddylineError
from tests.sqllogic.duck import Tables, schema_of
from tests.sqllogic.records import read, result_of, same

BUDGET = "64 MB"
WEIGHT = "_weight"


@dataclass(frozen=True)
class Failure:
    """A record whose result is not the expected one."""

    file: str
    line: int
    path: str
    sql: str
    why: str

    def __str__(self):
        return f"{self.file}:{self.line} ({self.path}): {self.sql}\n    {self.why}"


class File:
    """A file's records for a system, arrow or spark, and their workload.

    `refusals` are queries that should be refused and were not, or the reverse.
    """

    def __init__(self, path, system):
        self.name = path.name
        self.records = [record for record in read(path) if record.runs_on(system)]
        self.refusals = []
        self.names = {}
        tables = Tables()
        made = el.Workload(budget=BUDGET, seed=1, timezone="UTC")
        for record in self.records:
            if record.kind == "statement ok" and record.sql.startswith("CREATE"):
                name, _, _ = tables.execute(record.sql)
                made.stream(name, ", ".join(map(" ".join, tables.columns[name])), changes=WEIGHT)
            elif record.kind != "statement ok" and record.sql not in self.names:
                self._ask(made, record)
        self.columns = tables.columns
        tables.close()
        self.plan = made.plan()

    def _ask(self, made, record):
        name = f"q{len(self.names)}"
        expected = record.kind == "statement error"
        try:
            made.query(name, record.sql)
        except EddylineError as error:
            if not expected:
                self.refusals.append(
                    Failure(self.name, record.first, "plan", record.sql, f"refused: {error}")
                )
        else:
            self.names[record.sql] = name
            if expected:
                self.refusals.append(Failure(self.name, record.first, "plan", record.sql, "was not refused"))

    def run(self, paths):
        """Run all records on some paths; return the failures, and the number of queries that were asked."""
        failures, asked, tables = list(self.refusals), 0, Tables()
        for record in self.records:
            if record.kind == "statement ok":
                name, rows, weights = tables.execute(record.sql)
                for path in paths:
                    path.change(name, rows, weights)
            elif record.kind == "query" and record.sql in self.names:
                asked += 1
                for path in paths:
                    why = _difference(record, path.state, self.names[record.sql])
                    if why:
                        failures.append(Failure(self.name, record.first, path.name, record.sql, why))
        tables.close()
        return failures, asked


def _difference(record, state, name):
    """What is wrong with an answer; None if it is the expected one."""
    try:
        answer = state.answer(name)
        found = result_of(_rows(answer), record.types, record.sort)
    except (EddylineError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    if not same(found, record.expected, record.types, record.sort):
        return f"expected {list(record.expected)}, found {list(found)}"
    return None if answer.exact else "the answer is right, and not called exact"


def _rows(answer):
    if isinstance(answer, el.Estimate):
        return [(answer.value,)]
    names = [*answer.group_columns, *answer.aggregates]
    table = answer.to_arrow()
    return list(zip(*(table[name].to_pylist() for name in names), strict=True)) if names else []


class Arrow:
    """Rows as Arrow tables."""

    name = "arrow"

    def __init__(self, plan):
        self.state = plan.empty()

    def change(self, name, rows, weights):
        if rows.num_rows:
            self.state.update(name, rows.append_column(WEIGHT, [weights]))


class Restored:
    """The state of another path, through bytes and a store, read again whenever something changed."""

    name = "restored"

    def __init__(self, of, folder):
        self._of, self._folder = of, folder
        self._restored = None

    def change(self, *_changed):
        self._restored = None

    @property
    def state(self):
        if self._restored is None:
            el.State.from_bytes(self._of.state.to_bytes()).save(self._folder)
            self._restored = el.open(self._folder)
        return self._restored


class Spark:
    """A pass over a frame of the changes since the last query."""

    name = "spark"

    def __init__(self, plan, spark, streams):
        self._plan, self._spark, self._streams = plan, spark, streams
        self._waiting, self._state = [], None

    def change(self, name, rows, weights):
        self._waiting.append((name, rows.append_column(WEIGHT, pa.array(weights, pa.int64()))))

    @property
    def state(self):
        if self._waiting or self._state is None:
            self._state = self._passed()
        return self._state

    def _passed(self):
        frames = {}
        for name in self._streams:
            none = schema_of([*self._streams[name], (WEIGHT, "BIGINT")]).empty_table()
            # One chunk: of a table whose first chunk is empty, PySpark 4.1 makes a frame without rows.
            waiting = [own for stream, own in self._waiting if stream == name]
            rows = pa.concat_tables([none, *waiting]).combine_chunks()
            columns = ", ".join(f"{column} {kind}" for column, kind in self._streams[name])
            frames[name] = self._spark.createDataFrame(rows, schema=f"{columns}, {WEIGHT} BIGINT")
        self._waiting = []
        new = self._plan.sketch(self._spark, frames)
        return new if self._state is None else self._state + new
