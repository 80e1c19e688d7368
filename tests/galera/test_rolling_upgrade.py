# SPDX-License-Identifier: Apache-2.0
"""A rolling upgrade on a cluster from the last release to this release, under writes."""

from contextlib import ExitStack
from types import SimpleNamespace
from uuid import uuid4

import pytest

from placement_sched.db.migrate import newest_revision
from placement_sched.db.transaction import Database
from tests.chaos.scale import TRIED
from tests.conftest import make_settings
from tests.galera.test_failures import WRITES
from tests.galera.writers import PROVIDERS, Writers
from tests.support.releases import (
    release_command,
    release_environment,
    sync_schema,
    unpack_last_release,
)
from tests.support.servers import start_server
from tests.support.versions import LATEST_HEADERS
from tests.verifier.verify import verify

pytestmark = pytest.mark.exhaustive

REVISION = "SELECT version_num FROM placement_sched_alembic_version"
KEPT = (
    "SELECT concat('provider ', uuid) FROM resource_providers "
    "UNION ALL SELECT concat('claim ', consumer_id) FROM allocations"
)


class Remote:
    """A server with the methods of a test application's client."""

    def __init__(self, server):
        self._server = server

    def post_json(self, path, body, headers, **_more):
        return self._sent("POST", path, body, headers)

    def put_json(self, path, body, headers, **_more):
        return self._sent("PUT", path, body, headers)

    def _sent(self, method, path, body, headers):
        # webtest's name of the status.
        sent = {name: value for name, value in headers.items() if name != "X-Auth-Token"}
        return SimpleNamespace(status_int=self._server.send(method, path, body, **sent)[0])


@pytest.fixture(scope="module")
def last_release(tmp_path_factory):
    return unpack_last_release(tmp_path_factory.mktemp("last_release"))


@pytest.fixture
def name(galera):
    """Give the name of a new database."""
    name = f"ps_{uuid4().hex[:12]}"
    galera.nodes[0].query(f"CREATE DATABASE {name}")
    galera.settle()
    yield name
    galera.nodes[0].query(f"DROP DATABASE {name}")


@pytest.fixture
def release(galera, name, last_release, tmp_path):
    """Give a function that starts a server of a release at a node, and returns its client."""
    with ExitStack() as stack:

        def start(version, node):
            server = start_server(
                command=[*release_command(version), "serve", "--port", "{port}"],
                folder=tmp_path,
                log=tmp_path / f"{version}-{node}.log",
                variables=release_environment(version, last_release, galera.nodes[node].url(name)),
            )
            return stack.enter_context(server)

        yield start


def create_shared_provider(server):
    inventories = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 1_000_000}}}
    version = LATEST_HEADERS["OpenStack-API-Version"]
    provider = server.request_json("POST", PROVIDERS, {"name": "shared"}, version)
    server.request_json("PUT", f"{PROVIDERS}/{provider['uuid']}/inventories", inventories, version)
    return provider["uuid"]


def test_both_releases_write_during_a_rolling_upgrade(
    galera, name, release, last_release, tmp_path, record_property
):
    first = galera.nodes[0]
    sync_schema("last", last_release, first.url(name), tmp_path)
    galera.settle()
    before = first.query(REVISION, name)
    assert before != [(newest_revision(),)]
    old = [release("last", 1), release("last", 2)]
    shared = create_shared_provider(old[0])
    galera.settle()
    part = WRITES // 4
    acknowledged, statuses = [], set()
    # The schema is upgraded through a node while the last release writes through the others.
    with Writers([Remote(server) for server in old], shared) as writers:
        writers.wait_for_writes(part)
        assert newest_revision() in sync_schema("this", last_release, first.url(name), tmp_path)
        writers.wait_for_writes(len(writers.acknowledged) + part)
        # A server of this release starts at the third node.
        with Writers([Remote(release("this", 0))], shared, turn=1) as joined:
            joined.wait_for_writes(part)
        writers.wait_for_writes(len(writers.acknowledged) + part)
        acknowledged += joined.acknowledged
        statuses |= set(joined.statuses)
    acknowledged += writers.acknowledged
    statuses |= set(writers.statuses)
    # It replaces a server of the last release.
    assert old[0].stop() == 0
    with Writers([Remote(release("this", 1)), Remote(old[1])], shared, turn=2) as writers:
        writers.wait_for_writes(part)
    acknowledged += writers.acknowledged
    statuses |= set(writers.statuses)
    assert statuses == {("provider", 200), ("claim", 204)}
    galera.settle()
    for node in galera.nodes:
        assert node.query(REVISION, name) == [(newest_revision(),)]
        assert set(acknowledged) <= {uuid for (uuid,) in node.query(KEPT, name)}
    settings = make_settings(first.url(name))
    database = Database(settings)
    assert verify(database).violations == ()
    database.dispose()
    record_property(TRIED, f"{len(acknowledged)} writes, schema {before[0][0]} upgraded under load")
