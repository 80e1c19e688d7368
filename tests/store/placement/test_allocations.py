# SPDX-License-Identifier: Apache-2.0
"""The write of allocations by claims: its results, rejections and statements."""

from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from placement_sched.db.transaction import Connection, Database
from placement_sched.errors import CapacityExceeded, Invalid
from placement_sched.model.provider import Inventory, can_change_usage, matches_units
from placement_sched.store.placement import allocations, inventories, resource_providers
from tests.exploring import scale_example_count
from tests.store.placement.claims import (
    build_claim,
    build_vcpu_claim,
    list_stored_consumers,
    read_allocations,
    read_provider_generation,
    replace_allocations,
)
from tests.support.providers import NOW, make_provider, make_providers
from tests.support.statements import record_statements

pytestmark = pytest.mark.all_databases


def set_inventory(database: Database, provider: str, *stock: Inventory) -> None:
    """Replace the inventories of a provider."""

    def write_rows(connection: Connection) -> None:
        row = resource_providers.get_by_uuid(connection, provider)
        inventories.put(connection, {row.id: stock}, NOW)

    database.write(write_rows)


def test_replaced_allocations_are_exactly_those_of_the_claims(database):
    here, there = make_provider(database, VCPU=8, DISK_GB=10), make_provider(database, VCPU=8)
    first, second = build_claim(on={here: {"VCPU": 2, "DISK_GB": 3}}), build_vcpu_claim(there, 4)
    replace_allocations(database, first, second)
    replace_allocations(database, build_vcpu_claim(there, 1, first.consumer))
    assert read_allocations(database, first.consumer, second.consumer) == {
        (first.consumer, there, "VCPU"): 1,
        (second.consumer, there, "VCPU"): 4,
    }


def test_moved_allocations_increment_the_generation_of_the_new_provider_only(database):
    old, new = make_provider(database, VCPU=8), make_provider(database, VCPU=8)
    moving = build_vcpu_claim(old, 1)
    replace_allocations(database, moving)
    replace_allocations(database, build_vcpu_claim(new, 1, moving.consumer))
    assert (read_provider_generation(database, old), read_provider_generation(database, new)) == (
        1,
        1,
    )
    replace_allocations(database, build_claim(moving.consumer))
    assert (read_provider_generation(database, old), read_provider_generation(database, new)) == (
        1,
        2,
    )


def test_removal_of_allocations_keeps_provider_generations(database):
    provider = make_provider(database, VCPU=8)
    first, second = (build_vcpu_claim(provider, amount) for amount in (1, 2))
    replace_allocations(database, first, second)
    uuids = [first.consumer, str(uuid4())]
    assert database.write(lambda connection: allocations.remove(connection, uuids)) == 1
    assert database.write(lambda connection: allocations.remove(connection, uuids)) == 0
    assert list_stored_consumers(database) == {second.consumer}
    assert read_provider_generation(database, provider) == 1


@pytest.mark.parametrize(
    ("amounts", "error", "words"),
    [
        ({"VGPU": 1}, CapacityExceeded, "Inventory for 'VGPU'"),
        (
            {"VCPU": 9},
            CapacityExceeded,
            "'VCPU' on .* would exceed the capacity of 8, .*: 10 requested",
        ),
        (
            {"MEMORY_MB": 32},
            CapacityExceeded,
            "violate inventory constraints: 32 requested, min_unit 64",
        ),
        ({"MEMORY_MB": 576}, CapacityExceeded, "max_unit 512"),
        ({"MEMORY_MB": 65}, CapacityExceeded, "step_size 64"),
        ({"VCPU": 1, "CUSTOM_NONE": 1}, Invalid, "No such resource class CUSTOM_NONE"),
    ],
    ids=["no inventory", "capacity", "min_unit", "max_unit", "step_size", "unknown class"],
)
def test_claim_exceeding_capacity_is_rejected_entirely(sqlite_database, amounts, error, words):
    memory = Inventory(
        resource_class="MEMORY_MB", total=1024, min_unit=64, max_unit=512, step_size=64
    )
    provider = make_provider(sqlite_database, memory, VCPU=8)
    good = build_vcpu_claim(provider, 1)
    with pytest.raises(error, match=words):
        replace_allocations(sqlite_database, good, build_claim(on={provider: amounts}))
    assert read_allocations(sqlite_database, good.consumer) == {}
    assert list_stored_consumers(sqlite_database) == set()
    assert read_provider_generation(sqlite_database, provider) == 0


