import logging

import pytest
from pyarrow import fs


@pytest.fixture(scope="session")
def s3_server():
    """A real S3 server on a free local port."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    options = f"scheme=http&region=us-east-1&allow_bucket_creation=true&endpoint_override={host}:{port}"
    filesystem, _ = fs.FileSystem.from_uri(f"s3://someone:secret@states?{options}")
    filesystem.create_dir("states")
    yield f"s3://someone:secret@states/%s?{options}"
    server.stop()


@pytest.fixture
def s3(s3_server, request):
    """The URI of a directory of its own in the S3 server."""
    return s3_server % request.node.name.translate(str.maketrans("[]", "--"))


@pytest.fixture(params=["local", "mock"])
def where(request, tmp_path):
    """A directory on a local disk, and one of a pyarrow filesystem in memory."""
    return tmp_path / "state" if request.param == "local" else fs._MockFileSystem()


@pytest.fixture(params=["local", "mock", "s3"])
def anywhere(request, tmp_path):
    """The same, and one in the S3 server."""
    if request.param == "s3":
        return request.getfixturevalue("s3")
    return tmp_path / "state" if request.param == "local" else fs._MockFileSystem()
