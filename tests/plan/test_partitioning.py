"""Partitionings are the best there are, on small instances, and their predicates share all values out."""

from datetime import date
from math import isinf, prod, sqrt

import duckdb
import msgspec
import numpy as np
import pyarrow as pa
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st

import eddyline as el
from eddyline.errors import PlanError
from eddyline.expressions.arrow_eval import evaluate
from eddyline.plan.partition.histograms import Histogram, equi_depth, sql_literal
from eddyline.plan.partition.partitioning import (
    LinkStatistics,
    Partitioning,
    allocate_space,
    cell_self_joins,
    joint_gain,
    link_statistics,
    partition_link,
    partition_links,
)
from eddyline.types import Column, SqlType
from tests.oracles import partitioning as naive

FREQUENCY = st.one_of(st.just(0), st.integers(1, 9), st.integers(10, 100_000))


def of_values(left, right) -> LinkStatistics:
    """A link whose frequencies are known value by value."""
    values = tuple(range(len(left)))
    sides = [
        Histogram(values, values[-1], tuple(map(float, side)), (1,) * len(side)) for side in (left, right)
    ]
    return link_statistics(*sides)


def sides_of(size):
    return st.tuples(*[st.lists(FREQUENCY, min_size=size, max_size=size)] * 2)


LINKS = st.integers(1, 7).flatmap(sides_of)


def squares(side):
    return [float(f) ** 2 for f in side]


@settings(max_examples=60, deadline=None)
@given(LINKS)
def test_the_variance_is_that_over_all_signs(sides):
    expected = naive.variance_over_all_signs(*sides)
    assert of_values(*sides).variance(slice(None)) == pytest.approx(expected, rel=1e-6)


def test_the_documents_example_2():
    link = of_values([20, 5, 10, 2], [2, 15, 3, 10])
    found = partition_link(link, 2)
    assert {part.buckets for part in found.parts} == {(0, 2), (1, 3)}
    assert [part.variance for part in found.parts] == [6400, 6400]
    assert (found.unpartitioned_variance, found.variance) == (188_977, 25_600)
    assert found.gain == pytest.approx(7.38, abs=0.005)  # the text says 7.5
    assert int(found.cost) == 177


@settings(max_examples=100, deadline=None)
@given(LINKS, st.integers(1, 5))
def test_no_set_partition_costs_less(sides, most):
    found = partition_link(of_values(*sides), most)
    left, right = map(squares, sides)
    assert found.cost == pytest.approx(naive.least_cost(left, right, most), rel=1e-8)
    assert found.cost == pytest.approx(naive.cost(left, right, [list(part.buckets) for part in found.parts]))
    assert 1 <= len(found.parts) <= most
    assert sorted(bucket for part in found.parts for bucket in part.buckets) == list(range(len(left)))


@settings(max_examples=25, deadline=None)
@given(st.lists(sides_of(4), min_size=1, max_size=3), st.integers(1, 7))
def test_no_parts_of_several_links_cost_less_in_product(links, most):
    found = partition_links([of_values(*sides) for sides in links], most)
    assert prod(len(each.parts) for each in found) <= most
    expected = naive.least_product([tuple(map(squares, sides)) for sides in links], most)
    assert prod(each.cost for each in found) == pytest.approx(expected, rel=1e-7)


def test_sides_that_never_meet_cost_nothing_in_two_parts():
    found = partition_link(of_values([5, 0, 7, 0], [0, 3, 0, 2]), 4)
    assert {part.buckets for part in found.parts} == {(0, 2), (1, 3)}
    assert found.cost == 0
    assert isinf(found.gain)


def test_sides_in_proportion_are_left_in_one_part():
    found = partition_link(of_values([1, 5, 20, 7], [3, 15, 60, 21]), 4)
    assert [part.buckets for part in found.parts] == [(0, 1, 2, 3)]
    assert found.gain == 1


def test_a_link_without_rows_is_one_part():
    found = partition_link(of_values([0, 0, 0], [0, 0, 0]), 3)
    assert [part.predicate("x") for part in found.parts] == ["x IS NOT NULL"]
    assert found.gain == 1
    assert joint_gain([found]) == 1


