"""The rows, queries and answers behind the golden files, and the script that wrote them."""

import sys
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

import eddyline as el
from eddyline.api.durable import from_epoch, stamp
from eddyline.api.run import StartOptions, open_store
from eddyline.ingest.sections import to_sections
from tests.data.documents import asked

MINUTE = 60_000_000
QUERIES = {
    "rows": "SELECT COUNT(*) FROM a WHERE x > 3",
    "total": "SELECT SUM(x) FROM a",
    "join": "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k",
    "mean": "SELECT AVG(a.x) FROM a JOIN b ON a.k = b.k",
    "chain": "SELECT COUNT(*) FROM a JOIN b ON a.k = b.k JOIN c ON b.j = c.j",
    "values": "SELECT COUNT(DISTINCT k) FROM a",
    "only": "SELECT COUNT(*) FROM (SELECT k FROM a EXCEPT SELECT k FROM b)",
    "pairs": "SELECT COUNT(DISTINCT a.x, b.j) FROM a JOIN b ON a.k = b.k",
}
TABLES = ("a", "b", "c")


def plan(budget: str, *, samples: bool = True) -> el.Plan:
    """The plan of all queries, one of them in a window; sketches alone leave out the pairs, which are large."""
    made = el.Workload(budget=budget, seed=5, samples=samples)
    for name in TABLES:
        made.stream(name, "k BIGINT, j BIGINT, x BIGINT, at TIMESTAMP", event_time="at")
    for name, text in QUERIES.items():
        if samples or name != "pairs":
            made.query(name, text)
    return made.query("lately", QUERIES["join"], window="10 minutes", slide="5 minutes").plan()


def stamped_plans() -> dict[str, el.Plan]:
    """Plans that together keep every kind of synopsis, a sample, groups and panes of a window."""
    both = {"both": "SELECT COUNT(*) FROM (SELECT b FROM r INTERSECT SELECT b FROM s)"}
    pairs = el.Workload(budget="2 MB", seed=5, samples=False).stream("a", "k BIGINT, x BIGINT")
    pairs.stream("b", "k BIGINT, j BIGINT").query("pairs", QUERIES["pairs"]).sample("a", "k", size=50)
    return {
        "window": plan("24 KB"),
        "groups": groups_plan(),
        "sketches": plan("120 KB", samples=False),
        "document": asked().plan(),
        "copies": asked(both, method="document-copies", budget="64 KB").plan(),
        "pairs": pairs.plan(),
    }


def groups_plan() -> el.Plan:
    """A plan of groups that do not fit, of a text and a number, with sketches of the groups that are not followed."""
    made = el.Workload(budget="12 KB", seed=5).stream("a", "name STRING, j BIGINT")
    return made.query("groups", "SELECT name, j, COUNT(*) AS n FROM a GROUP BY name, j").plan()


def groups_rows() -> pa.Table:
    """Three thousand light groups, and one that comes late and is the largest."""
    index = np.arange(3000)
    names = [f"name {i}" for i in index] + ["late"] * 2000
    return pa.table({"name": names, "j": np.append(index % 7, np.full(2000, 9))})


def rows(name: str) -> tuple[pa.Table, np.ndarray]:
    """The rows of a stream, and their weights: some are deleted again."""
    index = np.arange(3000) * (2 + TABLES.index(name))
    at = np.arange(3000) * MINUTE // 100
    table = pa.table(
        {"k": index % 701, "j": index % 97, "x": index % 13, "at": pa.array(at, pa.timestamp("us", tz="UTC"))}
    )
    return table, np.where(np.arange(3000) % 10 == 9, -1, 1)


def filled(made: el.Plan) -> el.State:
    """The state of a plan after all rows."""
    state = made.empty()
    for name in TABLES:
        state.update(name, *rows(name))
    return state


def write(folder: Path) -> None:
    """Write a store, a state that is exact, one that had to be reduced, and one of sketches only."""
    folder.mkdir(parents=True)
    with open_store(plan("600 KB").layout, str(folder / "store"), StartOptions()) as store:
        for name in TABLES:
            table, weights = rows(name)

            def change(epoch, name=name, table=table, weights=weights):
                return to_sections(el.State(from_epoch(epoch)).update(name, table, weights).snapshot)

            store.commit(name, f"query-{name}", 0, change, at=1000.0, rows=3000, deletes=300)
    for other in (folder / "store").iterdir():
        if other.name not in ("CURRENT", "epoch-000000000003.eddy"):
            other.unlink()
    states = {"exact": plan("600 KB"), "reduced": plan("24 KB"), "sketches": plan("120 KB", samples=False)}
    for name, made in states.items():
        (folder / f"{name}.state").write_bytes(filled(made).to_bytes())
    state, table = groups_plan().empty(), groups_rows()
    for start in range(0, len(table), 1000):
        state.update("a", table.slice(start, 1000))
    (folder / "groups.state").write_bytes(state.to_bytes())
    stamps = {name: stamp(made.layout) for name, made in stamped_plans().items()}
    (folder / "stamps.json").write_bytes(msgspec.json.encode(stamps))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
