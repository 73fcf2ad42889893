"""What a sampled join may be missing, and what the exact totals of its relations show about it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf, log, log1p, prod, sqrt

import numpy as np

from eddyline.answer.interval import student
from eddyline.answer.joins.sampled_values import SampledQuantity
from eddyline.plan.size.specs import two_sided_z
from eddyline.sample.join import Turn
from eddyline.sample.packing import chunks, distinct, dot, mixed, summed, times
from eddyline.sample.spec import COUNT
from eddyline.sample.state import FloatArray, Record

# Calibration: what the exact totals of a join's relations show about what its sample is missing.
#
# The exact total of every relation is known, and the sample estimates it too. Where the estimate is too low, heavy
# values are not followed, and the join is too low as well. So every followed value gets a weight near 1, such that
# the weighted values about reach the exact totals, and its part of the join is multiplied by this weight. This is
# the generalized regression estimator of survey sampling, with a ridge for few values and with weights that are
# kept in bounds.


_CERTAIN = 99.0
_LEAST_REST = 0.25
_LARGEST_WEIGHT = 2.0


@dataclass(frozen=True)
class Gap:
    """How far an estimate of a relation's total falls short of the exact one: short, 1 - estimate/exact.

    variance: of `short`.
    """

    short: float
    exact: float
    variance: float

    @property
    def surprise(self) -> float:
        """The square of the gap in standard errors; 99 for a gap that no followed value explains."""
        if self.variance > 0.0:
            return self.short**2 / self.variance
        return _CERTAIN if abs(self.short) > 1e-9 else 0.0


@dataclass(frozen=True)
class RelationGap(Gap):
    """The gap of the sample's estimate; added: what each value adds to the estimate."""

    added: FloatArray

    def shares(self, at: slice) -> FloatArray:
        """Return what some values add to the estimate, over the exact total."""
        shares: FloatArray = self.added[at] / self.exact
        return shares


def relation_gaps(quantity: SampledQuantity, totals: Sequence[float | None]) -> list[RelationGap | None]:
    """Return how far each relation's estimated total falls short; None where the exact total is 0 or unknown.

    Also None for a relation that only decides whether rows of the others count: the join does not grow with it.
    """
    gaps: list[RelationGap | None] = []
    rates = quantity.values.probabilities
    for relation, mine in enumerate(quantity.messages.relations):
        exact = totals[relation] if relation < len(totals) else None
        if not exact or mine.only_decides:
            gaps.append(None)
            continue
        estimate, added = quantity.relation_weights(relation)
        gap = RelationGap(1.0 - estimate / exact, exact, 0.0, added)
        gaps.append(replace(gap, variance=_variance(rates, gap.shares)))
    return gaps


def _variance(probabilities: FloatArray, shares: Callable[[slice], FloatArray]) -> float:
    """Return the variance of a sum to which each followed value adds its share."""
    return summed(len(probabilities), lambda at: (1.0 - probabilities[at]) * shares(at) ** 2)


@dataclass(frozen=True)
class _Beyond:
    """A gap less what the gaps of other relations explain of it."""

    gap: RelationGap
    slopes: FloatArray
    others: Sequence[RelationGap]

    def shares(self, at: slice) -> FloatArray:
        """Return what some values add to what is left of the gap."""
        others = np.stack([each.shares(at) for each in self.others])
        left: FloatArray = self.gap.shares(at) - mixed(self.slopes, others)
        return left


def views_of(gaps: Sequence[RelationGap | None], probabilities: FloatArray) -> list[list[Gap]]:
    """Return for each relation its gap, and what is left of it beyond the gaps of the others; empty without a gap.

    Relations of a link are seen through the same followed values. If these happen to hold too much of one relation,
    they hold too much of the others as well: a relation that is then not overestimated has rows of other values.
    """
    views: list[list[Gap]] = [[] if gap is None else [gap] for gap in gaps]
    known = [gap for gap in gaps if gap is not None and gap.variance > 0.0]
    if len(known) < 2:
        return views
    shorts, gram = np.array([gap.short for gap in known]), _gram(known, probabilities)
    for place, gap in enumerate(known):
        others = np.arange(len(known)) != place
        slopes = np.linalg.pinv(gram[np.ix_(others, others)], hermitian=True) @ gram[others, place]
        beyond = _Beyond(gap, slopes, [each for each in known if each is not gap])
        left = Gap(
            gap.short - float(slopes @ shorts[others]), gap.exact, _variance(probabilities, beyond.shares)
        )
        next(own for own in views if own and own[0] is gap).append(left)
    return views


