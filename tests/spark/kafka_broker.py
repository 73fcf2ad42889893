"""A Kafka broker of the tests' own: one node (KRaft), on loopback, in a temporary folder, with the means to write to it."""

import base64
import contextlib
import socket
import subprocess
import time
import uuid

import pytest

from tests.spark.maven_jars import jars_of

BROKER = "org.apache.kafka:kafka_2.13:4.2.1"
SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
log.dirs={folder}/data
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.backoff.ms=200
"""


class Broker:
    """A broker that can be stopped and started again on its data; as a context manager it ends with the test."""

    def __init__(self, folder):
        pytest.importorskip("kafka", reason="kafka-python writes the topics")
        self._classes = f"{jars_of(BROKER)}/*"
        self._folder = folder
        self.port, controller = _free_ports(2)
        self.servers = f"127.0.0.1:{self.port}"
        self._settings = folder / "server.properties"
        self._settings.write_text(SETTINGS.format(port=self.port, controller=controller, folder=folder))
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        done = subprocess.run(
            self._java("kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", str(self._settings)),
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        self._process = None

    def _java(self, *arguments):
        return ["java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", self._classes, *arguments]

    def start(self):
        """Start the broker and wait until it answers."""
        with (self._folder / "log").open("a") as log:
            self._process = subprocess.Popen(
                self._java("kafka.Kafka", str(self._settings)), stdout=log, stderr=log
            )
        for _ in range(300):
            assert self._process.poll() is None, (self._folder / "log").read_text()[-3000:]
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.1)
        raise AssertionError((self._folder / "log").read_text()[-3000:])

    def stop(self):
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def admin(self, act):
        """Return what an action of Kafka's admin client gives."""
        from kafka import KafkaAdminClient

        client = KafkaAdminClient(bootstrap_servers=self.servers)
        try:
            return act(client)
        finally:
            client.close()

    def create(self, topic, partitions=3, **settings):
        from kafka.admin import NewTopic

        named = {name.replace("_", "."): str(value) for name, value in settings.items()}
        self.admin(lambda admin: admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=named)]))

    def compact(self, topic):
        """Let a topic be compacted from now on."""
        from kafka.admin import ConfigResource, ConfigResourceType

        settings = {"cleanup.policy": "compact", "segment.ms": "200", "min.cleanable.dirty.ratio": "0.01"}
        resource = ConfigResource(ConfigResourceType.TOPIC, topic, configs=settings)
        self.admin(lambda admin: admin.alter_configs([resource]))

    def add_partitions(self, topic, total):
        from kafka.admin import NewPartitions

        self.admin(lambda admin: admin.create_partitions({topic: NewPartitions(total)}))

    def drop_before(self, topic, offsets):
        """Delete the records of partitions before some offsets, as retention does."""
        from kafka import TopicPartition

        gone = {TopicPartition(topic, number): offset for number, offset in offsets.items()}
        self.admin(lambda admin: admin.delete_records(gone))

    def send(self, topic, records, partition=None):
        """Write (key, value) pairs, one key always to one partition, and wait until the broker has them."""
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers=self.servers, linger_ms=5)
        for key, value in records:
            producer.send(topic, key=key, value=value, partition=partition)
        producer.flush()
        producer.close()

    @contextlib.contextmanager
    def member(self, group, topics):
        """A member of a consumer group that has got partitions of topics, and leaves in the end."""
        from kafka import KafkaConsumer

        reader = KafkaConsumer(*topics, bootstrap_servers=self.servers, group_id=group)
        while not reader.assignment():
            reader.poll(200)
        yield
        reader.close()

    def records(self, topic):
        """Return how many records a topic has now."""
        from kafka import KafkaConsumer

        reader = KafkaConsumer(
            topic, bootstrap_servers=self.servers, auto_offset_reset="earliest", consumer_timeout_ms=1000
        )
        count = sum(1 for _ in reader)
        reader.close()
        return count


def _free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
