"""Warming: every kernel is compiled in advance and kept on disk, so that no first pass waits for it.

A small workload with a query of every kind runs through the same code as any other, so that kernels are compiled
for the types that they are really called with.
"""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import numpy as np
import pyarrow as pa

from eddyline import kernels
from eddyline.answer.joins.sampled_values import add_by_value
from eddyline.answer.joins.skimming import dense_in_range
from eddyline.answer.joins.two_way import SketchedRelation, skimmed_join
from eddyline.api.plan import Plan
from eddyline.api.workload import Workload
from eddyline.errors import PipelineError
from eddyline.kernels.jit import Kernel
from eddyline.sample.messages import added
from eddyline.sample.packing import FEW, narrow_numbers, places_among, united
from eddyline.sketch.hash_sketch import HashSketchSpec

_ROWS, _VALUES = 20_000, 4_000
_STREAMS = {
    "r": "a INT, b BIGINT, d STRING, m DECIMAL(12,2), k DECIMAL(24,4)",
    "s": "b BIGINT, c STRING, d STRING, x INT",
    "t": "c STRING, x INT, k DECIMAL(20,2)",
}
_QUERIES = {
    "one": "SELECT SUM(m) FROM r WHERE a > 7",
    "two": "SELECT COUNT(*) FROM r JOIN s ON r.b = s.b",
    "mean": "SELECT AVG(r.m) FROM r JOIN s ON r.b = s.b WHERE s.x < 50",
    "composite": "SELECT COUNT(*) FROM r JOIN s ON r.b = s.b AND r.d = s.d",
    "chain": "SELECT SUM(r.a) FROM r JOIN s ON r.b = s.b JOIN t ON s.c = t.c",
    "decimals": "SELECT COUNT(*) FROM r JOIN t ON r.k = t.k",
    "distinct": "SELECT COUNT(DISTINCT b) FROM r",
    "sets": "SELECT COUNT(*) FROM (SELECT b FROM r EXCEPT SELECT b FROM s WHERE x >= 50)",
    "pairs": "SELECT COUNT(DISTINCT r.a, s.c) FROM r JOIN s ON r.b = s.b",
    "semi": "SELECT COUNT(DISTINCT a) FROM r WHERE b IN (SELECT b FROM s)",
}

_CHAIN = "FROM r JOIN s ON r.b = s.b JOIN t ON s.c = t.c"
_GROUPS = {
    "few": f"SELECT r.a, t.x, COUNT(*) AS n {_CHAIN} GROUP BY r.a, t.x",
    "many": f"SELECT r.m, COUNT(*) AS n, COUNT(DISTINCT t.x) AS d {_CHAIN} GROUP BY r.m",
}


@dataclass(frozen=True)
class Warmed:
    """How many kernels are on disk now, how many of them are new, and where numba keeps them."""

    kernels: int
    compiled: int
    folder: Path


def warm_kernels() -> Warmed:
    """Compile every kernel that is not on disk yet; PipelineError if none can be saved, or one was not reached."""
    found = all_kernels()
    if found[0].compiled.stats.cache_path is None:
        raise PipelineError(
            "numba finds no folder in which to keep compiled kernels: set NUMBA_CACHE_DIR to one that can be written."
        )
    for plan in _plans():
        _use(plan)
    _documents()
    _scan()
    _merge()
    cold = [
        f"{each.function.__module__}.{each.function.__qualname__}"
        for each in found
        if not each.compiled.signatures
    ]
    if cold:
        raise PipelineError(f"warming did not reach {', '.join(cold)}: please report it.")
    compiled = sum(bool(each.compiled.stats.cache_misses) for each in found)
    return Warmed(len(found), compiled, Path(found[0].compiled.stats.cache_path))


def all_kernels() -> list[Kernel[..., object]]:
    """Return the kernels that Python calls."""
    modules = [import_module(f"{kernels.__name__}.{each.name}") for each in iter_modules(kernels.__path__)]
    found = [value for module in modules for value in vars(module).values() if isinstance(value, Kernel)]
    return list({id(each): each for each in found if each.options.get("cache")}.values())