def _gram(gaps: Sequence[RelationGap], probabilities: FloatArray) -> FloatArray:
    """Return the covariance of gaps, with a ridge for few values."""
    gram, squares = np.zeros((len(gaps), len(gaps))), np.zeros(len(gaps))
    for at in chunks(len(probabilities)):
        shares = np.stack([gap.shares(at) for gap in gaps])
        weighted = shares * (1.0 - probabilities[at])
        gram += times(weighted, shares)
        squares += [((each * own) ** 2).sum() for each, own in zip(shares, weighted, strict=True)]
    gram[np.diag_indices_from(gram)] *= 1.0 + 1.0 / (np.diag(gram) ** 2 / squares)
    return gram


@dataclass(frozen=True)
class Calibrated:
    """What is to be added to an estimate, and what each value adds to it beyond what the totals explain.

    above, below: the largest surprise among relations that fall short, and among those that are overestimated.
    """

    shift: float
    residuals: FloatArray
    above: float = 0.0
    below: float = 0.0


def calibrate(added: FloatArray, probabilities: FloatArray, gaps: Sequence[RelationGap | None]) -> Calibrated:
    """Return the correction of an estimate to which the values add `added`.

    The residual of a value is enlarged by its leverage and multiplied by its weight, even where the weight itself
    is cut at its bound.
    """
    known = [gap for gap in gaps if gap is not None]
    surprises = [(gap.short, gap.surprise) for gap in known]
    above = max((s for short, s in surprises if short > 0), default=0.0)
    below = max((s for short, s in surprises if short < 0), default=0.0)
    used = [gap for gap in known if gap.variance > 0.0]
    if not used:
        return Calibrated(0.0, added, above, below)
    inverse, met = np.linalg.pinv(_gram(used, probabilities), hermitian=True), np.zeros(len(used))
    for at in chunks(len(added)):
        near = np.stack([gap.shares(at) for gap in used])
        met += times(near * (1.0 - probabilities[at]), added[at])
    slopes, shorts = inverse @ met, inverse @ np.array([gap.short for gap in used])
    shift, residuals = 0.0, np.empty(len(added))
    for at in chunks(len(added)):
        near, chance = np.stack([gap.shares(at) for gap in used]), 1.0 - probabilities[at]
        leverage = chance * (mixed(inverse, near) * near).sum(axis=0)
        weights = 1.0 + chance * mixed(shorts, near)
        beyond = weights * (added[at] - mixed(slopes, near))
        residuals[at] = beyond / np.maximum(1.0 - leverage, _LEAST_REST)
        shift += dot(np.clip(weights, 0.0, _LARGEST_WEIGHT) - 1.0, added[at])
    return Calibrated(shift, residuals, above, below)


# What a sampled join may be missing: rows that exact totals count and the sample does not show.
#
# Three cases. Exact totals show how many rows of a relation are missing: these belong to values that are not
# followed, often to one heavy value that came late (`missing_of`). The sample shows no joined row of a sampled
# value at all (`unseen_join`). An anti join has rows that the sample does not show, each of which removes rows
# (`most_removed`). What may be missing widens an interval on the side of its sign, on both sides where the sign is
# not known.


