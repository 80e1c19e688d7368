# SPDX-License-Identifier: Apache-2.0
"""Races between writers on different nodes: invariants that locks keep.

A lock of a node does not bind the others. A node only learns the rows that other nodes changed.
``PLACEMENT_SCHED_TEST_GALERA_ROUNDS`` is the number of rounds.
"""

from contextlib import suppress
from functools import partial
from uuid import uuid4

import pytest

from placement_sched.errors import NotFound
from placement_sched.model.clock import utcnow
from placement_sched.operations.repair import Healer, HealRequest
from tests.conftest import make_settings
from tests.galera.nodes import NodeApplications, race_in_rounds, sort_statuses
from tests.support.concurrency import run_concurrently
from tests.support.scheduling import make_flavor, make_report, make_spec

pytestmark = pytest.mark.system

PROVIDERS_PATH = "/placement/resource_providers"
INSTANCES_PATH = "/scheduler/v1/instances"
CLASSES_PATH = "/placement/resource_classes"
SERVER_GROUPS_PATH = "/compute/v2.1/os-server-groups"
COMPUTE_NODES_PATH = "/scheduler/v1/compute_nodes"
AGGREGATES_PATH = "/compute/v2.1/os-aggregates"
SELECT_PATH = "/scheduler/v1/select_destinations"
#: Until 1.18, replacing a provider's aggregates leaves its generation unchanged.
PLACEMENT_1_18, PLACEMENT_1_19 = "placement 1.18", "placement 1.19"
#: Deleted providers that are still members of an aggregate, and the aggregates of a provider.
ORPHANED_MEMBERS_QUERY = (
    "SELECT resource_provider_id FROM resource_provider_aggregates AS pair "
    "JOIN placement_aggregates AS aggregate ON aggregate.id = pair.aggregate_id "
    "WHERE resource_provider_id NOT IN (SELECT id FROM resource_providers) "
    "AND aggregate.uuid = '{}'"
)
AGGREGATES_QUERY = (
    "SELECT aggregate.uuid FROM placement_aggregates AS aggregate "
    "JOIN resource_provider_aggregates AS pair ON pair.aggregate_id = aggregate.id "
    "JOIN resource_providers AS provider ON provider.id = pair.resource_provider_id "
    "WHERE provider.uuid = '{}'"
)


@pytest.fixture
def nodes_with_two_hosts(nodes):
    plenty = {"vcpus": 1024, "memory_mb": 4194304, "local_gb": 100000}
    nodes.create_and_replicate(
        "POST", COMPUTE_NODES_PATH, [make_report(n, **plenty) for n in ("cn1", "cn2")]
    )
    return nodes


def create_server_group(nodes, policy):
    body = {"server_group": {"name": "g", "policy": policy}}
    nodes.cluster.wait_until_nodes_applied_all_commits()
    headers = {"OpenStack-API-Version": "compute 2.64"}
    response = nodes.clients[0].post_json(SERVER_GROUPS_PATH, body, headers=headers)
    nodes.cluster.wait_until_nodes_applied_all_commits()
    return response.json["server_group"]["id"]


def build_selection_request(host, group):
    """Return a request for a group member on this host."""
    other = {"cn1": "cn2", "cn2": "cn1"}[host]
    return {"request_spec": make_spec(instance_group=group, ignore_hosts=[other])}


def create_provider(nodes):
    return nodes.create_and_replicate("POST", PROVIDERS_PATH, {"name": str(uuid4())})["uuid"]


def build_parent_request(uuid, parent):
    return "PUT", f"{PROVIDERS_PATH}/{uuid}", {"name": uuid, "parent_provider_uuid": parent}


@race_in_rounds
def test_affinity_group_members_are_on_one_host(nodes_with_two_hosts, number, pair):
    group = create_server_group(nodes_with_two_hosts, "affinity")
    requests = [
        (node, "POST", SELECT_PATH, build_selection_request(f"cn{number}", group))
        for number, node in enumerate(pair, 1)
    ]
    responses = nodes_with_two_hosts.send_concurrently(*requests)
    hosts = nodes_with_two_hosts.read_rows(
        f"SELECT host FROM sched_instances WHERE server_group = '{group}'"
    )
    assert sort_statuses(responses) == [200, 409]
    assert len(hosts) == 1


@race_in_rounds
def test_anti_affinity_group_members_are_on_different_hosts(nodes_with_two_hosts, number, pair):
    group = create_server_group(nodes_with_two_hosts, "anti-affinity")
    responses = nodes_with_two_hosts.send_concurrently(
        *((node, "POST", SELECT_PATH, build_selection_request("cn1", group)) for node in pair)
    )
    assert sort_statuses(responses) == [200, 409]


