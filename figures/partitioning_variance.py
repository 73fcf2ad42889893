"""The exact variance of an atomic sketch of a chain of two or three relations, from their frequencies.

With it, the error of AGMS for any way to partition is known without a single sketch.
"""

import numpy as np
from regions import Relation


def atomic_variance(relations: tuple[Relation, ...], domain: int) -> float:
    """Return Var(X) of the product of the relations' atomic sketches.

    Four signs of one link have the mean [a=a'][b=b'] + [a=b][a'=b'] + [a=b'][a'=b] - 2 [all equal]. Summed over the
    tuples of the outer relation f, this leaves (F2(f) - 2 f^2) on the diagonal and 2 f f' everywhere.
    """
    outer = [frequencies(relations[0], domain), frequencies(relations[-1], domain)]
    diagonal = [each @ each - 2 * each**2 for each in outer]
    if len(relations) == 2:
        size = float(outer[0] @ outer[1])
        return max(float(diagonal[0] @ outer[1] ** 2) + size**2, 0.0)
    rows, columns = (np.unique(each) for each in relations[1].keys)
    table = np.zeros((len(rows), len(columns)))
    table[np.searchsorted(rows, relations[1].keys[0]), np.searchsorted(columns, relations[1].keys[1])] = (
        relations[1].counts
    )
    left, right = outer[0][rows], outer[1][columns]
    by_row, by_column = table @ right, left @ table
    square = diagonal[0][rows] @ (table**2) @ diagonal[1][columns]
    square += 2 * (diagonal[0][rows] @ by_row**2) + 2 * (diagonal[1][columns] @ by_column**2)
    return max(float(square + 3 * (left @ by_row) ** 2), 0.0)


def frequencies(relation: Relation, domain: int) -> np.ndarray:
    """Return how often each value of a one-attribute relation occurs."""
    return np.bincount(relation.keys[0].astype(np.int64), weights=relation.counts, minlength=domain)
