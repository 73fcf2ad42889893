"""Random queries with conditions between relations, cycles of joins among them."""

from tests.fuzz.group_cases import GROUPS, MEASURES, SINGLE
from tests.fuzz.workload_cases import WorkloadQuery, column_of, one_of

OPERATORS = ("<", "<=", ">", ">=", "<>")
CONDITIONS = (
    "{a}.v {o} {b}.v",
    "{a}.{c} {o} {b}.v",
    "{a}.v + {n} {o} {b}.v",
    "{a}.v + {b}.v {o} {n}",
    "{a}.v < {n} OR {b}.v {o} {n}",
    "{a}.v BETWEEN {b}.v AND {b}.v + {n}",
    "{a}.ts < {b}.ts",
)


def cross_query(rng, names):
    """A query with a condition between relations, with groups or without."""
    kind, source = (_pair, _chain, _triangle)[rng.integers(3)](rng, names)
    side = "ab"[rng.integers(2)]
    if rng.random() < 0.5:
        aggregate = SINGLE[rng.integers(len(SINGLE))].format(side)
        return WorkloadQuery(f"{kind}", f"SELECT {aggregate} FROM {source}")
    group = GROUPS[rng.integers(len(GROUPS))].format(side)
    measures = MEASURES[rng.integers(len(MEASURES))].format("ba"[rng.integers(2)])
    return WorkloadQuery(
        f"groups of a {kind}", f"SELECT {group} AS g, {measures} FROM {source} GROUP BY {group}"
    )


def _condition(rng, one, other):
    form = CONDITIONS[rng.integers(len(CONDITIONS))]
    operator = OPERATORS[rng.integers(len(OPERATORS))]
    return "(" + form.format(a=one, b=other, c=column_of(rng), o=operator, n=rng.integers(-20, 60)) + ")"


def _pair(rng, names):
    on = f"a.{column_of(rng)} = b.{column_of(rng)}"
    source = f"{one_of(rng, names)} a JOIN {one_of(rng, names)} b ON {on} WHERE {_condition(rng, 'a', 'b')}"
    return "compared join", source


def _chain(rng, names):
    source = f"{one_of(rng, names)} a JOIN {one_of(rng, names)} b ON a.k = b.k JOIN {one_of(rng, names)} c ON b.j = c.j"
    ends = ("a", "c") if rng.random() < 0.5 else ("b", "c")
    return "compared chain", f"{source} WHERE {_condition(rng, *ends)}"


def _triangle(rng, names):
    source = f"{one_of(rng, names)} a JOIN {one_of(rng, names)} b ON a.k = b.k JOIN {one_of(rng, names)} c ON b.j = c.j"
    closing = ("c.k = a.j", "c.v = a.v", "c.k = a.v")[rng.integers(3)]
    return "triangle", f"{source} AND {closing}" + (
        f" WHERE {_condition(rng, 'a', 'c')}" if rng.random() < 0.3 else ""
    )
