"""Samples within their budgets: the second stage at the first overflow, then a reduction at every other."""

from dataclasses import replace
from typing import TYPE_CHECKING

from eddyline.sample.reduction import bytes_of, shrink_to_fit
from eddyline.sample.state import under_one_roster

if TYPE_CHECKING:
    from collections.abc import Sequence

    from eddyline.ingest.snapshot import Snapshot


def settle(snapshots: "Sequence[Snapshot]") -> "list[Snapshot]":
    """Return snapshots whose samples fit their budgets together: one state, or the panes of a window."""
    settled = list(snapshots)
    for planned in snapshots[0].layout.samples if snapshots else ():
        name, spec = planned.id, planned.spec
        if any(each.samples[name].grouped for each in settled) or (
            bytes_of([each.samples[name] for each in settled]) > spec.budget
        ):
            settled = [each.in_second_stage(name) for each in settled]
            states = under_one_roster([each.samples[name] for each in settled])
            states = shrink_to_fit(states, spec.kept_budget)
            settled = [
                replace(each, samples={**each.samples, name: state})
                for each, state in zip(settled, states, strict=True)
            ]
    return settled


def held_bytes(snapshot: "Snapshot") -> dict[str, int]:
    """Return the bytes that each sample of a state holds, the sketches next to it included: its least budget."""
    return {
        planned.id: bytes_of([snapshot.samples[planned.id]])
        + (sum(kept.nbytes for kept in planned.sketches) if snapshot.samples[planned.id].grouped else 0)
        for planned in snapshot.layout.samples
    }
