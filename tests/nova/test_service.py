# SPDX-License-Identifier: Apache-2.0
"""``placement-sched nova-scheduler`` on a real RabbitMQ with a conductor's calls."""

import os
import re
import signal
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import select

from placement_sched.db.tables import leases
from placement_sched.nova.objects import build_primitive
from tests.nova.scheduling import (
    OSLO_MESSAGING,
    build_request_spec_primitive,
    list_selected_hosts,
    wait_until_true,
)
from tests.nova.service_records import read_service_rows
from tests.support.scheduling import make_uuid

pytestmark = pytest.mark.system


@pytest.fixture
def deployment(shared_scheduler):
    return shared_scheduler.deployment


@pytest.fixture
def conductor(deployment):
    return deployment.conductor


@pytest.fixture
def caller_context():
    return {"request_id": f"req-{uuid4()}", "user_id": "ann", "project_id": "demo"}


@pytest.fixture
def instance_uuid():
    return str(uuid4())


def test_request_is_claimed_and_logged_with_the_request_id_of_nova(
    deployment, shared_scheduler, conductor, caller_context, instance_uuid
):
    uuids = [instance_uuid, str(uuid4())]
    sent = {"return_objects": True, "return_alternates": True, **caller_context}
    result = conductor.call(
        "select_destinations",
        spec_obj=build_request_spec_primitive(*uuids),
        instance_uuids=uuids,
        **sent,
    )
    hosts = list_selected_hosts(result)
    assert set(hosts) <= {"cn1", "cn2"}
    assert {data["nova_object.data"]["cell_uuid"] for row in result for data in row}
    assert all(deployment.read_allocations(each) for each in uuids)
    path = f"/scheduler/v1/decisions?request_id={caller_context['request_id']}"
    (decision,) = deployment.app.get(path).json["decisions"]
    assert decision["outcome"] == "selected"
    request = caller_context["request_id"]
    (line,) = [
        row
        for row in shared_scheduler.service.read_log_records("selected cn")
        if request in str(row)
    ]
    assert (line["method"], line["outcome"]) == ("select_destinations", "succeeded")
    assert (line["instances"], line["hosts"]) == (2, len(set(hosts)))
    assert hosts[0] in line["message"]
    assert line.items() >= caller_context.items()
    assert 0 < line["duration_ms"] < 60_000
    shared_scheduler.service.wait_for_log_line(f"request {request}); ")
    (slow,) = [
        row
        for row in shared_scheduler.service.read_log_records("slow: select")
        if request in str(row)
    ]
    assert (slow["levelname"], slow["outcome"]) == ("WARNING", "succeeded")
    assert "search" in slow["stages_ms"]
    assert slow["funnel"] == "2"
    assert slow["decision"] == decision["uuid"]
    assert slow["decision"] in slow["message"]


def test_no_valid_host_is_explained_to_operators_only(
    shared_scheduler, conductor, caller_context, instance_uuid
):
    spec = build_request_spec_primitive(instance_uuid, memory_mb=10**6)
    with pytest.raises(Exception, match="No valid host was found") as refused:
        conductor.call(
            "select_destinations", spec_obj=spec, instance_uuids=[instance_uuid], **caller_context
        )
    assert "MEMORY_MB" not in str(refused.value).partition("Traceback")[0]
    with pytest.raises(Exception, match="has no argument more"):
        conductor.call("select_destinations", spec_obj=spec, more=1, **caller_context)
    rows = [
        row
        for part in ("No valid host was found", "is rejected")
        for row in shared_scheduler.service.read_log_records(part)
        if row.items() >= caller_context.items()
    ]
    assert [row["outcome"] for row in rows] == ["no_valid_host", "rejected"]
    assert rows[0]["decision"]
    assert "MEMORY_MB" in rows[0]["message"]
    assert instance_uuid in rows[0]["message"]
    for row in rows:
        assert row["method"] == "select_destinations"
        assert 0 < row["duration_ms"] < 60_000


@pytest.mark.parametrize(
    ("version", "names"), [("4.3", ()), ("4.4", ("instance_uuids",)), ("4.5", ("instance_uuids",))]
)
def test_rpc_call_without_return_objects_gets_a_host(conductor, instance_uuid, version, names):
    sent = {name: [instance_uuid] for name in names}
    spec = build_request_spec_primitive(instance_uuid, ignore_hosts=["cn2"])
    (result,) = conductor.call("select_destinations", version, spec_obj=spec, **sent)
    assert result["host"] == result["nodename"] == "cn1"


