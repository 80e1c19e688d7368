# SPDX-License-Identifier: Apache-2.0
"""Caches of compute nodes, services and host aggregates."""

import sqlite3
from contextlib import closing, contextmanager
from datetime import timedelta
from functools import partial

import pytest

from placement_sched.db.failover import EPOCH_KEY
from placement_sched.model.flavor import Flavor
from placement_sched.operations import aggregates, flavors_images
from placement_sched.scheduler.caches import (
    AggregateCache,
    HostCache,
    NodeHistory,
    ProcessCaches,
    load_nodes,
    load_services,
)
from placement_sched.scheduler.host_state import NO_SERVICE
from placement_sched.schemas.node_report import Defaults, parse
from placement_sched.store import change_counters
from placement_sched.store.compute import compute_nodes, services
from tests.support.hosts import add_node
from tests.support.reports import NOW, build_report, node_uuid
from tests.support.statements import record_statements

pytestmark = pytest.mark.all_databases

NEXT_HEARTBEAT_TIME = NOW + timedelta(seconds=30)


def write_host_reports(database, *documents, now=NOW):
    nodes = [parse(document, Defaults(now=now)).node for document in documents]
    database.write(lambda connection: compute_nodes.write(connection, nodes, now))


def read_compute_nodes(database, cache, *numbers):
    with database.read() as connection:
        uuids = [node_uuid(number) for number in numbers]
        nodes = cache.get(connection, uuids, change_counters.map_host_versions(connection))
        return [nodes[uuid] for uuid in uuids if uuid in nodes]


def count_statements(database, cache, *numbers):
    with record_statements(database) as seen:
        read_compute_nodes(database, cache, *numbers)
    return len(seen)


def test_node_cache_returns_only_existing_nodes(database):
    write_host_reports(database, build_report(1), build_report(2), build_report(3))
    nodes = read_compute_nodes(database, HostCache(load_nodes), 3, 9, 1)
    assert [node.host for node in nodes] == ["cn3", "cn1"]


def test_node_cache_reads_only_changed_nodes_again(database):
    write_host_reports(database, build_report(1), build_report(2))
    cache = HostCache(load_nodes)
    assert count_statements(database, cache, 1, 2) == 2
    assert count_statements(database, cache, 1, 2) == 1
    (first,) = read_compute_nodes(database, cache, 1)
    assert read_compute_nodes(database, cache, 1)[0] is first
    write_host_reports(database, build_report(1, vcpus=64))
    # Statements: change counters, versions of the nodes in the changed part, and the report.
    assert count_statements(database, cache, 1, 2) == 3
    assert [node.vcpus for node in read_compute_nodes(database, cache, 1, 2)] == [64, 8]
    # A heartbeat needs no report.
    write_host_reports(database, build_report(1, vcpus=64), now=NEXT_HEARTBEAT_TIME)
    assert count_statements(database, cache, 1) == 2
    assert read_compute_nodes(database, cache, 1)[0].last_seen_up == NEXT_HEARTBEAT_TIME
    assert count_statements(database, cache, 1) == 1


def test_cached_node_is_current_after_its_deletion_and_recreation(database):
    write_host_reports(database, build_report(1))
    cache = HostCache(load_nodes)
    (before,) = read_compute_nodes(database, cache, 1)
    database.write(lambda connection: compute_nodes.remove_many(connection, [before.uuid]))
    assert read_compute_nodes(database, cache, 1) == []
    write_host_reports(database, build_report(1, memory_mb=1024))
    assert read_compute_nodes(database, cache, 1)[0].memory_mb == 1024


def test_number_of_cached_nodes_is_limited(sqlite_database):
    write_host_reports(sqlite_database, *(build_report(number) for number in range(1, 5)))
    cache = HostCache(load_nodes, limit=3)
    assert len(read_compute_nodes(sqlite_database, cache, 1, 2, 3)) == 3
    assert count_statements(sqlite_database, cache, 1, 2, 3) == 1
    assert len(read_compute_nodes(sqlite_database, cache, 4)) == 1
    assert len(cache) <= 3
    assert len(read_compute_nodes(sqlite_database, cache, 1, 2, 3)) == 3
    assert len(cache) <= 3


def test_numa_nodes_of_a_report_are_parsed_once(sqlite_database):
    cells = {"cells": [{"id": 0, "cpuset": [0], "memory": 1024}]}
    write_host_reports(sqlite_database, build_report(1, numa_topology=cells))
    cache = HostCache(load_nodes)
    (first,) = read_compute_nodes(sqlite_database, cache, 1)
    write_host_reports(
        sqlite_database, build_report(1, numa_topology=cells), now=NEXT_HEARTBEAT_TIME
    )
    (beating,) = read_compute_nodes(sqlite_database, cache, 1)
    assert beating.last_seen_up == NEXT_HEARTBEAT_TIME
    assert beating.numa_topology.topology.cells is first.numa_topology.topology.cells
    write_host_reports(sqlite_database, build_report(1, numa_topology=cells, vcpus=64))
    (changed,) = read_compute_nodes(sqlite_database, cache, 1)
    assert changed.numa_topology.topology.cells == first.numa_topology.topology.cells
    assert changed.numa_topology.topology is not first.numa_topology.topology


