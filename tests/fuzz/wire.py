"""Random sequences of protocol messages against the PostgreSQL server: it answers or closes, and never hangs or grows.

A sequence is sent as it is, with some bytes changed, cut, or with messages lost, repeated and swapped. What comes back
must be whole messages of the protocol, no internal error (XX000), and after an unchanged sequence that ends with Sync
the word that the next statement may come. A finding is printed with the fewest messages that still show it.
"""

import itertools
import logging
import pathlib
import random
import socket
import struct
import threading
import time

from tests.serve.postgres import shop

SECONDS = 240
"""The longest silence of the server, in seconds: each of up to 24 messages may take the ten seconds of a statement."""
_START = struct.pack("!ii", 8 + 1 + len(b"user\0me\0"), 3 << 16) + b"user\0me\0\0"
_NAMES = ["", "a", "b", "c", 'A "b"', "é", "x" * 80]
_OIDS = [0, 16, 20, 21, 23, 25, 701, 1007, 1009, 1043, 1082, 1114, 1184, 1186, 1700, 2950, 99999, 2**32 - 1]
_VALUES = [b"", b"4", b"-1", b"north", b"NaN", b"1e400", b"{1,2}", b"2024-02-30", b"\0\0\0\x04", b"\xff\xfe", b"x" * 3000,
           b"infinity", b"\0" * 8, b"t", b"'; --", b"{{1},{2,3}}", b"12.5", b"2024-02-29 10:11:12.5+02"]  # fmt: skip
_TEXTS = [
    "SELECT 1", "SELECT 1; SELECT 2; SELECT 1/0; SELECT 3", "", " ; -- nothing", "SELECT", "SELECT '", "SELECT $$a", "/* open",
    "SELECT $1::int", "SELECT $1", "SELECT $1 || $2", "SELECT $2::date, $1::numeric, $3", "SELECT $99999999999", "SELECT $0",
    "SELECT * FROM generate_series(1, 2000) AS g(x)", "SELECT * FROM nothing", "SELECT nothing FROM orders", "TABLE by_region",
    "SELECT n FROM by_region WHERE region = $1", "SELECT region, n, n_low FROM by_region ORDER BY n DESC LIMIT $1",
    "SELECT count(*) FROM orders WHERE region = $1 AND total > $2", "SELECT count(*) FROM orders o JOIN visits v USING (customer)",
    "SELECT * FROM orders", "SELECT * FROM orders LIMIT 3",
    "WITH a AS (SELECT region, count(*) AS n FROM orders GROUP BY 1) SELECT max(n) FROM a",
    "SELECT count(*) FROM visits WHERE day > $1 AND at < $2", "SELECT max(n) OVER () FROM by_region",
    "SELECT relname FROM pg_class WHERE oid = $1", "SELECT 'orders'::regclass::oid, $1::regclass", "SELECT version(), now()",
    "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'orders'::regclass", "SHOW ALL",
    "BEGIN", "COMMIT", "ROLLBACK", "START TRANSACTION READ ONLY", "BEGIN ISOLATION LEVEL SERIALIZABLE", "SAVEPOINT s", "ABORT",
    "ROLLBACK TO s", "RELEASE s", "END", "SET eddyline.confidence = 2", "SET eddyline.confidence = 0.9", "RESET ALL",
    "SET eddyline.intervals = on", "SET eddyline.as_of = 'never'", "SET statement_timeout = 1", "SET statement_timeout = -5",
    'SET search_path TO a, "b"', "SET TIME ZONE 'Nowhere/None'", "SHOW nothing", "SHOW statement_timeout", "DISCARD ALL",
    "SET LOCAL application_name = 'x'", "DEALLOCATE a", "DEALLOCATE ALL", "PREPARE c AS SELECT $1::int", "EXECUTE c(4)",
    "EXECUTE c", "EXECUTE nothing(1, 'a')", "DECLARE c CURSOR FOR SELECT n FROM by_region", "DECLARE b CURSOR WITH HOLD FOR SELECT 1",
    "FETCH 3 FROM b", "FETCH ALL FROM c", "FETCH BACKWARD 2 FROM c", "FETCH -1 FROM c", "MOVE 1 FROM c", "MOVE FORWARD ALL IN b",
    "CLOSE c", "CLOSE ALL", "COPY (SELECT 1) TO STDOUT (FORMAT binary)", "COPY by_region TO STDOUT CSV HEADER", "COPY a FROM STDIN",
    "COPY (SELECT * FROM by_region) TO STDOUT (DELIMITER 'ab')", "COPY orders TO STDOUT", "COPY (SELECT 1) TO '/etc/passwd'",
    "EXPLAIN SELECT count(*) FROM orders", "EXPLAIN ANALYZE SELECT 1", "EXPLAIN (FORMAT JSON) SELECT n FROM by_region",
    "DELETE FROM orders", "LISTEN a", "UNLISTEN *", "NOTIFY a, 'b'", "LOCK orders", "VACUUM", "DO $$BEGIN END$$", "CALL a()",
    "SELECT pg_sleep(0)", "SELECT pg_read_file('/etc/passwd')", "SELECT * FROM read_csv('/etc/passwd')", 'SELECT 1 AS ""',
    "SELECT " + ", ".join(["1"] * 2000), "SELECT " + "(" * 500 + "1" + ")" * 500, "SELECT '" + "x" * 200_000 + "'", "SELECT 1\x01",
    "SELECT E'\\x00'", "SELECT U&'\\0000'", "VALUES (1, 'a'), (2, NULL)", "SELECT ARRAY[1, NULL], '{1,2}'::int[]", "SELECT 9e999",
    "SELECT 99999999999999999999999999999999999999999", "SELECT '2024-02-30'::date", "SELECT interval '1 mon' + now()", "\ufeffSELECT 1",
]  # fmt: skip


