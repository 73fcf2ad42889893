"""The HTML that answers show themselves with in a notebook. Every text is escaped here, whoever it comes from.

Nothing has a colour of its own: what matters less is paler, so that light and dark pages both show it.
"""

from collections.abc import Collection, Iterable, Sequence
from html import escape

_CELL = "padding:.15em .8em .15em 0;border:0;vertical-align:middle;background:none"


class Markup(str):
    """A text that is HTML already; any other text is escaped."""

    __slots__ = ()


def escaped(text: str) -> Markup:
    """Return a text as HTML shows it."""
    return text if isinstance(text, Markup) else Markup(escape(text))


def block(*parts: str) -> Markup:
    """Return parts below each other, those that are empty aside."""
    lines = "".join(f"<div>{escaped(part)}</div>" for part in parts if part)
    return Markup(f"<div style='overflow-wrap:break-word'>{lines}</div>")


def heading(text: str) -> Markup:
    """Return what is large and bold."""
    return Markup(f"<b style='font-size:1.4em'>{escaped(text)}</b>")


def bold(text: str) -> Markup:
    """Return a name."""
    return Markup(f"<b>{escaped(text)}</b>")


def muted(text: str) -> Markup:
    """Return what matters less, none of nothing."""
    return Markup(f"<span style='opacity:.75'>{escaped(text)}</span>") if text else Markup()


def code(text: str) -> Markup:
    """Return a text as it was typed."""
    return Markup(f"<code style='background:none;color:inherit'>{escaped(text)}</code>")


def listed(notes: Iterable[str]) -> Markup:
    """Return notes below each other, none of none."""
    return Markup("".join(f"<div style='opacity:.85'>note: {escaped(note)}</div>" for note in notes))


def folded(summary: str, text: str) -> Markup:
    """Return a long text that opens at a click."""
    return Markup(f"<details><summary>{escaped(summary)}</summary>{escaped(text)}</details>")


def preformatted(text: str) -> Markup:
    """Return lines as a terminal shows them."""
    return Markup(f"<pre style='background:none;color:inherit;overflow-x:auto'>{escaped(text)}</pre>")


def table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Collection[int] = ()) -> Markup:
    """Return a table whose first column names its rows. numbers: the columns that are aligned to the right.

    A row that is shorter than the head has its last cell reach to the end.
    """
    titles = "".join(_cell("th", text, "col", place in numbers) for place, text in enumerate(head))
    lines = "".join(f"<tr>{_row(row, len(head), numbers)}</tr>" for row in rows)
    style = "border-collapse:collapse;font-variant-numeric:tabular-nums;margin:.3em 0"
    return Markup(f"<table style='{style}'><thead><tr>{titles}</tr></thead><tbody>{lines}</tbody></table>")


def _row(row: Sequence[str], width: int, numbers: Collection[int]) -> str:
    first, *others = row
    cells = [_cell("th", first, "row", 0 in numbers)]
    for place, text in enumerate(others, 1):
        last = place == len(row) - 1
        cells.append(_cell("td", text, "", place in numbers, width - place if last else 1))
    return "".join(cells)


def _cell(tag: str, text: str, scope: str, right: bool, span: int = 1) -> str:
    align = "right" if right else "left"
    weight = ";font-weight:normal" if scope == "row" else ""
    told = f" scope='{scope}'" if scope else ""
    wide = f" colspan='{span}'" if span > 1 else ""
    return f"<{tag}{told}{wide} style='{_CELL};text-align:{align}{weight}'>{escaped(text)}</{tag}>"
