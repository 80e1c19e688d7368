# SPDX-License-Identifier: Apache-2.0
"""The records follow nova: a full sync at first, then rounds of changes."""

import threading
from datetime import timedelta

import pytest

from placement_sched.db import tables
from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.nova.sync import lost_records
from placement_sched.nova.sync.follower import RETRY_INTERVAL, SharedSync
from placement_sched.store import figures
from placement_sched.store.compute import (
    cells,
    compute_nodes,
    host_aggregates,
    instances,
    server_groups,
    services,
)


@pytest.mark.all_databases
def test_full_sync_records_all_of_nova(follower, nova, database):
    node = nova.add_host("cn1")
    nova.add_host("cn2", disabled=True, disabled_reason="mend it")
    group = nova.add_group("pair", max_server_per_host=2)
    uuid = nova.add_instance("cn1", group=group)
    number = nova.add_aggregate("racks", ("cn1",), availability_zone="north")
    findings = follower.sync_all()
    with database.read() as connection:
        recorded = compute_nodes.get_by_uuid(connection, node)
        barred = services.map_by_host(connection, ["cn2"])["cn2"]
        instance = instances.get_by_uuid(connection, uuid)
        aggregate = host_aggregates.find_by_id(connection, number)
        (kept,) = server_groups.search(connection)
        (cell,) = cells.list_cells(connection)
    assert {noun: count.new for noun, count in findings.counts.items()} == {
        "cells": 1,
        "services": 2,
        "compute nodes": 2,
        "host aggregates": 1,
        "server groups": 1,
        "instances": 1,
    }
    assert (recorded.host, recorded.cell_uuid, recorded.vcpus) == ("cn1", cell.uuid, 32)
    assert recorded.pci_device_pools[0]["physical_network"] == "physnet0"
    assert len(recorded.numa_topology["cells"]) == 2
    assert (barred.disabled, barred.disabled_reason) == (True, "mend it")
    recorded_instance = (instance.host, instance.server_group, instance.flavor["name"])
    assert recorded_instance == ("cn1", group, "m1.small")
    assert (aggregate.hosts, aggregate.availability_zone) == ({"cn1"}, "north")
    group_fields = (kept.policy, kept.rules, kept.members)
    assert group_fields == ("anti-affinity", {"max_server_per_host": 2}, (uuid,))
    assert cell.read_at is not None


@pytest.mark.all_databases
def test_sync_round_records_changes(follower, nova, database):
    nova.add_host("cn1")
    nova.add_host("cn2")
    uuid = nova.add_instance("cn1")
    follower.sync_all()
    nova.cells["one"].change("instances", {"uuid": uuid}, host="cn2", node="cn2")
    new = nova.add_instance("cn1")
    number = nova.add_aggregate("racks", ("cn1",), availability_zone="north")
    follower.sync_changes()
    with database.read() as connection:
        places = {instance.uuid: instance.host for instance in instances.search(connection)}
        assert host_aggregates.find_by_id(connection, number).hosts == {"cn1"}
    assert places == {uuid: "cn2", new: "cn1"}
    assert follower.compare().differing == 0


@pytest.mark.all_databases
def test_requests_see_current_services_and_nodes(follower, nova, database):
    node = nova.add_host("cn1")
    nova.add_host("cn2", disabled=True)
    follower.sync_all()
    nova.cells["one"].change("services", {"host": "cn2"}, disabled=False)
    nova.cells["one"].change("services", {"host": "cn1"}, forced_down=True)
    nova.cells["one"].change("compute_nodes", {"host": "cn1"}, vcpus_used=9)
    follower.refresh()
    with database.read() as connection:
        states = services.map_by_host(connection, ["cn1", "cn2"])
        assert compute_nodes.get_by_uuid(connection, node).vcpus_used == 9
    flags = {host: (state.disabled, state.forced_down) for host, state in states.items()}
    assert flags == {"cn1": (False, True), "cn2": (False, False)}


def test_sync_does_not_write_nova_databases(follower, nova):
    nova.add_host("cn1")
    nova.add_instance("cn1")
    before = nova.rows()
    follower.sync_all()
    follower.sync_changes()
    follower.refresh()
    assert nova.rows() == before


def test_full_sync_reports_progress(follower, nova):
    nova.add_host("cn1")
    nova.add_instance("cn1")
    shown = []
    follower.sync_all(lambda done, total: shown.append((done, total)))
    assert shown[-1] == (2, 2)
    assert all(done <= total for done, total in shown)


def test_background_sync_starts_with_a_full_sync(follower, nova, database):
    nova.add_host("cn1")
    assert 0 < follower.sync_due() <= 5
    with database.read() as connection:
        assert len(compute_nodes.search(connection)) == 1
    assert 0 < follower.sync_due() <= 5


