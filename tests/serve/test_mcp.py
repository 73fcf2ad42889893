"""`eddyline mcp`: a client process speaks the protocol over pipes with a real server process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import eddyline as el
from eddyline.serve.mcp import MOST_LINE, VERSIONS, McpServer
from tests.data.moving_store import MovingStore, orders, visits


class Client:
    """A client of the protocol: requests with growing ids, one message per line."""

    def __init__(self, store):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "eddyline.cli", "mcp", str(store)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ,
        )
        self.number = 0

    def send(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def request(self, method, **parameters):
        self.number += 1
        self.send({"jsonrpc": "2.0", "id": self.number, "method": method, "params": parameters})
        reply = json.loads(self.process.stdout.readline())
        assert (reply["jsonrpc"], reply["id"]) == ("2.0", self.number)
        return reply

    def call(self, tool, **arguments):
        return self.request("tools/call", name=tool, arguments=arguments)["result"]

    def close(self):
        self.process.stdin.close()
        code = self.process.wait(timeout=30)
        self.process.stdout.close()
        return code


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    moving = MovingStore(tmp_path_factory.mktemp("mcp") / "state")
    for number in range(6):  # more rows than the budget holds
        moving.commit("orders", orders(number, 4_000))
        moving.commit("visits", visits(number, 4_000))
    yield moving
    moving.close()


def test_a_client_process_is_answered_as_the_store_answers_itself(store):
    client = Client(store.where)
    began = client.request("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={})
    assert began["result"]["protocolVersion"] == "2025-06-18"
    client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    tools = client.request("tools/list")["result"]["tools"]
    assert [each["name"] for each in tools] == ["schema", "ask", "explain"]

    schema = client.call("schema")["structuredContent"]
    assert [each["name"] for each in schema["streams"]] == ["orders", "visits"]
    assert {"name": "customer", "type": "BIGINT"} in schema["streams"][0]["columns"]
    assert {each["name"] for each in schema["queries"]} == set(store.plan.layout.query_names)

    expected = el.open(store.where)
    for query in ("money", "SELECT COUNT(DISTINCT customer) FROM orders"):
        found = client.call("ask", sql=query)
        answer, shown = expected.answer(query), found["structuredContent"]
        assert (shown["value"], shown["low"], shown["high"]) == (answer.value, answer.low, answer.high)
        assert shown["exact"] == answer.exact
        assert shown["notes"] == list(answer.notes)
        assert shown["freshness"]["epoch"] == 12
        assert json.loads(found["content"][0]["text"]) == shown, "clients of 2024 read the text"
    wider = client.call("ask", sql="money", confidence=0.999)["structuredContent"]
    assert wider["confidence"] == 0.999

    groups = client.call("ask", sql="busiest", limit=3)["structuredContent"]
    assert len(groups["groups"]) == 3
    assert groups["number_of_groups"] > 3
    around = client.call("ask", sql="SELECT MAX(n) AS most FROM busiest;")["structuredContent"]
    assert around["columns"][0]["name"] == "most"
    assert not around["exact"]

    refused = client.call("ask", sql="SELECT * FROM orders")
    assert refused["isError"]
    assert "rows are not kept" in refused["content"][0]["text"]
    steps = client.call("explain", query="money")["structuredContent"]["steps"]
    assert steps["query"] == "money"
    assert "sample" in client.call("explain")["structuredContent"]["text"]
    assert client.close() == 0


def test_an_agent_can_neither_write_nor_read_files_of_the_machine(store, tmp_path):
    before = {file.name: file.read_bytes() for file in Path(store.where).iterdir()}
    secret = tmp_path / "secret.csv"
    secret.write_text("column\nhidden\n")
    client = Client(store.where)
    for sql in (
        "DROP TABLE orders",
        "INSERT INTO orders VALUES (1, 'north', 2.5)",
        f"SELECT * FROM '{secret}'",
        f"SELECT * FROM read_csv('{secret}')",
        f"WITH a AS (SELECT COUNT(*) AS n FROM orders) SELECT * FROM a, read_text('{secret}')",
        f"WITH a AS (SELECT COUNT(*) AS n FROM orders) SELECT n FROM a; COPY (SELECT 1) TO '{tmp_path / 'made'}'",
        "WITH a AS (SELECT COUNT(*) AS n FROM orders) SELECT getenv('PATH') FROM a",
    ):
        found = client.call("ask", sql=sql)
        assert found["isError"], sql
        assert "hidden" not in found["content"][0]["text"]
    for arguments in ({"query": str(secret)}, {"query": "../secret"}):
        assert "hidden" not in json.dumps(client.request("tools/call", name="explain", arguments=arguments))
    client.close()
    assert {file.name: file.read_bytes() for file in Path(store.where).iterdir()} == before
    assert not (tmp_path / "made").exists()


def test_an_answer_follows_the_store(tmp_path):
    moving = MovingStore(tmp_path / "state")
    server = McpServer(moving.where)
    request = {"jsonrpc": "2.0", "id": "a", "method": "tools/call"}
    request["params"] = {"name": "ask", "arguments": {"sql": "orders_kept"}}

    def value():
        return server.reply(json.dumps(request).encode())["result"]["structuredContent"]["value"]

    assert value() == 0
    moving.move()
    moving.close()
    assert value() == el.open(moving.where).answer("orders_kept").value != 0


BAD = {
    "no JSON": (b"{", -32700),
    "deeply nested": (b"[" * 200_000, -32700),
    "no version": (b'{"id": 1, "method": "ping"}', -32600),
    "an empty batch": (b"[]", -32600),
    "no method": (b'{"jsonrpc": "2.0", "id": 1}', -32600),
    "an unknown method": (b'{"jsonrpc": "2.0", "id": 1, "method": "resources/list"}', -32601),
    "params that are no object": (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}', -32602),
}
CALLS = {
    "an unknown tool": {"name": "drop"},
    "no SQL": {"name": "ask", "arguments": {}},
    "SQL that is no string": {"name": "ask", "arguments": {"sql": 7}},
    "too much SQL": {"name": "ask", "arguments": {"sql": "x" * 100_001}},
    "an unknown argument": {"name": "schema", "arguments": {"table": "orders"}},
    "a wrong confidence": {"name": "ask", "arguments": {"sql": "money", "confidence": 1}},
    "a wrong limit": {"name": "ask", "arguments": {"sql": "money", "limit": True}},
    "arguments that are no object": {"name": "schema", "arguments": [1]},
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_message_gets_a_json_rpc_error(store, name):
    line, code = BAD[name]
    assert McpServer(store.where).reply(line)["error"]["code"] == code


@pytest.mark.parametrize("name", CALLS)
def test_a_bad_call_gets_a_json_rpc_error(store, name):
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": CALLS[name]}
    assert McpServer(store.where).reply(json.dumps(message).encode())["error"]["code"] == -32602


def test_batches_notifications_versions_and_long_lines(store, tmp_path):
    server = McpServer(store.where)
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
    assert server.reply(json.dumps(note).encode()) is None
    assert server.reply(json.dumps([note]).encode()) is None
    assert len(server.reply(json.dumps([ping, note, ping]).encode())) == 2
    begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "1999-01-01"}}
    assert server.reply(json.dumps(begin).encode())["result"]["protocolVersion"] == VERSIONS[0]
    sent, replied = tmp_path / "sent", tmp_path / "replied"
    sent.write_bytes(b"x" * (3 * MOST_LINE) + b"\n\n" + json.dumps(ping).encode() + b"\n")
    with sent.open("rb") as lines, replied.open("wb") as replies:
        server.run(lines, replies)
    first, second = map(json.loads, replied.read_bytes().splitlines())
    assert (first["error"]["code"], second["result"]) == (-32600, {})


def test_a_question_that_takes_too_long_is_refused_and_the_next_ones_are_answered(store):
    server = McpServer(store.where, seconds=0.0)

    def ask(sql):
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
        request["params"] = {"name": "ask", "arguments": {"sql": sql}}
        return server.reply(json.dumps(request).encode())["result"]

    refused = [ask(f"SELECT COUNT(*) FROM orders WHERE customer > {number}") for number in range(3)]
    for each in refused:
        assert each["isError"]
    assert "took longer than 0 s" in refused[0]["content"][0]["text"]
    for thread in list(server._running):
        thread.join(30)
    server._seconds = 30.0
    assert ask("SELECT COUNT(*) FROM orders")["structuredContent"]["exact"]
