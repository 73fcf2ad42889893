"""Random queries of groups, of single values and of outer joins, which stream samples alone answer, and their judges."""

import re
from math import isclose

from tests.fuzz.faults import FaultError
from tests.fuzz.workload_cases import WorkloadQuery, column_of, one_of, where_of
from tests.oracles.duckdb_sql import database

GROUPS = ("{0}.k", "{0}.j", "CASE WHEN {0}.v < 20 THEN 0 WHEN {0}.v < 40 THEN 1 END", "{0}.v")
MEASURES = (
    "COUNT(*) AS n, SUM({0}.v) AS s",
    "AVG({0}.v) AS m, COUNT({0}.v) AS c",
    "COUNT(DISTINCT {0}.j) AS d, COUNT(*) AS n",
    "MEDIAN({0}.v) AS m",
    "PERCENTILE_APPROX({0}.v, 0.8) AS p, VAR_POP({0}.v) AS x",
)
SINGLE = ("COUNT(*)", "SUM({0}.v)", "AVG({0}.v)", "COUNT(DISTINCT {0}.j)", "MEDIAN({0}.v)")
JOINS = ("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")


def group_query(rng, names):
    """A query that only stream samples answer."""
    return (_of_stream, _of_join, _of_join, _single, _single, _chain)[rng.integers(6)](rng, names)


def _pick(rng, texts, alias):
    return texts[rng.integers(len(texts))].format(alias)


def _of_stream(rng, names):
    group, measures = _pick(rng, GROUPS, "a"), _pick(rng, MEASURES, "a")
    text = f"SELECT {group} AS g, {measures} FROM {one_of(rng, names)} a{where_of(rng, 'a')} GROUP BY {group}"
    return WorkloadQuery(f"groups of a stream: {_kind(measures)}", text)


def _joined(rng, names):
    """(the FROM clause, the alias of a side that is always there, whether the other may be read)."""
    join = JOINS[rng.integers(len(JOINS))]
    on = f"a.{column_of(rng)} = b.{column_of(rng)}"
    there = "b" if join == "RIGHT JOIN" else "a"
    text = f"{one_of(rng, names)} a {join} {one_of(rng, names)} b ON {on}"
    return text, there, join


def _of_join(rng, names):
    source, there, join = _joined(rng, names)
    group, measures = _pick(rng, GROUPS, there), _pick(rng, MEASURES, there)
    text = f"SELECT {group} AS g, {measures} FROM {source}{where_of(rng, there)} GROUP BY {group}"
    return WorkloadQuery(f"groups of a {join.lower()}: {_kind(measures)}", text)


def _single(rng, names):
    source, there, join = _joined(rng, names)
    aggregate = _pick(rng, SINGLE, there)
    return WorkloadQuery(
        f"{_kind(aggregate)} of a {join.lower()}", f"SELECT {aggregate} FROM {source}{where_of(rng, there)}"
    )


def _chain(rng, names):
    source = f"{one_of(rng, names)} a JOIN {one_of(rng, names)} b ON a.k = b.k JOIN {one_of(rng, names)} c ON b.j = c.j"
    group, measures = _pick(rng, GROUPS[2:], "a"), _pick(rng, MEASURES, "c")
    text = f"SELECT {group} AS g, {measures} FROM {source}{where_of(rng, 'b')} GROUP BY {group}"
    return WorkloadQuery(f"groups of a chain: {_kind(measures)}", text)


def _kind(measures):
    return (
        "median"
        if "MEDIAN" in measures or "PERCENTILE" in measures
        else "distinct"
        if "DISTINCT" in measures
        else "sums"
    )


def exact_rows(sql, tables):
    """The rows of the same text by DuckDB."""
    text = sql.replace("PERCENTILE_APPROX", "quantile_disc")
    text = re.sub(r"LEFT (SEMI|ANTI) JOIN", r"\1 JOIN", text)
    with database().cursor() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        return connection.sql(text).fetchall()


def judge_groups(groups, truth, about, tally):
    """Count the numbers of groups as exact, held or missed; raise FaultError where a claim of exactness is wrong."""
    by_group = {row[0]: row[1:] for row in truth}
    shown = set()
    for row in groups:
        shown.add(row["g"])
        right = by_group.get(row["g"])
        if right is None:
            if row["exact"]:
                raise FaultError(f"a group that is not there is said to be exact: {row}: {about}")
            continue
        for name, value in zip(groups.aggregates, right, strict=True):
            if not _judge_number(row, name, value, tally):
                raise FaultError(f"{name} is said to be exact and is not, for {value}: {row}: {about}")
    if groups.exact and shown != set(by_group):
        raise FaultError(f"said to be exact, with {len(shown)} groups of {len(by_group)}: {about}")


def _judge_number(row, name, value, tally):
    """Count one number; return whether it is right where it is said to be exact."""
    found, low, high = row[name], row[f"{name}_low"], row[f"{name}_high"]
    if row["exact"]:
        tally.exact += 1
        return (found is None) == (value is None) and (
            found is None or isclose(float(found), float(value), rel_tol=1e-9, abs_tol=1e-9)
        )
    if found is None or value is None:
        return True
    slack = 1e-9 * max(abs(float(value)), 1)
    if low - slack <= float(value) <= high + slack:
        tally.held += 1
    else:
        tally.missed += 1
        if len(tally.examples) < 5:
            tally.examples.append(f"{name} {found} [{low} .. {high}] for {value}: {row}")
    return True
