"""SQL aggregates over streams of inserts and deletes, from a fixed memory budget, with honest intervals.

Importing eddyline imports nothing but the standard library; each name below loads what it needs when it is first
touched. numba is loaded by the first row that is counted, pyspark by `Plan.sketch`, `Plan.start` and `register`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from eddyline.errors import (
    ChangeError,
    CorruptState,
    EddylineError,
    FormatVersion,
    IncompatibleSpecs,
    Locked,
    PipelineError,
    PlanError,
    RowFailure,
    SketchError,
    SqlError,
    StoreError,
    UnsupportedQuery,
    WrongRun,
)

if TYPE_CHECKING:
    from eddyline.answer.estimate import Estimate
    from eddyline.answer.freshness import Freshness
    from eddyline.answer.groups.table import Groups
    from eddyline.api.jobs import open_state as open  # noqa: A004 - the word that users expect
    from eddyline.api.operations.sizing import Sizing
    from eddyline.api.plan import Plan
    from eddyline.api.run import Run
    from eddyline.api.state import State
    from eddyline.api.store_tables import history, register
    from eddyline.api.workload import Workload
    from eddyline.plan.statistics import RelationStatistics, Statistics

    __version__: str

__all__ = [
    "ChangeError",
    "CorruptState",
    "EddylineError",
    "Estimate",
    "FormatVersion",
    "Freshness",
    "Groups",
    "IncompatibleSpecs",
    "Locked",
    "PipelineError",
    "Plan",
    "PlanError",
    "RelationStatistics",
    "RowFailure",
    "Run",
    "Sizing",
    "SketchError",
    "SqlError",
    "State",
    "Statistics",
    "StoreError",
    "UnsupportedQuery",
    "Workload",
    "WrongRun",
    "history",
    "open",
    "register",
]

_HOMES = {
    "Estimate": "eddyline.answer.estimate",
    "Freshness": "eddyline.answer.freshness",
    "Groups": "eddyline.answer.groups.table",
    "Plan": "eddyline.api.plan",
    "RelationStatistics": "eddyline.plan.statistics",
    "Run": "eddyline.api.run",
    "Sizing": "eddyline.api.operations.sizing",
    "State": "eddyline.api.state",
    "Statistics": "eddyline.plan.statistics",
    "Workload": "eddyline.api.workload",
    "history": "eddyline.api.store_tables",
    "register": "eddyline.api.store_tables",
}

if not TYPE_CHECKING:  # type checkers see the imports above

    def __getattr__(name: str) -> object:
        """Return a public name from its home, or the version from the installed package's metadata."""
        if name == "__version__":
            return import_module("importlib.metadata").version("eddyline")
        if name == "open":
            return import_module("eddyline.api.jobs").open_state
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)

    def __dir__() -> list[str]:
        """Return the public names, those that are not loaded yet among them."""
        return sorted({*globals(), *__all__})
