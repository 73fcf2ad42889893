"""The store as a run sees it: state of one plan that takes each batch exactly once, and changes of the plan."""

import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Self

from msgspec.structs import replace

from eddyline.errors import StoreError, WrongRun
from eddyline.store.filesystem import Where
from eddyline.store.layout import (
    Commit,
    Content,
    Epoch,
    PlanStamp,
    SourcePosition,
    check_id,
    epoch_numbers,
    make_epoch,
)
from eddyline.store.position import UNKNOWN, Batch, advanced, already_seen
from eddyline.store.reader import Reader
from eddyline.store.writer import EpochWriter, Options, sentence

# What differs between a store's plan and another plan, and which sections survive the change.
#
# A section belongs to the name before its first "/": "orders-key" and "orders-key/hints" are both of the
# synopsis orders-key.


def unchanged_names(old: PlanStamp, new: PlanStamp) -> set[str]:
    """Return the names that both plans keep unchanged: by their digests, or by their lines in an older store."""
    before, after = (old.identity, new.identity) if old.identity else (old.describe, new.describe)
    return {name for name, kept in after.items() if before.get(name) == kept}


def kept_sections(epoch: Epoch, plan: PlanStamp) -> dict[str, bytes]:
    """Return the sections of all names that the plan leaves unchanged."""
    kept = unchanged_names(epoch.commit.plan, plan)
    return {name: content for name, content in epoch.sections.items() if name.partition("/")[0] in kept}


def difference(old: PlanStamp, new: PlanStamp) -> list[str]:
    """Return one line per name that was added (+), removed (-) or changed (~), and per setting that differs."""
    lines = [
        f"~ {name}: {old.settings[name]} -> {after}"
        for name, after in new.settings.items()
        if old.settings.get(name, after) != after
    ]
    for name in sorted(old.describe.keys() | new.describe.keys()):
        before, after = old.describe.get(name), new.describe.get(name)
        if before is None:
            lines.append(f"+ {name}: {after}")
        elif after is None:
            lines.append(f"- {name}: {before}")
        elif before != after:
            lines.append(f"~ {name}: {before} -> {after}")
        elif old.identity and old.identity.get(name) != new.identity.get(name):
            lines.append(f"~ {name}: {after}, of another size or with other columns")
    return lines


def check_plan(where: str, old: PlanStamp, new: PlanStamp) -> None:
    """Raise WrongRun with the difference unless the store was made by this very plan."""
    if old.hash == new.hash:
        return
    lines = difference(old, new) or ["(every name reads the same: seeds, budget or streams differ)"]
    raise WrongRun(
        f"the store {where} was made by another plan (hash {old.hash}, now {new.hash}):\n  "
        + "\n  ".join(lines)
        + f"\n{len(unchanged_names(old, new))} names are unchanged. Use the plan it was made by, another "
        "directory, or change_plan=True (eddyline run --change-plan), which keeps what is unchanged."
    )


Sections = Mapping[str, Content]
Positions = Mapping[str, SourcePosition]
_DEFAULT = Options()


def _no_check(_positions: Positions) -> None:
    """Accept any positions."""


