"""Atomic sketches of a join query with truly random signs: what AGMS's sign families stand in for.

Hashing every tuple for 5,000 copies would take most of the time of figures/multijoin.py. Signs drawn at random for
the values that occur have the same distribution, and products of matrices do the sums, in float32: exact but for
roundings of 1e-6.
"""

import numpy as np
from regions import JoinQuery, Relation

Signs = dict[int, np.ndarray]
"""For each link, the signs of its values: float32 (values, copies)."""


def atomic_sketches(query: JoinQuery, copies: int, seed: int) -> list[np.ndarray]:
    """Return each relation's atomic sketches, (copies,)."""
    numbered = with_numbered_values(query)
    return list(np.concatenate(list(_blocks(numbered, copies, seed)), axis=1))


def with_numbered_values(query: JoinQuery) -> JoinQuery:
    """Return the query with the values of each link replaced by 0, 1, 2, ..."""
    keys = [np.empty(relation.keys.shape, dtype=np.int64) for relation in query.relations]
    for link in {link for links in query.links for link in links}:
        places = [(k, links.index(link)) for k, links in enumerate(query.links) if link in links]
        columns = [query.relations[k].keys[row] for k, row in places]
        _, numbers = np.unique(np.concatenate(columns), return_inverse=True)
        ends = np.cumsum([len(column) for column in columns])[:-1]
        for (k, row), part in zip(places, np.split(numbers, ends), strict=True):
            keys[k][row] = part
    made = {id(of): Relation(key, of.counts) for key, of in zip(keys, query.relations, strict=True)}
    return JoinQuery(tuple(made[id(of)] for of in query.relations), query.links)


def _blocks(query: JoinQuery, copies: int, seed: int, size: int = 512) -> list[np.ndarray]:
    """Return blocks of copies, (relations, size) each: the signs of a block fit in memory."""
    rng = np.random.default_rng([seed, 4])
    blocks = []
    for start in range(0, copies, size):
        signs = _random_signs(query, min(size, copies - start), rng)
        sums: dict[int, np.ndarray] = {}
        for relation, links in zip(query.relations, query.links, strict=True):
            if id(relation) not in sums:  # a self-join reads one sketch twice
                sums[id(relation)] = _sums(relation, [signs[link] for link in links])
        blocks.append(np.array([sums[id(relation)] for relation in query.relations]))
    return blocks


def _random_signs(query: JoinQuery, copies: int, rng: np.random.Generator) -> Signs:
    values: dict[int, int] = {}
    for relation, links in zip(query.relations, query.links, strict=True):
        for row, link in enumerate(links):
            values[link] = max(values.get(link, 0), 1 + int(relation.keys[row].max()))
    signs = {}
    for link, number in values.items():
        bits = np.frombuffer(rng.bytes(-(-number * copies // 8)), dtype=np.uint8)
        drawn = np.unpackbits(bits, count=number * copies).reshape(number, copies)
        signs[link] = np.multiply(drawn, np.float32(-2), dtype=np.float32)
        signs[link] += 1
    return signs


def _sums(relation: Relation, signs: list[np.ndarray]) -> np.ndarray:
    """Return the sum over tuples of their count times the product of their signs, for each copy."""
    counts = relation.counts.astype(np.float32)
    if len(signs) == 2:
        table = np.zeros((len(signs[0]), len(signs[1])), dtype=np.float32)
        table[relation.keys[0], relation.keys[1]] = counts
        return np.asarray(np.einsum("ac,ac->c", signs[0], table @ signs[1], dtype=np.float64))
    product = signs[0][relation.keys[0]]
    for key, of in zip(relation.keys[1:], signs[1:], strict=True):
        product *= of[key]
    return np.asarray(counts @ product, dtype=np.float64)
