# SPDX-License-Identifier: Apache-2.0
"""``placement-sched nova-scheduler`` with calls from nova's client of the scheduler."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.differential.comparison import PEER_PYTHON, needs_peer
from tests.differential.lines import Lines
from tests.nova.scheduling import Site, private_bus, wait_until_true
from tests.support.scheduling import instance

pytestmark = pytest.mark.system
CONDUCTOR = Path(__file__).parent / "peer" / "conductor.py"


@pytest.fixture(scope="module")
def nova():
    needs_peer()
    peer = Lines(PEER_PYTHON, CONDUCTOR)
    yield lambda name, *arguments: peer.get_answer([name, arguments])
    peer.close()


@pytest.fixture
def nova_site(tmp_path, broker, sqlite_url, make_app) -> Iterator[Site]:
    with private_bus(broker) as bus:
        site = Site(tmp_path, bus, sqlite_url, make_app)
        site.add_host("cn1")
        site.add_host("cn2")
        site.start()
        yield site
        site.close()


def test_nova_gets_claimed_hosts_and_alternates(nova, nova_site):
    nova("connect", nova_site.bus, None)
    answer = nova("select", [instance(1)], 512, True)
    (hosts,) = answer["hosts"]
    assert sorted(hosts) == ["cn1", "cn2"]
    assert answer["versions"] == ["1.36"]
    (request,) = answer["requests"]
    assert request["allocations"].keys() == nova_site.allocations(instance(1)).keys()


def test_nova_raises_no_valid_host(nova, nova_site):
    nova("connect", nova_site.bus, None)
    answer = nova("select", [instance(1)], 10**6, True)
    assert answer["class"] == "NoValidHost"
    assert answer["words"] == "No valid host was found. "


@pytest.mark.parametrize("cap", ["4.3", "4.4"])
def test_older_nova_release_is_answered(nova, nova_site, cap):
    nova("connect", nova_site.bus, cap)
    assert nova("select", [instance(1)], 512, False) == {"hosts": ["cn1"]}


def test_nova_notifications_are_recorded(nova, nova_site):
    nova("connect", nova_site.bus, None)
    number = nova_site.nova.add_aggregate("fast", ("cn1",))
    row = {"id": number, "uuid": instance(9), "name": "fast", "hosts": ["cn1"], "metadata": {}}
    uuid = nova_site.nova.add_instance("cn1")
    nova("announce", "update_aggregates", row)
    nova("announce", "update_instance_info", "cn1", [uuid])

    def read_recorded():
        aggregates = nova_site.app.get("/compute/v2.1/os-aggregates").json["aggregates"]
        return [each["name"] for each in aggregates], nova_site.recorded_instances(uuid)

    wait_until_true(lambda: read_recorded() == (["fast"], [uuid]))
    nova_site.nova.api.remove("aggregate_hosts", aggregate_id=number)
    nova_site.nova.api.remove("aggregates", id=number)
    nova_site.nova.cells["one"].delete_softly("instances", uuid=uuid)
    nova("announce", "delete_aggregate", row)
    nova("announce", "delete_instance_info", "cn1", uuid)
    nova("announce", "sync_instance_info", "cn1", [])
    wait_until_true(lambda: read_recorded() == ([], []))
