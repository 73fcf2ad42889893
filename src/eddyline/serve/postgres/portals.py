"""What a connection holds: prepared statements, portals and cursors, within limits."""

import re
from dataclasses import dataclass, field

from eddyline.serve.postgres.engine import QueryResult
from eddyline.serve.postgres.parameters import Parameter
from eddyline.serve.postgres.refusals import Refusal, not_supported
from eddyline.serve.postgres.statements import Statement, identifier
from eddyline.serve.postgres.values import WireColumn

_MOST_STATEMENTS, _MOST_PORTALS = 1_000, 100
"""Prepared statements and open portals of a connection: chosen, far above what pools and drivers hold."""
_MOST_HELD = 4 << 20
"""Bytes of SQL and parameters that a connection may hold."""
_FETCH = re.compile(
    r"(?P<what>FETCH|MOVE)\s+(?:(?P<how>NEXT|FORWARD)\s+)?(?P<count>\d+|ALL)?\s*(?:(?:FROM|IN)\s+)?(?P<name>\"[^\"]+\"|\w+)$",
    re.IGNORECASE,
)


@dataclass
class PreparedStatement:
    """A prepared statement: the types of its parameters, and its columns once they were described."""

    statement: Statement
    oids: list[int]
    columns: tuple[WireColumn, ...] | None = None

    @property
    def size(self) -> int:
        """Its bytes, which count toward the limit of a connection."""
        return len(self.statement.text) + 200


@dataclass
class Portal:
    """A statement with its parameters, its result once it was run, and how many of its rows were sent."""

    prepared: PreparedStatement
    given: list[Parameter] = field(default_factory=list)
    formats: list[int] = field(default_factory=list)
    result: QueryResult | None = None
    columns: tuple[WireColumn, ...] = ()
    sent: int = 0
    has_noticed: bool = False
    size: int = 0

    def format_of(self, place: int) -> int:
        """Return the format of a column: 0 for text, 1 for binary."""
        if len(self.formats) <= 1:
            return self.formats[0] if self.formats else 0
        return self.formats[place]


class Portals:
    """The prepared statements and the portals of a connection, by name; a cursor is a portal."""

    def __init__(self) -> None:
        self._statements: dict[str, PreparedStatement] = {}
        self._portals: dict[str, Portal] = {}

    @property
    def result_bytes(self) -> int:
        """The bytes of the results that portals hold."""
        return sum(each.result.table.nbytes for each in self._portals.values() if each.result is not None)

    def _held_bytes(self) -> int:
        statements = sum(each.size for each in self._statements.values())
        return statements + sum(each.size for each in self._portals.values())

    def statement(self, name: str) -> PreparedStatement:
        """Return a prepared statement."""
        found = self._statements.get(name)
        if found is None:
            raise Refusal("26000", f'prepared statement "{name}" does not exist')
        return found

    def portal(self, name: str) -> Portal:
        """Return an open portal."""
        found = self._portals.get(name)
        if found is None:
            raise Refusal("34000", f'portal "{name}" does not exist')
        return found

    def check_statement_name(self, name: str) -> None:
        """Raise Refusal if a named statement of that name exists."""
        if name and name in self._statements:
            raise Refusal("42P05", f'prepared statement "{name}" already exists')

    def prepare(self, name: str, statement: Statement, oids: list[int]) -> None:
        """Keep a prepared statement; one without a name replaces the last one without a name."""
        self._statements.pop(name, None)
        made = PreparedStatement(statement, oids)
        if len(self._statements) >= _MOST_STATEMENTS or self._held_bytes() + made.size > _MOST_HELD:
            raise Refusal(
                "53400", "this connection holds too many prepared statements", hint="DEALLOCATE some."
            )
        self._statements[name] = made

    def make_room(self, name: str, size: int, *, is_cursor: bool = False) -> None:
        """Raise Refusal if a portal of that name exists or there are too many; one without a name is closed."""
        if (name or is_cursor) and name in self._portals:
            raise Refusal("42P03", f'cursor "{name}" already exists')
        self._portals.pop(name, None)
        if len(self._portals) >= _MOST_PORTALS or self._held_bytes() + size > _MOST_HELD:
            raise Refusal("53400", "this connection holds too many portals", hint="Close some.")

    def open(self, name: str, portal: Portal) -> None:
        """Keep a portal."""
        self._portals[name] = portal

    def close(self, kind: bytes, name: str) -> None:
        """Close a statement (S) or a portal, if it exists."""
        if kind == b"S":
            self._statements.pop(name, None)
        else:
            self._portals.pop(name, None)

    def close_portals(self) -> None:
        """Close all portals, as the end of a transaction does."""
        self._portals.clear()

    def discard(self) -> None:
        """Close everything."""
        self._statements.clear()
        self._portals.clear()

    def deallocate(self, text: str) -> str:
        """Run DEALLOCATE, and return its tag."""
        name = text.rsplit(maxsplit=1)[-1]
        if name.upper() == "ALL":
            self._statements.clear()
            return "DEALLOCATE ALL"
        if self._statements.pop(identifier(name), None) is None:
            raise Refusal("26000", f'prepared statement "{identifier(name)}" does not exist')
        return "DEALLOCATE"

    def close_cursor(self, text: str) -> None:
        """Run CLOSE."""
        name = text.rsplit(maxsplit=1)[-1]
        if name.upper() == "ALL":
            self._portals.clear()
        elif self._portals.pop(identifier(name), None) is None:
            raise Refusal("34000", f'cursor "{identifier(name)}" does not exist')

    def cursor(self, statement: Statement) -> Portal:
        """Return the cursor that FETCH or MOVE reads: a portal of a query, which may not have been run yet."""
        name = identifier(_parsed(statement)["name"])
        cursor = self.portal(name)
        if cursor.result is None and cursor.prepared.statement.kind not in ("query", "show", "explain"):
            raise Refusal("55000", f'portal "{name}" is not of a query: FETCH cannot read it')
        return cursor

    def fetched(self, statement: Statement) -> QueryResult:
        """Return the rows that FETCH or MOVE reads from a cursor, which was run."""
        cursor, found = self.cursor(statement), _parsed(statement)
        assert cursor.result is not None
        forward = (found["how"] or "").upper() == "FORWARD"
        count = found["count"] or "1"
        left = len(cursor.result.table) - cursor.sent
        number = left if count.upper() == "ALL" else min(int(count), left)
        part = cursor.result.table.slice(cursor.sent, number if number or not forward else 0)
        cursor.sent += number
        noticed, cursor.has_noticed = cursor.has_noticed, True
        empty = found["what"].upper() == "MOVE"
        return QueryResult(part.slice(0, 0) if empty else part, () if noticed else cursor.result.notices)


def _parsed(statement: Statement) -> re.Match[str]:
    """Return the parts of FETCH or MOVE."""
    found = _FETCH.match(" ".join(statement.text.split()))
    if found is None:
        raise not_supported("only FETCH [FORWARD] n FROM cursor is supported")
    return found
