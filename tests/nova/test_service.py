# SPDX-License-Identifier: Apache-2.0
"""``placement-sched nova-scheduler`` on a real RabbitMQ, called as nova-conductor does."""

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
from tests.nova.databases.test_service_record import rows
from tests.nova.scheduling import LIBRARY, Service, Site, eventually, hosts_of, spec_of
from tests.support.scheduling import instance

pytestmark = pytest.mark.system


@pytest.fixture
def site(tmp_path, bus, sqlite_url, make_app) -> Iterator[Site]:
    found = Site(tmp_path, bus, sqlite_url, make_app)
    found.add_host("cn1")
    found.add_host("cn2")
    yield found
    found.close()


def test_requests_are_answered_claimed_and_recorded_with_the_ids_of_nova(site):
    site.start()
    one, two = instance(1), instance(2)
    request_id = f"req-{uuid4()}"
    answer = site.conductor.call(
        "select_destinations",
        spec_obj=spec_of(one, two),
        instance_uuids=[one, two],
        return_objects=True,
        return_alternates=True,
        request_id=request_id,
    )
    assert sorted(hosts_of(answer)) == ["cn1", "cn2"]
    assert {data["nova_object.data"]["cell_uuid"] for some in answer for data in some}
    assert all(site.allocations(uuid) for uuid in (one, two))
    (decision,) = site.app.get(f"/scheduler/v1/decisions?request_id={request_id}").json["decisions"]
    assert decision["outcome"] == "selected"
    assert (site.app.get("/healthz").status_int) == 200


def test_request_without_a_valid_host_is_explained_to_operators_only(site):
    service = site.start()
    with pytest.raises(Exception, match="No valid host was found") as refused:
        site.conductor.select(instance(1), memory_mb=10**6)
    assert "MEMORY_MB" not in str(refused.value).partition("Traceback")[0]
    line = service.wait_for_line("No valid host was found")
    assert "MEMORY_MB" in line
    assert instance(1) in line
    assert "decision" in line


def test_selection_is_one_line_with_fields_for_those_who_collect_logs(site):
    service = site.start(workers=1, DEFAULT__use_json="true")
    chosen = hosts_of(site.conductor.select(instance(1), instance(2)))
    (line,) = [json.loads(one) for one in service.lines("selected hosts for")]
    about = line["extra"]
    assert (about["method"], about["outcome"]) == ("select_destinations", "answered")
    assert (about["instances"], about["hosts"]) == (2, len(set(chosen)))
    assert about["project_id"] == "demo"
    assert chosen[0] in line["message"]
    assert about["request_id"] in line["message"]
    assert 0 < about["duration_ms"] < 60_000


def test_refusals_have_the_fields_of_selections(site):
    service = site.start(workers=1, DEFAULT__use_json="true")
    whose = {"request_id": f"req-{uuid4()}", "user_id": "ann", "project_id": "demo"}
    one, spec = instance(1), spec_of(instance(1), memory_mb=10**6)
    with pytest.raises(Exception, match="No valid host was found"):
        site.conductor.call("select_destinations", spec_obj=spec, instance_uuids=[one], **whose)
    with pytest.raises(Exception, match="has no argument more"):
        site.conductor.call("select_destinations", spec_obj=spec, more=1, **whose)
    (none,) = [json.loads(line)["extra"] for line in service.lines("No valid host was found")]
    (unread,) = [json.loads(line)["extra"] for line in service.lines("is rejected")]
    assert (none["outcome"], unread["outcome"]) == ("no_valid_host", "refused")
    assert none["decision"]
    for about in (none, unread):
        assert about["method"] == "select_destinations"
        assert about.items() >= whose.items()
        assert 0 < about["duration_ms"] < 60_000


