# SPDX-License-Identifier: Apache-2.0
"""Hints in nova's RPC calls neither skip the claim nor choose a forbidden policy."""

import logging

import pytest

from placement_sched.cli.nova_scheduler import policy_hint_check
from placement_sched.config.conf import new_conf, read_files
from placement_sched.config.settings import Settings
from placement_sched.nova.messaging import ExpectedError
from placement_sched.nova.rpc import SchedulerRpc
from tests.nova.scheduling import hosts_of, primitive_of, spec_of
from tests.support.scheduling import instance, report
from tests.support.versions import LATEST_HEADERS

REBUILD = {"_nova_check_type": ["rebuild"]}
POLICY = {"sched_policy": ["default"]}
RULE = "scheduler:policies:hint"
USER = {"user_id": "ann", "project_id": "demo", "roles": ["member"]}


@pytest.fixture
def app(sqlite_app):
    return sqlite_app


@pytest.fixture
def database(app):
    return app.app.services.database


@pytest.fixture
def settings(sqlite_settings):
    return sqlite_settings


@pytest.fixture
def cloud(app, nova, follower):
    for name in ("cn1", "cn2"):
        app.post_json("/scheduler/v1/compute_nodes", [report(name, uuid=nova.add_host(name))])
    follower.full()
    return app


@pytest.fixture
def run_select(cloud, follower, tmp_path, caplog):
    for name in ("placement_sched.api.policy", "oslo_policy"):
        caplog.set_level(logging.WARNING, name)  # caplog restores the levels after the test

    def select(uuid, context=USER, policy="", **fields):
        (tmp_path / "policy.yaml").write_text(policy)
        file = tmp_path / "nova.conf"
        file.write_text(f"[oslo_policy]\npolicy_file = {tmp_path}/policy.yaml\n")
        check = policy_hint_check(Settings.from_conf(read_files(new_conf(), [str(file)])))
        scheduler = cloud.app.services.scheduler
        rpc = SchedulerRpc(scheduler, follower, check_policy_hint=check)
        sent = {"spec_obj": spec_of(uuid, **fields), "instance_uuids": [uuid]}
        return rpc.select_destinations(context, **sent, return_objects=True)

    return select


def read_allocations(app, uuid):
    path = f"/placement/allocations/{uuid}"
    return app.get(path, headers=LATEST_HEADERS).json["allocations"]


@pytest.mark.parametrize("there", [{}, {"force_hosts": ["cn2"]}])
def test_rebuild_hint_on_a_new_instance_is_ignored_and_logged(run_select, cloud, caplog, there):
    (host,) = hosts_of(run_select(instance(1), scheduler_hints=REBUILD, **there))
    assert read_allocations(cloud, instance(1))
    assert host == there.get("force_hosts", ["cn1"])[0]
    assert f"instance {instance(1)} is not on it" in caplog.text
    assert "the hint is ignored" in caplog.text


def test_rebuild_hint_does_not_skip_the_claim_of_an_unbuilt_instance(run_select, cloud):
    there = {"scheduler_hints": REBUILD, "force_hosts": ["cn2"]}
    for _ in range(2):
        assert hosts_of(run_select(instance(1), **there)) == ["cn2"]
        assert read_allocations(cloud, instance(1))
        # nova-compute does this if it cannot build the instance.
        cloud.delete(f"/placement/allocations/{instance(1)}", headers=LATEST_HEADERS)


def test_rebuild_uses_the_current_host_in_nova(run_select, cloud, nova, follower):
    uuid = nova.add_instance("cn1")
    follower.full()
    nova.cells["one"].change("instances", {"uuid": uuid}, host="cn2", node="cn2")
    there = {"force_hosts": ["cn2"], "force_nodes": ["cn2"]}
    assert hosts_of(run_select(uuid, scheduler_hints=REBUILD, **there)) == ["cn2"]
    assert read_allocations(cloud, uuid) == {}


@pytest.mark.parametrize(
    ("context", "policy"),
    [
        ({**USER, "roles": ["admin"]}, ""),
        ({**USER, "roles": [], "is_admin": True}, ""),
        (USER, f'"{RULE}": "project_id:demo"\n"os_compute_api:servers:create": "@"\n'),
    ],
    ids=["role", "nova's own", "project"],
)
def test_users_allowed_by_the_rule_can_choose_a_policy(run_select, context, policy, caplog):
    assert hosts_of(run_select(instance(1), context, policy, scheduler_hints=POLICY)) == ["cn1"]
    assert "not a rule of this service" not in caplog.text


@pytest.mark.parametrize("context", [USER, {}], ids=["member", "unknown"])
def test_other_users_get_no_valid_host_naming_the_rule(run_select, cloud, context):
    with pytest.raises(ExpectedError) as refused:
        run_select(instance(1), context, scheduler_hints=POLICY)
    failure = refused.value.failure
    assert type(failure).__name__ == "NoValidHost"
    assert RULE in str(failure)
    assert read_allocations(cloud, instance(1)) == {}
    assert hosts_of(run_select(instance(1), context, scheduler_hints={"colour": ["red"]})) == [
        "cn1"
    ]


def test_unknown_server_group_policy_is_reported_with_supported_policies(run_select, cloud):
    group = primitive_of("InstanceGroup", {"policy": "apart"})
    words = "unknown server group policy 'apart'; expected one of affinity, anti-affinity"
    with pytest.raises(ValueError, match=words):
        run_select(instance(1), instance_group=group)
    assert read_allocations(cloud, instance(1)) == {}


@pytest.mark.parametrize("field", ["project_id", "user_id", "availability_zone"])
def test_too_long_text_is_rejected_with_its_path(run_select, cloud, field):
    words = f"spec_obj.{field} has 300 characters; at most 255 are allowed"
    with pytest.raises(ValueError, match=words):
        run_select(instance(1), **{field: "p" * 300})
    assert read_allocations(cloud, instance(1)) == {}
