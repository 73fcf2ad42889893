"""An estimate of a distinct count over a join, on its way to a reading."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """A value with its relative variance, what it rests on, and how it came about.

    `by_x` is the share of the value that rests on the samples on x, the rest being from those on b. `noise` is the
    part of the variance that comes from the filter, and is known however few the witnesses are.
    """

    value: float
    variance: float
    witnesses: int
    method: str
    by_x: float = 0.0
    thin: bool = False
    noise: float = 0.0
