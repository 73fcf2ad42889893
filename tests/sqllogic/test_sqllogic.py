"""Every file of records, on every path. README.md has the format; duck.py makes the expected results."""

import pytest

from tests.sqllogic.duck import Tables
from tests.sqllogic.records import FOLDER, parse, read, result_of, same
from tests.sqllogic.runner import Arrow, File, Restored, Spark

FILES = sorted(FOLDER.glob("*.test"))
IN_CI = {"joins_of_four", "type_decimal_10_2"}
"""The files that also run on Spark in CI; the others do with --slow."""
ON_SPARK = [
    pytest.param(path, id=path.stem, marks=[] if path.stem in IN_CI else pytest.mark.slow) for path in FILES
]


def report(failures, asked):
    shown = "\n".join(map(str, failures[:30]))
    assert not failures, f"{len(failures)} of {asked} answers are not as expected:\n{shown}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_on_arrow_and_restored(path, tmp_path):
    file = File(path, "arrow")
    arrow = Arrow(file.plan)
    report(*file.run([arrow, Restored(arrow, tmp_path / "store")]))


@pytest.mark.spark
@pytest.mark.parametrize("path", ON_SPARK)
def test_on_spark(path, spark):
    file = File(path, "spark")
    report(*file.run([Spark(file.plan, spark, file.columns)]))


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_spark_itself_agrees(path, spark):
    """The expected results are those of Spark's own SQL, too: dialects do not differ where DuckDB made them."""
    tables, views, differing, changed = Tables(), set(), [], False
    for record in read(path):
        if record.kind == "statement ok":
            views.add(tables.execute(record.sql)[0])
            changed = True
        elif record.kind == "query" and record.runs_on("duckdb"):
            if changed:
                for name in views:
                    schema = ", ".join(map(" ".join, tables.columns[name]))
                    spark.createDataFrame(tables.net(name), schema=schema).createOrReplaceTempView(name)
                changed = False
            rows = spark.sql(record.sql).toArrow()
            values = list(zip(*(column.to_pylist() for column in rows.columns), strict=True))
            found = result_of(values, record.types, record.sort)
            if not same(found, record.expected, record.types, record.sort):
                differing.append(f"{path.name}:{record.first}: {record.sql}\n    {found} {record.expected}")
    tables.close()
    assert not differing, "\n".join(differing)


def test_a_record_is_read_and_written_as_it_is():
    text = "# about\nskipif spark\nquery IT rowsort\nSELECT a, b\nFROM t\n----\n2\tx\n1\tNULL\n"
    (record,) = parse(text)
    assert (record.sql, record.types, record.sort) == ("SELECT a, b\nFROM t", "IT", "rowsort")
    assert record.expected == ("2\tx", "1\tNULL")
    assert not record.runs_on("spark")
    with pytest.raises(ValueError, match="text:1: 'query X' is not"):
        parse("query X\nSELECT 1\n----\n1")
    with pytest.raises(ValueError, match="text:1: the query has no result"):
        parse("query I\nSELECT 1")


@pytest.mark.parametrize(
    ("found", "expected", "types", "equal"),
    [
        (["1\t0.3"], ["1\t0.30000000000000001"], "IR", True),
        (["1\t0.3"], ["1\t0.3000000001"], "IR", False),
        (["1"], ["1.0"], "I", False),
        (["1"], ["NULL"], "R", False),
        (["1"], ["1", "1"], "I", False),
        (["x\t2.5", "NULL\t1"], ["NULL\t1.0", "x\t2.50"], "TR", True),
    ],
)
def test_results_are_compared_by_type(found, expected, types, equal):
    assert same(found, expected, types, "rowsort") == equal


def test_a_wrong_result_is_found(tmp_path):
    path = tmp_path / "wrong.test"
    path.write_text(
        "statement ok\nCREATE TABLE t (k INT)\n\nstatement ok\nINSERT INTO t VALUES (1), (2)\n\n"
        "query I\nSELECT COUNT(*) FROM t\n----\n3\n\nstatement error\nSELECT SUM(k) FROM t\n"
    )
    file = File(path, "arrow")
    failures, asked = file.run([Arrow(file.plan)])
    assert asked == 1
    assert [failure.why for failure in failures] == ["was not refused", "expected ['3'], found ['2']"]


def test_there_are_enough_records():
    assert sum(record.kind == "query" for path in FILES for record in read(path)) >= 2000
