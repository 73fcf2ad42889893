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
def server(folder):
    """Yield the connection string of a running server."""
    data = folder / "data"
    data.mkdir()
    if os.getuid() == 0:
        account = pwd.getpwnam("postgres")
        for path in (folder, data):
            os.chown(path, account.pw_uid, account.pw_gid)
        for path in folder.parents:
            if path.stat().st_uid == 0 and path != pathlib.Path("/") and not path.stat().st_mode & 0o001:
                path.chmod(path.stat().st_mode | 0o011)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    here = programs()
    _as_server([str(here / "initdb"), "-D", str(data), "-U", "tester", "--auth=trust", "--no-sync"])
    settings = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c wal_level=logical -c fsync=off"
    _as_server(
        [str(here / "pg_ctl"), "-D", str(data), "-l", str(data / "log"), "-w", "-o", settings, "start"]
    )
    try:
        yield f"host=127.0.0.1 port={port} user=tester dbname=postgres"
    finally:
        _as_server([str(here / "pg_ctl"), "-D", str(data), "-m", "immediate", "-w", "stop"])