def test_claims_in_one_write_are_checked_against_their_sum_and_released_amounts(database):
    provider = make_provider(database, VCPU=8)
    with pytest.raises(CapacityExceeded, match="10 requested"):
        replace_allocations(database, build_vcpu_claim(provider, 5), build_vcpu_claim(provider, 5))
    first = build_vcpu_claim(provider, 8)
    replace_allocations(database, first)
    # In the same write, a claim can use the amounts that another claim frees.
    second = build_vcpu_claim(provider, 8)
    replace_allocations(database, build_claim(first.consumer, 1), second)
    assert read_allocations(database, first.consumer, second.consumer) == {
        (second.consumer, provider, "VCPU"): 8
    }


def test_consumer_on_an_overcommitted_provider_may_reduce_but_not_raise_its_claim(database):
    provider = make_provider(database, VCPU=8)
    first, second = (build_vcpu_claim(provider, 4) for _ in range(2))
    replace_allocations(database, first, second)
    set_inventory(database, provider, Inventory(resource_class="VCPU", total=4))
    replace_allocations(database, build_vcpu_claim(provider, 4, first.consumer))
    replace_allocations(database, build_vcpu_claim(provider, 3, first.consumer))
    with pytest.raises(CapacityExceeded):
        replace_allocations(database, build_vcpu_claim(provider, 4, first.consumer))
    with pytest.raises(CapacityExceeded):
        replace_allocations(database, build_vcpu_claim(provider, 1))
    assert sorted(read_allocations(database, first.consumer, second.consumer).values()) == [3, 4]


@pytest.mark.parametrize("has_consumers", [False, True], ids=["new", "existing"])
def test_statement_count_of_claims_is_independent_of_allocations(database, has_consumers):
    counts = []
    for size in (1, 20):
        stocks = [[Inventory(resource_class=name, total=99) for name in ("VCPU", "DISK_GB")]]
        providers = make_providers(database, stocks * size)
        claims = [
            build_claim(
                owner={"project_id": f"project-{size}-{number}", "user_id": f"user-{number}"},
                consumer_type=f"TYPE_{size}_{number}",
                on={provider: {"VCPU": 1, "DISK_GB": 2} for provider in providers},
            )
            for number in range(size)
        ]
        if has_consumers:
            replace_allocations(database, *claims)
        with record_statements(database) as seen:
            replace_allocations(database, *claims)
        counts.append(len(seen))
    assert counts[0] == counts[1]


random_inventories = st.builds(
    Inventory,
    resource_class=st.just("VCPU"),
    total=st.integers(1, 40),
    reserved=st.just(0) | st.integers(0, 1),
    min_unit=st.integers(1, 3),
    max_unit=st.integers(3, 40),
    step_size=st.integers(1, 4),
    allocation_ratio=st.sampled_from([0.3, 0.7, 1.0, 1.1, 1.9, 2.5, 16.0]),
)
random_claim_amounts = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40)), max_size=6)


@given(
    first=random_inventories,
    then=random_inventories,
    before=random_claim_amounts,
    after=random_claim_amounts,
)
@settings(
    max_examples=scale_example_count(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_random_claims_are_written_if_the_capacity_suffices(database, first, then, before, after):
    """Compare writes of three consumers and a change of the inventory with a model in Python."""
    provider = make_provider(database, first)
    consumers = [str(uuid4()) for _ in range(3)]
    model: dict[int, int] = {}
    for inventory, attempts in ((first, before), (then, after)):
        set_inventory(database, provider, inventory)
        for index, amount in attempts:
            others = sum(used for holder, used in model.items() if holder != index)
            allowed = amount == 0 or (
                matches_units(inventory, amount)
                and can_change_usage(inventory, others, model.get(index, 0), amount)
            )
            on = {provider: {"VCPU": amount}} if amount else {}
            try:
                replace_allocations(database, build_claim(consumers[index], on=on))
            except CapacityExceeded:
                assert not allowed
            else:
                assert allowed
                model[index] = amount
    assert sum(read_allocations(database, *consumers).values()) == sum(model.values())