def test_buckets_without_rows_follow_their_lower_neighbour():
    found = partition_link(of_values([0, 90, 0, 0, 1, 0], [0, 1, 0, 0, 90, 0]), 2)
    assert {part.buckets for part in found.parts} == {(0, 1, 2, 3), (4, 5)}


def test_statistics_of_buckets_count_the_fewer_values_as_joining():
    left = Histogram((0,), 9, (100.0,), (10,))
    right = Histogram((0,), 9, (20.0,), (4,), (112.0,))
    link = link_statistics(left, right)
    assert (link.left[0], link.right[0]) == (1000, 112)
    assert (link.joined[0], link.joined_squares[0]) == (4 * 10 * 5, 4 * 100 * 28)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=3), st.integers(3, 12))
def test_no_shares_of_the_space_leave_less_variance(variances, words):
    shares = allocate_space(variances, words)
    assert sum(shares) == words
    assert min(shares) >= 1
    variance = sum(v / s for v, s in zip(variances, shares, strict=True))
    # whole sketches, one of them given to each part beforehand: a factor of 2 at worst with so few words
    assert variance <= 2 * naive.least_variance(variances, words)


def test_with_space_enough_shares_follow_the_roots_and_reach_the_promised_variance():
    variances = [1.0, 4.0, 25.0, 0.0]
    shares = allocate_space(variances, 80_000)
    assert shares == pytest.approx((10_000, 20_000, 50_000, 1), rel=1e-3)
    reached = sum(v / s for v, s in zip(variances, shares, strict=True))
    assert reached == pytest.approx(sum(map(sqrt, variances)) ** 2 / 80_000, rel=1e-3)


def test_space_is_shared_evenly_where_nothing_varies():
    assert allocate_space([0.0, 0.0], 7) == (4, 3)


def test_cells_of_independent_attributes_are_products_of_their_links():
    """A chain R1(a), R2(a, b), R3(b) whose middle relation is a product, as in Theorem 4.6."""
    rng = np.random.default_rng(3)
    one, three = rng.integers(0, 100, 5), rng.integers(0, 100, 4)
    across, down = rng.integers(0, 100, 5), rng.integers(0, 100, 4)
    middle = np.outer(across, down)
    found = partition_links([of_values(one, across), of_values(down, three)], 4)
    cells = [
        (one[list(p.buckets)], middle[np.ix_(p.buckets, q.buckets)], three[list(q.buckets)])
        for p in found[0].parts
        for q in found[1].parts
    ]
    assert len(cells) == 4
    self_joins = [prod(float((relation**2).sum()) for relation in cell) for cell in cells]
    assert cell_self_joins(found).ravel() == pytest.approx(self_joins)
    roots = [sqrt(naive.chain_variance_over_all_signs(*(part.tolist() for part in cell))) for cell in cells]
    whole = naive.chain_variance_over_all_signs(one.tolist(), middle.tolist(), three.tolist())
    assert joint_gain(found) == pytest.approx(whole / sum(roots) ** 2)


def test_the_gain_of_one_link_is_its_joint_gain():
    found = partition_link(of_values([20, 5, 10, 2], [2, 15, 3, 10]), 2)
    assert joint_gain([found]) == pytest.approx(found.gain)
    assert found.join_size == 165


def column_partitioning(values: np.ndarray, most: int) -> Partitioning:
    rng = np.random.default_rng(5)
    sides = [equi_depth(values, rng.zipf(1.4, len(values)).clip(max=10_000), buckets) for buckets in (12, 9)]
    return partition_link(link_statistics(*sides), most)


