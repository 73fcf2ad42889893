"""Distinct counts and set expressions from a stream sample: followed values, each weighted by 1/pi.

Of a followed value everything is known, so it is known whether it is in the expression. The count is the sum of
1/pi over those that are; as with theta sketches, its error depends on how many there are and not on the streams.
"""

from math import inf, sqrt

from eddyline.answer.joins.row_estimates import two_sided_z
from eddyline.answer.joins.sample_estimate import SampleEstimate
from eddyline.sample.messages import Join, set_values

_CAUTION = 1.1
"""The rates were chosen by looking at the sample: the variance at fixed rates is a little too small."""


def read_sample_set(join: Join, confidence: float) -> SampleEstimate:
    """Return how many values are in a set expression.

    The ends are Wilson's, solved for the number of values: n with (n - estimate)^2 = z^2 n (1 - pi)/pi, so that few
    witnesses, or none, give honest ends. Unseen values are taken to be followed at the base rate.
    """
    rates = join.probabilities[0][set_values(join)]
    witnesses = len(rates)
    if join.follows_all:
        return SampleEstimate(
            witnesses, witnesses, witnesses, exact=True, followed=witnesses, witnesses=witnesses
        )
    base = join.state.rosters[join.shape.classes[0]].base
    value = float((1.0 / rates).sum())
    variance = float(((1.0 - rates) / rates**2).sum())
    z = _CAUTION * two_sided_z(confidence)
    lower_shift = z * z * (variance / value if value else 0.0) / 2.0
    upper_shift = z * z * ((1.0 - base) / base if base > 0.0 else inf) / 2.0
    low = value + lower_shift - sqrt(z * z * variance + lower_shift**2)
    high = value + upper_shift + sqrt(z * z * variance + upper_shift**2)
    return SampleEstimate(
        value,
        max(low, witnesses),
        max(high, witnesses),
        followed=witnesses,
        unfollowed=value - witnesses,
        variance=variance,
        cautious_variance=variance,
        carriers=max(1.0, witnesses),
        witnesses=witnesses,
        base=base,
        lowest_rate=float(rates.min(initial=1.0)),
    )
