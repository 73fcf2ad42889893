"""What the generators of the bank share: Zipf draws, heavy-tailed measures, and tables of rows with their times."""

import numpy as np

from bank.dataset import Columns, Table

LAST = 1.0
"""Times run from 0 to 1."""


def zipf(rng: np.random.Generator, exponent: float, domain: int, rows: int, shift: int = 0) -> np.ndarray:
    """Return ranks by a Zipf law over a domain; all of them moved on by `shift`."""
    shares = np.arange(1, domain + 1, dtype=np.float64) ** -exponent
    cumulated = np.cumsum(shares)
    ranks = np.searchsorted(cumulated, rng.random(rows) * cumulated[-1], side="right")
    return (np.minimum(ranks, domain - 1) + shift) % domain


def amounts(rng: np.random.Generator, rows: int, spread: float = 1.0) -> np.ndarray:
    """Return measures: lognormal, rounded to whole numbers, at least 1 and 20 on the median."""
    drawn = np.exp(rng.normal(np.log(20), spread, rows))
    return np.clip(np.rint(drawn), 1, 1_000_000).astype(np.int64)


def table(schema: str, columns: Columns, born: np.ndarray, dies: np.ndarray | None = None) -> Table:
    """Return a table; without `dies` no row is ever deleted."""
    never = np.full(len(born), np.inf)
    return Table(schema, columns, born, never if dies is None else dies)


def at_random(rng: np.random.Generator, schema: str, columns: Columns, dying: float = 0.0) -> Table:
    """Return a table whose rows come at random times, and of which a share is deleted at random times after that."""
    rows = len(next(iter(columns.values())))
    born = LAST * rng.random(rows)
    dies = np.where(rng.random(rows) < dying, born + (LAST - born) * rng.random(rows), np.inf)
    return table(schema, columns, born, dies)


def at_once(schema: str, columns: Columns) -> Table:
    """Return a table that is complete before anything else happens."""
    return table(schema, columns, np.full(len(next(iter(columns.values()))), -1.0))
