"""The long runs of the fuzzers: `./scripts/fuzz --minutes N` of SQL texts, `--workloads` of whole workloads, `--wire` of
messages to the PostgreSQL server.

With random seeds, or from `--seed S` on.
"""

import argparse
import random
import sys
import time
from contextlib import nullcontext

from eddyline.spark.session import local_session
from tests.data.arrivals import ARRIVALS
from tests.fuzz import wire, workloads
from tests.fuzz.reverts import OF_WORKLOADS, REVERTS, reverted
from tests.fuzz.shrink import smallest
from tests.fuzz.sql_fuzzer import Round
from tests.fuzz.workload_queries import FORMS


def main():
    """Run rounds until the time is up; print each finding as small as it can be made; exit 1 if there was one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=None, help="the first seed; by default a random one")
    parser.add_argument("--workloads", action="store_true", help="whole workloads in place of SQL texts")
    parser.add_argument(
        "--wire", action="store_true", help="messages to `eddyline serve --pg` in place of SQL texts"
    )
    parser.add_argument("--arrival", choices=ARRIVALS, help="workloads whose keys arrive in this order only")
    parser.add_argument("--form", choices=FORMS, help="workloads with queries of this form only")
    parser.add_argument("--save", metavar="DIR", help="where to keep workloads that show a fault")
    parser.add_argument("--table", metavar="FILE", help="a Markdown file for the coverage of workloads")
    parser.add_argument(
        "--without", choices=[*REVERTS, *OF_WORKLOADS], help="leave a fix out, to see that its lack is found"
    )
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.randrange(10**9)
    if given.wire:
        return wire.long_run(given.minutes, seed)
    with reverted(given.without) if given.without else nullcontext():
        if given.workloads:
            return workloads.long_run(given.minutes, seed, given.arrival, given.form, given.save, given.table)
        return run(given.minutes, seed)


def run(minutes, seed):
    """Run rounds of SQL texts for a given number of minutes and return 1 if one of them found something."""
    spark = local_session()
    spark.sparkContext.setLogLevel("OFF")
    end, rounds, found, counts = time.monotonic() + 60 * minutes, 0, 0, {}
    while time.monotonic() < end:
        fuzzed = Round(spark, seed)
        for finding in fuzzed.run():
            found += 1
            print(f"\nFOUND {smallest(fuzzed, finding)}", flush=True)
        for name, count in fuzzed.counts.items():
            counts[name] = counts.get(name, 0) + count
        rounds, seed = rounds + 1, seed + 1
        print(f"round {rounds} (seed {seed - 1}): {counts}, {found} findings", flush=True)
    spark.stop()
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
