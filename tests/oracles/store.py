"""The slow, obvious store: everything in dictionaries, every batch remembered by its key."""

from dataclasses import dataclass, field


@dataclass
class NaiveStore:
    """Says "new", "again" or "refused" of a delivery, and keeps the sums that exactly-once means."""

    batches: dict = field(default_factory=dict)  # source -> list of (query id, batch id), in order
    totals: dict = field(default_factory=dict)  # source -> sum of the values of its batches

    def deliver(self, source, query_id, batch_id, value):
        taken = self.batches.setdefault(source, [])
        if (query_id, batch_id) in taken:
            return "again"
        expected = (taken[-1][0], taken[-1][1] + 1) if taken else (query_id, 0)
        if (query_id, batch_id) != expected:
            return "refused"
        taken.append((query_id, batch_id))
        self.totals[source] = self.totals.get(source, 0) + value
        return "new"