@pytest.mark.parametrize(
    ("method", "version", "sent", "words"),
    [
        ("select_destinations", "4.5", {"spec_obj": "nothing"}, "spec_obj must be RequestSpec"),
        ("select_destinations", "4.2", {"request_spec": {}}, "4.0 to 4.2 are not supported"),
        ("run_instance", "4.5", {}, "does not support RPC method run_instance"),
    ],
)
def test_unreadable_call_is_answered_and_logged(
    shared_scheduler, conductor, method, version, sent, words
):
    with pytest.raises(Exception, match=re.escape(words)):
        conductor.call(method, version, **sent)
    assert [
        row
        for row in shared_scheduler.service.read_log_records("is rejected")
        if words in row["message"]
    ]
    assert shared_scheduler.service.read_log_lines("Traceback") == []


def test_nova_scheduler_service_answers_ping(conductor):
    result = conductor.call("ping", "1.1", namespace="baseapi", arg="there?")
    assert result == {"service": "scheduler", "arg": "there?"}
    assert conductor.call("get_backdoor_port", "1.1", namespace="baseapi") is None


def test_aggregate_notifications_are_recorded(deployment, conductor):
    row = {"uuid": str(uuid4()), "name": "fast", "hosts": ["cn1"], "metadata": {}}
    row["id"] = deployment.nova.add_aggregate("fast", ("cn1",))
    aggregate = build_primitive("Aggregate", row)
    conductor.fanout_cast("update_aggregates", "4.1", aggregates=[aggregate])

    def read_aggregate_names():
        document = deployment.app.get("/compute/v2.1/os-aggregates").json["aggregates"]
        return [each["name"] for each in document]

    wait_until_true(lambda: read_aggregate_names() == ["fast"])
    deployment.nova.api.remove("aggregate_hosts", aggregate_id=row["id"])
    deployment.nova.api.remove("aggregates", id=row["id"])
    conductor.fanout_cast("delete_aggregate", "4.1", aggregate=aggregate)
    wait_until_true(lambda: read_aggregate_names() == [])


def test_instance_notifications_are_recorded(deployment, conductor):
    first, second = deployment.nova.add_instance("cn1"), deployment.nova.add_instance("cn1")
    data = {"uuid": first, "host": "cn1", "node": "cn1", "project_id": "demo"}
    listed = build_primitive("InstanceList", {"objects": [build_primitive("Instance", data)]})
    there = {"host_name": "cn1"}
    conductor.fanout_cast("update_instance_info", "4.2", instance_info=listed, **there)
    wait_until_true(lambda: deployment.list_recorded_instances(first, second) == [first])
    conductor.fanout_cast("sync_instance_info", "4.2", instance_uuids=[first, second], **there)
    wait_until_true(lambda: deployment.list_recorded_instances(first, second) == [first, second])
    deployment.nova.cells["one"].delete_softly("instances", uuid=first)
    conductor.fanout_cast("delete_instance_info", "4.2", instance_uuid=first, **there)
    wait_until_true(lambda: deployment.list_recorded_instances(first, second) == [second])


def test_service_is_recorded_in_the_services_table_of_nova(deployment):
    wait_until_true(
        lambda: (
            read_service_rows(deployment.service_records_engine, "host", "binary")
            == [("ctl1", "nova-scheduler")]
        )
    )


def test_two_scheduler_services_share_requests(two_host_nova):
    first, second = (
        two_host_nova.start_scheduler("ctl1", 1),
        two_host_nova.start_scheduler("ctl2", 1),
    )
    results = [two_host_nova.conductor.begin_selection(make_uuid(number)) for number in range(1, 9)]
    assert all(list_selected_hosts(result.result(timeout=120)) for result in results)
    assert first.stop_with_signal() == 0
    assert list_selected_hosts(two_host_nova.conductor.select_destinations(make_uuid(20)))
    assert second.read_log_lines("is up and answers") == []


