"""The time zone of the Spark session that is active, if there is one."""

import sys


def session_zone() -> str | None:
    """Return the active session's zone, None without a session; Spark is asked only if it is imported already."""
    if "pyspark.sql" not in sys.modules:
        return None
    from eddyline.spark.timezone import active_zone  # noqa: PLC0415 - Spark only where it is used

    return active_zone()
