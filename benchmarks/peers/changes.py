"""The workload of the peers: changes of three tables with Zipf keys, in ten batches, and the queries over them.

`orders.o`, `items.i` and `customers.c` are unique, so that a peer can find the row that a delete means. Orders belong
to customers, and items to orders, with Zipf frequencies. Joins are from a key to a unique key, so no
result is larger than its largest table: peers that materialize joins are not at a disadvantage. Of the changes of
orders and items, 70% are inserts, 15% deletes and 15% updates, which are a delete and an insert of the same id and
count as one change.
"""

import json
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FOLDER = Path(__file__).parents[2] / ".data" / "peers"
BATCHES = 10
PIECE = 100_000
COLUMNS = {"customers": ("c", "seg"), "orders": ("o", "c", "amount", "region"), "items": ("i", "o", "qty")}
IDS = {"customers": "c", "orders": "o", "items": "i"}
QUERIES = {
    "pairs": "SELECT COUNT(*) FROM orders JOIN items ON orders.o = items.o WHERE orders.region < 20",
    "spend": "SELECT SUM(orders.amount) FROM customers JOIN orders ON customers.c = orders.c WHERE customers.seg = 1",
    "chain": "SELECT SUM(items.qty) FROM customers JOIN orders ON customers.c = orders.c "
    "JOIN items ON orders.o = items.o WHERE customers.seg = 1",
    "buyers": "SELECT COUNT(DISTINCT c) FROM orders",
    "regions": "SELECT region, COUNT(*), SUM(amount) FROM orders GROUP BY region",
}
ZIPF = 0.8
Rows = list[tuple[float, ...]]


def _zipf(rng: np.random.Generator, values: int, rows: int) -> np.ndarray:
    return (values * rng.random(rows) ** (1 / (1 - ZIPF))).astype(np.int64)


def batches(changes: int) -> Iterator[Iterator[tuple[str, pa.Table, pa.Table]]]:
    """Yield ten batches of a tenth of the changes each: pieces of (table, deleted rows, inserted rows).

    All customers come with the first batch. A piece has at most 100,000 rows of either kind. A row that is updated is
    deleted and inserted in the same piece.
    """
    for number in range(BATCHES):
        yield _pieces(folder_of(changes), number)


def _pieces(folder: Path, number: int) -> Iterator[tuple[str, pa.Table, pa.Table]]:
    for name, columns in COLUMNS.items():
        parts = (pq.ParquetFile(folder / f"{number}-{name}-{part}.parquet") for part in ("gone", "new"))
        none = pa.table({c: pa.array([], pa.int64()) for c in columns})
        for pair in zip_longest(*(part.iter_batches(PIECE) for part in parts)):
            gone, new = (none if each is None else pa.Table.from_batches([each]) for each in pair)
            yield name, gone, new


def folder_of(changes: int) -> Path:
    """Return the folder of the changes, which are made once."""
    folder = FOLDER / f"{changes}"
    if not (folder / "done").exists():
        _make(folder, changes)
        (folder / "done").touch()
    return folder


