"""Filters of a frame that only reads files: conditions that Arrow evaluates as Spark does. Needs no pyspark."""

from collections.abc import Mapping

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.errors import PipelineError
from eddyline.ingest.arrow_path import decoded
from eddyline.spark.direct.files import Doubt
from eddyline.sql.arrow_eval import evaluate
from eddyline.sql.arrow_values import to_arrow
from eddyline.sql.expressions import columns_of
from eddyline.sql.frame_conditions import read_conjuncts
from eddyline.types import Column, SqlType


class Filter(msgspec.Struct, frozen=True):
    """Conditions that a row has to meet, all of them.

    columns: the column of the files for each name in the conditions. types: of the names. timezone: in which times
    are compared with texts.
    """

    conjuncts: tuple[str, ...]
    columns: dict[str, str]
    types: dict[str, SqlType]
    timezone: str

    @property
    def schema(self) -> tuple[Column, ...]:
        """The names in the conditions as columns."""
        return tuple(Column(name, kind) for name, kind in self.types.items())

    def passing(self, columns: Mapping[str, pa.Array]) -> pa.Array:
        """Return which rows pass; columns: of the files, by name. Raise Doubt where a condition fails on a row."""
        table = pa.table(
            {
                name: decoded(pa.chunked_array([columns[of]])).cast(to_arrow(self.types[name]))
                for name, of in self.columns.items()
            }
        )
        passing: pa.ChunkedArray | None = None
        for conjunct in self.conjuncts:
            try:
                met = evaluate(conjunct, table, self.schema, self.timezone)
            except PipelineError:
                raise Doubt(f"the filter {conjunct!r} can only be evaluated by Spark") from None
            passing = met if passing is None else pc.and_(passing, met)
        return pc.fill_null(passing, False).combine_chunks()


def read_filter(written: str, columns: dict[str, str], types: dict[str, SqlType], timezone: str) -> Filter:
    """Return the filter of a condition that Spark wrote, or raise Doubt where Arrow may see it otherwise."""
    conjuncts = read_conjuncts(written)
    named = {name for conjunct in conjuncts or () for name in columns_of(conjunct)}
    if conjuncts is None or not named or named != set(columns):
        raise Doubt(f"the filter {written!r} can only be evaluated by Spark")
    made = Filter(conjuncts, columns, types, timezone)
    made.passing({of: pa.array([], to_arrow(types[name])) for name, of in columns.items()})
    return made