def test_sigterm_finishes_the_pending_request(two_host_nova):
    service = two_host_nova.start_scheduler(workers=1)
    results = [two_host_nova.conductor.begin_selection(make_uuid(number)) for number in range(1, 6)]
    wait_until_true(lambda: any(result.done() for result in results))
    assert service.stop_with_signal(signal.SIGTERM) == 0
    assert service.read_log_lines("stopped")
    two_host_nova.start_scheduler(workers=1)
    for result in results:
        assert list_selected_hosts(result.result(timeout=120))


@pytest.mark.parametrize(
    "whole",
    [False, pytest.param(True, marks=pytest.mark.exhaustive)],
    ids=["killed workers", "killed service"],
)
def test_request_of_a_killed_scheduler_is_claimed_once_by_another(two_host_nova, whole):
    service = two_host_nova.start_scheduler()
    results = {
        number: two_host_nova.conductor.begin_selection(make_uuid(number))
        for number in range(1, 25)
    }
    wait_until_true(lambda: any(result.done() for result in results.values()))
    if whole:
        service.kill()
        two_host_nova.start_scheduler("ctl2")
    else:
        for pid in service.list_worker_pids():
            os.kill(pid, signal.SIGKILL)
        service.wait_for_log_line("killed by SIGKILL", 3)
    for number, result in results.items():
        (host,) = list_selected_hosts(result.result(timeout=120))
        (allocated,) = two_host_nova.read_allocations(make_uuid(number)).values()
        assert allocated["resources"]["VCPU"] == 1
        assert host in {"cn1", "cn2"}


def read_follower_pid(database) -> int:
    query = select(leases.c.holder).where(leases.c.name == "following nova")
    with database.read() as connection:
        holder = connection.scalar(query)
    return int(holder.split("/")[1]) if holder else 0


@pytest.mark.exhaustive
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_second_scheduler_takes_over_the_sync_with_nova(two_host_nova, how):
    database = two_host_nova.app.app.services.database
    first, other = (
        two_host_nova.start_scheduler(workers=1),
        two_host_nova.start_scheduler("ctl2", workers=1),
    )
    wait_until_true(lambda: read_follower_pid(database) in first.list_worker_pids())
    assert read_follower_pid(database) not in other.list_worker_pids()
    if how == signal.SIGTERM:
        first.stop_with_signal()
    else:
        first.kill()
    wait_until_true(lambda: read_follower_pid(database) in other.list_worker_pids())
    two_host_nova.nova.add_host("cn3")
    nodes = "/scheduler/v1/compute_nodes?host=cn3"
    wait_until_true(lambda: two_host_nova.app.get(nodes).json["compute_nodes"])


def test_sighup_reloads_the_configuration_of_the_scheduler_service(two_host_nova):
    service = two_host_nova.start_scheduler(workers=1, scheduler__nova_sync_interval="3600")
    hosts = list_selected_hosts(
        two_host_nova.conductor.select_destinations(make_uuid(1), ignore_hosts=["cn2"])
    )
    assert hosts == ["cn1"]
    filters = {"filter_scheduler__enabled_filters": "IsolatedHostsFilter"}
    two_host_nova.write_configuration("ctl1", **filters, filter_scheduler__isolated_hosts="cn1,cn2")
    os.kill(service.process.pid, signal.SIGHUP)
    service.wait_for_log_line("configuration read again")

    def is_request_rejected():
        try:
            two_host_nova.conductor.select_destinations(str(uuid4()), memory_mb=10)
        except OSLO_MESSAGING.RemoteError as none:
            return "There are not enough hosts" in str(none)
        return False

    wait_until_true(is_request_rejected)


def test_sigusr2_logs_stacks_and_sigint_ends_the_service(two_host_nova):
    service = two_host_nova.start_scheduler()
    children = service.list_worker_pids()
    numbers = {service.process.pid, *children}
    for pid in numbers:
        os.kill(pid, signal.SIGUSR2)
    wait_until_true(
        lambda: numbers <= {int(line.split()[2]) for line in service.read_log_lines("Thread 0x")}
    )
    assert list_selected_hosts(two_host_nova.conductor.select_destinations(make_uuid(1)))
    assert service.list_worker_pids() == children
    processes = [Path(f"/proc/{pid}") for pid in children]
    assert service.stop_with_signal(signal.SIGINT) in {0, 1}
    wait_until_true(lambda: not any(process.exists() for process in processes))
