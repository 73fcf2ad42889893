"""Aggregates over a join from the key samples of its relations."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf, isfinite, nan, sqrt

import numpy as np

from eddyline.answer.join_terms import self_join
from eddyline.answer.key_sample import JoinedRows, SampleReading, sample_join, sample_ratio
from eddyline.answer.key_sample_join import SampledRelation
from eddyline.answer.reading import Reading, two_sided_z
from eddyline.answer.sketched import Interval, from_population
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.demands import links_of
from eddyline.plan.layout import Term
from eddyline.sketch.key_sample import EVERYTHING, KeySample, KeySampleSpec
from eddyline.sql.query import Query

_RULE_OF_THREE = 3.0
"""What was in none of n joined values may be in 3 / n of them, at 95%: a quotient is never surer than that. What is
not seen may be as large as the root mean square of the measure, which the sketches tell."""


def read_samples(snapshot: Snapshot, query: Query, term: Term) -> SampleReading:
    """Return what the key samples of a term say of its sum over the join, in fixed point."""
    relations = []
    for relation, name in enumerate(term.samples):
        spec = snapshot.layout.by_id[name].spec
        assert isinstance(spec, KeySampleSpec)
        sample = spec.decode(snapshot.counters[name])
        relations.append(SampledRelation(sample, links_of(query, relation)))
    reading = sample_join(relations)
    if reading.exact or reading.rows is None:
        return reading
    limits, tail, norm = reading.rows.limits, 1.0, 1.0
    for index, each in enumerate(relations):
        size = sum(self_join(snapshot, name) for name in {part[index] for part in term.sketches})
        tail = max(tail, _missing_squares(each.sample, [limits[link] for link in each.links], size))
        norm *= sqrt(size)
    return replace(reading, variance=reading.variance * tail, tail=tail, norm=norm)


def _missing_squares(sample: KeySample, limits: Sequence[int], self_join: float) -> float:
    """Return how many times larger a relation's self-join is than the elements that could join make it.

    The sketch sees all of it. Where the sample, cut to the limits of the join, shows much less, it missed the
    elements that are large, and its variance, which goes by squares as the self-join does, is too small by that
    factor.
    """
    kept = (sample.hashes < np.array(limits, dtype=np.uint64)).all(axis=1)
    seen = float((sample.values[kept].astype(np.float64) ** 2).sum())
    rate = float(np.prod([limit / EVERYTHING for limit in limits]))
    return self_join * rate / seen if seen > 0 else 1.0


def scaled(reading: SampleReading, factor: float) -> SampleReading:
    """Return the reading of so many times the sum; an exact one stays an integer where the factor is 1."""
    if factor == 1:
        return reading
    rows = reading.rows
    if rows is not None:
        rows = rows._replace(values=rows.values * factor)
    return replace(
        reading,
        value=reading.value * factor,
        variance=reading.variance * factor**2,
        rows=rows,
        norm=reading.norm * abs(factor),
    )


def aggregate_of(
    function: str,
    readings: Mapping[str, SampleReading],
    sketched: Mapping[str, Reading],
    confidence: float,
) -> Interval:
    """Return the aggregate of a function of SQL from the samples of its terms; wide where they say nothing.

    sketched: the sketches' readings of the same terms, which know of dense values that a sample may have missed.
    """
    missed = {name: missed_variance(reading, sketched[name]) for name, reading in readings.items()}
    if function in ("count", "sum"):
        reading = readings[function]
        return _around(reading.value, max(reading.variance, missed[function]), confidence)
    count = readings["count"]
    if count.value == 0 or count.witnesses == 0:
        return Interval(nan, -inf, inf)
    value, variance, mean = _quotient(function, readings)
    term = readings["sum" if function == "avg" else "squares"]
    typical = max(abs(value), term.norm / count.norm if count.norm else 0.0)
    unseen = (typical * _RULE_OF_THREE / (two_sided_z(0.95) * count.witnesses)) ** 2
    factors = (
        {"sum": 1.0, "count": value}
        if function == "avg"
        else {"squares": 1.0, "sum": 2 * mean, "count": mean**2}
    )
    dense = sum(factor**2 * missed[name] for name, factor in factors.items()) / count.value**2
    tail = max(reading.tail for reading in readings.values())
    interval = _around(value, tail * (variance + unseen) + dense, confidence)
    return interval if function == "avg" else from_population(function, interval, count.value)


def missed_variance(sample: SampleReading, sketch: Reading) -> float:
    """Return the variance that a sample has at least, by the dense values that the sketch knows of.

    A sample that missed the few values which carry a join does not see how much it may be off. The sketch knows
    these values: with a link's values kept at rate p, those that it knows alone make a variance of (1 - p)/p times
    the sum of the squares of what joins through them. Values that a sketch cannot see move a sample by less than
    the sketch's own error.
    """
    if sample.rows is None or not sketch.dense_squares:
        return 0.0
    rates = sample.rows.rates
    return float(sum((1 - p) / p * square for p, square in zip(rates, sketch.dense_squares, strict=True)))


def _quotient(function: str, readings: Mapping[str, SampleReading]) -> tuple[float, float, float]:
    """Return (value, variance, mean) of an average, or of the population's variance."""
    mean, variance = sample_ratio(readings["sum"], readings["count"])
    if function == "avg":
        return mean, variance, mean
    deviations = _combination(
        [readings["squares"], readings["sum"], readings["count"]], [1.0, -2 * mean, mean * mean]
    )
    if deviations is None:
        return mean, inf, mean
    return *sample_ratio(deviations, readings["count"]), mean


def _around(value: float, variance: float, confidence: float) -> Interval:
    half = two_sided_z(confidence) * sqrt(variance) if isfinite(variance) else inf
    return Interval(value, value - half, value + half)


def _combination(readings: Sequence[SampleReading], factors: Sequence[float]) -> SampleReading | None:
    """Return the sum of readings, each times its factor, or None where their joined rows are not known."""
    rows = [reading.rows for reading in readings if reading.rows is not None]
    if len(rows) < len(readings):
        return None
    limits = tuple(min(each) for each in zip(*(part.limits for part in rows), strict=True))
    shifts = tuple(max(each) for each in zip(*(part.shifts for part in rows), strict=True))
    cut = [part.within(limits, shifts) for part in rows]
    together = JoinedRows(
        np.concatenate([part.hashes for part in cut]),
        np.concatenate([factor * part.values for part, factor in zip(cut, factors, strict=True)]),
        limits,
        shifts,
    )
    value = sum(factor * reading.value for reading, factor in zip(readings, factors, strict=True))
    exact, witnesses = all(r.exact for r in readings), min(r.witnesses for r in readings)
    return SampleReading(value, inf, witnesses, exact=exact, rate=readings[0].rate, rows=together)
