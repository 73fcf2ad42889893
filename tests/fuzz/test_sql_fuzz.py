"""A short run of the SQL fuzzer, the same in every run; the long one is `./scripts/fuzz --minutes N`."""

import pytest

from tests.fuzz.sql_fuzzer import Round

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("seed", [5])
def test_random_texts_mean_what_they_mean_in_spark(spark, seed):
    fuzzed = Round(spark, seed)
    findings = fuzzed.run()
    assert not findings, "\n".join(str(finding) for finding in findings)
    assert fuzzed.counts["arrow"] >= 30
    assert fuzzed.counts["spark"] >= 40
