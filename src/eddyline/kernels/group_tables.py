"""Groups of a join by tables: where most values of a link stand in most groups, a cell for every place and group."""

import numpy as np

from eddyline.kernels.jit import kernel, row_helper


@row_helper
def _gather(
    first: int,
    end: int,
    weights: np.ndarray,
    bases: np.ndarray,
    places: np.ndarray,
    starts: np.ndarray,
    codes: np.ndarray,
    full: np.ndarray,
    sums: np.ndarray,
    row: np.ndarray,
) -> None:
    """Add the products of some elements and the entries that reach them to a row (quantities, codes)."""
    last = len(starts) - 1
    for element in range(first, end):
        place, base = places[element], bases[element]
        if place >= last:
            continue
        for quantity in range(weights.shape[1]):
            weight = weights[element, quantity]
            reached = sums[quantity, starts[place] : starts[place + 1]]
            cells = row[quantity, base:]
            if full[place]:
                for at in range(len(reached)):
                    cells[at] += weight * reached[at]
            else:
                for at in range(len(reached)):
                    cells[codes[starts[place] + at]] += weight * reached[at]


@kernel("table")
def add_to_table(
    row_starts: np.ndarray,
    weights: np.ndarray,
    bases: np.ndarray,
    places: np.ndarray,
    starts: np.ndarray,
    codes: np.ndarray,
    full: np.ndarray,
    sums: np.ndarray,
    table: np.ndarray,
) -> None:
    """Add the products of elements and the entries that reach them to a table (targets, quantities, codes).

    The elements of target t are those from row_starts[t] to row_starts[t + 1]; bases: the code of each with an entry of
    code 0; places: where it is reached, by the entries from starts[p] to starts[p + 1] with these codes. Where a place
    is full its codes are 0, 1, 2 and so on. weights (elements, quantities), sums (quantities, entries).
    """
    for target in range(len(row_starts) - 1):
        first, end = row_starts[target], row_starts[target + 1]
        _gather(first, end, weights, bases, places, starts, codes, full, sums, table[target])


@row_helper
def _clear(row: np.ndarray) -> None:
    """Write zeros."""
    for at in range(len(row)):
        row[at] = 0.0


@row_helper
def _mark(row: np.ndarray, here: np.ndarray) -> None:
    """Note where a row is not 0."""
    for at in range(len(here)):
        here[at] = 1.0 if row[at] != 0.0 else here[at]


@row_helper
def _add(row: np.ndarray, total: np.ndarray) -> None:
    """Add a row to another."""
    for at in range(len(total)):
        total[at] += row[at]


@row_helper
def _scale(scale: float, row: np.ndarray, values: np.ndarray) -> None:
    """Write a row times a scale as values."""
    for at in range(len(values)):
        values[at] = scale * row[at]


@row_helper
def _add_product(scale: float, row: np.ndarray, factors: np.ndarray, values: np.ndarray) -> None:
    """Add a row times factors, and a scale, to values."""
    for at in range(len(values)):
        values[at] += scale * row[at] * factors[at]


@row_helper
def _take_off(scale: float, row: np.ndarray, shares: np.ndarray, least: float, values: np.ndarray) -> None:
    """Divide values by what is left of 1 without a share of a row, which is at least so much."""
    for at in range(len(values)):
        rest = 1.0 - abs(row[at]) * scale * shares[at]
        values[at] /= max(least, rest)


@row_helper
def _add_squares(values: np.ndarray, chance: float, variance: np.ndarray, squares: np.ndarray) -> None:
    """Add the parts of the variance, and their squares."""
    for at in range(len(values)):
        part = values[at] * values[at] * chance
        variance[at] += part
        squares[at] += part * part


@row_helper
def _add_third(values: np.ndarray, chance: float, third: np.ndarray, alone: np.ndarray) -> None:
    """Add the parts of the third moment, and what values add by themselves."""
    for at in range(len(values)):
        third[at] += values[at] * values[at] * values[at] * (chance * chance)
        alone[at] += abs(values[at]) * (1.0 - chance)


