"""How a result of `state.sql` compares with the exact rows: errors, intervals, what is called exact and is wrong."""

import math
from collections import Counter
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import sqlglot

Row = dict[str, Any]


def unlimited(text: str, dialect: str = "duckdb") -> str:
    """Return a query for DuckDB without its last ORDER BY and LIMIT: shown groups are looked up in its result."""
    tree = sqlglot.parse_one(text, dialect=dialect)
    for part in ("order", "limit"):
        tree.set(part, None)
    return tree.sql(dialect="duckdb")


def plain(value: object) -> object:
    """Return a value as either engine has it."""
    if isinstance(value, bool | int | float | Decimal):
        return float(value)
    return value.isoformat() if isinstance(value, date) else value


def compared(result: pa.Table, truth: list[tuple[object, ...]]) -> Row:
    """Return how a result compares with the exact rows; its note says where a result that is called exact is wrong."""
    metadata = {field.name: field.metadata or {} for field in result.schema}
    names = [
        name for name in result.column_names if metadata[name].get(b"eddyline.role") in (b"label", b"value")
    ]
    labels = [k for k, name in enumerate(names) if metadata[name][b"eddyline.role"] == b"label"]
    exact = (result.schema.metadata or {}).get(b"eddyline.exact") == b"true"
    found = {
        "shown": result.num_rows,
        "rows": len(truth),
        "exact": exact,
        "error": 0.0,
        "worst": 0.0,
        "held": "",
        "width": "",
    }
    mine = [tuple(plain(row[name]) for name in names) for row in result.to_pylist()]
    right = [tuple(map(plain, row)) for row in truth]
    if exact:
        wrong = sum((Counter(map(rounded, mine)) - Counter(map(rounded, right))).values())
        return found | {"note": f"WRONG: {wrong} rows" if wrong else ""}
    if not labels and len(right) > 1:
        return found | {"error": "", "worst": "", "note": "without a column that names its rows"}
    by_label = {tuple(row[k] for k in labels): row for row in right}
    errors, held, widths, missing, unknown = [], [], [], 0, 0
    for whole, row in zip(result.to_pylist(), mine, strict=True):
        true = by_label.get(tuple(row[k] for k in labels))
        if true is None:
            missing += 1
            continue
        for k in (k for k in range(len(names)) if k not in labels):
            of, value = metadata[names[k]], true[k]
            if row[k] is None and value is not None:
                unknown += 1
            if not isinstance(row[k], float) or not isinstance(value, float):
                continue
            errors.append(abs(row[k] - value) / max(abs(value), 1e-9))
            if b"eddyline.low" in of:
                low, high = (whole[of[end].decode()] for end in (b"eddyline.low", b"eddyline.high"))
                slack = 1e-9 * max(abs(value), 1.0)
                held.append((low is None or low - slack <= value) and (high is None or value <= high + slack))
                ends = [math.inf if end is None else abs(float(end) - row[k]) for end in (low, high)]
                widths.append(max(ends) / max(abs(value), 1e-9))
    notes = [f"{missing} not in the exact answer"] * bool(missing) + [f"{unknown} not known"] * bool(unknown)
    return found | {
        "error": float(np.median(errors)) if errors else "",
        "worst": max(errors, default=""),
        "held": float(np.mean(held)) if held else "",
        "width": float(np.median(widths)) if widths else "",
        "note": ", ".join(notes),
    }


def rounded(row: tuple[object, ...]) -> tuple[object, ...]:
    """Return a row whose floats have nine digits, so that equal ones compare as equal."""
    return tuple(float(f"{value:.9g}") if isinstance(value, float) else value for value in row)
