"""Several sites with one plan as one: their states merged, into a store or continuously.

Each site counts its own rows under the same plan and writes its own store. A coordinator reads the stores and adds
up what they hold. Sketches and exact samples lose nothing; samples at different rates take the lower rate. A site
that cannot be read keeps its last state in the sum, and every answer names that site, and since when it cannot be
read. Paper: join-distinct, paragraph 0024 (the distributed-streams model).
"""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from eddyline.answer import notes
from eddyline.answer.freshness import Freshness, StreamFreshness
from eddyline.answer.query import Origin, Since
from eddyline.api.durable import since_sections, stamp
from eddyline.api.jobs import open_state
from eddyline.api.state import State
from eddyline.api.store_tables import Follower, Sighting
from eddyline.errors import StoreError, WrongRun
from eddyline.ingest.sections import to_sections
from eddyline.store import Reader, SourcePosition, Store

MERGED = "merged"
"""The run id of a store that `merge_stores` writes, and the query id of its streams."""
LATE_AFTER = 300.0
"""Seconds after the last batch of a site, while others continued, from which answers have a note. Chosen."""


def merged(states: Sequence[State], about: tuple[str, ...] = ()) -> State:
    """Return the sum of the states of some sites, with how far they have come; about: notes for every answer."""
    if not states:
        raise StoreError("there is no state to merge: name at least one store.")
    whole = states[0]
    for each in states[1:]:
        whole = whole + each
    origins = [each.origin for each in states if each.origin is not None]
    if not origins:
        return whole
    freshness = Freshness(
        sum(origin.freshness.epoch for origin in origins),
        tuple(
            _all_sites(
                [stream for origin in origins for stream in origin.freshness.streams if stream.stream == name]
            )
            for name in whole.snapshot.tallies
        ),
        time.time(),
    )
    return State(whole.snapshot, Origin(freshness, _since(origins), about))


def _all_sites(streams: Sequence[StreamFreshness]) -> StreamFreshness:
    """Return how far one stream has come at all sites together: its newest batch, and the rows of all."""
    batches = [each.batch for each in streams if each.batch is not None]
    times = [each.last_batch_time for each in streams if each.last_batch_time is not None]
    return StreamFreshness(
        streams[0].stream,
        sum(each.rows for each in streams),
        sum(each.deletes for each in streams),
        sum(each.bad for each in streams),
        sum(each.late for each in streams),
        max(batches, default=None),
        max(times, default=None),
        all(each.once for each in streams),
    )


def _since(origins: Sequence[Origin]) -> Mapping[str, Since]:
    """Return which synopses count only part of their stream at some site."""
    found: dict[str, Since] = {}
    for origin in origins:
        for name, since in origin.since.items():
            before = found.get(name, Since(0, 0))
            found[name] = Since(max(before.epoch, since.epoch), before.rows + since.rows)
    return found


def merge_stores(stores: Sequence[str], into: str) -> State:
    """Write the merged state of some stores to a store, replacing an earlier merge, and return it."""
    where = {Reader(store).where for store in stores}
    if len(where) < len(stores) or Reader(into).where in where:
        raise StoreError("a store is named twice: its rows would be counted twice.")
    state = merged([open_state(store) for store in stores])
    assert state.origin is not None
    sources = {
        each.stream: SourcePosition(
            MERGED, each.batch or 0, each.rows, each.deletes, each.bad, each.last_batch_time or 0.0, each.late
        )
        for each in state.origin.freshness.streams
        if each.batch is not None
    }
    plan = stamp(state.snapshot.layout)
    sections = to_sections(state.snapshot) | since_sections(state.origin.since)
    if not Store.exists(into):
        Store.create(into, plan, MERGED, sections, sources=sources).close()
        return state
    if Reader(into).latest().commit.run_id != MERGED:
        raise WrongRun(
            f"the store {into} was not written by a merge, and a merge replaces what is there: name another directory."
        )
    Store.replace_plan(into, plan, MERGED, sections, sources=sources).close()
    return state