def test_metrics_of_a_report_are_parsed_once(sqlite_database):
    metric = {"name": "cpu.percent", "value": 7}
    write_host_reports(sqlite_database, build_report(1, metrics=[metric]))
    cache = HostCache(load_nodes)
    (first,), (again,) = (read_compute_nodes(sqlite_database, cache, 1) for _ in range(2))
    assert [reported_metric.value for reported_metric in first.reported_metrics] == [7]
    assert again.reported_metrics is first.reported_metrics


def read_compute_services(database, cache, *hosts):
    with database.read() as connection:
        return cache.get(connection, hosts, change_counters.map_host_versions(connection))


def record_heartbeats(database, *hosts, at=NOW):
    database.write(
        lambda connection: services.record_heartbeats(connection, dict.fromkeys(hosts, at), at)
    )


def test_cached_services_have_changes_by_another_process(database, database_of_another_process):
    cache = HostCache(load_services)
    assert read_compute_services(database, cache, "cn1") == {"cn1": NO_SERVICE}
    record_heartbeats(database_of_another_process, "cn1", "cn2")
    services_by_host = read_compute_services(database, cache, "cn1", "cn2")
    assert services_by_host["cn1"]["last_seen_up"] == NOW
    number = services_by_host["cn1"]["id"]
    record_heartbeats(database_of_another_process, "cn1", at=NEXT_HEARTBEAT_TIME)
    assert (
        read_compute_services(database, cache, "cn1")["cn1"]["last_seen_up"] == NEXT_HEARTBEAT_TIME
    )
    database_of_another_process.write(
        lambda connection: services.set_disabled(connection, [number], disabled=True, reason="fan")
    )
    services_by_host = read_compute_services(database, cache, "cn1", "cn2")
    assert services_by_host["cn1"]["disabled_reason"] == "fan"
    assert services_by_host["cn2"]["disabled"] is False
    database_of_another_process.write(lambda connection: services.remove(connection, [number]))
    assert read_compute_services(database, cache, "cn1") == {"cn1": NO_SERVICE}


def create_aggregate(database, name, zone=None):
    return database.write(
        lambda connection: aggregates.create(connection, f"uuid of {name}", name, zone, NOW)
    ).id


def read_host_aggregates(database, cache):
    with database.read() as connection:
        return cache.get_current(connection).all


def test_cached_aggregates_have_every_change_by_another_process(
    database, database_of_another_process
):
    cache = AggregateCache()
    add_node(database, "h1")
    assert read_host_aggregates(database, cache) == ()
    number = create_aggregate(database_of_another_process, "a")
    assert [entry.name for entry in read_host_aggregates(database, cache)] == ["a"]
    changes = (
        (aggregates.set_metadata, {"ssd": "true"}),
        (aggregates.update, {"name": "b"}),
        (aggregates.add_hosts, ["h1"]),
        (aggregates.remove_host, "h1"),
    )
    for change, what in changes:
        before = read_host_aggregates(database, cache)
        database_of_another_process.write(
            lambda connection, change=change, what=what: change(connection, number, what, NOW)
        )
        assert read_host_aggregates(database, cache) != before
    database_of_another_process.write(lambda connection: aggregates.delete(connection, number))
    assert read_host_aggregates(database, cache) == ()


def test_reading_unchanged_aggregates_takes_one_sql_statement(database):
    create_aggregate(database, "a")
    cache = AggregateCache()
    with record_statements(database) as first:
        before = read_host_aggregates(database, cache)
    with pytest.raises(Exception, match="already exists"):
        create_aggregate(database, "a")
    with record_statements(database) as second:
        assert read_host_aggregates(database, cache) is before
    assert (len(first), len(second)) == (2, 1)


def test_cached_aggregates_are_found_by_host(sqlite_database):
    add_node(sqlite_database, "h1")
    first = create_aggregate(sqlite_database, "one", "z")
    second = create_aggregate(sqlite_database, "two")

    def write_rows(connection):
        aggregates.add_hosts(connection, first, ["h1"], NOW)
        aggregates.add_hosts(connection, second, ["h1"], NOW)
        aggregates.set_metadata(connection, second, {"trait:CUSTOM_X": "required"}, NOW)
        aggregates.set_metadata(connection, first, {"Trait:CUSTOM_X": "required"}, NOW)

    sqlite_database.write(write_rows)
    with sqlite_database.read() as connection:
        current = AggregateCache().get_current(connection)
    assert [entry.id for entry in current.list_for_host("h1")] == [first, second]
    assert current.list_for_host("H1") == ()


