"""Types: ill-typed texts are refused when they are asked, by Spark's rules; NULL stands for any type."""

import pytest
import sqlglot

from eddyline.errors import SqlError
from eddyline.expressions.nodes import Source
from eddyline.expressions.schema import parse_schema
from eddyline.expressions.typing import infer
from eddyline.sql.parse import parse_query

COLUMNS = parse_schema(
    "t",
    "p BOOLEAN, i TINYINT, a BIGINT, m DECIMAL(12,2), big DECIMAL(38,0), f FLOAT, x DOUBLE, c STRING, bin BINARY, d DATE, "
    "ts TIMESTAMP, n TIMESTAMP_NTZ",
)


def where(text):
    return parse_query(f"SELECT COUNT(*) FROM t WHERE {text}", {"t": COLUMNS})


@pytest.mark.parametrize(
    "text",
    [
        "a", "c", "NOT a", "a IS TRUE", "a AND p", "a OR p", "c AND c", "-p = 1", "abs(d) = 1", "-ts = 1",
        "year(a) = 1", "hour(x) = 1", "p + 1 > 0", "p = 1", "a = d", "d = 1", "bin = a", "c + c > 1",
        "a IN (1, TRUE)", "p IN (1)", "a BETWEEN 1 AND TRUE", "COALESCE(a, d) = 1", "COALESCE(p, 1) = 1",
        "CASE WHEN a THEN 1 END = 1", "CASE WHEN c THEN 1 END = 1", "CASE WHEN p THEN a ELSE d END = 1",
        "CASE a WHEN d THEN 1 END = 1", "d * 2 > 1", "ts + 1 > ts", "d + a > d", "1 - d > 1", "d + d > d",
        "CAST(d AS INT) = 1", "CAST(a AS DATE) = d", "CAST(bin AS BIGINT) = 1", "x DIV 2 = 1",
        "upper(NOT a) = 'X'", "lower(CAST(p + 1 AS STRING)) = 'x'", "if(a, 1, 2) = 1",
    ],
)  # fmt: skip
def test_ill_typed_texts_are_refused_in_one_sentence(text):
    with pytest.raises(SqlError) as caught:
        where(text)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "NULL", "NOT NULL", "NULL OR p", "NULL AND NULL", "p = NULL", "NULL IS TRUE", "NULL LIKE 'x'", "a IN (NULL)",
        "CASE WHEN NULL THEN 1 END = 1", "upper(a) = '1'", "a LIKE '1'", "year(c) = 2001", "-c = 1", "abs(c) = 1",
        "c = 1", "c OR p", "NOT c", "d + 1 > d", "ts - d IS NULL", "c > d", "d < ts", "n = ts", "NULL + a = 1",
    ],
)  # fmt: skip
def test_what_spark_takes_is_taken(text):
    where(text)


def test_the_type_of_every_measure_is_checked():
    for text in ("SUM(p + 1)", "COUNT(NOT a)", "SUM(CASE WHEN a THEN 1 END)", "COUNT(DISTINCT NOT a)"):
        with pytest.raises(SqlError):
            parse_query(f"SELECT {text} FROM t", {"t": COLUMNS})


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("f + f", "FLOAT"), ("f / f", "DOUBLE"), ("f + i", "DOUBLE"), ("COALESCE(f, i)", "DOUBLE"),
        ("-1 * m", "DECIMAL(14,2)"), ("(1) * m", "DECIMAL(14,2)"), ("-(1) * m", "DECIMAL(23,2)"),
        ("-2147483648", "INT"), ("-9223372036854775808", "BIGINT"), ("COALESCE(big, m)", "DECIMAL(38,0)"),
        ("big * m", "DECIMAL(38,2)"), ("m % i", "DECIMAL(5,2)"), ("m + NULL", "DECIMAL(13,2)"), ("NULL", "VOID"),
        ("c + i", "BIGINT"), ("c * m", "DOUBLE"), ("COALESCE(c, i)", "BIGINT"), ("COALESCE(d, ts)", "TIMESTAMP"),
    ],
)  # fmt: skip
def test_types_are_those_of_spark(text, kind):
    tree = sqlglot.parse_one(text, dialect="spark")
    assert str(infer(tree, (Source("t", "t", COLUMNS),))) == kind


def test_deep_nesting_is_an_error_of_ours():
    with pytest.raises(SqlError, match="nested"):
        where("+".join(["a"] * 1200) + " > 1")
    where(" OR ".join(["a > 1"] * 800))
