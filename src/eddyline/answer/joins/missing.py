"""What a sampled join may be missing: rows that exact totals count and the sample does not show.

Three cases. Exact totals show how many rows of a relation are missing: they are rows of values that are not followed,
often of one heavy value that came late (`missing_of`). The sample shows no joined row of a sampled value at all
(`unseen_join`). An anti join has rows that the sample does not show, each of which takes rows off (`most_removed`).
What may be missing widens an interval where its sign points to, on both sides where the sign is not known.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log, log1p, prod, sqrt

import numpy as np

from eddyline.answer.interval import student, two_sided_z
from eddyline.answer.joins.calibration import RelationGap
from eddyline.answer.joins.sampled_values import SampledQuantity
from eddyline.sample.roles import Turn
from eddyline.sample.sorting import distinct
from eddyline.sample.state import Record

_CHANCE, _CONVINCING = 4.0, 12.0
"""Up to two standard errors chance explains that rows are missing; from 3.5 on it does not. In squares."""
_MOST_SHORT = 0.9
"""Reductions are assumed to leave at least a tenth of an answer."""
_ERRORS = 2.0
"""Standard errors by which more may be missing than the totals say: what is seen is scaled up, and may be too much."""
_PARTNERS = 0.975
"""The quantile of the rows that another relation has for an unfollowed value, which is taken for a missing one."""


@dataclass(frozen=True)
class Missing:
    """What missing rows may add to a quantity: from `low` (0 or below) to `high` (0 or above).

    certainty: from 0, where chance explains that rows are missing, to 1.
    """

    low: float = 0.0
    high: float = 0.0
    certainty: float = 0.0


def missing_of(
    quantity: SampledQuantity,
    gaps: Sequence[RelationGap | None],
    rows: Sequence[RelationGap | None] | None = None,
    *,
    of_rows: bool = False,
) -> Missing:
    """Return what the rows that exact totals show to be missing may add to a quantity; gaps: of its relations.

    rows: the gaps of their numbers of rows, which say whether rows are missing where weights may cancel. of_rows: the
    gaps are those of all rows, because totals of what an ad hoc query weighs are not known.

    They are taken to be rows of one value, which is not followed, and to meet as many rows of the other relations as
    unfollowed values have there, or as these miss themselves. A relation that may be missing counts at least once, one
    that only decides at most once.
    """
    low = high = most = 0.0
    rates, counted = quantity.values.probabilities, gaps if rows is None else rows
    for variable in range(len(quantity.messages.factors)):
        members = quantity.messages.members(variable)
        short = {k: _short(quantity, k, variable, gaps[k], counted[k], of_rows=of_rows) for k in members}
        for relation in members:
            gap = counted[relation]
            certainty = 0.0 if gap is None or gap.short <= 0.0 else certainty_of(gap.surprise(rates))
            if certainty == 0.0:
                continue
            most = max(most, certainty)
            ends = [certainty * end for end in short[relation]]
            for other in members:
                if other != relation:
                    ends = [
                        end * part
                        for end in ends
                        for part in _partners_at(quantity, other, variable, short[other])
                    ]
            low, high = min(low, *ends), max(high, *ends)
    return Missing(low, high, most)


def most_dropped(record: Record, value: float, confidence: float) -> float:
    """Return how much more than an estimate its answer may be, because reductions dropped keys that carried it.

    An estimate that falls short by x of the answer does so by x / (1 - x) of itself.
    """
    if record.variance <= 0.0:
        return 0.0
    short = min(_MOST_SHORT, student(confidence, record.carriers + 1.0) * sqrt(record.variance))
    return abs(value) * short / (1.0 - short)


def certainty_of(surprise: float) -> float:
    """Return how certain it is that rows are missing; surprise: the square of the gap in standard errors."""
    return min(1.0, max(0.0, surprise - _CHANCE) / (_CONVINCING - _CHANCE))


def _short(
    quantity: SampledQuantity,
    relation: int,
    variable: int,
    gap: RelationGap | None,
    rows: RelationGap | None,
    *,
    of_rows: bool,
) -> tuple[float, float]:
    """Return from what to what a relation may fall short, as what it sends to a link.

    rows: the gap of its rows. of_rows: the other gap is one of rows, too, whatever the quantity weighs.
    """
    if gap is None or rows is None or rows.short <= 0.0:
        return 0.0, 0.0
    error = _ERRORS * sqrt(gap.variance(quantity.values.probabilities)) * abs(gap.exact)
    weights = quantity.scaled_weights[relation]
    sent = np.abs(quantity.messages.own(relation, variable) * quantity.messages.factors[variable])
    low, high = gap.short * gap.exact - error, gap.short * gap.exact + error
    signs = (-1.0 if np.any(weights < 0.0) else 0.0), (1.0 if np.any(weights > 0.0) else 0.0)
    if (
        of_rows
    ):  # only the number of missing rows is known: they weigh what rows do on average, of either sign
        scale = float(sent.sum()) / (abs(gap.exact * (1.0 - gap.short)) or 1.0)
        most = min(high, abs(gap.exact))
        return scale * signs[0] * most, scale * signs[1] * most
    if signs == (0.0, 1.0):
        low, high = max(low, 0.0), min(high, gap.exact)
    elif signs == (-1.0, 0.0):
        low, high = max(low, gap.exact), min(high, 0.0)
    scale = float(sent.sum()) / (float(np.abs(weights).sum()) or 1.0)
    return scale * low, scale * high


def _partners_at(
    quantity: SampledQuantity, relation: int, variable: int, short: tuple[float, float]
) -> tuple[float, float]:
    """Return from what to what a relation may send for a value of a link that is not followed.

    short: what the relation falls short of itself. Each followed value stands for 1/pi - 1 that are not.
    """
    mine = quantity.messages.relations[relation]
    if mine.only_decides:
        return 0.0, 1.0
    sent = np.asarray(quantity.messages.own(relation, variable), dtype=np.float64)
    unfollowed = quantity.messages.factors[variable] - 1.0
    low, high = (sign * _quantile(np.maximum(sign * sent, 0.0), unfollowed) for sign in (-1.0, 1.0))
    low, high = min(low, short[0]), max(high, short[1])
    return (1.0 if low == 0.0 else low, max(high, 1.0)) if mine.may_be_missing else (low, high)


def _quantile(sizes: np.ndarray, weights: np.ndarray) -> float:
    """Return the weighted 97.5% quantile of sizes; 0 where there are none."""
    rows = sizes * weights
    if not rows.any():
        return float(sizes.max(initial=0.0))
    order = np.argsort(sizes)
    up_to = np.cumsum(rows[order])
    return float(sizes[order][min(np.searchsorted(up_to, _PARTNERS * up_to[-1]), len(order) - 1)])


def allowed_by_totals(quantity: SampledQuantity, totals: Sequence[float | None]) -> tuple[float, float]:
    """Return the least and the most that a quantity can be by the exact totals of its relations.

    Nothing is known where weights of both signs occur. A row of a relation that stays without a match counts at least
    once.
    """
    relations = quantity.messages.relations
    sizes = [
        abs(totals[k] or 0.0) if k < len(totals) and totals[k] is not None else None
        for k in range(len(relations))
    ]
    if quantity.signs == (-1, 1):
        return -inf, inf
    least = 0.0
    needed = [k for k, each in enumerate(relations) if not each.only_decides and not each.may_be_missing]
    factors = [
        inf if size is None else max(size, float(mine.may_be_missing))
        for mine, size in zip(relations, sizes, strict=True)
        if not mine.only_decides
    ]
    most = 0.0 if 0.0 in factors else prod(factors)
    if len(needed) == 1 and not any(each.only_decides for each in relations):
        least = sizes[needed[0]] or 0.0
    return (least, most) if quantity.signs == (0, 1) else (-most, -least)


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
