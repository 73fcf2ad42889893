"""Flink SQL as a peer, in an environment of its own; prints what was measured as JSON, as peer.py does.

The job runs in a process of its own and prints the changes of its answers. A batch is answered when all answers are
those that DuckDB has for it; so its error is 0, or it never ends.

Settings, as Flink's pages on tuning and on state advise: mini-batches (5,000 rows, 1 s), aggregation in two phases,
primary keys declared, two slots; the state in RocksDB (`flink`) with incremental checkpoints each 30 s, or on the heap
(`flink-heap`), with a heap of 2 GB (4 GB from ten million changes on). Changes are Debezium's JSON in files, which need
no broker, looked for each 200 ms. An update is a delete and an insert.
"""

import json
import re
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from changes import BATCHES, COLUMNS, IDS, QUERIES, debezium, exact

PRINTED = re.compile(r"([+-][IUD])\[(\w+), (\w+), (\w+), (\w+)\]")
LARGE = 10_000_000


def statement() -> str:
    """Return all queries as one, so that they are one job and read each source once."""
    parts = []
    for name, text in QUERIES.items():
        columns = "CAST(region AS BIGINT), CAST(n AS BIGINT), CAST(total AS BIGINT)"
        if name != "regions":
            columns = "CAST(-1 AS BIGINT), CAST(n AS BIGINT), CAST(0 AS BIGINT)"
            text = text.replace(" FROM", " AS n FROM", 1)  # noqa: PLW2901
        else:
            text = text.replace("COUNT(*)", "COUNT(*) AS n").replace("SUM(amount)", "SUM(amount) AS total")  # noqa: PLW2901
        parts.append(f"SELECT '{name}', {columns} FROM ({text})")
    return "INSERT INTO answers " + " UNION ALL ".join(parts)


def job(kind: str, folder: Path) -> None:
    """Run the job until the process is ended."""
    from pyflink.common import Configuration  # noqa: PLC0415 - only in the environment of this peer
    from pyflink.table import EnvironmentSettings, TableEnvironment  # noqa: PLC0415

    settings = {
        "parallelism.default": "2",
        "taskmanager.numberOfTaskSlots": "2",
        "state.backend.type": "hashmap" if kind == "flink-heap" else "rocksdb",
        "execution.checkpointing.interval": "30 s",
        "execution.checkpointing.incremental": "true",
        "execution.checkpointing.dir": f"file://{folder / 'state'}",
        "io.tmp.dirs": str(folder / "local"),
        "table.exec.mini-batch.enabled": "true",
        "table.exec.mini-batch.allow-latency": "1 s",
        "table.exec.mini-batch.size": "5000",
        "table.optimizer.agg-phase-strategy": "TWO_PHASE",
    }
    made = Configuration()
    for key, value in settings.items():
        made.set_string(key, value)
    environment = TableEnvironment.create(
        EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(made).build()
    )
    for name, columns in COLUMNS.items():
        types = ", ".join(f"{column} BIGINT" for column in columns)
        environment.execute_sql(
            f"CREATE TABLE {name} ({types}, PRIMARY KEY ({IDS[name]}) NOT ENFORCED) WITH ('connector' = 'filesystem', "
            f"'path' = 'file://{folder / 'in' / name}', 'format' = 'debezium-json', "
            "'source.monitor-interval' = '200 ms')"
        )
    environment.execute_sql(
        "CREATE TABLE answers (q STRING, region BIGINT, n BIGINT, total BIGINT) WITH ('connector' = 'print')"
    )
    environment.execute_sql(statement()).wait()


class Answers:
    """The latest answers that the job printed."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], tuple[float, ...]] = {}

    def read(self, line: str) -> None:
        """Take a line that the job printed."""
        found = PRINTED.search(line)
        if found is None:
            return
        kind, name, region, *numbers = found.groups()
        values = tuple(0.0 if number == "null" else float(number) for number in numbers)
        if kind in ("+I", "+U"):
            self.rows[name, region] = values
        elif self.rows.get((name, region)) == values:
            del self.rows[name, region]

    def all(self) -> dict[str, list[tuple[float, ...]]]:
        """Return the answers as other peers do."""
        return {
            name: sorted(
                (float(region), *values) if name == "regions" else values[:1]
                for (own, region), values in self.rows.items()
                if own == name
            )
            for name in QUERIES
        }


def main() -> None:
    """Run, as run.py asks."""
    kind, changes, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    if len(sys.argv) > 4:
        job(kind, folder)
        return
    files, truth = debezium(changes), exact(changes)
    for name in COLUMNS:
        (folder / "in" / name).mkdir(parents=True)
    answers, latencies = Answers(), []
    heap = "4096m" if changes >= LARGE else "2048m"
    with subprocess.Popen(
        [sys.executable, __file__, *sys.argv[1:], "job"],
        stdout=subprocess.PIPE,
        text=True,
        env={"PATH": "/usr/bin:/bin", "JVM_ARGS": f"-Xmx{heap}", "FLINK_LOG_DIR": str(folder)},
    ) as process:
        assert process.stdout is not None
        for number in range(BATCHES):
            began = time.perf_counter()
            for name in COLUMNS:
                shutil.copy(files / f"{number}-{name}.json", folder / f"{name}.part")
                (folder / f"{name}.part").rename(folder / "in" / name / f"{number}.json")
            wanted = {name: sorted(map(tuple, rows)) for name, rows in truth[number].items()}
            while answers.all() != wanted:
                line = process.stdout.readline()
                if not line:
                    raise SystemExit("the job ended; its messages are above.")
                answers.read(line)
            latencies.append(time.perf_counter() - began)
        disk = sum(path.stat().st_size for path in (folder / "state").rglob("*") if path.is_file())
        shown = {"seconds": sum(latencies), "latency": statistics.median(latencies), "disk": disk}
        process.terminate()
    sys.stdout.write("\n" + json.dumps(shown | {"answers": answers.all()}) + "\n")


if __name__ == "__main__":
    main()
