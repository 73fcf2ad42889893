"""One site: counts its own rows under a plan that it reads from a file, and saves its state every half second.

    python count_rows.py NAME PLAN FOLDER SECONDS

No Spark, and no connection to the other sites: all that leaves the site is its store. A site that starts again goes on
from its last save.
"""

import sys
import time
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa

import eddyline as el


def main(name: str, plan: str, folder: str, seconds: str) -> None:
    """Count calls and visits until the time is over."""
    store = Path(folder) / name
    state = el.open(store) if store.exists() else el.Plan.from_bytes(Path(plan).read_bytes()).empty()
    rng = np.random.default_rng([zlib.crc32(name.encode()), int(time.time())])
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        state.update("calls", pa.table({"user": rng.zipf(1.3, 2000) % 50_000}))
        state.update("visits", pa.table({"user": rng.integers(0, 50_000, 2000)}))
        state.save(store)
        time.sleep(0.5)


if __name__ == "__main__":
    main(*sys.argv[1:])
