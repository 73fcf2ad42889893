"""Chains and stars of streams with Zipf-distributed keys; correlated stars, whose foreign keys go together.

Rows come at random times, so the data are stationary.
"""

import numpy as np

from bank.dataset import Data
from bank.draws import amounts, at_random, zipf

CHAIN_QUERIES = {
    "two": "SELECT COUNT(*) FROM r JOIN s ON r.a = s.a",
    "two_sum": "SELECT SUM(r.m) FROM r JOIN s ON r.a = s.a WHERE s.f = 1",
    "two_avg": "SELECT AVG(u.m) FROM t JOIN u ON t.c = u.c",
    "self": "SELECT COUNT(*) FROM s x JOIN s y ON x.b = y.b",
    "three": "SELECT COUNT(*) FROM r JOIN s ON r.a = s.a JOIN t ON s.b = t.b",
    "three_avg": "SELECT AVG(r.m) FROM r JOIN s ON r.a = s.a JOIN t ON s.b = t.b WHERE s.f = 1",
    "four": "SELECT COUNT(*) FROM r JOIN s ON r.a = s.a JOIN t ON s.b = t.b JOIN u ON t.c = u.c",
    "four_sum": "SELECT SUM(r.m * u.m) FROM r JOIN s ON r.a = s.a JOIN t ON s.b = t.b JOIN u ON t.c = u.c",
    "distinct": "SELECT COUNT(DISTINCT a) FROM s",
    "set": "SELECT COUNT(*) FROM (SELECT a FROM r INTERSECT SELECT a FROM s)",
}
STAR_QUERIES = {
    "two": "SELECT COUNT(*) FROM fact JOIN d ON fact.a = d.a",
    "two_sum": "SELECT SUM(fact.m) FROM fact JOIN e ON fact.b = e.b WHERE e.kind = 1",
    "self": "SELECT COUNT(*) FROM fact x JOIN fact y ON x.c = y.c",
    "three": "SELECT COUNT(*) FROM fact JOIN d ON fact.a = d.a JOIN e ON fact.b = e.b",
    "three_avg": "SELECT AVG(fact.m) FROM fact JOIN d ON fact.a = d.a JOIN g ON fact.c = g.c WHERE d.kind = 1",
    "star": "SELECT COUNT(*) FROM fact JOIN d ON fact.a = d.a JOIN e ON fact.b = e.b JOIN g ON fact.c = g.c",
    "star_sum": (
        "SELECT SUM(fact.m) FROM fact JOIN d ON fact.a = d.a JOIN e ON fact.b = e.b JOIN g ON fact.c = g.c "
        "WHERE e.kind = 1"
    ),
    "distinct": "SELECT COUNT(DISTINCT a) FROM fact",
    "set": "SELECT COUNT(*) FROM (SELECT b FROM fact EXCEPT SELECT b FROM e)",
}


def chain(seed: int, size: int, *, exponent: float, shift: int, domain: int = 5000) -> Data:
    """Return a chain of four streams; the frequent values of one are `shift` ranks further in the next."""
    rng = np.random.default_rng([seed, 1, int(100 * exponent), shift])
    rows = size // 4

    def keys(moved: int) -> np.ndarray:
        return zipf(rng, exponent, domain, rows, moved)

    r = {"a": keys(0), "m": amounts(rng, rows)}
    s = {"a": keys(shift), "b": keys(0), "f": rng.integers(0, 3, rows)}
    t = {"b": keys(shift), "c": keys(0)}
    c = keys(shift)
    u = {"c": c, "m": amounts(rng, rows) * (1 + c % 5)}
    tables = {
        "r": at_random(rng, "a BIGINT, m BIGINT", r),
        "s": at_random(rng, "a BIGINT, b BIGINT, f BIGINT", s),
        "t": at_random(rng, "b BIGINT, c BIGINT", t),
        "u": at_random(rng, "c BIGINT, m BIGINT", u),
    }
    return Data(tables, CHAIN_QUERIES, seed)


def star(seed: int, size: int, *, exponent: float, together: float = 0.0, domain: int = 4000) -> Data:
    """Return a star of a fact stream and three others, whose values repeat too.

    together: the share of fact rows whose three keys have one rank; the others are drawn apart.
    """
    rng = np.random.default_rng([seed, 2, int(100 * exponent), int(100 * together)])
    rows, side = 7 * size // 10, size // 10
    a, b, c = (zipf(rng, exponent, domain, rows) for _ in range(3))
    linked = rng.random(rows) < together
    b, c = np.where(linked, a, b), np.where(linked, a, c)
    places = [rng.permutation(domain) for _ in range(3)]  # which value has a rank
    fact = {"a": places[0][a], "b": places[1][b], "c": places[2][c]}
    fact["m"] = amounts(rng, rows) * (1 + fact["c"] % 4)
    tables = {"fact": at_random(rng, "a BIGINT, b BIGINT, c BIGINT, m BIGINT", fact)}
    for name, key, place in zip("deg", "abc", places, strict=True):
        drawn = place[zipf(rng, exponent / 2, domain, side)]
        columns = {key: drawn, "kind": rng.integers(0, 3, side)}
        tables[name] = at_random(rng, f"{key} BIGINT, kind BIGINT", columns)
    return Data(tables, STAR_QUERIES, seed)