_CHANCE, _CONVINCING = 4.0, 12.0
"""Chance explains missing rows up to two standard errors, and not from 3.5 on. Both are squared."""
_MOST_SHORT = 0.9
"""Reductions are assumed to leave at least a tenth of an answer."""
_CORRECTED, _LEFT_UNSURE = 1.5, 1.5
"""Where reductions leave two thirds of an estimate or more, calibration and spread make up for what they drop.
Where they leave less, dropped keys may have grown since by more than the others: of Zipf joins that lost 90% to
99.9999%, the answer was .5 to 2 times the estimate over what was left (decision 14)."""
_TINY = 1e-300
_ERRORS = 2.0
"""Standard errors by which more may be missing than the totals show: the scaled-up sample may be too large."""
_PARTNERS = 0.975
"""The quantile of the rows that another relation has for unfollowed values, which is assumed for a missing one."""


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

    rows: the gaps of their numbers of rows, which show whether rows are missing where weights may cancel. of_rows:
    the gaps are those of all rows, because the totals of an ad hoc query's weights are not known.

    All missing rows are assumed to belong to one unfollowed value. They meet as many rows of the other relations as
    unfollowed values have there, as these relations miss themselves, or as the heaviest dropped value had. A
    relation that may be missing counts at least once, one that only decides at most once. What reductions dropped
    is missing, too, whether totals show it or not.
    """
    most, gone = 0.0, most_gone(quantity)
    low, high = (-gone if quantity.signs[0] else 0.0), (gone if quantity.signs[1] else 0.0)
    rates = quantity.values.probabilities
    views = views_of(gaps, rates)
    counted = views if rows is None or rows is gaps else views_of(rows, rates)
    for variable in range(len(quantity.messages.factors)):
        members = quantity.messages.members(variable)
        short = {k: _short(quantity, k, variable, views, counted[k], of_rows=of_rows) for k in members}
        for relation in members:
            surprises = [each.surprise for each in counted[relation] if each.short > 0.0]
            certainty = certainty_of(max(surprises, default=0.0))
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
    """Return how much larger than its estimate an answer may be, because reductions dropped keys that carried it.

    An estimate that falls short by x of the answer does so by x / (1 - x) of itself.
    """
    if record.variance <= 0.0:
        return 0.0
    short = min(_MOST_SHORT, student(confidence, record.carriers + 1.0) * sqrt(record.variance))
    return abs(value) * short / (1.0 - short)


def most_gone(quantity: SampledQuantity) -> float:
    """Return how much dropped keys may add, by the share of the estimate that reductions left when they ran.

    Where measures cancel, the absolute values of what followed values add count.
    """
    times = 1.0 / max(quantity.values.join.record.left, _TINY)
    if times <= _CORRECTED:
        return 0.0
    links = max(len(quantity.messages.factors), 1)
    size = max(abs(quantity.total), float(np.abs(quantity.added).sum()) / links)
    return _LEFT_UNSURE * (times - _CORRECTED) * size


def certainty_of(surprise: float) -> float:
    """Return how certain it is that rows are missing; surprise: the square of the gap in standard errors."""
    return min(1.0, max(0.0, surprise - _CHANCE) / (_CONVINCING - _CHANCE))


def _short(
    quantity: SampledQuantity,
    relation: int,
    variable: int,
    every: Sequence[Sequence[Gap]],
    rows: Sequence[Gap],
    *,
    of_rows: bool,
) -> tuple[float, float]:
    """Return the range by which a relation may fall short, as what it sends to a link.

    every: for each relation its gap, and what is left beyond the others' gaps. rows: the same of its rows. of_rows: the
    other gaps are also of rows, whatever the quantity weighs.
    """
    views = every[relation]
    if not views or all(each.short <= 0.0 for each in rows):
        return 0.0, 0.0
    gap = views[0]
    ends = [
        each.short * each.exact + side * sqrt(each.variance) * abs(each.exact)
        for each in views
        for side in (-_ERRORS, _ERRORS)
    ]
    low, high = min(ends), max(ends)
    signs = quantity.relation_signs(relation)
    if of_rows:  # only the number of missing rows is known: they get the average weight, of either sign
        scale = _per_row(quantity, relation, variable, every, abs(gap.exact * (1.0 - gap.short)))
        most = min(high, abs(gap.exact))
        return scale * signs[0] * most, scale * signs[1] * most
    if signs == (0.0, 1.0):
        low, high = max(low, 0.0), min(high, gap.exact)
    elif signs == (-1.0, 0.0):
        low, high = max(low, gap.exact), min(high, 0.0)
    scale = _per_row(quantity, relation, variable, every, quantity.relation_size(relation))
    return scale * low, scale * high


def _per_row(
    quantity: SampledQuantity,
    relation: int,
    variable: int,
    every: Sequence[Sequence[Gap]],
    size: float,
) -> float:
    """Return how much a relation sends to a link for each unit of its size.

    Where no row of it is followed, a row is assumed to meet what values of its other links have on average; where
    these have nothing, all missing rows of the other relations there, as if they were of one value.
    """
    messages = quantity.messages
    if size > 0.0:
        sent = messages.own(relation, variable) * messages.factors[variable]
        return float(np.abs(sent, out=sent).sum()) / size
    sizes = []
    for link in messages.relations[relation].variables:
        if link != variable:
            passed = np.abs(np.asarray(messages.passed(link, relation), dtype=np.float64))
            missing = (
                abs(every[k][0].exact) * _per_row(quantity, k, link, every, quantity.relation_size(k))
                for k in messages.members(link)
                if k != relation and every[k]
            )
            sizes.append(float(passed[passed > 0.0].mean()) if passed.any() else prod(missing))
    return prod(sizes)


def _partners_at(
    quantity: SampledQuantity, relation: int, variable: int, short: tuple[float, float]
) -> tuple[float, float]:
    """Return the range of what a relation may send for an unfollowed value of a link.

    short: by how much the relation itself falls short. Each followed value represents 1/pi - 1 unfollowed ones.
    """
    mine = quantity.messages.relations[relation]
    if mine.only_decides:
        return 0.0, 1.0
    sent = np.asarray(quantity.messages.own(relation, variable), dtype=np.float64)
    unfollowed = quantity.messages.factors[variable] - 1.0
    low, high = (sign * _quantile(np.maximum(sign * sent, 0.0), unfollowed) for sign in (-1.0, 1.0))
    low, high = min(low, short[0]), max(high, short[1], _heaviest_dropped(quantity, relation))
    return (1.0 if low == 0.0 else low, max(high, 1.0)) if mine.may_be_missing else (low, high)


def _heaviest_dropped(quantity: SampledQuantity, relation: int) -> float:
    """Return how many rows a relation had of the heaviest dropped value; 0 where it does not count rows."""
    heaviest = quantity.values.join.record.heaviest
    counts = quantity.quantity.nodes[relation].exact.measure == COUNT
    return heaviest[relation] if counts and relation < len(heaviest) else 0.0


def _quantile(sizes: np.ndarray, weights: np.ndarray) -> float:
    """Return the weighted 97.5% quantile of sizes; 0 if there are no sizes."""
    rows = sizes * weights
    if not rows.any():
        return float(sizes.max(initial=0.0))
    order = np.argsort(sizes)
    up_to = np.cumsum(rows[order])
    return float(sizes[order][min(np.searchsorted(up_to, _PARTNERS * up_to[-1]), len(order) - 1)])


def allowed_by_totals(quantity: SampledQuantity, totals: Sequence[float | None]) -> tuple[float, float]:
    """Return the least and the largest possible quantity by the exact totals of its relations.

    Nothing is known where weights of both signs occur. A row that an outer join keeps without a match counts at
    least once.
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
    if len(needed) == len(relations) and len(quantity.messages.factors) == 1:
        # at one link, rows of followed values join only known rows, and the others at most each other
        values = len(quantity.values.join.values[0])  # NULL comes after them and joins nothing
        held = [abs(float(quantity.messages.own(k, 0)[:values].sum())) for k in range(len(relations))]
        left = [max(size - own, 0.0) for size, own in zip(factors, held, strict=True)]
        most = min(most, abs(float(quantity.followed)) + (0.0 if 0.0 in left else prod(left)))
    if len(needed) == 1 and not any(each.only_decides for each in relations):
        least = sizes[needed[0]] or 0.0
    return (least, most) if quantity.signs == (0, 1) else (-most, -least)


