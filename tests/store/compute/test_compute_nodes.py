# SPDX-License-Identifier: Apache-2.0
"""The store of compute nodes: what a report changes, what it costs, and whose names it may take."""

from dataclasses import replace
from datetime import timedelta

import pytest

from placement_sched.errors import Duplicate, NotFound
from placement_sched.schemas.node_report import Defaults, parse
from placement_sched.store.compute import compute_nodes
from tests.support.reports import NOW, build_report, node_uuid
from tests.support.statements import record_statements

pytestmark = pytest.mark.all_databases

LATER = NOW + timedelta(seconds=30)


def node(number=1, now=NOW, **changes):
    return parse(build_report(number, **changes), Defaults(now=now)).node


def write(database, *nodes, now=NOW):
    return database.write(lambda connection: compute_nodes.write(connection, nodes, now))


def kept(database, *uuids):
    with database.read() as connection:
        found = {one.uuid: one for one in compute_nodes.by_uuids(connection, uuids)}
    return [found[uuid] for uuid in uuids]


def test_first_report_makes_the_node(database):
    numa = {"cells": [{"id": 0, "cpuset": [0, 1], "memory": 1024}]}
    reported = node(
        cpu_info={"arch": "x86_64"},
        stats={"num_instances": 2},
        supported_hv_specs=[["x86_64", "kvm", "hvm"]],
        numa_topology=numa,
        free_disk_gb=None,
    )
    written = write(database, reported)
    assert (written.created, written.changed) == ({node_uuid(1)}, frozenset())
    (found,) = kept(database, node_uuid(1))
    assert found == replace(reported, version=found.version, created_at=NOW, updated_at=NOW)


def test_same_report_moves_the_heartbeat_only(database):
    write(database, node())
    (before,) = kept(database, node_uuid(1))
    written = write(database, node(now=LATER), now=LATER)
    assert (written.created, written.changed) == (frozenset(), frozenset())
    assert kept(database, node_uuid(1)) == [replace(before, last_seen_up=LATER)]


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
def test_other_report_raises_the_version(database, change):
    write(database, node())
    (before,) = kept(database, node_uuid(1))
    written = write(database, node(now=LATER, **change), now=LATER)
    assert written.changed == {node_uuid(1)}
    (after,) = kept(database, node_uuid(1))
    assert after.version == before.version + 1
    assert (after.created_at, after.updated_at, after.last_seen_up) == (NOW, LATER, LATER)
    assert replace(after, version=0, created_at=None, updated_at=None) == node(now=LATER, **change)


def test_node_that_moves_tells_where_it_was(database):
    write(database, node(1), node(2))
    written = write(database, node(1, host="cn9"), node(2, vcpus=1))
    assert written.came_from == {node_uuid(1): "cn1"}


def test_names_of_another_node_are_refused(database):
    write(database, node(1))
    with pytest.raises(Duplicate) as taken:
        write(database, node(2), node(3, host="cn1", hypervisor_hostname="cn1"))
    assert taken.value.code == "scheduler.duplicate"
    assert node_uuid(1) in taken.value.detail
    assert node_uuid(3) in taken.value.detail
    with database.read() as connection:
        assert [one.uuid for one in compute_nodes.search(connection)] == [node_uuid(1)]


def test_renaming_onto_another_node_is_refused(database):
    write(database, node(1), node(2))
    with pytest.raises(Duplicate):
        write(database, node(2, host="cn1", hypervisor_hostname="cn1"))


def test_names_heed_case_and_may_share_one_half(database):
    write(
        database,
        node(1),
        node(2, host="CN1", hypervisor_hostname="cn1"),
        node(3, host="cn1", hypervisor_hostname="cn1-b"),
    )
    with database.read() as connection:
        assert len(compute_nodes.search(connection, host="cn1")) == 2
        assert len(compute_nodes.search(connection, host="CN1")) == 1


def test_node_that_comes_back_otherwise_has_another_version(database):
    write(database, node(1))
    (before,) = kept(database, node_uuid(1))
    database.write(lambda connection: compute_nodes.remove(connection, before))
    write(database, node(1, vcpus=16))
    (after,) = kept(database, node_uuid(1))
    assert after.version != before.version


def test_versions_tell_of_those_that_are_there(database):
    write(database, node(1), node(2, last_seen_up="2025-01-01T00:00:00Z"))
    found = kept(database, node_uuid(1), node_uuid(2))
    with database.read() as connection:
        versions = compute_nodes.versions(connection, [node_uuid(n) for n in (1, 2, 3)])
    assert versions == {one.uuid: (one.version, one.last_seen_up) for one in found}


def test_search_goes_on_behind_the_marker(database):
    write(database, *(node(number) for number in range(1, 6)))
    with database.read() as connection:
        page = compute_nodes.search(connection, after=node_uuid(2), limit=2)
        assert [one.host for one in page] == ["cn3", "cn4"]
        assert compute_nodes.search(connection, hypervisor_hostname="cn5", after=node_uuid(5)) == ()


def test_unknown_node_is_not_found(database):
    with database.read() as connection, pytest.raises(NotFound) as missing:
        compute_nodes.by_uuid(connection, node_uuid(1))
    assert missing.value.code == "scheduler.not_found"
    assert node_uuid(1) in missing.value.detail


@pytest.mark.parametrize("moments", [1, 7], ids=["one heartbeat", "several heartbeats"])
def test_heartbeats_cost_the_same_for_many_nodes(database, moments):
    def fleet(size, now):
        return [
            node(number, now=now + timedelta(seconds=number % moments)) for number in range(size)
        ]

    counts = {}
    write(database, *fleet(600, NOW))
    for size in (20, 600):
        with record_statements(database) as seen:
            write(database, *fleet(size, LATER + timedelta(hours=size)))
        counts[size] = len(seen)
    assert counts[20] == counts[600]
    assert {one.last_seen_up for one in kept(database, node_uuid(0))} == {
        LATER + timedelta(hours=600)
    }
