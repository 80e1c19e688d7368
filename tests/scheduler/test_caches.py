# SPDX-License-Identifier: Apache-2.0
"""The cache of compute nodes: parsed once, never stale, bounded."""

from datetime import timedelta

import pytest

from placement_sched.scheduler.caches import NodeCache
from placement_sched.schemas.node_report import Defaults, parse
from placement_sched.store.compute import compute_nodes
from tests.support.reports import NOW, a_report, node_uuid
from tests.support.statements import counted

pytestmark = pytest.mark.all_databases

LATER = NOW + timedelta(seconds=30)


def write(database, *documents, now=NOW):
    nodes = [parse(document, Defaults(now=now)).node for document in documents]
    database.write(lambda connection: compute_nodes.write(connection, nodes, now))


def get(database, cache, *numbers):
    with database.read() as connection:
        return cache.get(connection, [node_uuid(number) for number in numbers])


def statements(database, cache, *numbers):
    with counted(database) as seen:
        get(database, cache, *numbers)
    return len(seen)


def test_nodes_come_in_the_order_asked_without_those_that_are_not_there(database):
    write(database, a_report(1), a_report(2), a_report(3))
    found = get(database, NodeCache(), 3, 9, 1, 3)
    assert [node.host for node in found] == ["cn3", "cn1"]


def test_second_look_reads_the_change_counters_only(database):
    write(database, a_report(1), a_report(2))
    cache = NodeCache()
    assert statements(database, cache, 1, 2) == 2
    assert statements(database, cache, 1, 2) == 1
    (first,) = get(database, cache, 1)
    (second,) = get(database, cache, 1)
    assert first is second


def test_changed_report_is_seen_at_once(database):
    write(database, a_report(1), a_report(2))
    cache = NodeCache()
    get(database, cache, 1, 2)
    write(database, a_report(1, vcpus=64))
    # The change counters, the versions of the nodes of its part, its report.
    assert statements(database, cache, 1, 2) == 3
    assert [node.vcpus for node in get(database, cache, 1, 2)] == [64, 8]


def test_heartbeat_is_seen_without_parsing_again(database):
    write(database, a_report(1))
    cache = NodeCache()
    get(database, cache, 1)
    write(database, a_report(1), now=LATER)
    assert statements(database, cache, 1) == 2
    assert get(database, cache, 1)[0].last_seen_up == LATER
    assert statements(database, cache, 1) == 1


def test_node_that_was_deleted_and_came_back_is_seen_as_it_is(database):
    write(database, a_report(1))
    cache = NodeCache()
    (before,) = get(database, cache, 1)
    database.write(lambda connection: compute_nodes.remove(connection, before))
    assert get(database, cache, 1) == []
    write(database, a_report(1, memory_mb=1024))
    assert get(database, cache, 1)[0].memory_mb == 1024


def test_cache_forgets_what_was_unused_longest(sqlite_database):
    write(sqlite_database, *(a_report(number) for number in range(1, 5)))
    cache = NodeCache(limit=3)
    get(sqlite_database, cache, 1, 2, 3)
    get(sqlite_database, cache, 1)
    get(sqlite_database, cache, 4)
    assert len(cache) == 3
    assert statements(sqlite_database, cache, 1, 3, 4) == 1
    assert statements(sqlite_database, cache, 2) == 2


def test_more_nodes_than_the_cache_holds_are_all_returned(sqlite_database):
    write(sqlite_database, *(a_report(number) for number in range(1, 5)))
    cache = NodeCache(limit=2)
    assert len(get(sqlite_database, cache, 1, 2, 3, 4)) == 4
    assert len(cache) == 2


def test_numa_nodes_of_a_report_are_read_once_for_all_requests(database):
    cells = {"cells": [{"id": 0, "cpuset": [0], "memory": 1024}]}
    write(database, a_report(1, numa_topology=cells))
    cache = NodeCache()
    (first,) = get(database, cache, 1)
    write(database, a_report(1, numa_topology=cells), now=LATER)
    (beating,) = get(database, cache, 1)
    assert beating.last_seen_up == LATER
    assert beating.numa_topology.topology.cells is first.numa_topology.topology.cells
    write(database, a_report(1, numa_topology=cells, vcpus=64))
    (changed,) = get(database, cache, 1)
    assert changed.numa_topology.topology.cells == first.numa_topology.topology.cells
    assert changed.numa_topology.topology is not first.numa_topology.topology


def test_metrics_of_a_report_are_made_once_for_all_requests(sqlite_database):
    metric = {"name": "cpu.percent", "value": 7}
    write(sqlite_database, a_report(1, metrics=[metric]))
    cache = NodeCache()
    (first,), (again,) = (get(sqlite_database, cache, 1) for _ in range(2))
    assert [one.value for one in first.reported_metrics] == [7]
    assert again.reported_metrics is first.reported_metrics