@pytest.fixture
def nodes_with_two_racks(cluster, database_name, make_app):
    """Two racks of a host each, and applications with the topology spread filter."""
    options = {"filter_scheduler__enabled_filters": ["TopologySpreadFilter"]}
    settings = [make_settings(node.url(database_name), **options) for node in cluster.nodes]
    nodes = NodeApplications(cluster, database_name, tuple(make_app(each) for each in settings))
    plenty = {"vcpus": 1024, "memory_mb": 4194304, "local_gb": 100000}
    nodes.create_and_replicate(
        "POST", COMPUTE_NODES_PATH, [make_report(host, **plenty) for host in ("cn1", "cn2")]
    )
    for host in ("cn1", "cn2"):
        action = create_aggregate(nodes, host)
        nodes.create_and_replicate(*action)
        metadata = {"set_metadata": {"metadata": {"rack": host}}}
        nodes.create_and_replicate("POST", action[1], metadata)
    return nodes


@race_in_rounds
def test_eight_concurrent_group_members_are_spread_evenly_over_racks(
    nodes_with_two_racks, number, pair
):
    spread = make_flavor(extra_specs={"scheduler:spread_by": "rack", "scheduler:max_skew": "1"})
    group = create_server_group(nodes_with_two_racks, "soft-affinity")
    requests = [
        (
            node % 3,
            "POST",
            SELECT_PATH,
            {"request_spec": make_spec(instance_group=group, flavor=spread)},
        )
        for node in range(8)
    ]
    assert sort_statuses(nodes_with_two_racks.send_concurrently(*requests)) == [200] * 8
    hosts = nodes_with_two_racks.read_rows(
        "SELECT host, count(*) FROM sched_instances "
        f"WHERE server_group = '{group}' GROUP BY host ORDER BY host"
    )
    assert hosts == [("cn1", 4), ("cn2", 4)]


@race_in_rounds
def test_server_group_deleted_during_a_selection_has_no_instances(
    nodes_with_two_hosts, number, pair
):
    group = create_server_group(nodes_with_two_hosts, "soft-affinity")
    joins, deletes = pair
    nodes_with_two_hosts.send_concurrently(
        (joins, "POST", SELECT_PATH, {"request_spec": make_spec(instance_group=group)}),
        (deletes, "DELETE", f"{SERVER_GROUPS_PATH}/{group}", None),
    )
    assert not nodes_with_two_hosts.read_rows(
        f"SELECT uuid FROM sched_instances WHERE server_group = '{group}'"
    )


@race_in_rounds
def test_concurrent_changes_of_provider_parents_make_no_loop(nodes, number, pair):
    first, second = create_provider(nodes), create_provider(nodes)
    responses = nodes.send_concurrently(
        (pair[0], *build_parent_request(first, second)),
        (pair[1], *build_parent_request(second, first)),
    )
    # The later request finds a loop, or the change of the tree by the other.
    assert sort_statuses(responses) in ([200, 400], [200, 409])


@race_in_rounds
def test_child_provider_created_while_its_parent_moves_is_in_the_tree_of_the_parent(
    nodes, number, pair
):
    top, parent, child = create_provider(nodes), create_provider(nodes), str(uuid4())
    body = {"name": child, "uuid": child, "parent_provider_uuid": parent}
    move = (pair[0], *build_parent_request(parent, top))
    create = (pair[1], "POST", PROVIDERS_PATH, body)
    moved, created = (response.status_int for response in nodes.send_concurrently(move, create))
    roots = nodes.read_rows(
        "SELECT root.uuid FROM resource_providers AS child JOIN resource_providers AS root "
        f"ON root.id = child.root_provider_id WHERE child.uuid = '{child}'"
    )
    # The later request may find the change of the tree by the other.
    root = top if moved == 200 else parent
    assert {moved, created} <= {200, 409}
    assert roots == [(root,)] * (created == 200)


@race_in_rounds
def test_resource_class_deleted_during_a_write_has_no_inventory(nodes, number, pair):
    uuid = create_provider(nodes)
    name = f"CUSTOM_RACE_{number}"
    nodes.create_and_replicate("PUT", f"{CLASSES_PATH}/{name}")
    generation = nodes.create_and_replicate("GET", f"{PROVIDERS_PATH}/{uuid}")["generation"]
    body = {"resource_provider_generation": generation, "inventories": {name: {"total": 1}}}
    puts, deletes = pair
    responses = nodes.send_concurrently(
        (puts, "PUT", f"{PROVIDERS_PATH}/{uuid}/inventories", body),
        (deletes, "DELETE", f"{CLASSES_PATH}/{name}", None),
    )
    orphans = nodes.read_rows(
        "SELECT resource_class_id FROM inventories "
        "WHERE resource_class_id NOT IN (SELECT id FROM resource_classes)"
    )
    assert not orphans
    assert sort_statuses(responses) in ([200, 409], [204, 400])


