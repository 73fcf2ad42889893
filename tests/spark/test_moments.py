"""Aggregates of two columns and SKEWNESS through Spark, against Spark's own answers, NULLs among them."""

import pytest

import eddyline as el

pytestmark = pytest.mark.spark
FUNCTIONS = (
    "CORR(x, d)",
    "COVAR_SAMP(n, x)",
    "COVAR_POP(d, n)",
    "REGR_SLOPE(d, x)",
    "SKEWNESS(n)",
    "SKEWNESS(x)",
)
FRAMES = {
    "some rows": "(1, 1.5D, 2.25), (2, -3.0D, 1.10), (7, 0.25D, NULL), (3, NULL, 9.99), (NULL, 8.5D, 4.40), (9, 2.5D, -1.75)",
    "one row": "(1, 1.5D, 2.25)",
    "no variation in x": "(1, 1.5D, 2.25), (4, 1.5D, 3.25), (6, 1.5D, 3.75)",
    "no variation": "(1, 1.5D, 2.25), (1, 1.5D, 2.25)",
    "no pair": "(1, 1.5D, NULL), (NULL, NULL, 2.25)",
}


@pytest.fixture(scope="module")
def plan():
    made = el.Workload(budget="64 KB").stream("s", "n INT, x DOUBLE, d DECIMAL(9,2)")
    for place, function in enumerate(FUNCTIONS):
        made.query(f"q{place}", f"SELECT {function} FROM s")
    return made.plan()


@pytest.mark.parametrize("rows", FRAMES.values(), ids=FRAMES)
def test_answers_are_those_of_spark(spark, plan, rows):
    frame = spark.sql(
        f"SELECT CAST(n AS INT) n, x, CAST(d AS DECIMAL(9,2)) d FROM VALUES {rows} AS t(n, x, d)"
    )
    frame.createOrReplaceTempView("s")
    state = plan.sketch(spark, {"s": frame})
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set(
        "spark.sql.ansi.enabled", "false"
    )  # in ANSI mode a column that does not vary may be an error
    try:
        truths = spark.sql(f"SELECT {', '.join(FUNCTIONS)} FROM s").collect()[0]
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)
    for place, function in enumerate(FUNCTIONS):
        truth, found = truths[place], state.answer(f"q{place}")
        assert found.exact
        assert found.value == (None if truth is None else pytest.approx(truth, rel=1e-12, abs=1e-15)), (
            function
        )
