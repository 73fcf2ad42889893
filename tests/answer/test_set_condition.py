from hypothesis import given
from hypothesis import strategies as st

from eddyline.answer.sets.expression import (
    Except,
    StreamLeaf,
    Union,
    holds,
    occurrences,
    only_unions,
    renamed,
    streams_of,
    truth_table,
    without_streams,
)
from tests.data.set_conditions import EXPRESSIONS
from tests.oracles.sets import evaluate

STREAMS = st.lists(st.sets(st.integers(0, 20)), min_size=4, max_size=4)


@given(EXPRESSIONS, STREAMS)
def test_holds_is_membership(expression, sets):
    result = evaluate(expression, sets)
    for element in range(21):
        present = frozenset(j for j, own in enumerate(sets) if element in own)
        assert holds(expression, present) == (element in result)
        mask = sum(1 << j for j in present)
        assert truth_table(expression, (0, 1, 2, 3))[mask] == (element in result)


@given(EXPRESSIONS, STREAMS, st.frozensets(st.integers(0, 3)))
def test_without_is_evaluation_with_empty_streams(expression, sets, empty):
    emptied = [set() if j in empty else own for j, own in enumerate(sets)]
    left = without_streams(expression, empty)
    assert (set() if left is None else evaluate(left, sets)) == evaluate(expression, emptied)


@given(EXPRESSIONS)
def test_members_and_names(expression):
    assert streams_of(expression) == tuple(sorted(set(occurrences(expression))))
    moved = renamed(expression, {j: j + 10 for j in range(4)})
    assert streams_of(moved) == tuple(j + 10 for j in streams_of(expression))


def test_plain_unions_are_recognized():
    assert only_unions(Union(StreamLeaf(0), Union(StreamLeaf(1), StreamLeaf(0))))
    assert not only_unions(Union(StreamLeaf(0), Except(StreamLeaf(1), StreamLeaf(0))))
