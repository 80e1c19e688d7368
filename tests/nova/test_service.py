# SPDX-License-Identifier: Apache-2.0
"""``placement-sched nova-scheduler`` on a real RabbitMQ with a conductor's calls."""

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import select

from placement_sched.db.tables import leases
from placement_sched.nova.objects import primitive_of
from tests.nova.databases.test_service_record import read_service_rows
from tests.nova.scheduling import LIBRARY, Service, Site, hosts_of, spec_of, wait_until_true
from tests.support.scheduling import instance

pytestmark = pytest.mark.system


@pytest.fixture
def nova_site(tmp_path, bus, sqlite_url, make_app) -> Iterator[Site]:
    site = Site(tmp_path, bus, sqlite_url, make_app)
    site.add_host("cn1")
    site.add_host("cn2")
    yield site
    site.close()


def test_requests_are_claimed_and_recorded_with_novas_request_ids(nova_site):
    nova_site.start()
    one, two = instance(1), instance(2)
    request_id = f"req-{uuid4()}"
    answer = nova_site.conductor.call(
        "select_destinations",
        spec_obj=spec_of(one, two),
        instance_uuids=[one, two],
        return_objects=True,
        return_alternates=True,
        request_id=request_id,
    )
    assert sorted(hosts_of(answer)) == ["cn1", "cn2"]
    assert {data["nova_object.data"]["cell_uuid"] for some in answer for data in some}
    assert all(nova_site.allocations(uuid) for uuid in (one, two))
    (decision,) = nova_site.app.get(f"/scheduler/v1/decisions?request_id={request_id}").json[
        "decisions"
    ]
    assert decision["outcome"] == "selected"
    assert (nova_site.app.get("/healthz").status_int) == 200


def test_no_valid_host_is_explained_to_operators_only(nova_site):
    service = nova_site.start()
    with pytest.raises(Exception, match="No valid host was found") as refused:
        nova_site.conductor.select(instance(1), memory_mb=10**6)
    assert "MEMORY_MB" not in str(refused.value).partition("Traceback")[0]
    line = service.wait_for_line("No valid host was found")
    assert "MEMORY_MB" in line
    assert instance(1) in line
    assert "decision" in line


def test_selection_is_logged_in_one_line_with_fields(nova_site):
    service = nova_site.start(workers=1, DEFAULT__use_json="true")
    chosen = hosts_of(nova_site.conductor.select(instance(1), instance(2)))
    (line,) = [json.loads(text) for text in service.lines("selected hosts for")]
    about = line["extra"]
    assert (about["method"], about["outcome"]) == ("select_destinations", "answered")
    assert (about["instances"], about["hosts"]) == (2, len(set(chosen)))
    assert about["project_id"] == "demo"
    assert chosen[0] in line["message"]
    assert about["request_id"] in line["message"]
    assert 0 < about["duration_ms"] < 60_000


def test_no_valid_host_is_logged_with_the_same_fields(nova_site):
    service = nova_site.start(workers=1, DEFAULT__use_json="true")
    caller = {"request_id": f"req-{uuid4()}", "user_id": "ann", "project_id": "demo"}
    one, spec = instance(1), spec_of(instance(1), memory_mb=10**6)
    with pytest.raises(Exception, match="No valid host was found"):
        nova_site.conductor.call(
            "select_destinations", spec_obj=spec, instance_uuids=[one], **caller
        )
    with pytest.raises(Exception, match="has no argument more"):
        nova_site.conductor.call("select_destinations", spec_obj=spec, more=1, **caller)
    (none,) = [json.loads(line)["extra"] for line in service.lines("No valid host was found")]
    (unread,) = [json.loads(line)["extra"] for line in service.lines("is rejected")]
    assert (none["outcome"], unread["outcome"]) == ("no_valid_host", "refused")
    assert none["decision"]
    for about in (none, unread):
        assert about["method"] == "select_destinations"
        assert about.items() >= caller.items()
        assert 0 < about["duration_ms"] < 60_000


def test_slow_call_is_logged_with_its_stages_and_funnel(nova_site):
    service = nova_site.start(
        workers=1, DEFAULT__use_json="true", api__slow_request_seconds="0.000001"
    )
    nova_site.conductor.select(instance(1))
    line = json.loads(service.wait_for_line("slow: select_destinations"))
    assert line["levelname"] == "WARNING"
    about = line["extra"]
    assert (about["method"], about["outcome"]) == ("select_destinations", "answered")
    assert "search" in about["stages_ms"]
    assert about["funnel"] == "2"
    assert about["decision"] in line["message"]


