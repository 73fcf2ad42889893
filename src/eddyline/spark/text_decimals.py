"""Decimals of CSV and JSON: read with all their digits, so that one which its column would round is told instead."""

import re
from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from eddyline.spark.changes import CORRUPT

_DECIMAL = re.compile(r"DECIMAL\((\d+), ?(\d+)\)")
_MOST_DIGITS = 38


def with_all_digits(kind: str) -> str:
    """Return the type that a column is read as: a DECIMAL with as many places as there can be before it overflows."""
    decimal = _DECIMAL.fullmatch(kind)
    if decimal is None:
        return kind
    before = int(decimal[1]) - int(decimal[2])
    return f"DECIMAL({_MOST_DIGITS},{_MOST_DIGITS - before})"


def refuse_rounding(frame: DataFrame, kinds: Mapping[str, str]) -> DataFrame:
    """Return a frame with decimals of the kinds that were declared, CORRUPT where one does not hold its value."""
    narrowed, corrupt = {}, sf.col(f"`{CORRUPT}`")
    for name, kind in kinds.items():
        if with_all_digits(kind) == kind:
            continue
        wide = sf.col("`" + name.replace("`", "``") + "`")
        narrow = wide.try_cast(kind)
        digits = sf.regexp_replace(wide.cast("string"), r"0+$", "")
        why = sf.concat(sf.lit(f"{name} is "), digits, sf.lit(f", which {kind} does not hold"))
        is_lost = wide.isNotNull() & (narrow.isNull() | (narrow != wide))
        corrupt = sf.coalesce(corrupt, sf.when(is_lost, why))
        narrowed[name] = narrow
    return frame.withColumns({**narrowed, CORRUPT: corrupt}) if narrowed else frame
