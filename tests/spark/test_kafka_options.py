"""What a topic is read with, and what is reported about records that are gone: without a broker, for machines that have none."""

import pytest

import eddyline as el
from eddyline.spark.causes import cause_of
from eddyline.spark.sources.kafka import kafka_options

GIVEN = {"kafka.bootstrap.servers": "host:9092", "subscribe": "t"}
LOST = """Job aborted due to stage failure: Task 0 in stage 6.0 failed 1 times, most recent failure: Lost task 0.0:
org.apache.spark.sql.kafka010.KafkaIllegalStateException: [KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] Some data may have been lost because they are not available in Kafka any more;
either the data was aged out by Kafka or the topic may have been deleted before all the data in the
topic was processed.
If you don't want your streaming query to fail on such cases, set the source option failOnDataLoss to false.
Reason: Could not read records in offset [40, 80) for topic partition t-0
with consumer group spark-kafka-source-1.
\tat org.apache.spark.sql.kafka010.KafkaExceptions$.couldNotReadOffsetRange(KafkaExceptions.scala:94)
"""


def test_topics_are_read_from_their_first_record_unless_it_is_said_otherwise():
    assert kafka_options("s", GIVEN, may_lose_rows=False) == {**GIVEN, "startingOffsets": "earliest"}
    for name in ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp"):
        chosen = {**GIVEN, name: "x"}
        assert kafka_options("s", chosen, may_lose_rows=False) == chosen


@pytest.mark.parametrize("name", ["failOnDataLoss", "failondataloss"])
def test_rows_are_lost_only_where_it_is_said(name):
    with pytest.raises(el.PipelineError, match="may_lose_rows"):
        kafka_options("s", {**GIVEN, name: "False"}, may_lose_rows=False)
    assert kafka_options("s", GIVEN, may_lose_rows=True)["failOnDataLoss"] == "false"


@pytest.mark.parametrize("name", GIVEN)
def test_options_that_are_missing_are_named(name):
    left = {other: value for other, value in GIVEN.items() if other != name}
    with pytest.raises(el.PipelineError, match="needs options"):
        kafka_options("s", left, may_lose_rows=False)


def test_records_that_are_gone_are_told_in_our_words():
    shown = cause_of(RuntimeError(LOST))
    assert shown.startswith(
        "records that were not read yet are gone from Kafka (Could not read records in offset [40, 80)"
    )
    assert "\n" not in shown
    assert "consumer group" not in shown
