# SPDX-License-Identifier: Apache-2.0
"""``placement-sched nova-scheduler`` with calls from nova's client of the scheduler."""

from pathlib import Path
from uuid import uuid4

import pytest

from tests.differential.comparison import PEER_PYTHON, skip_without_peer
from tests.differential.lines import JsonLineProgram
from tests.nova.scheduling import wait_until_true

pytestmark = pytest.mark.system
CONDUCTOR_PROGRAM = Path(__file__).parent / "peer" / "conductor.py"


@pytest.fixture(scope="module")
def nova_client():
    skip_without_peer()
    peer = JsonLineProgram(PEER_PYTHON, CONDUCTOR_PROGRAM)
    yield lambda name, *arguments: peer.exchange_json_line([name, arguments])
    peer.close()


@pytest.fixture
def instance_uuid():
    return str(uuid4())


def test_nova_gets_claimed_hosts_and_alternates(nova_client, shared_scheduler, instance_uuid):
    nova_client("connect_to_bus", shared_scheduler.deployment.bus, None)
    result = nova_client("select_destinations", [instance_uuid], 512, True)
    (hosts,) = result["hosts"]
    assert sorted(hosts) == ["cn1", "cn2"]
    assert result["versions"] == ["1.36"]
    (request,) = result["requests"]
    assert (
        request["allocations"].keys()
        == shared_scheduler.deployment.read_allocations(instance_uuid).keys()
    )


def test_nova_raises_no_valid_host(nova_client, shared_scheduler, instance_uuid):
    nova_client("connect_to_bus", shared_scheduler.deployment.bus, None)
    result = nova_client("select_destinations", [instance_uuid], 10**6, True)
    assert result["class"] == "NoValidHost"
    assert result["words"] == "No valid host was found. "


@pytest.mark.parametrize("cap", ["4.3", "4.4"])
def test_older_nova_release_is_answered(nova_client, shared_scheduler, cap, instance_uuid):
    nova_client("connect_to_bus", shared_scheduler.deployment.bus, cap)
    (host,) = nova_client("select_destinations", [instance_uuid], 512, False)["hosts"]
    assert host in {"cn1", "cn2"}


def test_nova_notifications_are_recorded(nova_client, shared_scheduler):
    deployment = shared_scheduler.deployment
    nova_client("connect_to_bus", deployment.bus, None)
    number = deployment.nova.add_aggregate("fast", ("cn1",))
    row = {"id": number, "uuid": str(uuid4()), "name": "fast", "hosts": ["cn1"], "metadata": {}}
    instance_uuid = deployment.nova.add_instance("cn1")
    nova_client("send_notification", "update_aggregates", row)
    nova_client("send_notification", "update_instance_info", "cn1", [instance_uuid])

    def read_recorded_names_and_uuids():
        aggregates = deployment.app.get("/compute/v2.1/os-aggregates").json["aggregates"]
        return [each["name"] for each in aggregates], deployment.list_recorded_instances(
            instance_uuid
        )

    wait_until_true(lambda: read_recorded_names_and_uuids() == (["fast"], [instance_uuid]))
    deployment.nova.api.remove("aggregate_hosts", aggregate_id=number)
    deployment.nova.api.remove("aggregates", id=number)
    deployment.nova.cells["one"].delete_softly("instances", uuid=instance_uuid)
    nova_client("send_notification", "delete_aggregate", row)
    nova_client("send_notification", "delete_instance_info", "cn1", instance_uuid)
    nova_client("send_notification", "sync_instance_info", "cn1", [])
    wait_until_true(lambda: read_recorded_names_and_uuids() == ([], []))