@pytest.mark.parametrize(
    ("version", "sent", "shape"),
    [
        ("4.3", {}, dict),
        ("4.4", {"instance_uuids": [instance(1)]}, dict),
        ("4.5", {"instance_uuids": [instance(1)], "return_objects": True}, list),
        ("4.5", {"instance_uuids": [instance(1)], "return_objects": False}, dict),
    ],
)
def test_each_rpc_version_gets_its_reply_format(nova_site, version, sent, shape):
    nova_site.start(workers=1)
    spec = spec_of(instance(1))
    (answer,) = nova_site.conductor.call("select_destinations", version, spec_obj=spec, **sent)
    assert isinstance(answer, shape)
    if shape is dict:
        assert answer["host"] == answer["nodename"] == "cn1"


@pytest.mark.parametrize(
    ("method", "version", "sent", "words"),
    [
        ("select_destinations", "4.5", {"spec_obj": "nothing"}, "spec_obj must be RequestSpec"),
        ("select_destinations", "4.2", {"request_spec": {}}, "4.0 to 4.2 are not supported"),
        ("select_destinations", "4.5", {"spec_obj": 1, "more": 1}, "has no argument more"),
        ("select_destinations", "5.0", {}, "does not support RPC version 5.0"),
        ("run_instance", "4.5", {}, "does not support RPC method run_instance"),
    ],
)
def test_unreadable_call_is_answered_and_logged(nova_site, method, version, sent, words):
    service = nova_site.start(workers=1)
    with pytest.raises(Exception, match=re.escape(words)):
        nova_site.conductor.call(method, version, **sent)
    assert words in service.wait_for_line("is rejected")
    assert service.lines("Traceback") == []


def test_service_answers_ping(nova_site):
    nova_site.start(workers=1)
    answer = nova_site.conductor.call("ping", "1.1", namespace="baseapi", arg="there?")
    assert answer == {"service": "scheduler", "arg": "there?"}
    assert nova_site.conductor.call("get_backdoor_port", "1.1", namespace="baseapi") is None


def test_aggregate_notifications_are_recorded(nova_site):
    nova_site.start(scheduler__nova_sync_interval="3600")
    row = {"uuid": str(uuid4()), "name": "fast", "hosts": ["cn1"], "metadata": {}}
    row["id"] = nova_site.nova.add_aggregate("fast", ("cn1",))
    aggregate = primitive_of("Aggregate", row)
    nova_site.conductor.announce("update_aggregates", "4.1", aggregates=[aggregate])

    def aggregate_names():
        document = nova_site.app.get("/compute/v2.1/os-aggregates").json["aggregates"]
        return [one["name"] for one in document]

    wait_until_true(lambda: aggregate_names() == ["fast"])
    nova_site.nova.api.remove("aggregate_hosts", aggregate_id=row["id"])
    nova_site.nova.api.remove("aggregates", id=row["id"])
    nova_site.conductor.announce("delete_aggregate", "4.1", aggregate=aggregate)
    wait_until_true(lambda: aggregate_names() == [])


def test_instance_notifications_are_recorded(nova_site):
    nova_site.start(scheduler__nova_sync_interval="3600")
    one, two = nova_site.nova.add_instance("cn1"), nova_site.nova.add_instance("cn1")
    data = {"uuid": one, "host": "cn1", "node": "cn1", "project_id": "demo"}
    listed = primitive_of("InstanceList", {"objects": [primitive_of("Instance", data)]})
    there = {"host_name": "cn1"}

    nova_site.conductor.announce("update_instance_info", "4.2", instance_info=listed, **there)
    wait_until_true(lambda: nova_site.recorded_instances(one, two) == [one])
    nova_site.conductor.announce("sync_instance_info", "4.2", instance_uuids=[one, two], **there)
    wait_until_true(lambda: nova_site.recorded_instances(one, two) == [one, two])
    nova_site.nova.cells["one"].delete_softly("instances", uuid=one)
    nova_site.conductor.announce("delete_instance_info", "4.2", instance_uuid=one, **there)
    wait_until_true(lambda: nova_site.recorded_instances(one, two) == [two])


def test_two_services_share_requests(nova_site):
    first, second = nova_site.start("ctl1", 1), nova_site.start("ctl2", 1)
    answers = [nova_site.conductor.begin_select(instance(number)) for number in range(1, 9)]
    assert all(hosts_of(answer.result(timeout=120)) for answer in answers)
    assert first.end_with_signal() == 0
    assert hosts_of(nova_site.conductor.select(instance(20)))
    assert second.lines("is up and answers") == []


