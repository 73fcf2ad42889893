"""Rows that need not be read: of which it is known beforehand that no predicate is TRUE for them."""

import numpy as np

from eddyline.ingest.stream_pass import StreamPass
from eddyline.ingest.stream_spec import StreamSpec
from eddyline.plan.layout import KeptSynopsis
from eddyline.sketch.total import TotalSpec


def counts_every_row(kept: KeptSynopsis) -> bool:
    """Return whether a synopsis is the number of all rows, whatever is in them."""
    demand = kept.demand
    asks = demand.keys or demand.predicates or demand.presence or demand.measure is not None
    return isinstance(kept.spec, TotalSpec) and not asks


def deciding_predicates(spec: StreamSpec) -> list[tuple[str, ...]] | None:
    """Return the predicates of all synopses that do not count every row; None where some want to see all rows.

    A stream sample holds every row, whatever its flags say, and panes go by each row's time.
    """
    if spec.panes or spec.samples:
        return None
    predicates = [kept.demand.predicates for kept in spec.kept if not counts_every_row(kept)]
    return None if () in predicates else list(dict.fromkeys(predicates))


def pass_over(added: StreamPass, rows: int) -> None:
    """Count inserted rows for which none of the `deciding_predicates` is TRUE, without having seen them."""
    sketches, weights = added.whole.sketches, np.array([rows], dtype=np.int64)
    for kept in added.spec.kept:
        if counts_every_row(kept):
            sketches.add(kept, np.empty((0, 1), dtype=np.uint64), weights, weights)
    added.whole.rows += rows
    added.watch.empty.clear()  # nobody looked
