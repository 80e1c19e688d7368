# SPDX-License-Identifier: Apache-2.0
"""Hints in nova's RPC calls, its notifications, and the responses to its calls."""

import json
import logging
from contextlib import suppress

import pytest

from placement_sched.cli.nova_scheduler import make_policy_hint_check
from placement_sched.config.conf import create_conf, read_files
from placement_sched.config.settings import Settings
from placement_sched.nova.messaging import ExpectedError
from placement_sched.nova.objects import UnknownVersion, UnreadableObject, build_primitive
from placement_sched.nova.rpc import (
    SchedulerRpc,
    build_dictionaries,
    build_primitives,
    read_aggregate_ids,
    read_host_name,
    read_instance_uuid,
    read_instance_uuids,
    read_object_uuids,
)
from tests.nova.scheduling import build_request_spec_primitive, list_selected_hosts
from tests.nova.wire.recorded import list_paths, read_recorded_object, replace_value
from tests.nova.wire.results import (
    CELL_UUID,
    NODE_UUIDS,
    REBUILD_SELECTIONS,
    RESULT_WITH_LIMITS,
    SELECTIONS_WITH_LIMITS,
    build_select_destinations_result,
    build_selection,
    read_selections,
)
from tests.support.scheduling import make_report, make_uuid
from tests.support.versions import LATEST_HEADERS

REBUILD_HINT = {"_nova_check_type": ["rebuild"]}
POLICY_HINT = {"sched_policy": ["default"]}
HINT_POLICY_RULE = "scheduler:policies:hint"
OBJECT_DATA = "nova_object.data"
INSTANCE_UUID = "AAAAAAAA-0000-4000-8000-000000000001"
INSTANCE_LIST, AGGREGATE = (read_recorded_object("instances"), read_recorded_object("aggregate"))
CALLER_CONTEXT = {"user_id": "ann", "project_id": "demo", "roles": ["member"]}


@pytest.fixture
def database(sqlite_app):
    return sqlite_app.app.services.database


@pytest.fixture
def settings(sqlite_settings):
    return sqlite_settings


@pytest.fixture
def app_with_hosts_of_nova(sqlite_app, nova, follower):
    for name in ("cn1", "cn2"):
        sqlite_app.post_json(
            "/scheduler/v1/compute_nodes", [make_report(name, uuid=nova.add_host(name))]
        )
    follower.sync_all()
    return sqlite_app


@pytest.fixture
def select_hosts(app_with_hosts_of_nova, follower, tmp_path, caplog):
    for name in ("placement_sched.api.policy", "oslo_policy"):
        caplog.set_level(logging.WARNING, name)  # caplog restores the levels after the test

    def run_with_policy_file(uuid, context=CALLER_CONTEXT, policy="", **fields):
        (tmp_path / "policy.yaml").write_text(policy)
        file = tmp_path / "nova.conf"
        file.write_text(f"[oslo_policy]\npolicy_file = {tmp_path}/policy.yaml\n")
        check = make_policy_hint_check(Settings.from_conf(read_files(create_conf(), [str(file)])))
        scheduler = app_with_hosts_of_nova.app.services.scheduler
        rpc = SchedulerRpc(scheduler, follower, check_policy_hint=check)
        sent = {"spec_obj": build_request_spec_primitive(uuid, **fields), "instance_uuids": [uuid]}
        return rpc.select_destinations(context, **sent, return_objects=True)

    return run_with_policy_file


def read_allocations(app, uuid):
    path = f"/placement/allocations/{uuid}"
    return app.get(path, headers=LATEST_HEADERS).json["allocations"]


@pytest.mark.parametrize("there", [{}, {"force_hosts": ["cn2"]}])
def test_rebuild_hint_on_a_new_instance_is_ignored_and_logged(
    select_hosts, app_with_hosts_of_nova, caplog, there
):
    (host,) = list_selected_hosts(select_hosts(make_uuid(1), scheduler_hints=REBUILD_HINT, **there))
    assert read_allocations(app_with_hosts_of_nova, make_uuid(1))
    assert host == there.get("force_hosts", ["cn1"])[0]
    assert f"instance {make_uuid(1)} is not on it" in caplog.text
    assert "the hint is ignored" in caplog.text


def test_rebuild_hint_does_not_skip_the_claim_of_an_unbuilt_instance(
    select_hosts, app_with_hosts_of_nova
):
    there = {"scheduler_hints": REBUILD_HINT, "force_hosts": ["cn2"]}
    for _ in range(2):
        assert list_selected_hosts(select_hosts(make_uuid(1), **there)) == ["cn2"]
        assert read_allocations(app_with_hosts_of_nova, make_uuid(1))
        # nova-compute does this if it cannot build the instance.
        app_with_hosts_of_nova.delete(
            f"/placement/allocations/{make_uuid(1)}", headers=LATEST_HEADERS
        )


