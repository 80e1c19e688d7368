# SPDX-License-Identifier: Apache-2.0
"""A claim that goes to the next candidate if the first no longer has capacity."""

from uuid import uuid4

import pytest

from placement_sched.errors import CapacityExceeded, Invalid
from placement_sched.model.provider import ConsumerClaim
from placement_sched.store.placement import allocations, consumers, resource_providers
from tests.store.placement.claims import (
    build_claim,
    list_stored_consumers,
    read_allocations,
    read_provider_generation,
    replace_allocations,
)
from tests.support.providers import NOW, make_provider, make_providers
from tests.support.statements import record_statements

pytestmark = pytest.mark.all_databases


def build_vcpu_claim(consumer_uuid: str, *amounts: tuple[str, int]) -> ConsumerClaim:
    """Return a new consumer's claim of VCPU by provider."""
    resources = {provider: {"VCPU": amount} for provider, amount in amounts}
    return build_claim(consumer_uuid, None, on=resources)


def write_first_fitting_claim(database, *claims) -> int:
    """Write the first claim that fits, and return its index."""
    first, *others = claims
    return database.write(
        lambda connection: allocations.replace_by_first(connection, first, others, NOW)
    )


@pytest.fixture
def full_provider(database) -> str:
    """The provider with the lowest id, whose 4 VCPU are all used."""
    provider = make_provider(database, VCPU=4)
    replace_allocations(database, build_vcpu_claim(str(uuid4()), (provider, 4)))
    return provider


@pytest.fixture
def consumer_uuid() -> str:
    return str(uuid4())


def test_first_claim_that_fits_is_written(database, full_provider, consumer_uuid):
    """Other candidates may have become full, lack the class, or be deleted."""
    small, disk = make_provider(database, VCPU=1), make_provider(database, DISK_GB=10)
    free, last = make_provider(database, VCPU=4), make_provider(database, VCPU=4)
    before = {
        uuid: read_provider_generation(database, uuid) for uuid in (full_provider, free, last)
    }
    uuids = [full_provider, small, disk, str(uuid4()), free, last]
    claims = [build_vcpu_claim(consumer_uuid, (uuid, 2)) for uuid in uuids]
    assert write_first_fitting_claim(database, *claims) == 4
    assert read_allocations(database, consumer_uuid) == {(consumer_uuid, free, "VCPU"): 2}
    after = {uuid: read_provider_generation(database, uuid) for uuid in before}
    assert after == {**before, free: before[free] + 1}
    again = [
        build_claim(consumer_uuid, 1, on={uuid: {"VCPU": 2}}) for uuid in (last, full_provider)
    ]
    assert write_first_fitting_claim(database, *again) == 0
    assert read_allocations(database, consumer_uuid) == {(consumer_uuid, last, "VCPU"): 2}


def test_no_claim_is_written_if_no_provider_has_capacity(database, full_provider, consumer_uuid):
    small = make_provider(database, VCPU=1)
    claims = [build_vcpu_claim(consumer_uuid, (uuid, 2)) for uuid in (full_provider, small)]
    with pytest.raises(CapacityExceeded, match=full_provider):
        write_first_fitting_claim(database, *claims)
    claims = [build_vcpu_claim(consumer_uuid, (uuid, 2)) for uuid in (str(uuid4()), small)]
    with pytest.raises(Invalid, match="does not exist"):
        write_first_fitting_claim(database, *claims)
    assert read_allocations(database, consumer_uuid) == {}
    assert consumer_uuid not in list_stored_consumers(database)


def test_full_provider_with_a_lower_id_is_also_locked(database, consumer_uuid):
    free, full = make_provider(database, VCPU=4), make_provider(database, VCPU=1)
    claims = [build_vcpu_claim(consumer_uuid, (uuid, 2)) for uuid in (full, full, free)]
    assert write_first_fitting_claim(database, *claims) == 2
    assert read_allocations(database, consumer_uuid) == {(consumer_uuid, free, "VCPU"): 2}


@pytest.mark.parametrize("database_url", ["postgresql", "mysql"], indirect=True)
def test_locked_provider_with_a_lower_id_is_skipped(database, consumer_uuid):
    """A wait for it could be a deadlock. SQLite has a single writer at a time."""
    taken, full = make_provider(database, VCPU=4), make_provider(database, VCPU=1)
    free = make_provider(database, VCPU=4)
    with database.writer.begin() as other:
        (number,) = consumers.map_ids(other, {consumers.PROVIDER: [taken]}).values()
        assert resource_providers.lock(other, [number])
        claims = [build_vcpu_claim(consumer_uuid, (uuid, 2)) for uuid in (full, taken, free)]
        assert write_first_fitting_claim(database, *claims) == 2
    assert read_allocations(database, consumer_uuid) == {(consumer_uuid, free, "VCPU"): 2}


def test_locked_provider_can_be_used_by_the_next_claim(database, full_provider, consumer_uuid):
    """Several hosts may share a provider, such as a disk."""
    shared = make_provider(database, VCPU=4)
    free = make_provider(database, VCPU=4)
    first, other = (
        build_vcpu_claim(consumer_uuid, (full_provider, 2), (shared, 1)),
        build_vcpu_claim(consumer_uuid, (shared, 1), (free, 2)),
    )
    assert write_first_fitting_claim(database, first, other) == 1
    assert read_allocations(database, consumer_uuid) == {
        (consumer_uuid, shared, "VCPU"): 1,
        (consumer_uuid, free, "VCPU"): 2,
    }


def test_allocations_of_the_consumer_count_as_free_capacity(database, full_provider, consumer_uuid):
    own = make_provider(database, VCPU=4)
    replace_allocations(database, build_vcpu_claim(consumer_uuid, (own, 3)))
    claims = [
        build_claim(consumer_uuid, 1, on={uuid: {"VCPU": 4}}) for uuid in (full_provider, own)
    ]
    assert write_first_fitting_claim(database, *claims) == 1
    assert read_allocations(database, consumer_uuid) == {(consumer_uuid, own, "VCPU"): 4}


def test_statement_count_of_a_claim_is_independent_of_skipped_hosts(database, full_provider):
    smalls = make_providers(database, [[] for _ in range(15)])
    free = make_provider(database, VCPU=100)
    counts = []
    for others in ([], smalls[:1], smalls):
        new = str(uuid4())
        claims = [build_vcpu_claim(new, (uuid, 2)) for uuid in (full_provider, *others, free)]
        with record_statements(database) as seen:
            write_first_fitting_claim(database, *claims)
        counts.append(len(seen))
    assert len(set(counts[1:] if database.url.get_backend_name() == "mysql" else counts)) == 1
