"""Expressions: the Arrow evaluator says what Spark says, or refuses; sqlglot's rendering keeps Spark's meaning."""

import math

import pytest

from eddyline.errors import PipelineError
from eddyline.expressions.arrow_eval import evaluate
from eddyline.expressions.schema import parse_schema
from eddyline.spark.changes import from_spark
from eddyline.sql.parse import parse_query
from tests.data.frames import ALL_TYPES_DDL, all_types

pytestmark = pytest.mark.spark
COLUMNS = parse_schema("t", ALL_TYPES_DDL)

ON_BOTH = [
    "i8 > 3 AND dec < 2.5",
    "i8 > 3 OR dec < 2.5 OR s IS NULL",
    "NOT b",
    "NOT (b AND i8 = 1)",
    "b = TRUE",
    "b IS NOT TRUE",
    "i8 = -5",
    "i8 <> 5",
    "i8 IN (1, 2, NULL)",
    "i8 NOT IN (1, 2)",
    "s IN ('schlüssel 1 ', '')",
    "dec BETWEEN -1 AND 1.05",
    "i64 >= 100000000000000000",
    "x * 2 > 1",
    "x < 0 OR x >= 3.5",
    "i32 / 7 < -100000",
    "s LIKE '%ssel 1%'",
    "s LIKE '_chl%'",
    "s LIKE '%\\\\%%'",
    "upper(s) = lower(s)",
    "s > 'schlüssel 3'",
    "d < DATE '1969-12-25'",
    "d >= CAST('1969-12-20' AS DATE)",
    "year(d) = 1969 AND month(d) = 12 AND day(d) > 15",
    "COALESCE(i8, 0) = 0",
    "nvl(i8, 3) = 3",
    "CASE WHEN i8 > 0 THEN dec WHEN i8 < -5 THEN 1 ELSE 0 END > 0.5",
    "CASE WHEN i8 > 0 THEN 1 END IS NULL",
    "dec * dec + 1 > 2 - dec",
    "abs(i8) = 5",
    "-i8 = 5",
    "(i8 + i16) * 2 > 0",
    "CAST(i8 AS BIGINT) = i16",
    "CAST(i8 AS STRING) = '5'",
    "big > 0",
    "whole = i8",
    "i8 = NULL",
    "TRUE",
    "s NOT LIKE '%1%'",
    "NOT s NOT LIKE '_chl%'",
    "i8 NOT BETWEEN 1 AND 5",
    "b IS NOT FALSE",
    "x = 1.0 OR x = dec",
    "x <> dec",
    "x IN (1, 2.5, 0.3)",
    "x BETWEEN -0.3 AND dec",
    "CAST(dec AS DOUBLE) = x",
    "dec + x > 1.1",
    "COALESCE(x, dec, i64) > 0.3",
    "CASE WHEN b THEN dec ELSE x END < 0.3",
    "i64 > x",
    "CAST(i64 AS DOUBLE) > 0",
    "NULL OR b",
    "NOT NULL OR b",
    "b AND NULL",
    "i8 IN (NULL) OR b",
    "hour(ts) > 3 AND minute(ts) < 40",
    "year(ts) = 2001 AND month(ts) < 7 AND day(nts) > 10",
    "CAST(ts AS DATE) > DATE '2001-02-03'",
    "ts >= TIMESTAMP '2001-02-03 04:05:06'",
    "ts < TIMESTAMP '2001-02-03 04:05:06+02:00'",
    "nts < TIMESTAMP_NTZ '2001-02-03 04:05:06'",
    "i8 % 3 = 1",
    "date_add(d, 3) > DATE '1970-01-01'",
    "datediff(d, DATE '1970-01-01') > -3",
    "extract(DAY FROM d) = 20",
    "date_trunc('MONTH', ts) = TIMESTAMP '2001-02-01'",
    "nullif(i8, 3) IS NULL",
    "second(ts) > 3",
    "upper(s) LIKE 'SCHLÜSSEL%'",
    "s = 'it''s' OR s > 'sch''l'",
    "substring(s, 2, 3) = 'chl'",
    "length(s) > 20",
    "concat(s, 'x') = 'x'",
    "trim(s) = ''",
    "startswith(s, 'sch')",
]
SPARK_ONLY = [
    "s RLIKE 'ss[ea]l'",
    "pmod(i8, 3) = 1",
    "extract(SECOND FROM ts) > 3",
    "hour(d) = 0 AND i8 > 3",
    "dec / 3 > 1",
    "CAST(i64 AS FLOAT) > 0",
    "greatest(i8, i16) > 0",
    "i8 <=> NULL",
    "i8 = '5'",
    "if(i8 > 0, TRUE, FALSE)",
    "CASE i8 WHEN 3 THEN TRUE WHEN NULL THEN FALSE ELSE b END",
    "round(x, 1) > 0.3 AND floor(x) < ceil(x)",
    "xxhash64(s) > 0",
]
MEASURES = [
    "i8",
    "i8 + i64",
    "dec * (1 - dec)",
    "x / 3",
    "CASE WHEN b THEN dec ELSE 0 END",
    "CAST(i8 AS DECIMAL(20,3))",
    "-dec",
]