def message(kind, body=b""):
    """Return a message as it is sent."""
    return kind + struct.pack("!i", len(body) + 4) + body


def text(*parts):
    """Return strings as fields of a message."""
    return b"".join(part.encode() + b"\0" for part in parts)


def random_message(rng):
    """Return a message that is well-formed, whatever it means after those before it."""
    name, other, kind = rng.choice(_NAMES), rng.choice(_NAMES), rng.choice("QQPPPBBBBDDEEECSSHFdcfp")
    if kind == "Q":
        return message(b"Q", text(rng.choice(_TEXTS)))
    if kind == "P":
        oids = [rng.choice(_OIDS) for _ in range(rng.choice([0, 0, 1, 3]))]
        body = text(name, rng.choice(_TEXTS)) + struct.pack(f"!h{len(oids)}I", len(oids), *oids)
        return message(b"P", body)
    if kind == "B":
        formats = [rng.choice([0, 1, 1, 7]) for _ in range(rng.choice([0, 0, 1, 2]))]
        given = [rng.choice([None, *_VALUES]) for _ in range(rng.choice([0, 1, 1, 2, 3]))]
        values = b"".join(struct.pack("!i", -1 if v is None else len(v)) + (v or b"") for v in given)
        results = [rng.choice([0, 1]) for _ in range(rng.choice([0, 0, 1, 2, 3]))]
        body = text(name, other) + struct.pack(f"!h{len(formats)}hh", len(formats), *formats, len(given))
        return message(b"B", body + values + struct.pack(f"!h{len(results)}h", len(results), *results))
    if kind in "DC":
        return message(kind.encode(), rng.choice([b"S", b"P"]) + text(name))
    if kind == "E":
        return message(b"E", text(name) + struct.pack("!i", rng.choice([0, 0, 1, 7, -1, 2**31 - 1])))
    if kind in "Fdfp":
        return message(kind.encode(), rng.choice([b"", text("a"), rng.randbytes(20)]))
    return message(kind.encode())


