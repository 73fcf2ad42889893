"""Sixty further mistakes, tried as a new user would: those that gave a wrong answer, a traceback or a sentence that misled."""

import gzip
import json
import threading

import duckdb
import pandas as pd
import pytest
from typer.testing import CliRunner

import eddyline as el
from eddyline.cli import app
from eddyline.ingest.files import json_fields
from eddyline.spark.causes import cause_of

COLUMNS = "k BIGINT, x DOUBLE, day DATE"


def workload():
    return el.Workload(budget="64 KB", seed=1).stream("s", COLUMNS)


def state(*texts):
    made = workload()
    for number, text in enumerate(texts or ["SELECT COUNT(*) FROM s", "SELECT SUM(x) FROM s"]):
        made.query(f"q{number}", text)
    return made.plan().empty()


def shown(*arguments, code):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    assert code == 0 or isinstance(result.exception, SystemExit), result.exception
    return " ".join(result.output.split())


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("SELECT * FROM s", "selects rows, and rows are not kept, only aggregates of them: select COUNT(*), SUM"),
        ("SELECT * FROM s LIMIT 10", "selects rows, and rows are not kept, only aggregates of them"),
        ("SELECT k, v FROM s ORDER BY k LIMIT 10", "selects rows, and rows are not kept, only aggregates of them"),
        ("SELECT k, ROW_NUMBER() OVER (ORDER BY k) FROM s", "is a window function, and those are not supported"),
        ("SELECT k, SUM(k) OVER (PARTITION BY k) FROM s GROUP BY k", "is a window function, and those are not supported"),
        ("SELECT FIRST(k) FROM s", "MIN, MAX, MEDIAN, PERCENTILE, or a formula of them"),
        ("SELECT COUNT(*) FROM", "Expected table name but the text ends"),
        ("SELECT COUNT(*) FROM s WHERE k = ?", "'?' is a parameter without a value: write the value in its place"),
        ("SELECT COUNT(*) FROM s WHERE k = :id", "':id' is a parameter without a value"),
        ("SELECT COUNT(*) FROM s WHERE k = $1", "is a parameter without a value"),
    ],
)  # fmt: skip
def test_sql_that_is_none_gets_a_sentence(text, sentence):
    with pytest.raises(el.EddylineError) as refused:
        workload().query("q", text)
    assert sentence in str(refused.value)
    assert "Token" not in str(refused.value)


def test_a_date_compared_with_a_text_is_told_how_to_write_it():
    with pytest.raises(el.PipelineError, match="of a date write DATE '2026-01-31'"):
        state("SELECT COUNT(*) FROM s WHERE day > '2026-01-01'").update(
            "s", {"k": [1], "x": [1.0], "day": [None]}
        )


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: el.Workload().stream("s", COLUMNS, changes=True), "changes=True is neither a column name nor"),
        (lambda: el.Workload().stream("s", "k BIGINT, t DATETIME"), "'t' of stream 's' has type DATETIME"),
        (lambda: state("SELECT SUM(x) FROM s").update("s", []), "it has no columns at all"),
        (lambda: state("SELECT SUM(x) FROM s").update("s", {"x": [2**53 + 1]}), "holds values that it cannot"),
        (lambda: state("SELECT SUM(k) FROM s").update("s", {"k": [1.5]}), "holds values that it cannot"),
        (lambda: state().contributors("q0", "k"), "this state keeps no stream sample, which such a query reads"),
        (lambda: el.open(__file__), "is a file, not a store: name the store's directory"),
    ],
)  # fmt: skip
def test_what_is_given_and_is_none_gets_a_sentence(make, sentence):
    with pytest.raises(el.EddylineError) as refused:
        make()
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    "rows",
    [
        pd.DataFrame({"k": [1, None, 3], "x": [1, 2, 3]}),
        [{"k": 1, "x": 1}, {"x": 2}, {"x": 3, "k": 3}],
        [{"x": 1}, {"k": 1, "x": 2}, {"k": 3, "x": 3}],
    ],
    ids=["pandas with a NULL among integers", "rows without a key", "a first row without a key"],
)
def test_integers_and_doubles_and_missing_keys_are_taken(rows):
    """Integers with a NULL among them are doubles in pandas; the first of some dicts need not have all keys."""
    counted = state("SELECT COUNT(DISTINCT k) FROM s", "SELECT SUM(x) FROM s").update("s", rows)
    frame = pd.DataFrame(rows)  # noqa: F841 - read by DuckDB
    exact = duckdb.sql("SELECT COUNT(DISTINCT k), SUM(x) FROM frame").fetchall()[0]
    assert (counted.answer("q0").value, counted.answer("q1").value) == exact


