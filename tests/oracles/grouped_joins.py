"""Groups of a stream sample's join, slowly: every combination of elements, one by one."""

from collections import defaultdict
from itertools import product

import numpy as np

LEAST_REST = 0.2


def joined_rows(grouped, *, scaled):
    """Yield (group, place at each link, amount of each quantity) of every joined row, 1/pi times where scaled."""
    join, links = grouped.join, len(grouped.sizes)
    relations = [join.whole_relations(quantity) for quantity in grouped.quantities]
    elements = [
        [
            (i, dict(zip(each.variables, (int(places[i]) for places in each.places), strict=True)))
            for i in range(len(each.weights))
        ]
        for each in relations[0]
    ]
    for chosen in product(*elements):
        at: dict[int, int] = {}
        if any(at.setdefault(v, u) != u for _, places in chosen for v, u in places.items()):
            continue
        group = sum(
            int(codes.of_rows[i]) * stride
            for (i, _), codes, stride in zip(chosen, grouped.codes, grouped.strides, strict=True)
        )
        amounts = []
        for quantity in relations:
            amount = 1
            for each, (i, _) in zip(quantity, chosen, strict=True):
                amount *= int(each.weights[i])
            amounts.append(amount)
        if scaled:
            rate = np.prod([join.probabilities[v][at[v]] for v in range(links)])
            amounts = [amount / rate for amount in amounts]
        yield group, tuple(at[v] for v in range(links)), amounts


def slow_groups(grouped):
    """{group: sums of each quantity} of everything that is held, as integers."""
    found = defaultdict(lambda: [0] * len(grouped.quantities))
    for group, _, amounts in joined_rows(grouped, scaled=False):
        found[group] = [one + other for one, other in zip(found[group], amounts, strict=True)]
    return {group: tuple(sums) for group, sums in found.items() if any(sums)}


def entries_of(grouped, link):
    """{(place of the link, group): what the value adds to the group, by quantity}."""
    found = defaultdict(lambda: np.zeros(len(grouped.quantities)))
    for group, places, amounts in joined_rows(grouped, scaled=True):
        found[places[link], group] += amounts
    return found


def slow_moments(grouped, groups, links, asked):
    """(variance, squares, third, largest, sampled values, values by owner; what a sampled value adds; who is lonely)."""
    number = {int(group): place for place, group in enumerate(groups)}
    owners = np.arange(len(groups)) if asked.owners is None else asked.owners
    size = len(groups) if asked.owners is None else asked.number
    moments, lonely, alone = np.zeros((size, 6)), np.zeros(size, dtype=bool), []
    for link in links:
        added, counted = defaultdict(float), defaultdict(float)
        for (place, group), amounts in entries_of(grouped, link).items():
            at = number.get(group)
            if at is None or owners[at] < 0 or not np.any(amounts):
                continue
            key = place, int(owners[at])
            added[key] += sum(amounts[column] * factor[at] for column, factor in asked.factors.items())
            if asked.count is not None:
                counted[key] += abs(amounts[asked.count[0]])
        before = moments[:, 4:].copy()
        for (place, owner), amount in added.items():
            if asked.count is not None and counted[place, owner] == 0:
                continue  # a value without rows that count shows nothing of a ratio
            chance = 1.0 - grouped.join.probabilities[link][place]
            total = asked.count[1][owner] if asked.count else 1.0
            rest = 1.0 - (counted[place, owner] * chance / total if total else 0.0)
            value = amount / max(rest, LEAST_REST)
            part = value**2 * chance
            moments[owner, :3] += part, part**2, part * value * chance
            moments[owner, 3] = max(moments[owner, 3], part)
            moments[owner, 4:] += chance > 0, 1
            if chance > 0:
                alone.append(abs(value) * (1.0 - chance))
        lonely |= ((moments[:, 4:] - before) == 1).all(axis=1)
    return moments, float(np.mean(alone)) if alone else 0.0, lonely
