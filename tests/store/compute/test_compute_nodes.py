# SPDX-License-Identifier: Apache-2.0
"""The store of compute nodes: reports, versions, unique names and searches."""

from dataclasses import replace
from datetime import timedelta

import pytest

from placement_sched.db.transaction import Database
from placement_sched.errors import Duplicate, NotFound
from placement_sched.store import change_counters
from placement_sched.store.compute import compute_nodes
from tests.store.reported_nodes import HALF_MINUTE_LATER, build_reported_node
from tests.support.concurrency import run_before_each_statement
from tests.support.reports import NOW, node_uuid
from tests.support.statements import record_statements

pytestmark = pytest.mark.all_databases


def write_nodes(database, *nodes, now=NOW):
    return database.write(lambda connection: compute_nodes.write(connection, nodes, now))


def read_nodes(database, *uuids):
    with database.read() as connection:
        nodes = {node.uuid: node for node in compute_nodes.list_by_uuids(connection, uuids)}
    return [nodes[uuid] for uuid in uuids]


def test_first_report_of_a_compute_node_creates_it(database):
    numa = {"cells": [{"id": 0, "cpuset": [0, 1], "memory": 1024}]}
    reported = build_reported_node(
        cpu_info={"arch": "x86_64"},
        stats={"num_instances": 2},
        supported_hv_specs=[["x86_64", "kvm", "hvm"]],
        numa_topology=numa,
        free_disk_gb=None,
    )
    written = write_nodes(database, reported)
    assert (written.created, written.changed) == ({node_uuid(1)}, frozenset())
    (stored,) = read_nodes(database, node_uuid(1))
    assert stored == replace(reported, version=stored.version, created_at=NOW, updated_at=NOW)


def test_unchanged_node_report_updates_the_heartbeat_only(database):
    write_nodes(database, build_reported_node())
    (before,) = read_nodes(database, node_uuid(1))
    written = write_nodes(
        database, build_reported_node(now=HALF_MINUTE_LATER), now=HALF_MINUTE_LATER
    )
    assert (written.created, written.changed) == (frozenset(), frozenset())
    assert read_nodes(database, node_uuid(1)) == [replace(before, last_seen_up=HALF_MINUTE_LATER)]


