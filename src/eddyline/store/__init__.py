"""The store: durable, versioned state that takes each batch exactly once; see docs/internals/store.md."""

from eddyline.errors import without_secrets
from eddyline.store.filesystem import Where
from eddyline.store.layout import COMMIT_STEPS, Commit, Epoch, PlanStamp, SourcePosition, make_epoch
from eddyline.store.position import Batch, check_folder, last_to_keep
from eddyline.store.reader import Problem, Reader, verify
from eddyline.store.retention import parse_retention
from eddyline.store.store import Sections, Store, difference, kept_sections, unchanged_names
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
    "kept_sections",
    "last_to_keep",
    "make_epoch",
    "parse_retention",
    "unchanged_names",
    "verify",
    "without_secrets",
]
