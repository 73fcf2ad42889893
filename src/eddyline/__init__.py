"""SQL aggregates over streams of inserts and deletes, from kilobytes of sketch state, with honest intervals.

Importing eddyline does not import pyspark: only `Plan.sketch` does.
"""

from eddyline.answer.estimate import Estimate
from eddyline.api.plan import Plan
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

__all__ = [
    "ChangeError",
    "CorruptState",
    "EddylineError",
    "Estimate",
    "FormatVersion",
    "IncompatibleSpecs",
    "Locked",
    "PipelineError",
    "Plan",
    "PlanError",
    "SketchError",
    "SqlError",
    "State",
    "StoreError",
    "UnsupportedQuery",
    "Workload",
    "WrongRun",
]
