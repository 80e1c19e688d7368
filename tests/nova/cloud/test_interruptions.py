# SPDX-License-Identifier: Apache-2.0
"""This scheduler under a nova cloud while it is killed, stopped and disconnected."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.nova.cloud.cloud import COMPUTE_HOSTS, run_nova_cloud, wait_for_condition
from tests.nova.cloud.operator_commands import run_operator_commands
from tests.nova.cloud.rabbitmq import has_consumer

pytestmark = pytest.mark.exhaustive

#: Number of servers that are requested at once.
SERVER_COUNT = 6


def _boot_servers(operator, name):
    with ThreadPoolExecutor(SERVER_COUNT) as pool:
        servers = pool.map(
            operator.create_server_by_api, [f"{name}{number}" for number in range(SERVER_COUNT)]
        )
        return dict(servers)


def _wait_until_servers_run(operator, servers):
    for server in servers:
        operator.wait_for_status(server, "ACTIVE")
    operator.check_usages_of_servers()
    assert len(operator.list_servers()) == len(servers)
    operator.delete_all_servers()


def _kill_scheduler_with_pending_calls(operator, scheduler):
    scheduler.suspend()
    servers = _boot_servers(operator, "halted")
    scheduler.kill()
    scheduler.start()
    _wait_until_servers_run(operator, servers)


def _kill_scheduler_during_call(operator, scheduler, cloud):
    servers = _boot_servers(operator, "killed")
    scheduler.kill()
    before = _count_logged_starts(scheduler)
    scheduler.start()
    _wait_until_servers_run(operator, servers)
    # The kill may have come after all selections. Then only the start shows that it continues.
    wait_for_condition(
        "the scheduler has started", lambda: _count_logged_starts(scheduler) > before, cloud
    )


def _count_logged_starts(scheduler):
    return scheduler.log.read_text(errors="replace").count("nova-scheduler serves ")


def _stop_scheduler_during_call(operator, scheduler):
    servers = _boot_servers(operator, "stopped")
    assert scheduler.stop() == 0, scheduler.read_log_tail()
    scheduler.start()
    _wait_until_servers_run(operator, servers)


def _restart_broker_and_boot_server(operator, cloud):
    before = cloud.read_last_heartbeats_by_service()
    cloud.broker.restart()
    wait_for_condition(
        "all services are back", lambda: cloud.have_all_services_reported_since(before), cloud
    )
    # A service may report before it receives calls again.
    queues = ["scheduler", *(f"compute.{host}" for host in COMPUTE_HOSTS)]
    wait_for_condition(
        "all services receive calls",
        lambda: all(has_consumer(cloud.broker.url, queue) for queue in queues),
        cloud,
    )
    server = operator.boot_active_server("after")
    _wait_until_servers_run(operator, [server])


def _check_services_and_decisions_are_reported(operator, cloud):
    states = operator.read_openstack_json("compute service list --service nova-scheduler")
    assert [(state["Status"], state["State"]) for state in states] == [("enabled", "up")]
    result = cloud.request_placement_sched("GET", "/compute/v2.1/os-hypervisors/detail")
    assert {each["hypervisor_hostname"] for each in result["hypervisors"]} == set(COMPUTE_HOSTS)
    server, request = operator.create_server_by_api("asked")
    operator.wait_for_status(server, "ACTIVE")
    giant, failed_request = operator.create_server_by_api("giant", "m1.giant")
    assert operator.wait_for_fault(giant) == "No valid host was found. "
    assert _list_outcomes_of_request(cloud, request) == ["selected"]
    assert _list_outcomes_of_request(cloud, failed_request) == ["no_valid_host"]
    flavor = {"vcpus": 1, "memory_mb": 512, "root_gb": 1}
    explained = cloud.request_placement_sched(
        "POST", "/scheduler/v1/explain", {"request_spec": {"flavor": flavor}}
    )
    assert explained["outcome"] == "selected"
    operator.delete_all_servers()


def _list_outcomes_of_request(cloud, request):
    path = f"/scheduler/v1/decisions?request_id={request}"
    decisions = cloud.request_placement_sched("GET", path)["decisions"]
    return [decision["outcome"] for decision in decisions]


@pytest.mark.timeout(1800)  # a minute or two by itself, with nine programs of nova and ours
def test_pending_calls_are_answered_once_after_a_restart(tmp_path):
    with run_nova_cloud(tmp_path, "postgresql") as cloud, run_operator_commands(cloud) as operator:
        scheduler = cloud.our_scheduler
        cloud.start_scheduler(scheduler)
        operator.create_flavors_and_images()
        _check_services_and_decisions_are_reported(operator, cloud)
        _kill_scheduler_with_pending_calls(operator, scheduler)
        _kill_scheduler_during_call(operator, scheduler, cloud)
        _stop_scheduler_during_call(operator, scheduler)
        _restart_broker_and_boot_server(operator, cloud)
