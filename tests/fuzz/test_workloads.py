"""A short run of the fuzzer of whole workloads: no foreign exception, no false claim of exactness, no impossible interval.

Whether intervals hold as often as they say takes thousands of answers: `scripts/fuzz --workloads --minutes 30`.
"""

import numpy as np
import pytest

from tests.data.arrivals import ARRIVALS, zipf
from tests.fuzz.workload_judge import Verdict
from tests.fuzz.workloads import LEAST, Cell, report, run, short

SECONDS = 2.5


@pytest.mark.calibration
@pytest.mark.parametrize("arrival", ARRIVALS)
def test_random_workloads_answer_without_a_fault(arrival):
    cells = run(range(100), arrival, SECONDS)
    assert sum(len(cell.verdicts) for cell in cells.values()) > 5


@pytest.mark.parametrize("arrival", ARRIVALS)
def test_an_arrival_deletes_only_rows_that_are_there(arrival):
    rng = np.random.default_rng(3)
    made = ARRIVALS[arrival](rng, 2000, zipf(rng, 300, 1.0), 0.5)
    left = np.zeros(2000, dtype=int)
    for row, weight in zip(made.rows, made.weights, strict=True):
        left[row] += weight
        assert left[row] in (0, 1)
    assert 0 < left.sum() == len(made.net) < 2000
    assert np.bincount(made.rows[made.weights > 0]).tolist() == [1] * 2000


def test_a_late_key_comes_last_and_sorted_keys_come_by_weight():
    rng = np.random.default_rng(4)
    late = ARRIVALS["late"](rng, 1000, zipf(rng, 50), share=0.2, key=7)
    assert (late.keys[-200:] == 7).all()
    assert (late.keys[:800] == 7).mean() < 0.1
    for name, sign in (("light to heavy", 1), ("heavy to light", -1)):
        keys = ARRIVALS[name](rng, 1000, zipf(rng, 50, 1.0)).keys
        weights = np.bincount(keys)[keys][::sign]
        assert (np.diff(weights) >= 0).all()


def test_a_cell_is_short_only_if_its_upper_bound_is():
    assert not Cell([Verdict(seed=s, held=9, missed=1) for s in range(10)]).is_short
    assert Cell([Verdict(seed=s, held=8, missed=2) for s in range(100)]).is_short


def test_many_groups_of_one_state_are_no_more_than_one_state():
    one = Cell([Verdict(seed=1, held=0, missed=500), *(Verdict(seed=s, held=1) for s in range(2, 12))])
    assert one.coverage == pytest.approx(10 / 11)
    assert one.bounds[1] > LEAST
    assert len(Cell([Verdict(seed=1, held=1), Verdict(seed=1, missed=1)]).shares) == 1


def test_the_report_names_short_cells_and_margins_first():
    cells = {
        ("sum", "join", "late"): Cell([Verdict(seed=s, missed=1) for s in range(20)]),
        ("count", "join", "late"): Cell([Verdict(seed=s, held=1) for s in range(40)]),
    }
    assert ("sum", "join", "late") in short(cells)
    assert ("sum", "any", "any") in short(cells)
    text = report(cells)
    assert text.index("sum ") < text.index("count ")
