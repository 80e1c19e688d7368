# SPDX-License-Identifier: Apache-2.0
"""What a process remembers of hosts is of one history of the database, and says nothing of another.

A server that takes over lacks what was written last; the next writer gives the same version to
something else.
"""

import sqlite3
from contextlib import closing, contextmanager

import pytest

from placement_sched.db.failover import HISTORY
from placement_sched.operations import aggregates
from placement_sched.scheduler.caches import AggregateCache, NodeCache, NodeHistory, ServiceCache
from placement_sched.store.compute import host_changes, services
from placement_sched.store.compute.compute_nodes import NodeNames
from tests.scheduler.test_caches import write
from tests.scheduler.test_caches_services import beat
from tests.support.reports import NOW, a_report, node_uuid

HOST = "cn1"


class Failover:
    """A database whose standby lags, and may take over."""

    def __init__(self, database, folder):
        self.database = database
        self.history = "first"
        self._path, self._standby = database.url.database, str(folder / "standby.db")

    @contextmanager
    def read(self):
        with self.database.read() as connection:
            connection.info[HISTORY] = self.history
            yield connection

    def lag(self):
        """Let the standby receive nothing from now on."""
        self._copy(self._path, self._standby)

    def take_over(self, *, told=True):
        """Let the standby take over; processes learn of that where they are ``told``."""
        self.database.dispose()
        self._copy(self._standby, self._path)
        self.history = "second" if told else self.history

    @staticmethod
    def _copy(source, target):
        with closing(sqlite3.connect(source)) as one, closing(sqlite3.connect(target)) as other:
            one.backup(other)


@pytest.fixture
def servers(sqlite_database, tmp_path):
    return Failover(sqlite_database, tmp_path)


def _aggregates(remembered):
    return lambda connection: [one.name for one in remembered.current(connection).every]


def _names(remembered):
    return lambda connection: sorted(remembered.current(connection).values())


def _nodes(remembered):
    return lambda connection: [one.vcpus for one in remembered.get(connection, [node_uuid(1)])]


def _services(remembered):
    def read(connection):
        (found,) = remembered.get(connection, [HOST], host_changes.versions(connection)).values()
        return found["disabled"], found["forced_down"]

    return read


def _create(name):
    def create(database):
        database.write(
            lambda connection: aggregates.create(connection, f"{name} uuid", name, None, NOW)
        )

    return create


def _report(number, vcpus):
    return lambda database: write(database, a_report(number, vcpus=vcpus))


def _disable(host):
    def work(connection):
        (one,) = services.by_hosts(connection, [host]).values()
        services.set_disabled(connection, [one.id], disabled=True, reason="")

    return lambda database: database.write(work)


def _force_down(database):
    def work(connection):
        (one,) = services.by_hosts(connection, [HOST]).values()
        services.set_forced_down(connection, [one.id], forced_down=True)

    database.write(work)


FAMILIES = {
    "host aggregates": (AggregateCache, _aggregates, _create("lost"), _create("new")),
    "names of nodes": (NodeNames, _names, _report(2, 4), _report(3, 4)),
    "compute nodes": (NodeCache, _nodes, _report(1, 5), _report(1, 6)),
    "services": (ServiceCache, _services, _disable(HOST), _force_down),
}


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_what_was_read_of_a_lost_write_is_forgotten(servers, family):
    make, reading, lose, write_anew = family
    beat(servers.database, HOST)
    write(servers.database, a_report(1, vcpus=4))
    servers.lag()
    remembered, unaware = make(), make()
    with servers.read() as connection:
        before = reading(remembered)(connection)
        reading(unaware)(connection)
    lose(servers.database)
    with servers.read() as connection:
        lost = reading(remembered)(connection)
        assert lost != before
        assert reading(unaware)(connection) == lost
    servers.take_over(told=False)
    write_anew(servers.database)
    with servers.read() as connection:
        # That the versions are the same is what this is about.
        assert reading(unaware)(connection) == lost
        servers.history = connection.info[HISTORY] = "second"
        assert reading(remembered)(connection) == reading(make())(connection) != lost
        # One that began before, and ends now, does not bring back what it read.
        connection.info[HISTORY] = "first"
        reading(remembered)(connection)
        connection.info[HISTORY] = "second"
        assert reading(remembered)(connection) == reading(make())(connection)


def test_nodes_that_are_kept_for_a_while_are_dropped_at_once(servers):
    write(servers.database, a_report(1, vcpus=4))
    kept = NodeHistory(NodeCache())

    def seen():
        with servers.read() as connection:
            kept.refresh(NOW, 3600, servers.history)
            return [one.vcpus for one in kept.get(connection, [node_uuid(1)])]

    servers.lag()
    write(servers.database, a_report(1, vcpus=5))
    assert seen() == [5]
    kept.note([(node_uuid(1), object())])
    servers.take_over(told=False)
    assert seen() == [5]
    servers.history = "second"
    assert seen() == [4]
    assert not kept.placed_on(node_uuid(1))
