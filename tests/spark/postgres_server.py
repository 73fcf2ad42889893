"""A PostgreSQL server of the tests' own, with logical decoding, in a temporary folder."""

import contextlib
import os
import pathlib
import pwd
import shutil
import socket
import subprocess


def programs():
    """Return the folder of the server's programs, or say how to get them."""
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    assert on_path, "PostgreSQL's server programs are missing: run scripts/postgres --install"
    return pathlib.Path(on_path).parent


def _as_server(command):
    """Run a program as a user who may run the server: root may not."""
    user = "postgres" if os.getuid() == 0 else None
    done = subprocess.run(command, user=user, capture_output=True, text=True, check=False, cwd="/")
    assert done.returncode == 0, done.stdout + done.stderr


@contextlib.contextmanager
def server(folder, prepare=lambda data: None):
    """Yield the connection string of a running server; `prepare` may change its data folder before it starts."""
    data = folder / "data"
    data.mkdir()
    if os.getuid() == 0:
        for path in (folder, data):
            give(path)
        for path in folder.parents:
            if path.stat().st_uid == 0 and path != pathlib.Path("/") and not path.stat().st_mode & 0o001:
                path.chmod(path.stat().st_mode | 0o011)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    _as_server([str(programs() / "initdb"), "-D", str(data), "-U", "tester", "--auth=trust", "--no-sync"])
    with (data / "postgresql.conf").open("a") as conf:
        conf.write(f"port = {port}\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = ''\n")
        conf.write("wal_level = logical\nfsync = off\n")
    prepare(data)
    control(data, "start", "-l", str(data / "log"))
    try:
        yield f"host=127.0.0.1 port={port} user=tester dbname=postgres"
    finally:
        control(data, "stop", "-m", "immediate")


def give(path):
    """Let the server's user own a file."""
    if os.getuid() == 0:
        account = pwd.getpwnam("postgres")
        os.chown(path, account.pw_uid, account.pw_gid)


def control(data, *what):
    """Start, stop or restart the server of a data folder."""
    _as_server([str(programs() / "pg_ctl"), "-D", str(data), "-w", "-t", "180", *what])