def test_cached_flavors_are_read_again_after_a_change(database):
    cache = ProcessCaches().flavors

    def read_names_and_count_statements():
        with record_statements(database) as seen, database.read() as connection:
            names = [flavor.name for flavor in cache.get_current(connection)]
        return names, len(seen)

    assert read_names_and_count_statements() == ([], 2)
    assert read_names_and_count_statements() == ([], 1)
    flavor = Flavor(name="m1", flavorid="m1")
    database.write(lambda connection: flavors_images.create_flavor(connection, flavor, NOW))
    assert read_names_and_count_statements() == (["m1"], 2)


class DatabaseWithStandby:
    """A database with a standby that lags and can take over."""

    def __init__(self, database, folder):
        self.database = database
        self.epoch = "first"
        self._path, self._standby = database.url.database, str(folder / "standby.db")

    @contextmanager
    def read(self):
        with self.database.read() as connection:
            connection.info[EPOCH_KEY] = self.epoch
            yield connection

    def stop_replication(self):
        self._copy_database(self._path, self._standby)

    def promote_standby(self, *, is_known=True):
        """Let the standby take over. Processes detect that if ``is_known``."""
        self.database.dispose()
        self._copy_database(self._standby, self._path)
        self.epoch = "second" if is_known else self.epoch

    @staticmethod
    def _copy_database(source, target):
        with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
            old.backup(new)


@pytest.fixture
def database_with_standby(sqlite_database, tmp_path):
    return DatabaseWithStandby(sqlite_database, tmp_path)


def make_aggregates_reader(cache):
    return lambda connection: [entry.name for entry in cache.get_current(connection).all]


def make_compute_nodes_reader(cache):
    def read_vcpus(connection):
        nodes = cache.get(connection, [node_uuid(1)], change_counters.map_host_versions(connection))
        return [node.vcpus for node in nodes.values()]

    return read_vcpus


def make_aggregate_writer(name):
    def create_aggregate_named(database):
        database.write(
            lambda connection: aggregates.create(connection, f"{name} uuid", name, None, NOW)
        )

    return create_aggregate_named


def make_report_writer(number, vcpus):
    return lambda database: write_host_reports(database, build_report(number, vcpus=vcpus))


#: A cache of each class.
CACHE_FAILOVER_CASES = {
    "host aggregates": (
        AggregateCache,
        make_aggregates_reader,
        make_aggregate_writer("lost"),
        make_aggregate_writer("new"),
    ),
    "compute nodes": (
        partial(HostCache, load_nodes),
        make_compute_nodes_reader,
        make_report_writer(1, 5),
        make_report_writer(1, 6),
    ),
}


@pytest.mark.parametrize("kind", CACHE_FAILOVER_CASES.values(), ids=CACHE_FAILOVER_CASES)
def test_cache_drops_rows_that_a_database_failover_lost(database_with_standby, kind):
    make, make_reader, write_lost, write_other = kind
    write_host_reports(database_with_standby.database, build_report(1, vcpus=4))
    database_with_standby.stop_replication()
    cache, other_cache = make(), make()
    with database_with_standby.read() as connection:
        before = make_reader(cache)(connection)
        make_reader(other_cache)(connection)
    write_lost(database_with_standby.database)
    with database_with_standby.read() as connection:
        lost = make_reader(cache)(connection)
        assert lost != before
        assert make_reader(other_cache)(connection) == lost
    database_with_standby.promote_standby(is_known=False)
    write_other(database_with_standby.database)
    with database_with_standby.read() as connection:
        # Both epochs have the same versions.
        assert make_reader(other_cache)(connection) == lost
        database_with_standby.epoch = connection.info[EPOCH_KEY] = "second"
        assert make_reader(cache)(connection) == make_reader(make())(connection) != lost
        # A read that began before the failover and ends after it does not restore old
        # values.
        connection.info[EPOCH_KEY] = "first"
        make_reader(cache)(connection)
        connection.info[EPOCH_KEY] = "second"
        assert make_reader(cache)(connection) == make_reader(make())(connection)


def test_node_history_is_dropped_after_a_database_failover(database_with_standby):
    write_host_reports(database_with_standby.database, build_report(1, vcpus=4))
    history_cache = NodeHistory(HostCache(load_nodes))

    def read_vcpus():
        with database_with_standby.read() as connection:
            history_cache.refresh(NOW, 3600, database_with_standby.epoch)
            return make_compute_nodes_reader(history_cache)(connection)

    database_with_standby.stop_replication()
    write_host_reports(database_with_standby.database, build_report(1, vcpus=5))
    assert read_vcpus() == [5]
    history_cache.record_placements([(node_uuid(1), object())])
    database_with_standby.promote_standby(is_known=False)
    assert read_vcpus() == [5]
    database_with_standby.epoch = "second"
    assert read_vcpus() == [4]
    assert not history_cache.list_placed_requests(node_uuid(1))
