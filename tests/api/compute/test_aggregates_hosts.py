# SPDX-License-Identifier: Apache-2.0
"""Hosts of host aggregates: zones, instances, and the provider aggregates that follow."""

from functools import partial

import pytest
from sqlalchemy import select

from placement_sched.db.tables import (
    placement_aggregates,
    resource_provider_aggregates,
    resource_providers,
)
from tests.api.compute.conftest import AGGREGATES_URL
from tests.support.concurrency import run_concurrently
from tests.support.hosts import add_instance, add_node, add_service
from tests.support.scheduling import make_flavor, make_report, make_spec
from tests.support.statements import record_statements


@pytest.fixture
def read_aggregate_members(database):
    """Return a function that returns the uuids of the providers in a placement aggregate."""

    def read_provider_uuids(uuid):
        query = (
            select(resource_providers.c.uuid)
            .join(
                resource_provider_aggregates,
                resource_provider_aggregates.c.resource_provider_id == resource_providers.c.id,
            )
            .join(
                placement_aggregates,
                placement_aggregates.c.id == resource_provider_aggregates.c.aggregate_id,
            )
            .where(placement_aggregates.c.uuid == uuid)
        )
        with database.read() as connection:
            return set(connection.scalars(query))

    return read_provider_uuids


def test_hosts_added_to_an_aggregate_are_shown_in_order(aggregate_api, database):
    number = aggregate_api.create_and_get_id("a")
    for host in ("h2", "h1"):
        add_node(database, host)
        response = aggregate_api.add_host(number, host)
    assert response.json["aggregate"]["hosts"] == ["h1", "h2"]
    assert aggregate_api.show(number).json["aggregate"]["hosts"] == ["h1", "h2"]
    assert aggregate_api.remove_host(number, "h1").json["aggregate"]["hosts"] == ["h2"]


@pytest.mark.all_databases
def test_resource_providers_of_all_nodes_of_a_host_are_added_to_the_aggregate(
    aggregate_api, database, read_aggregate_members
):
    mine = {add_node(database, "h1", "n1"), add_node(database, "h1", "n2")}
    add_node(database, "h2")
    add_node(database, "H1")
    number = aggregate_api.create_and_get_id("a")
    aggregate_api.add_host(number, "h1")
    assert read_aggregate_members(aggregate_api.read_uuid(number)) == mine
    aggregate_api.remove_host(number, "h1")
    assert read_aggregate_members(aggregate_api.read_uuid(number)) == set()


def test_placement_api_shows_the_aggregates_of_a_host(aggregate_api, database):
    provider = add_node(database, "h1")
    one, two = aggregate_api.create_and_get_id("one"), aggregate_api.create_and_get_id("two")
    for number in (one, two):
        aggregate_api.add_host(number, "h1")
    aggregate_api.remove_host(one, "h1")
    response = aggregate_api.app.get(
        f"/placement/resource_providers/{provider}/aggregates",
        headers={"OpenStack-API-Version": "placement 1.19"},
    )
    assert response.json["aggregates"] == [aggregate_api.read_uuid(two)]
    assert response.json["resource_provider_generation"] == 3


def test_host_without_resource_providers_can_be_added_to_an_aggregate(aggregate_api, database):
    add_service(database, "s1")
    add_node(database, "n1", provider=False)
    number = aggregate_api.create_and_get_id("a")
    aggregate_api.add_host(number, "s1")
    assert aggregate_api.add_host(number, "n1").json["aggregate"]["hosts"] == ["n1", "s1"]
    aggregate_api.remove_host(number, "n1")
    assert aggregate_api.remove_host(number, "s1").json["aggregate"]["hosts"] == []


def test_adding_an_unknown_host_to_an_aggregate_is_404(aggregate_api, database):
    add_node(database, "h1")
    add_service(database, "controller", "nova-scheduler")
    number = aggregate_api.create_and_get_id("a")
    for host in ("nope", "H1", "controller"):
        fault = aggregate_api.add_host(number, host, status=404).json["itemNotFound"]
        assert fault["message"] == f"Compute host {host} could not be found."