@row_helper
def _keep_largest(values: np.ndarray, chance: float, largest: np.ndarray) -> None:
    """Keep the largest part of the variance."""
    for at in range(len(values)):
        part = values[at] * values[at] * chance
        largest[at] = max(largest[at], part)


@kernel("row", "values", "here", "moments", "seen")
def add_table_moments(  # noqa: C901, PLR0912 - sums over what meets, in one loop
    row_starts: np.ndarray,
    weights: np.ndarray,
    bases: np.ndarray,
    reached_at: np.ndarray,
    reached_starts: np.ndarray,
    reached_codes: np.ndarray,
    full: np.ndarray,
    reached_sums: np.ndarray,
    starts: np.ndarray,
    codes: np.ndarray,
    sums: np.ndarray,
    scales: np.ndarray,
    chances: np.ndarray,
    columns: np.ndarray,
    plain: np.ndarray,
    factors: np.ndarray,
    counted: np.ndarray,
    shares: np.ndarray,
    least_rest: float,
    row: np.ndarray,
    values: np.ndarray,
    here: np.ndarray,
    moments: np.ndarray,
    seen: np.ndarray,
) -> None:
    """Add up what each value of a link adds to each cell, and the powers of that, for several sums at once.

    One side of the link is a table, made row by row as `add_to_table` makes it from the same first eight arrays. At
    place p the entries from starts[p] to starts[p + 1] of the other side meet the row: entry and column c make the cell
    (the entry's code, c). A sum has the quantities `columns` (-1: no more) times `factors` for the cell, the first of a
    plain one as it is, and all of them times the place's scale. chances: that a value is not included. counted: a sum's
    quantity of which a value's own share of the cell's total (shares: one over it) is taken off, down to `least_rest`;
    -1 for none. moments (sums, 5, codes, columns): variance, sum of squared parts, third moment, largest part, what
    sampled values add by themselves. seen (1 + sums, 2, codes, columns): how many certain values and sampled ones have
    any quantity, then of each sum with a count how many have rows that count. row, values, here: room.
    """
    for place in range(min(len(row_starts), len(starts)) - 1):
        first, end = row_starts[place], row_starts[place + 1]
        if starts[place] == starts[place + 1] or first == end:
            continue
        for quantity in range(len(row)):
            _clear(row[quantity])
        _gather(
            first, end, weights, bases, reached_at, reached_starts, reached_codes, full, reached_sums, row
        )
        chance, scale = chances[place], scales[place]
        for entry in range(starts[place], starts[place + 1]):
            code = codes[entry]
            _clear(here)
            for quantity in range(len(row)):
                if sums[entry, quantity] != 0.0:
                    _mark(row[quantity], here)
            _add(here, seen[0, 1 if chance > 0.0 else 0, code])
            for number in range(len(columns)):
                if counted[number] >= 0:
                    _clear(here)
                    if sums[entry, counted[number]] != 0.0:
                        _mark(row[counted[number]], here)
                    _add(here, seen[1 + number, 1 if chance > 0.0 else 0, code])
                if chance <= 0.0:
                    continue
                _clear(values)
                for part in range(columns.shape[1]):
                    column = columns[number, part]
                    if column >= 0:
                        scaled = scale * sums[entry, column]
                        if part == 0 and plain[number]:
                            _scale(scaled, row[column], values)
                        else:
                            _add_product(scaled, row[column], factors[number, part, code], values)
                column = counted[number]
                if column >= 0:
                    scaled = chance * scale * abs(sums[entry, column])
                    _take_off(scaled, row[column], shares[number, code], least_rest, values)
                _add_squares(values, chance, moments[number, 0, code], moments[number, 1, code])
                _add_third(values, chance, moments[number, 2, code], moments[number, 4, code])
                _keep_largest(values, chance, moments[number, 3, code])
