# SPDX-License-Identifier: Apache-2.0
"""Invariants that locks keep, against writers on different nodes at the same moment.

A lock of one node is unknown to the others; what they know of each other is which rows a
transaction changed. The number of rounds is ``PLACEMENT_SCHED_TEST_GALERA_ROUNDS``.
"""

from uuid import uuid4

import pytest

from tests.conftest import make_settings
from tests.galera.nodes import ROUNDS, Nodes, failed_rounds, node_pairs, statuses
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
    nodes.create("POST", NODES, [report(n, **plenty) for n in ("cn1", "cn2")])
    return nodes


def create_group(nodes, policy):
    asked = {"server_group": {"name": "g", "policy": policy}}
    nodes.cluster.settle()
    headers = {"OpenStack-API-Version": "compute 2.64"}
    answer = nodes.clients[0].post_json(GROUPS, asked, headers=headers)
    nodes.cluster.settle()
    return answer.json["server_group"]["id"]


def selection_request(host, group):
    """Ask for a place in a group, on one of the two hosts."""
    other = {"cn1": "cn2", "cn2": "cn1"}[host]
    return {"request_spec": spec(instance_group=group, ignore_hosts=[other])}


def create_provider(nodes, name=None, parent=None):
    asked = {"name": name or str(uuid4()), "parent_provider_uuid": parent}
    return nodes.create("POST", PROVIDERS, asked)["uuid"]


def move_request(uuid, parent):
    """What moves a provider under another."""
    return "PUT", f"{PROVIDERS}/{uuid}", {"name": uuid, "parent_provider_uuid": parent}


def test_affinity_group_members_are_on_one_host(cloud):
    def race(_number, via):
        group = create_group(cloud, "affinity")
        asks = [
            (node, "POST", SELECT, selection_request(f"cn{at}", group))
            for at, node in enumerate(via, 1)
        ]
        answers = cloud.send_concurrently(*asks)
        hosts = cloud.read_rows(f"SELECT host FROM sched_instances WHERE server_group = '{group}'")
        assert statuses(answers) == [200, 409]
        assert len(hosts) == 1

    assert failed_rounds(node_pairs(), race) == []


def test_anti_affinity_group_members_are_on_different_hosts(cloud):
    def race(_number, via):
        group = create_group(cloud, "anti-affinity")
        answers = cloud.send_concurrently(
            *((node, "POST", SELECT, selection_request("cn1", group)) for node in via)
        )
        assert statuses(answers) == [200, 409]

    assert failed_rounds(node_pairs(), race) == []


@pytest.fixture
def racks(galera, galera_database, make_app):
    """Two racks of a host each, and applications with the filter that spreads groups."""
    options = {"filter_scheduler__enabled_filters": ["TopologySpreadFilter"]}
    settings = [make_settings(node.url(galera_database), **options) for node in galera.nodes]
    nodes = Nodes(galera, galera_database, tuple(make_app(each) for each in settings))
    plenty = {"vcpus": 1024, "memory_mb": 4194304, "local_gb": 100000}
    nodes.create("POST", NODES, [report(host, **plenty) for host in ("cn1", "cn2")])
    for host in ("cn1", "cn2"):
        action = create_aggregate(nodes, host)
        nodes.create(*action)
        metadata = {"set_metadata": {"metadata": {"rack": host}}}
        nodes.create("POST", action[1], metadata)
    return nodes


def test_members_of_eight_claimants_are_spread_over_racks(racks):
    spread = flavor(extra_specs={"scheduler:spread_by": "rack", "scheduler:max_skew": "1"})

    def race(_number, _via):
        group = create_group(racks, "soft-affinity")
        requests = [
            (at % 3, "POST", SELECT, {"request_spec": spec(instance_group=group, flavor=spread)})
            for at in range(8)
        ]
        assert statuses(racks.send_concurrently(*requests)) == [200] * 8
        hosts = racks.read_rows(
            "SELECT host, count(*) FROM sched_instances "
            f"WHERE server_group = '{group}' GROUP BY host ORDER BY host"
        )
        assert hosts == [("cn1", 4), ("cn2", 4)]

    assert failed_rounds(node_pairs(), race) == []


def test_deleted_group_has_no_instances(cloud):
    def race(_number, via):
        group = create_group(cloud, "soft-affinity")
        joins, deletes = via
        cloud.send_concurrently(
            (joins, "POST", SELECT, {"request_spec": spec(instance_group=group)}),
            (deletes, "DELETE", f"{GROUPS}/{group}", None),
        )
        assert not cloud.read_rows(
            f"SELECT uuid FROM sched_instances WHERE server_group = '{group}'"
        )

    assert failed_rounds(node_pairs(), race) == []


def test_concurrent_moves_make_no_loop(nodes):
    def race(_number, via):
        one, other = create_provider(nodes), create_provider(nodes)
        answers = nodes.send_concurrently(
            (via[0], *move_request(one, other)), (via[1], *move_request(other, one))
        )
        # Who comes later finds a loop, or that the tree has just been changed.
        assert statuses(answers) in ([200, 400], [200, 409])

    assert failed_rounds(node_pairs(), race) == []


