"""Kafka topics as streams: the options they are read with, and how their records become rows.

The value of a record is JSON of the declared columns, or a Debezium envelope. As with JSON files, a record that
does not fit is a bad row, and no record is lost silently: a topic is read from its first record unless
`startingOffsets` says otherwise, and a topic that drops records before they were read is refused unless the
pipeline has `may_lose_rows = true`.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from eddyline.errors import PipelineError
from eddyline.ingest.changes import CORRUPT
from eddyline.spark.causes import SPARK_ERRORS, cause_of
from eddyline.spark.sources import SparkSource
from eddyline.spark.sources.files import refuse_rounding, with_all_digits

FORMAT = "kafka"
_SUBSCRIPTIONS = ("subscribe", "subscribepattern", "assign")
_ADMIN_WAIT = "10000"


def topic_rows(spark: SparkSession, source: SparkSource) -> DataFrame:
    """Return the rows of Kafka topics, or their keys and values if these are Debezium envelopes."""
    options = kafka_options(source.stream, source.options, may_lose_rows=source.may_lose_rows)
    if not source.may_lose_rows:
        _check_session(spark, source.stream)
    frame = source.reader(spark).format(FORMAT).options(**options).load()
    if not source.may_lose_rows:
        check_topics(spark, source.stream, options)
    if source.change.form == "debezium":
        return frame.select("key", "value")
    columns = source.columns()
    kinds = [f"`{name}` {with_all_digits(kind)}" for name, kind in columns.items()]
    return refuse_rounding(value_rows(frame, ", ".join([*kinds, f"`{CORRUPT}` STRING"])), columns)


def kafka_options(stream: str, options: Mapping[str, str], *, may_lose_rows: bool) -> dict[str, str]:
    """Return the options to read a topic with, or raise PipelineError on options that would lose rows."""
    given = {name.lower(): value for name, value in options.items()}
    if "kafka.bootstrap.servers" not in given or not any(name in given for name in _SUBSCRIPTIONS):
        raise PipelineError(
            f'stream {stream!r}: a Kafka source needs options, as {{ "kafka.bootstrap.servers" = "host:9092", '
            f'subscribe = "topic" }}; it has {", ".join(options) or "none"}.'
        )
    if given.get("failondataloss", "true").lower() == "false" and not may_lose_rows:
        raise PipelineError(
            f'stream {stream!r}: failOnDataLoss = "false" silently skips what a topic dropped before it was '
            "read; remove it, or set may_lose_rows = true in the stream's table if that is intended."
        )
    first = {} if any(name.startswith("starting") for name in given) else {"startingOffsets": "earliest"}
    lossy = {"failOnDataLoss": "false"} if may_lose_rows else {}
    return {**first, **options, **lossy}


def value_rows(frame: DataFrame, schema: str) -> DataFrame:
    """Return the records of a topic as rows: their JSON values by a schema, CORRUPT where one does not fit it.

    A NULL value is a row that does not fit: outside Debezium's envelopes it does not say which row to delete.
    """
    text = sf.col("value").cast("string")
    read = sf.from_json(text, schema, {"columnNameOfCorruptRecord": CORRUPT})
    rows = frame.select(text.alias("text"), read.alias("read"))
    unread = sf.col("read").isNull() | ~sf.is_valid_utf8("text")
    shown = sf.when(unread, sf.coalesce(sf.make_valid_utf8("text"), sf.lit("a record without a value")))
    plain = rows.select("read.*", shown.alias("__eddyline_unread"))
    whole = sf.coalesce("__eddyline_unread", sf.col(f"`{CORRUPT}`")).alias(CORRUPT)
    return plain.select(*(f"`{name}`" for name in plain.columns[:-1] if name != CORRUPT), whole)


def _check_session(spark: SparkSession, stream: str) -> None:
    """Raise PipelineError over Spark Connect, where Kafka's client cannot be reached."""
    if not isinstance(spark, SparkSession):
        raise PipelineError(
            f"stream {stream!r}: over Spark Connect it cannot be checked that a topic is not compacted; read it from a "
            "classic Spark session, or say may_lose_rows = true if no topic of the stream is compacted."
        )


def check_topics(spark: SparkSession, stream: str, options: Mapping[str, str]) -> None:
    """Raise PipelineError if a topic of a stream is compacted or does not exist.

    Compaction drops all but the last change of a key, so counts of the rest would be wrong. If the user may not
    read a topic's settings, the topic is accepted.
    """
    given = {name.lower(): value for name, value in options.items()}
    try:
        policies = _cleanup_policies(spark, given)
    except SPARK_ERRORS as error:
        if "AuthorizationException" in str(error):
            return
        raise PipelineError(f"stream {stream!r}: {_unreachable(given, error)}") from error
    for topic, policy in sorted(policies.items()):
        if "compact" in policy:
            raise PipelineError(
                f"stream {stream!r}: topic {topic!r} is compacted (cleanup.policy={policy}), which drops all but the "
                "last change of a key, so that answers would be wrong: let it keep its records "
                "(cleanup.policy=delete), or say may_lose_rows = true if the run always reads ahead of compaction."
            )


def _unreachable(options: Mapping[str, str], error: BaseException) -> str:
    servers = options["kafka.bootstrap.servers"]
    if "UnknownTopicOrPartition" in str(error):
        return f"the topic is not there: {options.get('subscribe')!r} at {servers}; create it, or correct the name."
    if "TimeoutException" in str(error) or "No resolvable bootstrap" in str(error):
        return f"no Kafka broker answers at {servers}: start it, or correct kafka.bootstrap.servers."
    return f"the topics at {servers} cannot be looked at: {cause_of(error)}"


def _cleanup_policies(spark: SparkSession, options: Mapping[str, str]) -> dict[str, str]:
    """Return the cleanup policy of each topic that is read, from Kafka's own client in Spark's JVM."""
    jvm: Any = spark._jvm  # noqa: SLF001 - the only way to the connector's client
    properties = jvm.java.util.Properties()
    waits = {"kafka.default.api.timeout.ms": _ADMIN_WAIT, "kafka.request.timeout.ms": _ADMIN_WAIT}
    for name, value in {**options, **waits}.items():
        if name.startswith("kafka."):
            properties.setProperty(name.removeprefix("kafka."), value)
    kafka = jvm.org.apache.kafka
    admin = kafka.clients.admin.AdminClient.create(properties)
    try:
        kind = kafka.common.config.ConfigResource.Type.TOPIC
        topics = jvm.java.util.ArrayList()
        for topic in _topics(admin, options):
            topics.add(kafka.common.config.ConfigResource(kind, topic))
        described = admin.describeConfigs(topics).all().get()
        return {each.name(): described[each].get("cleanup.policy").value() for each in described}
    finally:
        admin.close()


def _topics(admin: Any, options: Mapping[str, str]) -> list[str]:
    """Return the names of the topics that options subscribe to."""
    if "subscribe" in options:
        return [topic.strip() for topic in options["subscribe"].split(",")]
    if "assign" in options:
        return list(json.loads(options["assign"]))
    there = list(admin.listTopics().names().get())
    return [topic for topic in there if re.fullmatch(options["subscribepattern"], topic)]
