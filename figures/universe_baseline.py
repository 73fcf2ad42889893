"""Plain universe sampling: one rate for all links of all streams, chosen so that the kept elements just fit.

A value of a link is kept if its hash is below the rate, in all streams alike. An element of a stream is kept if all
of its values on the links that a query joins it by are. Each stream has one dictionary for each set of links that
some query uses together. A join of the kept rows is divided by the rate once for each link; distinct counts and set
expressions by the rate once. The rate is the best one in hindsight: it is found on the rows that are never deleted.
Where one exact dictionary for each stream fits, everything is kept.

There are no intervals, and no answer to distinct counts over joins. Where a query reads two links of one class over
one stream, values that are equal on both are divided by the rate twice: a small bias.
"""

from collections import defaultdict
from collections.abc import Iterator

import duckdb
import numpy as np
from bank.dataset import Data
from bank.exact import along_the_tree, connected, exact_bytes, in_duckdb, key_in_duckdb
from bank.queries import parsed

from eddyline.sql.query import AnyQuery, Key, Query, SetExpression, SetLeaf, SetMember, SetQuery

Place = tuple[str, Key]
"""A stream and one of its keys."""
LARGEST = 2.0**64
LEAST_RATE = 1e-6


def universe_answers(data: Data, size: int, seed: int) -> dict[str, float | None]:
    """Return the estimates of all queries from samples of a given number of bytes."""
    hashes = _Hashes(data, seed)
    with connected(data) as connection:
        rate = 1.0 if size >= exact_bytes(data) else _rate(data, hashes, connection, size)
        return {name: _estimate(connection, query, hashes, rate) for name, query in parsed(data).items()}


class _Hashes:
    """The hash function of every key: keys that some query equates have one."""

    def __init__(self, data: Data, seed: int) -> None:
        self._seed = seed
        self._class: dict[Place, int] = {}
        for number, places in enumerate(_equated(data)):
            known = {self._class[place] for place in places if place in self._class}
            merged = min(known, default=number)
            self._class |= {place: merged for place, of in self._class.items() if of in known}
            self._class |= dict.fromkeys(places, merged)

    def of(self, place: Place) -> str:
        """Return SQL for the hash of a row's key, from 0 to 1; a key that is NULL is always kept."""
        text = key_in_duckdb(place[1])
        mixed = f"hash(hash({text}, {self._class[place]}, {self._seed}))"  # one call alone only adds the salt
        return f"CASE WHEN ({text}) IS NULL THEN 0 ELSE {mixed}::DOUBLE / {LARGEST} END"


def _equated(data: Data) -> Iterator[set[Place]]:
    for query in parsed(data).values():
        if isinstance(query, Query):
            for link in query.links:
                yield {(query.relations[member.relation].stream, member.key) for member in link.members}
        elif isinstance(query, SetQuery):
            yield {(member.stream, member.key) for member in query.members}


def _keys_by_relation(query: AnyQuery) -> list[list[Place]]:
    """Return the keys by which a query links or counts each of its relations."""
    if isinstance(query, SetQuery):
        return [[(member.stream, member.key)] for member in query.members]
    if not isinstance(query, Query):
        return []
    found: list[list[Place]] = [[] for _ in query.relations]
    for link in query.links:
        for member in link.members:
            found[member.relation].append((query.relations[member.relation].stream, member.key))
    return found


def _rate(data: Data, hashes: _Hashes, connection: duckdb.DuckDBPyConnection, size: int) -> float:
    """Return the largest rate at which the elements of all dictionaries fit."""
    measures, predicates = defaultdict(set), defaultdict(set)
    for query in parsed(data).values():
        for index, places in enumerate(_keys_by_relation(query)):
            own = frozenset(places)
            of = query.relations[index] if isinstance(query, Query) else query.members[index]
            predicates[own] |= set(of.predicates)
            factors = query.aggregate.factors if isinstance(query, Query) else ()
            measures[own] |= {each.expression.text for each in factors if each.relation == index}
    values, sizes = [], []
    for own in predicates:
        stream = next(iter(own))[0]
        bits = [f"coalesce({in_duckdb(text)}, false)" for text in sorted(predicates[own])]
        parts = ", ".join([*(key_in_duckdb(key) for _, key in sorted(own)), *bits])
        above = ", ".join(hashes.of(place) for place in sorted(own))
        text = f"SELECT DISTINCT {parts}, greatest({above}) AS h FROM {stream}"
        values.append(
            np.asarray(connection.sql(f"SELECT h FROM ({text})").fetchnumpy()["h"], dtype=np.float64)
        )
        sizes.append(np.full(len(values[-1]), 8 * (len(own) + 1 + len(measures[own])) + bool(bits)))
    hashed, taken = np.concatenate(values), np.concatenate(sizes)
    order = np.argsort(hashed)
    fitting = int(np.searchsorted(np.cumsum(taken[order]), size, side="right"))
    return 1.0 if fitting == len(order) else max(float(hashed[order[fitting]]), LEAST_RATE)


def _estimate(
    connection: duckdb.DuckDBPyConnection, query: AnyQuery, hashes: _Hashes, rate: float
) -> float | None:
    if isinstance(query, Query):
        kept = {
            index: [f"{hashes.of(place)} < {rate}" for place in places]
            for index, places in enumerate(_keys_by_relation(query))
        }
        found = connection.sql(along_the_tree(query, kept)).fetchall()[0][0]
        if found is None:
            return None if query.aggregate.function == "avg" else 0.0
        return float(found) / (1.0 if query.aggregate.function == "avg" else rate ** len(query.links))
    if isinstance(query, SetQuery):
        kept = [_kept_elements(member, hashes, rate) for member in query.members]
        found = connection.sql(f"SELECT COUNT(*) FROM ({_combined(query.expression, kept)})").fetchall()[0][0]
        return float(found) / rate
    return None


def _kept_elements(member: SetMember, hashes: _Hashes, rate: float) -> str:
    """Return SQL for the kept elements of a member of a set expression."""
    key = key_in_duckdb(member.key)
    conditions = [f"{hashes.of((member.stream, member.key))} < {rate}", *map(in_duckdb, member.predicates)]
    if not member.key.null_is_value:
        conditions.append(f"({key}) IS NOT NULL")
    return (
        f"SELECT DISTINCT {key} AS k FROM {member.stream} WHERE {' AND '.join(f'({c})' for c in conditions)}"
    )


def _combined(expression: SetExpression, members: list[str]) -> str:
    if isinstance(expression, SetLeaf):
        return members[expression.member]
    left, right = _combined(expression.left, members), _combined(expression.right, members)
    return f"(SELECT * FROM ({left})) {expression.operator.upper()} (SELECT * FROM ({right}))"
