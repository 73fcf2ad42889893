"""What roles make of messages: once where nothing matches, once where something does, never, and NULL in its place."""

import numpy as np
import pytest

from eddyline.sample.join import Turn, turn_of, turned

MESSAGE = [3, 0, 1, -2, 0]  # three values, then the NULL places of two relations
MADE = {
    Turn.PLAIN: [3, 0, 1, -2, 0],
    Turn.OUTER: [3, 1, 1, 1, 1],
    Turn.SEMI: [1, 0, 1, 0, 0],
    Turn.ANTI: [0, 1, 0, 1, 1],
    Turn.ANTI_OF_VALUES: [0, 1, 0, 0, 0],
    Turn.NEVER: [0, 0, 0, 0, 0],
}


@pytest.mark.parametrize("kind", [np.float64, np.int64, np.object_])
@pytest.mark.parametrize("turn", MADE)
def test_turns_of_numbers_of_every_kind(turn, kind):
    made = turned(np.array(MESSAGE, dtype=kind), turn, 3)
    assert made.dtype == kind
    assert made.tolist() == MADE[turn]


def test_a_full_join_counts_a_missing_side_only_where_the_other_is():
    others = np.array([True, True, False, False, False])
    assert turned(np.array([3.0, 0.0, 2.0, 0.0, 1.0]), Turn.FULL, 3, others).tolist() == [3, 1, 2, 0, 1]


def test_not_in_goes_by_whether_the_other_side_has_rows_and_nulls():
    assert turn_of("not in", has_rows=False, has_null=False) is Turn.ANTI
    assert turn_of("not in", has_rows=True, has_null=False) is Turn.ANTI_OF_VALUES
    assert turn_of("not in", has_rows=True, has_null=True) is Turn.NEVER
    assert turn_of("preserved", has_rows=True, has_null=True) is Turn.PLAIN
