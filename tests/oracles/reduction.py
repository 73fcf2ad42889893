"""What a reduction costs a query, by whole columns: the same formulas as `sample.reduction`, step by step."""

import numpy as np

from eddyline.sample.messages import added, sampled_messages
from eddyline.sample.state import Record


def cost(join, rosters):
    """Return what a reduction to some rosters adds to the record of a query."""
    messages = sampled_messages(join, join.shape.quantities.get("count", join.first))
    total, links = messages.total(), range(len(join.shape.classes))
    read = [k for k, mine in enumerate(messages.relations) if not mine.only_decides]
    shares, scaled, rates, stays, known = [], [], [], [], []
    for variable, link in enumerate(join.shape.classes):
        values = join.values[variable]
        share = messages.met(variable) * messages.factors[variable] / (total or 1.0)
        shares.append(share[: len(values)])
        rates.append(join.probabilities[variable][: len(values)])
        scaled.append(rates[-1] / np.maximum(rosters[link].rates_of_held(values), 2.0**-53))
        stays.append(np.ones(len(values), dtype=np.bool_))
        rosters[link].drop_unfollowed(values, stays[-1])
        known.append(np.zeros((len(read), len(values))))
    heaviest = np.zeros(len(messages.relations))
    for row, relation in enumerate(read):
        mine, weights = messages.relations[relation], messages.scaled_weights(relation)
        for variable, places in zip(mine.variables, mine.places, strict=True):
            held = added(weights, places, messages.sizes[variable])[: len(shares[variable])]
            known[variable][row] = held / (weights.sum() or 1.0)
        for link in links:
            dropped = (known[link][row] * rates[link] * ~stays[link]).max(initial=0.0)
            heaviest[relation] = max(heaviest[relation], dropped * (weights.sum() or 1.0))
    if total == 0.0:
        for link in links:
            there = [row for row in known[link] if row.any()]
            if there:
                product = np.abs(np.prod(there, axis=0)) ** (len(read) / len(there))
                shares[link] = product / (product.sum() or 1.0)
    left = 1.0
    for share, scale, stay in zip(shares, scaled, stays, strict=True):
        left *= max(1.0 + float(share @ (stay * scale - 1.0)), 1e-9)
    gone = tuple(heaviest.tolist()) if heaviest.any() else ()
    if total == 0.0:
        return Record(left=left, heaviest=gone)
    weights = np.maximum(np.concatenate(scaled) - 1.0, 0.0)
    terms = residuals(np.concatenate(shares), np.concatenate(known, axis=1), weights)
    return Record(float(terms.sum()), float((terms**2).sum()), left, gone)


def residuals(y, z, weights):
    """Return the weighted squares of what a regression of y on z leaves."""
    z = z[(z**2 @ weights) > 0.0]
    if len(z):
        gram = z * weights @ z.T
        gram[np.diag_indices(len(z))] *= 1.0 + ((z**2 * weights) ** 2).sum(axis=1) / np.diag(gram) ** 2
        y = y - np.linalg.pinv(gram, hermitian=True) @ (z * weights @ y) @ z
    return weights * y**2
