"""SQL aggregates over streams of inserts and deletes, from kilobytes of sketch state, with honest intervals.

Importing eddyline does not import pyspark: only `Plan.sketch` and `Plan.start` do.
"""

from typing import TYPE_CHECKING

from eddyline.answer.estimate import Estimate
from eddyline.answer.freshness import Freshness
from eddyline.api.batch_job import open_state as open  # noqa: A004 - the word that users expect
from eddyline.api.plan import Plan
from eddyline.api.run import Run
from eddyline.api.state import State
from eddyline.api.workload import Workload
from eddyline.errors import (
    ChangeError,
    CorruptState,
    EddylineError,
    FormatVersion,
    IncompatibleSpecs,
    Locked,
    PipelineError,
    PlanError,
    SketchError,
    SqlError,
    StoreError,
    UnsupportedQuery,
    WrongRun,
)
from eddyline.plan.statistics import RelationStatistics, Statistics

__all__ = [
    "ChangeError",
    "CorruptState",
    "EddylineError",
    "Estimate",
    "FormatVersion",
    "Freshness",
    "IncompatibleSpecs",
    "Locked",
    "PipelineError",
    "Plan",
    "PlanError",
    "RelationStatistics",
    "Run",
    "SketchError",
    "SqlError",
    "State",
    "Statistics",
    "StoreError",
    "UnsupportedQuery",
    "Workload",
    "WrongRun",
    "open",
]

if TYPE_CHECKING:
    __version__: str
else:

    def __getattr__(name: str) -> str:
        """Return `__version__`, read from the installed package's metadata only when somebody asks for it."""
        if name != "__version__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib.metadata import version  # noqa: PLC0415 - importing eddyline should not pay for it

        return version("eddyline")
