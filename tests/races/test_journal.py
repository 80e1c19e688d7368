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


def test_only_writes_above_the_total_are_excesses(database, provider, write):
    def increase_generation_and_fail(connection) -> None:
        connection.execute(text("UPDATE resource_providers SET generation = 99"))
        raise RuntimeError

    first = provider.generation
    with journal_writes(database):
        write(used=40)
        write(total=24)
        write(used=30)  # above the total, but below the usage before
        write(used=31)
        write(used=0, raised=False)
        write(used=24)
        with pytest.raises(RuntimeError):
            database.write(increase_generation_and_fail)
        excess = Excess(provider.id, first + 4, 31, 24)
        assert replay_journal(database, {provider.id: 40}) == ({provider.id: 24}, [excess])