def test_slow_call_is_logged_with_its_stages_and_funnel(site):
    service = site.start(workers=1, DEFAULT__use_json="true", api__slow_request_seconds="0.000001")
    site.conductor.select(instance(1))
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
def test_each_version_of_the_call_is_answered_in_its_form(site, version, sent, shape):
    site.start(workers=1)
    spec = spec_of(instance(1))
    (found,) = site.conductor.call("select_destinations", version, spec_obj=spec, **sent)
    assert isinstance(found, shape)
    if shape is dict:
        assert found["host"] == found["nodename"] == "cn1"


@pytest.mark.parametrize(
    ("method", "version", "sent", "said"),
    [
        ("select_destinations", "4.5", {"spec_obj": "nothing"}, "spec_obj must be RequestSpec"),
        ("select_destinations", "4.2", {"request_spec": {}}, "4.0 to 4.2 are not supported"),
        ("select_destinations", "4.5", {"spec_obj": 1, "more": 1}, "has no argument more"),
        ("select_destinations", "5.0", {}, "does not support RPC version 5.0"),
        ("run_instance", "4.5", {}, "does not support RPC method run_instance"),
    ],
)
def test_what_cannot_be_read_is_answered_with_one_line_in_the_log(
    site, method, version, sent, said
):
    service = site.start(workers=1)
    with pytest.raises(Exception, match=re.escape(said)):
        site.conductor.call(method, version, **sent)
    assert said in service.wait_for_line("is rejected")
    assert service.lines("Traceback") == []


def test_service_answers_to_a_ping(site):
    site.start(workers=1)
    answer = site.conductor.call("ping", "1.1", namespace="baseapi", arg="there?")
    assert answer == {"service": "scheduler", "arg": "there?"}
    assert site.conductor.call("get_backdoor_port", "1.1", namespace="baseapi") is None


def test_aggregates_that_nova_announces_are_recorded(site):
    site.start(scheduler__nova_sync_interval="3600")
    row = {"uuid": str(uuid4()), "name": "fast", "hosts": ["cn1"], "metadata": {}}
    row["id"] = site.nova.add_aggregate("fast", ("cn1",))
    aggregate = primitive_of("Aggregate", row)
    site.conductor.announce("update_aggregates", "4.1", aggregates=[aggregate])

    def names():
        found = site.app.get("/compute/v2.1/os-aggregates").json["aggregates"]
        return [one["name"] for one in found]

    eventually(lambda: names() == ["fast"])
    site.nova.api.remove("aggregate_hosts", aggregate_id=row["id"])
    site.nova.api.remove("aggregates", id=row["id"])
    site.conductor.announce("delete_aggregate", "4.1", aggregate=aggregate)
    eventually(lambda: names() == [])


def test_instances_that_computes_announce_are_recorded(site):
    site.start(scheduler__nova_sync_interval="3600")
    one, two = site.nova.add_instance("cn1"), site.nova.add_instance("cn1")
    data = {"uuid": one, "host": "cn1", "node": "cn1", "project_id": "demo"}
    listed = primitive_of("InstanceList", {"objects": [primitive_of("Instance", data)]})
    there = {"host_name": "cn1"}

    site.conductor.announce("update_instance_info", "4.2", instance_info=listed, **there)
    eventually(lambda: site.recorded(one, two) == [one])
    site.conductor.announce("sync_instance_info", "4.2", instance_uuids=[one, two], **there)
    eventually(lambda: site.recorded(one, two) == [one, two])
    site.nova.cells["one"].delete_softly("instances", uuid=one)
    site.conductor.announce("delete_instance_info", "4.2", instance_uuid=one, **there)
    eventually(lambda: site.recorded(one, two) == [two])


def test_two_services_share_the_requests(site):
    first, second = site.start("ctl1", 1), site.start("ctl2", 1)
    answers = [site.conductor.begin(instance(number)) for number in range(1, 9)]
    assert all(hosts_of(one.result(timeout=120)) for one in answers)
    assert first.end() == 0
    assert hosts_of(site.conductor.select(instance(20)))
    assert second.lines("is up and answers") == []


