"""What a sampled join may have missed altogether: values of which nothing is followed."""

from collections.abc import Sequence
from math import inf, log, log1p

import numpy as np

from eddyline.answer.joins.calibration import RelationGap
from eddyline.answer.joins.sampled_values import SampledQuantity
from eddyline.sample.roster import FloatArray
from eddyline.sample.sorting import distinct

_LEAST_SHARE = 0.05
_CHANCE, _CONVINCING = 4.0, 12.0


def largest_missed(quantity: SampledQuantity, gaps: Sequence[RelationGap | None], surprise: float) -> float:
    """Return what one unfollowed value would add if it held everything that its relations fall short of.

    The largest over the links of the product over its relations of what they are missing, as messages to the link; a
    relation that may be missing counts at least once, one that only decides just once.
    In full where the shortfall is no chance (a surprise of 12, or 3.5 standard errors), nothing where chance explains
    it (4, or two standard errors), a part of it in between.
    """
    most = 0.0
    for variable in range(len(quantity.messages.factors)):
        product = 1.0
        for relation, held in quantity.held_totals(variable).items():
            gap = gaps[relation]
            short = 0.0 if gap is None else max(gap.short, 0.0)
            product *= _partner_rows(quantity, relation, short * held / max(1.0 - short, _LEAST_SHARE))
        most = max(most, product)
    return most * min(1.0, max(0.0, surprise - _CHANCE) / (_CONVINCING - _CHANCE))


def _partner_rows(quantity: SampledQuantity, relation: int, rows: float) -> float:
    """Return how often a row of the other relations may count for so many matches in one."""
    mine = quantity.messages.relations[relation]
    if mine.only_decides:
        return 1.0
    return max(rows, 1.0) if mine.may_be_missing else rows


def unseen_join(quantity: SampledQuantity, totals: Sequence[float | None], confidence: float) -> float:
    """Return how much a join may hold of which the sample shows no row, or only values that it is certain to follow.

    So many values of a link may join unseen that one of them would have been followed with the chance of the
    interval's upper end; each is taken to have as many partners as its relations have rows for each value. At most
    the product of all totals; infinite where a total is unknown and nothing of its relation is followed.
    """
    relations = range(len(quantity.messages.relations))
    sizes = [_size(quantity, k, totals[k] if k < len(totals) else None) for k in relations]
    product = float(np.prod(sizes))
    if product == 0.0:
        return 0.0
    most = 0.0
    for root, link in enumerate(quantity.values.join.shape.classes):
        base = quantity.values.join.state.rosters[link].base
        if base >= 1.0:
            continue
        values = log((1.0 - confidence) / 2.0) / log1p(-base) if base > 0.0 else inf
        most = max(most, values * _partners(quantity, root, sizes))
    return min(most, product)


def _size(quantity: SampledQuantity, relation: int, exact: float | None) -> float:
    """Return the rows of a relation, or the sum of the absolute values of its measure; what it counts for at most."""
    estimate = quantity.relation_size(relation)
    known = max(abs(exact), estimate) if exact is not None else estimate or inf
    return _partner_rows(quantity, relation, known)


def _partners(quantity: SampledQuantity, root: int, sizes: Sequence[float]) -> float:
    """Return how many joined rows a value of a link would have, if each relation spread evenly over its values."""
    product, reached, links = 1.0, set[int](), [root]
    while links:
        link = links.pop()
        for relation in quantity.messages.members(link):
            if relation in reached:
                continue
            reached.add(relation)
            mine = quantity.messages.relations[relation]
            held = distinct([mine.places[mine.variables.index(link)][mine.weights != 0]])
            share = sizes[relation] / max(1.0, float(quantity.messages.factors[link][held].sum()))
            product *= _partner_rows(quantity, relation, share)
            links += [other for other in mine.variables if other != link]
    return product


def heavier_unseen(parts: FloatArray, rates: FloatArray, base: float) -> float:
    """Return the variance that values larger than all seen would add, if sizes have a power tail.

    parts: what each value adds, before scaling up, and its rate. Hill's estimator over the largest fifth of the
    values at the base rate; infinite where the tail is too heavy to have a variance.
    """
    light = np.sort(np.abs(parts[(rates <= 1.5 * base) & (rates < 1.0) & (parts != 0)]))[::-1]
    if len(light) < 5:
        return inf
    top = light[: max(5, len(light) // 5)]
    mean_log = float(np.log(top[:-1] / top[-1]).mean())
    if mean_log <= 0.0:
        return 0.0
    tail = 1.0 / mean_log
    if tail <= 2.0:
        return inf
    unseen = (1.0 - base) / base  # values above the largest one seen, as expected
    return float(unseen**2 * top[0] ** 2 * tail / (tail - 2.0))
