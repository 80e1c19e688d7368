# SPDX-License-Identifier: Apache-2.0
"""Placement aggregates: they are created when first named, and raise members' generations."""

from datetime import timedelta
from uuid import uuid4

import pytest

from placement_sched.store.placement import aggregates, resource_providers
from tests.support.providers import NOW, make_providers
from tests.support.statements import record_statements

pytestmark = pytest.mark.all_databases

LATER = NOW + timedelta(hours=1)


@pytest.fixture
def provider_ids(database):
    """Create three providers, and return their ids."""
    uuids = make_providers(database, [[], [], []])
    with database.read() as connection:
        found = resource_providers.by_uuids(connection, uuids)
    return [found[uuid].id for uuid in uuids]


def provider_generations(database, ids):
    return list(
        database.write(lambda connection: resource_providers.lock(connection, ids)).values()
    )


def membership_of(database, ids, aggregate):
    with database.read() as connection:
        return [aggregate in aggregates.of_provider(connection, number) for number in ids]


def test_members_are_added_and_removed_once(database, provider_ids):
    rack = str(uuid4())
    first = [provider_ids[0]]
    assert database.write(lambda c: aggregates.add_members(c, rack, first, NOW)) == {
        provider_ids[0]
    }
    both = provider_ids[:2]
    assert database.write(lambda c: aggregates.add_members(c, rack, both, LATER)) == {
        provider_ids[1]
    }
    assert membership_of(database, provider_ids, rack) == [True, True, False]
    assert provider_generations(database, provider_ids) == [1, 1, 0]
    removed = database.write(lambda c: aggregates.remove_members(c, rack, provider_ids[1:], LATER))
    assert removed == {provider_ids[1]}
    assert membership_of(database, provider_ids, rack) == [True, False, False]
    assert provider_generations(database, provider_ids) == [1, 2, 0]


def test_empty_member_list_changes_nothing(database, provider_ids):
    rack = str(uuid4())
    assert database.write(lambda c: aggregates.add_members(c, rack, [], NOW)) == frozenset()
    removed = database.write(lambda c: aggregates.remove_members(c, rack, provider_ids, NOW))
    assert removed == frozenset()
    assert provider_generations(database, provider_ids) == [0, 0, 0]


def test_deleted_provider_is_not_added(database, provider_ids):
    rack = str(uuid4())
    joined = database.write(
        lambda c: aggregates.add_members(c, rack, [provider_ids[0], 2**31 - 1], NOW)
    )
    assert joined == {provider_ids[0]}


def test_aggregates_of_a_provider_are_replaced(database, provider_ids):
    first, second, third = (str(uuid4()) for _ in range(3))
    changes = [
        database.write(lambda c, uuids=uuids: aggregates.replace(c, provider_ids[0], uuids, NOW))
        for uuids in ([first, second], [second, third], [third, second], [])
    ]
    assert changes == [True, True, False, True]
    assert membership_of(database, provider_ids, second) == [False, False, False]


def test_statement_count_is_independent_of_members(database):
    def count_statements(count):
        uuids = make_providers(database, [[]] * count)
        with database.read() as connection:
            found = resource_providers.by_uuids(connection, uuids)
        numbers = [provider.id for provider in found.values()]
        rack = str(uuid4())
        with record_statements(database) as seen:
            database.write(lambda c: aggregates.add_members(c, rack, numbers, NOW))
            database.write(lambda c: aggregates.remove_members(c, rack, numbers, NOW))
        return len(seen)

    assert count_statements(1) == count_statements(150)
