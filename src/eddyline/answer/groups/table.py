"""The answer of a GROUP BY query: a table of groups with intervals, and what unseen groups may hold together."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import pyarrow as pa

from eddyline.answer.drawing import Markup, block, bold, draw_column, escaped, listed, muted, table
from eddyline.answer.estimate import Estimate, show_key, show_share
from eddyline.answer.freshness import Freshness, plain
from eddyline.expressions.arrow_values import python_rows, python_values
from eddyline.sql.query import RESERVED

EXACT, SELECTED = RESERVED
IN, UNDECIDED = "in", "undecided"
_SHOWN = 20


@dataclass(frozen=True)
class Groups:
    """Groups with their aggregates, each with an interval.

    rest: for each aggregate, what the unseen groups may hold together; groups that HAVING or LIMIT leave out count
    as seen. `exact`: nothing is missing and every number is exact. `notes` and `freshness` are as in an Estimate.
    """

    query: str
    group_columns: tuple[str, ...]
    aggregates: tuple[str, ...]
    table: pa.Table = field(repr=False)
    rest: Mapping[str, Estimate]
    confidence: float
    method: str
    exact: bool = False
    notes: tuple[str, ...] = ()
    freshness: Freshness | None = None

    def to_arrow(self) -> pa.Table:
        """Return the groups as an Arrow table.

        It has the group columns by name; for each aggregate `<name>`, `<name>_low` and `<name>_high`; `exact`; and,
        for a query with HAVING or LIMIT, `selected`: "in" for groups that certainly are in the answer, else
        "undecided". A number that is not known is NULL with infinite ends, while SQL's NULL has NULL ends; for
        types without infinities (dates, times, DECIMAL, strings) a NULL that is not `exact` is unknown.
        """
        return self.table

    def to_pandas(self) -> object:
        """Return the groups as a pandas DataFrame; dates and times beyond the year 9999 become strings."""
        values = {name: python_values(self.table[name]) for name in self.table.column_names}
        beyond = [
            name
            for name, column in values.items()
            if pa.types.is_temporal(self.table[name].type) and any(isinstance(each, str) for each in column)
        ]
        frame = self.table.drop_columns(beyond).to_pandas()
        for name in beyond:
            frame.insert(self.table.column_names.index(name), name, values[name])
        return frame

    def to_dict(self, limit: int | None = None) -> dict[str, object]:
        """Return the groups (at most `limit` of them) as plain values with all their digits, ready for JSON."""
        rows = python_rows(self.table.slice(0, limit))
        return {
            "query": self.query,
            "group_columns": list(self.group_columns),
            "aggregates": list(self.aggregates),
            "groups": [self._plain_row(row) for row in rows],
            "number_of_groups": len(self),
            "rest": {name: estimate.numbers() for name, estimate in self.rest.items()},
            "exact": self.exact,
            "confidence": self.confidence,
            "method": self.method,
            "notes": list(self.notes),
            "freshness": self.freshness.to_dict() if self.freshness else None,
        }

    def _plain_row(self, row: Mapping[str, Any]) -> dict[str, object]:
        return {
            "group": {name: plain(row[name]) for name in self.group_columns},
            "aggregates": {name: self.estimate(row, name).numbers() for name in self.aggregates},
            **({SELECTED: row[SELECTED]} if SELECTED in row else {}),
        }

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __iter__(self) -> Iterator[dict[str, object]]:
        return iter(python_rows(self.table))

    def __getitem__(self, group: object) -> dict[str, Estimate]:
        """Return the aggregates of one group: `groups["EMEA"]`, or a tuple for several group columns."""
        wanted = group if isinstance(group, tuple) else (group,)
        for row in self:
            if tuple(row[name] for name in self.group_columns) == wanted:
                return {name: self.estimate(row, name) for name in self.aggregates}
        raise KeyError(group)

    def inexact(self) -> "Groups":
        """Return the groups where rows are known to be missing: no number is exact, and groups may be unseen."""
        column = pa.array([False] * len(self), pa.bool_())
        table = self.table.set_column(self.table.column_names.index(EXACT), EXACT, column)
        rest = {name: replace(each, low=-inf, high=inf, exact=False) for name, each in self.rest.items()}
        return replace(self, table=table, rest=rest, exact=False)

    def only_estimate(self) -> Estimate:
        """Return the only aggregate of a query without groups."""
        rows, (name,) = python_rows(self.table), self.aggregates
        row = rows[0] if rows else dict.fromkeys(self.table.column_names)
        return replace(self.estimate(row, name), query=self.query, notes=self.notes)

    def estimate(self, row: Mapping[str, Any], name: str) -> Estimate:
        """Return an aggregate of one row of the table."""
        value, low, high = row[name], row[f"{name}_low"], row[f"{name}_high"]
        is_null = value is None and low is None and self._is_number(f"{name}_low")
        return Estimate(
            f"{self.query}.{name}",
            value,
            None if value is None else low,
            None if value is None else high,
            self.confidence,
            self.method,
            bool(row[EXACT]),
            freshness=self.freshness,
            is_null=is_null,
        )

    def _is_number(self, name: str) -> bool:
        """Return whether the ends in a column may be infinite."""
        kind = self.table.schema.field(name).type
        return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))

    def _lines(self) -> list[list[str]]:
        """Return the rows as strings, only the first ones if there are many."""
        lines = []
        for row in python_rows(self.table.slice(0, _SHOWN)):
            cells = [show_key(row[name]) for name in self.group_columns]
            cells += [self._cell(row, name) for name in self.aggregates]
            lines.append([*cells, row[SELECTED]] if self._is_selective else cells)
        return lines

    @property
    def _is_selective(self) -> bool:
        """Whether HAVING or LIMIT chooses among the groups, so that the table shows how surely."""
        return SELECTED in self.table.column_names

    def _head(self) -> list[str]:
        return [*self.group_columns, *self.aggregates, *([SELECTED] if self._is_selective else [])]

    def _cell(self, row: Mapping[str, Any], name: str) -> str:
        value, low, high = self.estimate(row, name).shown
        return value if row[EXACT] or row[name] is None else f"{value} [{low} .. {high}]"

    def _rest_line(self) -> list[str]:
        if self.exact:
            return []
        cells = ["(groups not seen)", *("" for _ in self.group_columns[1:])]
        cells += [str(self.rest[name]).split(" at ")[0] for name in self.aggregates]
        return [*cells, ""] if self._is_selective else cells

    def __str__(self) -> str:
        head = self._head()
        lines = [
            head,
            *self._lines(),
            *([self._rest_line()] if self._rest_line() and self.group_columns else []),
        ]
        widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
        texts = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        ]
        if len(self) > _SHOWN:
            texts.append(f"... {len(self) - _SHOWN:,} more groups")
        return "\n".join([*texts, f"({self._certainty()})"])

    def _certainty(self) -> str:
        """Return how many groups there are, and how sure their numbers are."""
        certainty = "exact" if self.exact else f"{show_share(self.confidence)} intervals, {self.method}"
        return f"1 group, {certainty}" if len(self) == 1 else f"{len(self):,} groups, {certainty}"

    def __repr__(self) -> str:
        notes = "".join(f"\n  note: {note}" for note in self.notes)
        fresh = f"\n  as of {self.freshness}" if self.freshness else ""
        return f"Groups({self.query}:\n{self}){notes}{fresh}"

    def _repr_html_(self) -> str:
        head = self._head()
        rows: list[list[str]] = self._lines()
        for place, name in enumerate(self.aggregates, len(self.group_columns)):
            for row, drawing in zip(rows, self._drawings(name, [row[place] for row in rows]), strict=True):
                row[place] = Markup(f"{drawing} {escaped(row[place])}")
        rest = [self._rest_line()] if self._rest_line() and self.group_columns else []
        texts = self._certainty() + (f"; the first {_SHOWN} are shown" if len(self) > _SHOWN else "")
        fresh = muted(f"as of {self.freshness}") if self.freshness else ""
        return block(bold(self.query), table(head, [*rows, *rest]), muted(texts), listed(self.notes), fresh)

    def _drawings(self, name: str, texts: list[str]) -> list[Markup]:
        """Return drawings of an aggregate of the shown groups on one axis."""
        shown = self.table.slice(0, _SHOWN).select([name, f"{name}_low", f"{name}_high"])
        answers = list(zip(*map(python_values, shown.columns), strict=True))
        return draw_column(answers, [f"{name}: {text}" for text in texts])
