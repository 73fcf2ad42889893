"""The tasks of a direct scan run one after the other in this process, without a JVM."""

import pyarrow as pa

import eddyline as el
from eddyline.ingest.snapshot import Snapshot
from eddyline.ingest.stream_pass import projection_of
from eddyline.spark.direct.files import Doubt
from eddyline.spark.direct.planning import scan_of
from eddyline.spark.direct.scan import encode_scan, scan_task
from eddyline.spark.tasks import Merger, encode_spec, from_batches


def scanned(plan, paths, tasks=3):
    """Return the state after a direct scan of one path per stream, or raise Doubt."""
    snapshot = Snapshot.empty(plan.layout)
    for stream in plan.layout.streams:
        spec = snapshot.stream_spec(stream.name)
        projection = projection_of(spec, stream.event_time)
        scan = scan_of(
            stream, projection, plan.layout.timezone, str(paths[stream.name]), tasks, our_calendar=True
        )
        merger = Merger(spec)
        for number in range(len(scan.tasks)):
            numbers = [pa.record_batch({"id": [number]})]
            for row in from_batches(scan_task(encode_spec(spec), encode_scan(scan), numbers)):
                merger.take(*row)
        if merger.report.error is not None and merger.report.error[0] == "Doubt":
            raise Doubt(merger.report.error[1])
        merger.report.raise_error()
        snapshot = snapshot.plus_stream(stream.name, merger.stream_pass())
    return el.State(snapshot)