def test_rebuild_uses_the_current_host_in_nova(
    select_hosts, app_with_hosts_of_nova, nova, follower
):
    uuid = nova.add_instance("cn1")
    follower.sync_all()
    nova.cells["one"].change("instances", {"uuid": uuid}, host="cn2", node="cn2")
    there = {"force_hosts": ["cn2"], "force_nodes": ["cn2"]}
    assert list_selected_hosts(select_hosts(uuid, scheduler_hints=REBUILD_HINT, **there)) == ["cn2"]
    assert read_allocations(app_with_hosts_of_nova, uuid) == {}


@pytest.mark.parametrize(
    ("context", "policy"),
    [
        ({**CALLER_CONTEXT, "roles": ["admin"]}, ""),
        ({**CALLER_CONTEXT, "roles": [], "is_admin": True}, ""),
        (
            CALLER_CONTEXT,
            f'"{HINT_POLICY_RULE}": "project_id:demo"\n"os_compute_api:servers:create": "@"\n',
        ),
    ],
    ids=["role", "nova's own", "project"],
)
def test_users_allowed_by_the_rule_can_choose_a_policy(select_hosts, context, policy, caplog):
    hosts = list_selected_hosts(
        select_hosts(make_uuid(1), context, policy, scheduler_hints=POLICY_HINT)
    )
    assert hosts == ["cn1"]
    assert "not a rule of this service" not in caplog.text


@pytest.mark.parametrize("context", [CALLER_CONTEXT, {}], ids=["member", "unknown"])
def test_users_without_the_policy_rule_get_no_valid_host_naming_the_rule(
    select_hosts, app_with_hosts_of_nova, context
):
    with pytest.raises(ExpectedError) as refused:
        select_hosts(make_uuid(1), context, scheduler_hints=POLICY_HINT)
    failure = refused.value.failure
    assert type(failure).__name__ == "NoValidHost"
    assert HINT_POLICY_RULE in str(failure)
    assert read_allocations(app_with_hosts_of_nova, make_uuid(1)) == {}
    assert list_selected_hosts(
        select_hosts(make_uuid(1), context, scheduler_hints={"colour": ["red"]})
    ) == ["cn1"]


def test_unknown_server_group_policy_is_reported_with_supported_policies(
    select_hosts, app_with_hosts_of_nova
):
    group = build_primitive("InstanceGroup", {"policy": "apart"})
    words = "unknown server group policy 'apart'. Valid policies: affinity, anti-affinity"
    with pytest.raises(ValueError, match=words):
        select_hosts(make_uuid(1), instance_group=group)
    assert read_allocations(app_with_hosts_of_nova, make_uuid(1)) == {}


@pytest.mark.parametrize("field", ["project_id", "user_id", "availability_zone"])
def test_too_long_text_of_an_rpc_call_is_rejected_with_its_path(
    select_hosts, app_with_hosts_of_nova, field
):
    words = f"spec_obj.{field} has 300 characters, but at most 255 are allowed"
    with pytest.raises(ValueError, match=words):
        select_hosts(make_uuid(1), **{field: "p" * 300})
    assert read_allocations(app_with_hosts_of_nova, make_uuid(1)) == {}


def test_ids_of_aggregates_in_casts_are_read_from_a_list_or_a_single_object():
    number = AGGREGATE[OBJECT_DATA]["id"]
    assert read_aggregate_ids([AGGREGATE]) == read_aggregate_ids(AGGREGATE) == {number}
    with pytest.raises(UnreadableObject, match=r"^aggregates\[0\]: Aggregate has no id$"):
        read_aggregate_ids([build_primitive("Aggregate", {"name": "a"})])


def test_uuids_of_instances_in_casts_are_read():
    uuids = [each[OBJECT_DATA]["uuid"] for each in INSTANCE_LIST[OBJECT_DATA]["objects"]]
    assert read_object_uuids(INSTANCE_LIST) == uuids
    listed = build_primitive(
        "InstanceList", {"objects": [build_primitive("Instance", {"uuid": INSTANCE_UUID})]}
    )
    assert read_object_uuids(listed) == [INSTANCE_UUID.lower()]


def test_unknown_major_version_of_instance_is_rejected_with_its_path():
    old = replace_value(INSTANCE_LIST, (OBJECT_DATA, "objects", 1, "nova_object.version"), "1.23")
    with pytest.raises(UnknownVersion, match=r"^instance_info\.objects\[1\]: version 1\.23 of Ins"):
        read_object_uuids(old)


@pytest.mark.parametrize("wrong", [None, 7, "x", [None, "x"], {"x": 1}])
@pytest.mark.parametrize(
    ("read", "sent"), [(read_object_uuids, INSTANCE_LIST), (read_aggregate_ids, AGGREGATE)]
)
def test_random_wrong_values_of_notifications_are_parsed_or_rejected(read, sent, wrong):
    for path in list_paths(sent):
        with suppress(UnreadableObject):
            read(replace_value(sent, path, wrong))


def test_uuids_of_a_notification_are_normalized():
    assert (read_host_name("cn1"), read_instance_uuids([INSTANCE_UUID])) == (
        "cn1",
        [INSTANCE_UUID.lower()],
    )


