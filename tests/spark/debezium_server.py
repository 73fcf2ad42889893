"""Debezium's PostgreSQL connector in a Kafka Connect worker of the tests' own, from Maven's artifacts, on loopback."""

import subprocess

import psycopg

from tests.spark.maven_jars import jars_of

CONNECTOR = "io.debezium:debezium-connector-postgres:3.3.1.Final"
WORKER = "org.apache.kafka:connect-runtime:4.1.0"
WORKER_SETTINGS = """
bootstrap.servers={servers}
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
offset.storage.file.filename={folder}/offsets
offset.flush.interval.ms=500
listeners=http://127.0.0.1:0
plugin.discovery=service_load
plugin.path={jars}
"""
CONNECTOR_SETTINGS = """
name=shop
connector.class=io.debezium.connector.postgresql.PostgresConnector
plugin.name=pgoutput
publication.autocreate.mode=filtered
topic.prefix=shop
database.hostname={host}
database.port={port}
database.user={user}
database.password=none
database.dbname={dbname}
table.include.list={tables}
poll.interval.ms=50
"""


class Debezium:
    """A worker that writes the changes of tables to topics shop.<schema>.<table>; it ends with the test."""

    def __init__(self, folder, servers, dsn, tables):
        jars = jars_of(CONNECTOR, WORKER)
        self._log = folder / "log"
        texts = {
            "worker": WORKER_SETTINGS.format(servers=servers, folder=folder, jars=jars.parent),
            "shop": CONNECTOR_SETTINGS.format(
                **psycopg.conninfo.conninfo_to_dict(dsn), tables=",".join(tables)
            ),
        }
        files = [folder / f"{name}.properties" for name in texts]
        for file, text in zip(files, texts.values(), strict=True):
            file.write_text(text)
        main = "org.apache.kafka.connect.cli.ConnectStandalone"
        self._command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", f"{jars}/*", main, *map(str, files)]

    def __enter__(self):
        with self._log.open("a") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
