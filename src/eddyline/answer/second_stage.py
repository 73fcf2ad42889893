"""The second stage of a sample that still holds everything: its sketches, for queries that ask for them by name."""

from eddyline.ingest.snapshot import Snapshot


def in_second_stage(snapshot: Snapshot, sample: str) -> Snapshot:
    """Return the snapshot with one sample in its second stage, which is made once."""
    if snapshot.samples[sample].grouped:
        return snapshot
    return snapshot.memo.recall(("second stage", sample), lambda: snapshot.in_second_stage(sample))
