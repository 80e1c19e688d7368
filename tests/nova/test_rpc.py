# SPDX-License-Identifier: Apache-2.0
"""The hints of users over nova's RPC API: none skips the claim or chooses a policy unasked."""

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
def select(cloud, follower, tmp_path, caplog):
    for name in ("placement_sched.api.policy", "oslo_policy"):
        caplog.set_level(logging.WARNING, name)  # their levels are as before after the test

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


def held(app, uuid):
    path = f"/placement/allocations/{uuid}"
    return app.get(path, headers=LATEST_HEADERS).json["allocations"]


@pytest.mark.parametrize("there", [{}, {"force_hosts": ["cn2"]}])
def test_the_hint_of_a_rebuild_on_a_new_instance_is_ignored_and_logged(
    select, cloud, caplog, there
):
    (host,) = hosts_of(select(instance(1), scheduler_hints=REBUILD, **there))
    assert held(cloud, instance(1))
    assert host == there.get("force_hosts", ["cn1"])[0]
    assert f"instance {instance(1)} is not on it" in caplog.text
    assert "the hint is ignored" in caplog.text


def test_the_hint_of_a_rebuild_skips_no_claim_of_an_instance_that_was_only_claimed(select, cloud):
    there = {"scheduler_hints": REBUILD, "force_hosts": ["cn2"]}
    for _ in range(2):
        assert hosts_of(select(instance(1), **there)) == ["cn2"]
        assert held(cloud, instance(1))
        # As nova-compute does where it could not build the instance.
        cloud.delete(f"/placement/allocations/{instance(1)}", headers=LATEST_HEADERS)


def test_an_instance_is_rebuilt_where_nova_has_it_now(select, cloud, nova, follower):
    uuid = nova.add_instance("cn1")
    follower.full()
    nova.cells["one"].change("instances", {"uuid": uuid}, host="cn2", node="cn2")
    there = {"force_hosts": ["cn2"], "force_nodes": ["cn2"]}
    assert hosts_of(select(uuid, scheduler_hints=REBUILD, **there)) == ["cn2"]
    assert held(cloud, uuid) == {}


@pytest.mark.parametrize(
    ("context", "policy"),
    [
        ({**USER, "roles": ["admin"]}, ""),
        ({**USER, "roles": [], "is_admin": True}, ""),
        (USER, f'"{RULE}": "project_id:demo"\n"os_compute_api:servers:create": "@"\n'),
    ],
    ids=["role", "nova's own", "project"],
)
def test_users_that_the_rule_names_choose_a_policy(select, context, policy, caplog):
    assert hosts_of(select(instance(1), context, policy, scheduler_hints=POLICY)) == ["cn1"]
    assert "not a rule of this service" not in caplog.text


@pytest.mark.parametrize("context", [USER, {}], ids=["member", "unknown"])
def test_others_find_no_valid_host_and_the_rule_by_name(select, cloud, context):
    with pytest.raises(ExpectedError) as refused:
        select(instance(1), context, scheduler_hints=POLICY)
    failure = refused.value.failure
    assert type(failure).__name__ == "NoValidHost"
    assert RULE in str(failure)
    assert held(cloud, instance(1)) == {}
    assert hosts_of(select(instance(1), context, scheduler_hints={"colour": ["red"]})) == ["cn1"]


def test_unknown_policy_of_a_server_group_is_named_with_the_known_policies(select, cloud):
    group = primitive_of("InstanceGroup", {"policy": "apart"})
    words = "unknown server group policy 'apart'; expected one of affinity, anti-affinity"
    with pytest.raises(ValueError, match=words):
        select(instance(1), instance_group=group)
    assert held(cloud, instance(1)) == {}


@pytest.mark.parametrize("field", ["project_id", "user_id", "availability_zone"])
def test_text_that_no_column_takes_is_refused_with_its_place(select, cloud, field):
    words = f"spec_obj.{field} has 300 characters; at most 255 are allowed"
    with pytest.raises(ValueError, match=words):
        select(instance(1), **{field: "p" * 300})
    assert held(cloud, instance(1)) == {}
