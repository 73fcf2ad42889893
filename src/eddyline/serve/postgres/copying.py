"""COPY ... TO STDOUT: rows as text, CSV or PostgreSQL's binary format."""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from eddyline.serve.postgres.messages import message
from eddyline.serve.postgres.refusals import Refusal, not_supported
from eddyline.serve.postgres.values import WireColumn, cells_of

_ROWS = 1_000
_SPECIAL = {
    b"\\": b"\\\\",
    b"\b": b"\\b",
    b"\f": b"\\f",
    b"\n": b"\\n",
    b"\r": b"\\r",
    b"\t": b"\\t",
    b"\v": b"\\v",
}


@dataclass(frozen=True)
class CopyOptions:
    """The format in which rows are written."""

    form: str = "text"
    header: bool = False
    delimiter: bytes = b"\t"
    null: bytes = b"\\N"
    quote: bytes = b'"'


def read_options(text: str) -> CopyOptions:
    """Return the options of COPY, in today's syntax or in that of versions before 9."""
    text = re.sub(r"^\s*WITH\b", "", text.strip(), flags=re.IGNORECASE).strip()
    given: dict[str, str] = {}
    if text.startswith("("):
        for part in _parts(text.strip("()")):
            name, _, value = part.strip().partition(" ")
            given[name.lower()] = _plain(value.strip())
    else:
        words = re.findall(r"E?'(?:[^']|'')*'|\w+", text)
        while words:
            word = words.pop(0).lower()
            if word in ("csv", "binary", "text"):
                given["format"] = word
            elif word == "header":
                given["header"] = "true"
            elif word in ("delimiter", "null", "quote", "escape", "encoding"):
                if words and words[0].lower() == "as":
                    words.pop(0)
                given[word] = _plain(words.pop(0)) if words else ""
            else:
                raise not_supported(f"the option {word.upper()} of COPY is not supported")
    return _checked(given)


def _parts(text: str) -> list[str]:
    return [part for part in re.findall(r"(?:[^,']|'(?:[^']|'')*')+", text) if part.strip()]


def _plain(value: str) -> str:
    if value[:2].upper() == "E'":
        return value[2:-1].replace("''", "'").encode().decode("unicode_escape")
    return value[1:-1].replace("''", "'") if value.startswith("'") else value


def _checked(given: dict[str, str]) -> CopyOptions:
    unknown = set(given) - {
        "format",
        "header",
        "delimiter",
        "null",
        "quote",
        "escape",
        "encoding",
        "force_quote",
    }
    if unknown:
        raise not_supported(f"the option {min(unknown).upper()} of COPY is not supported")
    form = given.get("format", "text").lower()
    if form not in ("text", "csv", "binary"):
        raise Refusal("22023", f'COPY format "{form}" not recognized')
    delimiter = given.get("delimiter", "," if form == "csv" else "\t").encode()
    quote = given.get("quote", '"').encode()
    if len(delimiter) != 1 or len(quote) != 1:
        raise not_supported("a delimiter or quotation mark of COPY has one byte")
    header = given.get("header", "false").lower() in ("", "true", "on", "1")
    return CopyOptions(
        form, header, delimiter, given.get("null", "" if form == "csv" else "\\N").encode(), quote
    )


def copied(table: pa.Table, columns: tuple[WireColumn, ...], options: CopyOptions) -> Iterator[bytes]:
    """Yield the messages that carry the rows, several rows in each."""
    # the header shares a message with the first rows, as PostgreSQL sends it and clients expect it
    before = b"PGCOPY\n\xff\r\n\0" + struct.pack("!ii", 0, 0) if options.form == "binary" else b""
    if options.form != "binary" and options.header:
        names = [column.name.encode() for column in columns]
        yield message(b"d", options.delimiter.join(_cell(name, options) for name in names) + b"\n")
    for start in range(0, len(table), _ROWS):
        part = table.slice(start, _ROWS)
        cells = [
            cells_of(part.column(i), column.oid, binary=options.form == "binary")
            for i, column in enumerate(columns)
        ]
        rows = zip(*cells, strict=True) if cells else [()] * len(part)
        written = [_row(row, options) for row in rows]
        written[0], before = before + written[0], b""
        yield b"".join(message(b"d", row) for row in written)
    if options.form == "binary":
        yield message(b"d", before + struct.pack("!h", -1))


def _row(row: tuple[bytes | None, ...], options: CopyOptions) -> bytes:
    if options.form == "binary":
        parts = [
            struct.pack("!i", -1) if cell is None else struct.pack("!i", len(cell)) + cell for cell in row
        ]
        return struct.pack("!h", len(row)) + b"".join(parts)
    return (
        options.delimiter.join(options.null if cell is None else _cell(cell, options) for cell in row) + b"\n"
    )


def _cell(cell: bytes, options: CopyOptions) -> bytes:
    if options.form == "csv":
        plain = cell != options.null and not any(
            each in cell for each in (options.delimiter, options.quote, b"\n", b"\r")
        )
        return (
            cell if plain else options.quote + cell.replace(options.quote, options.quote * 2) + options.quote
        )
    for special, written in _SPECIAL.items():
        if special in cell:
            cell = cell.replace(special, written)
    return cell.replace(options.delimiter, b"\\" + options.delimiter) if options.delimiter != b"\t" else cell