def test_host_can_be_added_to_and_removed_from_an_aggregate_only_once(aggregate_api, database):
    add_node(database, "h1")
    number = aggregate_api.create_and_get_id("a")
    aggregate_api.remove_host(number, "h1", status=404)
    aggregate_api.add_host(number, "h1")
    fault = aggregate_api.add_host(number, "h1", status=409).json["conflictingRequest"]
    assert "already has host h1" in fault["message"]
    fault = aggregate_api.delete(number, status=400).json["badRequest"]
    assert "not empty" in fault["message"]
    aggregate_api.remove_host(number, "h1")
    aggregate_api.delete(number)


def test_host_can_be_in_one_availability_zone_only(aggregate_api, database, read_aggregate_members):
    add_node(database, "h1")
    plain, zone, same, other = (
        aggregate_api.create_and_get_id(name, name[0] if name != "plain" else None)
        for name in ("plain", "z1", "z2", "y")
    )
    for number in (plain, zone, same):
        aggregate_api.add_host(number, "h1")
    fault = aggregate_api.add_host(other, "h1", status=409).json["conflictingRequest"]
    assert "already in availability zone(s) z" in fault["message"]
    assert aggregate_api.show(other).json["aggregate"]["hosts"] == []
    assert read_aggregate_members(aggregate_api.read_uuid(other)) == set()


def test_zone_of_an_aggregate_cannot_differ_from_another_zone_of_its_host(aggregate_api, database):
    add_node(database, "h1")
    first, second, unzoned = (
        aggregate_api.create_and_get_id("one", "z"),
        aggregate_api.create_and_get_id("two", "z"),
        aggregate_api.create_and_get_id("plain"),
    )
    for number in (first, second, unzoned):
        aggregate_api.add_host(number, "h1")
    aggregate_api.update(first, availability_zone="y", status=400)
    aggregate_api.set_metadata(first, availability_zone="y", status=400)
    aggregate_api.set_metadata(unzoned, availability_zone="y", status=400)
    tagged = aggregate_api.set_metadata(unzoned, availability_zone="z").json["aggregate"]
    assert tagged["availability_zone"] == "z"


def test_zone_of_hosts_without_instances_can_change_but_not_be_removed(
    sqlite_aggregate_api, sqlite_database
):
    add_node(sqlite_database, "h1")
    number = sqlite_aggregate_api.create_and_get_id("a", "z1")
    sqlite_aggregate_api.add_host(number, "h1")
    shown = sqlite_aggregate_api.update(number, availability_zone="z2").json["aggregate"]
    assert shown["hosts"] == ["h1"]
    sqlite_aggregate_api.set_metadata(number, availability_zone="z3")
    for zone in (None, ""):
        response = sqlite_aggregate_api.set_metadata(number, availability_zone=zone, status=400)
        assert "empty named availability zone" in response.json["badRequest"]["message"]
        sqlite_aggregate_api.update(number, availability_zone=zone, status=400)
    assert sqlite_aggregate_api.show(number).json["aggregate"]["availability_zone"] == "z3"


def test_host_with_instances_cannot_enter_a_zone(aggregate_api, database):
    add_node(database, "h1")
    add_instance(database, "h1")
    fault = aggregate_api.add_host(
        aggregate_api.create_and_get_id("zone", "nova"), "h1", status=409
    ).json["conflictingRequest"]
    assert "h1" in fault["message"]
    assert aggregate_api.add_host(aggregate_api.create_and_get_id("plain"), "h1").status_int == 200


