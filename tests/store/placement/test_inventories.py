# SPDX-License-Identifier: Apache-2.0
"""The store of inventories: bulk writes of differences, and used inventories."""

from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from placement_sched.model.provider import Inventory
from placement_sched.store.placement import inventories, resource_providers
from tests.support.providers import NOW, make_provider, make_providers
from tests.support.statements import record_statements, run_query

pytestmark = pytest.mark.all_databases

HOUR_LATER = NOW + timedelta(hours=1)
VCPU_INVENTORY = Inventory(resource_class="VCPU", total=8, allocation_ratio=4.0)
DISK_INVENTORY = Inventory(resource_class="DISK_GB", total=100)


def read_provider(database, uuid):
    return run_query(database, resource_providers.get_by_uuid, uuid)


def read_inventories(database, uuid):
    """Return the inventories of a provider by class, without times."""
    with database.read() as connection:
        provider = resource_providers.get_by_uuid(connection, uuid)
        return inventories.map_by_provider_id(connection, [provider.id])[provider.id]


def read_inventory_times(database, uuid):
    """Return the times of creation and update of a provider's inventories by class."""
    with database.read() as connection:
        _, found = inventories.get_by_provider_uuid(connection, uuid)
    return {row.resource_class: (row.created_at, row.updated_at) for row in found}


def replace_inventories(database, by_uuid):
    """Replace the inventories of providers, and return the uuids of the changed providers."""
    with database.read() as connection:
        found = resource_providers.map_by_uuid(connection, by_uuid)
    ids = {found[uuid].id: new for uuid, new in by_uuid.items()}
    changed = database.write(lambda connection: inventories.put(connection, ids, NOW))
    return {uuid for uuid in by_uuid if found[uuid].id in changed}


def test_providers_with_changed_inventories_are_written_and_returned(database):
    new, old, same = make_providers(
        database, [[], [VCPU_INVENTORY, DISK_INVENTORY], [VCPU_INVENTORY]]
    )
    more = replace(VCPU_INVENTORY, total=16)
    assert replace_inventories(
        database, {new: [VCPU_INVENTORY], old: [more], same: [VCPU_INVENTORY]}
    ) == {new, old}
    assert read_inventories(database, new) == {"VCPU": VCPU_INVENTORY}
    assert read_inventories(database, old) == {"VCPU": more, "DISK_GB": DISK_INVENTORY}


@pytest.mark.parametrize("ratio", [16.123456, 1.9, 0.1, 1e-3, 1e20])
def test_fractional_allocation_ratio_written_twice_changes_nothing(database, ratio):
    uuid = make_provider(database)
    odd = replace(VCPU_INVENTORY, allocation_ratio=ratio)
    assert replace_inventories(database, {uuid: [odd]}) == {uuid}
    assert replace_inventories(database, {uuid: [odd]}) == set()


def test_statement_count_of_inventories_is_independent_of_providers(database):
    def count_statements_for_providers(count):
        uuids = make_providers(database, [[VCPU_INVENTORY, DISK_INVENTORY]] * count)
        by_uuid = {
            uuid: [replace(VCPU_INVENTORY, total=9), replace(DISK_INVENTORY, total=9)]
            for uuid in uuids
        }
        with record_statements(database) as seen:
            assert replace_inventories(database, by_uuid) == set(uuids)
        return len(seen)

    assert count_statements_for_providers(1) == count_statements_for_providers(150)


@pytest.mark.parametrize("ratio", [4.0, 16.123456])
@pytest.mark.parametrize("more", [[], [Inventory(resource_class="MEMORY_MB", total=1)]])
def test_unchanged_inventory_keeps_its_update_time(database, ratio, more):
    same = replace(VCPU_INVENTORY, allocation_ratio=ratio)
    uuid, other = make_providers(database, [[same, DISK_INVENTORY], [same]])
    provider = read_provider(database, uuid)
    database.write(
        lambda connection: inventories.put(connection, {provider.id: [same, *more]}, HOUR_LATER)
    )
    new = dict.fromkeys((inventory.resource_class for inventory in more), (HOUR_LATER, HOUR_LATER))
    assert read_inventory_times(database, uuid) == {
        "VCPU": (NOW, NOW),
        "DISK_GB": (NOW, NOW),
        **new,
    }
    changed = [same, replace(DISK_INVENTORY, total=99), *more]
    database.write(
        lambda connection: inventories.replace(connection, provider, changed, HOUR_LATER)
    )
    assert read_inventory_times(database, uuid) == {
        "VCPU": (NOW, NOW),
        "DISK_GB": (NOW, HOUR_LATER),
        **new,
    }
    assert read_inventory_times(database, other) == {"VCPU": (NOW, NOW)}


def test_inventory_is_removed_only_from_providers_that_have_it(database):
    first, second = make_providers(database, [[VCPU_INVENTORY, DISK_INVENTORY], [DISK_INVENTORY]])
    with database.read() as connection:
        ids = {
            uuid: resource_providers.get_by_uuid(connection, uuid).id for uuid in (first, second)
        }
    names = {ids[first]: {"VCPU"}, ids[second]: {"VCPU"}}
    changed = database.write(lambda connection: inventories.remove(connection, names))
    assert changed == {ids[first]}
    for uuid in (first, second):
        assert set(read_inventories(database, uuid)) == {"DISK_GB"}


def test_removal_of_the_same_classes_of_several_providers_takes_one_statement(database):
    counts = []
    for names in (["VCPU"], ["VCPU", "MEMORY_MB", "DISK_GB", "PCPU"]):
        amounts = dict.fromkeys(names, 8)
        numbers = [read_provider(database, make_provider(database, **amounts)).id for _ in range(3)]
        with record_statements(database) as statements:
            names_by_id = dict.fromkeys(numbers, names)
            changed = database.write(partial(inventories.remove, names_by_provider_id=names_by_id))
        assert changed == set(numbers)
        counts.append(len(statements))
    assert counts[0] == counts[1]
