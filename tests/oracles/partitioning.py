"""Sketch partitioning the slow way: all signs, all set partitions, all shares of the space."""

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod, sqrt


def variance_over_all_signs(left: Sequence[float], right: Sequence[float]) -> float:
    """The variance of (sum of f1 xi) (sum of f2 xi), over every choice of signs."""
    estimates = [
        sum(f * s for f, s in zip(left, signs, strict=True))
        * sum(f * s for f, s in zip(right, signs, strict=True))
        for signs in product((-1, 1), repeat=len(left))
    ]
    mean = sum(estimates) / len(estimates)
    return sum((estimate - mean) ** 2 for estimate in estimates) / len(estimates)


def chain_variance_over_all_signs(
    left: Sequence[float], middle: Sequence[Sequence[float]], right: Sequence[float]
) -> float:
    """The variance of an atomic sketch of R1(a), R2(a, b), R3(b), over every choice of both links' signs."""
    estimates = [
        sum(f * s for f, s in zip(left, rows, strict=True))
        * sum(
            f * r * c
            for line, r in zip(middle, rows, strict=True)
            for f, c in zip(line, columns, strict=True)
        )
        * sum(f * s for f, s in zip(right, columns, strict=True))
        for rows in product((-1, 1), repeat=len(left))
        for columns in product((-1, 1), repeat=len(right))
    ]
    mean = sum(estimates) / len(estimates)
    return sum((estimate - mean) ** 2 for estimate in estimates) / len(estimates)


def set_partitions(size: int, most: int) -> Iterator[list[list[int]]]:
    """Every way to put 0 .. size - 1 into at most a given number of parts."""
    if size == 0:
        yield []
        return
    for parts in set_partitions(size - 1, most):
        for index in range(len(parts)):
            yield [[*part, size - 1] if at == index else part for at, part in enumerate(parts)]
        if len(parts) < most:
            yield [*parts, [size - 1]]


def cost(left: Sequence[float], right: Sequence[float], parts: list[list[int]]) -> float:
    """The document's F(P): sum over parts of the root of the product of self-join sizes."""
    return sum(sqrt(sum(left[i] for i in part) * sum(right[i] for i in part)) for part in parts)


def least_cost(left: Sequence[float], right: Sequence[float], most: int) -> float:
    """The least F(P) of all partitions into at most a given number of parts."""
    return min(cost(left, right, parts) for parts in set_partitions(len(left), most))


def least_product(links: Sequence[tuple[Sequence[float], Sequence[float]]], most: int) -> float:
    """The least product of the links' costs, over all numbers of parts whose product is at most `most`."""
    counts = (each for each in product(range(1, most + 1), repeat=len(links)) if prod(each) <= most)
    return min(
        prod(least_cost(*link, each) for link, each in zip(links, some, strict=True)) for some in counts
    )


def least_variance(variances: Sequence[float], words: int) -> float:
    """The least sum of Var(X_p) / s_p over all ways to share out a given number of atomic sketches."""
    shares = (each for each in product(range(1, words + 1), repeat=len(variances)) if sum(each) == words)
    return min(sum(v / s for v, s in zip(variances, each, strict=True)) for each in shares)
