# SPDX-License-Identifier: Apache-2.0
"""Requests that name a server group."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import insert

from placement_sched.db.tables import instances as table
from placement_sched.errors import ConcurrentUpdate, Invalid
from placement_sched.limits import MAX_GROUP_MEMBERS
from placement_sched.model.aggregates import ServerGroup
from placement_sched.scheduler.claim import _join_group
from tests.conftest import make_settings
from tests.support.scheduling import hosts_of, instance, report, spec
from tests.support.statements import counted
from tests.support.states import a_spec

SELECT = "/scheduler/v1/select_destinations"
EXPLAIN = "/scheduler/v1/explain"
GROUPS = "/compute/v2.1/os-server-groups"
VERSION = {"OpenStack-API-Version": "compute 2.96"}
PLACEMENT = {"OpenStack-API-Version": "placement latest"}
UNKNOWN = "11111111-2222-4333-8444-555555555555"


def cloud_on(url, make_app, **options):
    """Three hosts, and no filter but the one that enforces anti-affinity."""
    settings = make_settings(
        url, filter_scheduler__enabled_filters=["ServerGroupAntiAffinityFilter"], **options
    )
    app = make_app(settings)
    app.post_json("/scheduler/v1/compute_nodes", [report(f"cn{number}") for number in (1, 2, 3)])
    return app


@pytest.fixture
def cloud(database_url, make_app):
    return cloud_on(database_url, make_app)


@pytest.fixture
def sqlite_cloud(sqlite_url, make_app):
    return cloud_on(sqlite_url, make_app)


def make(app, name="g", policy="anti-affinity", token="admin:p1", **rules):
    body = {"server_group": {"name": name, "policy": policy, "rules": rules}}
    headers = {**VERSION, "X-Auth-Token": token, "X-Roles": "admin"}
    return app.post_json(GROUPS, body, headers=headers).json["server_group"]["id"]


def select(app, *instances, status=200, path=SELECT, **fields):
    body = {"request_spec": spec(*instances, **fields)}
    return app.post_json(path, body, status=status).json


def members(app, group):
    headers = {**VERSION, "X-Auth-Token": "admin"}
    return app.get(f"{GROUPS}/{group}", headers=headers).json["server_group"]["members"]


def told(answer):
    (error,) = answer["errors"]
    return error["detail"]


def test_claimed_instances_are_members_and_their_hosts_are_heeded(cloud):
    group = make(cloud)
    first = select(cloud, instance(1), instance_group=group)
    second = select(cloud, instance(2), instance_group=group.upper())
    assert (hosts_of(first), hosts_of(second)) == (["cn1"], ["cn2"])
    assert members(cloud, group) == [instance(1), instance(2)]
    recorded = cloud.get(f"/scheduler/v1/instances/{instance(1)}").json
    assert recorded["server_group"] == group
    third = select(cloud, instance(3), scheduler_hints={"group": group})
    assert hosts_of(third) == ["cn3"]
    assert members(cloud, group) == [instance(1), instance(2), instance(3)]
    refused = select(cloud, instance(4), instance_group=group, status=409)
    assert "ServerGroupAntiAffinityFilter" in told(refused)
    cloud.delete(f"/scheduler/v1/instances/{instance(2)}", status=204)
    assert hosts_of(select(cloud, instance(4), instance_group=group)) == ["cn2"]


def test_instances_of_one_request_see_each_other(sqlite_cloud):
    group = make(sqlite_cloud)
    chosen = select(sqlite_cloud, instance(1), instance(2), instance(3), instance_group=group)
    assert hosts_of(chosen) == ["cn1", "cn2", "cn3"]
    assert members(sqlite_cloud, group) == [instance(1), instance(2), instance(3)]


def test_no_more_instances_of_one_request_than_a_host_may_have_share_it(sqlite_cloud):
    group = make(sqlite_cloud, max_server_per_host=2)
    select(sqlite_cloud, instance(9), instance_group=group, force_hosts=["cn2"])
    chosen = select(sqlite_cloud, *map(instance, range(1, 6)), instance_group=group)
    assert sorted(hosts_of(chosen)) == ["cn1", "cn1", "cn2", "cn3", "cn3"]
    body = spec(instance_uuids=None, instance_group=group, num_instances=2)
    assert not sqlite_cloud.post_json(EXPLAIN, {"request_spec": body}).json["selections"]


@pytest.mark.parametrize("named", [True, False], ids=["uuids", "number alone"])
def test_instances_of_one_request_go_to_the_one_host_of_an_affinity_group(
    database_url, make_app, named
):
    app = make_app(make_settings(database_url))
    app.post_json("/scheduler/v1/compute_nodes", [report(f"cn{number}") for number in (1, 2)])
    group = make(app, policy="affinity")
    uuids = [instance(1), instance(2)] if named else None
    body = spec(instance_uuids=uuids, instance_group=group, num_instances=2)
    answer = app.post_json(SELECT, {"request_spec": body}).json
    assert hosts_of(answer) == ["cn1", "cn1"]
    again = select(app, instance(3), instance_group=group)
    assert hosts_of(again) == ["cn1"]
    explained = select(app, instance(4), path=EXPLAIN, instance_group=group)
    told = {one["name"]: one["rejected"] for one in explained["funnel"]["filters"]}
    (rejected,) = told["ServerGroupAffinityFilter"]
    assert rejected == {"host": "cn2", "node": "cn2", "reason": "the server group is on cn1"}


def test_explain_and_a_request_without_claim_resolve_it_and_record_nothing(sqlite_cloud):
    group = make(sqlite_cloud)
    select(sqlite_cloud, instance(1), instance_group=group)
    explained = select(sqlite_cloud, instance(2), path=EXPLAIN, instance_group=group)
    (filtered,) = explained["funnel"]["filters"]
    reason = "1 member of the server group here, 1 allowed"
    assert filtered["rejected"] == [{"host": "cn1", "node": "cn1", "reason": reason}]
    body = {"request_spec": spec(instance(2), instance_group=group), "claim": False}
    assert hosts_of(sqlite_cloud.post_json(SELECT, body).json) == ["cn2"]
    assert members(sqlite_cloud, group) == [instance(1)]


def test_group_described_in_the_request_needs_no_stored_one(sqlite_cloud):
    described = {"policy": "anti-affinity", "hosts": ["cn1"], "members": [instance(9)]}
    chosen = select(sqlite_cloud, instance(1), instance_group=described)
    assert hosts_of(chosen) == ["cn2"]
    assert sqlite_cloud.get(f"/scheduler/v1/instances/{instance(1)}").json["server_group"] is None


@pytest.mark.parametrize("claim", [True, "add"])
@pytest.mark.parametrize("is_stored", [True, False])
def test_instances_of_a_described_group_do_not_become_members_here(sqlite_cloud, is_stored, claim):
    group = make(sqlite_cloud) if is_stored else UNKNOWN
    described = {"uuid": group, "policy": "anti-affinity", "hosts": [], "members": []}
    for number in (1, 2):
        body = {"request_spec": spec(instance(number), instance_group=described), "claim": claim}
        sqlite_cloud.post_json(SELECT, body)
        shown = sqlite_cloud.get(f"/scheduler/v1/instances/{instance(number)}").json
        assert shown["server_group"] is None
    if is_stored:
        assert members(sqlite_cloud, group) == []


def test_request_sent_again_has_the_same_answer(sqlite_cloud):
    group = make(sqlite_cloud)
    first = select(sqlite_cloud, instance(1), scheduler_hints={"group": [group]})
    assert select(sqlite_cloud, instance(1), scheduler_hints={"group": [group]}) == first
    assert members(sqlite_cloud, group) == [instance(1)]
    sqlite_cloud.delete(f"{GROUPS}/{group}", headers=VERSION, status=204)
    assert select(sqlite_cloud, instance(1), scheduler_hints={"group": [group]}) == first


def test_hint_may_be_a_name_of_the_project(cloud):
    make(cloud, "g", token="admin:p2")
    group = make(cloud, "g")
    select(cloud, instance(1), scheduler_hints={"group": "g"})
    assert members(cloud, group) == [instance(1)]
    another = make(cloud, "g")
    answer = select(cloud, instance(2), scheduler_hints={"group": "g"}, status=400)
    assert "$.request_spec.scheduler_hints.group" in told(answer)
    assert group in told(answer)
    assert another in told(answer)


def test_group_given_goes_before_the_hint(sqlite_cloud):
    group = make(sqlite_cloud)
    hints = {"group": UNKNOWN}
    select(sqlite_cloud, instance(1), instance_group=group, scheduler_hints=hints)
    assert members(sqlite_cloud, group) == [instance(1)]


@pytest.mark.parametrize("path", [SELECT, EXPLAIN])
@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"instance_group": UNKNOWN}, "$.request_spec.instance_group"),
        ({"scheduler_hints": {"group": UNKNOWN}}, "$.request_spec.scheduler_hints.group"),
        ({"scheduler_hints": {"group": "nope"}}, "$.request_spec.scheduler_hints.group"),
        ({"scheduler_hints": {"group": ["a", "b"]}}, "$.request_spec.scheduler_hints.group"),
        ({"scheduler_hints": {"group": [["a"]]}}, "$.request_spec.scheduler_hints.group"),
    ],
)
def test_unknown_group_is_400_with_its_path(sqlite_cloud, path, fields, place):
    assert f"(at {place})" in told(
        select(sqlite_cloud, instance(1), status=400, path=path, **fields)
    )
    assert sqlite_cloud.get("/scheduler/v1/instances").json["instances"] == []


@pytest.mark.parametrize(
    ("policy", "class_"),
    [
        ("affinity", "ServerGroupAffinityFilter"),
        ("soft-affinity", "ServerGroupSoftAffinityWeigher"),
        ("soft-anti-affinity", "ServerGroupSoftAntiAffinityWeigher"),
    ],
)
def test_policy_that_no_plugin_heeds_is_refused(sqlite_url, make_app, policy, class_):
    ram = "nova.scheduler.weights.ram.RAMWeigher"
    app = cloud_on(sqlite_url, make_app, filter_scheduler__weight_classes=[ram])
    group = make(app, policy=policy)
    for path in (SELECT, EXPLAIN):
        answer = select(app, instance(1), status=400, path=path, instance_group=group)
        assert f"{class_} is not enabled (at $.request_spec.instance_group)" in told(answer)
    hints = {"_nova_check_type": "rebuild", "group": group}
    select(app, instance(1), force_hosts=["cn1"])
    select(app, instance(1), scheduler_hints=hints, force_hosts=["cn1"])


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("soft-affinity", ["cn1"] * 4), ("soft-anti-affinity", ["cn1", "cn2", "cn3", "cn1"])],
)
def test_soft_policies_are_heeded_by_default_and_never_refuse(cloud, policy, expected):
    group = make(cloud, policy=policy)
    others = {"cpu", "disk", "io_ops", "ram"}
    multipliers = {f"filter_scheduler.{name}_weight_multiplier": 0.0 for name in others}
    for number, host in enumerate(expected, start=1):
        body = {"request_spec": spec(instance(number), instance_group=group)}
        told = cloud.post_json(EXPLAIN, {**body, "overrides": multipliers}).json
        assert hosts_of(told) == [host]
        select(cloud, instance(number), instance_group=group, force_hosts=[host])


def test_naming_a_group_takes_the_same_statements_however_many_are_in_it(sqlite_cloud):
    # A host more, so that the last question finds one, too: where none is found more is explained.
    sqlite_cloud.post_json("/scheduler/v1/compute_nodes", [report("cn4")])
    group = make(sqlite_cloud)
    select(sqlite_cloud, instance(9), path=EXPLAIN)  # names of nodes are kept from now on
    counts = set()
    for number in (1, 2, 3):
        select(sqlite_cloud, instance(number), instance_group=group)
        with counted(sqlite_cloud.app.services.database) as statements:
            select(sqlite_cloud, instance(9), path=EXPLAIN, instance_group=group)
        counts.add(len(statements))
    assert len(counts) == 1


def test_recorded_instance_must_name_a_group_that_is_there(sqlite_cloud):
    path = f"/scheduler/v1/instances/{instance(1)}"
    answer = sqlite_cloud.put_json(path, {"server_group": UNKNOWN}, status=400).json
    assert f"There is no server group {UNKNOWN} (at $.server_group)" in told(answer)
    sqlite_cloud.get(path, status=404)


def test_a_stored_group_has_a_thousand_members_at_most(cloud):
    group = make(cloud, policy="soft-affinity")
    most = [instance(number) for number in range(1, MAX_GROUP_MEMBERS)]
    rows = [{"uuid": one, "display_name": "one", "server_group": group} for one in most]
    database = cloud.app.services.database
    database.write(lambda connection: connection.execute(insert(table), rows))
    new, path = (
        [instance(MAX_GROUP_MEMBERS + number) for number in range(3)],
        "/scheduler/v1/instances",
    )
    full = f"Server group {group} would have {{}} members, at most 1000 allowed (at $.{{}})"
    place = "request_spec.instance_group"
    refused = select(cloud, *new[:2], instance_group=group, status=400)
    assert full.format(1001, place) in told(refused)
    select(cloud, new[0], instance_group=group)
    refused = select(cloud, new[1], scheduler_hints={"group": group}, status=400)
    assert full.format(1001, place) in told(refused)
    refused = cloud.put_json(f"{path}/{new[1]}", {"server_group": group}, status=400).json
    assert full.format(1001, "server_group") in told(refused)
    assert members(cloud, group) == [*most, new[0]]
    for one in new[1:]:
        cloud.get(f"{path}/{one}", status=404)
        held = cloud.get(f"/placement/allocations/{one}", headers=PLACEMENT).json
        assert held["allocations"] == {}
    # What is in it already is recorded again, and another takes the place of one that leaves.
    cloud.put_json(f"{path}/{most[0]}", {"server_group": group, "host": "cn2"})
    cloud.delete(f"{path}/{most[0]}")
    cloud.put_json(f"{path}/{new[1]}", {"server_group": group})
    assert members(cloud, group) == [*most[1:], *new[:2]]


def test_members_of_a_group_from_before_the_limit_stay(sqlite_cloud):
    group = make(sqlite_cloud, policy="soft-affinity")
    most = [instance(number) for number in range(1, MAX_GROUP_MEMBERS + 3)]
    rows = [{"uuid": one, "display_name": "one", "server_group": group} for one in most]
    database = sqlite_cloud.app.services.database
    database.write(lambda connection: connection.execute(insert(table), rows))
    sqlite_cloud.put_json(f"/scheduler/v1/instances/{most[0]}", {"server_group": group})
    select(sqlite_cloud, most[1], instance_group=group)
    refused = select(sqlite_cloud, instance(9999), instance_group=group, status=400)
    assert "would have 1003 members" in told(refused)
    # One that is recorded without a group stays so.
    sqlite_cloud.put_json(f"/scheduler/v1/instances/{instance(9998)}", {})
    adding = {"request_spec": spec(instance(9998), instance_group=group), "claim": "add"}
    sqlite_cloud.post_json(SELECT, adding)
    assert members(sqlite_cloud, group) == most


def as_found(app, uuid, members=(), hosts=(), policy="anti-affinity"):
    group = ServerGroup(uuid=uuid, policy=policy, members=members, hosts=hosts)
    return a_spec(instance_group=group.as_document())


@pytest.mark.all_databases
def test_claim_is_lost_where_members_of_a_strict_group_came_meanwhile(cloud):
    """What a rival claimed between our look and our claim may break what we found kept."""
    group = make(cloud, max_server_per_host=2)
    select(cloud, instance(1), instance_group=group)
    seen = {"members": (instance(1),), "hosts": ("cn1",)}
    database = cloud.app.services.database
    database.write(lambda connection: _join_group(connection, as_found(cloud, group, **seen)))
    for stale in ({}, {**seen, "members": ()}, {**seen, "hosts": ("cn2",)}):
        late = as_found(cloud, group, **stale)
        with pytest.raises(ConcurrentUpdate, match="changed during scheduling"):
            database.write(lambda connection, late=late: _join_group(connection, late))
        soft = as_found(cloud, group, policy="soft-affinity", **stale)
        database.write(lambda connection, soft=soft: _join_group(connection, soft))


def test_claim_into_a_group_that_went_meanwhile_is_refused(sqlite_cloud):
    gone = as_found(sqlite_cloud, UNKNOWN)
    with pytest.raises(Invalid, match=UNKNOWN):
        sqlite_cloud.app.services.database.write(lambda connection: _join_group(connection, gone))


@pytest.mark.all_databases
def test_rivals_of_one_strict_group_find_a_host_each(cloud):
    """As many requests as hosts, at once: whatever they saw, no two members share a host."""
    group = make(cloud)
    scheduler = cloud.app.services.scheduler

    def place(number):
        chosen = scheduler.select_destinations(spec(instance(number), instance_group=group))
        return hosts_of(chosen)[0]

    with ThreadPoolExecutor(3) as rivals:
        assert sorted(rivals.map(place, (1, 2, 3))) == ["cn1", "cn2", "cn3"]
    assert set(members(cloud, group)) == {instance(number) for number in (1, 2, 3)}


def _with_two_nodes(app):
    """Add a host of two nodes, larger than the others."""
    nodes = [
        report(
            "rack",
            hypervisor_hostname=f"node{number}",
            uuid=instance(700 + number),
            memory_mb=262144,
        )
        for number in (1, 2)
    ]
    app.post_json("/scheduler/v1/compute_nodes", nodes)


def test_members_are_counted_by_host_not_by_node(sqlite_cloud):
    _with_two_nodes(sqlite_cloud)
    group = make(sqlite_cloud, max_server_per_host=2)
    chosen = hosts_of(
        select(sqlite_cloud, *map(instance, range(1, 5)), scheduler_hints={"group": group})
    )
    assert max(chosen.count(host) for host in chosen) == 2


def test_host_that_a_described_group_names_has_one_member(sqlite_cloud):
    group = {"policy": "anti-affinity", "hosts": ["cn1", "cn2"]}
    answer = select(sqlite_cloud, instance(1), path=EXPLAIN, instance_group=group)
    (last,) = answer["funnel"]["filters"]
    assert {one["reason"] for one in last["rejected"]} == {
        "1 member of the server group here, 1 allowed"
    }