def _plans() -> list[Plan]:
    """Return plans that together keep every kind of synopsis."""
    sampled = _workload("400 KB", _QUERIES).query("hashed", _QUERIES["two"], method="hash")
    sketched = _workload("2 MB", _QUERIES, samples=False).query("hashed", _QUERIES["two"], method="hash")
    sketched.query("atomic", _QUERIES["two"], method="agms").sample("r", "b")
    return [sampled.plan(), _workload("400 KB", _GROUPS).plan(), sketched.plan()]


def _workload(budget: str, queries: dict[str, str], *, samples: bool = True) -> Workload:
    workload = Workload(budget=budget, samples=samples)
    for name, schema in _STREAMS.items():
        workload.stream(name, schema)
    for name, text in queries.items():
        workload.query(name, text)
    return workload


def _use(plan: Plan) -> None:
    """Count rows, combine states, run every kind of query."""
    tables, state = _tables(), plan.empty()
    for name, table in tables.items():
        state.update(name, table)
    part = plan.empty().update("r", tables["r"].slice(0, 100))
    state = type(state).from_bytes((state + part - part).to_bytes())
    for each in (state, part):
        each.answers()
    state.statistics()
    if not plan.layout.samples:
        state.frequent("r", "b", top=5)
        state.frequency("r", {"b": 1})
        state.sample("r", "b")


def _documents() -> None:
    """Count rows with the documents' own synopses, and query them."""
    workload = Workload(budget="2 MB", samples=False, method="document", max_distinct=1 << 8)
    for name, schema in _STREAMS.items():
        workload.stream(name, schema)
    values = "SELECT COUNT(DISTINCT b) FROM r"
    workload.query("two", _QUERIES["two"]).query("values", values)
    plan = workload.query("copies", values, method="document-copies").plan()
    state = plan.empty()
    for name, table in _tables().items():
        state.update(name, table)
    state.answers()


def _scan() -> None:
    """Read a join whose dense keys are found by a scan: a candidate table has lost all its keys."""
    spec, keys = HashSketchSpec(64, 7, (1,)), np.arange(_VALUES, dtype=np.uint64)
    counters = np.zeros(spec.words, dtype=np.int64)
    spec.accumulate(counters, keys.reshape(1, -1), 1 + 1000 * (keys < 2).astype(np.int64))
    side = SketchedRelation(spec, counters, dense_in_range(spec, counters, 0, _VALUES - 1), _VALUES)
    skimmed_join(side, side)


def _merge() -> None:
    """Merge and add up columns that are longer than those of the small workload."""
    values = np.arange(2 * FEW)
    _, (places, _) = united([values, values + 1])
    places_among(values, values)
    for kind in (np.int32, np.int64):
        narrow_numbers((8 * values).astype(kind))  # far enough apart that bits number them
    for weights in (values, values.astype(np.float64)):
        added(weights, places, len(values))
        for numbers in (places, values):
            add_by_value(weights.astype(np.float64), places, numbers, np.zeros(len(values)))


def _tables() -> dict[str, pa.Table]:
    rng = np.random.default_rng(0)

    def drawn() -> np.ndarray:
        return (_VALUES * rng.random(_ROWS) ** 3).astype(np.int64)

    def text() -> pa.Array:
        return pa.array(drawn()).cast(pa.string())

    def decimal(digits: int, scale: int) -> pa.Array:
        return pa.array(drawn() / 4).cast(pa.decimal128(digits, scale))

    b, a = drawn(), rng.integers(0, 100, _ROWS, dtype=np.int32)
    return {
        "r": pa.table({"a": a, "b": b, "d": text(), "m": decimal(12, 2), "k": decimal(24, 4)}),
        "s": pa.table({"b": drawn(), "c": text(), "d": text(), "x": a}),
        "t": pa.table({"c": text(), "x": a, "k": decimal(20, 2)}),
    }