def create_aggregate(nodes, name, zone=None):
    """Create an aggregate, and return the request that adds the host of this name."""
    body = {"aggregate": {"name": name, "availability_zone": zone}}
    created = nodes.create_and_replicate("POST", AGGREGATES_PATH, body)["aggregate"]
    return "POST", f"{AGGREGATES_PATH}/{created['id']}/action", {"add_host": {"host": name}}


def list_providers_in_aggregates(nodes):
    rows = nodes.read_rows(
        "SELECT provider.name FROM resource_providers AS provider "
        "JOIN resource_provider_aggregates AS member "
        "ON member.resource_provider_id = provider.id"
    )
    return {name for (name,) in rows}


@race_in_rounds
def test_compute_node_reported_while_its_host_joins_an_aggregate_is_in_the_aggregate(
    nodes, number, pair
):
    host = f"host{number}"
    join = create_aggregate(nodes, host)
    first, second = (make_report(f"{host}{letter}", host=host) for letter in "ab")
    nodes.create_and_replicate("POST", COMPUTE_NODES_PATH, [first])
    nodes.send_concurrently((pair[0], *join), (pair[1], "POST", COMPUTE_NODES_PATH, [second]))
    assert {f"{host}a", f"{host}b"} <= list_providers_in_aggregates(nodes)


@race_in_rounds
def test_provider_created_by_nova_compute_is_in_aggregates_of_its_host(nodes, number, pair):
    host = f"own{number}"
    join = create_aggregate(nodes, host)
    reports = [make_report(f"{host}{letter}", host=host, inventories=False) for letter in "ab"]
    nodes.create_and_replicate("POST", COMPUTE_NODES_PATH, reports[:1])
    first, second = (
        ("POST", PROVIDERS_PATH, {"name": node["hypervisor_hostname"], "uuid": node["uuid"]})
        for node in reports
    )
    # The host joins an aggregate concurrently. Then the node is reported concurrently.
    nodes.send_concurrently((pair[0], *join), (pair[1], *first))
    nodes.send_concurrently((pair[0], "POST", COMPUTE_NODES_PATH, reports[1:]), (pair[1], *second))
    assert {f"{host}a", f"{host}b"} <= list_providers_in_aggregates(nodes)


@race_in_rounds
def test_host_of_a_new_instance_cannot_change_zone(nodes, number, pair):
    # The instance fills a host, so that only the host of the round fits.
    fields = {"availability_zone": "nova", "flavor": make_flavor(memory_mb=60000)}
    host = f"zone{number}"
    join = create_aggregate(nodes, host, zone=host)
    nodes.create_and_replicate("POST", COMPUTE_NODES_PATH, [make_report(host)])
    select = (pair[0], "POST", SELECT_PATH, {"request_spec": make_spec(**fields)})
    responses = nodes.send_concurrently(select, (pair[1], *join))
    assert sort_statuses(responses) == [200, 409]


@race_in_rounds
def test_last_free_capacity_is_claimed_only_once(nodes, number, pair):
    uuid = create_provider(nodes)
    body = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 8}}}
    nodes.create_and_replicate("PUT", f"{PROVIDERS_PATH}/{uuid}/inventories", body)
    claim = {
        "allocations": {uuid: {"resources": {"VCPU": 8}}},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
    }
    responses = nodes.send_concurrently(
        *((node % 3, "PUT", f"/placement/allocations/{uuid4()}", claim) for node in range(6))
    )
    (used,) = nodes.read_rows(
        "SELECT sum(used), count(*) FROM allocations JOIN resource_providers AS provider "
        f"ON provider.id = resource_provider_id WHERE provider.uuid = '{uuid}'"
    )
    assert sort_statuses(responses) == [204] + 5 * [409]
    assert used == (8, 1)


@race_in_rounds
def test_last_free_host_is_selected_only_once(nodes, number, pair):
    nodes.create_and_replicate("POST", COMPUTE_NODES_PATH, [make_report(f"cn{number}")])
    whole = make_flavor(memory_mb=65536)
    requests = [
        (n, "POST", SELECT_PATH, {"request_spec": make_spec(flavor=whole)}) for n in range(3)
    ]
    assert sort_statuses(nodes.send_concurrently(*requests)) == [200, 409, 409]


