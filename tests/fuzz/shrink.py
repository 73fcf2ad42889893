"""Findings made small: the shortest part of the text that still shows it, on as few rows as it takes."""

from dataclasses import replace

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

_MOST_TRIES = 12


def smallest(fuzzed, finding):
    """The finding over its shortest part of one stream, and over few rows; as it was where that is not found."""
    if "says" not in finding.what or " JOIN " in finding.text or "(SELECT" in finding.text:
        return finding
    asked = ((part, _asked(fuzzed, part)) for part in _parts(finding.text))
    part, small = next(((part, each) for part, each in asked if each), (None, finding))
    if part is None:
        return finding
    table = fuzzed.tables["t"]
    while table.num_rows > 1:
        middle = table.num_rows // 2
        halves = (table.slice(0, middle), table.slice(middle))
        kept = next(((half, each) for half in halves if (each := _asked(fuzzed, part, half))), None)
        if kept is None:
            break
        table, small = kept
    return replace(small, rows=table.to_pylist())


def _parts(text):
    """The conditions inside a text, the shortest first."""
    try:
        tree = sqlglot.parse_one(text, dialect="spark")
    except SqlglotError:  # Spark takes texts that the parser does not
        return []
    kinds = (exp.Predicate, exp.Not, exp.Connector)
    found = {node.sql(dialect="spark") for node in tree.find_all(*kinds)}
    return sorted(found, key=len)[:_MOST_TRIES]


def _asked(fuzzed, condition, table=None):
    """The finding that a condition shows over a table of net rows, if it shows any."""
    net = table if table is not None else fuzzed.tables["t"]
    return next(iter(fuzzed.on(net).ask_one(condition)), None)