def _partner_rows(quantity: SampledQuantity, relation: int, rows: float) -> float:
    """Return how often a row of the other relations may count, given the number of matches in one relation."""
    mine = quantity.messages.relations[relation]
    if mine.only_decides:
        return 1.0
    return max(rows, 1.0) if mine.may_be_missing else rows


def unseen_join(quantity: SampledQuantity, totals: Sequence[float | None], confidence: float) -> float:
    """Return how much a join may hold if the sample shows no row of it, or only values that are surely followed.

    The number of unseen joining values of a link is such that one of them would have been followed with the
    probability of the interval's upper end. Each is assumed to have as many partners as its relations have rows per
    value. The result is at most the product of all totals, and infinite where a total is unknown and nothing of its
    relation is followed.
    """
    relations = range(len(quantity.messages.relations))
    sizes = [_size(quantity, k, totals[k] if k < len(totals) else None) for k in relations]
    product = float(np.prod(sizes))
    if product == 0.0:
        return 0.0
    most = 0.0
    for root in range(len(quantity.values.join.shape.classes)):
        base = _lowest_rate(quantity, root)
        if base >= 1.0:
            continue
        most = max(most, _most_values(base, confidence) * _partners(quantity, root, sizes))
    return min(most, product)


def _lowest_rate(quantity: SampledQuantity, link: int) -> float:
    """Return the lowest rate at which rows of a link are followed; rows whose NULL counts there have their own.

    NULL counts where the relation has the link for itself, as in an ad hoc query, and where a join keeps it.
    """
    join, members = quantity.values.join, quantity.messages.members(link)
    rate = join.state.rosters[join.shape.classes[link]].base
    counting = members if len(members) == 1 or join.null_elements[link] else ()
    return min(rate, *(join.nulls(quantity.quantity.nodes[each]).base for each in counting), 1.0)


def _size(quantity: SampledQuantity, relation: int, exact: float | None) -> float:
    """Return the rows of a relation, or the sum of its measure's absolute values: the most that it counts for."""
    estimate = quantity.relation_size(relation)
    known = max(abs(exact), estimate) if exact is not None else estimate or inf
    return _partner_rows(quantity, relation, known)


def _partners(quantity: SampledQuantity, root: int, sizes: Sequence[float]) -> float:
    """Return how many joined rows a value of a link would have if relations were spread evenly over values."""
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
    """Return how much the anti joins of a query may remove that the sample does not show.

    Where no sampled value removed by an anti join is seen, its side may still have rows of unfollowed values: as
    many rows as its exact total leaves, and at most as many values that one would have been followed with the
    probability of the interval's end. Each removes what the sampled values hold; larger ones are more likely.
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
    """Return how much the rows of an anti join's side, all of unfollowed values, may remove."""
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
    """Return how many values there may be if none of them is followed at a rate, at an end of an interval."""
    return log((1.0 - confidence) / 2.0) / log1p(-base) if 0.0 < base < 1.0 else inf
