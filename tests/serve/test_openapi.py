"""The API keeps to its OpenAPI document under requests made by schemathesis, good and bad: never a 500."""

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.serve.conftest import serving
from tests.serve.waiting import until

ADDRESSES = [
    "/queries",
    "/answers",
    "/answers/{query}",
    "/answer",
    "/history",
    "/plan",
    "/explain/{query}",
    "/freshness",
    "/openapi.json",
]
EXCLUDED = [positive_data_acceptance]  # most texts are no SQL, and few names are those of a query


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    from tests.data.moving_store import MovingStore

    moving = MovingStore(tmp_path_factory.mktemp("serve") / "state")
    moving.move()
    with serving(moving.where) as client:
        until(lambda: client.get("readyz").status_code == 200)
        yield client
    moving.close()


@pytest.mark.parametrize("address", ADDRESSES)
def test_requests_of_all_kinds_are_answered_as_the_document_says(client, address):
    described = schemathesis.openapi.from_url(f"{client.base_url}api/v1/openapi.json")

    @given(case=described[address]["GET"].as_strategy())
    @settings(max_examples=40, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    def holds(case):
        case.call_and_validate(excluded_checks=EXCLUDED)

    holds()


def test_the_document_describes_every_address(client):
    described = client.get("api/v1/openapi.json").json()["paths"]
    assert set(described) == {*ADDRESSES, "/events"}
