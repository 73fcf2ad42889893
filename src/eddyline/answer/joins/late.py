"""Joins on one link with keys that became heavy late: sketches of the rows of unfollowed keys show them.

A late key has an estimate of its rows in each relation, from the relation's sketch. What it adds to the join is added
to the answer of the sample, whose exact totals are lowered by the rows of late keys. The sample must then not count
these keys a second time: a followed key counts 1/pi because it stands for keys that are not followed. If the sketches
would have shown it as well, it stands only for itself. So the test that finds late keys is applied to followed keys,
too: to their exact rows plus what the sketch shows at the key, which is its noise. Those that pass count once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import hypot, inf, isfinite, sqrt

import numpy as np

from eddyline.aggregates.catalog import moment_named
from eddyline.answer.heavy_keys import STANDARD_ERRORS, KeyFrequencies, heavy_keys
from eddyline.answer.interval import FloatArray, half_width_of_key
from eddyline.answer.joins.quantities import single_words
from eddyline.answer.joins.sampled import Totals, estimate_of_quantities, read_sample_join
from eddyline.answer.joins.sampled_ratios import SampleEstimate, row_differences
from eddyline.answer.joins.sampled_values import SampledQuantity, sampled_quantities
from eddyline.answer.joins.skimming import Places, places
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.decide.facets import ROWS
from eddyline.plan.decide.rest_sketches import sketch_of_relation
from eddyline.plan.decide.shapes import rows_of_join
from eddyline.plan.layout import PlannedQuery
from eddyline.sample.join import DECIDING, Join, Relation, Turn
from eddyline.sample.messages import added
from eddyline.sample.packing import BoolArray, IntArray, chunks
from eddyline.sample.spec import COUNT, Quantity
from eddyline.sample.state import Record
from eddyline.sketch.hash_sketch import HashSketchSpec

SAMPLE, BOTH = "sample", "sample and skimmed"
"""Methods of answers."""
_AT_ONCE = 64
"""Late keys whose possible partners are compared at a time."""
_SKEWED = 1.25
"""The factor of the error of light partners: the largest 2.5% of Poisson numbers of mean 1 are 2.5 deviations away."""
_TINY = 1e-300
_LIGHT_ERRORS = 2.0
"""Standard errors up to which a key may have more rows than the sketch reads, where it does not stand out."""
_ENOUGH_KEYS = 39
"""With as many followed keys, one more lies beyond their extremes with a chance of 5%; with fewer, these move out."""


@dataclass(frozen=True)
class LateReading:
    """The answer of a join with its late keys; totals: exact ones without late keys; number: of late keys.

    unknown_rows: the most joined rows of late keys whose measures are not known.
    """

    estimate: SampleEstimate
    totals: Totals
    number: int = 0
    unknown_rows: float = 0.0


def read_late_join(
    snapshot: Snapshot, planned: PlannedQuery, join: Join, function: str, totals: Totals, confidence: float
) -> LateReading:
    """Return the answer of an aggregate over a join, with its late keys where sketches show them."""
    late = late_keys(snapshot, planned, join)
    if late is None or not all(name in totals for name in join.shape.quantities):
        return LateReading(read_sample_join(join, function, totals, confidence), totals)
    left = late.left_of(totals)
    if len(late) == 0:
        return LateReading(read_sample_join(late.join, function, left, confidence), left)
    if moment_named(function).is_sum:
        base = read_sample_join(late.join, function, left, confidence)
        return LateReading(with_sum(base, late.added(base.quantities[function]), confidence), left, len(late))
    if late.frequencies.keys() >= {"sum", "count"} == join.shape.quantities.keys():
        base = read_sample_join(late.join, function, left, confidence)
        return LateReading(_with_average(base, late, left, confidence), left, len(late))
    rows = late.most_rows(confidence)
    base = read_sample_join(late.join, function, left, confidence, rows)
    return LateReading(base, left, len(late), rows)


def late_keys(snapshot: Snapshot, planned: PlannedQuery, join: Join) -> "LateKeys | None":
    """Return the late keys of a sampled join, None for a query without sketches of unfollowed keys."""
    if not planned.rest_sketches or not planned.query.links or join.is_known:
        return None
    sample = snapshot.layout.sample(planned.sample or "")
    return LateKeys.of(snapshot, planned.rest_sketches, join, rows_of_join(planned.query, sample))


@dataclass(frozen=True)
class Added:
    """What each late key adds to a quantity, the variance of that, and how far it may lie below and above at most."""

    values: FloatArray
    variances: FloatArray
    below: FloatArray | float = 0.0
    above: FloatArray | float = 0.0

    @property
    def total(self) -> float:
        """What all late keys add."""
        return float(self.values.sum())

    def ends(self, confidence: float) -> tuple[float, float]:
        """Return how far the total may lie below and above its estimate; keys are independent of each other."""
        half = _half(float(self.variances.sum()), confidence)
        low, high = (sqrt(half**2 + float(np.sum(side**2))) for side in (self.below, self.above))
        return low, high


@dataclass(frozen=True)
class LateKeys:
    """The late keys of a join on one link, and the join in which followed keys like them count once.

    frequencies: of the late keys, for each quantity that has sketches one for each relation. rows: the quantity that
    counts joined rows, whose sketches are `counted`.
    """

    keys: IntArray
    join: Join
    frequencies: Mapping[str, Sequence[KeyFrequencies]]
    rows: Quantity
    counted: Sequence[KeyFrequencies]

    def __len__(self) -> int:
        return len(self.keys)

    @classmethod
    def of(cls, snapshot: Snapshot, sketches: Mapping[str, str], join: Join, rows: Quantity) -> "LateKeys":
        """Return the late keys that any of the sketches of a query shows; sketches: by `sketch_of_relation`."""
        found = heavy_keys(snapshot, list(sketches.values()))
        rests = {
            each: _Rest.of(snapshot, each, found.keys, found.frequencies[each].values)
            for each in dict.fromkeys(sketches.values())
        }
        # older plans have no sketches of rows, but those of their first quantity
        quantities = {
            name: each
            for name, each in ({ROWS: rows} | join.shape.quantities).items()
            if sketch_of_relation(name, 0) in sketches
        }
        names = {
            name: [sketches[sketch_of_relation(name, k)] for k in range(len(each.nodes))]
            for name, each in quantities.items()
        }
        link, size = join.shape.classes[0], len(join.values[0])
        sampled = np.flatnonzero(join.probabilities[0][:size] < 1.0)
        values, alike = join.values[0][sampled], np.zeros(len(sampled), dtype=np.bool_)
        held: dict[str, list[FloatArray]] = {each: [] for each in rests}
        for name, own in names.items():
            for relation, each in zip(join.whole_relations(quantities[name]), own, strict=True):
                held[each].append(_held(join, relation)[sampled])
        for each, rest in rests.items():
            alike |= rest.shows(values, held.pop(each))
        if alike.any():
            rosters = list(join.state.rosters)
            rosters[link] = rosters[link].with_rates(values[alike], np.ones(int(alike.sum())))
            join = Join(replace(join.state, rosters=tuple(rosters)), join.shape, join.filled)
        read = {name: [found.frequencies[each] for each in own] for name, own in names.items()}
        counted = next(iter(quantities))
        late = cls(found.keys, join, read, quantities[counted], read[counted])
        return late._without_regained()

    def _without_regained(self) -> "LateKeys":
        """Return the same, with the record of reductions without what late keys add: dropped keys are among these."""
        if len(self) == 0 or self.join.record == Record():
            return self
        held, more = self.pairs.total, self.rows_added.total
        share = held / (held + max(more, 0.0)) if held > 0.0 else 0.0
        records = {**self.join.state.records, self.join.shape.name: self.join.record.regained(share)}
        state = replace(self.join.state, records=records)
        made = replace(self, join=Join(state, self.join.shape, self.join.filled))
        made.__dict__.update({name: self.__dict__[name] for name in ("pairs", "_rows_sent", "rows_added")})
        return made

    @cached_property
    def pairs(self) -> SampledQuantity:
        """The joined rows as the sample sees them."""
        return sampled_quantities(self.join.only({ROWS: self.rows}))[ROWS]

    @cached_property
    def own_rows(self) -> list[FloatArray]:
        """What late keys are expected to hold in each relation."""
        return [each.own for each in self._rows_sent]

    @cached_property
    def rows_added(self) -> Added:
        """The joined rows of late keys."""
        return self._product(self._rows_sent)

    @cached_property
    def _rows_sent(self) -> list["_Sent"]:
        return self._sent(self.rows, self.counted)

    def _sent_of(self, name: str) -> list["_Sent"]:
        """Return what the relations send for a quantity that has sketches."""
        if self.frequencies[name] is self.counted:
            return self._rows_sent
        return self._sent(self.join.shape.quantities[name], self.frequencies[name])

    def most_rows(self, confidence: float) -> float:
        """Return the most joined rows that late keys may have."""
        return self.rows_added.total + self.rows_added.ends(confidence)[1]

    def left_of(self, totals: Totals) -> dict[str, list[float | None]]:
        """Return the exact totals of each quantity's relations without late keys.

        What late keys sum to is known from sketches of it. Without those their rows are taken to be like all rows.
        """
        return {
            name: list(known) if len(self) == 0 else self._left(name, known, totals)
            for name, known in totals.items()
        }

    def _left(self, name: str, known: Sequence[float | None], totals: Totals) -> list[float | None]:
        if name in self.frequencies:
            return [
                None if exact is None else exact - float(each.own.sum())
                for exact, each in zip(known, self._sent_of(name), strict=True)
            ]
        rows = totals.get(ROWS, totals.get("count", ()))
        left = list[float | None]()
        for relation, (exact, each) in enumerate(zip(known, self.own_rows, strict=False)):
            late, all_rows = float(each.sum()), rows[relation] if relation < len(rows) else None
            if all_rows is None:
                all_rows = self.pairs.relation_weights(relation)[0] + late
            left.append(None if exact is None else exact * max(1.0 - late / max(all_rows, 1.0), 0.0))
        return left

    def added(self, quantity: SampledQuantity) -> Added:
        """Return what late keys add to a quantity: by its own sketches, or by the joined rows that they have.

        A joined row of a late key adds on average what one of followed keys does, and at least and at most what one
        of any of these does: a late key may be unlike the others.
        """
        name = next((n for n, each in self.join.shape.quantities.items() if each == quantity.quantity), "")
        if name in self.frequencies and not quantity.is_conditioned:
            return self._product(self._sent_of(name))
        counted, each = self.rows_added, PerRow.of(quantity, self.pairs)
        values, there = counted.values * each.mean, counted.values + counted.above > 0.0
        rows = np.stack([counted.values - counted.below, counted.values + counted.above])[:, there]
        with np.errstate(invalid="ignore"):  # no rows times no bound
            ends = np.concatenate([rows * each.least, rows * each.most])
        far = np.where(np.isnan(ends), 0.0, ends) - values[there]
        below, above = -far.min(axis=0, initial=0.0), far.max(axis=0, initial=0.0)
        return Added(values, counted.variances * each.mean**2, below, above)

    def _product(self, relations: Sequence["_Sent"]) -> Added:
        """Return what late keys add to a quantity: the product of what its relations send.

        A key meets the same keys in the buckets of all sketches, which hash alike. If these are heavy in several
        relations, its errors there have one sign. So the relative errors are added. An anti join removes the rows of a
        late key from what is kept: it errs by the error of these rows.
        """
        mean, most, dropped = (np.ones(len(self)) for _ in range(3))
        for sent in relations:
            error = np.sqrt(np.maximum(sent.square - sent.mean**2, 0.0))
            mean, most = mean * sent.mean, most * (np.abs(sent.mean) + error)
            dropped = dropped * (sent.mean + sent.dropped)
        removed = [each.square - each.mean**2 for each in relations if each.turn is Turn.PLAIN]
        anti = any(each.turn is Turn.ANTI for each in relations)
        variances = (most - np.abs(mean)) ** 2 + sum(removed if anti else [], np.zeros(len(self)))
        more = dropped - mean
        return Added(mean, variances, np.maximum(-more, 0.0), np.maximum(more, 0.0))

    def _sent(self, quantity: Quantity, read: Sequence[KeyFrequencies]) -> list["_Sent"]:
        relations = self.join.whole_relations(quantity)
        held = [_held(self.join, relation) for relation in relations]
        weights = 1.0 / self.join.probabilities[0][: len(self.join.values[0])] - 1.0
        found = []
        for k, relation in enumerate(relations):
            partners = np.logical_or.reduce([each != 0.0 for j, each in enumerate(held) if j != k])
            like = partners & (weights > 0.0)
            like = like if like.any() else weights > 0.0
            sent = _Sent.of(relation.turn(0), read[k], held[k][like], weights[like])
            counts = quantity.nodes[k].exact.measure == COUNT and relation.turn(0) not in DECIDING
            heaviest = self.join.record.heaviest[k : k + 1] if counts else ()
            found.append(sent.with_dropped(read[k], *heaviest))
        return found


@dataclass(frozen=True)
class PerRow:
    """What a joined row of a followed key adds to a quantity: on average over all keys, and the extremes of keys."""

    mean: float
    least: float
    most: float

    @classmethod
    def of(cls, quantity: SampledQuantity, rows: SampledQuantity) -> "PerRow":
        """Return it from what keys add to a quantity, and the joined rows that they have."""
        counts = all(node.exact.measure == COUNT for node in quantity.quantity.nodes)
        held = rows.added > 0.0
        if not held.any():
            return cls(0.5, 0.0, 1.0) if counts else cls(0.0, -inf, inf)
        mean = float(quantity.added[held].sum() / rows.added[held].sum())
        if counts:
            return cls(mean, 0.0, 1.0)
        each = quantity.added[held] / rows.added[held]
        if len(each) < 2:
            return cls(mean, -inf, inf)
        wider = max(_ENOUGH_KEYS / len(each), 1.0)
        least, most = mean - wider * (mean - float(each.min())), mean + wider * (float(each.max()) - mean)
        none = (0.0,) if quantity.is_conditioned else ()  # no row of the key may meet the condition
        return cls(mean, min(least, *none, mean), max(most, *none, mean))


def _held(join: Join, relation: Relation) -> FloatArray:
    """Return what a relation holds at each value of the only link."""
    held = added(relation.weights, relation.places[0], join.sizes[0])
    return np.asarray(held[: len(join.values[0])], dtype=np.float64)


@dataclass(frozen=True)
class _Sent:
    """What a relation sends to the link for each late key: its mean, its mean square, and the rows themselves.

    A key that stands out in the relation's sketch has the sketch's frequency. Another one is light there. It has the
    rows of a key that is not followed, as likely as the followed keys show and as the sketch's reading allows. dropped:
    how much more that may be, because reductions dropped a key with more rows.
    """

    mean: FloatArray
    square: FloatArray
    own: FloatArray
    turn: Turn
    dropped: FloatArray | float = 0.0

    def with_dropped(self, read: KeyFrequencies, heaviest: float = 0.0) -> "_Sent":
        """Return the same with how much more it may be if a light key is the heaviest that reductions dropped.

        A key that the sketch does not show has at most the rows that its reading allows.
        """
        most = np.minimum(heaviest, read.values + _LIGHT_ERRORS * read.errors)
        return replace(self, dropped=np.where(read.stand_out, 0.0, np.maximum(most - self.mean, 0.0)))

    @classmethod
    def of(cls, turn: Turn, read: KeyFrequencies, held: FloatArray, weights: FloatArray) -> "_Sent":
        """Return what is sent; held: what followed keys hold there, weights: how many keys each stands for."""
        sizes, places = np.unique(held, return_inverse=True)
        shares = np.bincount(places, weights=weights, minlength=len(sizes))
        own, mean = read.values.copy(), _turned(read.values, turn)
        square = mean**2 + (0.0 if turn in DECIDING else read.errors**2)
        light = np.flatnonzero(~read.stand_out)
        if len(sizes) == 0:  # no followed key is like a late one: there is only the reading
            own[light] = np.maximum(read.values[light], 0.0)
            mean[light] = _turned(own[light], turn)
            square[light] = mean[light] ** 2 + (1.0 if turn in DECIDING else read.errors[light] ** 2)
            return cls(mean, square, own, turn)
        sent = _turned(sizes, turn)
        for start in range(0, len(light), _AT_ONCE):
            at = light[start : start + _AT_ONCE]
            far = (read.values[at, None] - sizes) / np.maximum(read.errors[at, None], _TINY)
            chance = shares * np.exp(0.5 * (far**2).min(axis=1, keepdims=True) - 0.5 * far**2)
            chance /= chance.sum(axis=1, keepdims=True)
            mean[at], own[at] = chance @ sent, chance @ sizes
            square[at] = mean[at] ** 2 + _SKEWED**2 * np.maximum(chance @ sent**2 - mean[at] ** 2, 0.0)
        return cls(mean, square, own, turn)


def _turned(sizes: FloatArray, turn: Turn) -> FloatArray:
    """Return what a relation sends where it holds some sizes and another relation has rows."""
    if turn is Turn.PLAIN:
        return sizes.copy()
    if turn in (Turn.OUTER, Turn.FULL):
        return np.where(sizes > 0.0, sizes, 1.0)
    return np.asarray((sizes > 0.0) == (turn is Turn.SEMI), dtype=np.float64)


@dataclass(frozen=True)
class _Rest:
    """A sketch of unfollowed rows without its heavy keys: nothing but noise for keys that are followed."""

    spec: HashSketchSpec
    rows: FloatArray
    fitted: int

    @classmethod
    def of(cls, snapshot: Snapshot, name: str, keys: IntArray, values: FloatArray) -> "_Rest":
        kept = snapshot.layout.by_id[name]
        assert isinstance(kept.spec, HashSketchSpec)
        spec, one = kept.spec, single_words(snapshot, kept)
        rows = one.counters.astype(np.float64).reshape(spec.depth, spec.width) * one.unit
        at, order = _places(spec, keys)
        for row in range(spec.depth):
            taken = at.signs[:, row] * values[order]
            rows[row] -= np.bincount(at.buckets[:, row], weights=taken, minlength=spec.width)
        return cls(spec, rows, len(keys))

    @cached_property
    def noise(self) -> float:
        """The standard error of a key, by the noise of all counters."""
        cells, depth = self.rows.size, len(self.rows)
        return sqrt(float((self.rows**2).sum()) / max(cells - self.fitted, 1) / depth)

    def shows(self, keys: IntArray, held: Sequence[FloatArray]) -> BoolArray:
        """Return which followed keys the sketch would show as heavy; held: their rows in each relation that it reads.

        The error of a key is that of fitted keys, and not below the noise: most keys are excluded by the noise alone.
        """
        found = np.zeros(len(keys), dtype=np.bool_)
        for some in chunks(len(keys)):
            at, order = _places(self.spec, keys[some])
            each = self.rows[np.arange(len(self.rows)), at.buckets] * at.signs
            noise = each.mean(axis=1)
            for own in held:
                sizes = np.abs(own[some][order] + noise)
                near = np.flatnonzero((sizes >= STANDARD_ERRORS * self.noise) & (sizes != 0.0))
                errors = each[near].std(axis=1, ddof=1) / sqrt(len(self.rows))
                found[some][order[near]] |= sizes[near] >= STANDARD_ERRORS * np.maximum(errors, self.noise)
        return found


def _places(spec: HashSketchSpec, keys: IntArray) -> tuple[Places, IntArray]:
    """Return (the places of distinct keys, the index of the key at each place)."""
    unsigned = np.ascontiguousarray(keys, dtype=np.int64).view(np.uint64)
    return places(spec, unsigned), np.argsort(unsigned, kind="stable")


# The answer with what late keys add.


def with_sum(base: SampleEstimate, late: Added, confidence: float) -> SampleEstimate:
    """Return COUNT or SUM with late keys."""
    value, (below, above) = base.value + late.total, late.ends(confidence)
    low, high = hypot(base.value - base.low, below), hypot(base.high - base.value, above)
    return replace(base, value=value, low=value - low, high=value + high)


def _half(variance: float, confidence: float) -> float:
    return float(half_width_of_key(np.array([sqrt(variance)]), confidence)[0])


def _with_average(base: SampleEstimate, late: LateKeys, left: Totals, confidence: float) -> SampleEstimate:
    """Return AVG with late keys: the average of the sample's rows and of theirs, weighted by their numbers."""
    counted = late.added(base.quantities["count"])
    rows, own = (
        estimate_of_quantities(base.quantities, "count", left, confidence),
        float(counted.values.sum()),
    )
    if not isfinite(base.value) or rows.value <= 0.0 or own <= 0.0:
        return base
    means, variances = _averages(base, late)
    mean = float(np.average(means, weights=counted.values)) if own else base.value
    spread = float((counted.values**2 * variances + counted.variances * (means - mean) ** 2).sum()) / own**2
    share = own / (own + rows.value)
    relative = float(counted.variances.sum()) / own**2
    uncertain = share * (1.0 - share) * (mean - base.value)
    half = _half(share**2 * spread + uncertain**2 * relative, confidence)
    rest = uncertain * max(rows.high - rows.value, rows.value - rows.low) / rows.value
    value = base.value + share * (mean - base.value)
    ends = (
        sqrt(((1.0 - share) * side) ** 2 + half**2 + rest**2)
        for side in (base.value - base.low, base.high - base.value)
    )
    return replace(base, value=value, low=value - next(ends), high=value + next(ends), mean=value)


def _averages(base: SampleEstimate, late: LateKeys) -> tuple[FloatArray, FloatArray]:
    """Return (the average of each late key, its variance); that of the sample where its rows do not stand out."""
    quantity = late.join.shape.quantities["sum"]
    means = np.full(len(late), base.value)
    variances = np.full(len(late), row_differences(base.quantities, base.factors or {}))
    measured = [k for k, node in enumerate(quantity.nodes) if node.exact.measure != COUNT]
    if len(measured) == 1:
        total, count = (late.frequencies[name][measured[0]] for name in ("sum", "count"))
        known: BoolArray = count.stand_out & (count.values > 0.0)
        means[known] = (total.values / np.where(known, count.values, 1.0))[known]
        errors = total.errors**2 + (means * count.errors) ** 2
        variances[known] = (errors / np.where(known, count.values, 1.0) ** 2)[known]
    return means, variances
