"""How often intervals hold the truth, by what a query computes, over what, and how the keys of its streams arrived."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from scipy.stats import beta

LEAST = 0.93
"""A cell is short if its coverage is certainly below this, where 95% is claimed."""
SURE = 0.95
_WIDTHS = (18, 14, 14, 6, 6, 6, 6, 9, 7, 7, 8, 13, 9, 10)


@dataclass
class Cell:
    """What was seen of one kind of query under one order of arrival: a verdict for each state."""

    verdicts: list = field(default_factory=list)
    refused: list = field(default_factory=list)
    parts: int = 0

    def total(self, name):
        return sum(getattr(verdict, name) for verdict in self.verdicts)

    @property
    def shares(self):
        """For each state with an interval the share of its intervals that hold."""
        held, both = Counter(), Counter()
        for verdict in self.verdicts:
            held[verdict.seed] += verdict.held
            both[verdict.seed] += verdict.held + verdict.missed
        return np.array([held[seed] / number for seed, number in both.items() if number])

    @property
    def coverage(self):
        """The mean share of intervals that hold: every state counts the same, however many groups it shows."""
        return float(self.shares.mean()) if len(self.shares) else float("nan")

    @property
    def bounds(self):
        """The Clopper-Pearson bounds of the coverage.

        Intervals of one state go wrong together, so that they are worth fewer independent ones: as many as explain how
        much the shares of states differ, at least one for each state.
        """
        shares = self.shares
        if not len(shares):
            return 0.0, 1.0
        p, answers = self.coverage, self.total("held") + self.total("missed")
        spread = shares.var(ddof=1) / len(shares) if len(shares) > 1 else 0
        n = min(max(p * (1 - p) / spread, len(shares)), answers) if spread else len(shares)
        held, tail = p * n, (1 - SURE) / 2
        low = beta.ppf(tail, held, n - held + 1) if held > 0 else 0.0
        high = beta.ppf(1 - tail, held + 1, n - held) if held < n - 1e-9 else 1.0
        return float(low), float(high)

    @property
    def is_short(self):
        return bool(self.bounds[1] < LEAST)

    @property
    def widths(self):
        """(the error that 95% of answers do not exceed, the median half-width), both relative to the truth."""
        errors = np.array([pair for verdict in self.verdicts for pair in verdict.errors])
        return (np.quantile(errors[:, 0], 0.95), np.median(errors[:, 1])) if len(errors) else (np.nan, np.nan)


def with_margins(cells):
    """The cells, and the same by function, by form and by order of arrival alone, and by two of them."""
    merged = defaultdict(Cell)
    for kind, cell in cells.items():
        if "recall" in kind[0]:
            continue
        for whole in product((False, True), repeat=len(kind)):
            total = merged[tuple("any" if each else name for each, name in zip(whole, kind, strict=True))]
            total.parts += 1
            total.verdicts += cell.verdicts
            total.refused += cell.refused
    return {kind: cell for kind, cell in merged.items() if kind in cells or cell.parts > 1}


def short(cells):
    """Names of the cells and margins whose intervals hold too rarely, the worst first."""
    every = with_margins(cells)
    return sorted(
        (kind for kind, cell in every.items() if cell.is_short), key=lambda kind: every[kind].bounds[1]
    )


def report(cells, least=30):
    """The coverage by function, form and order of arrival as text: short cells first, then all with `least` states."""
    head = (
        "function",
        "form",
        "arrival",
        "states",
        "exact",
        "held",
        "missed",
        "unbounded",
        "unknown",
        "refused",
        "coverage",
        "bounds",
        "p95 error",
        "half-width",
    )
    every, wrong = with_margins(cells), short(cells)
    large = sorted(kind for kind, cell in every.items() if len(cell.shares) >= least and kind not in wrong)
    recalls = sorted(kind for kind in cells if "recall" in kind[0])
    parts = {
        "Short cells": wrong,
        f"Other cells of {least} states and more": large,
        "Largest group shown (no claim)": recalls,
    }
    lines = []
    for title, kinds in parts.items():
        rows = [head, *(_line(kind, (every | cells)[kind]) for kind in kinds)]
        lines += [
            "",
            f"{title}: {len(kinds)}",
            *("  ".join(each.ljust(w) for each, w in zip(row, _WIDTHS, strict=True)) for row in rows),
        ]
    return "\n".join(lines)


def page(cells, command, cases, faults, least=10):
    """The coverage as a Markdown page: by function and arrival, by form and arrival, then all cells of `least` states."""
    every = with_margins(cells)
    wrong = short(cells)
    lines = [
        "# Coverage in random workloads",
        "",
        f"Made by `{command}`: {cases:,} random workloads, {faults} kinds of faults, {len(wrong)} short cells.",
        "",
        "Each entry is how often 95% intervals of sampled answers held the exact one, with the 95% Clopper-Pearson",
        "bound of that share. Intervals of one state fail together, so the bounds count states. A cell is *short* if its",
        f"upper bound is below {LEAST:.0%}. Answers that are exact, not known or unbounded are not counted.",
    ]
    if wrong:
        lines += [
            "",
            "## Short cells",
            "",
            '"any" is all of them together.',
            "",
            *_table_of_cells(every, wrong),
        ]
    for title, place in (("function", 0), ("form", 1)):
        lines += ["", f"## By {title} and arrival", "", *_cross_table(every, title, place, least)]
    full = sorted(k for k, cell in every.items() if "any" not in k and len(cell.shares) >= least)
    lines += ["", f"## Cells of {least} states and more", "", *_table_of_cells(every, full)]
    return "\n".join(lines) + "\n"


def _table_of_cells(every, kinds):
    """Some cells as lines of a Markdown table."""
    yield "| function | form | arrival | states | held | missed | coverage | bounds |"
    yield "|" + " --- |" * 8
    for kind in kinds:
        cell = every[kind]
        numbers = (
            f"{len(cell.shares)} | {cell.total('held')} | {cell.total('missed')} | {_share(cell, ' | ')}"
        )
        yield f"| {' | '.join(kind)} | {numbers} |"


def _cross_table(every, title, place, least):
    """The margin of one part of the kind by arrival, as lines of a Markdown table."""
    arrivals = sorted({kind[2] for kind in every} - {"any"})
    named = sorted({kind[place] for kind in every} - {"any"})
    yield f"| {title} | {' | '.join(arrivals)} | all |"
    yield "|" + " --- |" * (len(arrivals) + 2)
    for name in [*named, "any"]:
        row = []
        for arrival in [*arrivals, "any"]:
            kind = (name, "any", arrival) if place == 0 else ("any", name, arrival)
            cell = every.get(kind) or _only(every, kind, place)
            row.append(_share(cell, ", ") if cell is not None and len(cell.shares) >= least else "")
        if any(row):
            yield f"| {'all' if name == 'any' else name} | {' | '.join(row)} |"


def _only(every, kind, place):
    """The one cell that makes up a margin, which then has no entry of its own."""
    same = [k for k in every if k[place] == kind[place] and (kind[2] in ("any", k[2])) and "any" not in k]
    return every[same[0]] if len(same) == 1 else None


def _share(cell, between):
    low, high = cell.bounds
    mark = " (short)" if cell.is_short else ""
    return f"{cell.coverage:.1%}{between}{low:.0%} to {high:.0%}{mark}"


def _line(kind, cell):
    low, high = cell.bounds
    error, width = cell.widths
    counts = [str(cell.total(name)) for name in ("exact", "held", "missed", "unbounded", "unknown")]
    printed = [f"{cell.coverage:.1%}", f"{low:.1%}-{high:.1%}", f"{error:.3g}", f"{width:.3g}"]
    return [*kind, str(len(cell.shares)), *counts, str(len(cell.refused)), *printed]