@dataclass
class _Site:
    """One site: its follower, what was last seen of it, and since when it cannot be read, if so."""

    name: str
    follower: Follower
    seen: Sighting = field(default_factory=Sighting)
    gone_since: float | None = None

    def look(self, now: float) -> None:
        """Read the store again."""
        self.seen = self.follower.look()
        if self.seen.problem is None:
            self.gone_since = None
        elif self.gone_since is None:
            self.gone_since = now

    @property
    def last_batch(self) -> float | None:
        """When its newest batch was committed; None before the first, and for rows that were read once."""
        if self.seen.state is None or self.seen.state.origin is None:
            return None
        return max(
            (
                each.last_batch_time
                for each in self.seen.state.origin.freshness.streams
                if each.last_batch_time is not None and not each.once
            ),
            default=None,
        )


class SitesFollower:
    """A reader that repeatedly reads the stores of several sites, and merges what they hold.

    It never writes. A site with a problem does not stop the others. late_after: seconds after its last batch from
    which a site counts as late.
    """

    def __init__(self, stores: Sequence[str | os.PathLike[str]], late_after: float = LATE_AFTER) -> None:
        readers = [Follower(store) for store in stores]
        if len({each.reader.where for each in readers}) < len(readers):
            raise StoreError("a store is named twice: its rows would be counted twice.")
        self._sites = [_Site(_short(each.reader.where), each) for each in readers]
        self._late_after = late_after
        self._merged = Sighting()

    def look(self) -> Sighting:
        """Return the merged state of all sites as they are now, with notes on those that are late or missing."""
        now = time.time()
        for site in self._sites:
            site.look(now)
        about = tuple(self._about(now))
        stamp = "|".join([*(site.seen.stamp for site in self._sites), *about])
        if stamp == self._merged.stamp:
            return self._merged
        states, refused = self._readable()
        if not states:
            problem = "; ".join(
                f"{site.name}: {site.seen.problem}" for site in self._sites if site.seen.problem
            )
            self._merged = Sighting(stamp=stamp, problem=problem or "no site has an epoch yet")
            return self._merged
        writers = [f"{site.name}: {site.seen.writer}" for site in self._sites if site.seen.writer]
        stores = sum(site.seen.store for site in self._sites)
        state = merged(states, (*about, *refused))
        self._merged = Sighting(state, stamp, stores, "; ".join(writers) or None)
        return self._merged

    def _readable(self) -> tuple[list[State], list[str]]:
        """Return (the last states of all sites of one plan, notes on sites of another plan)."""
        states: list[State] = []
        refused = []
        for site in self._sites:
            state = site.seen.state
            if state is None:
                continue
            if states and state.snapshot.layout.digest != states[0].snapshot.layout.digest:
                refused.append(notes.other_plan(site.name))
            else:
                states.append(state)
        return states, refused

    def _about(self, now: float) -> list[str]:
        """Return a note for each site that is missing, cannot be read, or has sent nothing for long."""
        found = []
        newest = max((site.last_batch or 0.0 for site in self._sites), default=0.0)
        for site in self._sites:
            if site.gone_since is not None:
                counted = site.seen.epoch
                found.append(notes.site_gone(site.name, _moment(site.gone_since), counted))
            elif site.seen.state is None:
                found.append(notes.site_without_rows(site.name))
            elif site.last_batch is not None and min(newest, now) - site.last_batch > self._late_after:
                found.append(notes.site_late(site.name, _moment(site.last_batch)))
        return found

    def older(self, after: int, most: int) -> list[State]:  # noqa: ARG002 - epochs of several stores have no common past
        """Return no earlier states: epochs of several stores have no common order."""
        return []

    def without_path(self, text: str) -> str:
        """Return a string that names the stores without their folders."""
        for site in self._sites:
            text = text.replace(site.follower.reader.where, site.name)
        return text


def _short(where: str) -> str:
    return where.rstrip("/").rsplit("/", 1)[-1]


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(" ", "seconds")