def test_threads_that_add_to_one_state_lose_nothing():
    shared = state()

    def add():
        for _ in range(25):
            shared.update("s", {"k": [1], "x": [1.0]})

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (shared.answer("q0").value, shared.answer("q1").value) == (100, 100)


def test_states_add_up_by_sum():
    day = state().update("s", {"k": [1], "x": [2.0]})
    assert sum([day, day, day]).answer("q1").value == 6
    with pytest.raises(TypeError):
        1 + day


@pytest.mark.parametrize(
    ("lines", "options", "sentence"),
    [
        (
            ['{"k": 1}', '{"k": 2}'],
            {"multiline": "true"},
            "with multiLine only the first of each file is read",
        ),
        (["{", '"k": 1', "}"], {}, 'span lines: add multiLine = "true"'),
        (['{"k": 1}', '{"K": 2}'], {}, "have 'k' and 'K', of which only one would be read"),
        (
            ['{"t": 1767225600000}'],
            {},
            "holds 1767225600000, which Spark reads as seconds: declare it BIGINT",
        ),
    ],
)
def test_json_that_would_be_misread_is_refused(lines, options, sentence):
    with pytest.raises(el.PipelineError) as refused:
        json_fields("s", "d", lines, options, {"k": "BIGINT", "t": "TIMESTAMP"})
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        ("Wrong basePath /b for the root path: file:/a/1.csv", "its checkpoint is that of other files, such as /a/1.csv"),
        ("Illegal Parquet type: INT64 (TIMESTAMP(NANOS,false))", "write them in microseconds"),
    ],
)  # fmt: skip
def test_what_spark_says_of_files_is_told_with_what_to_do(error, sentence):
    assert sentence in cause_of(RuntimeError(error))


@pytest.mark.parametrize(
    ("files", "source", "sentence"),
    [
        ({"a.csv": b"k,k\n1,2\n"}, "a.csv", "has column 'k' more than once"),
        ({"a.csv": b"k,K\n1,2\n"}, "a.csv", "has column 'k' more than once, in upper or lower case"),
        ({"a.csv": b"n\nM\xfcller\n"}, "a.csv", "it is not UTF-8: write it as UTF-8"),
        (
            {"d/a.csv": b"k\n1\n", "d/b.json": b"{}"},
            "d",
            "has csv files and 'b.json', which would be read as csv",
        ),
        ({"d/_delta_log/0.json": b"{}", "d/a.parquet": b""}, "d", "is a Delta table"),
        ({"a.csv": b"k\n1\n"}, "a.csv --table x", "--table names a table of a database"),
    ],
)
def test_init_refuses_what_it_would_misread_and_writes_nothing(
    tmp_path, monkeypatch, files, source, sentence
):
    monkeypatch.chdir(tmp_path)
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    assert sentence in shown("init", *source.split(), code=1)
    assert not (tmp_path / "pipeline.toml").exists()


