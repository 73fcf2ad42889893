"""Guarantees: the sizes at which theorems keep an answer within epsilon except with probability delta.

| synopsis | size | theorem |
| --- | --- | --- |
| AGMS | s1 = 8 ((2^n - 1)^2 + 1) prod SJ_k / (epsilon L)^2, s2 = 2 log2(1/delta) | multi-join, Theorem 3.1, Lemma 3.2 |
| dyadic hash sketches | s1 = 16 n_F n_G / (epsilon J), s2 = log2(m / delta) | skimmed, paragraphs 0045, 0071-0072 |
| 2-level sketches, union | r = 48 ln(2/delta) / epsilon^2 | set expressions, paragraph 0046 |
| 2-level sketches, other | r = 192 ln(4/delta) / epsilon^2, relative to the union | set expressions, 0046 and 0064 |
| JD sketches | s1 = 2 ln(1/delta) / epsilon, s2 = 24 ln(2/delta) / epsilon^3 | join-distinct, paragraph 0060 |

s1 and s2 of AGMS follow from Chebyshev and Chernoff bounds. The other documents leave constants open.
`tests/plan/test_guarantee.py` checks each of them on data that is hard for it; docs/reference/documents/settings.md
states where they come from. The theorems' assumptions come from the statistics: self-join sizes, rows and a least
size of the join.
"""

from collections.abc import Mapping
from math import ceil, log, log2, prod

import msgspec
from msgspec.structs import replace

from eddyline.errors import PlanError
from eddyline.plan.demands import DecidedQuery, QuantityDemands
from eddyline.plan.layout import Demand, Guaranteed
from eddyline.plan.size.expected import quantity_size, sketch_weight
from eddyline.plan.size.specs import MIN_WIDTH, PlanSettings, spec_for, two_sided_z
from eddyline.plan.statistics import Statistics
from eddyline.sketch.agms import AgmsSpec
from eddyline.sketch.dyadic import DyadicSpec
from eddyline.sketch.jd_sketch import JdSketchSpec
from eddyline.sketch.synopsis import Spec
from eddyline.sketch.two_level import TwoLevelSpec
from eddyline.sql.query import SetExpression, SetLeaf, SetQuery

Pair = tuple[float, float]
"""(epsilon, delta)."""
SKIMMED_CONSTANT = 16.0
"""The constant of s1 = O(n^2 / (epsilon J)). After skimming, F2 of either side is at most n 2T' = 8 n^2 / s1. The
variance of a dense-sparse sub-join is then at most 8 n^4 / s1^2, twice, and 2.83 standard deviations of their sum
are 11 n^2 / s1."""
_ANY_WORDS = 1 << 20
"""The size of a sketch whose shape is then replaced."""
_COMMON_SHARE = 2.0
"""e(p) of the join-distinct theorem: the number of values of b in two buckets per shared value. Assumed."""


def checked_guarantee(guarantee: object) -> Pair:
    """Return (epsilon, delta), or raise PlanError."""
    if isinstance(guarantee, tuple | list) and len(guarantee) == 2:
        epsilon, delta = guarantee
        numbers = all(
            isinstance(each, int | float) and not isinstance(each, bool) for each in (epsilon, delta)
        )
        if numbers and 0 < epsilon < 1 and 0 < delta < 1:
            return float(epsilon), float(delta)
    raise PlanError(f"guarantee={guarantee!r} is not (epsilon, delta), two numbers between 0 and 1.")


def guaranteed_specs(
    queries: list[DecidedQuery], statistics: Statistics, settings: PlanSettings
) -> tuple[dict[Demand, Spec], dict[str, Guaranteed]]:
    """Return (the specs that guarantees require, by demand, and their cost for each query, by name)."""
    specs: dict[Demand, Spec] = {}
    made: dict[str, Guaranteed] = {}
    for each in queries:
        if each.asked.guarantee is None:
            continue
        own: dict[Demand, Spec] = {}
        for name, quantity in each.quantities.items():
            own |= _specs_of(each, name, quantity, statistics, settings)
        if not own:
            continue
        for demand, spec in own.items():
            specs[demand] = max(specs.get(demand, spec), spec, key=lambda found: found.words)
        epsilon, delta = each.asked.guarantee
        weight = sketch_weight(each.asked, statistics, settings.max_distinct)
        words = weight * (two_sided_z(1 - delta) / epsilon) ** 2
        nbytes = 8 * sum(spec.words for spec in own.values())
        made[each.asked.name] = Guaranteed(
            epsilon, delta, _THEOREMS[type(spec)], nbytes, int(8 * words) * len(own)
        )
    return specs, made


