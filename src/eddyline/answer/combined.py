"""One answer from two readings of a join: sketches and key samples, weighed by their variances.

They fail in opposite ways. A sketch is best where few values carry the join, a sample where many values carry
it evenly, such as keys and foreign keys. Each reading knows its own variance, and the weights follow from it.
"""

from math import isfinite, isnan

from eddyline.answer.sketched import Interval

ALONE = 0.9
"""From this weight on a reading is said to have carried the answer alone."""
APART = 1.5
"""Intervals that miss each other by this factor say that the sample missed what carries the join: a sketch knows
how far it may be off, a sample only what it has seen."""
SAMPLE = "key-sample"


def combine(sketch: Interval, sample: Interval, sketch_method: str) -> tuple[Interval, str]:
    """Return (interval, method): the mean by inverse variance, and which reading carried it."""
    if not isfinite(sample.half) or isnan(sample.value):
        return sketch, sketch_method
    if not isfinite(sketch.half) or isnan(sketch.value):
        return sample, SAMPLE
    if sketch.half == sample.half == 0:
        return sketch, sketch_method
    if abs(sketch.value - sample.value) > APART * (sketch.half + sample.half):
        return sketch, sketch_method
    wider = max(sketch.half, sample.half)
    one, other = sketch.half / wider, sample.half / wider
    weight = other**2 / (one**2 + other**2)
    value = weight * sketch.value + (1 - weight) * sample.value
    half = wider * one * other / (one**2 + other**2) ** 0.5
    return Interval(value, value - half, value + half), _method(weight, sketch_method)


def _method(weight: float, sketch_method: str) -> str:
    """Return which reading carried the answer: one alone, or both."""
    if weight >= ALONE:
        return sketch_method
    return SAMPLE if weight <= 1 - ALONE else f"{sketch_method} and {SAMPLE}"
