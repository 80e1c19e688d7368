# SPDX-License-Identifier: Apache-2.0
"""Synced traits of a provider that was deleted and created again under its uuid.

OpenStack's placement on the same database may do both unnoticed by this service.
"""

import pytest
from sqlalchemy import update

from placement_sched.db import tables
from placement_sched.db.transaction import Database
from placement_sched.model.aggregates import ChangeResult
from placement_sched.store.placement import resource_providers, traits
from tests.support.host_maps import (
    LICENSED_TRAIT,
    add_aggregate,
    add_unrecorded_trait,
    build_local_services,
    build_trait_removal,
    read_providers_with_trait,
    set_metadata,
    sync_own_traits,
)
from tests.support.hosts import NOW, add_node
from tests.support.statements import run_query

pytestmark = pytest.mark.all_databases

METADATA_REQUIRING_TRAIT = {f"trait:{LICENSED_TRAIT}": "required"}
METADATA_WITHOUT_TRAIT = {f"trait:{LICENSED_TRAIT}": None}


def recreate_provider(database: Database, provider: str) -> None:
    """Delete a provider and create it again with the same uuid and name, without its traits."""

    def write_rows(connection):
        name = resource_providers.get_by_uuid(connection, provider).name
        resource_providers.remove_whole(connection, [provider])
        row = resource_providers.NewProvider(provider, name)
        resource_providers.create_many(connection, [row], NOW)

    database.write(write_rows)


def read_synced_traits(database):
    return run_query(database, traits.read_synced)


def sync_traits_of_aggregates(database):
    return sync_own_traits(database)


@pytest.fixture
def synced_provider_and_aggregate(database):
    """Return a provider with a synced trait, and the aggregate that requires the trait."""
    node = add_node(database, "win1")
    aggregate = add_aggregate(database, "windows", ["win1"], METADATA_REQUIRING_TRAIT)
    sync_traits_of_aggregates(database)
    return node, aggregate


@pytest.mark.parametrize("runs_before_removal", [0, 1])
def test_trait_set_by_an_operator_on_a_recreated_provider_is_kept(
    database, synced_provider_and_aggregate, runs_before_removal
):
    node, _ = synced_provider_and_aggregate
    recreate_provider(database, node)
    add_unrecorded_trait(database, node)
    for _ in range(runs_before_removal):
        assert sync_traits_of_aggregates(database).added == set()
        assert read_synced_traits(database) == {}
    set_metadata(database, "windows", METADATA_WITHOUT_TRAIT)
    assert sync_own_traits(database, dry_run=True).removed == set()
    assert sync_traits_of_aggregates(database).removed == set()
    assert read_providers_with_trait(database) == {node}
    assert read_synced_traits(database) == {}


def test_synced_trait_on_a_recreated_provider_is_removed(database, synced_provider_and_aggregate):
    node, aggregate = synced_provider_and_aggregate
    recreate_provider(database, node)
    assert sync_traits_of_aggregates(database).added == {(node, LICENSED_TRAIT)}
    assert read_synced_traits(database) == {(node, LICENSED_TRAIT): aggregate}
    # Old releases recorded no id of the provider.
    nameless = update(tables.synced_traits).values(provider_id=None)
    database.write(lambda connection: connection.execute(nameless))
    set_metadata(database, "windows", METADATA_WITHOUT_TRAIT)
    assert sync_traits_of_aggregates(database).removed == {(node, LICENSED_TRAIT)}
    assert read_providers_with_trait(database) == set()


def test_provider_recreated_during_a_sync_keeps_its_trait(database, synced_provider_and_aggregate):
    node, _ = synced_provider_and_aggregate
    set_metadata(database, "windows", METADATA_WITHOUT_TRAIT)
    _, placement = build_local_services(database)
    recreate_provider(database, node)
    add_unrecorded_trait(database, node)
    assert placement.change(build_trait_removal(LICENSED_TRAIT, node)) == ChangeResult()
    assert read_providers_with_trait(database) == {node}


def test_record_keeps_synced_traits_of_a_concurrent_sync(database, synced_provider_and_aggregate):
    """A slower run has read the record before another run adds the trait again."""
    node, aggregate = synced_provider_and_aggregate
    recreate_provider(database, node)
    _, slower = build_local_services(database)
    assert slower.read_record() == {}
    sync_traits_of_aggregates(database)
    slower.update_record({}, [(node, "CUSTOM_OTHER")], {})
    assert read_synced_traits(database) == {(node, LICENSED_TRAIT): aggregate}
