"""The store: durable, versioned state that takes each batch exactly once; see docs/concepts/store.md."""

from eddyline.store.commit import Commit, Epoch, PlanStamp, SourcePosition
from eddyline.store.filesystem import Where
from eddyline.store.layout import COMMIT_STEPS
from eddyline.store.plan_change import difference, unchanged_names
from eddyline.store.position import Batch, check_folder, last_to_keep
from eddyline.store.reader import Reader
from eddyline.store.store import Sections, Store
from eddyline.store.verify import Problem, verify
from eddyline.store.writer import Options

__all__ = [
    "COMMIT_STEPS",
    "Batch",
    "Commit",
    "Epoch",
    "Options",
    "PlanStamp",
    "Problem",
    "Reader",
    "Sections",
    "SourcePosition",
    "Store",
    "Where",
    "check_folder",
    "difference",
    "last_to_keep",
    "unchanged_names",
    "verify",
]
