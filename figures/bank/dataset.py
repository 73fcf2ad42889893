"""What a data set of the bank is: tables of rows that come and may go, queries, and the orders in which rows arrive."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

Order = Literal["by_table", "by_time", "shuffled"]
Part = Literal["choose", "judge"]
ORDERS: tuple[Order, ...] = ("by_table", "by_time", "shuffled")
BATCHES = 20
Columns = dict[str, np.ndarray]


@dataclass(frozen=True)
class Table:
    """The rows of a stream: when each is inserted, and when it is deleted (infinity: never)."""

    schema: str
    columns: Columns
    born: np.ndarray
    dies: np.ndarray

    @property
    def net(self) -> Columns:
        """The rows that are never deleted."""
        stays = np.isinf(self.dies)
        return {name: values[stays] for name, values in self.columns.items()}


@dataclass(frozen=True)
class Batch:
    """Changes of one stream that arrive together: rows, and +1 (insert) or -1 (delete) for each."""

    stream: str
    columns: Columns
    weights: np.ndarray


@dataclass(frozen=True, eq=False)
class Data:
    """One drawing of a data set: its streams and the queries that are asked of them."""

    tables: dict[str, Table]
    queries: dict[str, str]
    seed: int

    @property
    def schemas(self) -> dict[str, str]:
        """The columns of each stream, as SQL declares them."""
        return {name: table.schema for name, table in self.tables.items()}

    @cached_property
    def changes(self) -> int:
        """The number of inserts and deletes of all streams."""
        return sum(len(table.born) + int(np.isfinite(table.dies).sum()) for table in self.tables.values())

    def batches(self, order: Order) -> list[Batch]:
        """Return all changes in an order, cut into pieces of a twentieth, each with one batch for each stream."""
        streams, rows, weights = self.ordered(order)
        names = list(self.tables)
        made = []
        for piece in pieces(len(rows)):
            for index in np.unique(streams[piece]):
                own = piece[streams[piece] == index]
                columns = self.tables[names[index]].columns
                taken = {name: values[rows[own]] for name, values in columns.items()}
                made.append(Batch(names[index], taken, weights[own]))
        return made

    def ordered(self, order: Order) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the stream (by index), the row and the weight of every change. No delete precedes its insert."""
        rng = np.random.default_rng([self.seed, 77])
        streams, rows, weights, times = [], [], [], []
        for index, table in enumerate(self.tables.values()):
            born, dies = _shuffled_times(table, rng) if order == "shuffled" else (table.born, table.dies)
            gone = np.flatnonzero(np.isfinite(dies))
            rows.append(np.concatenate([np.arange(len(born)), gone]))
            weights.append(np.repeat(np.array([1, -1], dtype=np.int64), [len(born), len(gone)]))
            times.append(np.concatenate([born, dies[gone]]))
            streams.append(np.full(len(rows[-1]), index))
        stream, time = np.concatenate(streams), np.concatenate(times)
        weight = np.concatenate(weights)
        keys = (-weight, time, stream) if order == "by_table" else (-weight, time)
        place = np.lexsort(keys)
        return stream[place], np.concatenate(rows)[place], weight[place]


def pieces(rows: int) -> list[np.ndarray]:
    """Return the places of the changes that arrive together."""
    return np.array_split(np.arange(rows), BATCHES)


def _shuffled_times(table: Table, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    born = rng.random(len(table.born))
    return born, np.where(np.isfinite(table.dies), born + (1 - born) * rng.random(len(born)), np.inf)


@dataclass(frozen=True)
class Dataset:
    """A data set: drawn again for each seed, with about the given number of rows in all streams together.

    part: "choose" if rules and constants may be chosen on it, "judge" if it is only for judging them.
    """

    name: str
    part: Part
    make: Callable[[int, int], Data]
    size: int = 100_000

    def drawn(self, seed: int, size: int | None = None) -> Data:
        """Return one drawing."""
        return self.make(seed, size if size is not None else self.size)
