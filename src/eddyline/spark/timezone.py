"""The session's time zone: what it is, and that a plan which depends on it meets the one it was made for."""

from pyspark.sql import SparkSession

from eddyline.errors import PipelineError
from eddyline.plan.layout import Layout
from eddyline.spark.causes import SPARK_ERRORS
from eddyline.sql.timezones import normal_zone

_SETTING = "spark.sql.session.timeZone"


def active_zone() -> str | None:
    """Return the zone of the session that is active in this thread, or None."""
    try:
        session = SparkSession.getActiveSession()
        zone = None if session is None else session.conf.get(_SETTING)
    except (*SPARK_ERRORS, RuntimeError):
        return None
    return None if zone is None else normal_zone(zone)


def zone_of(spark: SparkSession) -> str:
    """Return the zone of a session."""
    return normal_zone(spark.conf.get(_SETTING) or "UTC")


def check_zone(layout: Layout, spark: SparkSession) -> None:
    """Raise PipelineError where the plan reads times in another zone than the session.

    Spark fixes the zone of an expression when it analyses it, over Connect as late as it runs it. The session's
    setting is not changed here, because other queries of the session may depend on it at the same moment.
    """
    if layout.timezone is None:
        return
    zone = zone_of(spark)
    if zone != layout.timezone:
        raise PipelineError(
            f"the plan reads years, days and hours of timestamps in {layout.timezone}, and this Spark session's zone "
            f'is {zone}: plan with timezone = "{zone}" in [workload] (Workload(timezone={zone!r})), or '
            f"spark.conf.set({_SETTING!r}, {layout.timezone!r})."
        )
