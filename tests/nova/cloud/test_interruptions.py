# SPDX-License-Identifier: Apache-2.0
"""Our scheduler under a real nova: killed, stopped, cut off from the broker, and looked at."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.nova.cloud.cloud import HOSTS, running_cloud, wait_for
from tests.nova.cloud.operating import operator_of

pytestmark = pytest.mark.exhaustive

#: So many servers are asked for at once.
MANY = 6


def _boot_many(operator, name):
    with ThreadPoolExecutor(MANY) as pool:
        asked = pool.map(operator.requested, [f"{name}{number}" for number in range(MANY)])
        return dict(asked)


def _all_run(operator, servers):
    for server in servers:
        operator.wait(server, "ACTIVE")
    operator.account_for_servers()
    assert len(operator.servers()) == len(servers)
    operator.delete_all()


def _killed_with_calls_in_hand(operator, scheduler):
    scheduler.halt()
    servers = _boot_many(operator, "halted")
    scheduler.kill()
    scheduler.start()
    _all_run(operator, servers)


def _killed_in_the_midst(operator, scheduler, cloud):
    servers = _boot_many(operator, "killed")
    scheduler.kill()
    before = _starts(scheduler)
    scheduler.start()
    _all_run(operator, servers)
    # All may have been placed before the kill, and one that still starts has nothing to finish.
    wait_for("the scheduler has started", lambda: _starts(scheduler) > before, cloud)


def _starts(scheduler):
    return scheduler.log.read_text(errors="replace").count("nova-scheduler serves ")


def _stopped_in_the_midst(operator, scheduler):
    servers = _boot_many(operator, "stopped")
    assert scheduler.stop() == 0, scheduler.last_lines()
    scheduler.start()
    _all_run(operator, servers)


def _broker_restarted(operator, cloud):
    before = cloud.services_seen()
    cloud.broker.restart()
    wait_for("all services are back", lambda: cloud.all_seen_since(before), cloud)
    server = operator.booted("after")
    _all_run(operator, [server])


def _shown(operator, cloud):
    states = operator.show("compute service list --service nova-scheduler")
    assert [(one["Status"], one["State"]) for one in states] == [("enabled", "up")]
    found = cloud.ours("GET", "/compute/v2.1/os-hypervisors/detail")["hypervisors"]
    assert {one["hypervisor_hostname"] for one in found} == set(HOSTS)
    server, request = operator.requested("asked")
    operator.wait(server, "ACTIVE")
    giant, refused = operator.requested("giant", "m1.giant")
    assert operator.fault(giant) == "No valid host was found. "
    assert _outcomes(cloud, request) == ["selected"]
    assert _outcomes(cloud, refused) == ["no_valid_host"]
    flavor = {"vcpus": 1, "memory_mb": 512, "root_gb": 1}
    explained = cloud.ours("POST", "/scheduler/v1/explain", {"request_spec": {"flavor": flavor}})
    assert explained["outcome"] == "selected"
    operator.delete_all()


def _outcomes(cloud, request):
    decisions = cloud.ours("GET", f"/scheduler/v1/decisions?request_id={request}")["decisions"]
    return [one["outcome"] for one in decisions]


@pytest.mark.timeout(1800)  # a minute or two by itself, with nine programs of nova and ours
def test_calls_wait_for_our_scheduler_and_are_answered_once(tmp_path):
    with running_cloud(tmp_path, "postgresql") as cloud, operator_of(cloud) as operator:
        scheduler = cloud.our_scheduler
        cloud.start_scheduler(scheduler)
        operator.prepare()
        _shown(operator, cloud)
        _killed_with_calls_in_hand(operator, scheduler)
        _killed_in_the_midst(operator, scheduler, cloud)
        _stopped_in_the_midst(operator, scheduler)
        _broker_restarted(operator, cloud)
