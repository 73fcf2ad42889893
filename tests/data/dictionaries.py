"""Dictionaries and states of stream samples from plain rows, and back."""

import numpy as np

from eddyline.sample.dictionary import Builder, flag_words
from eddyline.sample.spec import DictionarySpec, Regrouped, SampleSpec
from eddyline.sample.state import SampleState


def matrices(spec, rows):
    """(elements, totals) of rows (element, totals) as the builder takes them."""
    nulls = [np.array([each[0][k] is None for each, _ in rows], dtype=bool) for k in range(spec.keys)]
    flags = [np.array([each[1][f] for each, _ in rows], dtype=bool) for f in range(spec.flags)]
    keys = [
        np.array([0 if each[0][k] is None else each[0][k] for each, _ in rows], dtype=np.int64)
        for k in range(spec.keys)
    ]
    columns = [*keys, *flag_words(spec, nulls, flags, len(rows))]
    elements = np.stack(columns, axis=1) if columns else np.empty((len(rows), 0), np.int64)
    totals = np.array([each for _, each in rows], dtype=np.int64).reshape(len(rows), 1 + spec.measures)
    return elements, totals


def dictionary(spec, rows, room=4):
    """The dictionary of rows; the builder starts small and grows."""
    builder = Builder(spec, room)
    rows = list(rows)
    if rows:
        builder.add(*matrices(spec, rows))
    return builder.build()


def plain(held):
    """A dictionary as {element: totals}."""
    keys = [held.key(k).tolist() for k in range(held.spec.keys)]
    nulls = [held.is_null(k).tolist() for k in range(held.spec.keys)]
    flags = [held.flag(f).tolist() for f in range(held.spec.flags)]
    totals = [held.total(m).tolist() for m in range(-1, held.spec.measures)]
    found = {}
    for i in range(len(held)):
        key = tuple(None if null[i] else column[i] for column, null in zip(keys, nulls, strict=True))
        element = (key, tuple(flag[i] for flag in flags))
        assert element not in found
        found[element] = tuple(column[i] for column in totals)
    return found


def one_stream_spec(links=1, budget=1 << 20, shapes=()):
    """A sample of one stream whose keys are of different classes; both stages hold the same columns."""
    part = DictionarySpec(tuple(range(links)), 0, 1)
    how = Regrouped(0, tuple(range(links)), (), (0,))
    return SampleSpec(
        (part,), (part,), (how,), tuple(range(11, 11 + links)), tuple(shapes), budget, budget // 2
    )


def state(spec, rows):
    """The first stage of a sample of one stream."""
    empty = SampleState.empty(spec)
    return SampleState(spec, False, (dictionary(spec.exact[0], rows),), empty.rosters)
