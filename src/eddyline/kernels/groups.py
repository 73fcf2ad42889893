"""Groups of a join: products of what meets at a value, added up by group, by entries or by tables."""

import numpy as np

from eddyline.kernels.jit import inlined, kernel, row_helper

# Sums by group of products at an element or a value, without storing the products.


@kernel("starts", "order")
def order_by_place(places: np.ndarray, starts: np.ndarray, order: np.ndarray) -> None:
    """Write the order of entries by place, and where those of each place begin; starts: zero, places + 1 long."""
    for entry in range(len(places)):
        starts[places[entry] + 1] += 1
    for place in range(1, len(starts)):
        starts[place] += starts[place - 1]
    for entry in range(len(places)):
        place = places[entry]
        order[starts[place]] = entry
        starts[place] += 1
    for place in range(len(starts) - 1, 0, -1):
        starts[place] = starts[place - 1]
    starts[0] = 0


@kernel("counts", "marks")
def count_products(
    row_starts: np.ndarray,
    bases: np.ndarray,
    places: np.ndarray,
    starts: np.ndarray,
    codes: np.ndarray,
    counts: np.ndarray,
    marks: np.ndarray,
) -> None:
    """Count the distinct codes formed by elements and the entries that reach them, target by target.

    The elements of target t are those from row_starts[t] to row_starts[t + 1]; bases: the code of each with an
    entry of code 0; places: where it is reached, by the entries from starts[p] to starts[p + 1] with these codes.
    marks: space for every code, zero.
    """
    last = len(starts) - 1
    for target in range(len(counts)):
        for row in range(row_starts[target], row_starts[target + 1]):
            place = places[row]
            if place < last:
                for entry in range(starts[place], starts[place + 1]):
                    code = bases[row] + codes[entry]
                    if marks[code] != target + 1:
                        marks[code] = target + 1
                        counts[target] += 1


@kernel("marks", "slots", "made_codes", "made")
def add_products(
    row_starts: np.ndarray,
    weights: np.ndarray,
    bases: np.ndarray,
    places: np.ndarray,
    starts: np.ndarray,
    codes: np.ndarray,
    sums: np.ndarray,
    marks: np.ndarray,
    slots: np.ndarray,
    made_codes: np.ndarray,
    made: np.ndarray,
) -> None:
    """Write the products of elements and the entries that reach them, added up by target and code.

    Arguments are as in `count_products`, which returns their number; weights (elements, quantities), sums (entries,
    quantities). Products of a target are contiguous. marks, slots: space for every code; marks are zero.
    """
    last, width, out = len(starts) - 1, weights.shape[1], 0
    for target in range(len(row_starts) - 1):
        for row in range(row_starts[target], row_starts[target + 1]):
            place = places[row]
            if place >= last:
                continue
            for entry in range(starts[place], starts[place + 1]):
                code = bases[row] + codes[entry]
                if marks[code] != target + 1:
                    marks[code] = target + 1
                    slots[code] = out
                    made_codes[out] = code
                    out += 1
                slot = slots[code]
                for quantity in range(width):
                    made[slot, quantity] += weights[row, quantity] * sums[entry, quantity]


@inlined
def _place_of(number: int, numbers: np.ndarray, places: np.ndarray) -> int:
    """Return the place of a number among ascending ones, -1 if it is missing; places: of every number, if any."""
    if len(places) > 0:
        return int(places[number])
    low, high = 0, len(numbers)
    while low < high:
        middle = (low + high) // 2
        if numbers[middle] < number:
            low = middle + 1
        else:
            high = middle
    return low if low < len(numbers) and numbers[low] == number else -1


