"""DuckDB as the one who runs the statements, and who makes the expected results: it shares no code with us.

    python -m tests.sqllogic.duck [FILE ...]

rewrites the results of all queries of the files, by default of all. Read `git diff` afterwards. Records with `skipif
duckdb` keep what is written: those where Spark's SQL means something else.
"""

import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp

from tests.sqllogic.records import FOLDER, read, result_of

ARROW = {
    "BOOLEAN": pa.bool_(), "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(), "BIGINT": pa.int64(),
    "FLOAT": pa.float32(), "DOUBLE": pa.float64(), "STRING": pa.string(), "BINARY": pa.binary(), "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", "UTC"), "TIMESTAMP_NTZ": pa.timestamp("us"),
}  # fmt: skip


def declared(sql):
    """The name and the columns, with their types, of a CREATE TABLE."""
    head, _, tail = sql.partition("(")
    columns, depth = [""], 0
    for letter in tail[: tail.rindex(")")]:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and not depth:
            columns.append("")
        else:
            columns[-1] += letter
    return head.split()[2], [tuple(column.split(maxsplit=1)) for column in columns]


def schema_of(columns):
    """The Arrow schema of declared columns."""
    fields = []
    for name, kind in columns:
        if kind.startswith("DECIMAL"):
            precision, scale = kind.removeprefix("DECIMAL").strip("()").split(",")
            fields.append((name, pa.decimal128(int(precision), int(scale))))
        else:
            fields.append((name, ARROW[kind]))
    return pa.schema(fields)


class Tables:
    """The tables of a file, in DuckDB: statements change them, and what changed can be read as rows with weights."""

    def __init__(self):
        self._connection = duckdb.connect(config={"threads": 1})
        self._connection.execute("SET TimeZone = 'UTC'")
        self.columns = {}

    def execute(self, sql):
        """Run a statement; return (table, changed rows, weights)."""
        words = sql.split()
        if words[0] == "CREATE":
            name, columns = declared(sql)
            self.columns[name] = columns
            self._connection.execute(in_duckdb(sql))
            return name, schema_of(columns).empty_table(), []
        name = words[1] if words[0] == "UPDATE" else words[2]
        self._connection.execute(f"CREATE OR REPLACE TEMP TABLE _before AS FROM {name}")
        self._connection.execute(in_duckdb(sql))
        gone, new = (
            self._connection.sql(f"FROM {a} EXCEPT ALL FROM {b}").to_arrow_table()
            for a, b in (("_before", name), (name, "_before"))
        )
        schema = schema_of(self.columns[name])
        rows = pa.concat_tables([gone.cast(schema), new.cast(schema)])
        return name, rows, [-1] * gone.num_rows + [1] * new.num_rows

    def rows(self, sql):
        """The result of a query."""
        return self._connection.execute(in_duckdb(sql)).fetchall()

    def net(self, name):
        """The rows that a table has now."""
        return self._connection.sql(f"FROM {name}").to_arrow_table().cast(schema_of(self.columns[name]))

    def close(self):
        self._connection.close()


def in_duckdb(sql):
    """A query in DuckDB's dialect, with what sqlglot leaves different between the two."""
    return sqlglot.parse_one(sql, read="spark").transform(_as_spark_means).sql("duckdb")


def _as_spark_means(node):
    if isinstance(node, exp.Median | exp.Quantile):  # of a DECIMAL, DuckDB rounds to its digits
        level = node.args.get("quantile") or exp.Literal.number("0.5")
        return exp.PercentileCont(this=exp.cast(node.this, "double"), expression=level)
    if isinstance(node, exp.CountIf):  # of NULLs alone it is 0
        return exp.Filter(
            this=exp.Count(this=exp.Star()), expression=exp.Where(this=node.this.transform(_as_spark_means))
        )
    if isinstance(node, exp.TsOrDsAdd | exp.DateTrunc):  # a date, not a timestamp
        return exp.cast(node, "date")
    if isinstance(node, exp.DayOfWeek):  # from 1, which is Sunday
        return sqlglot.parse_one("isodow(x) % 7 + 1").transform(_with(node.this))
    if isinstance(node, exp.Anonymous) and node.name.lower() == "weekday":  # from 0, which is Monday
        return sqlglot.parse_one("(isodow(x) - 1)").transform(_with(node.expressions[0]))
    return node


def _with(argument):
    return lambda node: argument if isinstance(node, exp.Column) and node.name == "x" else node


def rewritten(path):
    """A file's text with DuckDB's results."""
    tables, results = Tables(), {}
    for record in read(path):
        if record.kind == "statement ok":
            tables.execute(record.sql)
        elif record.kind == "query" and record.runs_on("duckdb"):
            try:
                results[record.first] = result_of(tables.rows(record.sql), record.types, record.sort)
            except (duckdb.Error, ValueError) as error:
                raise ValueError(f"{path.name}:{record.first}: {record.sql}: {error}") from error
    tables.close()
    kept, result, dropping = [], None, False
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        result = results.get(number, result)
        dropping = dropping and bool(line.strip())
        if not dropping:
            kept.append(line)
        if line == "----" and result is not None:
            kept += result
            result, dropping = None, True
    return "\n".join(kept)


def main():
    """Rewrite files."""
    for path in [Path(name) for name in sys.argv[1:]] or sorted(FOLDER.glob("*.test")):
        path.write_text(rewritten(path), encoding="utf-8")
        sys.stdout.write(f"{path.name}: {sum(r.kind == 'query' for r in read(path))} queries\n")


if __name__ == "__main__":
    main()
