"""One peer in this process: it takes all batches, answers all queries after each, and prints what was measured as JSON.

Settings: eddyline with its budget, the keys between the tables declared, a state in memory, saved to a store after each
batch. DuckDB with its defaults and
two threads, a database file, a primary key for each table, all queries run again after each batch. PostgreSQL with its
defaults, a primary key for each table and an index for each join column, autovacuum on; fsync off, which is in its
favor; changes through COPY, all queries run again after each batch.
"""

import json
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[2]))
from changes import COLUMNS, IDS, QUERIES, Rows, batches

KEYS = dict.fromkeys(IDS.items(), " PRIMARY KEY")
KEYS |= {("orders", "c"): " REFERENCES customers(c)", ("items", "o"): " REFERENCES orders(o)"}


class Eddyline:
    """The product at a budget."""

    def __init__(self, budget: str, folder: Path) -> None:
        import eddyline as el  # noqa: PLC0415 - a peer imports only what it needs

        made = el.Workload(budget=budget, seed=1)
        for name, columns in COLUMNS.items():
            made.stream(name, ", ".join(f"{c} BIGINT{KEYS.get((name, c), '')}" for c in columns))
        for name, text in QUERIES.items():
            made.query(name, text)
        self._state, self._store = made.plan().empty(), folder / "store"
        self.ends: dict[str, list] = {}

    def change(self, name: str, gone: pa.Table, new: pa.Table) -> None:
        """Take a batch of one table."""
        if gone.num_rows + new.num_rows:
            weights = np.repeat([-1, 1], [gone.num_rows, new.num_rows])
            self._state.update(name, pa.concat_tables([gone, new]), weights)

    def answers(self) -> dict[str, Rows]:
        """Return all answers; `ends` becomes their intervals."""
        self._state.save(self._store)
        found, self.ends = {}, {}
        for name in QUERIES:
            answer = self._state.answer(name)
            if name == "regions":
                rows = list(answer)
                found[name] = [(row["region"], *(row[c] for c in answer.aggregates)) for row in rows]
                self.ends[name] = [
                    (row["region"], *((row[f"{c}_low"], row[f"{c}_high"]) for c in answer.aggregates))
                    for row in rows
                ]
            else:
                found[name] = [(float(answer),)]
                self.ends[name] = [((answer.low, answer.high),)]
        return found


class Duckdb:
    """Tables in DuckDB, and the queries again after each batch."""

    def __init__(self, folder: Path) -> None:
        import duckdb  # noqa: PLC0415

        self._connection = duckdb.connect(str(folder / "all.duckdb"), config={"threads": 2})
        for name, columns in COLUMNS.items():
            made = ", ".join(f"{c} BIGINT{' PRIMARY KEY' if c == IDS[name] else ''}" for c in columns)
            self._connection.execute(f"CREATE TABLE {name} ({made})")

    def change(self, name: str, gone: pa.Table, new: pa.Table) -> None:
        """Delete by id, then insert: in two transactions, because an index keeps deleted keys until a commit."""
        self._connection.register("gone", gone)
        self._connection.register("new", new)
        if gone.num_rows:
            self._connection.execute(
                f"DELETE FROM {name} WHERE {IDS[name]} IN (SELECT {IDS[name]} FROM gone)"
            )
        self._connection.execute(f"INSERT INTO {name} FROM new")

    def answers(self) -> dict[str, Rows]:
        """Return all answers."""
        return {name: self._connection.execute(text).fetchall() for name, text in QUERIES.items()}


class Postgres:
    """Tables in PostgreSQL, and the queries again after each batch."""

    def __init__(self, where: str) -> None:
        import psycopg  # noqa: PLC0415

        self._connection = psycopg.connect(where, autocommit=True)
        for name, columns in COLUMNS.items():
            made = ", ".join(f"{c} BIGINT{' PRIMARY KEY' if c == IDS[name] else ''}" for c in columns)
            self._connection.execute(f"CREATE TABLE {name} ({made})")
            self._connection.execute(f"CREATE TEMP TABLE gone_{name} (id BIGINT)")
        self._connection.execute("CREATE INDEX ON orders (c)")
        self._connection.execute("CREATE INDEX ON items (o)")

    def change(self, name: str, gone: pa.Table, new: pa.Table) -> None:
        """Delete and insert in one transaction."""
        with self._connection.transaction(), self._connection.cursor() as cursor:
            if gone.num_rows:
                cursor.execute(f"TRUNCATE gone_{name}")
                with cursor.copy(f"COPY gone_{name} FROM STDIN") as copy:
                    copy.write("\n".join(map(str, gone[IDS[name]].to_pylist())))
                cursor.execute(f"DELETE FROM {name} USING gone_{name} AS g WHERE {name}.{IDS[name]} = g.id")
            with cursor.copy(f"COPY {name} FROM STDIN") as copy:
                rows = zip(*(new[c].to_pylist() for c in COLUMNS[name]), strict=True)
                copy.write("".join("\t".join(map(str, row)) + "\n" for row in rows))

    def answers(self) -> dict[str, Rows]:
        """Return all answers."""
        return {name: self._connection.execute(text).fetchall() for name, text in QUERIES.items()}

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def run(peer: Eddyline | Duckdb | Postgres, changes: int) -> tuple[dict[str, Rows], list[dict], float, float]:
    """Return (last answers, intervals after each batch, seconds of all, median seconds to the answers of a batch)."""
    latencies, total, found, ends = [], 0.0, {}, []
    for batch in batches(changes):
        start = time.perf_counter()
        for name, gone, new in batch:
            peer.change(name, gone, new)
        found = peer.answers()
        latencies.append(time.perf_counter() - start)
        total += latencies[-1]
        ends += [peer.ends] if isinstance(peer, Eddyline) else []
    return found, ends, total, statistics.median(latencies)


def _peers(name: str, folder: Path) -> Iterator[Eddyline | Duckdb | Postgres]:
    if name.startswith("eddyline-"):
        yield Eddyline(name.removeprefix("eddyline-"), folder)
    elif name == "duckdb":
        yield Duckdb(folder)
    else:
        from tests.spark.postgres_server import server  # noqa: PLC0415

        (folder / "pg").mkdir()
        with server(folder / "pg") as where:
            postgres = Postgres(where)
            yield postgres
            postgres.close()


def main() -> None:
    """Run one peer, as run.py asks."""
    name, changes, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    for peer in _peers(name, folder):
        found, ends, total, latency = run(peer, changes)
        disk = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        out = {"seconds": total, "latency": latency, "disk": disk, "answers": found, "ends": ends}
    print(json.dumps(out, default=float))


if __name__ == "__main__":
    main()
