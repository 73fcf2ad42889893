"""Records what a client sends: a proxy in front of a server of the shop, which writes each statement once.

    python -m tests.serve.postgres.capture FILE PORT      ends with Ctrl-C

Connect the client to PORT of 127.0.0.1, without TLS. Parameters are written into the statements as literals.
"""

import re
import socket
import struct
import sys
import threading
from pathlib import Path

from tests.serve.postgres import shop

_TLS_REQUEST, _GSS_REQUEST = 80877103, 80877104


class Recorder:
    """Copies the bytes of both directions, and reads the messages of the client."""

    def __init__(self, file, server):
        self.file, self.server, self.seen = Path(file), server, []

    def serve(self, client):
        behind = socket.create_connection(self.server)
        threading.Thread(target=self._copy, args=(behind, client), daemon=True).start()
        head = _exactly(client, 8)
        while struct.unpack("!i", head[4:])[0] in (_TLS_REQUEST, _GSS_REQUEST):
            client.sendall(b"N")
            head = _exactly(client, 8)
        behind.sendall(head + _exactly(client, struct.unpack("!i", head[:4])[0] - 8))
        parsed = {}
        while kind := client.recv(1):
            size = _exactly(client, 4)
            body = _exactly(client, struct.unpack("!i", size)[0] - 4)
            self._read(kind, body, parsed)
            behind.sendall(kind + size + body)
        behind.close()

    def _read(self, kind, body, parsed):
        if kind == b"Q":
            self._write(body[:-1].decode())
        elif kind == b"P":
            name, text, _ = body.split(b"\0", 2)
            parsed[name] = text.decode()
            if "$1" not in parsed[name]:
                self._write(parsed[name])
        elif kind == b"B":
            _, name, rest = body.split(b"\0", 2)
            values = _parameters(rest)
            if values:
                self._write(re.sub(r"\$(\d+)", lambda found: values[int(found[1]) - 1], parsed[name]))

    def _write(self, text):
        if text.strip() and text not in self.seen:
            self.seen.append(text)
            with self.file.open("a") as file:
                file.write(text.strip().rstrip(";") + ";\n")

    @staticmethod
    def _copy(source, target):
        while data := source.recv(65536):
            target.sendall(data)
        target.close()


def _parameters(rest):
    """The values of a Bind message as SQL literals."""
    count = struct.unpack("!h", rest[:2])[0]
    formats, at = struct.unpack(f"!{count}h", rest[2 : 2 + 2 * count]), 2 + 2 * count
    number, at = struct.unpack("!h", rest[at : at + 2])[0], at + 2
    found = []
    for place in range(number):
        size, at = struct.unpack("!i", rest[at : at + 4])[0], at + 4
        value, at = rest[at : at + max(size, 0)], at + max(size, 0)
        is_binary = formats[place if len(formats) > 1 else 0] if formats else 0
        if size < 0:
            found.append("NULL")
        elif is_binary and size in (2, 4, 8):
            found.append(str(int.from_bytes(value, "big", signed=True)))
        else:
            found.append("'" + value.decode().replace("'", "''") + "'")
    return found


def _exactly(connection, size):
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionError("the client has left")
        data += part
    return data


def main():
    file, port = sys.argv[1:]
    with shop.serving(shop.state()) as server, socket.create_server(("127.0.0.1", int(port))) as listening:
        recorder = Recorder(file, server.address)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            client, _ = listening.accept()
            threading.Thread(target=recorder.serve, args=(client,), daemon=True).start()


if __name__ == "__main__":
    main()
