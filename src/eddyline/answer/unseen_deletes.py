"""Deletes of rows that never came: what a stream shows that was followed from the middle of a table's life.

A net count below zero cannot be of any table. The dictionaries of stream samples show such elements; those that are not
followed are estimated from those that are. Deletes that hit keys with as many inserts of other rows stay unseen.
"""

import numpy as np

from eddyline.answer import notes
from eddyline.ingest.snapshot import Snapshot
from eddyline.plan.layout import Demand
from eddyline.sample.dictionary import Dictionary
from eddyline.sample.roster import HASH_STEP
from eddyline.sample.state import SampleState

_COUNT = -1  # where a dictionary has net counts


def noted_deletes(snapshot: Snapshot, stream: str) -> str | None:
    """Return the note on a stream with rows that were deleted and never came, looked for once."""
    return snapshot.memo.recall(("unseen deletes", stream), lambda: unseen_deletes(snapshot, stream))


def unseen_deletes(snapshot: Snapshot, stream: str) -> str | None:
    """Return the note on a stream with rows that were deleted and never came, None where none show."""
    rows = next(k for k in snapshot.layout.kept_for(stream) if k.demand == Demand(stream, "total"))
    net = snapshot.total(rows.id)
    if net < 0:
        return notes.negative_stream(stream, net)
    found, exact = 0.0, True
    for planned in snapshot.layout.samples:
        state = snapshot.samples[planned.id]
        held = planned.kept if state.grouped else planned.exact
        for place, (elements, dictionary) in enumerate(zip(held, state.dictionaries, strict=True)):
            nulls = state.nulls(place).base if state.grouped else 1.0
            missing = _missing(dictionary, state, nulls) if elements.stream == stream else 0.0
            if missing > found:
                found, exact = missing, state.follows_all
    return notes.unseen_deletes(stream, round(found), exact=exact) if found >= 1 else None


def _missing(dictionary: Dictionary, state: SampleState, nulls: float) -> float:
    """Return how far net counts are below zero, all elements together, those that are not followed estimated.

    nulls: the rate of elements with a NULL link.
    """
    below = np.minimum(dictionary.total(_COUNT), 0)
    if not below.any():
        return 0.0
    elements = dictionary.where(below < 0)
    rates = np.where(elements.null_links(), max(nulls, HASH_STEP), 1.0)
    for key, link in enumerate(elements.spec.classes):
        if link >= 0 and not state.rosters[link].follows_all:
            values, places = elements.index(key)
            own = state.rosters[link].rates_of_held(values)[places]
            rates *= np.where(elements.is_null(key), 1.0, own)
    return float(-(elements.total(_COUNT) / rates).sum())
