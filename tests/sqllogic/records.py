"""Files in the format of sqllogictest: SQL in, result out. README.md has the format as it is used here."""

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
SORTS = ("nosort", "rowsort")
_RESULT = "----"


@dataclass(frozen=True)
class Record:
    """A statement or a query: `lines` are the record without its result, `first` is the line where it begins."""

    kind: str
    first: int
    lines: tuple[str, ...]
    sql: str
    types: str = ""
    sort: str = "nosort"
    expected: tuple[str, ...] = ()
    skipped: frozenset[str] = frozenset()
    only: str = ""

    def runs_on(self, system):
        return system not in self.skipped and self.only in {"", system}


def read(path):
    """The records of a file."""
    return parse(path.read_text(encoding="utf-8"), path.name)


def parse(text, name="text"):
    """The records of a text; blank lines divide them, and `#` begins a comment."""
    blocks, block = [], []
    for number, line in enumerate([*text.split("\n"), ""], 1):
        if line.strip():
            block.append((number, line))
        elif block:
            blocks.append(block)
            block = []
    records = (_record(block, name) for block in blocks)
    return [record for record in records if record is not None]


def _record(block, name):
    skipped, only = set(), ""
    lines = [(number, line) for number, line in block if not line.startswith("#")]
    while lines and lines[0][1].split()[0] in {"skipif", "onlyif"}:
        condition, system = lines.pop(0)[1].split()
        if condition == "skipif":
            skipped.add(system)
        else:
            only = system
    if not lines:
        return None
    first, head = lines[0]
    words = head.split()
    texts = [line for _, line in lines[1:]]
    where = f"{name}:{first}"
    given = tuple(line for _, line in block)
    if words[0] == "statement" and words[1:] in (["ok"], ["error"]):
        return Record(" ".join(words), first, given, "\n".join(texts), skipped=frozenset(skipped), only=only)
    if words[0] != "query" or len(words) not in (2, 3) or not set(words[1]) <= set("IRT"):
        raise ValueError(f"{where}: {head!r} is not `statement ok|error` or `query TYPES [nosort|rowsort]`.")
    sort = words[2] if len(words) == 3 else "nosort"
    if sort not in SORTS:
        raise ValueError(f"{where}: {sort!r} is not one of {', '.join(SORTS)}.")
    if _RESULT not in texts:
        raise ValueError(f"{where}: the query has no result: end it with a line {_RESULT}.")
    end = texts.index(_RESULT)
    before = given[: given.index(_RESULT) + 1]
    sql, expected = "\n".join(texts[:end]), tuple(texts[end + 1 :])
    return Record("query", first, before, sql, words[1], sort, expected, frozenset(skipped), only)


def formatted(value, kind):
    """A value as a result has it."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if kind == "I":
        whole = int(value)
        return str(whole) if whole == value else repr(value)
    if kind == "R":
        return f"{value:.15g}"
    if isinstance(value, bytes):
        return "0x" + value.hex()
    text = str(value.replace(tzinfo=None) if getattr(value, "tzinfo", None) else value)
    return text or "(empty)"


def result_of(rows, types, sort):
    """The lines of a result: a row each, values divided by tabs."""
    lines = []
    for row in rows:
        if len(row) != len(types):
            raise ValueError(f"a row has {len(row)} values, and the record has {len(types)} types.")
        lines.append("\t".join(map(formatted, row, types)))
    return tuple(sorted(lines)) if sort == "rowsort" else tuple(lines)


def same(found, expected, types, sort):
    """Whether two results are equal: numbers of type R to 12 digits."""
    if len(found) != len(expected):
        return False
    if found == expected:
        return True
    numbers = [place for place, kind in enumerate(types) if kind == "R"]

    def key(line):
        values = line.split("\t")
        others = tuple(value for place, value in enumerate(values) if place not in numbers)
        return others, tuple(_number(values[place]) for place in numbers)

    pairs = [list(map(key, lines)) for lines in (found, expected)]
    if sort == "rowsort":
        for lines in pairs:
            lines.sort(key=str)
    return all(
        a == b and all(_close(x, y) for x, y in zip(p, q, strict=True))
        for (a, p), (b, q) in zip(*pairs, strict=True)
    )


def _number(text):
    return text if text in {"NULL", "true", "false"} else float(text)


def _close(found, expected):
    if isinstance(found, str) or isinstance(expected, str) or found != found or expected != expected:  # noqa: PLR0124
        return str(found) == str(expected)
    return abs(found - expected) <= 1e-12 * max(1.0, abs(expected))
