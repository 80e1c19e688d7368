# SPDX-License-Identifier: Apache-2.0
"""The capacity check in SQL equals the check in Python on every database."""

from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from placement_sched.db.tables import allocations
from placement_sched.model.provider import MAX_INT, Inventory, can_change_usage, matches_units
from placement_sched.store.placement import provider_search, resource_classes, resource_providers
from placement_sched.store.placement.provider_search import ProviderQuery
from tests.exploring import scale_example_count
from tests.support.providers import NOW, make_providers

pytestmark = pytest.mark.all_databases

# MariaDB returns a FLOAT with six digits.
RANDOM_ALLOCATION_RATIOS = st.integers(1, 99_999).map(lambda digits: digits / 1000)
RANDOM_TOTALS = st.integers(1, 40)


@st.composite
def draw_inventory_with_usage(draw):
    total = draw(RANDOM_TOTALS)
    inventory = Inventory(
        resource_class="VCPU",
        total=total,
        reserved=draw(st.integers(0, total)),
        min_unit=draw(st.sampled_from([1, 1, 2, 5])),
        max_unit=draw(st.sampled_from([MAX_INT, 20, 7])),
        step_size=draw(st.sampled_from([1, 1, 2, 3])),
        allocation_ratio=draw(RANDOM_ALLOCATION_RATIOS),
    )
    return inventory, draw(st.integers(0, 60))


def allocate_vcpus(database, by_uuid):
    """Allocate VCPU of providers without a check of capacity."""

    def insert_allocations(connection):
        (class_id,) = resource_classes.map_ids(connection, ["VCPU"]).values()
        providers = resource_providers.map_by_uuid(connection, by_uuid)
        rows = [
            {
                "resource_provider_id": providers[uuid].id,
                "resource_class_id": class_id,
                "consumer_id": str(uuid4()),
                "used": used,
                "created_at": NOW,
            }
            for uuid, used in by_uuid.items()
            if used
        ]
        if rows:
            connection.execute(allocations.insert(), rows)

    database.write(insert_allocations)


def find_providers_with_capacity(database, amount):
    """Return the uuids of the providers that have remaining capacity for ``amount``."""
    with database.read() as connection:
        query = ProviderQuery(resources={"VCPU": amount})
        return {provider.uuid for provider in provider_search.search(connection, query)}


@settings(
    max_examples=scale_example_count(12),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.lists(draw_inventory_with_usage(), min_size=1, max_size=30),
    st.lists(st.integers(1, 120), max_size=5),
)
def test_sql_search_finds_the_providers_with_capacity_by_the_python_rule(database, drawn, amounts):
    uuids = make_providers(database, [[inventory] for inventory, _ in drawn])
    allocate_vcpus(database, {uuid: used for uuid, (_, used) in zip(uuids, drawn, strict=True)})
    for amount in amounts:
        expected = {
            uuid
            for uuid, (inventory, used) in zip(uuids, drawn, strict=True)
            if matches_units(inventory, amount) and can_change_usage(inventory, used, 0, amount)
        }
        assert find_providers_with_capacity(database, amount) & set(uuids) == expected


@pytest.mark.parametrize(
    ("total", "ratio"), [(10, 1.9), (10, 16.1), (10, 0.7), (10, 4.3), (MAX_INT, 1.0)]
)
def test_provider_is_found_up_to_exactly_its_capacity(database, total, ratio):
    inventory = Inventory(resource_class="VCPU", total=total, allocation_ratio=ratio)
    uuids = set(make_providers(database, [[inventory]]))
    assert find_providers_with_capacity(database, inventory.capacity) == uuids
    assert find_providers_with_capacity(database, inventory.capacity + 1) == set()