def test_host_with_instances_cannot_leave_its_zone(aggregate_api, database, read_aggregate_members):
    provider = add_node(database, "h1")
    first, second, unzoned = (
        aggregate_api.create_and_get_id("one", "z"),
        aggregate_api.create_and_get_id("two", "z"),
        aggregate_api.create_and_get_id("plain"),
    )
    aggregate_api.add_host(first, "h1")
    add_instance(database, "h1")
    aggregate_api.add_host(second, "h1")
    aggregate_api.add_host(unzoned, "h1")
    aggregate_api.remove_host(unzoned, "h1")
    aggregate_api.remove_host(first, "h1")
    aggregate_api.remove_host(second, "h1", status=409)
    assert read_aggregate_members(aggregate_api.read_uuid(second)) == {provider}


def test_zone_of_hosts_with_instances_cannot_change(aggregate_api, database):
    add_node(database, "h1")
    zone, plain = (
        aggregate_api.create_and_get_id("zone", "z"),
        aggregate_api.create_and_get_id("plain"),
    )
    aggregate_api.add_host(zone, "h1")
    aggregate_api.add_host(plain, "h1")
    add_instance(database, "h1")
    before = aggregate_api.show(zone).json
    aggregate_api.update(zone, name="b", availability_zone="y", status=400)
    fault = aggregate_api.set_metadata(zone, ssd="true", availability_zone="y", status=400).json
    assert "instances" in fault["badRequest"]["message"]
    assert aggregate_api.show(zone).json == before
    aggregate_api.set_metadata(plain, availability_zone="z", status=400)
    assert aggregate_api.update(zone, availability_zone="z", name="kept").status_int == 200
    assert aggregate_api.set_metadata(zone, ssd="true").status_int == 200


@pytest.mark.all_databases
def test_concurrent_additions_of_a_host_to_two_zones_never_both_succeed(aggregate_api, database):
    add_node(database, "h1")
    numbers = [aggregate_api.create_and_get_id(zone, zone) for zone in ("za", "zb", "zc", "zd")]
    responses = run_concurrently(
        *(partial(aggregate_api.add_host, number, "h1", status="*") for number in numbers)
    )
    assert sorted(response.status_int for response in responses) == [200, 409, 409, 409]


@pytest.mark.all_databases
def test_host_of_a_new_instance_cannot_change_zone(aggregate_api):
    select = partial(aggregate_api.app.post_json, "/scheduler/v1/select_destinations", status="*")
    # The request fills a host, so that only the host of this round fits.
    fields = {"availability_zone": "nova", "flavor": make_flavor(memory_mb=60000)}
    for number in range(4):
        host = f"host{number}"
        aggregate_api.app.post_json("/scheduler/v1/compute_nodes", [make_report(host)])
        aggregate = aggregate_api.create_and_get_id(host, host)
        placed, added = run_concurrently(
            partial(select, {"request_spec": make_spec(**fields)}),
            partial(aggregate_api.add_host, aggregate, host, status="*"),
        )
        assert sorted([placed.status_int, added.status_int]) == [200, 409], added.text


def count_sql_statements_of_aggregate_requests(aggregate_api, database, size):
    """Return the numbers of statements that the calls for a host and its aggregate take.

    The aggregate has ``size`` hosts already, and the host has ``size`` nodes.
    """
    used = aggregate_api.app.app.services.database
    for node in range(size):
        add_node(database, f"many{size}", f"n{node}")
    number = aggregate_api.create_and_get_id(f"of {size}", "z")
    for host in (f"h{size}-{each}" for each in range(size)):
        add_node(database, host)
        aggregate_api.add_host(number, host)
    with record_statements(used) as adding:
        aggregate_api.add_host(number, f"many{size}")
    with record_statements(used) as listing:
        aggregate_api.app.get(AGGREGATES_URL)
    with record_statements(used) as zoning:
        aggregate_api.update(number, availability_zone="y")
    with record_statements(used) as removing:
        aggregate_api.remove_host(number, f"many{size}")
    return [len(each) for each in (adding, listing, zoning, removing)]


def test_sql_statement_count_does_not_grow_with_hosts_or_nodes(aggregate_api, database):
    few = count_sql_statements_of_aggregate_requests(aggregate_api, database, 2)
    assert count_sql_statements_of_aggregate_requests(aggregate_api, database, 8) == few
    assert max(few) < 20
