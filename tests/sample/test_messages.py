"""Sums over joins of dictionaries are those of nested loops, in integers of any size."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eddyline.sample.join import Join
from eddyline.sample.messages import exact_total, sampled_messages, set_values
from eddyline.sample.spec import COUNT, DictionarySpec, Node, Quantity, SampleSpec, Shape, View
from eddyline.sample.state import SampleState
from tests.data.dictionaries import dictionary
from tests.oracles import stream_samples as naive

KEYS = st.none() | st.integers(0, 3)
ROWS = st.lists(
    st.tuples(
        st.builds(naive.element, st.tuples(KEYS, KEYS), st.tuples(st.booleans())),
        st.tuples(st.integers(-2, 3), st.integers(-5, 5)),
    ),
    max_size=6,
)
PART = DictionarySpec((0, 0), flags=1, measures=1)

# A join: for each relation (stream, keys, links of the keys, measure); then the number of links.
JOINS = {
    "two relations": ([(0, (0,), (0,), COUNT), (1, (0,), (0,), COUNT)], 1),
    "self-join": ([(0, (0,), (0,), COUNT), (0, (0,), (0,), 0)], 1),
    "one key against the other": ([(0, (0,), (0,), COUNT), (0, (1,), (0,), COUNT)], 1),
    "three at one link": ([(0, (0,), (0,), COUNT), (1, (0,), (0,), 0), (1, (1,), (0,), COUNT)], 1),
    "chain": ([(0, (0,), (0,), 0), (1, (0, 1), (0, 1), COUNT), (0, (1,), (1,), COUNT)], 2),
    "star": (
        [(0, (0, 1), (0, 1), COUNT), (1, (0,), (0,), COUNT), (1, (1,), (1,), 0), (0, (0,), (0,), COUNT)],
        2,
    ),
    "path of four over one table": (
        [
            (0, (1,), (0,), COUNT),
            (0, (0, 1), (0, 1), COUNT),
            (0, (0, 1), (1, 2), COUNT),
            (0, (0,), (2,), COUNT),
        ],
        3,
    ),
}


def made(case, tables, *, flagged=False):
    """(join, term) of a case over a state in its first stage."""
    relations, links = JOINS[case]
    nodes = tuple(
        Node(View(stream, keys, (0,) if flagged else (), measure), None, variables)
        for stream, keys, variables, measure in relations
    )
    term = Quantity(nodes)
    shape = Shape("q", "join", (0,) * links, {"count": term})
    spec = SampleSpec((PART, PART), (), (), (3,), (shape,), 1 << 20, 1 << 20)
    empty = SampleState.empty(spec)
    held = SampleState(spec, False, tuple(dictionary(PART, rows) for rows in tables), empty.rosters)
    return Join(held, shape), term


def looped(case, tables, *, flagged=False):
    """The same by nested loops."""
    relations, _ = JOINS[case]
    nets = [naive.net(rows) for rows in tables]
    return naive.joined(
        [
            [
                (
                    {v: each[0][k] for k, v in zip(keys, variables, strict=True)},
                    totals[1 + measure],
                )
                for each, totals in nets[stream].items()
                if not flagged or each[1][0]
            ]
            for stream, keys, variables, measure in relations
        ]
    )


@pytest.mark.parametrize("case", JOINS)
@pytest.mark.parametrize("flagged", [False, True])
def test_exact_totals_are_those_of_nested_loops(case, flagged):
    @given(ROWS, ROWS)
    def check(left, right):
        tables = (left, right)
        join, term = made(case, tables, flagged=flagged)
        truth = looped(case, tables, flagged=flagged)
        assert exact_total(join, term) == truth
        assert sampled_messages(join, term).total() == pytest.approx(truth)

    check()


@pytest.mark.parametrize("case", JOINS)
def test_totals_beyond_64_bits_are_exact(case):
    rng = np.random.default_rng(5)
    tables = [
        [
            (naive.element((int(a), int(b)), (True,)), (int(w), int(x)))
            for a, b, w, x in zip(
                rng.integers(0, 3, 5),
                rng.integers(0, 3, 5),
                rng.integers(-(2**60), 2**60, 5),
                rng.integers(-(2**60), 2**60, 5),
                strict=True,
            )
        ]
        for _ in range(2)
    ]
    truth = looped(case, tables)
    assert abs(truth) > 2**63
    join, term = made(case, tables)
    assert exact_total(join, term) == truth


def test_products_that_meet_nothing_may_overflow_on_the_way():
    large = [(naive.element((0, 0), (True,)), (2**62, 1))]
    nothing = [(naive.element((1, 1), (True,)), (2**62, 1))]
    for case in JOINS:
        join, term = made(case, (large, nothing))
        assert exact_total(join, term) == looped(case, (large, nothing))


def test_empty_relations_join_nothing():
    for case in JOINS:
        join, term = made(case, ([], []))
        assert exact_total(join, term) == 0


EXPRESSIONS = {
    (0,): lambda a, b: a,
    (0, 1, "union"): lambda a, b: a | b,
    (0, 1, "intersect"): lambda a, b: a & b,
    (0, 1, "except"): lambda a, b: a - b,
    (0, 1, "except", 1, 0, "except", "union"): lambda a, b: a ^ b,
}


@given(ROWS, ROWS, st.sampled_from(list(EXPRESSIONS)))
def test_sets_hold_the_values_whose_net_count_is_above_zero(left, right, expression):
    nodes = tuple(Node(View(stream, (0,)), None, (0,)) for stream in range(2))
    shape = Shape("q", "set", (0,), {"set": Quantity(nodes)}, 1.0, expression)
    spec = SampleSpec((PART, PART), (), (), (3,), (shape,), 1 << 20, 1 << 20)
    held = tuple(dictionary(PART, rows) for rows in (left, right))
    join = Join(SampleState(spec, False, held, SampleState.empty(spec).rosters), shape)
    sets = []
    for rows in (left, right):
        totals = {}
        for (keys, _), (count, _) in rows:
            totals[keys[0]] = totals.get(keys[0], 0) + count
        sets.append({value for value, count in totals.items() if value is not None and count > 0})
    assert set(join.values[0][set_values(join)].tolist()) == EXPRESSIONS[expression](*sets)