def test_background_sync_raises_no_error_for_an_unreadable_api_database(make_follower, nova):
    nova.api.change("cell_mappings", {"name": "one"}, database_connection="x")
    follower = make_follower(nova)
    nova.api.engine.dispose()
    with nova.api.engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE cell_mappings")
    # A loop that waits for this time does not repeat failures without a pause.
    assert [follower.sync_due() for _ in range(2)] == [RETRY_INTERVAL, RETRY_INTERVAL]


def test_rows_lost_by_a_failover_are_recorded_again(follower, nova, database, monkeypatch):
    epoch = ["first"]
    monkeypatch.setattr(Database, "epoch", property(lambda _database: epoch[0]))
    nova.add_host("cn1")
    follower.sync_due()
    with database.read() as connection:
        uuids = [node.uuid for node in compute_nodes.search(connection)]
    database.write(lambda connection: compute_nodes.remove_many(connection, uuids))
    epoch[0] = "second"
    follower.sync_due()
    with database.read() as connection:
        assert [node.uuid for node in compute_nodes.search(connection)] == uuids


TABLES = {
    "services": [tables.services],
    "compute nodes": [tables.compute_nodes],
    "host aggregates": [
        tables.host_aggregate_metadata,
        tables.host_aggregate_hosts,
        tables.host_aggregates,
    ],
    "server groups": [tables.server_groups],
}


@pytest.fixture
def sync_after_15_seconds(follower, monkeypatch):
    def sync_due():
        later = lost_records.monotonic() + lost_records.INTERVAL
        monkeypatch.setattr(lost_records, "monotonic", lambda: later)
        follower._round_due = 0  # a round is due in each 5 seconds
        follower.sync_due()
        follower.sync_due()

    return sync_due


@pytest.mark.all_databases
@pytest.mark.parametrize("noun", TABLES)
def test_lost_records_are_recorded_again_within_30_seconds(
    follower, nova, database, sync_after_15_seconds, noun, caplog
):
    nova.add_host("cn1")
    nova.add_aggregate("racks", ("cn1",), availability_zone="north")
    nova.add_group("pair")
    follower.sync_due()
    recorded = count_records(database)
    sync_after_15_seconds()
    assert "lost records" not in caplog.text
    delete_rows(database, *TABLES[noun])
    sync_after_15_seconds()
    assert count_records(database) == recorded
    assert f"the database of this service has lost records ({noun}: 1): all of nova" in caplog.text


def test_lost_instances_are_recorded_again(follower, nova, database, sync_after_15_seconds):
    nova.add_host("cn1")
    for _ in range(3):
        nova.add_instance("cn1", created_at=utcnow() - timedelta(hours=1))
    follower.sync_due()
    delete_rows(database, tables.instances)
    sync_after_15_seconds()
    assert count_records(database)["instances"] == 3


def test_new_instances_and_issues_of_a_full_sync_are_no_lost_records(
    follower, nova, sync_after_15_seconds, caplog
):
    nova.add_host("cn1")
    nova.add_host("cn2", free_disk_gb=None)
    follower.sync_due()
    nova.add_instance("cn1")
    sync_after_15_seconds()
    assert "lost records" not in caplog.text


def delete_rows(database, *emptied):
    for table in emptied:
        database.write(lambda connection, table=table: connection.execute(table.delete()))


def count_records(database):
    with database.read() as connection:
        return figures.count_nova_records(connection, utcnow())


def test_nova_read_without_concurrent_callers_is_not_shared():
    read = []
    shared = SharedSync(lambda: read.append(1))
    shared.wait_for_sync()
    shared.wait_for_sync()
    assert len(read) == 2


def test_callers_that_wait_for_a_read_share_the_next_read():
    begun, go_on, count = threading.Event(), threading.Event(), []

    def read():
        count.append(1)
        begun.set()
        assert go_on.wait(60)

    shared = SharedSync(read)
    first = threading.Thread(target=shared.wait_for_sync)
    first.start()
    assert begun.wait(60)
    # These calls come during the first read, which may be too old for them.
    calls = [threading.Event() for _ in range(5)]

    def call(called):
        called.set()
        shared.wait_for_sync()

    others = [threading.Thread(target=call, args=(called,)) for called in calls]
    for thread in others:
        thread.start()
    for called in calls:
        assert called.wait(60)
    go_on.set()
    for thread in (first, *others):
        thread.join(60)
    assert 2 <= len(count) <= 6


def test_failed_nova_read_is_not_shared():
    def read():
        raise ValueError("away")

    shared = SharedSync(read)
    for _ in range(2):
        with pytest.raises(ValueError, match="away"):
            shared.wait_for_sync()
