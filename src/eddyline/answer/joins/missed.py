"""What a sampled join may have missed altogether: values of which nothing is followed."""

from collections.abc import Sequence
from math import inf, log, log1p, sqrt

import numpy as np

from eddyline.answer.interval import two_sided_z
from eddyline.answer.joins.calibration import RelationGap
from eddyline.answer.joins.sampled_values import SampledQuantity
from eddyline.sample.roles import Turn
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
        most = max(most, _most_values(base, confidence) * _partners(quantity, root, sizes))
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


def most_removed(quantity: SampledQuantity, totals: Sequence[float | None], confidence: float) -> float:
    """Return how much the anti joins of a query may take off of which the sample shows nothing.

    Where no sampled value that an anti join takes off is seen, its side may still have rows of values that are not
    followed: as many as its exact total leaves, and no more values than one of which would have been followed with the
    chance of the interval's end. Each takes off what the sampled values hold, the larger the likelier.
    """
    most = 0.0
    for relation, mine in enumerate(quantity.messages.relations):
        for link, turn in zip(mine.variables, mine.turns, strict=False):
            if turn in (Turn.ANTI, Turn.ANTI_OF_VALUES):
                exact = totals[relation] if relation < len(totals) else None
                left = inf if exact is None else max(exact - float(mine.weights.sum()), 0.0)
                most += _removed_at(quantity, relation, link, left, confidence)
    return most


def _removed_at(quantity: SampledQuantity, relation: int, link: int, rows: float, confidence: float) -> float:
    """Return how much so many rows of an anti join's side, all of values that are not followed, may take off."""
    mine, scales = quantity.messages.relations[relation], quantity.messages.factors[link]
    sizes = np.abs(quantity.messages.passed(link, relation)) / scales
    sampled = (scales > 1.0) & (sizes > 0.0)
    seen = mine.places[mine.variables.index(link)][mine.weights > 0]
    if np.any(sampled[seen]) or not np.any(sampled):
        return 0.0
    base = quantity.values.join.state.rosters[quantity.values.join.shape.classes[link]].base
    number = min(rows, _most_values(base, confidence))
    weights = (sizes * scales)[sampled]
    mean, square = (float(np.average(sizes[sampled] ** power, weights=weights)) for power in (1, 2))
    return number * mean + two_sided_z(confidence) * sqrt(number * square)


def _most_values(base: float, confidence: float) -> float:
    """Return how many values there may be of which none is followed at a rate, at an end of an interval."""
    return log((1.0 - confidence) / 2.0) / log1p(-base) if 0.0 < base < 1.0 else inf
