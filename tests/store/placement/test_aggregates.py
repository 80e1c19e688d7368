# SPDX-License-Identifier: Apache-2.0
"""Placement aggregates: made when first named, their members' generations kept true."""

from datetime import timedelta
from uuid import uuid4

import pytest

from placement_sched.store.placement import aggregates, resource_providers
from tests.support.providers import NOW, make_providers
from tests.support.statements import record_statements

pytestmark = pytest.mark.all_databases

LATER = NOW + timedelta(hours=1)


@pytest.fixture
def ids(database):
    """The ids of three providers."""
    uuids = make_providers(database, [[], [], []])
    with database.read() as connection:
        found = resource_providers.by_uuids(connection, uuids)
    return [found[uuid].id for uuid in uuids]


def generations(database, ids):
    return list(
        database.write(lambda connection: resource_providers.lock(connection, ids)).values()
    )


def members(database, ids, aggregate):
    with database.read() as connection:
        return [aggregate in aggregates.of_provider(connection, number) for number in ids]


def test_members_join_and_leave_once(database, ids):
    rack = str(uuid4())
    first = [ids[0]]
    assert database.write(lambda c: aggregates.add_members(c, rack, first, NOW)) == {ids[0]}
    both = ids[:2]
    assert database.write(lambda c: aggregates.add_members(c, rack, both, LATER)) == {ids[1]}
    assert members(database, ids, rack) == [True, True, False]
    assert generations(database, ids) == [1, 1, 0]
    gone = database.write(lambda c: aggregates.remove_members(c, rack, ids[1:], LATER))
    assert gone == {ids[1]}
    assert members(database, ids, rack) == [True, False, False]
    assert generations(database, ids) == [1, 2, 0]


def test_nobody_joins_or_leaves_nothing(database, ids):
    rack = str(uuid4())
    assert database.write(lambda c: aggregates.add_members(c, rack, [], NOW)) == frozenset()
    assert database.write(lambda c: aggregates.remove_members(c, rack, ids, NOW)) == frozenset()
    assert generations(database, ids) == [0, 0, 0]


def test_who_is_gone_does_not_join(database, ids):
    rack = str(uuid4())
    joined = database.write(lambda c: aggregates.add_members(c, rack, [ids[0], 2**31 - 1], NOW))
    assert joined == {ids[0]}


def test_a_providers_aggregates_are_replaced(database, ids):
    one, two, three = (str(uuid4()) for _ in range(3))
    changes = [
        database.write(lambda c, uuids=uuids: aggregates.replace(c, ids[0], uuids, NOW))
        for uuids in ([one, two], [two, three], [three, two], [])
    ]
    assert changes == [True, True, False, True]
    assert members(database, ids, two) == [False, False, False]


def test_many_members_take_as_many_statements_as_one(database):
    def statements(count):
        uuids = make_providers(database, [[]] * count)
        with database.read() as connection:
            found = resource_providers.by_uuids(connection, uuids)
        numbers = [provider.id for provider in found.values()]
        rack = str(uuid4())
        with record_statements(database) as seen:
            database.write(lambda c: aggregates.add_members(c, rack, numbers, NOW))
            database.write(lambda c: aggregates.remove_members(c, rack, numbers, NOW))
        return len(seen)

    assert statements(1) == statements(150)
