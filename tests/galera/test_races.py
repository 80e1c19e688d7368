# SPDX-License-Identifier: Apache-2.0
"""Invariants that locks keep, against writers on different nodes at the same moment.

A lock of one node is unknown to the others; what they know of each other is which rows a
transaction changed. The number of rounds is ``PLACEMENT_SCHED_TEST_GALERA_ROUNDS``.
"""

from uuid import uuid4

import pytest

from tests.galera.nodes import ROUNDS, broken, pairs, statuses
from tests.support.scheduling import flavor, report, spec

pytestmark = pytest.mark.system

PROVIDERS = "/placement/resource_providers"
CLASSES = "/placement/resource_classes"
GROUPS = "/compute/v2.1/os-server-groups"
NODES = "/scheduler/v1/compute_nodes"
AGGREGATES = "/compute/v2.1/os-aggregates"
SELECT = "/scheduler/v1/select_destinations"


@pytest.fixture
def cloud(nodes):
    """Two hosts with much room."""
    plenty = {"vcpus": 1024, "memory_mb": 4194304, "local_gb": 100000}
    nodes.made("POST", NODES, [report(n, **plenty) for n in ("cn1", "cn2")])
    return nodes


def group_of(nodes, policy):
    asked = {"server_group": {"name": "g", "policy": policy}}
    nodes.cluster.settle()
    headers = {"OpenStack-API-Version": "compute 2.64"}
    answer = nodes.clients[0].post_json(GROUPS, asked, headers=headers)
    nodes.cluster.settle()
    return answer.json["server_group"]["id"]


def onto(host, group):
    """Ask for a place in a group, on one of the two hosts."""
    other = {"cn1": "cn2", "cn2": "cn1"}[host]
    return {"request_spec": spec(instance_group=group, ignore_hosts=[other])}


def provider(nodes, name=None, parent=None):
    asked = {"name": name or str(uuid4()), "parent_provider_uuid": parent}
    return nodes.made("POST", PROVIDERS, asked)["uuid"]


def under(uuid, parent):
    """What moves a provider under another."""
    return "PUT", f"{PROVIDERS}/{uuid}", {"name": uuid, "parent_provider_uuid": parent}


def test_members_of_a_strict_affinity_group_are_on_one_host(cloud):
    def race(_number, via):
        group = group_of(cloud, "affinity")
        asks = [(node, "POST", SELECT, onto(f"cn{at}", group)) for at, node in enumerate(via, 1)]
        answers = cloud.at_once(*asks)
        hosts = cloud.rows(f"SELECT host FROM sched_instances WHERE server_group = '{group}'")
        assert statuses(answers) == [200, 409]
        assert len(hosts) == 1

    assert broken(pairs(), race) == []


def test_members_of_a_strict_anti_affinity_group_are_on_hosts_of_their_own(cloud):
    def race(_number, via):
        group = group_of(cloud, "anti-affinity")
        answers = cloud.at_once(*((node, "POST", SELECT, onto("cn1", group)) for node in via))
        assert statuses(answers) == [200, 409]

    assert broken(pairs(), race) == []


def test_no_instance_is_left_in_a_group_that_is_deleted(cloud):
    def race(_number, via):
        group = group_of(cloud, "soft-affinity")
        joins, deletes = via
        cloud.at_once(
            (joins, "POST", SELECT, {"request_spec": spec(instance_group=group)}),
            (deletes, "DELETE", f"{GROUPS}/{group}", None),
        )
        assert not cloud.rows(f"SELECT uuid FROM sched_instances WHERE server_group = '{group}'")

    assert broken(pairs(), race) == []


def test_crossed_moves_make_no_loop(nodes):
    def race(_number, via):
        one, other = provider(nodes), provider(nodes)
        answers = nodes.at_once((via[0], *under(one, other)), (via[1], *under(other, one)))
        # Who comes later finds a loop, or that the tree has just been changed.
        assert statuses(answers) in ([200, 400], [200, 409])

    assert broken(pairs(), race) == []


def test_child_is_in_the_tree_that_its_parent_is_moved_to(nodes):
    def race(_number, via):
        top, parent, child = provider(nodes), provider(nodes), str(uuid4())
        asked = {"name": child, "uuid": child, "parent_provider_uuid": parent}
        move, create = (via[0], *under(parent, top)), (via[1], "POST", PROVIDERS, asked)
        moved, created = (one.status_int for one in nodes.at_once(move, create))
        roots = nodes.rows(
            "SELECT root.uuid FROM resource_providers AS child JOIN resource_providers AS root "
            f"ON root.id = child.root_provider_id WHERE child.uuid = '{child}'"
        )
        # Who comes later may find that the tree has just been changed.
        root = top if moved == 200 else parent
        assert {moved, created} <= {200, 409}
        assert roots == [(root,)] * (created == 200)

    assert broken(pairs(), race) == []


