# SPDX-License-Identifier: Apache-2.0
"""``placement-sched nova-scheduler`` with calls from nova's client of the scheduler."""

from pathlib import Path
from uuid import uuid4

import pytest

from tests.differential.comparison import PEER_PYTHON, skip_without_peer
from tests.differential.lines import LineProgram
from tests.nova.scheduling import wait_until_true

pytestmark = pytest.mark.system
CONDUCTOR = Path(__file__).parent / "peer" / "conductor.py"


@pytest.fixture(scope="module")
def nova():
    skip_without_peer()
    peer = LineProgram(PEER_PYTHON, CONDUCTOR)
    yield lambda name, *arguments: peer.get_answer([name, arguments])
    peer.close()


@pytest.fixture
def uuid():
    return str(uuid4())


def test_nova_gets_claimed_hosts_and_alternates(nova, shared_service, uuid):
    nova("connect_to_bus", shared_service.site.bus, None)
    answer = nova("select", [uuid], 512, True)
    (hosts,) = answer["hosts"]
    assert sorted(hosts) == ["cn1", "cn2"]
    assert answer["versions"] == ["1.36"]
    (request,) = answer["requests"]
    assert request["allocations"].keys() == shared_service.site.allocations(uuid).keys()


def test_nova_raises_no_valid_host(nova, shared_service, uuid):
    nova("connect_to_bus", shared_service.site.bus, None)
    answer = nova("select", [uuid], 10**6, True)
    assert answer["class"] == "NoValidHost"
    assert answer["words"] == "No valid host was found. "


@pytest.mark.parametrize("cap", ["4.3", "4.4"])
def test_older_nova_release_is_answered(nova, shared_service, cap, uuid):
    nova("connect_to_bus", shared_service.site.bus, cap)
    (host,) = nova("select", [uuid], 512, False)["hosts"]
    assert host in {"cn1", "cn2"}


def test_nova_notifications_are_recorded(nova, shared_service):
    site = shared_service.site
    nova("connect_to_bus", site.bus, None)
    number = site.nova.add_aggregate("fast", ("cn1",))
    row = {"id": number, "uuid": str(uuid4()), "name": "fast", "hosts": ["cn1"], "metadata": {}}
    uuid = site.nova.add_instance("cn1")
    nova("send_notification", "update_aggregates", row)
    nova("send_notification", "update_instance_info", "cn1", [uuid])

    def read_recorded():
        aggregates = site.app.get("/compute/v2.1/os-aggregates").json["aggregates"]
        return [each["name"] for each in aggregates], site.list_recorded_instances(uuid)

    wait_until_true(lambda: read_recorded() == (["fast"], [uuid]))
    site.nova.api.remove("aggregate_hosts", aggregate_id=number)
    site.nova.api.remove("aggregates", id=number)
    site.nova.cells["one"].delete_softly("instances", uuid=uuid)
    nova("send_notification", "delete_aggregate", row)
    nova("send_notification", "delete_instance_info", "cn1", uuid)
    nova("send_notification", "sync_instance_info", "cn1", [])
    wait_until_true(lambda: read_recorded() == ([], []))