def _make(folder: Path, changes: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(5)
    per = changes // BATCHES
    customers = max(100, changes // 20)
    live: dict[str, dict[str, np.ndarray]] = {
        name: {c: np.zeros(0, np.int64) for c in COLUMNS[name]} for name in COLUMNS
    }
    given = dict.fromkeys(COLUMNS, 0)
    for number in range(BATCHES):
        shares = {"orders": per // 4, "items": per - per // 4, "customers": 0}
        if number == 0:
            own = {"c": np.arange(customers), "seg": rng.integers(0, 5, customers)}
            _write(folder, 0, "customers", {c: v[:0] for c, v in own.items()}, own)
        else:
            none = {c: np.zeros(0, np.int64) for c in COLUMNS["customers"]}
            _write(folder, number, "customers", none, none)
        for name in ("orders", "items"):
            rows = live[name]
            size = len(rows[IDS[name]])
            touched = min(int(0.3 * shares[name]), size)
            at = rng.choice(size, touched, replace=False) if touched else np.zeros(0, np.int64)
            gone = {c: v[at] for c, v in rows.items()}
            updated = {c: v[: touched // 2].copy() for c, v in gone.items()}
            new = shares[name] - touched
            ids = np.arange(given[name], given[name] + new)
            given[name] += new
            if name == "orders":
                updated["amount"] = rng.integers(1, 10_000, touched // 2)
                fresh = {
                    "o": ids,
                    "c": _zipf(rng, customers, new),
                    "amount": rng.integers(1, 10_000, new),
                    "region": rng.integers(0, 50, new),
                }
            else:
                updated["qty"] = rng.integers(1, 50, touched // 2)
                fresh = {
                    "i": ids,
                    "o": _zipf(rng, max(1, given["orders"]), new),
                    "qty": rng.integers(1, 50, new),
                }
            inserted = {c: np.concatenate([updated[c], fresh[c]]) for c in rows}
            keep = np.ones(size, bool)
            keep[at] = False
            live[name] = {c: np.concatenate([rows[c][keep], inserted[c]]) for c in rows}
            _write(folder, number, name, gone, inserted)


def _write(folder: Path, number: int, name: str, gone: dict, new: dict) -> None:
    for part, rows in (("gone", gone), ("new", new)):
        pq.write_table(
            pa.table({c: rows[c] for c in COLUMNS[name]}), folder / f"{number}-{name}-{part}.parquet"
        )


def exact(changes: int) -> list[dict[str, Rows]]:
    """Return the answers after each batch, by a DuckDB in memory; they are computed once."""
    kept = folder_of(changes) / "answers.json"
    if not kept.exists():
        kept.write_text(json.dumps(_exact(folder_of(changes)), default=float), encoding="utf-8")
    found = json.loads(kept.read_text(encoding="utf-8"))
    return [{name: list(map(tuple, rows)) for name, rows in each.items()} for each in found]


def _exact(folder: Path) -> list[dict[str, Rows]]:
    import duckdb  # noqa: PLC0415 - a peer would hold it in memory

    found = []
    with duckdb.connect(config={"threads": 2}) as connection:
        for name, columns in COLUMNS.items():
            connection.execute(f"CREATE TABLE {name} ({', '.join(f'{column} BIGINT' for column in columns)})")
        for number in range(BATCHES):
            for name, own in IDS.items():
                gone, new = (folder / f"{number}-{name}-{part}.parquet" for part in ("gone", "new"))
                connection.execute(f"DELETE FROM {name} WHERE {own} IN (SELECT {own} FROM '{gone}')")
                connection.execute(f"INSERT INTO {name} FROM '{new}'")
            found.append({name: connection.execute(text).fetchall() for name, text in QUERIES.items()})
    return found


def signed(changes: int) -> Path:
    """Return a folder with the changes as Parquet files for each batch and table, with a column `w` of 1 and -1."""
    return _converted(
        changes, "signed", "SELECT *, 1 AS w FROM '{new}' UNION ALL SELECT *, -1 FROM '{gone}'", "parquet"
    )


def debezium(changes: int) -> Path:
    """Return a folder with the changes as Debezium's JSON; deletes come first."""
    row = "{{{columns}}}"
    return _converted(
        changes,
        "debezium",
        f"SELECT {row} AS before, NULL AS after, 'd' AS op FROM '{{gone}}' UNION ALL "
        f"SELECT NULL, {row}, 'c' FROM '{{new}}'",
        "json",
    )


def _converted(changes: int, kind: str, text: str, form: str) -> Path:
    import duckdb  # noqa: PLC0415

    source = folder_of(changes)
    folder = source / kind
    if not (folder / "done").exists():
        folder.mkdir(exist_ok=True)
        with duckdb.connect(config={"threads": 1, "preserve_insertion_order": True}) as connection:
            for number in range(BATCHES):
                for name, columns in COLUMNS.items():
                    gone, new = (source / f"{number}-{name}-{part}.parquet" for part in ("gone", "new"))
                    own = ", ".join(f"'{column}': {column}" for column in columns)
                    query = text.format(gone=gone, new=new, columns=own)
                    connection.execute(
                        f"COPY ({query}) TO '{folder / f'{number}-{name}.{form}'}' (FORMAT {form})"
                    )
        (folder / "done").touch()
    return folder


def errors(found: dict[str, Rows], truth: dict[str, Rows]) -> dict[str, float]:
    """Return the largest relative error of any number of each query; a group that is missing is an error of 1."""
    worst = dict.fromkeys(truth, 0.0)
    for name, rows in truth.items():
        own = _keyed(name, found[name])
        for key, numbers in _keyed(name, rows).items():
            for place, right in enumerate(map(float, numbers)):
                value = float(own[key][place]) if key in own else 0.0
                worst[name] = max(worst[name], abs(value - right) / max(abs(right), 1e-9))
    return worst


def coverage(ends: dict[str, list], truth: dict[str, Rows]) -> tuple[int, int]:
    """Return (intervals that are wider than a point, those that hold the exact number).

    ends: as the answers, with (low, high) in place of each number, None for an end that is not known.
    """
    wide = held = 0
    for name, rows in truth.items():
        right = _keyed(name, rows)
        for key, intervals in _keyed(name, ends[name]).items():
            for (low, high), number in zip(intervals, right.get(key, (0.0,) * len(intervals)), strict=True):
                if low is None or high is None or low < high:
                    wide += 1
                    held += (low is None or low <= float(number)) and (high is None or float(number) <= high)
    return wide, held


def _keyed(name: str, rows: list) -> dict[tuple[float, ...], tuple]:
    """Return the numbers of a query's rows by group."""
    keys = 1 if name == "regions" else 0
    return {tuple(map(float, row[:keys])): tuple(row[keys:]) for row in rows}
