"""Exact answers of a case's queries by DuckDB, and what an answer is worth compared with them."""

import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import date
from math import inf, isclose, isfinite, prod

import pyarrow as pa

from tests.oracles.duckdb_sql import database

MOST_JOINED = 20_000_000
"""Joined rows from which on DuckDB takes too long: such a query is not asked, unless its path answers it."""


class FaultError(AssertionError):
    """A workload that crashed, an answer that is said to be exact and is not, or an impossible interval.

    what: the same words for faults of the same kind; name: the query that shows it, if it is one.
    """

    def __init__(self, what, detail, name=None):
        super().__init__(f"{what}: {detail}")
        self.what, self.detail, self.name = what, detail, name


@dataclass
class Verdict:
    """What one state says of one query: numbers that are exact, that hold, that miss, that it does not know."""

    seed: int = 0
    exact: int = 0
    held: int = 0
    missed: int = 0
    unknown: int = 0
    unbounded: int = 0
    errors: list[tuple[float, float]] = field(default_factory=list)
    examples: list[str] = field(default_factory=list)
    fault: FaultError | None = None

    def claim(self, holds, about):
        """Count something that is claimed at the confidence."""
        self.held += holds
        self.missed += not holds
        if not holds:
            self.examples.append(about)

    def count(self, found, low, high, truth, about):
        """Count one interval."""
        slack = 1e-9 * max(abs(truth), 1)
        self.claim(low - slack <= truth <= high + slack, f"{found} [{low} .. {high}] for {truth}: {about}")
        self.unbounded += not isfinite(high - low)
        if truth and isfinite(high - low):
            self.errors.append((abs(found - truth) / abs(truth), (high - low) / 2 / abs(truth)))


def largest(asked, tables):
    """The largest COUNT that the numbers of rows allow; None where they allow any."""
    path = asked.path
    rows = [tables[name].num_rows for name in path.streams]
    if not path.columns:
        return sum(rows)
    if " SEMI " in asked.sql or " ANTI " in asked.sql:
        return rows[0]
    if " FULL " in asked.sql:
        return prod(rows) + sum(rows)
    return prod(max(n, 1) for n in rows) if "LEFT" in asked.sql or "RIGHT" in asked.sql else prod(rows)


def exact_answer(asked, tables, timezone):
    """The exact answer as an Arrow table (of a path as a number), or None where it would take too long."""
    if asked.by_path:
        return path_answer(asked.path, tables)
    if asked.path.columns and path_total(asked.path, tables) > MOST_JOINED:
        return None
    text = re.sub(r"PERCENTILE_APPROX", "quantile_disc", asked.sql.split(" ORDER BY ")[0])
    text = re.sub(r"LEFT (SEMI|ANTI) JOIN", r"\1 JOIN", text)
    text = re.sub(r"date_add\(([^,]+), 1\)", r"(\1 + 1)", text)
    text = re.sub(r"date_sub\(([^,]+), 1\)", r"(\1 - 1)", text)
    text = re.sub(r"DISTINCT ([^()]*,[^()]*)\)", _distinct_tuples, text)
    with database().cursor() as connection:
        connection.execute(f"SET TimeZone = '{timezone}'")
        for name, table in tables.items():
            connection.register(name, table)
        return connection.sql(text).to_arrow_table()


def _distinct_tuples(match):
    """COUNT(DISTINCT a, b) passes over tuples with a NULL."""
    columns = match.group(1).split(", ")
    there = " AND ".join(f"{column} IS NOT NULL" for column in columns)
    return f"DISTINCT CASE WHEN {there} THEN ({', '.join(columns)}) END)"


def path_answer(path, tables):
    """COUNT, SUM or AVG over a path of joins; None for SQL's NULL, where no joined row has a measure."""
    if path.function == "count":
        return path_total(path, tables)
    total, there = path_total(path, tables, "sum"), path_total(path, tables, "there")
    if not there:
        return None
    return total if path.function == "sum" else total / there


def path_total(path, tables, what="rows"):
    """The number of joined rows of a path, or the sum or the number of its measures; in Python integers."""
    message = None
    for i in reversed(range(len(path.streams))):
        table = tables[path.streams[i]]
        weights = [1] * table.num_rows
        if what != "rows" and i == path.measured:
            measures = table["v"].to_pylist()
            weights = [(v or 0) if what == "sum" else int(v is not None) for v in measures]
        if message is not None:
            keys = table[path.columns[i][0]].to_pylist()
            weights = [w * message[key] for w, key in zip(weights, keys, strict=True)]
        if i == 0:
            return sum(weights)
        message = Counter()
        for key, weight in zip(table[path.columns[i - 1][1]].to_pylist(), weights, strict=True):
            if key is not None:
                message[key] += weight
    return 0


def judge_value(asked, found, truth, most):
    """The verdict on an answer without groups; FaultError where it claims what cannot be."""
    value = _plain(truth.column(0))[0] if isinstance(truth, pa.Table) else truth
    verdict = Verdict()
    numbers = [_number(found.value), *_ends(_number(found.low), _number(found.high))]
    about = f"{asked.sql}: {found} for {value}"
    if value is not None and getattr(found, "is_null", False):
        raise FaultError("said to be NULL and is not", about)
    _judge(verdict, numbers, found.exact, value, _limits(asked, "value", most), about, "SUM(" in asked.sql)
    return verdict


