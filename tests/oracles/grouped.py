"""Exact groups of the same SQL text on the net rows, by DuckDB."""

import pytest

from tests.oracles.duckdb_sql import database


def exact_groups(text, tables, columns):
    """The groups of a query by DuckDB: the first `columns` of its SELECT list to the rest of it."""
    with database().cursor() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        rows = connection.sql(text).fetchall()
    return {
        row[:columns]: tuple(None if each is None else float(each) for each in row[columns:]) for row in rows
    }


def values_by_group(groups):
    """The groups of our answer in the same form."""
    return {
        tuple(row[name] for name in groups.group_columns): tuple(
            None if row[name] is None else float(row[name]) for name in groups.aggregates
        )
        for row in groups
    }


def intervals(groups, aggregate):
    """The interval of an aggregate, by group."""
    return {
        tuple(row[name] for name in groups.group_columns): (row[f"{aggregate}_low"], row[f"{aggregate}_high"])
        for row in groups
    }


def assert_same(groups, truth):
    """The groups of our answer are those of the truth."""
    shown = values_by_group(groups)
    assert shown.keys() == truth.keys()
    for group, values in truth.items():
        for found, value in zip(shown[group], values, strict=True):
            assert (found is None) == (value is None), group
            assert found is None or found == pytest.approx(value, rel=1e-9, abs=1e-9), group
