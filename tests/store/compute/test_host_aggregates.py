# SPDX-License-Identifier: Apache-2.0
"""The store of host aggregates, their hosts and their metadata."""

from dataclasses import replace

import pytest

from placement_sched.store.compute import host_aggregates as store
from tests.support.clouds import uuid_of
from tests.support.hosts import NOW, add_instance, add_node, add_service
from tests.support.scheduling import make_spec
from tests.support.statements import record_statements, run_query

pytestmark = pytest.mark.all_databases


@pytest.fixture
def add_aggregate(database):
    """Give a function that adds an aggregate with hosts and metadata, and returns its id."""

    def insert_aggregate(name, *hosts, **metadata):
        def write_aggregate(connection):
            number = store.add(connection, uuid_of(name), name, NOW)
            store.add_hosts(connection, number, hosts, NOW)
            store.change_metadata(connection, number, metadata, NOW)
            return number

        return database.write(write_aggregate)

    return insert_aggregate


def test_aggregate_is_read_as_it_was_written(database, add_aggregate):
    number = add_aggregate("a", "h2", "h1", ssd="true", availability_zone="z")
    found = run_query(database, store.find_by_id, number)
    assert (found.id, found.uuid, found.name) == (number, uuid_of("a"), "a")
    assert found.hosts == {"h1", "h2"}
    assert found.metadata == {"availability_zone": "z", "ssd": "true"}
    assert (found.created_at, found.updated_at) == (NOW, None)
    assert run_query(database, store.find_by_id, number + 1) is None
    assert run_query(database, store.find_id, "a") == number
    assert run_query(database, store.find_id, "A") is None


def test_all_aggregates_are_read_with_a_single_statement(database, add_aggregate):
    assert run_query(database, store.read_snapshot) == ()
    numbers = [
        add_aggregate("a", "h1", "h2", Ssd="TRUE", ssd="", availability_zone="z"),
        add_aggregate("A"),
        add_aggregate("b", "h1"),
    ]
    with record_statements(database) as statements:
        snapshot = run_query(database, store.read_snapshot)
    assert len(statements) == 1
    assert [each.name for each in snapshot] == ["a", "A", "b"]
    assert [run_query(database, store.find_by_id, number) for number in numbers] == list(snapshot)


def test_hosts_with_a_node_or_a_compute_service_are_returned(database):
    add_node(database, "node")
    add_service(database, "service")
    add_service(database, "controller", "nova-conductor")
    names = ["node", "service", "controller", "Node", "nothing"]
    assert run_query(database, store.find_compute_hosts, names) == {"node", "service"}


def test_availability_zones_are_returned_by_host_and_aggregate(database, add_aggregate):
    first = add_aggregate("one", "h1", "h2", availability_zone="z", ssd="true")
    second = add_aggregate("two", "h1", availability_zone="z")
    add_aggregate("plain", "h1", "h3", Availability_zone="no")
    assert run_query(database, store.map_zones, ["h1", "h2", "h3"]) == {
        "h1": {first: "z", second: "z"},
        "h2": {first: "z"},
    }


def test_provider_ids_and_instances_are_returned_for_the_given_hosts(database):
    for node, has_provider in (("n1", True), ("n2", True), ("n3", False)):
        add_node(database, "h1", node, provider=has_provider)
    add_node(database, "h2")
    for hosts, number in ((["h1"], 2), (["h1", "h2"], 3), ([], 0)):
        assert len(run_query(database, store.find_provider_ids, hosts)) == number
    for host in ("h1", "h1", "h2"):
        add_instance(database, host)
    assert run_query(database, store.find_hosts_with_instances, ["h1", "H2", "h3"]) == {"h1"}


def test_aggregates_are_returned_by_host_in_order(database, add_aggregate):
    add_aggregate("b", "h1", "h2")
    add_aggregate("a", "h1")
    add_aggregate("empty")
    assert run_query(database, store.map_aggregates, ["h1", "h2", "h3"]) == {
        "h1": (uuid_of("b"), uuid_of("a")),
        "h2": (uuid_of("b"),),
    }


def test_replaced_aggregate_has_only_the_new_hosts_and_metadata(database, add_aggregate):
    number = add_aggregate("a", "h1", "h2", ssd="true", rack="r1")
    here = {number: run_query(database, store.find_by_id, number)}
    new = replace(here[number], hosts=frozenset({"h2", "h3"}), metadata={"rack": "r2"})
    database.write(lambda connection: store.replace(connection, here, [new], [], NOW))
    stored = run_query(database, store.find_by_id, number)
    assert (stored.hosts, stored.metadata) == ({"h2", "h3"}, {"rack": "r2"})


def test_other_server_uses_changed_aggregate_metadata_at_once(database, settings, make_app):
    options = {"scheduler.limit_tenants_to_placement_aggregate": True}
    servers = [make_app(settings.with_overrides(options)) for _ in range(2)]
    body = {"aggregate": {"name": "agg", "availability_zone": None}}
    path = "/compute/v2.1/os-aggregates"
    number = servers[0].post_json(path, body).json["aggregate"]["id"]

    def is_tenant_aggregate_required(server):
        body = {"request_spec": make_spec(project_id="p1")}
        funnel = server.post_json("/scheduler/v1/explain", body).json["funnel"]
        changes = {entry["name"]: entry["changes"] for entry in funnel["request_filters"]}
        return bool(changes["require_tenant_aggregate"])

    for writer, reader in (servers, servers[::-1]):
        for project in ("p1", None):
            metadata = {"set_metadata": {"metadata": {"filter_tenant_id": project}}}
            writer.post_json(f"{path}/{number}/action", metadata)
            assert is_tenant_aggregate_required(reader) == (project is not None)
