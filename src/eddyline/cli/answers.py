"""Answers on paper: as a table for people, as JSON and as CSV for programs."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping

from rich.table import Table
from rich.text import Text

from eddyline.answer.estimate import Estimate, Number, show
from eddyline.answer.groups.table import SELECTED, Groups
from eddyline.answer.plain import plain
from eddyline.cli.console import out

Answer = Estimate | Groups
_COLUMNS = (
    "query",
    "group",
    "aggregate",
    "value",
    "low",
    "high",
    "exact",
    "known",
    "selected",
    "confidence",
    "method",
    "notes",
)


def answer_table(estimates: Iterable[Estimate], exact: Mapping[str, float] | None = None) -> Table:
    """Return the table of estimates, beside the exact answers where they are known."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("query", "estimate", "low", "high", *(("exact", "error") if exact else ()), "method"):
        table.add_column(heading, justify="left" if heading in ("query", "method") else "right")
    for estimate in estimates:
        cells = [estimate.query, *estimate.shown]
        if exact:
            truth, value = exact[estimate.query], estimate.value
            error = abs((value if isinstance(value, Number) else 0) - truth) / (abs(truth) or 1)
            cells += [show(truth), f"{error:.2%}"]
        table.add_row(*map(Text, (*cells, estimate.method)))
    return table


def show_notes(answer: Answer) -> None:
    """Print what a careful reader should know of an answer, beside it: a table in a file has its notes, too."""
    for note in answer.notes:
        out.print(f"[yellow]{answer.query}[/yellow]: ", end="")
        out.print(note, markup=False, highlight=False)


def as_json(answers: Iterable[Answer], refused: Mapping[str, str]) -> str:
    """Return answers as a JSON list of objects with all digits; a question that was refused has the reason."""
    told: list[dict[str, object]] = [answer.to_dict() for answer in answers]
    told += [{"query": query, "refused": reason} for query, reason in refused.items()]
    return json.dumps(told, indent=2, ensure_ascii=False) + "\n"


def as_csv(answers: Iterable[Answer], refused: Mapping[str, str]) -> str:
    """Return answers as CSV with all digits: a line for each estimate, and for each aggregate of each group.

    A group is a JSON object of its columns. A question that was refused has the reason among its notes.
    """
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for answer in answers:
        writer.writerows(_lines(answer))
    for query, reason in refused.items():
        writer.writerow([query, *("" for _ in _COLUMNS[1:-2]), "refused", reason])
    return written.getvalue()


def _lines(answer: Answer) -> Iterator[list[object]]:
    about = [answer.confidence, answer.method, " ".join(answer.notes)]
    if isinstance(answer, Estimate):
        yield [answer.query, "", "", *_numbers(answer), "", *about]
        return
    for row in answer:
        group = json.dumps({name: plain(row[name]) for name in answer.group_columns}, ensure_ascii=False)
        for name in answer.aggregates:
            numbers = _numbers(answer.estimate(row, name))
            yield [answer.query, group, name, *numbers, row.get(SELECTED, ""), *about]


def _numbers(estimate: Estimate) -> list[object]:
    numbers = estimate.numbers()
    flags = [str(numbers[name]).lower() for name in ("exact", "known")]
    return [numbers["value"], numbers["low"], numbers["high"], *flags]
