# SPDX-License-Identifier: Apache-2.0
"""The journal of a race reports writes that exceed capacity, and no others."""

from collections.abc import Callable

import pytest
from sqlalchemy import text

from placement_sched.store.placement import resource_providers
from tests.races.journal import Excess, journal_writes, replay_journal
from tests.support.providers import make_provider

pytestmark = pytest.mark.system

Write = Callable[..., None]


@pytest.fixture
def provider(database):
    uuid = make_provider(database, VCPU=40)
    with database.read() as connection:
        return resource_providers.by_uuid(connection, uuid)


@pytest.fixture
def write(database, provider) -> Write:
    """Give a function that writes these values in a transaction, without a check of capacity."""

    def write_values(
        used: int | None = None, total: int | None = None, *, raised: bool = True
    ) -> None:
        statements = []
        if used is not None:
            statements.append("DELETE FROM allocations")
        if used:
            statements.append(
                "INSERT INTO allocations (resource_provider_id, consumer_id, resource_class_id, "
                f"used) VALUES ({provider.id}, 'consumer', 0, {used})"
            )
        if total is not None:
            statements.append(f"UPDATE inventories SET total = {total}")
        if raised:
            statements.append("UPDATE resource_providers SET generation = generation + 1")

        def execute_all(connection) -> None:
            for statement in statements:
                connection.execute(text(statement))

        database.write(execute_all)

    return write_values


def test_full_provider_can_shrink_and_release(database, provider, write):
    with journal_writes(database):
        write(used=40)
        write(total=24)
        write(used=30)  # above the total, but below the usage before
        write(used=0, raised=False)
        write(used=24)
        assert replay_journal(database, {provider.id: 40}) == ({provider.id: 24}, [])


def test_allocation_on_a_shrunk_provider_is_an_excess(database, provider, write):
    with journal_writes(database):
        write(used=30)
        write(total=24)
        write(used=31)
        first = provider.generation
        excess = Excess(provider.id, first + 3, 31, 24)
        assert replay_journal(database, {provider.id: 40}) == ({provider.id: 31}, [excess])


def test_one_unit_over_capacity_is_reported(database, provider, write):
    with journal_writes(database):
        write(used=41)
        assert len(replay_journal(database, {provider.id: 40})[1]) == 1


def test_rolled_back_write_is_ignored(database, provider, write):
    def increase_generation_and_fail(connection) -> None:
        connection.execute(text("UPDATE resource_providers SET generation = 99"))
        raise RuntimeError

    with journal_writes(database):
        write(used=1)
        with pytest.raises(RuntimeError):
            database.write(increase_generation_and_fail)
        assert replay_journal(database, {provider.id: 40}) == ({provider.id: 1}, [])
