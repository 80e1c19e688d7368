# SPDX-License-Identifier: Apache-2.0
"""Replacement of the aggregates of a provider.

Traits and aggregates of providers: exact names, and generations of changed providers.
"""

from datetime import timedelta
from functools import partial
from uuid import UUID

import pytest

from placement_sched.errors import NotFound
from placement_sched.store.placement import aggregates, resource_providers, traits
from tests.support.providers import NOW, make_providers
from tests.support.statements import record_statements

pytestmark = pytest.mark.all_databases


def test_aggregates_of_a_provider_are_replaced(database, provider_ids):
    rack, row, hall = (str(UUID(int=number)) for number in (1, 2, 3))
    changes = [
        database.write(lambda c, uuids=uuids: aggregates.replace(c, provider_ids[0], uuids, NOW))
        for uuids in ([rack, row], [row, hall], [hall, row], [])
    ]
    assert changes == [True, True, False, True]
    with database.read() as connection:
        assert provider_ids[0] not in aggregates.map_by_provider_id(connection)


HOUR_LATER = NOW + timedelta(hours=1)
GOLD_TRAIT, RACK_AGGREGATE = "CUSTOM_GOLD", str(UUID(int=1))
for_traits_and_aggregates = pytest.mark.parametrize(
    ("associations", "name"),
    [(traits.ASSOCIATIONS, GOLD_TRAIT), (aggregates.ASSOCIATIONS, RACK_AGGREGATE)],
)


def create_provider_ids(database, number):
    uuids = make_providers(database, [[]] * number)
    with database.read() as connection:
        found = resource_providers.map_by_uuid(connection, uuids)
    return [found[uuid].id for uuid in uuids]


@pytest.fixture
def provider_ids(database):
    return create_provider_ids(database, 3)


def lock_and_read_generations(database, ids):
    return list(database.write(partial(resource_providers.lock, ids=ids)).values())


@for_traits_and_aggregates
def test_adding_and_removing_a_trait_or_aggregate_returns_only_changed_providers(
    database, provider_ids, associations, name
):
    def change_trait_or_aggregate(action, ids, now):
        return database.write(lambda connection: action(connection, name, ids, now))

    first, second, third = provider_ids
    assert change_trait_or_aggregate(associations.remove, provider_ids, NOW) == frozenset()
    assert change_trait_or_aggregate(associations.add, [], NOW) == frozenset()
    assert change_trait_or_aggregate(associations.add, [first, 2**31 - 1], NOW) == {first}
    assert change_trait_or_aggregate(associations.add, [first, second], HOUR_LATER) == {second}
    assert lock_and_read_generations(database, provider_ids) == [1, 1, 0]
    assert change_trait_or_aggregate(associations.remove, [second, third], HOUR_LATER) == {second}
    assert lock_and_read_generations(database, provider_ids) == [1, 2, 0]
    with database.read() as connection:
        members = associations.map_by_provider_id(connection)
    assert [name in members.get(number, ()) for number in provider_ids] == [True, False, False]


@for_traits_and_aggregates
def test_statement_count_of_trait_changes_is_independent_of_providers(database, associations, name):
    def count_statements_for_providers(number):
        ids = create_provider_ids(database, number)
        with record_statements(database) as seen:
            database.write(lambda c: associations.add(c, name, ids, NOW))
            database.write(lambda c: associations.remove(c, name, ids, NOW))
        return len(seen)

    count_statements_for_providers(1)  # creates the member
    assert count_statements_for_providers(1) == count_statements_for_providers(150)


def test_trait_names_are_matched_exactly(database):
    with database.read() as connection:
        assert traits.map_ids(connection, ["hw_cpu_x86_avx", "NOPE"]).keys() <= {"HW_CPU_X86_AVX"}
        assert set(traits.map_ids(connection, ["HW_CPU_X86_AVX"])) == {"HW_CPU_X86_AVX"}
        with pytest.raises(NotFound):
            traits.get_by_name(connection, "hw_cpu_x86_avx")
        for prefix in ("HW%", "HW_CPU_X86_AVX512F%"):  # wildcards are escaped
            assert traits.search(connection, prefix=prefix) == ()
        names = {trait.name for trait in traits.search(connection, prefix="HW_CPU_X86_AVX512F")}
    assert names == {"HW_CPU_X86_AVX512F"}
