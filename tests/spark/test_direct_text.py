"""CSV and JSON files that Arrow reads without Spark: the rows are Spark's, or Spark reads them."""

import random
from datetime import UTC

import pyarrow as pa
import pytest

from eddyline.api.jobs import build_state, build_without_spark
from eddyline.api.pipeline import load_pipeline
from eddyline.api.workload import Workload
from eddyline.spark.direct.files import READ_ERRORS, Doubt
from eddyline.spark.direct.text import rows_of_text
from eddyline.spark.sources import SparkSource
from eddyline.spark.sources.frames import read_frame

pytestmark = pytest.mark.spark
HEADER = {"header": "true"}
RFC = {"header": "true", "escape": '"'}
KINDS = {
    "TINYINT": ["0", "7", "-0", "007", "127", "-128", "128", "+1", "1.0", " 1", "1 ", "", "x", "1e1", "٣"],
    "INT": ["0", "2147483647", "2147483648", "-5", "00", "1_0", "0x1", ""],
    "BIGINT": ["9", "999999999999999999", "9223372036854775807", "-9223372036854775809", "", "1,000"],
    "BOOLEAN": ["true", "false", "TRUE", "False", "1", "t", "yes", ""],
    "DOUBLE": ["0.1", "-1.5e3", "1E-7", "12345678901234567890", "4.35", "1e99", "1e999", "NaN", "inf", "1d", ".5", "5.", "-0.0", ""],
    "FLOAT": ["0.1", "16777217", "1e38", "3.4028236e38", "1.00000017881393432617187499", ""],
    "DECIMAL(5,2)": ["1.2", "-999.99", "1000", "1.234", "1.200", "0.005", ".5", "-.5", "1e1", "", "+1.5", "1,5"],
    "DECIMAL(3,3)": ["0.125", "-0.5", "1.5", "0", ""],
    "DATE": ["2024-02-29", "2023-02-29", "1500-01-01", "0001-01-01", "0000-01-01", "2024-1-2", "2024-01-02 10:00:00", "today", "9999-12-31", ""],
    "TIMESTAMP": ["2024-02-29 10:00:00", "2024-02-29T10:00:00.5", "2024-02-29T10:00:00Z", "2024-02-29 10:00:00.123456", "2024-02-29 24:00:00",
                  "2024-02-29", "2024-02-29 10:00", "2024-03-31 02:30:00", "2024-10-27 02:30:00", "1900-01-01 00:00:00", "2024-02-29T10:00:00+02:00", "now", ""],
    "TIMESTAMP_NTZ": ["2024-02-29 10:00:00", "2024-02-29T10:00:00.123", "2024-02-29T10:00:00Z", "1200-01-01 00:00:00", "2024-02-29", ""],
    "STRING": ["a", " a ", "", "é", "NULL", "null", "\\N", "a\\b", "'a'", "a\tb", '"', "a|b", "#x", "\u2028", "𝄞", "\u00a0", "-"],
}  # fmt: skip
PLAIN = {
    "TINYINT": ["0", "7", "-128", ""], "INT": ["1", "-5", ""], "BIGINT": ["999999999999999999", ""],
    "BOOLEAN": ["true", "FALSE", ""], "DOUBLE": ["0.1", "-1.5e3", "4.35", ""], "FLOAT": ["0.1", "16777217", ""],
    "DECIMAL(5,2)": ["1.2", "-999.99", "7", ""], "DECIMAL(3,3)": ["0.125", ""], "DATE": ["2024-02-29", "1500-01-01", ""],
    "TIMESTAMP": ["2024-02-29 10:00:00", "2024-02-29T10:00:00.5", ""], "TIMESTAMP_NTZ": ["1200-01-01 00:00:00.25", ""],
    "STRING": ["a", " a ", "é 𝄞", "NULL", ""],
}  # fmt: skip
"""Values that are read without Spark."""
CSV = {
    "plain": ("k,t\n1,a\n2,b\n", HEADER, True),
    "no header": ("1,a\n2,b\n", {"header": "false"}, True),
    "header not said": ("1,a\n2,b\n", {}, True),
    "a header that is not said": ("k,t\n1,a\n", {}, False),
    "other order and case, more columns": ("T,other,K\na,x,1\nb,,2\n", HEADER, True),
    "more cells than columns": ("1,a,x\n2,b,y\n", {"header": "false"}, True),
    "fewer cells": ("1,a\n2\n", {"header": "false"}, False),
    "CRLF": ("k,t\r\n1,a\r\n2,\r\n", HEADER, True),
    "CR": ("k,t\r1,a\r2,b\r", HEADER, False),
    "no newline at the end": ("k,t\n1,a\n2,b", HEADER, True),
    "empty lines": ("\nk,t\n\n1,a\n\n\n2,b\n", HEADER, True),
    "blank lines": ("k,t\n1,a\n  \n2,b\n", HEADER, False),
    "blanks around names": (" k , t\n1,a\n", HEADER, True),
    "BOM": ("\ufeffk,t\n1,a\n", HEADER, False),
    "quotes": ('k,t\n1,"a,b"\n"2",c\n', HEADER, True),
    "quotes in a header": ('"k",t\n1,a\n', HEADER, False),
    "an empty string in quotes": ('k,t\n1,""\n', HEADER, False),
    "blanks in quotes": ('k,t\n1," "\n', HEADER, True),
    "blanks before a quote": ('k,t\n1, "a"\n', HEADER, False),
    "blanks after a quote": ('k,t\n1,"a" \n', HEADER, False),
    "a quote inside": ('k,t\n1,a"b\n2,"c"d\n', HEADER, False),
    "a quote that stays open": ('k,t\n1,"a\n2,b\n', HEADER, False),
    "doubled quotes": ('k,t\n1,"a ""b"" c"\n2,"""x"""\n', RFC, True),
    "doubled quotes with a backslash as escape": ('k,t\n1,"a ""b"" c"\n', HEADER, False),
    "quotes and separators": ('k,t\n1,"a"",""b"\n2,""","\n3,",,"\n', RFC, True),
    "a backslash": ("k,t\n1,a\\b\n", HEADER, False),
    "a backslash before a quote": ('k,t\n1,"a\\"b"\n', HEADER, False),
    "a line break in quotes": ('k,t\n1,"a\nb"\n', HEADER, False),
    "tabs": ("k\tt\n1\ta\n2\t\n", {"header": "true", "sep": "\t"}, True),
    "a line of tabs": ("k\tt\n1\ta\n\t\n", {"header": "true", "sep": "\t"}, False),
    "a line of commas": ("k,t\n1,a\n,\n", HEADER, True),
    "semicolons": ("k;t\n1;a,b\n", {"header": "true", "delimiter": ";"}, True),
    "a long separator": ("k::t\n1::a\n", {"header": "true", "sep": "::"}, False),
    "two separators": ("k,t\n1,a\n", {"header": "true", "sep": ",", "delimiter": ";"}, False),
    "other bytes than UTF-8": (b"k,t,n\n1,a,\xe9\n", HEADER, False),
    "NUL": ("k,t\n1,a\x00b\n", HEADER, False),
    "a name twice": ("k,t,T\n1,a,b\n", HEADER, False),
    "no name": ("k,t,\n1,a,b\n", HEADER, False),
    "only a header": ("k,t\n", HEADER, True),
    "NULL by an option": ("k,t\n1,-\n", {"header": "true", "nullValue": "-"}, False),
    "another line in the middle": ("k,t\n1,a\nk,t\n2,b\n", HEADER, False),
}
JSON = {
    "plain": ('{"k": 1, "t": "a"}\n{"k": 2, "t": null}\n', True),
    "missing fields": ('{"k": 1}\n{}\n{"t": "x"}\n', True),
    "other fields": ('{"k": 1, "t": "a", "n": {"x": [1, {}]}, "z": 1}\n{"k": 2, "z": "b"}\n', True),
    "upper case": ('{"K": 1, "T": "a"}\n', True),
    "two cases": ('{"K": 1, "T": "a"}\n{"k": 2, "t": "b"}\n', False),
    "escapes": ('{"k": 1, "t": "a\\"\\n\\u00e9\\\\"}\n', True),
    "half a surrogate": ('{"k": 1, "t": "\\ud800"}\n', False),
    "a number as a string": ('{"k": 1, "t": 5}\n', False),
    "an object as a string": ('{"k": 1, "t": {"a": 1}}\n', False),
    "a string as a number": ('{"k": "1", "t": "a"}\n', False),
    "a float as an integer": ('{"k": 1.0, "t": "a"}\n{"k": 1e2}\n', False),
    "a large integer": ('{"k": 9223372036854775808}\n', False),
    "a field twice": ('{"k": 1, "k": 2}\n', False),
    "two records on a line": ('{"k": 1}{"k": 2}\n', False),
    "a record on two lines, and two on one": ('{"k": 1,\n"t": "a"}\n{"k": 2}{"k": 3}\n', False),
    "an array": ('[{"k": 1}, {"k": 2}]\n', False),
    "CRLF and empty lines": ('{"k": 1}\r\n\r\n{"k": 2}', True),
    "blanks around": (' {"k": 1} \n', True),
    "blank lines": ('{"k": 1}\n \n{"k": 2}\n', False),
    "single quotes": ("{'k': 1}\n", False),
    "a comment": ('{"k": 1} // x\n', False),
    "a half line": ('{"k": 1}\n{"k": \n', False),
    "leading zeros": ('{"k": 01}\n', False),
    "raw tab": ('{"k": 1, "t": "a\tb"}\n', False),
    "BOM": ('\ufeff{"k": 1}\n', False),
    "a bare value": ('{"k": 1}\n7\n', False),
}  # fmt: skip


