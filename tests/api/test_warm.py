"""Warming: it reaches every kernel, with the types that real passes and answers call them with."""

import numpy as np
import pyarrow as pa
import pytest

import eddyline as el
from eddyline.api.operations import warm as warming
from eddyline.api.operations.warm import all_kernels, warm_kernels
from eddyline.errors import PipelineError


def compiled_forms() -> dict[str, int]:
    return {k.name: len(k.compiled.signatures) for k in all_kernels()}


def shop(budget: str, *, samples: bool) -> el.State:
    """Return a state of the kind that the demo makes: change rows, text and decimals, joins and sets."""
    w = el.Workload(budget=budget, samples=samples)
    w.stream("orders", "customer BIGINT, region STRING, total DECIMAL(12,2)", changes="change_type")
    w.stream("visits", "customer BIGINT, seconds INT", changes="weight")
    w.query("north", "SELECT SUM(total) FROM orders WHERE region = 'north'")
    w.query(
        "joined",
        "SELECT AVG(o.total) FROM orders o JOIN visits v ON o.customer = v.customer WHERE seconds > 60",
    )
    w.query("regions", "SELECT COUNT(*) FROM orders a JOIN orders b ON a.region = b.region")
    w.query("buyers", "SELECT COUNT(DISTINCT customer) FROM orders")
    w.query("unseen", "SELECT COUNT(*) FROM (SELECT customer FROM orders EXCEPT SELECT customer FROM visits)")
    rng, n = np.random.default_rng(3), 20_000
    orders = pa.table(
        {
            "customer": (9000 * rng.random(n) ** 2).astype(np.int64),
            "region": np.array(["north", "south"])[rng.integers(0, 2, n)],
            "total": pa.array(rng.integers(0, 999, n) / 4).cast(pa.decimal128(12, 2)),
            "_change_type": np.array(["insert", "delete"])[(rng.random(n) < 0.1).astype(int)],
        }
    )
    visits = {"customer": rng.integers(0, 9000, n), "seconds": rng.integers(0, 99, n, dtype=np.int32)}
    return (
        w.plan().empty().update("orders", orders).update("visits", visits | {"weight": np.ones(n, np.int64)})
    )


def test_after_warming_nothing_is_left_to_compile():
    shown = warm_kernels()
    assert shown.folder.is_dir()
    before = compiled_forms()
    assert shown.kernels == len(before) > 40
    assert min(before.values()) > 0
    for state in (shop("64 KB", samples=True), shop("1 MB", samples=False)):
        (state + state).answers()
    assert compiled_forms() == before


def test_a_kernel_that_warming_misses_is_named(monkeypatch):
    from eddyline.kernels.jit import kernel

    def lonely(values: np.ndarray) -> int:
        return len(values)

    monkeypatch.setattr(warming, "_plans", list)
    monkeypatch.setattr(warming, "all_kernels", lambda: [kernel()(lonely)])
    with pytest.raises(PipelineError, match=r"did not reach .*lonely"):
        warm_kernels()
