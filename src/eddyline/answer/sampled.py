"""Aggregates over a join from the key samples of its relations."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf, isfinite, isnan, sqrt

import numpy as np

from eddyline.answer.key_sample import JoinedRows, SampleReading, sample_join, sample_ratio
from eddyline.answer.key_sample_join import SampledRelation
from eddyline.answer.reading import Reading, two_sided_z
from eddyline.answer.sketched import Interval, from_population
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.demands import links_of
from eddyline.plan.layout import Term
from eddyline.sketch.key_sample import KeySampleSpec
from eddyline.sql.query import Query


def read_samples(snapshot: Snapshot, query: Query, term: Term) -> SampleReading:
    """Return what the key samples of a term say of its sum over the join, in fixed point."""
    relations = []
    for relation, name in enumerate(term.samples):
        spec = snapshot.layout.by_id[name].spec
        assert isinstance(spec, KeySampleSpec)
        sample = spec.decode(snapshot.counters[name])
        relations.append(SampledRelation(sample, links_of(query, relation)))
    return sample_join(relations)


def scaled(reading: SampleReading, factor: float) -> SampleReading:
    """Return the reading of so many times the sum; an exact one stays an integer where the factor is 1."""
    if factor == 1:
        return reading
    rows = reading.rows
    if rows is not None:
        rows = rows._replace(values=rows.values * factor)
    return replace(reading, value=reading.value * factor, variance=reading.variance * factor**2, rows=rows)


def cautious(sample: SampleReading, sketch: Reading) -> SampleReading:
    """Return a reading whose variance allows for the dense values that the sketch knows of.

    A sample that missed the few values which carry a join does not see how much it may be off. The sketch knows
    these values: with a link's values kept at rate p, those that it knows alone make a variance of (1 - p)/p times
    the sum of the squares of what joins through them. Values that a sketch cannot see move a sample by less than
    the sketch's own error.
    """
    if sample.rows is None or not sketch.dense_squares or not isfinite(sample.variance):
        return sample
    rates = sample.rows.rates
    floor = sum((1 - p) / p * square for p, square in zip(rates, sketch.dense_squares, strict=True))
    return replace(sample, variance=max(sample.variance, float(floor)))


def aggregate_of(function: str, readings: Mapping[str, SampleReading], confidence: float) -> Interval:
    """Return the aggregate of a function of SQL from the samples of its terms; wide where they say nothing."""
    if function in ("count", "sum"):
        reading = readings[function]
        return _around(reading.value, reading.variance, confidence)
    interval = _quotient(function, readings, confidence)
    return _widened(interval, readings["count"], confidence)


def _widened(interval: Interval, count: SampleReading, confidence: float) -> Interval:
    """Return a quotient's interval at least as wide, relatively, as that of the count where it is very uncertain.

    A quotient of a sample that missed what carries the join is off by as much as its parts.
    """
    uncertain = two_sided_z(confidence) * sqrt(count.variance) / abs(count.value) if count.value else inf
    half = max(interval.half, abs(interval.value) * uncertain) if uncertain > 1 else interval.half
    return Interval(interval.value, interval.value - half, interval.value + half)


def _quotient(function: str, readings: Mapping[str, SampleReading], confidence: float) -> Interval:
    if function == "avg":
        return _around(*sample_ratio(readings["sum"], readings["count"]), confidence)
    mean, _ = sample_ratio(readings["sum"], readings["count"])
    deviations = _combination(
        [readings["squares"], readings["sum"], readings["count"]], [1.0, -2 * mean, mean * mean]
    )
    if isnan(mean) or deviations is None:
        return Interval(mean, -inf, inf)
    spread = _around(*sample_ratio(deviations, readings["count"]), confidence)
    return from_population(function, spread, readings["count"].value)


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
