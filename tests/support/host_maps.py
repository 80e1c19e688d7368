# SPDX-License-Identifier: Apache-2.0
"""Host aggregates that are written directly into the tables, without a sync to placement."""

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from placement_sched.db.transaction import Database
from placement_sched.model.aggregates import HostMap, ProviderChange
from placement_sched.operations.provider_sync import (
    LocalPlacement,
    SyncRun,
    read_local_hosts,
    sync_aggregates,
    sync_traits,
)
from placement_sched.store.compute import host_aggregates
from placement_sched.store.placement import aggregates, resource_providers, traits
from tests.support.clouds import NOW, uuid_of

LICENSED_TRAIT = "CUSTOM_LICENSED"


def add_aggregate(
    database: Database, name: str, hosts: Collection[str] = (), metadata: Mapping[str, str] = {}
) -> str:
    """Add a host aggregate that is not in placement and return its uuid."""

    def write_rows(connection):
        number = host_aggregates.add(connection, uuid_of(name), name, NOW)
        host_aggregates.add_hosts(connection, number, hosts, NOW)
        host_aggregates.change_metadata(connection, number, metadata, NOW)

    database.write(write_rows)
    return uuid_of(name)


def set_metadata(database: Database, name: str, metadata: Mapping[str, str | None]) -> None:
    """Change the metadata of an aggregate."""

    def write_rows(connection):
        number = host_aggregates.find_id(connection, name)
        host_aggregates.change_metadata(connection, number, metadata, NOW)

    database.write(write_rows)


def read_members(database: Database, name: str) -> frozenset[str]:
    """Return the uuids of the providers in the placement aggregate."""
    with database.read() as connection:
        uuid = uuid_of(name)
        return aggregates.map_providers(connection, [uuid]).get(uuid, frozenset())


def read_providers_with_trait(database: Database, trait: str = LICENSED_TRAIT) -> frozenset[str]:
    with database.read() as connection:
        return traits.map_providers(connection, [trait]).get(trait, frozenset())


def add_unrecorded_trait(database: Database, provider: str, trait: str = LICENSED_TRAIT) -> None:
    """Put a trait on a provider without a row in the sync's record."""

    def write_rows(connection):
        number = resource_providers.get_by_uuid(connection, provider).id
        traits.add_to_providers(connection, trait, [number], NOW)

    database.write(write_rows)


def build_host_map_reader(database: Database) -> Callable[[], HostMap]:
    """Return a function that reads the host aggregates of a database."""
    return partial(read_local_hosts, database)


def build_local_services(database: Database) -> tuple[Callable[[], HostMap], LocalPlacement]:
    """Return a reader and a writer of a database with its own host aggregates."""
    return build_host_map_reader(database), LocalPlacement(
        database, lambda: NOW, has_local_hosts=True
    )


def sync_own_aggregates(database: Database, **options: Any) -> SyncRun:
    return sync_aggregates(*build_local_services(database), **options)


def sync_own_traits(database: Database, **options: Any) -> SyncRun:
    return sync_traits(*build_local_services(database), **options)


def build_aggregate_join(aggregate: str, *providers: str) -> ProviderChange:
    """Put providers into a placement aggregate."""
    return ProviderChange("aggregates", aggregate, dict.fromkeys(providers, aggregate), adding=True)


def build_trait_addition(trait: str, providers: Mapping[str, str]) -> ProviderChange:
    """Put a trait on providers, each for an aggregate."""
    return ProviderChange("traits", trait, providers, adding=True)


def build_trait_removal(trait: str, *providers: str) -> ProviderChange:
    """Take a trait off providers."""
    return ProviderChange("traits", trait, dict.fromkeys(providers, ""), adding=False)