@kernel("added", "counted", "touched", "moments", "typical")
def add_moments(  # noqa: C901 - sums over what meets, in one loop
    starts: np.ndarray,
    groups: np.ndarray,
    sums: np.ndarray,
    other_starts: np.ndarray,
    other_groups: np.ndarray,
    other_sums: np.ndarray,
    scales: np.ndarray,
    chances: np.ndarray,
    numbers: np.ndarray,
    places: np.ndarray,
    owners: np.ndarray,
    columns: np.ndarray,
    factors: np.ndarray,
    shares: np.ndarray,
    count: int,
    least_rest: float,
    added: np.ndarray,
    counted: np.ndarray,
    touched: np.ndarray,
    moments: np.ndarray,
    typical: np.ndarray,
) -> None:
    """Add up what each value of a link adds to each owner of groups, and the powers of that.

    At place p the entries from starts[p] to starts[p + 1] meet those of the other side. Two of them give the number
    of a group, which is in `numbers` (places: where each number is, -1 for nowhere; empty if it has to be
    searched). The quantities of some columns, times their factors for the group and the place's scale, are added to
    the group's owner (-1: no owner). chances: that a value is not included. shares: one over the count (quantity
    `count`) of each owner, from which a value's own part is subtracted, down to `least_rest`; 0 if the count is 0,
    empty to subtract nothing. moments, by owner: variance, sum of squared parts, third moment, largest part,
    sampled values, values. typical: what sampled values add by themselves, and how many there are. added, counted,
    touched: space for all owners, zero.
    """
    for place in range(min(len(starts), len(other_starts)) - 1):
        chance, scale, reached = chances[place], scales[place], 0
        for entry in range(starts[place], starts[place + 1]):
            for other in range(other_starts[place], other_starts[place + 1]):
                group = _place_of(groups[entry] + other_groups[other], numbers, places)
                owner = owners[group] if group >= 0 else -1
                if owner < 0:
                    continue
                value = 0.0
                for at in range(len(columns)):
                    column = columns[at]
                    value += sums[entry, column] * other_sums[other, column] * factors[at, group]
                value *= scale
                if counted[owner] < 0.0:
                    added[owner] += value
                else:
                    touched[reached] = owner
                    reached += 1
                    added[owner] = value
                    counted[owner] = -1.0
                if len(shares) > 0:
                    counted[owner] -= abs(sums[entry, count] * other_sums[other, count]) * scale
        for at in range(reached):
            owner = touched[at]
            value = added[owner]
            if len(shares) > 0:
                if counted[owner] == -1.0:  # none of its rows count: it does not affect a ratio
                    counted[owner] = 0.0
                    continue
                value /= max(1.0 + (counted[owner] + 1.0) * chance * shares[owner], least_rest)
            part = value * value * chance
            moments[owner, 0] += part
            moments[owner, 1] += part * part
            moments[owner, 2] += part * value * chance
            moments[owner, 3] = max(moments[owner, 3], part)
            moments[owner, 5] += 1.0
            if chance > 0.0:
                moments[owner, 4] += 1.0
                typical[0] += abs(value) * (1.0 - chance)
                typical[1] += 1.0
            counted[owner] = 0.0


@kernel("seen")
def count_values(
    starts: np.ndarray,
    groups: np.ndarray,
    other_starts: np.ndarray,
    other_groups: np.ndarray,
    chances: np.ndarray,
    numbers: np.ndarray,
    places: np.ndarray,
    seen: np.ndarray,
) -> None:
    """Count the values that have each group; seen (groups, 2): sampled ones, all. Others: see `add_moments`."""
    for place in range(min(len(starts), len(other_starts)) - 1):
        for entry in range(starts[place], starts[place + 1]):
            for other in range(other_starts[place], other_starts[place + 1]):
                group = _place_of(groups[entry] + other_groups[other], numbers, places)
                if group >= 0:
                    seen[group, 0] += chances[place] > 0.0
                    seen[group, 1] += 1.0


@kernel("values", "found", "met")
def find_entries(
    starts: np.ndarray,
    groups: np.ndarray,
    sums: np.ndarray,
    other_starts: np.ndarray,
    other_groups: np.ndarray,
    other_sums: np.ndarray,
    scales: np.ndarray,
    numbers: np.ndarray,
    places: np.ndarray,
    wanted: np.ndarray,
    values: np.ndarray,
    found: np.ndarray,
    met: np.ndarray,
) -> int:
    """Write all entries of wanted groups and return how many there are.

    values: what each adds, by quantity; found: the group; met: the value of the link.
    """
    number, last = 0, min(len(starts), len(other_starts)) - 1
    for place in range(last):
        for entry in range(starts[place], starts[place + 1]):
            for other in range(other_starts[place], other_starts[place + 1]):
                group = _place_of(groups[entry] + other_groups[other], numbers, places)
                if group < 0 or not wanted[group]:
                    continue
                for quantity in range(sums.shape[1]):
                    part = sums[entry, quantity] * other_sums[other, quantity]
                    values[number, quantity] = part * scales[place]
                found[number] = group
                met[number] = place
                number += 1
    return number


# Groups of a join by tables: if most values of a link occur in most groups, a cell for every place and group.


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

    The elements of target t are those from row_starts[t] to row_starts[t + 1]; bases: the code of each with an
    entry of code 0; places: where it is reached, by the entries from starts[p] to starts[p + 1] with these codes.
    If a place is full, its codes are 0, 1, 2 and so on. weights (elements, quantities), sums (quantities, entries).
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
    """Mark where a row is not 0."""
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
    """Divide values by 1 minus the share of a row, or by `least` if that is larger."""
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

    One side of the link is a table, computed row by row as in `add_to_table` from the same first eight arrays. At
    place p the entries from starts[p] to starts[p + 1] of the other side meet the row: an entry and column c give
    the cell (the entry's code, c). A sum has the quantities `columns` (-1: no more) times `factors` for the cell,
    the first of a plain sum without factors, and all of them times the place's scale. chances: that a value is not
    included. counted: a sum's quantity from which a value's own share of the cell's total (shares: one over it) is
    subtracted, down to `least_rest`; -1 for none. moments (sums, 5, codes, columns): variance, sum of squared
    parts, third moment, largest part, what sampled values add by themselves. seen (1 + sums, 2, codes, columns):
    how many certain values and sampled ones have any quantity, then for each sum with a count how many have rows
    that count. row, values, here: work space.
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
