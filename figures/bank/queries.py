"""What the bank's queries ask of a stream: keys, predicates and measures, and the kind of each query."""

from functools import lru_cache

from bank.dataset import Data
from eddyline.expressions.schema import parse_schema
from eddyline.sql.parse import parse_query
from eddyline.sql.query import AnyQuery, JoinDistinctQuery, Key, Query


@lru_cache(maxsize=4)
def parsed(data: Data) -> dict[str, AnyQuery]:
    """Return the queries as the product reads them."""
    declared = {name: parse_schema(name, schema) for name, schema in data.schemas.items()}
    return {name: parse_query(sql, declared) for name, sql in data.queries.items()}


def kind_of(query: AnyQuery) -> str:
    """Return the kind: "two-way", "multi" (three relations or more), "distinct", "set" or "join-distinct"."""
    if isinstance(query, Query):
        return "two-way" if len(query.relations) == 2 else "multi"
    if isinstance(query, JoinDistinctQuery):
        return "join-distinct"
    return "distinct" if len(query.members) == 1 else "set"


def relations_of(query: AnyQuery) -> int:
    """Return how many relations a query reads."""
    return len(query.relations)


def keys_of(data: Data, stream: str) -> list[Key]:
    """Return the keys by which queries link or count the rows of a stream."""
    return sorted({key for query in parsed(data).values() for key in _keys(query, stream)})


def _keys(query: AnyQuery, stream: str) -> set[Key]:
    if isinstance(query, Query):
        members = [member for link in query.links for member in link.members]
        return {member.key for member in members if query.relations[member.relation].stream == stream}
    if isinstance(query, JoinDistinctQuery):
        sides = (query.join.left_key, query.left), (query.join.right_key, query.right)
        of_join = (query.relations[query.join.left], query.relations[query.join.right])
        return {key for keys, of in zip(sides, of_join, strict=True) if of.stream == stream for key in keys}
    return {member.key for member in query.members if member.stream == stream}


def predicates_of(data: Data, stream: str) -> list[str]:
    """Return the predicates that queries put on the rows of a stream."""
    return sorted(
        {
            text
            for query in parsed(data).values()
            for of in query.relations
            if of.stream == stream
            for text in of.predicates
        }
    )


def measures_of(data: Data, stream: str) -> list[str]:
    """Return the measures that queries sum over the rows of a stream."""
    return sorted(
        {
            factor.expression.text
            for query in parsed(data).values()
            if isinstance(query, Query)
            for factor in query.aggregate.factors
            if query.relations[factor.relation].stream == stream
        }
    )
