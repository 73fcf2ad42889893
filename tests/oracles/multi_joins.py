"""Slow and obvious forms of the estimators of multi-joins: exact integers, loops over all buckets."""

from itertools import product
from statistics import median


def exact_join(links, relations):
    """The join size of relations given as {(key, ...): count}; links[r] names the link of each key of r."""
    total = 0
    for rows in product(*(relation.items() for relation in relations)):
        values, count = {}, 1
        for (keys, times), names in zip(rows, links, strict=True):
            count *= times
            for key, name in zip(keys, names, strict=True):
                if values.setdefault(name, key) != key:
                    count = 0
        total += count
    return total


def contract(links, rows):
    """The estimate of one sketch row: the sum over all buckets of all links of the product of the counters."""
    width = len(rows[0])
    names = sorted({name for of in links for name in of})
    total = 0
    for buckets in product(range(width), repeat=len(names)):
        at = dict(zip(names, buckets, strict=True))
        term = 1
        for counters, of in zip(rows, links, strict=True):
            term *= int(counters[sum(at[name] for name in of) % width])
        total += term
    return total


def est_multi_join(sketches):
    """The median over groups of the mean over copies of the product of atomic sketches."""
    groups = zip(*sketches, strict=True)
    means = []
    for group in groups:
        products = []
        for atoms in zip(*group, strict=True):
            value = 1
            for atom in atoms:
                value *= int(atom)
            products.append(value)
        means.append(sum(products) / len(products))
    return median(means)
