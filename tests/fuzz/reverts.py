"""Mistakes that the SQL reader once made, to be made again: a fuzzer that misses one of them is too coarse.

`python -m tests.fuzz --without NAME` runs the fuzzer with one fix taken out.
"""

from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import date, timedelta
from math import inf
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import sqlglot
from sqlglot import exp

from eddyline.answer import query
from eddyline.answer.groups import entries
from eddyline.answer.groups import entries as table_moments
from eddyline.answer.joins import late, missing, sampled, sampled_ratios, sampled_values
from eddyline.answer.joins import query as join_query
from eddyline.expressions import arrow_eval, arrow_values, typing
from eddyline.expressions.typing import BOOLEAN, INT
from eddyline.ingest import arrow_path
from eddyline.sample.join import Join
from eddyline.sql import aggregates, joins, links


def _pasted(node):
    """COUNT(x) as text put into text: in `x IS NOT NULL` only the last part of `p AND q` is tested."""
    return sqlglot.parse_one(f"CASE WHEN {node.sql(dialect='spark')} IS NOT NULL THEN 1 END", dialect="spark")


def _like_without_not(evaluator, node):
    """NOT LIKE read as LIKE: the parser says NOT by an argument of the node."""
    return arrow_values.like(evaluator.typed(node.this, "string"), node.expression.name)


def _raw_evaluate(text, table, columns, timezone="UTC"):
    """Evaluate without turning Arrow's refusals of types into errors of ours."""
    value = arrow_eval._Evaluator(table, arrow_eval.Source("", "", columns), timezone).value(
        arrow_eval._parsed(text)
    )
    if isinstance(value, pa.Scalar):
        return pa.chunked_array([pa.repeat(value, table.num_rows)])
    return value if isinstance(value, pa.ChunkedArray) else pa.chunked_array([value])


def _with_rules(changed):
    """The rules of types, some of them replaced by function."""
    return tuple((kinds, changed.get(rule, rule)) for kinds, rule in typing._RULES)


_UNCHECKED = {
    typing._connector: lambda *_: BOOLEAN,
    typing._not: lambda *_: BOOLEAN,
    typing._is: lambda *_: BOOLEAN,
    typing._of_time: lambda *_: INT,
    typing._sign: lambda node, sources: typing.infer(node.this, sources),
}
_LIKE = replace(arrow_eval._RULES[exp.Like], evaluate=_like_without_not)
REVERTS: dict[str, Callable[[], list]] = {
    "count of a condition": lambda: [patch.object(aggregates, "one_where_not_null", _pasted)],
    "not like": lambda: [patch.dict(arrow_eval._RULES, {exp.Like: _LIKE})],
    "decimal to double": lambda: [
        patch.object(arrow_values, "decimal_to_float", lambda value, kind: value.cast(kind))
    ],
    "aggregate in exists": lambda: [patch.object(joins, "check_rows", lambda _: None)],
    "scope of a semi-join": lambda: [patch.object(joins, "_check_scope", lambda *_: None)],
    "operands on arrow": lambda: [
        patch.object(arrow_eval._Evaluator, "typed", lambda self, node, *_: self.value(node)),
        patch.object(arrow_path, "evaluate", _raw_evaluate),
    ],
    "types of conditions": lambda: [
        patch.object(links, "check_predicate", lambda *_: None),
        patch.object(typing, "_RULES", _with_rules(_UNCHECKED)),
    ],
}
"""By name, what to put in place of a fix in the SQL reader."""


def _dividing(totals):
    """One over each total, as a kernel divides: an error where one is 0."""
    return np.array([1.0 / each for each in totals.tolist()])


def _without_missing(*_, **__):
    """No row is missing, whatever exact totals say."""
    return missing.Missing()


def _without_late_keys(_snapshot, _planned, join, function, totals, confidence):
    """What sketches show of keys that are not followed is not read."""
    return late.LateReading(sampled.read_sample_join(join, function, totals, confidence), totals)


OF_WORKLOADS: dict[str, Callable[[], list]] = {
    "null_group_said_to_be_exact": lambda: [patch.object(Join, "samples_null", new=False)],
    "average_of_no_sampled_row_that_counts": lambda: [
        patch.object(module, "shares_of", _dividing) for module in (entries, table_moments)
    ],
    "date_after_9999": lambda: [
        patch.object(arrow_values, "date_of", lambda day: date(1970, 1, 1) + timedelta(day))
    ],
    "count_of_a_stream_beyond_its_rows": lambda: [patch.object(query, "row_bound", lambda *_: inf)],
    "negative_sums": lambda: [
        patch.object(sampled_values.SampledQuantity, "signs", new=(0, 1)),
        patch.object(sampled, "missing_of", _without_missing),
    ],
    "late_keys": lambda: [
        patch.object(join_query, "read_late_join", _without_late_keys),
        patch.object(sampled, "missing_of", _without_missing),
        patch.object(sampled_ratios, "missing_of", _without_missing),
    ],
}
"""The same for what the fuzzer of workloads found: by the name of the case in `found` that shows it, or of SHORT_WITHOUT."""
SHORT_WITHOUT: dict[str, tuple[str, range, str, str | None]] = {
    "negative_sums": ("signed sum", range(300), "heavy to light", None),
    "late_keys": ("count", range(100), "late", "star"),
}
"""Which function has short cells without a fix of OF_WORKLOADS: over these seeds, order of arrival and form of queries."""


@contextmanager
def reverted(name):
    """Make one of the mistakes again."""
    with ExitStack() as stack:
        for each in (REVERTS | OF_WORKLOADS)[name]():
            stack.enter_context(each)
        yield