def test_no_inventory_is_left_of_a_class_that_is_deleted(nodes):
    uuid = provider(nodes)

    def race(number, via):
        name = f"CUSTOM_RACE_{number}"
        nodes.made("PUT", f"{CLASSES}/{name}")
        generation = nodes.made("GET", f"{PROVIDERS}/{uuid}")["generation"]
        asked = {"resource_provider_generation": generation, "inventories": {name: {"total": 1}}}
        puts, deletes = via
        answers = nodes.at_once(
            (puts, "PUT", f"{PROVIDERS}/{uuid}/inventories", asked),
            (deletes, "DELETE", f"{CLASSES}/{name}", None),
        )
        orphans = nodes.rows(
            "SELECT resource_class_id FROM inventories "
            "WHERE resource_class_id NOT IN (SELECT id FROM resource_classes)"
        )
        assert not orphans
        assert statuses(answers) in ([200, 409], [204, 400])

    assert broken(pairs(), race) == []


def aggregate_of(nodes, name, zone=None):
    """Make an aggregate, and return what puts a host into it."""
    asked = {"aggregate": {"name": name, "availability_zone": zone}}
    made = nodes.made("POST", AGGREGATES, asked)["aggregate"]
    return "POST", f"{AGGREGATES}/{made['id']}/action", {"add_host": {"host": name}}


def members(nodes):
    """Return the names of all providers that are in an aggregate."""
    found = nodes.rows(
        "SELECT provider.name FROM resource_providers AS provider "
        "JOIN resource_provider_aggregates AS member "
        "ON member.resource_provider_id = provider.id"
    )
    return {name for (name,) in found}


def test_node_that_arrives_is_in_the_aggregate_that_its_host_joins(nodes):
    def race(number, via):
        host = f"host{number}"
        join = aggregate_of(nodes, host)
        known, new = (report(f"{host}{which}", host=host) for which in "ab")
        nodes.made("POST", NODES, [known])
        nodes.at_once((via[0], *join), (via[1], "POST", NODES, [new]))
        assert {f"{host}a", f"{host}b"} <= members(nodes)

    assert broken(pairs(), race) == []


def test_provider_that_nova_compute_creates_is_in_the_aggregates_of_its_host(nodes):
    def race(number, via):
        host = f"own{number}"
        join = aggregate_of(nodes, host)
        known, new = (report(f"{host}{which}", host=host, inventories=False) for which in "ab")
        nodes.made("POST", NODES, [known])
        first, second = (
            ("POST", PROVIDERS, {"name": one["hypervisor_hostname"], "uuid": one["uuid"]})
            for one in (known, new)
        )
        # Its host joins an aggregate meanwhile; then its node is reported meanwhile.
        nodes.at_once((via[0], *join), (via[1], *first))
        nodes.at_once((via[0], "POST", NODES, [new]), (via[1], *second))
        assert {f"{host}a", f"{host}b"} <= members(nodes)

    assert broken(pairs(), race) == []


def test_host_of_an_instance_just_placed_by_its_zone_does_not_change_zone(nodes):
    # It fills a host, so that only the host of the round fits.
    asked = {"availability_zone": "nova", "flavor": flavor(memory_mb=60000)}

    def race(number, via):
        host = f"zone{number}"
        join = aggregate_of(nodes, host, zone=host)
        nodes.made("POST", NODES, [report(host)])
        select = (via[0], "POST", SELECT, {"request_spec": spec(**asked)})
        answers = nodes.at_once(select, (via[1], *join))
        assert statuses(answers) == [200, 409]

    assert broken(pairs(), race) == []


def test_room_for_one_is_claimed_by_one(nodes):
    def race(number, _via):
        uuid = provider(nodes)
        asked = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 8}}}
        nodes.made("PUT", f"{PROVIDERS}/{uuid}/inventories", asked)
        claim = {
            "allocations": {uuid: {"resources": {"VCPU": 8}}},
            "project_id": "p",
            "user_id": "u",
            "consumer_generation": None,
            "consumer_type": "INSTANCE",
        }
        answers = nodes.at_once(
            *((which % 3, "PUT", f"/placement/allocations/{uuid4()}", claim) for which in range(6))
        )
        (used,) = nodes.rows(
            "SELECT sum(used), count(*) FROM allocations JOIN resource_providers AS provider "
            f"ON provider.id = resource_provider_id WHERE provider.uuid = '{uuid}'"
        )
        assert statuses(answers) == [204] + 5 * [409]
        assert used == (8, 1)

    assert broken(pairs(), race) == []


def test_place_for_one_is_given_to_one(nodes):
    whole = flavor(memory_mb=65536)
    for number in range(ROUNDS):
        nodes.made("POST", "/scheduler/v1/compute_nodes", [report(f"cn{number}")])
        asks = [(n, "POST", SELECT, {"request_spec": spec(flavor=whole)}) for n in (0, 1, 2)]
        assert statuses(nodes.at_once(*asks)) == [200, 409, 409]