@pytest.mark.parametrize(
    "change",
    [
        {"vcpus": 9},
        {"host": "other"},
        {"hypervisor_hostname": "other"},
        {"cell_uuid": node_uuid(7)},
        {"stats": {"io_workload": 1}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_changed_node_report_increments_the_version_of_the_node(database, change):
    write_nodes(database, build_reported_node())
    (before,) = read_nodes(database, node_uuid(1))
    written = write_nodes(
        database, build_reported_node(now=HALF_MINUTE_LATER, **change), now=HALF_MINUTE_LATER
    )
    assert written.changed == {node_uuid(1)}
    assert written.previous_hosts == ({node_uuid(1): "cn1"} if "host" in change else {})
    (after,) = read_nodes(database, node_uuid(1))
    assert after.version == before.version + 1
    assert (after.created_at, after.updated_at, after.last_seen_up) == (
        NOW,
        HALF_MINUTE_LATER,
        HALF_MINUTE_LATER,
    )
    assert replace(after, version=0, created_at=None, updated_at=None) == build_reported_node(
        now=HALF_MINUTE_LATER, **change
    )


@pytest.mark.parametrize("number", [2, 3], ids=["renamed", "new"])
def test_report_with_the_name_of_another_node_is_rejected(database, number):
    write_nodes(database, build_reported_node(1), build_reported_node(2))
    rival = build_reported_node(number, host="cn1", hypervisor_hostname="cn1")
    with pytest.raises(Duplicate) as failure:
        write_nodes(database, build_reported_node(4), rival)
    assert failure.value.code == "scheduler.duplicate"
    assert node_uuid(1) in failure.value.detail
    assert node_uuid(number) in failure.value.detail
    with database.read() as connection:
        assert [node.host for node in compute_nodes.search(connection)] == ["cn1", "cn2"]


def test_host_and_node_names_are_case_sensitive(database):
    write_nodes(
        database,
        build_reported_node(1),
        build_reported_node(2, host="CN1", hypervisor_hostname="cn1"),
        build_reported_node(3, host="cn1", hypervisor_hostname="cn1-b"),
    )
    with database.read() as connection:
        assert len(compute_nodes.search(connection, host="cn1")) == 2
        assert len(compute_nodes.search(connection, host="CN1")) == 1
        page = compute_nodes.search(connection, after=node_uuid(1), limit=1)
        assert [node.uuid for node in page] == [node_uuid(2)]
        last = {"hypervisor_hostname": "cn1-b", "after": node_uuid(3)}
        assert compute_nodes.search(connection, **last) == ()


def test_node_recreated_after_deletion_has_a_new_version(database):
    write_nodes(database, build_reported_node(1))
    (before,) = read_nodes(database, node_uuid(1))
    database.write(lambda connection: compute_nodes.remove_many(connection, [before.uuid]))
    with pytest.raises(NotFound, match=node_uuid(1)) as failure, database.read() as connection:
        compute_nodes.get_by_uuid(connection, node_uuid(1))
    assert failure.value.code == "scheduler.not_found"
    write_nodes(database, build_reported_node(1, vcpus=16))
    (after,) = read_nodes(database, node_uuid(1))
    assert after.version != before.version


@pytest.mark.parametrize("database_url", ["postgresql", "mysql"], indirect=True)
def test_deletion_of_a_node_that_has_just_moved_changes_the_version_of_its_new_host(
    database, settings
):
    part, versions = change_counters.compute_host_part("cn2"), []

    def read_version():
        with database.read() as connection:
            return change_counters.map_host_versions(connection)[part]

    def move_node():
        write_nodes(concurrent_writer, build_reported_node(host="cn2"))
        versions.append(read_version())

    def delete_node():
        write_nodes(concurrent_writer, build_reported_node(host="cn1"))
        database.write(lambda connection: compute_nodes.remove_many(connection, [node_uuid(1)]))

    with Database(settings) as concurrent_writer:
        for _ in run_before_each_statement(database, delete_node, move_node):
            with database.read() as connection:
                is_deleted = not compute_nodes.list_by_uuids(connection, [node_uuid(1)])
            assert not is_deleted or read_version() > versions[-1]
    assert len(versions) > 1


def test_versions_of_existing_compute_nodes_are_returned(database):
    write_nodes(
        database,
        build_reported_node(1),
        build_reported_node(2, last_seen_up="2025-01-01T00:00:00Z"),
    )
    nodes = read_nodes(database, node_uuid(1), node_uuid(2))
    with database.read() as connection:
        versions = compute_nodes.map_versions(connection, [node_uuid(n) for n in (1, 2, 3)])
    assert versions == {node.uuid: (node.version, node.last_seen_up) for node in nodes}


@pytest.mark.parametrize("moments", [1, 7], ids=["one heartbeat", "several heartbeats"])
def test_heartbeat_statement_count_is_independent_of_nodes(database, moments):
    def build_reported_nodes(size, now):
        return [
            build_reported_node(number, now=now + timedelta(seconds=number % moments))
            for number in range(size)
        ]

    counts = {}
    write_nodes(database, *build_reported_nodes(600, NOW))
    for size in (20, 600):
        with record_statements(database) as seen:
            write_nodes(
                database, *build_reported_nodes(size, HALF_MINUTE_LATER + timedelta(hours=size))
            )
        counts[size] = len(seen)
    assert counts[20] == counts[600]
    assert {node.last_seen_up for node in read_nodes(database, node_uuid(0))} == {
        HALF_MINUTE_LATER + timedelta(hours=600)
    }
