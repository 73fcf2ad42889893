"""A continuous run of a pipeline file on any cluster: what is given to spark-submit.

spark-submit --master ... --py-files eddyline.zip job.py PIPELINE [--once] [--break-lock]

The session is the cluster's: master, memory and executors come from spark-submit or from spark-defaults.conf. It keeps
the pipeline's store current until SIGTERM or Ctrl-C; --once reads what is available now and ends.
"""

import argparse
import signal
from pathlib import Path
from threading import Event

from pyspark.sql import SparkSession

from eddyline.api.jobs import HowToRun, prepare_run
from eddyline.api.pipeline import load_pipeline

parser = argparse.ArgumentParser(description="Keep the store of a pipeline current.")
parser.add_argument("pipeline", type=Path)
parser.add_argument("--once", action="store_true", help="take what is there now, then end")
parser.add_argument("--break-lock", action="store_true", help="release the lock of a writer known to be dead")
given = parser.parse_args()

stopping = Event()
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: stopping.set())
pipeline = load_pipeline(given.pipeline)
spark = SparkSession.builder.appName("eddyline").getOrCreate()
with prepare_run(pipeline, HowToRun(once=given.once, break_lock=given.break_lock)).start(spark) as run:
    while not stopping.is_set() and not run.await_termination(1.0):
        pass
    run.stop()
    print(f"stopped at {run.freshness}")
spark.stop()
