# SPDX-License-Identifier: Apache-2.0
"""Migrations through the unmodified ``openstack`` client."""

import pytest

from tests.openstack_client.reporting import report_host
from tests.support.scheduling import make_uuid

# The client warns of its own deprecations.
pytestmark = [pytest.mark.system, pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")]

INSTANCE, MIGRATION = make_uuid(911), make_uuid(912)
VERSION = "placement 1.39"


@pytest.fixture(scope="module")
def moving_instance(api_server):
    """An instance that moves from a host to another."""
    owner = {"project_id": "admin", "user_id": "admin"}
    source, target = (report_host(api_server, host) for host in ("move1", "move2"))
    record = {**owner, "host": "move1", "node": "move1", "display_name": "move-web"}
    path = f"/scheduler/v1/instances/{INSTANCE}"
    api_server.request_json("PUT", path, {**record, "vm_state": "active"})
    for uuid, node, kind in ((MIGRATION, source, "MIGRATION"), (INSTANCE, target, "INSTANCE")):
        body = {
            **owner,
            "allocations": {node: {"resources": {"VCPU": 1}}},
            "consumer_type": kind,
            "consumer_generation": None,
        }
        api_server.request_json("PUT", f"/placement/allocations/{uuid}", body, version=VERSION)
    yield INSTANCE
    api_server.request_json("DELETE", f"/placement/allocations/{MIGRATION}")
    api_server.request_json("DELETE", path)


@pytest.mark.parametrize("version", ["2.1", "2.100"])
def test_migrations_are_listed_by_server_and_host(moving_instance, clients_by_version, version):
    client = clients_by_version(version)
    (row,) = client.get_json("server", "migration", "list", "--host", "move1")
    assert (row["Server UUID"], row["Status"]) == (moving_instance, "migrating")
    assert (row["Source Compute"], row["Dest Compute"]) == ("move1", "move2")
    assert client.get_json("server", "migration", "list", "--host", "elsewhere") == []
    assert client.get_json("server", "migration", "list", "--server", "move-web") == [row]
