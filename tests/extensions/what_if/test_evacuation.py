# SPDX-License-Identifier: Apache-2.0
"""Plans to evacuate hosts, carried out, and instances that have to stay."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import update

from placement_sched.db.tables import services
from placement_sched.store.checks import Invariant
from tests.exploring import scale_example_count
from tests.extensions.what_if.evacuations import execute_evacuation, force_down, request_evacuation
from tests.extensions.what_if.plan_clouds import add_container, record_nova_cell, record_state
from tests.extensions.what_if.plan_clouds import cloud as cloud  # noqa: PLC0414 - a fixture
from tests.extensions.what_if.plan_moves import (
    draw_small_cloud,
    fill_small_cloud,
    read_host_of_instance,
)
from tests.scheduler.server_groups import create_group
from tests.support.api_clouds import disable_host
from tests.support.clouds import uuid_of
from tests.support.scheduling import (
    explain_request,
    make_flavor,
    make_spec,
    make_uuid,
    select_hosts,
)
from tests.support.simulations import dump_tables
from tests.support.versions import LATEST_HEADERS
from tests.verifier.verify import assert_invariants


def read_memory(app, uuid):
    return app.get(f"/scheduler/v1/instances/{uuid}").json["flavor"]["memory_mb"]


def check_plan_by_evacuating_its_instances(app, sizes, requests, dead):
    """Plan an evacuation, carry it out, and check all rules of groups."""
    stored = fill_small_cloud(app, sizes, requests)
    on_dead = {uuid for uuid in stored if read_host_of_instance(app, uuid) == dead}
    force_down(app, dead)
    tables = dump_tables(app)
    plan = request_evacuation(app, dead)
    assert dump_tables(app) == tables
    stuck = {entry["instance"] for entry in plan["stuck"]}
    moving = [move["instance"] for move in plan["moves"]]
    assert sorted([*moving, *stuck]) == sorted(on_dead)
    memory = [read_memory(app, uuid) for uuid in moving]
    assert memory == sorted(memory, reverse=True)
    for move in plan["moves"]:
        # The scheduler rejects a host that breaks the rule of a group, or that is full.
        execute_evacuation(app, move, **stored[move["instance"]])
    # A forced host may have several members of a group. A new host has a single member.
    members = [uuid for uuid, fields in stored.items() if "instance_group" in fields]
    hosts = Counter(read_host_of_instance(app, uuid) for uuid in members)
    moved_members = set(moving) & set(members)
    assert {hosts[read_host_of_instance(app, uuid)] for uuid in moved_members} <= {1}
    for uuid in stuck:
        fields = {"flavor": {"memory_mb": read_memory(app, uuid), "vcpus": 1, "root_gb": 1}}
        request = make_spec(uuid, **fields | stored[uuid], ignore_hosts=[dead])
        assert explain_request(app, request)["outcome"] == "no_valid_host"
    assert_invariants(app.app.services.database, but={Invariant.ANTI_AFFINITY})
    # Only stuck instances remain, and the allocations that the host has not yet freed are no
    # other consumers.
    second_plan = request_evacuation(app, dead)
    assert (second_plan["moves"], second_plan["other_consumers"]) == ([], [])
    assert {entry["instance"] for entry in second_plan["stuck"]} == stuck


@pytest.mark.slow
@settings(
    max_examples=scale_example_count(20),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(cloud=draw_small_cloud(), position=st.integers(0, 4))
def test_evacuation_of_random_clouds_can_be_carried_out(make_new_app, cloud, position):
    sizes, requests, _ = cloud
    app = make_new_app(scheduler__what_if_timeout=600)
    dead = f"cn{position % len(sizes) + 1}"
    check_plan_by_evacuating_its_instances(app, sizes, requests, dead)


def test_largest_instances_are_evacuated_first_and_those_without_a_host_are_stuck(cloud):
    select_hosts(
        cloud, make_spec(make_uuid(3), flavor=make_flavor(memory_mb=1024), force_hosts=["cn1"])
    )
    for number, host in enumerate(("cn2", "cn3"), 50):
        ballast = make_flavor(memory_mb=4608)
        select_hosts(cloud, make_spec(make_uuid(number), flavor=ballast, force_hosts=[host]))
    select_hosts(
        cloud, make_spec(make_uuid(4), flavor=make_flavor(memory_mb=512), force_hosts=["cn1"])
    )
    force_down(cloud, "cn1")
    plan = request_evacuation(cloud, "cn1")
    assert [move["instance"] for move in plan["moves"]] == [make_uuid(n) for n in (1, 2, 4)]
    (stuck,) = plan["stuck"]
    assert (stuck["instance"], stuck["host"], stuck["kind"]) == (make_uuid(3), "cn1", "capacity")
    assert "MEMORY_MB" in stuck["reason"]


def test_several_members_of_an_affinity_group_are_stuck_because_their_host_is_down(cloud):
    group = {"instance_group": create_group(cloud, policy="affinity")}
    for number in (3, 4):
        select_hosts(cloud, make_spec(make_uuid(number), **group, force_hosts=["cn2"]))
    force_down(cloud, "cn2")
    plan = request_evacuation(cloud, "cn2")
    assert plan["moves"] == []
    assert [entry["instance"] for entry in plan["stuck"]] == [make_uuid(3), make_uuid(4)]


@pytest.mark.parametrize("vm_state", ["active", "stopped", "error", None, "of a later release"])
@pytest.mark.parametrize("task_state", [None, "powering-off"])
def test_instances_in_states_that_nova_evacuates_are_moved(cloud, vm_state, task_state):
    record_nova_cell(cloud)
    for number in (1, 2):
        record_state(cloud, number, vm_state, task_state)
    force_down(cloud, "cn1")
    plan = request_evacuation(cloud, "cn1")
    assert (len(plan["moves"]), plan["stuck"]) == (2, [])


@pytest.mark.parametrize(
    ("vm_state", "reason"),
    [
        ("paused", "it is paused: set its state to error first"),
        ("suspended", "it is suspended: set its state to error first"),
        ("rescued", "it is in rescue mode: set its state to error first"),
        ("resized", "its resize is not confirmed: confirm the resize first"),
        ("building", "it is being built: delete it and create it again"),
        ("shelved", "it is shelved but not offloaded: wait until its host is back"),
        ("soft-delete", "it is soft-deleted, and holds its host: force-delete it"),
    ],
)
def test_instances_in_other_states_are_listed_with_what_to_do(cloud, vm_state, reason):
    record_nova_cell(cloud)
    record_state(cloud, 1, vm_state)
    record_state(cloud, 2, "active")
    force_down(cloud, "cn1")
    plan = request_evacuation(cloud, "cn1")
    assert [move["instance"] for move in plan["moves"]] == [make_uuid(2)]
    (stuck,) = plan["stuck"]
    assert (stuck["instance"], stuck["host"], stuck["reason"]) == (make_uuid(1), "cn1", reason)


def test_offloaded_instance_is_not_in_an_evacuation(cloud):
    record_state(cloud, 1, "shelved_offloaded")
    force_down(cloud, "cn1")
    plan = request_evacuation(cloud, "cn1")
    assert [move["instance"] for move in plan["moves"]] == [make_uuid(2)]
    assert plan["stuck"] == []


def test_claimed_instances_are_evacuated_until_nova_is_read(cloud):
    force_down(cloud, "cn1")
    assert len(request_evacuation(cloud, "cn1")["moves"]) == 2
    record_nova_cell(cloud)
    assert len(request_evacuation(cloud, "cn1")["stuck"]) == 2


def record_instance(app, **fields):
    """Record an instance on cn2, which has no other instance."""
    body = {"host": "cn2", "node": "cn2", "flavor": make_flavor(), "vm_state": "active", **fields}
    app.put_json(f"/scheduler/v1/instances/{make_uuid(7)}", body)
    force_down(app, "cn2")


def set_versions(app, version):
    app.app.services.database.write(
        lambda connection: connection.execute(update(services).values(version=version))
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"flavor": make_flavor(extra_specs={"hw:tpm_version": "2.0"})},
        {"image": {"id": make_uuid(5), "properties": {"hw_tpm_version": "1.2"}}},
    ],
    ids=["flavor", "image"],
)
def test_instance_with_an_emulated_tpm_is_not_evacuated(cloud, fields):
    record_instance(cloud, **fields)
    (stuck,) = request_evacuation(cloud, "cn2")["stuck"]
    reason = "it has an emulated TPM, which nova does not evacuate: wait until its host is back"
    assert stuck["reason"] == reason


PORT_REQUEST = {
    "requested_resources": [
        {"requester_id": make_uuid(80), "resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 1}}
    ]
}


@pytest.mark.parametrize(
    ("fields", "old", "new", "words"),
    [
        (
            {"flavor": make_flavor(extra_specs={"accel:device_profile": "fpga"})},
            52,
            53,
            "it has accelerators, and a nova-compute is older than 23.0 (Wallaby)",
        ),
        (
            {"request": PORT_REQUEST},
            58,
            59,
            "its ports have resources, and a nova-compute is older than 24.0 (Xena)",
        ),
    ],
    ids=["accelerators", "ports"],
)
def test_accelerators_and_port_resources_need_a_new_nova_compute(cloud, fields, old, new, words):
    record_instance(cloud, **fields)
    reasons = []
    for version in (old, new, None):
        set_versions(cloud, version)
        plan = request_evacuation(cloud, "cn2")
        reasons += [each["reason"].startswith(words) for each in plan["stuck"]] or [False]
    # Without nova's databases the version is unknown, and nova decides.
    assert reasons == [True, False, False]


def test_host_that_is_up_is_not_evacuated(cloud):
    error = request_evacuation(cloud, "cn1", status=409)["errors"][0]
    assert error["code"] == "scheduler.host_is_up"
    detail = (
        "host 'cn1' is up, and only a host that is down is evacuated: force its compute service "
        "down if it is dead, else drain it (at $.host)"
    )
    assert error["detail"] == detail
    disable_host(cloud, "cn1")
    assert request_evacuation(cloud, "cn1", status=409)["errors"][0]["detail"] == detail
    force_down(cloud, "cn1")
    assert len(request_evacuation(cloud, "cn1")["moves"]) == 2
    force_down(cloud, "cn1", is_down=False)
    request_evacuation(cloud, "cn1", status=409)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"host": "cn11"}, "there is no host 'cn11'. Did you mean 'cn1'? (at $.host)"),
        ({}, "'host' is a required property"),
        ({"host": "cn1", "hots": 1}, "'hots' was unexpected"),
        ({"host": 1}, "(at $.host)"),
    ],
)
def test_invalid_evacuation_is_400_with_the_path_of_the_error(cloud, body, words):
    response = cloud.post_json("/scheduler/v1/evacuation", body, status=400)
    assert words in response.json["errors"][0]["detail"]


def test_evacuated_instances_are_no_other_consumers_and_containers_are(cloud):
    force_down(cloud, "cn1")
    for move in request_evacuation(cloud, "cn1")["moves"]:
        execute_evacuation(cloud, move)
    path = f"/placement/allocations/{make_uuid(1)}"
    allocations = cloud.get(path, headers=LATEST_HEADERS).json["allocations"]
    assert uuid_of("cn1") in allocations
    assert len(allocations) == 2
    add_container(cloud, "cn1", make_uuid(70))
    plan = request_evacuation(cloud, "cn1")
    assert (plan["moves"], plan["stuck"]) == ([], [])
    assert [consumer["uuid"] for consumer in plan["other_consumers"]] == [make_uuid(70)]
