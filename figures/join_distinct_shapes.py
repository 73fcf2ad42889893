"""Data of figures/join_distinct.py: pairs of streams R(a, b), S(b, c) by shape, and their exact answers."""

from collections.abc import Callable

import numpy as np
from scipy.sparse import coo_matrix

Tuples = tuple[np.ndarray, np.ndarray]
Draw = Callable[[np.random.Generator, int], Tuples]


def zipf(rng: np.random.Generator, values: int, n: int) -> np.ndarray:
    """Return n values with chances proportional to 1/rank."""
    chances = 1 / np.arange(1, values + 1)
    return rng.choice(values, n, p=chances / chances.sum())


def bipartite(x: float, b: float, *, zipf_x: bool = False, zipf_b: bool = False) -> tuple[Draw, Draw]:
    """Return two sides of random tuples: x and b values for each tuple of a side."""

    def draw(rng: np.random.Generator, n: int) -> Tuples:
        columns = ((int(x * n), zipf_x), (int(b * n), zipf_b))
        one, two = (zipf(rng, most, n) if skew else rng.integers(0, most, n) for most, skew in columns)
        return one, two

    return draw, draw


def keyed(b: float, shift: float) -> tuple[Draw, Draw]:
    """Return two sides with a key as x; the join values of the second are shifted by a share of all."""

    def left(rng: np.random.Generator, n: int) -> Tuples:
        return np.arange(n), rng.integers(0, int(b * n), n)

    def right(rng: np.random.Generator, n: int) -> Tuples:
        return np.arange(n), rng.integers(0, int(b * n), n) + int(shift * b * n)

    return left, right


SHAPES: dict[str, tuple[Draw, Draw]] = {
    "random, |B| = n/10": bipartite(0.1, 0.1),
    "random, |B| = n": bipartite(0.1, 1.0),
    "random, dense": bipartite(0.01, 0.01),
    "key - foreign key": keyed(0.1, 0.0),
    "key - foreign key, 10% join": keyed(0.1, 0.9),
    "Zipf on a and c": bipartite(0.1, 0.1, zipf_x=True),
    "Zipf on b": bipartite(0.1, 0.1, zipf_b=True),
    "Zipf on all": bipartite(0.1, 0.1, zipf_x=True, zipf_b=True),
}
CHURNED = "random, |B| = n/10, half deleted"


def tuples_of(draw: Draw, rng: np.random.Generator, n: int) -> Tuples:
    """Return the distinct tuples (x, b) of n drawn ones."""
    x, b = np.unique(np.stack(draw(rng, n)), axis=1)
    return x, b


def answers(left: Tuples, right: Tuples) -> dict[str, int]:
    """Return the exact answers of all three forms."""
    values = int(max(left[1].max(), right[1].max())) + 1
    one, two = (np.bincount(side[1], minlength=values) for side in (left, right))
    ones = [np.ones(len(side[0]), dtype=np.int32) for side in (left, right)]
    a_by_b = coo_matrix((ones[0], left), shape=(int(left[0].max()) + 1, values)).tocsr()
    c_by_b = coo_matrix((ones[1], right), shape=(int(right[0].max()) + 1, values)).tocsr()
    b_by_c = c_by_b.T.tocsr()
    pairs = sum((a_by_b[start : start + 500] @ b_by_c).nnz for start in range(0, a_by_b.shape[0], 500))
    semi = len(np.unique(left[0][two[left[1]] > 0]))
    return {"two-sided": pairs, "semi": semi, "full": int((one * two).sum())}