@pytest.mark.parametrize(
    ("read", "sent", "reason"),
    [
        (read_host_name, None, "host_name is missing"),
        (read_host_name, "", "host_name is missing"),
        (read_host_name, ["cn1"], "host_name must be a string, not a list"),
        (read_instance_uuid, None, "instance_uuid is missing"),
        (read_instance_uuid, [INSTANCE_UUID], "instance_uuid must be a string, not a list"),
        (read_instance_uuids, "abc", "instance_uuids must be a list, not a string"),
        (read_instance_uuids, {INSTANCE_UUID: 1}, "instance_uuids must be a list, not an object"),
        (
            read_instance_uuids,
            [INSTANCE_UUID, 7],
            "instance_uuids[1] must be a string, not an integer",
        ),
        (read_instance_uuids, [None], "instance_uuids[0] must not be null"),
    ],
)
def test_notification_with_invalid_host_or_uuids_is_rejected(read, sent, reason):
    with pytest.raises(UnreadableObject) as refused:
        read(sent)
    assert refused.value.detail == reason


def test_selections_start_with_the_host_followed_by_alternates():
    hosts = [
        [each[OBJECT_DATA]["service_host"] for each in row]
        for row in build_primitives(SELECTIONS_WITH_LIMITS)
    ]
    assert hosts == [["cn1", "cn2"], ["cn3"]]


def test_selection_has_all_fields_of_the_selection_object_of_nova():
    ((first, _), _) = build_primitives(SELECTIONS_WITH_LIMITS)
    assert first["nova_object.name"] == "Selection"
    assert first["nova_object.version"] == "1.1"
    assert first["nova_object.changes"] == sorted(first[OBJECT_DATA])
    assert first[OBJECT_DATA]["compute_node_uuid"] == NODE_UUIDS[0]
    assert (first[OBJECT_DATA]["service_host"], first[OBJECT_DATA]["nodename"]) == ("cn1", "node1")
    assert (first[OBJECT_DATA]["cell_uuid"], first[OBJECT_DATA]["availability_zone"]) == (
        CELL_UUID,
        "nova",
    )


def test_allocation_request_is_json_of_a_supported_version():
    ((first, _), _) = build_primitives(SELECTIONS_WITH_LIMITS)
    request = RESULT_WITH_LIMITS["selections"][0][0]["allocation_request"]
    assert json.loads(first[OBJECT_DATA]["allocation_request"]) == request
    assert first[OBJECT_DATA]["allocation_request_version"] == "1.36"


def test_rebuild_has_a_null_allocation_request():
    ((selection,),) = build_primitives(REBUILD_SELECTIONS)
    assert selection[OBJECT_DATA]["allocation_request"] == "null"
    assert selection[OBJECT_DATA]["allocation_request_version"] is None


def test_limits_of_a_selection_are_integers_and_nova_objects():
    ((first, second), _) = build_primitives(SELECTIONS_WITH_LIMITS)
    limits = first[OBJECT_DATA]["limits"][OBJECT_DATA]
    assert [limits[name] for name in ("vcpu", "memory_mb", "disk_gb")] == [8, None, None]
    numa = limits["numa_topology"]
    assert numa["nova_object.name"] == "NUMATopologyLimits"
    assert numa[OBJECT_DATA]["ram_allocation_ratio"] == 1.5
    assert numa[OBJECT_DATA]["network_metadata"][OBJECT_DATA] == {
        "physnets": ["physnet0"],
        "tunneled": True,
    }
    assert second[OBJECT_DATA]["limits"][OBJECT_DATA]["disk_gb"] == 10


def test_infinite_or_text_limit_of_a_selection_is_omitted():
    limits = {"vcpu": float("inf"), "memory_mb": "much", "disk_gb": 1}
    ((selection,),) = build_primitives(
        read_selections(build_select_destinations_result([build_selection(0, limits=limits)]))
    )
    sent_limits = selection[OBJECT_DATA]["limits"][OBJECT_DATA]
    assert [sent_limits[name] for name in ("vcpu", "memory_mb", "disk_gb")] == [None, None, 1]


def test_cell_of_a_selection_is_unset_if_unknown():
    ((selection,),) = build_primitives(
        read_selections(build_select_destinations_result([build_selection(0, cell_uuid=None)]))
    )
    assert "cell_uuid" not in selection[OBJECT_DATA]


def test_callers_without_return_objects_get_one_host_per_instance():
    first, third = build_dictionaries(SELECTIONS_WITH_LIMITS)
    assert (first["host"], first["nodename"], third["host"]) == ("cn1", "node1", "cn3")
    assert first["limits"].keys() == {"vcpu", "numa_topology"}
    assert build_dictionaries(REBUILD_SELECTIONS) == [
        {"host": "cn1", "nodename": "node1", "limits": {}}
    ]
    selections = SELECTIONS_WITH_LIMITS
    for result in (build_primitives(selections), build_dictionaries(selections)):
        assert json.loads(json.dumps(result)) == result
