"""Grouped sums of DECIMALs keep all their digits: in Python, in `state.sql`, and over the wire as a numeric."""

from decimal import Decimal

import psycopg
import pyarrow as pa
import pytest

import eddyline as el
from tests.serve.postgres import shop

LARGE, SMALL = Decimal("9007199254740993.13"), Decimal("2.50")
QUESTION = "SELECT g, SUM(total) AS s FROM o GROUP BY g ORDER BY g"


def state(budget="1 MB", values=(LARGE, Decimal("1.00"), SMALL), groups=("a", "a", "b")):
    w = el.Workload(budget=budget, seed=1)
    w.stream("o", "g STRING, total DECIMAL(20,2)")
    w.query("by_g", "SELECT g, SUM(total) AS s FROM o GROUP BY g")
    w.query("all_of_it", "SELECT SUM(total) AS s FROM o")
    w.query("twice", "SELECT g, SUM(total) + SUM(total) AS s FROM o GROUP BY g")
    w.explore("o", "g", "total")
    rows = pa.table({"g": list(groups), "total": pa.array(list(values), pa.decimal128(20, 2))})
    return w.plan().empty().update("o", rows)


@pytest.fixture(scope="module")
def sampled():
    values = [Decimal(i % 997) / 100 for i in range(20_000)]
    made = state("6 KB", values, [f"g{i % 5_000}" for i in range(20_000)])
    assert not made.answer("by_g").exact
    return made


def test_a_group_has_all_its_digits():
    found = state().answer("by_g")
    assert found.exact
    assert found["a"]["s"].value == LARGE + 1 == found["a"]["s"].low == found["a"]["s"].high
    assert "9,007,199,254,740,994.13" in str(found)
    assert found.to_arrow().column("s").to_pylist() == [LARGE + 1, SMALL]


def test_numbers_that_floats_hold_stay_floats():
    found = state(values=(Decimal("1.10"), Decimal("1.00"), SMALL)).answer("by_g").to_arrow()
    assert found.schema.field("s").type == pa.float64()
    assert found.column("s").to_pylist() == [2.1, 2.5]


def test_a_formula_of_such_sums_is_not_taken_for_a_whole_number():
    assert state().answer("twice").to_arrow().schema.field("s").type == pa.float64()


@pytest.mark.parametrize(
    "text",
    [QUESTION, f"WITH t AS ({QUESTION}) SELECT g, s FROM t ORDER BY g", "SELECT g, s FROM by_g ORDER BY g"],
)
def test_sql_returns_a_decimal(text):
    found = state().sql(text)
    assert found.schema.field("s").type == pa.decimal128(38, 2)
    assert found.column("s").to_pylist() == [LARGE + 1, SMALL]
    for low, value, high in zip(
        *(found.column(f"s{end}").to_pylist() for end in ("_low", "", "_high")), strict=True
    ):
        assert Decimal(low) <= value <= Decimal(high)


def test_the_type_does_not_change_when_the_state_is_sampled(sampled):
    found = sampled.sql("SELECT g, SUM(total) AS s FROM o GROUP BY g")
    assert found.schema.field("s").type == pa.decimal128(38, 2)
    assert sampled.sql("SELECT SUM(total) AS s FROM o").schema.field("s").type == pa.decimal128(38, 2)


@pytest.mark.parametrize(
    "text",
    [QUESTION, "SELECT g, s FROM by_g ORDER BY g", "SELECT sum(total) AS s FROM o", "SELECT s FROM all_of_it",
     f"WITH t AS ({QUESTION}) SELECT g, s FROM t ORDER BY g"],
)  # fmt: skip
def test_the_wire_sends_a_numeric(text, sampled):
    numeric = 1700
    for kept in (state(), sampled):
        with shop.serving(kept) as server:
            dsn = f"host=127.0.0.1 port={server.address[1]} user=me dbname=shop"
            with psycopg.connect(dsn, autocommit=True) as connection:
                found = connection.execute(text)
                assert {each.name: each.type_code for each in found.description}["s"] == numeric
                if kept is not sampled:
                    first = found.fetchone()[-1]
                    assert str(first) in ("9007199254740994.13", "9007199254740996.63")
