# SPDX-License-Identifier: Apache-2.0
"""The scheduler's memory of host aggregates is right, whoever changes them."""

import pytest

from placement_sched.db.transaction import Database
from placement_sched.operations import aggregates
from placement_sched.scheduler.caches import AggregateCache
from tests.support.hosts import NOW, add_node
from tests.support.statements import counted

pytestmark = pytest.mark.all_databases


@pytest.fixture
def other_process(settings):
    """Another process's way to the database."""
    database = Database(settings)
    yield database
    database.dispose()


def create(database, name, zone=None):
    return database.write(
        lambda connection: aggregates.create(connection, f"uuid of {name}", name, zone, NOW)
    ).id


def read(database, cache):
    with database.read() as connection:
        return cache.current(connection).every


def test_every_kind_of_change_by_another_process_is_seen(database, other_process):
    cache = AggregateCache()
    add_node(database, "h1")
    assert read(database, cache) == ()
    number = create(other_process, "a")
    assert [each.name for each in read(database, cache)] == ["a"]
    changes = (
        (aggregates.set_metadata, {"ssd": "true"}),
        (aggregates.update, {"name": "b"}),
        (aggregates.add_hosts, ["h1"]),
        (aggregates.remove_host, "h1"),
    )
    for change, what in changes:
        before = read(database, cache)
        other_process.write(
            lambda connection, change=change, what=what: change(connection, number, what, NOW)
        )
        assert read(database, cache) != before
    other_process.write(lambda connection: aggregates.delete(connection, number))
    assert read(database, cache) == ()


def test_unchanged_aggregates_cost_one_statement(database):
    create(database, "a")
    cache = AggregateCache()
    with counted(database) as first:
        read(database, cache)
    with counted(database) as second:
        read(database, cache)
    assert (len(first), len(second)) == (2, 1)


def test_refused_change_loads_nothing_again(database):
    create(database, "a")
    cache = AggregateCache()
    before = read(database, cache)
    with pytest.raises(Exception, match="already exists"):
        create(database, "a")
    assert read(database, cache) is before


def test_aggregates_are_found_by_host(database):
    add_node(database, "h1")
    one, two = create(database, "one", "z"), create(database, "two")

    def work(connection):
        aggregates.add_hosts(connection, one, ["h1"], NOW)
        aggregates.add_hosts(connection, two, ["h1"], NOW)
        aggregates.set_metadata(connection, two, {"trait:CUSTOM_X": "required"}, NOW)
        aggregates.set_metadata(connection, one, {"Trait:CUSTOM_X": "required"}, NOW)

    database.write(work)
    with database.read() as connection:
        current = AggregateCache().current(connection)
    assert [each.id for each in current.of_host("h1")] == [one, two]
    assert current.of_host("H1") == ()