@pytest.mark.parametrize(
    ("name", "content", "written"),
    [
        ("a.csv", 'k,n\n1,"a\nb"\n', 'multiLine = "true"'),
        ("a.json", '{\n"k": 1\n}\n', 'multiLine = "true"'),
        ("a.json", '[{"a": 1}, {"b": 2}]', "a BIGINT, b BIGINT"),
    ],
)
def test_init_sees_records_that_span_lines_and_fields_of_later_records(
    tmp_path, monkeypatch, name, content, written
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(content)
    shown("init", name, code=0)
    assert written in (tmp_path / "pipeline.toml").read_text()


def pipeline(folder, files, stream, *texts):
    """Write files and a pipeline file; return its path."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    queries = "\n".join(f"q{number} = {json.dumps(text)}" for number, text in enumerate(texts))
    path = folder / "pipeline.toml"
    path.write_text(f'[workload]\nstore = "state"\n[streams.s]\n{stream}\n[queries]\n{queries}\n')
    return path


@pytest.mark.parametrize(
    ("command", "stream", "sentence"),
    [
        ("ask", 'format = "csv"', "does not say where its files are: add path to [streams.s]"),
        ("ask", 'format = "csv"\npath = "d"', 'read with recursiveFileLookup = "true"'),
        ("ask", 'format = "csv"\npath = "d"\noptions = { header = [1] }', "write a string, a number, true or false"),
        ("run", 'format = "CSV"\npath = "d/a/1.csv"', "is one file, and a run follows the files of a folder"),
    ],
)  # fmt: skip
def test_sources_that_would_be_empty_are_refused_before_spark_starts(
    tmp_path, monkeypatch, command, stream, sentence
):
    monkeypatch.setattr("eddyline.cli.console.session", lambda *_: pytest.fail("Spark was started"))
    path = pipeline(
        tmp_path, {"d/a/1.csv": "k\n1\n"}, f'schema = "k BIGINT"\n{stream}', "SELECT COUNT(*) FROM s"
    )
    assert sentence in shown(command, path, code=1)


COUNT, SUM = "SELECT COUNT(*) FROM s", "SELECT SUM(x) FROM s"
HEADER = 'options = { header = true }\nformat = "CSV"'


@pytest.mark.spark
@pytest.mark.parametrize(
    ("files", "stream", "texts", "values"),
    [
        ({"d/1.csv": "k,x\n1,2\n3,4\n"}, HEADER, [COUNT], [2]),
        ({"d/1.json": '{"k": 1}\n{"k": 2}\n'}, 'format = "json"', [COUNT], [2]),
        ({"d/day=1/1.csv": "k,x\n1,2\n", "d/day=2/1.csv": "k,x\n3,4\n"}, HEADER, [f"{COUNT} WHERE day = '1'"], [1]),
        ({"d/1.csv": ",k,x,y,y\n0,1,2,3,4\n"}, HEADER, [COUNT, SUM], [1, 2]),
        ({"d/1.csv": "1,2,9\n3,4,9\n"}, 'format = "csv"', [COUNT, SUM], [2, 6]),
    ],
    ids=["csv", "json", "folders of partitions", "index and twins", "more cells than columns"],
)  # fmt: skip
def test_counts_over_text_files(spark, tmp_path, monkeypatch, files, stream, texts, values):
    """COUNT(*) alone reads no column; names of folders are columns; headers have names twice, or none."""
    monkeypatch.setattr("eddyline.cli.console.session", lambda *_: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)
    schema = "k BIGINT, x DOUBLE" + (", day STRING" if "day" in texts[0] else "")
    path = pipeline(tmp_path, files, f'schema = "{schema}"\npath = "d"\n{stream}', *texts)
    shown("ask", path, code=0)
    found = el.open(tmp_path / "state")
    assert [found.answer(f"q{number}").value for number in range(len(texts))] == values


@pytest.mark.spark
@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("k,x\n1,2\n3\n", "1 of 2 lines cannot be read as the declared columns"),
        ("k,x\n1,2\n3,4,5\n", "1 of 2 lines cannot be read as the declared columns"),
        ('k,x\n1,2\n3,"4\n5"\n', "lines cannot be read as the declared columns"),
        ("k;x\n1;2\n", 'it has k;x; add sep = ";" to the options of the stream'),
        ("k,x,x\n1,2,3\n", "has 'x' more than once"),
        ("k,x,n\n1,2,Müller\n".encode("latin-1"), 'encoding = "ISO-8859-1"'),
        (gzip.compress(b"k,x\n1,2\n"), "compressed ones end in .gz"),
    ],
    ids=[
        "too few cells",
        "too many cells",
        "a line break in a cell",
        "semicolons",
        "twins",
        "latin-1",
        "gzip",
    ],
)
def test_csv_that_would_be_misread_is_refused(spark, tmp_path, monkeypatch, content, sentence):
    monkeypatch.setattr("eddyline.cli.console.session", lambda *_: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)
    stream = f'schema = "k BIGINT, x DOUBLE"\npath = "d"\n{HEADER}'
    assert sentence in shown("ask", pipeline(tmp_path, {"d/1.csv": content}, stream, COUNT, SUM), code=1)
