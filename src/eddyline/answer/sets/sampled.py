"""Distinct counts and set expressions from a stream sample: followed values, each weighted by 1/pi.

Of a followed value everything is known, so it is known whether it is in the expression. The count is the sum of
1/pi over those that are; as with theta sketches, its error depends on how many there are and not on the streams.
"""

import numpy as np

from eddyline.answer.interval import of_followed_count
from eddyline.answer.joins.sample_estimate import SampleEstimate
from eddyline.sample.join import Join
from eddyline.sample.set_members import null_in_set, set_values


def read_sample_set(join: Join, confidence: float) -> SampleEstimate:
    """Return how many values are in a set expression."""
    has_null, certain = null_in_set(join)
    rates = np.append(join.probabilities[0][set_values(join)], [1.0] * has_null)
    witnesses = len(rates)
    if join.follows_all:
        return SampleEstimate(
            witnesses, witnesses, witnesses, exact=True, followed=witnesses, witnesses=witnesses
        )
    base = join.state.rosters[join.shape.classes[0]].base
    value = float((1.0 / rates).sum())
    variance = float(((1.0 - rates) / rates**2).sum())
    _, low, high = of_followed_count(value, variance, base, confidence)
    return SampleEstimate(
        value,
        max(low, witnesses) - (has_null and not certain),
        max(high, witnesses) + (not has_null and not certain),
        followed=witnesses,
        unfollowed=value - witnesses,
        variance=variance,
        cautious_variance=variance,
        carriers=max(1.0, witnesses),
        witnesses=witnesses,
        base=base,
        lowest_rate=float(rates.min(initial=1.0)),
    )
