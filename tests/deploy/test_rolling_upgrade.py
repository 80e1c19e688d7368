# SPDX-License-Identifier: Apache-2.0
"""The last release and this release on the same database.

The guide's page on upgrades promises that servers of the last release continue during the upgrade
of the schema and the start of servers of this release.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest

from placement_sched.db.migrate import VERSION_TABLE, get_newest_revision
from placement_sched.db.transaction import Database
from tests.conftest import make_settings
from tests.deploy.releases import (
    build_release_command,
    build_release_environment,
    sync_schema,
    unpack_last_release,
)
from tests.support.empty_databases import DATABASE_KINDS, empty_database
from tests.support.schema_differences import find_schema_differences
from tests.support.servers import Server, start_server
from tests.support.statements import execute_statements

pytestmark = pytest.mark.exhaustive

PLACEMENT_VERSION = "placement 1.39"


@pytest.fixture(scope="module")
def unpacked_last_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source before the newest revision."""
    return unpack_last_release(tmp_path_factory.mktemp("last_release"))


@pytest.fixture(params=DATABASE_KINDS)
def upgraded_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with empty_database(request.param, tmp_path) as upgraded_database_url:
        yield upgraded_database_url


@pytest.fixture
def start_release_server(
    unpacked_last_release: Path, upgraded_database_url: str, tmp_path: Path
) -> Iterator[Callable[..., Server]]:
    """Yield a function that starts a server of the last release or of this release."""
    with ExitStack() as stack:

        def start_server_of_release(name: str, *, ready: str | None = "/placement/") -> Server:
            return stack.enter_context(
                start_server(
                    command=[*build_release_command(name), "serve", "--port", "{port}"],
                    folder=tmp_path,
                    log=tmp_path / f"{name}-{uuid4().hex}.log",
                    ready=ready,
                    variables=build_release_environment(
                        name, unpacked_last_release, upgraded_database_url
                    ),
                )
            )

        yield start_server_of_release


def create_provider(server: Server, vcpus: int) -> str:
    uuid = str(uuid4())
    path = f"/placement/resource_providers/{uuid}"
    server.request_json(
        "POST", "/placement/resource_providers", {"uuid": uuid, "name": uuid}, PLACEMENT_VERSION
    )
    stock = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": vcpus}}}
    server.request_json("PUT", f"{path}/inventories", stock, PLACEMENT_VERSION)
    return uuid


def claim_vcpu(server: Server, provider: str) -> int:
    body = {
        "allocations": {provider: {"resources": {"VCPU": 1}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
    }
    path = f"/placement/allocations/{uuid4()}"
    return server.send("PUT", path, body, **{"OpenStack-API-Version": PLACEMENT_VERSION})[0]


def test_both_releases_serve_one_database_during_the_upgrade(
    start_release_server, unpacked_last_release, upgraded_database_url, tmp_path
):
    sync_schema("last", unpacked_last_release, upgraded_database_url, tmp_path)
    last = start_release_server("last")
    provider_before = create_provider(last, 4)
    output = sync_schema("this", unpacked_last_release, upgraded_database_url, tmp_path)
    assert f"revision {get_newest_revision()}" in output
    database = Database(make_settings(upgraded_database_url))
    assert find_schema_differences(database) == []
    database.dispose()
    # The last release reads and writes the new schema.
    provider = create_provider(last, 4)
    new_server = start_release_server("this")
    for server in (last, new_server):
        listed = server.request_json(
            "GET", "/placement/resource_providers", version=PLACEMENT_VERSION
        )
        uuids = {provider["uuid"] for provider in listed["resource_providers"]}
        assert uuids == {provider_before, provider}
    # Each server sees the other's claims, and both reject claims beyond the capacity.
    responses = [claim_vcpu(server, provider) for _ in range(3) for server in (last, new_server)]
    assert responses == [204] * 4 + [409] * 2
    assert last.stop() == 0
    assert claim_vcpu(new_server, provider_before) == 204


def test_release_is_not_ready_on_a_newer_schema(
    start_release_server, unpacked_last_release, upgraded_database_url, tmp_path
):
    sync_schema("this", unpacked_last_release, upgraded_database_url, tmp_path)
    database = Database(make_settings(upgraded_database_url))
    execute_statements(database, f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    database.dispose()
    this = start_release_server("this", ready=None)
    assert this.wait_for_first_status("/healthz") == 200
    status, _, body = this.get("/healthz/ready")
    assert status == 503
    assert "revision 9999 of a newer release" in body.decode()


def test_new_release_waits_for_its_schema(
    start_release_server, unpacked_last_release, upgraded_database_url, tmp_path
):
    if upgraded_database_url.startswith("sqlite"):
        pytest.skip("an embedded database is prepared by the server itself")
    server = start_release_server("this", ready=None)
    assert server.wait_for_first_status("/healthz") == 200
    status, _, body = server.get("/healthz/ready")
    assert status == 503
    assert "db sync" in body.decode()
    sync_schema("this", unpacked_last_release, upgraded_database_url, tmp_path)
    server.wait_for("/healthz/ready", 200)
