# SPDX-License-Identifier: Apache-2.0
"""openstacksdk's placement proxy against a running server."""

from uuid import uuid4

import pytest
from openstack import exceptions

from tests.openstack_client.conftest import connect_sdk
from tests.support.servers import Server
from tests.support.versions import LATEST

# The client warns of its own deprecations.
pytestmark = [pytest.mark.system, pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")]


@pytest.fixture(scope="module")
def placement(server_for_unique_names: Server):
    options = {"placement_api_version": "1", "placement_default_microversion": LATEST}
    with connect_sdk(server_for_unique_names, **options) as connection:
        yield connection.placement


@pytest.fixture
def provider(placement, unique_name):
    return placement.create_resource_provider(name=unique_name)


def test_resource_classes_can_be_created_listed_shown_ensured_and_deleted(placement, unique_name):
    resource_class = f"CUSTOM_{unique_name.upper()}"
    created = placement.create_resource_class(name=resource_class)
    assert created.name == resource_class
    assert {"VCPU", resource_class} <= {each.name for each in placement.resource_classes()}
    assert placement.get_resource_class(resource_class).name == resource_class
    placement.delete_resource_class(resource_class)
    with pytest.raises(exceptions.NotFoundException):
        placement.get_resource_class(resource_class)
    placement.delete_resource_class(resource_class, ignore_missing=True)


def test_provider_can_be_created_found_listed_renamed_and_deleted(placement, provider, unique_name):
    assert (provider.name, provider.generation) == (unique_name, 0)
    child = placement.create_resource_provider(
        name=f"{unique_name}_child", parent_provider_id=provider.id
    )
    assert (child.parent_provider_id, child.root_provider_id) == (provider.id, provider.id)
    assert placement.get_resource_provider(child.id).name == f"{unique_name}_child"
    assert placement.find_resource_provider(unique_name).id == provider.id
    listed = {each.id for each in placement.resource_providers(in_tree=child.id)}
    assert listed == {provider.id, child.id}
    renamed = placement.update_resource_provider(child, name=f"{unique_name}_renamed")
    assert renamed.name == f"{unique_name}_renamed"
    with pytest.raises(exceptions.ConflictException):
        placement.delete_resource_provider(provider)
    placement.delete_resource_provider(child)
    placement.delete_resource_provider(provider)
    assert placement.find_resource_provider(unique_name) is None


def test_aggregates_of_a_provider_can_be_set_and_fetched(placement, provider):
    groups = [str(uuid4()), str(uuid4())]
    changed = placement.set_resource_provider_aggregates(provider, *groups)
    assert sorted(changed.aggregates) == sorted(groups)
    fetched = placement.get_resource_provider(provider.id).fetch_aggregates(placement)
    assert sorted(fetched.aggregates) == sorted(groups)
    (found,) = placement.resource_providers(member_of=groups[0])
    assert found.id == provider.id


def test_inventories_can_be_created_shown_listed_changed_and_deleted(placement, provider):
    created = placement.create_resource_provider_inventory(provider, "VCPU", total=8, max_unit=4)
    assert (created.resource_class, created.total, created.max_unit) == ("VCPU", 8, 4)
    shown = placement.get_resource_provider_inventory("VCPU", provider)
    assert (shown.total, shown.reserved, shown.allocation_ratio) == (8, 0, 1.0)
    changed = placement.update_resource_provider_inventory(
        "VCPU", provider, total=16, resource_provider_generation=1
    )
    assert changed.total == 16
    placement.create_resource_provider_inventory(provider, "MEMORY_MB", total=1024)
    listed = placement.resource_provider_inventories(provider)
    assert {each.resource_class: each.total for each in listed} == {"VCPU": 16, "MEMORY_MB": 1024}
    with pytest.raises(exceptions.ConflictException):
        placement.update_resource_provider_inventory(
            "VCPU", provider, total=1, resource_provider_generation=0
        )
    placement.delete_resource_provider_inventory("VCPU", provider)
    placement.delete_resource_provider_inventories(provider)
    assert list(placement.resource_provider_inventories(provider)) == []


def test_traits_can_be_created_listed_shown_and_deleted(placement, unique_name):
    trait = f"CUSTOM_{unique_name.upper()}"
    placement.create_trait(trait)
    assert placement.get_trait(trait).id == trait
    listed = placement.traits(name=f"in:{trait},HW_CPU_X86_AVX2")
    assert {each.name for each in listed} == {trait, "HW_CPU_X86_AVX2"}
    placement.delete_trait(trait)
    with pytest.raises(exceptions.NotFoundException):
        placement.get_trait(trait)


def test_traits_of_a_provider_can_be_set_shown_and_deleted(placement, provider):
    carried = placement.get_resource_provider_trait(provider)
    assert carried.traits == []
    traits = ["HW_CPU_X86_AVX2"]
    changed = placement.set_resource_provider_trait(carried, traits=traits)
    assert changed.traits == traits
    assert placement.get_resource_provider_trait(provider).traits == traits
    placement.delete_resource_provider_trait(provider)
    assert placement.get_resource_provider_trait(provider).traits == []


def test_allocation_candidate_can_be_claimed_shown_counted_and_freed(
    placement, provider, unique_name
):
    placement.create_resource_provider_inventory(provider, "VCPU", total=8)
    (candidate,) = placement.allocation_candidates(resources="VCPU:2", in_tree=provider.id)
    assert candidate.allocations == {provider.id: {"resources": {"VCPU": 2}}}
    assert candidate.mappings == {"": [provider.id]}
    assert candidate.provider_summaries[provider.id]["resources"]["VCPU"]["capacity"] == 8
    consumer, project = str(uuid4()), uuid4().hex
    claim = {
        "allocations": candidate.allocations,
        "project_id": project,
        "user_id": "user",
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
    }
    placement.update_allocation(consumer, **claim)
    held = placement.get_allocation(consumer)
    assert held.allocations[provider.id]["resources"] == {"VCPU": 2}
    assert (held.project_id, held.consumer_generation) == (project, 1)
    assert held.consumer_type == "INSTANCE"
    (allocation,) = placement.resource_provider_allocations(provider)
    assert (allocation.consumer_id, allocation.resources) == (consumer, {"VCPU": 2})
    (usage,) = placement.usages(project)
    assert (usage.consumer_type, usage.consumer_count) == ("INSTANCE", 1)
    assert usage.resources == {"VCPU": 2}
    moved = str(uuid4())
    placement.create_allocations(
        {
            consumer: {**claim, "allocations": {}, "consumer_generation": 1},
            moved: {**claim, "consumer_type": "MIGRATION"},
        }
    )
    assert placement.get_allocation(moved).consumer_type == "MIGRATION"
    placement.delete_allocation(moved)
    with pytest.raises(exceptions.NotFoundException):
        placement.delete_allocation(moved, ignore_missing=False)
    assert not any(usage.resources for usage in placement.usages(project))