@race_in_rounds
def test_last_pinned_cpus_are_selected_only_once(nodes, number, pair):
    cell = {"id": 0, "cpuset": [], "pcpuset": [0, 1, 2, 3], "memory": 65536}
    # Without VCPU, pinned CPUs can be allocated as PCPU only.
    report = make_report(f"cn{number}", vcpus=0, numa_topology={"cells": [cell]})
    nodes.create_and_replicate("POST", COMPUTE_NODES_PATH, [report])
    inventory = {"resource_class": "PCPU", "total": 4, "resource_provider_generation": 1}
    path = f"{PROVIDERS_PATH}/{report['uuid']}/inventories"
    nodes.create_and_replicate("POST", path, inventory)
    pinned = make_flavor(vcpus=3, extra_specs={"hw:cpu_policy": "dedicated"})
    requests = [
        (n, "POST", SELECT_PATH, {"request_spec": make_spec(flavor=pinned)}) for n in range(3)
    ]
    assert sort_statuses(nodes.send_concurrently(*requests)) == [200, 409, 409]


def build_aggregates_request(node, uuid, aggregate):
    """Return a request that replaces a provider's aggregates, as clients before 1.19 send it."""
    return node, "PUT", f"{PROVIDERS_PATH}/{uuid}/aggregates", [aggregate], PLACEMENT_1_18


@race_in_rounds
def test_provider_deleted_during_a_write_is_in_no_aggregate(nodes, number, pair):
    uuid, aggregate = create_provider(nodes), str(uuid4())
    joins, deletes = pair
    responses = nodes.send_concurrently(
        build_aggregates_request(joins, uuid, aggregate),
        (deletes, "DELETE", f"{PROVIDERS_PATH}/{uuid}", None),
    )
    assert not nodes.read_rows(ORPHANED_MEMBERS_QUERY.format(aggregate))
    assert sort_statuses(responses) in ([200, 204], [204, 404])


@race_in_rounds
def test_provider_has_the_aggregates_of_the_last_concurrent_write(nodes, number, pair):
    uuid, aggregates = create_provider(nodes), [str(uuid4()), str(uuid4())]
    first, second = map(build_aggregates_request, pair, [uuid] * 2, aggregates)
    if number % 2:
        body = {"aggregates": aggregates[:1], "resource_provider_generation": 0}
        first = (pair[0], "PUT", f"{PROVIDERS_PATH}/{uuid}/aggregates", body, PLACEMENT_1_19)
    assert sort_statuses(nodes.send_concurrently(first, second)) == [200, 200]
    assert nodes.read_rows(AGGREGATES_QUERY.format(uuid)) in [[(uuid,)] for uuid in aggregates]


def test_aggregate_replacement_without_generation_leaves_the_provider_unchanged(nodes):
    uuid = create_provider(nodes)
    provider_rows = f"SELECT * FROM resource_providers WHERE uuid = '{uuid}'"
    before = nodes.read_rows(provider_rows)
    assert nodes.send_request(*build_aggregates_request(1, uuid, str(uuid4()))).status_int == 200
    assert nodes.read_rows(provider_rows) == before


@race_in_rounds
def test_instance_deleted_during_healing_gets_no_allocations(nodes, number, pair):
    nodes.create_and_replicate(
        "POST", "/scheduler/v1/compute_nodes", [make_report("cn1", vcpus=1024)]
    )
    databases = [client.app.services.database for client in nodes.clients]
    uuid = str(uuid4())
    instance = {"host": "cn1", "node": "cn1", "project_id": "p", "user_id": "u"}
    small = {"vcpus": 1, "memory_mb": 0, "root_gb": 0}
    nodes.create_and_replicate("PUT", f"{INSTANCES_PATH}/{uuid}", {**instance, "flavor": small})
    heals, deletes = pair
    request = HealRequest(instance=uuid)
    healer = Healer(
        database=databases[heals], clock=utcnow, unknown_owner=("p", "u"), request=request
    )
    _, response = run_concurrently(
        partial(heal_allocations, healer),
        partial(nodes.send_request, deletes, "DELETE", f"{INSTANCES_PATH}/{uuid}"),
    )
    assert response.status_int == 204
    assert not nodes.read_rows(f"SELECT id FROM allocations WHERE consumer_id = '{uuid}'")


def heal_allocations(healer):
    """Repair the allocations of an instance that another client may delete."""
    with suppress(NotFound):
        list(healer.heal())
