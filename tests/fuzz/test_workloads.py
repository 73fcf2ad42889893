"""A short run of the fuzzer of whole workloads: no foreign exception, no false claim of exactness.

Whether intervals hold as often as they say takes thousands of answers: that is the long run, `workloads.main`.
"""

import pytest

from tests.fuzz.workloads import LEAST, WITH_CONDITIONS, WITH_GROUPS, Tally, report, run


@pytest.mark.calibration
def test_random_workloads_plan_and_answer_and_say_exact_only_where_they_are():
    tallies = run(range(12))
    assert sum(tally.exact + tally.held for tally in tallies.values()) > 20
    assert sum(tally.missed for tally in tallies.values()) <= 0.2 * sum(t.held for t in tallies.values())


@pytest.mark.calibration
def test_random_groups_and_outer_joins_say_exact_only_where_they_are():
    tallies = run(range(WITH_GROUPS, WITH_GROUPS + 12))
    grouped = [tally for kind, tally in tallies.items() if "groups" in kind]
    assert sum(tally.exact + tally.held for tally in grouped) > 100
    assert sum(tally.missed for tally in grouped) <= 0.2 * sum(tally.exact + tally.held for tally in grouped)


@pytest.mark.calibration
def test_random_conditions_between_relations_say_exact_only_where_they_are():
    tallies = run(range(WITH_CONDITIONS, WITH_CONDITIONS + 12))
    crossed = [t for kind, t in tallies.items() if "compared" in kind or "triangle" in kind]
    assert sum(tally.exact + tally.held for tally in crossed) > 100
    assert sum(tally.missed for tally in crossed) <= 0.2 * sum(tally.exact + tally.held for tally in crossed)


FOUND = {
    "a budget that leaves a window's sketches no word": 901338,
    "groups of which no link is sampled": WITH_GROUPS + 44,
    "groups of a link without values": WITH_GROUPS + 1272,
}


@pytest.mark.parametrize("case", FOUND)
def test_what_a_long_run_found_once_stays_found(case):
    assert run([FOUND[case]])


def test_a_ratio_that_one_sampled_value_tells_is_not_told_as_certain():
    """Of 104 variances of a chain's groups 49 were missed: a single value of one link had shown all of them."""
    tallies = run([WITH_GROUPS + 774])
    tally = next(tally for kind, tally in tallies.items() if "groups of a chain: median" in kind)
    assert tally.missed <= 0.07 * (tally.held + tally.missed)


def test_the_report_names_every_kind_with_its_coverage():
    text = report({"count of a join": Tally(exact=1, held=95, missed=5)})
    assert "count of a join" in text
    assert "95.0%" in text
    assert Tally(held=95, missed=5).coverage > LEAST
