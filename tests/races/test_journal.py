# SPDX-License-Identifier: Apache-2.0
"""The journal of a race tells a write that used too much from those that did not."""

from collections.abc import Callable

import pytest
from sqlalchemy import text

from placement_sched.store.placement import resource_providers
from tests.races.journal import Excess, journal, replay
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
    """Give a function that does in one transaction what is said, without asking for room."""

    def write(used: int | None = None, total: int | None = None, *, raised: bool = True) -> None:
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

        def work(connection) -> None:
            for statement in statements:
                connection.execute(text(statement))

        database.write(work)

    return write


def test_full_provider_may_shrink_and_be_given_back(database, provider, write):
    with journal(database):
        write(used=40)
        write(total=24)
        write(used=30)  # still more than there is, but less than before
        write(used=0, raised=False)
        write(used=24)
        assert replay(database, {provider.id: 40}) == ({provider.id: 24}, [])


def test_shrunk_provider_may_not_be_given_more_of(database, provider, write):
    with journal(database):
        write(used=30)
        write(total=24)
        write(used=31)
        first = provider.generation
        excess = Excess(provider.id, first + 3, 31, 24)
        assert replay(database, {provider.id: 40}) == ({provider.id: 31}, [excess])


def test_one_unit_too_many_is_told(database, provider, write):
    with journal(database):
        write(used=41)
        assert len(replay(database, {provider.id: 40})[1]) == 1


def test_what_was_rolled_back_was_not(database, provider, write):
    def work(connection) -> None:
        connection.execute(text("UPDATE resource_providers SET generation = 99"))
        raise RuntimeError

    with journal(database):
        write(used=1)
        with pytest.raises(RuntimeError):
            database.write(work)
        assert replay(database, {provider.id: 40}) == ({provider.id: 1}, [])