def test_service_is_recorded_among_those_of_nova(site):
    site.start(workers=1)
    eventually(lambda: rows(site.records, "host", "binary") == [("ctl1", "nova-scheduler")])


def test_sigterm_lets_a_request_be_answered(site):
    service = site.start(workers=1)
    answers = [site.conductor.begin(instance(number)) for number in range(1, 6)]
    eventually(lambda: any(one.done() for one in answers))
    assert service.end(signal.SIGTERM) == 0
    assert service.lines("stopped")
    site.start(workers=1)
    for answer in answers:
        assert hosts_of(answer.result(timeout=120))


def kill_workers(service: Service) -> None:
    for one in service.children():
        os.kill(one, signal.SIGKILL)


def claimed_once(site, number, answer):
    (host,) = hosts_of(answer)
    (allocated,) = site.allocations(instance(number)).values()
    assert allocated["resources"]["VCPU"] == 1
    return host


@pytest.mark.parametrize("whole", [False, True], ids=["its processes", "the service"])
def test_request_of_a_killed_scheduler_is_answered_by_another_and_claimed_once(site, whole):
    service = site.start()
    answers = {number: site.conductor.begin(instance(number)) for number in range(1, 25)}
    eventually(lambda: any(one.done() for one in answers.values()))
    if whole:
        service.kill()
        site.start("ctl2")
    else:
        kill_workers(service)
        service.wait_for_line("killed by SIGKILL", 3)
    for number, answer in answers.items():
        assert claimed_once(site, number, answer.result(timeout=120)) in {"cn1", "cn2"}


def follower(database) -> int:
    query = select(leases.c.holder).where(leases.c.name == "following nova")
    with database.read() as connection:
        holder = connection.scalar(query)
    return int(holder.split("/")[1]) if holder else 0


@pytest.mark.exhaustive
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_one_of_two_schedulers_follows_nova_and_the_other_takes_over(site, how):
    database = site.app.app.services.database
    one, other = site.start(workers=1), site.start("ctl2", workers=1)
    eventually(lambda: follower(database) in one.children())
    assert follower(database) not in other.children()
    if how == signal.SIGTERM:
        one.end()
    else:
        one.kill()
    eventually(lambda: follower(database) in other.children())
    site.nova.add_host("cn3")
    nodes = "/scheduler/v1/compute_nodes?host=cn3"
    eventually(lambda: site.app.get(nodes).json["compute_nodes"])


def test_sighup_reads_the_configuration_and_nova_again(site):
    service = site.start(workers=1, scheduler__nova_sync_interval="3600")
    assert hosts_of(site.conductor.select(instance(1), ignore_hosts=["cn2"])) == ["cn1"]
    site.configuration("ctl1", filter_scheduler__enabled_filters="IsolatedHostsFilter",
                       filter_scheduler__isolated_hosts="cn1,cn2")  # fmt: skip
    os.kill(service.process.pid, signal.SIGHUP)
    service.wait_for_line("configuration read again")

    def refused():
        try:
            site.conductor.select(str(uuid4()), memory_mb=10)
        except LIBRARY.RemoteError as none:
            return "There are not enough hosts" in str(none)
        return False

    eventually(refused)


def test_sigint_ends_the_service_at_once(site):
    service = site.start(workers=1)
    processes = [Path(f"/proc/{one}") for one in service.children()]
    assert processes
    assert service.end(signal.SIGINT) in {0, 1}
    eventually(lambda: not any(one.exists() for one in processes))


def test_each_process_logs_its_stacks_on_sigusr2_and_goes_on(site):
    service = site.start()
    children = service.children()
    for process in (service.process.pid, *children):
        os.kill(process, signal.SIGUSR2)
    numbers = {service.process.pid, *children}
    eventually(lambda: numbers <= {int(line.split()[2]) for line in service.lines("Thread 0x")})
    assert hosts_of(site.conductor.select(instance(1)))
    assert service.children() == children