def test_service_is_recorded_in_novas_services(nova_site):
    nova_site.start(workers=1)
    wait_until_true(
        lambda: (
            read_service_rows(nova_site.records, "host", "binary") == [("ctl1", "nova-scheduler")]
        )
    )


def test_sigterm_finishes_the_pending_request(nova_site):
    service = nova_site.start(workers=1)
    answers = [nova_site.conductor.begin_select(instance(number)) for number in range(1, 6)]
    wait_until_true(lambda: any(one.done() for one in answers))
    assert service.end_with_signal(signal.SIGTERM) == 0
    assert service.lines("stopped")
    nova_site.start(workers=1)
    for answer in answers:
        assert hosts_of(answer.result(timeout=120))


def kill_workers(service: Service) -> None:
    for pid in service.children():
        os.kill(pid, signal.SIGKILL)


def check_claimed_once(site, number, answer):
    (host,) = hosts_of(answer)
    (allocated,) = site.allocations(instance(number)).values()
    assert allocated["resources"]["VCPU"] == 1
    return host


@pytest.mark.parametrize("whole", [False, True], ids=["its processes", "the service"])
def test_request_of_a_killed_scheduler_is_claimed_once_by_another(nova_site, whole):
    service = nova_site.start()
    answers = {
        number: nova_site.conductor.begin_select(instance(number)) for number in range(1, 25)
    }
    wait_until_true(lambda: any(one.done() for one in answers.values()))
    if whole:
        service.kill()
        nova_site.start("ctl2")
    else:
        kill_workers(service)
        service.wait_for_line("killed by SIGKILL", 3)
    for number, answer in answers.items():
        assert check_claimed_once(nova_site, number, answer.result(timeout=120)) in {"cn1", "cn2"}


def follower_pid(database) -> int:
    query = select(leases.c.holder).where(leases.c.name == "following nova")
    with database.read() as connection:
        holder = connection.scalar(query)
    return int(holder.split("/")[1]) if holder else 0


@pytest.mark.exhaustive
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_second_scheduler_takes_over_the_sync_with_nova(nova_site, how):
    database = nova_site.app.app.services.database
    one, other = nova_site.start(workers=1), nova_site.start("ctl2", workers=1)
    wait_until_true(lambda: follower_pid(database) in one.children())
    assert follower_pid(database) not in other.children()
    if how == signal.SIGTERM:
        one.end_with_signal()
    else:
        one.kill()
    wait_until_true(lambda: follower_pid(database) in other.children())
    nova_site.nova.add_host("cn3")
    nodes = "/scheduler/v1/compute_nodes?host=cn3"
    wait_until_true(lambda: nova_site.app.get(nodes).json["compute_nodes"])


def test_sighup_reloads_configuration_and_nova(nova_site):
    service = nova_site.start(workers=1, scheduler__nova_sync_interval="3600")
    assert hosts_of(nova_site.conductor.select(instance(1), ignore_hosts=["cn2"])) == ["cn1"]
    nova_site.configuration("ctl1", filter_scheduler__enabled_filters="IsolatedHostsFilter",
                       filter_scheduler__isolated_hosts="cn1,cn2")  # fmt: skip
    os.kill(service.process.pid, signal.SIGHUP)
    service.wait_for_line("configuration read again")

    def is_rejected():
        try:
            nova_site.conductor.select(str(uuid4()), memory_mb=10)
        except LIBRARY.RemoteError as none:
            return "There are not enough hosts" in str(none)
        return False

    wait_until_true(is_rejected)


def test_sigint_ends_the_service_at_once(nova_site):
    service = nova_site.start(workers=1)
    processes = [Path(f"/proc/{pid}") for pid in service.children()]
    assert processes
    assert service.end_with_signal(signal.SIGINT) in {0, 1}
    wait_until_true(lambda: not any(process.exists() for process in processes))


def test_sigusr2_logs_stacks_and_the_service_continues(nova_site):
    service = nova_site.start()
    children = service.children()
    for process in (service.process.pid, *children):
        os.kill(process, signal.SIGUSR2)
    numbers = {service.process.pid, *children}
    wait_until_true(
        lambda: numbers <= {int(line.split()[2]) for line in service.lines("Thread 0x")}
    )
    assert hosts_of(nova_site.conductor.select(instance(1)))
    assert service.children() == children
