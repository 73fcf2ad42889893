"""The workload of the peers: changes of three tables with Zipf keys, in batches, and the queries over them.

`orders.o`, `items.i` and `customers.c` are unique, so that a peer can find the row that a delete means. Orders belong
to customers, and items to orders, with Zipf frequencies. Joins are from a key to a unique key, so no
result is larger than its largest table: peers that materialize joins are not at a disadvantage. Of the changes of
orders and items, 70% are inserts, 15% deletes and 15% updates, which are a delete and an insert of the same id and
count as one change.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FOLDER = Path(__file__).parents[2] / ".data" / "peers"
BATCH = 100_000
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


def batches(changes: int) -> Iterator[dict[str, tuple[pa.Table, pa.Table]]]:
    """Yield batches, made once: by table (deleted rows, inserted rows). All customers come with the first."""
    folder = FOLDER / f"{changes}"
    count = max(1, changes // BATCH)
    if not (folder / "done").exists():
        _make(folder, changes, count)
    for number in range(count):
        yield {
            name: tuple(pq.read_table(folder / f"{number}-{name}-{part}.parquet") for part in ("gone", "new"))
            for name in COLUMNS
        }


def _make(folder: Path, changes: int, count: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(5)
    per = changes // count
    customers = max(100, changes // 20)
    live: dict[str, dict[str, np.ndarray]] = {
        name: {c: np.zeros(0, np.int64) for c in COLUMNS[name]} for name in COLUMNS
    }
    given = dict.fromkeys(COLUMNS, 0)
    for number in range(count):
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
    (folder / "done").touch()


def _write(folder: Path, number: int, name: str, gone: dict, new: dict) -> None:
    for part, rows in (("gone", gone), ("new", new)):
        pq.write_table(
            pa.table({c: rows[c] for c in COLUMNS[name]}), folder / f"{number}-{name}-{part}.parquet"
        )


def exact(changes: int) -> dict[str, Rows]:
    """Return the answers of the net rows, by a DuckDB in memory that only sees these."""
    import duckdb  # noqa: PLC0415 - a peer would hold it in memory

    with duckdb.connect() as connection:
        for name, columns in COLUMNS.items():
            parts = {"gone": [], "new": []}
            for batch in batches(changes):
                for part, rows in zip(("gone", "new"), batch[name], strict=True):
                    parts[part].append(rows)
            for part, tables in parts.items():
                connection.register(f"{part}_{name}", pa.concat_tables(tables))
            connection.execute(
                f"CREATE TABLE {name} AS SELECT {', '.join(columns)} FROM new_{name} "
                f"EXCEPT ALL SELECT {', '.join(columns)} FROM gone_{name}"
            )
        return {name: connection.execute(text).fetchall() for name, text in QUERIES.items()}


def worst_error(found: dict[str, Rows], truth: dict[str, Rows]) -> float:
    """Return the largest relative error of any number; a group that is missing is an error of 1."""
    worst = 0.0
    for name, rows in truth.items():
        own = {tuple(row[:-2]) if name == "regions" else (): row for row in found[name]}
        for row in rows:
            key = row[:-2] if name == "regions" else ()
            for place in range(len(key), len(row)):
                value = float(own[key][place]) if key in own else 0.0
                worst = max(worst, abs(value - float(row[place])) / max(abs(float(row[place])), 1e-9))
    return worst