def stream_of(schema, changes=None):
    work = Workload(budget="64 KB", seed=1, timezone="Europe/Berlin")
    work.stream("s", schema, changes=changes)
    work.query("n", "SELECT COUNT(*) FROM s")
    return work.plan().layout.stream("s")


def read_here(folder, form, schema, options):
    """Return the rows that are read without Spark, None where Spark must read."""
    try:
        names = [part.split()[0] for part in schema.split(", ")]
        tables, _ = rows_of_text(stream_of(schema), "Europe/Berlin", form, str(folder), options, names)
        return [tuple(row.values()) for table in tables for row in table.to_pylist()]
    except (Doubt, *READ_ERRORS):
        return None


def read_there(spark, folder, form, schema, options):
    """Return the rows that Spark reads, None where one does not fit the declared columns."""
    frame = read_frame(spark, SparkSource("s", form, str(folder), schema, options=options))
    names = [part.split()[0] for part in schema.split(", ")]
    table = frame.select(*names, "_corrupt_record").toArrow()
    if table.column("_corrupt_record").null_count < table.num_rows:
        return None
    return [tuple(row.values()) for row in table.select(names).to_pylist()]


def same(one, other):
    """Compare rows, -0.0 and 0.0 as different numbers."""
    return sorted(map(repr, map(_in_utc, one))) == sorted(map(repr, map(_in_utc, other)))


