"""Stream samples written the slow and obvious way: dictionaries as Python dicts, joins as nested loops."""

from collections import Counter
from itertools import product


def element(keys, flags):
    """An element: keys with None for NULL, then truth values."""
    return (tuple(keys), tuple(bool(flag) for flag in flags))


def net(rows):
    """The net totals of rows (element, totals); elements whose totals are all 0 are not there."""
    found = {}
    for each, totals in rows:
        before = found.get(each, (0,) * len(totals))
        found[each] = tuple(a + b for a, b in zip(before, totals, strict=True))
    return {each: totals for each, totals in found.items() if any(totals)}


def minus(left, right):
    """One net dictionary without another."""
    return net([*left.items(), *((each, tuple(-t for t in totals)) for each, totals in right.items())])


def regrouped(held, keys, flags, measures):
    """The dictionary of fewer columns."""
    return net(
        (
            (tuple(each[0][k] for k in keys), tuple(each[1][f] for f in flags)),
            (totals[0], *(totals[1 + m] for m in measures)),
        )
        for each, totals in held.items()
    )


def joined(relations):
    """The sum over a join of products of weights. relations: lists of ({variable: value}, weight)."""
    total = 0
    for rows in product(*relations):
        values, fits = {}, True
        for at, _ in rows:
            for variable, value in at.items():
                fits = fits and value is not None and values.setdefault(variable, value) == value
        if fits:
            weight = 1
            for _, each in rows:
                weight *= each
            total += weight
    return total


def counts(values):
    """How often each value occurs."""
    return Counter(values)