def random_sequence(rng):
    """Return messages, and how they are changed: "" as they are."""
    sent = [random_message(rng) for _ in range(rng.randrange(1, 12))]
    how = rng.choice(["", "", "", "cut", "bytes", "length", "order", "noise"])
    if how == "":
        sent.append(message(b"S"))
    elif how == "cut":
        sent[-1] = sent[-1][: rng.randrange(len(sent[-1]))]
    elif how == "bytes":
        changed = bytearray(rng.choice(sent))
        for _ in range(rng.randrange(1, 5)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        sent[rng.randrange(len(sent))] = bytes(changed)
    elif how == "length":
        place = rng.randrange(len(sent))
        wrong = rng.choice([0, 3, 4, 5, -1, 2**31 - 1, -(2**31), 1 << 20, len(sent[place]) + 3])
        sent[place] = sent[place][:1] + struct.pack("!i", wrong) + sent[place][5:]
    elif how == "order":
        sent = [rng.choice(sent) for _ in range(2 * len(sent))]
    else:
        sent.append(rng.randbytes(rng.randrange(1, 300)))
    return sent, how


def fault_of(server, sent, how):
    """Return what is wrong with the server's answer to a sequence, None if nothing is."""
    with socket.create_connection(server.address, timeout=SECONDS) as client:
        client.sendall(_START)
        answer = b""
        try:
            sender = threading.Thread(target=_send, args=(client, sent), daemon=True)
            sender.start()
            while part := client.recv(1 << 16):
                answer += part
            sender.join()
        except TimeoutError:
            return f"nothing came for {SECONDS} s"
        except ConnectionResetError:
            pass  # it closed while more was sent
    at, kinds = 0, []
    while at < len(answer):
        kind, length = answer[at : at + 1], struct.unpack("!i", answer[at + 1 : at + 5].ljust(4, b"\xff"))[0]
        if kind not in b"RSKZTDCENInsGHWdct123Av" or length < 4:
            return f"{answer[at : at + 20]!r} is not a message of the protocol"
        body = answer[at + 5 : at + 1 + length]
        if kind == b"E" and b"\0CXX000\0" in body:
            return f"an internal error: {body!r}"
        at += 1 + length
        kinds.append(kind)
    if at != len(answer):
        return "the last message is cut"
    fatal = kinds[-1:] == [b"E"]
    if how == "" and not fatal and kinds[-1:] != [b"Z"]:
        return f"the last message is {kinds[-1:]}"
    return None


def _send(client, sent):
    try:
        for each in sent:
            client.sendall(each)
        client.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # the server closed first


def smallest(server, sent, how, fault):
    """Return the fewest messages that still show a fault of this kind."""
    place = 0
    while place < len(sent) - (how == ""):
        fewer = sent[:place] + sent[place + 1 :]
        found = fault_of(server, fewer, how)
        if found is not None and found[:12] == fault[:12]:
            sent, fault = fewer, found
        else:
            place += 1
    return sent, fault


def findings(seed, numbers):
    """Yield each sequence of a seed that shows a fault, and at the end a fault of the server as a whole."""
    log = logging.getLogger("eddyline.serve")
    log.setLevel(logging.CRITICAL)
    with shop.serving(shop.state()) as server:
        before = None
        for number in numbers:
            rng = random.Random(f"{seed} {number}")
            sent, how = random_sequence(rng)
            fault = fault_of(server, sent, how)
            if fault is not None:
                fewest, fault = smallest(server, sent, how, fault)
                yield f"seed {seed}, sequence {number} ({how or 'unchanged'}): {fault}\n  {[each[:200] for each in fewest]}"
            if number == 500:
                before = _megabytes()
        after = _megabytes()
        if before is not None and after > before + 50:  # allocators keep some of what was used
            yield f"the process grew from {before:.0f} to {after:.0f} MB"
        yield from _open_ends(server)
    log.setLevel(logging.NOTSET)
    server.asking.close(wait=True)


def _megabytes():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


def _open_ends(server):
    """Yield what the server still holds after all connections were closed, and whether it still answers."""
    end = time.monotonic() + SECONDS
    while server._sessions and time.monotonic() < end:
        time.sleep(0.05)
    if server._sessions:
        yield f"{len(server._sessions)} sessions outlive their connections"
    fault = fault_of(server, [message(b"Q", text("SELECT count(*) FROM orders"))], "")
    if fault is not None:
        yield f"afterwards: {fault}"


def long_run(minutes, seed):
    """Send sequences for a number of minutes, print what is found, and return 1 if anything was."""
    end, sent, found = time.monotonic() + 60 * minutes, 0, 0

    def numbers():
        nonlocal sent
        for sent in itertools.count(1):
            if time.monotonic() > end:
                return
            if sent % 200 == 0:
                print(
                    f"{sent:,} sequences of seed {seed}, {found} findings, {_megabytes():.0f} MB", flush=True
                )
            yield sent

    for finding in findings(seed, numbers()):
        found += 1
        print(f"\nFOUND {finding}", flush=True)
    print(f"{sent - 1:,} sequences of seed {seed}, {found} findings", flush=True)
    return 1 if found else 0