def _in_utc(row):
    return [each.astimezone(UTC) if getattr(each, "tzinfo", None) else each for each in row]


@pytest.fixture
def berlin(spark):
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    yield spark
    spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.parametrize("name", CSV)
def test_csv_is_read_as_spark_reads_it(berlin, tmp_path, name):
    text, options, is_read = CSV[name]
    (tmp_path / "1.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    found = read_here(tmp_path, "csv", "k BIGINT, t STRING", options)
    assert (found is not None) == is_read
    if is_read:
        assert same(found, read_there(berlin, tmp_path, "csv", "k BIGINT, t STRING", options))


@pytest.mark.parametrize("name", JSON)
def test_json_is_read_as_spark_reads_it(berlin, tmp_path, name):
    text, is_read = JSON[name]
    (tmp_path / "1.json").write_bytes(text.encode())
    try:
        found = read_here(tmp_path, "json", "k BIGINT, t STRING", {})
    finally:
        assert (found is not None) == is_read
    if is_read:
        assert same(found, read_there(berlin, tmp_path, "json", "k BIGINT, t STRING", {}))


def cell(form, kind, text):
    """Return a value as a file has it."""
    if form == "csv":
        return text
    bare = kind not in ("STRING", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ") and text
    return text if bare else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def write(path, form, kind, texts):
    cells = [cell(form, kind, text) for text in texts]
    if form == "csv":
        path.write_text("k,v\n" + "".join(f"{i},{each}\n" for i, each in enumerate(cells)))
    else:
        path.write_text("".join(f'{{"k": {i}, "v": {each}}}\n' for i, each in enumerate(cells)))


@pytest.mark.parametrize("form", ["csv", "json"])
@pytest.mark.parametrize("kind", KINDS)
def test_each_value_is_spark_s_or_left_to_spark(berlin, tmp_path, form, kind):
    """One file for each value that is read here; Spark reads them all at once."""
    schema, options = f"k INT, v {kind}", HEADER if form == "csv" else {}
    folder, found = tmp_path / "read", []
    folder.mkdir()
    for number, text in enumerate([*KINDS[kind], *PLAIN[kind]]):
        path = tmp_path / f"{number}.{form}"
        write(path, form, kind, [text, PLAIN[kind][0]])
        rows = read_here(path, form, schema, options)
        if rows is not None:
            found += rows
            path.rename(folder / path.name)
    assert found or form == "json"
    if found:
        assert same(found, read_there(berlin, folder, form, schema, options))
    if form == "csv":
        write(tmp_path / "plain.csv", form, kind, PLAIN[kind])
        assert len(read_here(tmp_path / "plain.csv", form, schema, options)) == len(PLAIN[kind])


@pytest.mark.parametrize("seed", range(6))
def test_random_files(berlin, tmp_path, seed):
    """Whatever is read here is what Spark reads: separators, quotes and blanks at random places."""
    chosen = random.Random(seed)
    options = chosen.choice([HEADER, RFC])
    folder, found = tmp_path / "read", []
    folder.mkdir()
    for number in range(100):
        parts = ['"', '"', ",", "a", " ", "é", '""', '","', "b c", "\r", "|", "'"]
        lines = ["k,t", *(
            f"{i}," + chosen.choice(["x", '"x,y"', '"', "".join(chosen.choices(parts, k=chosen.randrange(1, 6)))])
            for i in range(chosen.randrange(1, 4))
        )]  # fmt: skip
        path = tmp_path / f"{number}.csv"
        path.write_bytes("\n".join(lines).encode())
        rows = read_here(path, "csv", "k INT, t STRING", options)
        if rows is not None:
            found += rows
            path.rename(folder / path.name)
    assert len(found) > 5
    assert same(found, read_there(berlin, folder, "csv", "k INT, t STRING", options))


PIPELINE = """
[workload]
budget = "64 KB"
seed = 3
timezone = "Europe/Berlin"
[streams.orders]
format = "csv"
path = "orders"
schema = "customer BIGINT, total DECIMAL(12,2), placed TIMESTAMP, region STRING"
changes = "change_type"
options = {{ header = "true" }}
[streams.visits]
format = "json"
path = "visits"
schema = "customer BIGINT, seconds INT, absent STRING"
changes = "weight"
[queries]
n = "SELECT COUNT(*) FROM orders WHERE placed >= TIMESTAMP '2026-01-02 00:00:00'"
money = "SELECT region, SUM(total) AS t FROM orders GROUP BY region"
pairs = "SELECT COUNT(*) FROM orders o JOIN visits v ON o.customer = v.customer WHERE v.absent IS NULL"
{more}
"""


def write_streams(folder, rows):
    chosen = random.Random(5)
    for name in ("orders", "visits"):
        (folder / name).mkdir()
    for part in range(3):
        lines = ["customer,total,placed,region,_change_type,note"]
        records = []
        for _ in range(rows):
            customer, day, change = (
                chosen.randrange(5_000),
                chosen.randrange(1, 5),
                chosen.choice(["insert", "insert", "delete"]),
            )
            region = chosen.choice(["north", '"the, south"', ""])
            lines.append(
                f"{customer},{chosen.randrange(10_000) / 100},2026-01-0{day} 0{day}:00:00,{region},{change},x"
            )
            records.append(
                f'{{"customer": {customer}, "seconds": {day}, "abscent": "x", "weight": {chosen.choice([1, 2, -1])}}}'
            )
        (folder / "orders" / f"{part}.csv").write_text("\n".join(lines))
        (folder / "visits" / f"{part}.json").write_text("\n".join(records))


@pytest.mark.parametrize("rows", [50, 4_000])
def test_a_pass_without_spark_gives_the_state_of_spark(berlin, tmp_path, monkeypatch, rows):
    monkeypatch.chdir(tmp_path)
    write_streams(tmp_path, rows)
    (tmp_path / "pipeline.toml").write_text(PIPELINE.format(more=""))
    pipeline = load_pipeline(tmp_path / "pipeline.toml")
    plan = pipeline.plan()
    here = build_without_spark(pipeline, plan)
    there = build_state(berlin, pipeline, plan)
    assert here is not None
    assert here.snapshot == there.snapshot
    for name in pipeline.queries:
        one, other = here.answer(name), there.answer(name)
        assert one.notes == other.notes
        assert str(one) == str(other)
        assert not isinstance(one, pa.Table)