class Store:
    """A store that is open for writing; threads may share it. Readers use `Reader`.

    It is made by `create`, `open` or `replace_plan`. Closing it, also by `with`, releases the lock. `repeats`
    counts the repeated batches that were ignored.
    """

    def __init__(self, writer: EpochWriter, run_id: str, adoptable: frozenset[str] = frozenset()) -> None:
        self._writer = writer
        self._run_id = run_id
        self._adoptable = adoptable
        self._staged: Epoch | None = None
        self._turn = threading.RLock()
        self.repeats = 0

    @staticmethod
    def exists(where: Where) -> bool:
        """Return whether there is a store to open; otherwise it is to be created."""
        return Reader(where).exists()

    @classmethod
    def create(
        cls,
        where: Where,
        plan: PlanStamp,
        run_id: str,
        sections: Sections,
        *,
        sources: Mapping[str, SourcePosition] | None = None,
        rebuilt: int = 0,
        options: Options = _DEFAULT,
    ) -> Self:
        """Return a new store whose epoch 0 has these sections, built from the streams up to `sources`.

        It raises StoreError when there is a store already. rebuilt: as in `Commit`.
        """
        check_id("run id", run_id)
        reader = Reader(where)
        with sentence(reader.where, "the store was not created"):
            reader.files.make()
        writer = EpochWriter(reader, options)
        with writer.closed_on_error():
            if reader.exists():
                raise StoreError(f"there is a store at {reader.where}: open it, or choose another directory.")
            writer.sweep(above=-1)
            at = dict(sources or {})
            first = Commit(
                epoch=0, parent=None, run_id=run_id, plan=plan, sources=at, sections={}, rebuilt=rebuilt
            )
            writer.publish(make_epoch(first, sections), "the store was not created")
        return cls(writer, run_id)

    @classmethod
    def open(
        cls,
        where: Where,
        plan: PlanStamp,
        run_id: str,
        *,
        check: Callable[[Positions], None] = _no_check,
        options: Options = _DEFAULT,
    ) -> Self:
        """Return the store of this plan, ready for the next batch; raise WrongRun when it belongs to another plan.

        check: gets the positions of the streams, and raises an error where the run cannot continue from them.
        """
        check_id("run id", run_id)
        writer = _existing(where, options)
        with writer.closed_on_error():
            commit = writer.current().commit
            check_plan(writer.reader.where, commit.plan, plan)
            check(commit.sources)
        return cls(writer, run_id, frozenset(commit.sources if options.adopt else ()))

    @classmethod
    def replace_plan(
        cls,
        where: Where,
        plan: PlanStamp,
        run_id: str,
        fresh: Sections | Callable[[Epoch], Sections],
        *,
        forget: Collection[str] = (),
        sources: Positions | None = None,
        check: Callable[[Positions], None] = _no_check,
        options: Options = _DEFAULT,
    ) -> Self:
        """Return the store under another plan: sections of unchanged names are kept, `fresh` ones set.

        Positions of the streams stay, except those to `forget`, which restart at batch 0, and those set by
        `sources`. A fresh section counts the batches from now on, unless it was built from earlier ones.

        What is forgotten stays readable, marked to be read again, until the first batch is committed or `settle` is
        called, so a run that fails earlier loses no answers. check: as in `open`, for the positions to start from.
        """
        check_id("run id", run_id)
        writer = _existing(where, options)
        with writer.closed_on_error():
            old = writer.current()
            stay = {name: at for name, at in old.commit.sources.items() if name not in forget}
            at = {**stay, **(sources or {})}
            check(at)
            changed = fresh(old) if callable(fresh) else fresh
            content = {**kept_sections(old, plan), **changed}
            lost = [name for name in old.commit.sources if name in forget and name not in at]
            if not lost:
                commit = replace(
                    old.commit, epoch=old.number + 1, parent=old.number, run_id=run_id, plan=plan, sources=at
                )
                writer.publish(make_epoch(commit, content), "the plan was not replaced, and the store stays")
            elif not all(old.commit.sources[name].again for name in lost):
                marked = {name: replace(old.commit.sources[name], again=True) for name in lost}
                commit = replace(
                    old.commit,
                    epoch=old.number + 1,
                    parent=old.number,
                    sources={**old.commit.sources, **marked},
                )
                writer.publish(make_epoch(commit, old.sections), "nothing is read again, and the store stays")
        store = cls(writer, run_id, frozenset(at if options.adopt else ()))
        if lost:
            current = writer.current()
            store._staged = make_epoch(replace(current.commit, run_id=run_id, plan=plan, sources=at), content)
        return store

    @staticmethod
    def restore(where: Where, epoch: int, *, options: Options = _DEFAULT) -> Epoch:
        """Return a new current epoch with the content of an older one, which names the run that made it.

        The next run reads later batches again, from the positions of the older epoch.
        """
        reader = Reader(where)
        old = reader.at(epoch)
        writer = EpochWriter(reader, options)
        try:
            number = epoch_numbers(reader.names())[0] + 1
            sources = {**_before_first(reader, old.commit.rebuilt), **old.commit.sources}
            commit = replace(old.commit, epoch=number, parent=epoch, sources=sources)
            restored = make_epoch(commit, old.sections)
            restored = writer.publish(
                restored, f"epoch {epoch} was not restored, and the store stays as it was", keep_all=True
            )
        finally:
            writer.close()
        return restored

    @staticmethod
    def swap(where: Where, rebuilt: Epoch, run_id: str, *, options: Options = _DEFAULT) -> bool:
        """Replace everything that a store holds by an epoch of its rebuilt state, in one commit.

        Return False, and do nothing, if this was done before. Older epochs stay, as after any commit.
        """
        check_id("run id", run_id)
        writer = _existing(where, options)
        try:
            old = writer.current()
            if old.commit.rebuilt >= rebuilt.commit.rebuilt:
                return False
            commit = replace(rebuilt.commit, epoch=old.number + 1, parent=old.number, run_id=run_id)
            writer.publish(
                make_epoch(commit, rebuilt.sections),
                "the rebuilt state was not swapped in, and the old one stays",
            )
        finally:
            writer.close()
        return True

    @property
    def where(self) -> str:
        """The directory, as messages name it."""
        return self._writer.reader.where

    @property
    def current(self) -> Epoch:
        """The last committed epoch, or, after `replace_plan`, the state that the first batch is added to."""
        with self._turn:
            return self._staged or self._writer.current()

    @property
    def is_settled(self) -> bool:
        """Whether readers see the same state as `current`."""
        return self._staged is None

    def settle(self) -> None:
        """Publish the state of `replace_plan` without a first batch: the streams, read again, had none."""
        with self._turn:
            if self._staged is not None:
                old = self._staged
                commit = replace(old.commit, epoch=old.number + 1, parent=old.number)
                self._writer.publish(make_epoch(commit, old.sections), "the plan was not replaced")
                self._staged = None

    def seen(self, source: str, query_id: str, batch_id: int, batch: Batch = UNKNOWN) -> bool:
        """Return whether a batch was committed before; raise WrongRun when it is not this store's next one."""
        check_id("stream name", source)
        check_id("query id", query_id)
        if batch_id < 0:
            raise StoreError(f"batches count from 0, and stream {source} sent batch {batch_id}.")
        position, adopt = self.current.commit.sources.get(source), source in self._adoptable
        return already_seen(position, source, query_id, batch_id, adopt=adopt, batch=batch)

    def commit(
        self,
        source: str,
        query_id: str,
        batch_id: int,
        new_sections: Sections | Callable[[Epoch], Sections],
        *,
        rows: int = 0,
        deletes: int = 0,
        bad: int = 0,
        late: int = 0,
        at: float | None = None,
        batch: Batch = UNKNOWN,
    ) -> bool:
        """Commit a batch; return False, and do nothing, when it was committed before.

        The sections named are replaced, all others stay. A function gets the epoch that it builds on, and runs
        while no other thread commits. `rows`, `deletes`, `bad` and `late` count this batch's records; `at` is its
        time in seconds since 1970, for people to read; `batch` has a hash of its content, and its files.
        """
        with self._turn:
            if self.seen(source, query_id, batch_id, batch):
                self.repeats += 1
                return False
            old = self.current
            changed = new_sections(old) if callable(new_sections) else new_sections
            counts, moment = (rows, deletes, bad, late), time.time() if at is None else at
            position = advanced(old.commit.sources.get(source), query_id, batch_id, counts, moment, batch)
            sources = {**old.commit.sources, source: position}
            number = old.number + 1
            commit = replace(
                old.commit, epoch=number, parent=old.number, run_id=self._run_id, sources=sources
            )
            failure = (
                f"batch {batch_id} of stream {source} is not confirmed, and epoch {old.number} stays readable"
            )
            self._writer.publish(make_epoch(commit, {**old.sections, **changed}), failure)
            self._staged = None
            self._adoptable -= {source}
            return True

    def close(self) -> None:
        """Release the lock."""
        self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


def _existing(where: Where, options: Options) -> EpochWriter:
    """Return the writer of an existing store; no lock file is created at a wrong path."""
    reader = Reader(where)
    reader.current()
    return EpochWriter(reader, options)


def _before_first(reader: Reader, rebuilt: int) -> dict[str, SourcePosition]:
    """Return positions before the first batch for all streams that were read since a rebuild (0: since the first).

    Without them, it would not be known that streams without a batch in an older epoch must be read again. They are
    those of the newest epoch of that rebuild, which names the same checkpoints.
    """
    for number in epoch_numbers(reader.names()):
        try:
            commit = reader.at(number).commit
        except StoreError:
            continue  # damaged; a checkpoint that is ahead of the others is refused by name
        if commit.rebuilt == rebuilt:
            return {
                name: SourcePosition(at.query_id, -1, 0, 0, 0, at.last_commit_time, folder=at.folder)
                for name, at in commit.sources.items()
            }
    return {}
