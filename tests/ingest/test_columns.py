"""The columns that leave the JVM: nothing twice, and keys of several columns from parts that travel anyhow."""

from eddyline.ingest.projection import Projection, lean_columns
from eddyline.plan.layout import Measure
from eddyline.sql.query import Expression, Key
from eddyline.types import SqlType

A, B, C = (Expression(name, SqlType("bigint")) for name in "abc")
PRICE = Expression("price", SqlType("decimal", 12, 2))
WHOLE = Expression("whole", SqlType("decimal", 10, 0))
NAME = Expression("name", SqlType("string"))


def lean(keys=(), measures=()):
    return lean_columns(Projection(tuple(keys), (), tuple(measures), ()))


def test_a_key_and_its_measures_are_one_column():
    found = lean([Key((A,)), Key((A,), null_is_value=True)], [Measure(A, 1), Measure(A, 2)])
    assert found.names == ["k0_0"]
    assert set(found.twins) == {"k0_0", "k1_0", "m0", "m1"}


def test_decimals_are_one_column_only_where_they_are_whole():
    assert lean([Key((WHOLE,))], [Measure(WHOLE, 1)]).names == ["k0_0"]
    assert lean([Key((PRICE,))], [Measure(PRICE, 1), Measure(PRICE, 2)]).names == ["k0_0", "m0"]


def test_one_text_of_two_types_is_two_columns():
    wider = Expression("a", SqlType("decimal", 12, 2))
    assert lean([Key((A,))], [Measure(wider, 1)]).names == ["k0_0", "m0"]


def test_a_key_of_several_columns_is_hashed_where_its_parts_do_not_travel():
    assert lean([Key((A, B))]).hashed == {0}
    assert lean([Key((A, B))]).names == []
    assert lean([Key((A, B)), Key((A,)), Key((B,))]).hashed == set()
    assert len(lean([Key((A, B)), Key((A,)), Key((B,))]).names) == 2


def test_a_part_that_one_key_adds_serves_the_next():
    found = lean([Key((B, C)), Key((A, B)), Key((A,))])
    assert found.hashed == set()
    assert len(found.names) == 3


def test_parts_that_the_jvm_cannot_make_keys_of_travel_themselves():
    found = lean([Key((PRICE, NAME))])
    assert found.hashed == set()
    assert found.names == ["k0_0", "k0_1"]