WORDS = np.array(["", "a", "ab'c", "b\\n", "back\\slash", "it's", "m", "n o", "naïve", "z", "ü", "日本"])
COLUMNS = {
    "BIGINT": (np.arange(-60, 300, 7), [-(2**62), -61, -60, 0, 3, 11, 299, 2**62]),
    "DOUBLE": (np.linspace(-2.5, 3.5, 40), [-1e300, -2.5, 0.1, 1e-9, 3.5, 1e300, float("inf"), float("nan")]),
    "VARCHAR": (WORDS, [*WORDS.tolist(), "ab", "zz", "\t"]),
    "DATE": (
        np.arange("2024-01-01", "2024-06-01", 5, dtype="M8[D]"),
        [date(1970, 1, 1), date(2024, 1, 1), date(2024, 3, 16), date(2024, 5, 31), date(2030, 1, 1)],
    ),
}


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("most", [1, 2, 5])
def test_every_value_is_in_exactly_one_part_and_null_in_none(kind, most):
    seen, others = COLUMNS[kind]
    found = column_partitioning(seen, most)
    assert len(found.parts) == most
    rows = [[value] for value in [*seen.tolist(), *others, None]]
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE t (x {kind})")
        connection.executemany("INSERT INTO t VALUES (?)", rows)
        # duckdb has no backslash escapes: the predicates are Spark's, and translated
        predicates = [
            sqlglot.transpile(part.predicate("x"), read="spark", write="duckdb")[0] for part in found.parts
        ]
        counts = " + ".join(f"(CASE WHEN {each} THEN 1 ELSE 0 END)" for each in predicates)
        got = connection.execute(
            f"SELECT x IS NULL, {counts} AS parts, COUNT(*) FROM t GROUP BY 1, 2"
        ).fetchall()
    assert sorted(got) == [(False, 1, len(rows) - 1), (True, 0, 1)]


@pytest.mark.parametrize(
    ("kind", "sql_type", "typed"),
    [("BIGINT", "bigint", ""), ("VARCHAR", "string", ""), ("DATE", "date", "DATE")],
)
def test_predicates_select_the_values_that_locate_puts_into_the_part(kind, sql_type, typed):
    seen, others = COLUMNS[kind]
    found = column_partitioning(seen, 4)
    values = [*seen.tolist(), *others]
    place = found.locate(np.array([str(value) for value in values] if kind == "DATE" else values))
    for index, part in enumerate(found.parts):
        predicate = part.predicate("x", typed)
        selected = evaluate(predicate, pa.table({"x": values}), (Column("x", SqlType(sql_type)),))
        assert selected.to_pylist() == (place == index).tolist()


def test_ranges_merge_neighbouring_buckets_and_are_open_ended():
    found = partition_link(of_values([9, 8, 1, 1, 9, 9], [1, 1, 9, 8, 1, 1]), 2)
    assert [part.predicate("k") for part in found.parts] == ["k >= 2 AND k < 4", "(k < 2) OR (k >= 4)"]


def test_strings_are_written_as_spark_reads_them():
    assert sql_literal("it's a \\ b") == r"'it\'s a \\ b'"


def test_partitionings_are_stored_as_json():
    found = column_partitioning(WORDS, 3)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Partitioning) == found


def test_a_few_hundred_buckets_and_eight_parts():
    rng = np.random.default_rng(8)
    sides = [equi_depth(np.arange(4000), rng.zipf(1.3, 4000).clip(max=10**6), 400) for _ in range(2)]
    costs = [partition_link(link_statistics(*sides), most).cost for most in range(1, 9)]
    assert costs == sorted(costs, reverse=True)


def test_what_cannot_be_done_is_refused():
    with pytest.raises(PlanError, match="too few for 3 parts"):
        allocate_space([1.0, 2.0, 3.0], 2)
    with pytest.raises(PlanError, match="at least one part"):
        partition_link(of_values([1], [1]), 0)


def test_an_analysis_of_a_query_with_a_number_of_partitions_needs_no_histograms():
    workload = el.Workload(budget="64 KB", samples=False)
    workload.stream("f", "k BIGINT").stream("g", "k BIGINT")
    workload.query("q", "SELECT COUNT(*) FROM f JOIN g ON f.k = g.k", method="hash", partitions=2)
    state = workload.analysis().empty()
    for name in "fg":
        state.update(name, {"k": np.arange(100, dtype=np.int64)})
    assert workload.plan(statistics=state.statistics()).nbytes <= 64_000