def test_new_child_is_in_the_tree_of_its_moved_parent(nodes):
    def race(_number, via):
        top, parent, child = create_provider(nodes), create_provider(nodes), str(uuid4())
        asked = {"name": child, "uuid": child, "parent_provider_uuid": parent}
        move, create = (via[0], *move_request(parent, top)), (via[1], "POST", PROVIDERS, asked)
        moved, created = (one.status_int for one in nodes.send_concurrently(move, create))
        roots = nodes.read_rows(
            "SELECT root.uuid FROM resource_providers AS child JOIN resource_providers AS root "
            f"ON root.id = child.root_provider_id WHERE child.uuid = '{child}'"
        )
        # Who comes later may find that the tree has just been changed.
        root = top if moved == 200 else parent
        assert {moved, created} <= {200, 409}
        assert roots == [(root,)] * (created == 200)

    assert failed_rounds(node_pairs(), race) == []


def test_deleted_class_has_no_inventory(nodes):
    uuid = create_provider(nodes)

    def race(number, via):
        name = f"CUSTOM_RACE_{number}"
        nodes.create("PUT", f"{CLASSES}/{name}")
        generation = nodes.create("GET", f"{PROVIDERS}/{uuid}")["generation"]
        asked = {"resource_provider_generation": generation, "inventories": {name: {"total": 1}}}
        puts, deletes = via
        answers = nodes.send_concurrently(
            (puts, "PUT", f"{PROVIDERS}/{uuid}/inventories", asked),
            (deletes, "DELETE", f"{CLASSES}/{name}", None),
        )
        orphans = nodes.read_rows(
            "SELECT resource_class_id FROM inventories "
            "WHERE resource_class_id NOT IN (SELECT id FROM resource_classes)"
        )
        assert not orphans
        assert statuses(answers) in ([200, 409], [204, 400])

    assert failed_rounds(node_pairs(), race) == []


def create_aggregate(nodes, name, zone=None):
    """Make an aggregate, and return what puts a host into it."""
    asked = {"aggregate": {"name": name, "availability_zone": zone}}
    made = nodes.create("POST", AGGREGATES, asked)["aggregate"]
    return "POST", f"{AGGREGATES}/{made['id']}/action", {"add_host": {"host": name}}


def members_of(nodes):
    """Return the names of all providers that are in an aggregate."""
    found = nodes.read_rows(
        "SELECT provider.name FROM resource_providers AS provider "
        "JOIN resource_provider_aggregates AS member "
        "ON member.resource_provider_id = provider.id"
    )
    return {name for (name,) in found}


def test_new_node_is_in_the_aggregate_its_host_joins(nodes):
    def race(number, via):
        host = f"host{number}"
        join = create_aggregate(nodes, host)
        known, new = (report(f"{host}{which}", host=host) for which in "ab")
        nodes.create("POST", NODES, [known])
        nodes.send_concurrently((via[0], *join), (via[1], "POST", NODES, [new]))
        assert {f"{host}a", f"{host}b"} <= members_of(nodes)

    assert failed_rounds(node_pairs(), race) == []


def test_provider_created_by_nova_compute_is_in_aggregates_of_its_host(nodes):
    def race(number, via):
        host = f"own{number}"
        join = create_aggregate(nodes, host)
        known, new = (report(f"{host}{which}", host=host, inventories=False) for which in "ab")
        nodes.create("POST", NODES, [known])
        first, second = (
            ("POST", PROVIDERS, {"name": one["hypervisor_hostname"], "uuid": one["uuid"]})
            for one in (known, new)
        )
        # Its host joins an aggregate meanwhile; then its node is reported meanwhile.
        nodes.send_concurrently((via[0], *join), (via[1], *first))
        nodes.send_concurrently((via[0], "POST", NODES, [new]), (via[1], *second))
        assert {f"{host}a", f"{host}b"} <= members_of(nodes)

    assert failed_rounds(node_pairs(), race) == []


def test_host_of_a_new_instance_cannot_change_zone(nodes):
    # It fills a host, so that only the host of the round fits.
    asked = {"availability_zone": "nova", "flavor": flavor(memory_mb=60000)}

    def race(number, via):
        host = f"zone{number}"
        join = create_aggregate(nodes, host, zone=host)
        nodes.create("POST", NODES, [report(host)])
        select = (via[0], "POST", SELECT, {"request_spec": spec(**asked)})
        answers = nodes.send_concurrently(select, (via[1], *join))
        assert statuses(answers) == [200, 409]

    assert failed_rounds(node_pairs(), race) == []


def test_capacity_for_one_is_claimed_once(nodes):
    def race(number, _via):
        uuid = create_provider(nodes)
        asked = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 8}}}
        nodes.create("PUT", f"{PROVIDERS}/{uuid}/inventories", asked)
        claim = {
            "allocations": {uuid: {"resources": {"VCPU": 8}}},
            "project_id": "p",
            "user_id": "u",
            "consumer_generation": None,
            "consumer_type": "INSTANCE",
        }
        answers = nodes.send_concurrently(
            *((which % 3, "PUT", f"/placement/allocations/{uuid4()}", claim) for which in range(6))
        )
        (used,) = nodes.read_rows(
            "SELECT sum(used), count(*) FROM allocations JOIN resource_providers AS provider "
            f"ON provider.id = resource_provider_id WHERE provider.uuid = '{uuid}'"
        )
        assert statuses(answers) == [204] + 5 * [409]
        assert used == (8, 1)

    assert failed_rounds(node_pairs(), race) == []


def test_group_slot_for_one_is_given_once(nodes):
    whole = flavor(memory_mb=65536)
    for number in range(ROUNDS):
        nodes.create("POST", "/scheduler/v1/compute_nodes", [report(f"cn{number}")])
        asks = [(n, "POST", SELECT, {"request_spec": spec(flavor=whole)}) for n in (0, 1, 2)]
        assert statuses(nodes.send_concurrently(*asks)) == [200, 409, 409]
