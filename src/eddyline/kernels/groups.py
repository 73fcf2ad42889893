"""Groups of a join: products of what meets at an element or a value, added up by group without being kept."""

import numpy as np

from eddyline.kernels.jit import inlined, kernel


@kernel("starts", "order")
def order_by_place(places: np.ndarray, starts: np.ndarray, order: np.ndarray) -> None:
    """Write the order of entries by place, and where those of each place begin; starts: zero, one more than places."""
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
    """Count the different codes that elements and the entries that reach them make, target by target.

    The elements of target t are those from row_starts[t] to row_starts[t + 1]; bases: the code of each with an entry of
    code 0; places: where it is reached, by the entries from starts[p] to starts[p + 1] with these codes. marks: room
    for every code, zero.
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
    """Write the products of elements and the entries that reach them, those of one target and code added up.

    As `count_products`, which says how many there are; weights (elements, quantities), sums (entries, quantities).
    Those of a target stand together. marks, slots: room for every code; marks are zero.
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
    """Return where a number stands among ascending ones, -1 where it does not; places: of every number, if any."""
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

    At place p the entries from starts[p] to starts[p + 1] meet those of the other side. Two of them make the number of
    a group, which stands in `numbers` (places: where each number does, -1 for nowhere; empty where it is looked for).
    Its owner (-1: none) is added the quantities of some columns times their factors for the group and the place's
    scale. chances: that a value is not included. shares: one over the count (quantity `count`) of each owner, of which
    a value's own part is taken off, down to `least_rest`; 0 where the count is 0, empty to take nothing off. moments,
    by owner: variance, sum of squared parts, third moment, largest part, sampled values, values. typical: what sampled
    values add by themselves, and how many there are.
    added, counted, touched: room for all owners, zero.
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
                if counted[owner] == -1.0:  # none of its rows counts: it tells nothing of a ratio
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
    """Count the values that show each group; seen (groups, 2): sampled ones, all. The rest is as in `add_moments`."""
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
    """Return how many entries of wanted groups there are, having written all of them.

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
