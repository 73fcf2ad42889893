"""A function for Spark's foreachBatch that commits each micro-batch to a store, wherever Spark calls it.

`plan.start` keeps a store open in the driver. Over Spark Connect the function of foreachBatch runs in a Python
process of the server instead, one process for each query, so this process cannot hold the store. A `BatchWriter`
opens the store for one batch, commits it and releases it. Batches count once in the same way: the store identifies
them by the id of the query, which is in its checkpoint, and by their number.
"""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from eddyline.api.run import OnBad, OnUnseenDelete, Run, StartOptions, open_store
from eddyline.errors import Locked, PipelineError
from eddyline.plan.layout import Layout
from eddyline.store import Batch, Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_WAIT = 300.0
"""Seconds that a batch waits for the batch of another stream; longer than one takes, so only a lost lock fails."""
_POLL = 0.05


@dataclass(frozen=True)
class BatchWriter:
    """Commits the micro-batches of one stream; made by `Plan.batch_writer`. It can be pickled.

    store, checkpoint: paths that the process running it can read and write.
    """

    layout: Layout
    stream: str
    store: str
    checkpoint: str
    on_bad: OnBad = "fail"
    on_unseen_delete: OnUnseenDelete = "note"

    def __post_init__(self) -> None:
        names = [stream.name for stream in self.layout.streams]
        if self.stream not in names:
            raise PipelineError(f"stream {self.stream!r} is not in the plan, which has {', '.join(names)}.")
        if "://" in self.checkpoint:
            raise PipelineError(
                f"the checkpoint {self.checkpoint} of a batch writer is read by Python: give a path, on a volume that "
                "the server has mounted, and the same one as checkpointLocation."
            )

    def __call__(self, frame: "DataFrame", batch_id: int) -> None:
        """Sketch a batch and commit it, unless the store already has it."""
        from eddyline.spark.checkpoint import Checkpoint, LocalFolder  # noqa: PLC0415 - Spark only where it is used

        checkpoint = Checkpoint(LocalFolder(Path(self.checkpoint)), self.checkpoint)
        query_id = checkpoint.query_id
        if query_id is None:
            raise PipelineError(
                f"stream {self.stream!r}: there is no checkpoint at {self.checkpoint}; give the query the same "
                "checkpointLocation as the batch writer."
            )
        checkpoint.sync()
        store = self._open()
        try:
            run = Run(frame.sparkSession, self.layout, store, self.on_bad, None, self.on_unseen_delete)
            run.take_batch(self.stream, query_id, batch_id, frame, Batch(checkpoint.held(batch_id)))
        finally:
            store.close()

    def _open(self) -> Store:
        """Return the store, open for writing, once the batch of another stream has released it."""
        settings = StartOptions(on_bad=self.on_bad, on_unseen_delete=self.on_unseen_delete)
        deadline = time.monotonic() + _WAIT
        while True:
            try:
                return open_store(self.layout, self.store, settings)
            except Locked:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_POLL)
