"""A short run of the SQL fuzzer, the same in every run; the long one is `./scripts/fuzz --minutes N`."""

import pytest

from tests.fuzz.reverts import REVERTS, reverted
from tests.fuzz.sql_fuzzer import Round

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("seed", [5])
def test_random_texts_mean_what_they_mean_in_spark(spark, seed):
    fuzzed = Round(spark, seed)
    findings = fuzzed.run()
    assert not findings, "\n".join(str(finding) for finding in findings)
    assert fuzzed.counts["arrow"] >= 30
    assert fuzzed.counts["spark"] >= 40


def test_forms_that_were_once_read_wrongly_mean_what_they_mean_in_spark(spark):
    fuzzed = Round(spark, 5)
    findings = fuzzed.run_forms()
    assert not findings, "\n".join(str(finding) for finding in findings)
    assert fuzzed.counts["arrow"] >= 30
    assert fuzzed.counts["spark"] >= 30


IN_CI = ("not like", "count of a condition")
"""Fixes that are taken out in every run of the tests; all others among the slow ones."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in IN_CI else pytest.mark.slow) for name in REVERTS]
)
def test_a_fix_that_is_taken_out_is_found_among_the_forms(spark, name):
    with reverted(name):
        assert Round(spark, 5).run_forms()


@pytest.mark.slow
@pytest.mark.parametrize("name", REVERTS)
def test_a_fix_that_is_taken_out_is_found_among_random_texts(spark, name):
    with reverted(name):
        assert any(Round(spark, seed).run() for seed in range(100, 110))
