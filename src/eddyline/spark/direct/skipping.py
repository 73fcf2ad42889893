"""Row groups in which no row counts or passes a filter, by the statistics that Parquet keeps of each."""

from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from eddyline.ingest.changes import change_format
from eddyline.ingest.passing_over import deciding_predicates
from eddyline.ingest.stream_spec import StreamSpec
from eddyline.spark.direct.doubt import READ_ERRORS
from eddyline.spark.direct.planning import Scan
from eddyline.sql.arrow_types import to_arrow
from eddyline.sql.ranges import Bounds, rules_out
from eddyline.sql.timezones import UTC
from eddyline.types import Column

_ORDERED = ("tinyint", "smallint", "int", "bigint", "string", "date", "timestamp", "timestamp_ntz")
"""Types whose statistics bound every value in the order in which Spark compares."""


class Skipping:
    """Tells the row groups that need not be read, for all that a pass over a stream fills.

    By predicates of the plan only where rows are inserts and not filtered: what is passed over is counted as rows.
    """

    def __init__(self, scan: Scan, spec: StreamSpec) -> None:
        self._scan = scan
        inserts = change_format(scan.stream.name, scan.stream.changes).form == "insert"
        self._predicates = deciding_predicates(spec) if inserts and not scan.filters else None

    def drops(self, group: pq.RowGroupMetaData) -> bool:
        """Return whether no row of a group passes the filters of the frame."""
        for each in self._scan.filters:
            bounds = self._bounds(group, each.columns, each.schema)
            if any(rules_out(conjunct, bounds, each.schema, each.timezone) for conjunct in each.conjuncts):
                return True
        return False

    def skips(self, group: pq.RowGroupMetaData) -> bool:
        """Return whether every synopsis that does not count all rows has a conjunct that no row of a group meets."""
        if self._predicates is None:
            return False
        columns, timezone = self._scan.stream.columns, self._scan.timezone or UTC
        bounds = self._bounds(group, self._scan.columns, columns) if self._predicates else {}
        return all(
            any(rules_out(conjunct, bounds, columns, timezone) for conjunct in predicates)
            for predicates in self._predicates
        )

    def _bounds(
        self, group: pq.RowGroupMetaData, stored: Mapping[str, str], columns: Iterable[Column]
    ) -> Bounds:
        """Return the bounds of columns in a row group, as far as they are known; stored: their columns of the files."""
        chunks = {(chunk := group.column(i)).path_in_schema: chunk for i in range(group.num_columns)}
        bounds = {}
        for column in columns:
            of = stored.get(column.name)
            if of is None or self._scan.types[of].kind not in _ORDERED:
                continue
            try:
                statistics = chunks[of].statistics
                if statistics is None or not statistics.has_min_max:
                    continue
                found = pa.array([statistics.min, statistics.max], to_arrow(self._scan.types[of]))
                found = found.cast(to_arrow(column.type))
            except (*READ_ERRORS, TypeError, OverflowError):  # dates beyond Python's calendar
                continue
            bounds[column.name] = (found[:1], found[1:])
        return bounds