@pytest.fixture(scope="module")
def table():
    return all_types(300, 9)


@pytest.fixture(scope="module")
def frame(spark, table):
    frame = spark.createDataFrame(table, schema=ALL_TYPES_DDL).coalesce(1)
    frame.createOrReplaceTempView("t")
    return frame


def stored(text):
    """The expression as the plan stores it: parsed, checked and rendered again."""
    relation = parse_query(f"SELECT COUNT(*) FROM t WHERE {text}", {"t": COLUMNS}).relations[0]
    return " AND ".join(f"({predicate})" for predicate in relation.predicates)


@pytest.fixture(scope="module")
def on_spark(frame):
    """What Spark makes of each text as the user wrote it and as the plan stores it: one pass for all."""
    texts = ON_BOTH + SPARK_ONLY
    columns = [*texts, *(stored(text) for text in texts)]
    computed = frame.selectExpr(*(f"{text} AS c{i}" for i, text in enumerate(columns))).toArrow()
    columns = [column.to_pylist() for column in computed.columns]
    return dict(zip(texts, zip(columns[: len(texts)], columns[len(texts) :], strict=True), strict=True))


@pytest.mark.parametrize("text", ON_BOTH + SPARK_ONLY)
def test_the_stored_text_means_what_the_user_wrote(on_spark, text):
    written, rendered = on_spark[text]
    assert [bool(value) for value in written] == [bool(value) for value in rendered]
    assert len(set(written)) > 1 or text in ("i8 = NULL", "TRUE", "NOT NULL", "s LIKE '%\\\\%%'"), (
        "a test that cannot fail"
    )


@pytest.mark.parametrize("text", ON_BOTH)
def test_arrow_evaluates_as_spark_does(on_spark, table, text):
    assert evaluate(stored(text), table, COLUMNS).to_pylist() == on_spark[text][1]


@pytest.mark.parametrize("text", SPARK_ONLY)
def test_arrow_refuses_what_it_cannot_do_exactly(table, text):
    with pytest.raises(PipelineError, match="Spark"):
        evaluate(stored(text), table, COLUMNS)


@pytest.mark.parametrize("text", MEASURES)
def test_measures_have_sparks_types_and_values(spark, frame, table, text):
    (factor,) = parse_query(f"SELECT SUM({text}) FROM t", {"t": COLUMNS}).aggregate.factors
    computed = spark.sql(f"SELECT {text} FROM t")
    assert from_spark(computed.schema.fields[0].dataType) == factor.expression.type
    expected = [row[0] for row in computed.collect()]
    found = evaluate(factor.expression.text, table, COLUMNS).to_pylist()
    for a, b in zip(found, expected, strict=True):
        assert a == b or math.isclose(a, b, rel_tol=1e-15)


def test_arithmetic_that_fails_on_a_row_is_an_error(table):
    with pytest.raises(PipelineError, match="overflow"):
        evaluate("`i64` * 100", table, COLUMNS)
    with pytest.raises(PipelineError, match="zero"):
        evaluate("1 / `i8` > 0", table, COLUMNS)
