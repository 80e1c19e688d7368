# SPDX-License-Identifier: Apache-2.0
"""The store of traits: exact names, and bulk changes of providers."""

import pytest

from placement_sched.errors import InUse, NotFound
from placement_sched.store.placement import resource_providers, traits
from tests.support.providers import NOW, make_providers

pytestmark = pytest.mark.all_databases

GOLD = "CUSTOM_GOLD"


@pytest.fixture
def provider_ids(database):
    """Create two providers, and return their ids."""
    uuids = make_providers(database, [[], []])
    with database.read() as connection:
        found = resource_providers.by_uuids(connection, uuids)
    return [found[uuid].id for uuid in uuids]


def trait_names(database, provider_id):
    with database.read() as connection:
        return {trait.name for trait in traits.of_provider(connection, provider_id)}


def provider_generations(database, ids):
    return list(
        database.write(lambda connection: resource_providers.lock(connection, ids)).values()
    )


def test_trait_is_added_and_removed_once(database, provider_ids):
    assert database.write(lambda c: traits.put_on(c, GOLD, [provider_ids[0]], NOW)) == {
        provider_ids[0]
    }
    assert database.write(lambda c: traits.put_on(c, GOLD, provider_ids, NOW)) == {provider_ids[1]}
    assert (
        trait_names(database, provider_ids[0]) == trait_names(database, provider_ids[1]) == {GOLD}
    )
    assert database.write(lambda c: traits.take_off(c, GOLD, provider_ids, NOW)) == set(
        provider_ids
    )
    assert database.write(lambda c: traits.take_off(c, GOLD, provider_ids, NOW)) == frozenset()
    assert provider_generations(database, provider_ids) == [2, 2]


def test_unknown_trait_has_no_providers(database, provider_ids):
    changed = database.write(lambda c: traits.take_off(c, "CUSTOM_LEAD", provider_ids, NOW))
    assert changed == frozenset()


def test_trait_names_are_matched_exactly(database):
    with database.read() as connection:
        assert traits.ids_by_name(connection, ["hw_cpu_x86_avx", "NOPE"]).keys() <= {
            "HW_CPU_X86_AVX"
        }
        assert set(traits.ids_by_name(connection, ["HW_CPU_X86_AVX"])) == {"HW_CPU_X86_AVX"}
        with pytest.raises(NotFound):
            traits.by_name(connection, "hw_cpu_x86_avx")


def test_prefix_wildcards_are_escaped(database):
    with database.read() as connection:
        assert traits.search(connection, prefix="HW%") == ()
        assert traits.search(connection, prefix="HW_CPU_X86_AVX512F%") == ()
        found = {trait.name for trait in traits.search(connection, prefix="HW_CPU_X86_AVX512F")}
    assert found == {"HW_CPU_X86_AVX512F"}


def test_trait_in_use_is_not_deleted(database, provider_ids):
    database.write(lambda c: traits.put_on(c, GOLD, provider_ids, NOW))
    with pytest.raises(InUse, match=GOLD):
        database.write(lambda c: traits.remove(c, traits.by_name(c, GOLD)))
    database.write(lambda c: traits.take_off(c, GOLD, provider_ids, NOW))
    database.write(lambda c: traits.remove(c, traits.by_name(c, GOLD)))
    with database.read() as connection, pytest.raises(NotFound):
        traits.by_name(connection, GOLD)
