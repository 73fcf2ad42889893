"""The pass: projected batches of one stream into everything that is kept of it."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from eddyline.ingest.columns import lean_columns
from eddyline.ingest.projection import Prepared, Projection, prepare
from eddyline.ingest.sample_pass import SamplePass
from eddyline.ingest.sketching import Sketches
from eddyline.ingest.stream_spec import SampleTask
from eddyline.plan.layout import KeptSynopsis


class Accumulator:
    """Counters, hints, elements and row counts of one stream while its batches go by."""

    def __init__(
        self, kept: Sequence[KeptSynopsis], projection: Projection, samples: Sequence[SampleTask] = ()
    ) -> None:
        self.projection = projection
        self.twins = lean_columns(projection).twins
        self.sketches = Sketches(kept)
        self.samples = {task.sample.id: SamplePass(task) for task in samples}
        self.rows = 0
        self.deletes = 0

    def feed(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Add one projected batch."""
        if batch.num_rows == 0:
            return
        prepared = prepare(batch, self.projection, self.twins)
        self.feed_prepared(prepared)
        self.rows += batch.num_rows
        self.deletes += int(np.count_nonzero(prepared.weights < 0))

    def feed_prepared(self, prepared: Prepared) -> None:
        """Add one prepared batch to every synopsis and sample."""
        self.sketches.feed(prepared)
        for sample in self.samples.values():
            sample.feed(prepared)
