"""Slow, obvious oracles of the key samples: dictionaries, loops over all rows and all pairs."""

from collections import Counter, defaultdict
from math import prod

from eddyline.sketch.families import parameters
from tests.naive import MASK64, mix_word


def place_of(spec, keys):
    """The level and the hashes that a row of keys is stored under; None where it is not sampled."""
    hashes = []
    for key, seed in zip(keys, spec.link_seeds, strict=True):
        params = [int(word) for word in parameters("mix", (seed,), 1)[0, 0]]
        hashes.append(mix_word(key & MASK64, params) >> 2)
    levels = [
        level
        for level in range(len(spec.cells))
        if all(h < limit >> level for h, limit in zip(hashes, spec.limits, strict=True))
    ]
    if not levels:
        return None
    shifts = [max((limit - 1).bit_length() - spec.bits - levels[-1], 0) for limit in spec.limits]
    return levels[-1], tuple(h >> shift << shift for h, shift in zip(hashes, shifts, strict=True))


def net_elements(spec, rows):
    """The net value of each sampled element, per level, of (keys, weight) rows; keys beyond the edges are left out."""
    levels = defaultdict(Counter)
    for keys, weight in rows:
        if (place := place_of(spec, keys[: spec.edges])) is not None:
            levels[place[0]][place[1]] += weight
    return {level: {key: value for key, value in net.items() if value} for level, net in levels.items()}


def joined(relations, links):
    """All joined rows as (values of the links, product): relations are {keys: value}, links their link numbers."""
    rows = [({}, 1)]
    for relation, own in zip(relations, links, strict=True):
        extended = []
        for row, y in rows:
            for keys, value in relation.items():
                new = dict(zip(own, keys, strict=True))
                if all(row.get(link, key) == key for link, key in new.items()):
                    extended.append((row | new, y * value))
        rows = extended
    return [(tuple(row[link] for link in sorted(row)), y) for row, y in rows]


def pair_sum(rows, rates, chance):
    """The sum of chance(rate of what two rows share) * y * y' over all pairs of (values, y) rows."""
    total = 0.0
    for one, y in rows:
        for other, z in rows:
            shared = prod(p for p, a, b in zip(rates, one, other, strict=True) if a == b)
            total += chance(shared) * y * z
    return total
