# SPDX-License-Identifier: Apache-2.0
"""Synchronization during concurrent changes of hosts, metadata and traits."""

import random
from collections import defaultdict

import pytest

from placement_sched.db.transaction import Database
from placement_sched.errors import ConcurrentUpdate
from placement_sched.operations import aggregates
from placement_sched.store.compute import host_aggregates as aggregates_store
from placement_sched.store.placement import resource_providers, traits
from tests.conftest import delete_test_rows, make_settings
from tests.support.host_maps import (
    LICENSED_TRAIT,
    add_aggregate,
    read_members,
    read_providers_with_trait,
    sync_own_aggregates,
    sync_own_traits,
)
from tests.support.hosts import NOW, add_node
from tests.support.processes import run_in_processes
from tests.verifier.verify import assert_invariants

pytestmark = pytest.mark.system

HOST_NAMES = [f"cn{number}" for number in range(6)]
AGGREGATE_NAMES = ["a", "b"]
SYNC_ROUNDS = 4
SYNC_PROCESSES, HOST_MOVE_PROCESSES, TRAIT_CHANGE_PROCESSES = 2, 1, 1


def run_process_of_race(barrier, process_number, url, nodes):
    """Synchronize, move hosts and change metadata, or set other traits."""
    database, dice = Database(make_settings(url)), random.Random(process_number)
    barrier.wait(120)
    try:
        if process_number < SYNC_PROCESSES:
            for _ in range(SYNC_ROUNDS):
                sync_own_aggregates(database, remove_stale=True)
                sync_own_traits(database)
            return []
        if process_number < SYNC_PROCESSES + HOST_MOVE_PROCESSES:
            for _ in range(4 * SYNC_ROUNDS):
                database.write(
                    lambda connection: toggle_membership_and_trait_metadata(connection, dice)
                )
            return []
        return [
            pair
            for number in range(4 * SYNC_ROUNDS)
            for pair in set_provider_trait(database, dice, nodes, number)
        ]
    finally:
        database.dispose()


def toggle_membership_and_trait_metadata(connection, dice):
    """Add a host to an aggregate or remove it, and require the trait or not."""
    number = aggregates_store.find_id(connection, dice.choice(AGGREGATE_NAMES))
    host = dice.choice(HOST_NAMES)
    if host in aggregates.get(connection, number).hosts:
        aggregates.remove_host(connection, number, host, NOW)
    else:
        aggregates.add_hosts(connection, number, [host], NOW)
    value = dice.choice(["required", None])
    aggregates.set_metadata(connection, number, {f"trait:{LICENSED_TRAIT}": value}, NOW)


def set_provider_trait(database, dice, nodes, number):
    """Add a trait to a provider like the Placement API: replace all, check the generation."""
    node, trait = dice.choice(nodes), f"CUSTOM_THEIRS_{number}"
    with database.read() as connection:
        provider = resource_providers.get_by_uuid(connection, node)
        had = [trait.id for trait in traits.get_provider_traits(connection, provider.uuid).traits]

    def replace_traits(connection):
        traits.add_missing(connection, [trait], NOW)
        locked = resource_providers.lock_by_uuid(connection, node, provider.generation)
        new = traits.map_ids(connection, [trait]).values()
        traits.replace(connection, locked.id, had, [*had, *new], NOW)
        resource_providers.bump_generations(connection, [locked.id], NOW)

    try:
        database.write(replace_traits)
    except ConcurrentUpdate:
        return []
    return [(node, trait)]


@pytest.mark.parametrize("kind", ["postgresql_server", "mysql_server"])
def test_concurrent_provider_syncs_keep_traits_of_others(kind, request):
    url = request.getfixturevalue(kind)
    assert any(run_writers_and_check_result(url) for _ in range(5)), (
        "the trait writer never succeeded"
    )


def run_writers_and_check_result(url: str) -> bool:
    """Run all writers and check the result. Return whether the trait writer succeeded."""
    delete_test_rows(url)
    database = Database(make_settings(url))
    nodes = {host: add_node(database, host) for host in HOST_NAMES}
    for name in AGGREGATE_NAMES:
        add_aggregate(database, name, [], {})
    pairs = run_in_processes(
        SYNC_PROCESSES + HOST_MOVE_PROCESSES + TRAIT_CHANGE_PROCESSES,
        run_process_of_race,
        url,
        sorted(nodes.values()),
    )
    # Moves of hosts also update the provider aggregates. They match without another sync.
    required = check_members_and_list_nodes_with_required_trait(database, nodes)
    sync_own_traits(database)
    check_members_and_list_nodes_with_required_trait(database, nodes)
    assert read_providers_with_trait(database) == required
    with database.read() as connection:
        assert {uuid for uuid, _ in traits.read_synced(connection)} == required
    other_traits: dict[str, set[str]] = defaultdict(set)
    for node, trait in pairs:
        other_traits[trait].add(node)
    found = {trait: read_providers_with_trait(database, trait) for trait in other_traits}
    assert found == other_traits
    assert_invariants(database)
    database.dispose()
    return bool(other_traits)


def check_members_and_list_nodes_with_required_trait(database, nodes):
    """Compare host and provider aggregates, and return the nodes of aggregates with the trait."""
    with database.read() as connection:
        snapshot = aggregates_store.read_snapshot(connection)
    for aggregate in snapshot:
        assert read_members(database, aggregate.name) == {nodes[host] for host in aggregate.hosts}
    return {
        nodes[host]
        for aggregate in snapshot
        if aggregate.metadata.get(f"trait:{LICENSED_TRAIT}") == "required"
        for host in aggregate.hosts
    }
