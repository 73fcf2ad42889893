"""`state.sql` on an exact state against Spark: every text means what Spark reads in it."""

import pytest

from tests.api.sql_texts import GENERATED, HAND
from tests.api.test_sql_around import compare, rows, workload

pytestmark = pytest.mark.spark

QUICK = [
    text
    for text in HAND
    if "SUBSTRING" in text or "date_format" in text or "LPAD" in text or "CAST(AVG" in text
]


@pytest.fixture(scope="module")
def both(spark):
    tables = rows()
    state = workload("4 MB").plan().empty()
    for name, table in tables.items():
        state.update(name, table)
        spark.createDataFrame(table).createOrReplaceTempView(name)
    spark.sql("SELECT region, COUNT(*) AS n FROM orders GROUP BY region").createOrReplaceTempView("by_region")
    joined = "SELECT COUNT(*) AS volume FROM orders o JOIN customers c ON o.customer = c.id"
    spark.sql(joined).createOrReplaceTempView("volume")
    return state, spark


def check(both, texts) -> None:
    state, spark = both
    wrong = []
    for text in texts:
        try:
            wanted = [tuple(row) for row in spark.sql(text).collect()]
            compare(text, state.sql(text, intervals=False), wanted)
        except Exception as error:  # noqa: BLE001 - all of them are shown together
            wrong.append(f"{text}\n    {type(error).__name__}: {str(error)[:300]}")
    assert not wrong, "\n".join(wrong)


def test_functions_whose_meaning_differs_are_those_of_spark(both):
    check(both, QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_every_text_is_that_of_spark(both, part):
    check(both, [*HAND, *GENERATED][part::8])