def _limits(asked, name, most):
    """The least and the largest value that an aggregate can have: COUNT by the number of rows, variances from 0 on."""
    if name in asked.counts:
        return 0, most
    return (0 if asked.function.endswith("variance") else -inf), inf


def judge_groups(asked, groups, truth, most):
    """The verdicts on the numbers of groups, and on what is said of all groups together.

    That is "rest", what groups that are not shown hold together; for the first k "chosen", whether those that certainly
    are among them are, and "recall", whether a largest one is shown, which is not promised.
    """
    columns = {name: _plain(groups.to_arrow()[name]) for name in groups.to_arrow().column_names}
    values = zip(*(_plain(truth[name]) for name in groups.aggregates), strict=True)
    right, verdict = dict(zip(_plain(truth["g"]), values, strict=True)), Verdict()
    for i, group in enumerate(columns["g"]):
        if group not in right and columns["exact"][i]:
            raise FaultError("a group that is not there is said to be exact", repr(group))
        for place, name in enumerate(groups.aggregates):
            if group not in right and name not in asked.counts:
                continue
            value = right[group][place] if group in right else 0
            numbers = [columns[name][i], *_ends(columns[f"{name}_low"][i], columns[f"{name}_high"][i])]
            about = f"{name} of group {group!r}: {asked.sql}"
            _judge(verdict, numbers, columns["exact"][i], value, _limits(asked, name, most), about)
    if " LIMIT " in asked.sql:
        return {"": verdict, **_judge_top(asked, groups, columns, right)}
    shown, rest = set(columns["g"]), Verdict()
    if groups.exact and shown != set(right):
        raise FaultError(
            "groups are said to be exact, and are not all", f"{len(shown)} of {len(right)}: {asked.sql}"
        )
    if "n" in asked.counts and not groups.exact:
        unseen = sum(
            values[groups.aggregates.index("n")] for group, values in right.items() if group not in shown
        )
        printed = groups.rest["n"]
        _judge(
            rest, [printed.value, printed.low, printed.high], False, unseen, (0, most), f"rest of {asked.sql}"
        )
    return {"": verdict, "rest": rest}


def _judge_top(asked, groups, columns, right):
    chosen, recall = Verdict(), Verdict()
    counts = sorted((values[0] for values in right.values()), reverse=True)[
        : int(asked.sql.rsplit(" ", 1)[1])
    ]
    shown = [right.get(group, (0,))[0] for group in columns["g"]]
    if groups.exact:
        if sorted(shown, reverse=True) != counts:
            raise FaultError(
                "the first groups are said to be exact, and are not", f"{shown} for {counts}: {asked.sql}"
            )
        return {}
    for value, selected in zip(shown, columns["selected"], strict=True):
        if selected == "in":
            chosen.claim(value >= counts[-1], f"{value} among {counts}: {asked.sql}")
    if counts:
        recall.claim(max(shown, default=0) == counts[0], asked.sql)
    return {"chosen": chosen, "recall": recall}


def _judge(verdict, numbers, exact, value, limits, about, null_is_zero=False):
    """Count one number with its ends."""
    found, low, high = numbers
    if exact:
        if null_is_zero and value is None:
            value, found = 0, found or 0
        if not _same(found, value):
            raise FaultError("said to be exact and is not", f"{found} for {value}: {about}")
        verdict.exact += 1
        return
    if found is None or value is None:
        verdict.unknown += 1
        return
    slack = 1e-9 * max(abs(found), 1) if isinstance(found, int | float) else None
    # a sum of decimals would be rounded to 28 digits
    if not (low <= found <= high if slack is None else low - slack <= found <= high + slack):
        verdict.fault = FaultError("an estimate outside its interval", f"{found} [{low} .. {high}]: {about}")
    elif low < limits[0] - 1e-9:
        verdict.fault = FaultError("an interval below 0", f"{found} [{low} .. {high}]: {about}")
    elif high > limits[1] * (1 + 1e-9):
        printed = f"{found} [{low} .. {high}], at most {limits[1]}: {about}"
        verdict.fault = FaultError("an interval beyond what the number of rows allows", printed)
    verdict.count(float(found), float(low), float(high), float(value), about)


def _ends(low, high):
    """The ends of an interval; None stands for no bound."""
    return [-inf if low is None else low, inf if high is None else high]


def _number(value):
    """A date or a time as the number behind it, as in columns; anything else as it is."""
    return _plain(pa.array([value]))[0] if isinstance(value, date) else value


def _plain(column):
    """The values of a column; of times and dates the numbers behind them, which go beyond what Python's dates do."""
    kind = column.type
    if pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
    return column.to_pylist()


def _same(found, truth):
    if found is None or truth is None:
        return found is None and truth is None
    if isinstance(truth, str | bytes):
        return found == truth
    return isclose(float(found), float(truth), rel_tol=1e-9, abs_tol=1e-9)
