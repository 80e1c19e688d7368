"""A disk that is full: writes are refused with the reason, and work again once there is room."""

import resource
from uuid import uuid4

import pytest

from tests.chaos.scale import TRIED, times
from tests.invariants import assert_invariants
from tests.servers import wait_until
from tests.versions import LATEST

VERSION = f"placement {LATEST}"
ROUNDS = times(2, 20)
pytestmark = pytest.mark.system


def written(server) -> tuple[int, str]:
    """Return the status of a new provider, and the answer."""
    body = {"uuid": str(uuid4()), "name": str(uuid4())}
    headers = {"OpenStack-API-Version": VERSION}
    status, answer = server.send("POST", "/placement/resource_providers", body, **headers)
    return status, str(answer)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_full_disk_refuses_writes_and_is_used_again_when_there_is_room(
    serve, database_url, database, record_property
):
    server = serve(OS_PLACEMENT_DATABASE__CONNECTION=database_url)
    acknowledged = 0
    (worker,) = server.workers()
    _soft, hard = resource.prlimit(worker, resource.RLIMIT_FSIZE)
    for _round in range(ROUNDS):
        # No file can grow: SQLite learns what it learns on a full disk.
        resource.prlimit(worker, resource.RLIMIT_FSIZE, (4096, hard))
        for _ in range(5):
            status, answer = written(server)
            assert status == 503, answer
            assert "disk" in answer, answer
        assert server.get("/healthz")[0] == 200
        assert server.get("/placement/resource_providers")[0] == 200
        resource.prlimit(worker, resource.RLIMIT_FSIZE, (hard, hard))
        assert wait_until(lambda: written(server)[0] == 200)
        for _ in range(5):
            status, answer = written(server)
            assert status == 200, answer
        acknowledged += 6
    listed = server.ask("GET", "/placement/resource_providers", version=VERSION)
    assert len(listed["resource_providers"]) == acknowledged
    assert "Traceback" not in server.log.read_text()
    assert_invariants(database)
    record_property(TRIED, f"{ROUNDS} times full")
