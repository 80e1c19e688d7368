# SPDX-License-Identifier: Apache-2.0
"""A claim that goes to the next best where others took what it asks for."""

from uuid import uuid4

import pytest

from placement_sched.errors import CapacityExceeded, Invalid
from placement_sched.model.provider import ConsumerClaim
from placement_sched.store.placement import allocations, consumers, resource_providers
from tests.store.placement.test_allocations import claim, consumers_kept, generation_of, held
from tests.store.placement.test_allocations import replace as replaced
from tests.support.providers import NOW, make_provider, make_providers
from tests.support.statements import record_statements

pytestmark = pytest.mark.all_databases


def on(consumer: str, *amounts: tuple[str, int]) -> ConsumerClaim:
    """A new consumer's claim of VCPU, by provider."""
    asked = {provider: {"VCPU": amount} for provider, amount in amounts}
    return claim(consumer, None, on=asked)


def placed(database, *claims) -> int:
    """Let the first claim be written that there is room for; return its number."""
    first, *others = claims
    return database.write(
        lambda connection: allocations.replace_by_first(connection, first, others, NOW)
    )


@pytest.fixture
def full(database) -> str:
    """The provider with the lowest id, of whose 4 VCPU all are used."""
    provider = make_provider(database, VCPU=4)
    replaced(database, on(str(uuid4()), (provider, 4)))
    return provider


@pytest.fixture
def consumer() -> str:
    return str(uuid4())


def test_what_there_is_room_for_is_written_and_nothing_else(database, full, consumer):
    free = make_provider(database, VCPU=4)
    assert placed(database, on(consumer, (free, 2)), on(consumer, (full, 2))) == 0
    assert held(database, consumer) == {(consumer, free, "VCPU"): 2}


def test_first_with_room_is_taken_where_others_took_what_was_asked(database, full, consumer):
    small, free = make_provider(database, VCPU=1), make_provider(database, VCPU=4)
    last = make_provider(database, VCPU=4)
    claims = [on(consumer, (uuid, 2)) for uuid in (full, small, free, last)]
    assert placed(database, *claims) == 2
    assert held(database, consumer) == {(consumer, free, "VCPU"): 2}


def test_only_the_generation_of_the_provider_that_is_taken_rises(database, full, consumer):
    free, last = make_provider(database, VCPU=4), make_provider(database, VCPU=4)
    before = {uuid: generation_of(database, uuid) for uuid in (full, free, last)}
    placed(database, *(on(consumer, (uuid, 2)) for uuid in before))
    after = {uuid: generation_of(database, uuid) for uuid in before}
    assert after == {**before, free: before[free] + 1}


def test_nothing_is_written_where_none_has_room(database, full, consumer):
    small = make_provider(database, VCPU=1)
    with pytest.raises(CapacityExceeded, match=full):
        placed(database, on(consumer, (full, 2)), on(consumer, (small, 2)))
    assert held(database, consumer) == {}
    assert consumer not in consumers_kept(database)


def test_provider_that_is_gone_is_passed_over(database, full, consumer):
    free = make_provider(database, VCPU=4)
    claims = [on(consumer, (uuid, 2)) for uuid in (full, str(uuid4()), free)]
    assert placed(database, *claims) == 2


def test_first_choice_that_is_gone_is_an_error(database, full, consumer):
    with pytest.raises(Invalid, match="does not exist"):
        placed(database, on(consumer, (str(uuid4()), 2)), on(consumer, (full, 2)))


def test_class_that_a_provider_has_not_is_no_room(database, full, consumer):
    disk, free = make_provider(database, DISK_GB=10), make_provider(database, VCPU=4)
    claims = [on(consumer, (uuid, 2)) for uuid in (full, disk, free)]
    assert placed(database, *claims) == 2


def test_provider_with_a_lower_id_is_locked_as_well(database, consumer):
    free, full = make_provider(database, VCPU=4), make_provider(database, VCPU=1)
    assert placed(database, *(on(consumer, (uuid, 2)) for uuid in (full, full, free))) == 2
    assert held(database, consumer) == {(consumer, free, "VCPU"): 2}


@pytest.mark.parametrize("database_url", ["postgresql", "mysql"], indirect=True)
def test_provider_with_a_lower_id_that_another_has_locked_is_passed_over(database, consumer):
    """To wait for it could be a deadlock. SQLite has one writer at a time."""
    taken, full = make_provider(database, VCPU=4), make_provider(database, VCPU=1)
    free = make_provider(database, VCPU=4)
    with database.writer.begin() as other:
        (number,) = consumers.ids_of(other, {consumers.PROVIDER: [taken]}).values()
        assert resource_providers.lock(other, [number])
        assert placed(database, *(on(consumer, (uuid, 2)) for uuid in (full, taken, free))) == 2
    assert held(database, consumer) == {(consumer, free, "VCPU"): 2}


def test_provider_that_is_locked_already_may_be_part_of_the_next_best(database, full, consumer):
    """As a disk that several hosts share."""
    shared = make_provider(database, VCPU=4)
    free = make_provider(database, VCPU=4)
    first, other = on(consumer, (full, 2), (shared, 1)), on(consumer, (shared, 1), (free, 2))
    assert placed(database, first, other) == 1
    assert held(database, consumer) == {(consumer, shared, "VCPU"): 1, (consumer, free, "VCPU"): 2}


def test_what_a_consumer_holds_itself_counts_as_room(database, full, consumer):
    own = make_provider(database, VCPU=4)
    replaced(database, on(consumer, (own, 3)))
    claims = [claim(consumer, 1, on={uuid: {"VCPU": 4}}) for uuid in (full, own)]
    assert placed(database, *claims) == 1
    assert held(database, consumer) == {(consumer, own, "VCPU"): 4}


def test_statements_do_not_follow_the_number_of_hosts_passed_over(database, full):
    smalls = make_providers(database, [[] for _ in range(15)])
    free = make_provider(database, VCPU=100)
    counts = []
    for others in ([], smalls[:1], smalls):
        new = str(uuid4())
        claims = [on(new, (uuid, 2)) for uuid in (full, *others, free)]
        with record_statements(database) as seen:
            placed(database, *claims)
        counts.append(len(seen))
    assert len(set(counts[1:] if database.url.get_backend_name() == "mysql" else counts)) == 1
