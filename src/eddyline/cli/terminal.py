"""`sql`: PostgreSQL's SQL on a store in the terminal, one statement or a prompt, without a server."""

import csv
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from eddyline.answer.estimate import show
from eddyline.answer.freshness import plain
from eddyline.api.state import State
from eddyline.api.store_tables import Follower
from eddyline.cli.asking import Format
from eddyline.cli.console import app, err, out, reports_errors
from eddyline.cli.serving import StoreOrPipeline, store_of
from eddyline.errors import PipelineError, SqlError, StoreError
from eddyline.expressions.arrow_values import python_rows

if TYPE_CHECKING:
    from eddyline.serve.postgres.engine import QueryResult


_PROMPT, _MORE = "eddyline> ", "       -> "
_HELP = "SQL ends with a semicolon.  \\d  streams and planned queries   \\d NAME  its columns   \\q  end"
_RELATIONS = (
    "SELECT relname AS name, CASE relkind WHEN 'v' THEN 'planned query' ELSE 'stream' END AS kind FROM pg_class "
    "WHERE relnamespace = 2200 ORDER BY 2 DESC, 1"
)
_COLUMNS = (
    "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = 'public' "
    "AND lower(table_name) = lower('{}') ORDER BY ordinal_position"
)


@app.command()
@reports_errors
def sql(
    store: StoreOrPipeline,
    text: Annotated[str | None, typer.Argument(help="SQL to answer; without it, a prompt.")] = None,
    form: Annotated[
        Format, typer.Option("--format", help="A table for people; JSON or CSV with all digits for programs.")
    ] = Format.table,
) -> None:
    """Ask a store in PostgreSQL's SQL: streams are tables, planned queries are views. Without SQL, a prompt."""
    asking = _Terminal(store_of(store), form)
    if text is not None:
        asking.answer(text)
    elif sys.stdin.isatty():
        asking.prompt()
    else:
        asking.answer(sys.stdin.read())


class _Terminal:
    """A client of the SQL engine that prints what it gets."""

    def __init__(self, store: str, form: Format) -> None:
        try:
            from eddyline.serve.postgres.engine import Client, Engine  # noqa: PLC0415 - an extra, only where it is used
        except ModuleNotFoundError as error:
            raise PipelineError(f'this command needs {error.name}: pip install "eddyline[serve]".') from error
        self._follower, self._form = Follower(store), form
        self._newest()
        self._client: Client = Client(Engine(self._newest), database=Path(store).name or "eddyline")

    def _newest(self) -> State:
        seen = self._follower.look()
        if seen.state is None:
            raise StoreError(seen.problem or "the store has no epoch yet.")
        return seen.state

    def answer(self, text: str) -> None:
        """Print the results of all statements of a SQL string, or raise SqlError if one is refused."""
        from eddyline.serve.postgres.refusals import Refusal  # noqa: PLC0415
        from eddyline.serve.postgres.statements import statements_of  # noqa: PLC0415

        try:
            for statement in statements_of(text):
                if statement.kind == "set":
                    self._client.settings.run_set(statement.text)
                elif statement.kind == "reset":
                    self._client.settings.run_reset(statement.text)
                elif statement.kind == "query":
                    self._print(self._client.run(statement.tree()))
                elif statement.kind == "explain":
                    self._print(self._client.explained(statement.tree()))
                else:
                    raise SqlError(
                        f"{statement.words[0]} is not supported in this terminal: write a SELECT, or SET."
                    )
        except Refusal as refusal:
            parts = (refusal.message, refusal.detail, refusal.hint)
            raise SqlError(". ".join(part.rstrip(".") for part in parts if part) + ".") from refusal

    def prompt(self) -> None:
        """Read statements until the end, and answer each."""
        import readline  # noqa: F401, PLC0415 - lines can be edited and recalled

        out.print(_HELP, markup=False, highlight=False)
        for text in self._statements():
            try:
                self.answer(text)
            except SqlError as error:
                err.print(str(error), style="red", markup=False, highlight=False)

    def _statements(self) -> Iterator[str]:
        written = ""
        while True:
            try:
                line = input(_MORE if written else _PROMPT)
            except EOFError:
                return
            except KeyboardInterrupt:
                written = ""
                continue
            if not written and line.strip().startswith("\\"):
                command, _, name = line.strip().partition(" ")
                if command == "\\q":
                    return
                if command == "\\d":
                    yield _COLUMNS.format(name.strip().replace("'", "''")) if name.strip() else _RELATIONS
                else:
                    out.print(_HELP, markup=False, highlight=False)
                continue
            written = f"{written}\n{line}" if written else line
            if written.rstrip().endswith(";"):
                yield written
                written = ""

    def _print(self, result: "QueryResult") -> None:
        names, rows = result.table.column_names, python_rows(result.table)
        if self._form is Format.json:
            shown = {
                "rows": [{n: plain(row[n]) for n in names} for row in rows],
                "notes": list(result.notices),
            }
            out.file.write(json.dumps(shown, indent=2, ensure_ascii=False) + "\n")
            return
        if self._form is Format.csv:
            written = io.StringIO()
            writer = csv.writer(written, lineterminator="\n")
            writer.writerow(names)
            writer.writerows([["" if row[n] is None else plain(row[n]) for n in names] for row in rows])
            out.file.write(written.getvalue())
        else:
            out.print(_table(names, rows))
        for notice in result.notices:
            err.print(f"note: {notice}", style="yellow", markup=False, highlight=False, soft_wrap=True)


def _table(names: list[str], rows: list[dict[str, Any]]) -> Table:
    """Return rows as the terminal shows them, numbers to the right."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in names:
        is_number = any(
            isinstance(row[name], int | float) and not isinstance(row[name], bool) for row in rows
        )
        table.add_column(Text(name), justify="right" if is_number else "left")
    for row in rows:
        table.add_row(*(Text("" if row[name] is None else _shown(row[name])) for name in names))
    return table


def _shown(value: object) -> str:
    return ", ".join(map(_shown, value)) if isinstance(value, list) else show(value)  # type: ignore[arg-type]
