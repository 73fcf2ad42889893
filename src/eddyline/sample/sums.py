"""Sums of products of long vectors, in one thread.

BLAS wakes all its threads for a vector of ten thousand numbers, and waits for them: on a machine whose cores are
busy, a dot product of a third of a millisecond then takes thirty.
"""

import numpy as np


def dot(left: np.ndarray, right: np.ndarray) -> float:
    """Return the sum of the products of two vectors."""
    return float(np.einsum("n,n->", left, right))


def times(rows: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Return the dot product of each of a few long rows (k, n) with a vector (n,), or with other rows (l, n)."""
    product: np.ndarray = np.einsum("kn,n->k" if vector.ndim == 1 else "kn,ln->kl", rows, vector)
    return product


def mixed(factors: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the combination of a few long rows (k, n) by factors (k,), or those by several (l, k)."""
    product: np.ndarray = np.einsum("k,kn->n" if factors.ndim == 1 else "lk,kn->ln", factors, rows)
    return product