_THEOREMS: dict[type, str] = {
    AgmsSpec: "multi-join, Theorem 3.1",
    DyadicSpec: "skimmed, paragraph 0072",
    TwoLevelSpec: "set expressions, paragraph 0046",
    JdSketchSpec: "join-distinct, paragraph 0060, for pairs that share no value",
}


def _specs_of(
    query: DecidedQuery, name: str, quantity: QuantityDemands, statistics: Statistics, settings: PlanSettings
) -> Mapping[Demand, Spec]:
    """Return the spec of each demand of one quantity; none for exact counters."""
    assert query.asked.guarantee is not None
    epsilon, delta = query.asked.guarantee
    demands = list(dict.fromkeys(quantity.all))
    if demands[0].kind == "total":
        return {}
    if demands[0].kind in ("agms", "dyadic"):
        return _join_specs(query, name, quantity, statistics, settings)
    least = {demand: spec_for(demand, 0, settings) for demand in demands}
    return {demand: _set_spec(query, spec, epsilon, delta, settings) for demand, spec in least.items()}


def _set_spec(query: DecidedQuery, least: Spec, epsilon: float, delta: float, settings: PlanSettings) -> Spec:
    most = settings.max_distinct
    if isinstance(least, TwoLevelSpec):
        asked = query.asked.query
        assert isinstance(asked, SetQuery)
        whole = _is_union(asked.expression)
        copies = ceil(48 * log(2 / delta) / epsilon**2 if whole else 192 * log(4 / delta) / epsilon**2)
        if least.spread:
            copies = 1 << ceil(log2(copies))
        sized = TwoLevelSpec.of_copies(copies, most, least.seed, least.key_bits, spread=least.spread)
        return replace(sized, hash=least.hash)
    if not isinstance(least, JdSketchSpec):
        raise PlanError(f"query {query.asked.name!r}: a guarantee needs method='document' or method='agms'.")
    if epsilon >= 0.5:
        raise PlanError(
            f"query {query.asked.name!r}: JDEstimator needs an epsilon below 1/2, not {epsilon:g}."
        )
    sketches = max(ceil(_COMMON_SHARE * log(1 / delta) / epsilon), 1)
    return replace(least, copies=ceil(24 * log(2 / delta) / epsilon**3), sketches=sketches)


def _is_union(expression: SetExpression) -> bool:
    if isinstance(expression, SetLeaf):
        return True
    return expression.operator == "union" and _is_union(expression.left) and _is_union(expression.right)


def _join_specs(
    query: DecidedQuery, name: str, quantity: QuantityDemands, statistics: Statistics, settings: PlanSettings
) -> Mapping[Demand, Spec]:
    assert query.asked.guarantee is not None
    (epsilon, delta), known = query.asked.guarantee, [statistics.relation(each) for each in quantity.whole]
    size = quantity_size(query.asked.query, name, quantity, statistics)
    if not size or any(each is None for each in known):
        raise PlanError(
            f"query {query.asked.name!r}: the guarantee of a join needs self-join sizes and a least size of the join: "
            "give w.plan(statistics=...), from w.analyze or state.statistics()."
        )
    if len(quantity.parts) > 1:
        raise PlanError(f"query {query.asked.name!r}: a guarantee is for a join that is not partitioned.")
    self_joins = [each.self_join for each in known if each is not None]
    made: dict[Demand, Spec] = {}
    for demand in quantity.whole:
        spec = spec_for(demand, _ANY_WORDS, settings)
        if isinstance(spec, AgmsSpec):
            wanted = AgmsSpec.guaranteed(epsilon, delta, self_joins, abs(size), spec.seeds)
            made[demand] = msgspec.structs.replace(spec, width=wanted.width, depth=wanted.depth)
        elif isinstance(spec, DyadicSpec):
            rows = [each.total for each in known if each is not None]
            plain = 16 * prod(self_joins) / (epsilon * size) ** 2
            skimmed = SKIMMED_CONSTANT * prod(abs(n) for n in rows if n is not None) / (epsilon * abs(size))
            least = plain if any(n is None for n in rows) else min(plain, skimmed)
            width = max(1 << ceil(log2(max(least, 1.0))), MIN_WIDTH)
            made[demand] = replace(spec, width=width, depth=ceil(log2(settings.max_distinct / delta)))
        else:
            raise PlanError(
                f"query {query.asked.name!r}: a guarantee needs method='document' or method='agms'."
            )
    return made
