# SPDX-License-Identifier: Apache-2.0
"""Caches after a failover of the database that lost writes."""

import sqlite3
from contextlib import closing, contextmanager
from functools import partial

import pytest

from placement_sched.db.failover import HISTORY
from placement_sched.operations import aggregates
from placement_sched.scheduler.caches import AggregateCache, HostCache, NodeHistory, load_nodes
from placement_sched.store.compute import host_changes
from tests.scheduler.test_caches import write_report
from tests.support.reports import NOW, build_report, node_uuid


class Failover:
    """A database with a standby that lags and can take over."""

    def __init__(self, database, folder):
        self.database = database
        self.history = "first"
        self._path, self._standby = database.url.database, str(folder / "standby.db")

    @contextmanager
    def read(self):
        with self.database.read() as connection:
            connection.info[HISTORY] = self.history
            yield connection

    def stop_replication(self):
        self._copy(self._path, self._standby)

    def promote_standby(self, *, is_known=True):
        """Let the standby take over. Processes detect that if ``is_known``."""
        self.database.dispose()
        self._copy(self._standby, self._path)
        self.history = "second" if is_known else self.history

    @staticmethod
    def _copy(source, target):
        with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
            old.backup(new)


@pytest.fixture
def servers(sqlite_database, tmp_path):
    return Failover(sqlite_database, tmp_path)


def _read_aggregates(cache):
    return lambda connection: [entry.name for entry in cache.current(connection).every]


def _read_nodes(cache):
    def read(connection):
        nodes = cache.get(connection, [node_uuid(1)], host_changes.versions(connection))
        return [node.vcpus for node in nodes.values()]

    return read


def _create_aggregate(name):
    def create(database):
        database.write(
            lambda connection: aggregates.create(connection, f"{name} uuid", name, None, NOW)
        )

    return create


def _write_report(number, vcpus):
    return lambda database: write_report(database, build_report(number, vcpus=vcpus))


#: A cache of each class.
CACHES = {
    "host aggregates": (
        AggregateCache,
        _read_aggregates,
        _create_aggregate("lost"),
        _create_aggregate("new"),
    ),
    "compute nodes": (
        partial(HostCache, load_nodes),
        _read_nodes,
        _write_report(1, 5),
        _write_report(1, 6),
    ),
}


@pytest.mark.parametrize("kind", CACHES.values(), ids=CACHES)
def test_cache_drops_a_lost_write(servers, kind):
    make, make_reader, write_lost, write_other = kind
    write_report(servers.database, build_report(1, vcpus=4))
    servers.stop_replication()
    cache, other_cache = make(), make()
    with servers.read() as connection:
        before = make_reader(cache)(connection)
        make_reader(other_cache)(connection)
    write_lost(servers.database)
    with servers.read() as connection:
        lost = make_reader(cache)(connection)
        assert lost != before
        assert make_reader(other_cache)(connection) == lost
    servers.promote_standby(is_known=False)
    write_other(servers.database)
    with servers.read() as connection:
        # Both histories have the same versions.
        assert make_reader(other_cache)(connection) == lost
        servers.history = connection.info[HISTORY] = "second"
        assert make_reader(cache)(connection) == make_reader(make())(connection) != lost
        # A read that began before the failover and ends after it does not restore old
        # values.
        connection.info[HISTORY] = "first"
        make_reader(cache)(connection)
        connection.info[HISTORY] = "second"
        assert make_reader(cache)(connection) == make_reader(make())(connection)


def test_node_history_is_dropped_at_once(servers):
    write_report(servers.database, build_report(1, vcpus=4))
    history_cache = NodeHistory(HostCache(load_nodes))

    def read_vcpus():
        with servers.read() as connection:
            history_cache.refresh(NOW, 3600, servers.history)
            return _read_nodes(history_cache)(connection)

    servers.stop_replication()
    write_report(servers.database, build_report(1, vcpus=5))
    assert read_vcpus() == [5]
    history_cache.note([(node_uuid(1), object())])
    servers.promote_standby(is_known=False)
    assert read_vcpus() == [5]
    servers.history = "second"
    assert read_vcpus() == [4]
    assert not history_cache.placed_on(node_uuid(1))
