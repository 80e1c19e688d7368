# SPDX-License-Identifier: Apache-2.0
"""Hosts with a fast or slow clock: nova's current rows count."""

from datetime import timedelta

import pytest

from placement_sched.model.clock import utcnow
from placement_sched.store.compute import compute_nodes, instances, services
from tests.support.statements import execute_statements


def read_last_heartbeat(database, host="cn1"):
    with database.read() as connection:
        return services.map_by_host(connection, [host])[host].last_seen_up


@pytest.mark.parametrize("reading", ["sync_changes", "refresh"])
def test_heartbeat_from_a_fast_clock_is_replaced(follower, nova, database, reading):
    ahead = utcnow() + timedelta(hours=2)
    nova.add_host("cn1", last_seen_up=ahead)
    follower.sync_all()
    assert read_last_heartbeat(database) == ahead
    now = utcnow()
    nova.cells["one"].change("services", {"host": "cn1"}, last_seen_up=now)
    getattr(follower, reading)()
    assert read_last_heartbeat(database) == now


def test_heartbeat_older_than_the_recorded_heartbeat_is_ignored(follower, nova, database):
    seen = utcnow()
    nova.add_host("cn1", last_seen_up=seen)
    follower.sync_all()
    earlier = {"cn1": seen - timedelta(seconds=20)}
    database.write(lambda connection: services.record_seen(connection, earlier, utcnow()))
    assert read_last_heartbeat(database) == seen


@pytest.mark.parametrize("reading", ["sync_changes", "sync_all"])
def test_service_version_is_recorded_again_after_an_upgrade(follower, nova, read_service, reading):
    for host in ("cn1", "cn2"):
        nova.add_host(host)
    follower.sync_all()
    assert read_service("cn1").version == 66
    nova.cells["one"].change("services", {"host": "cn1"}, version=74)
    getattr(follower, reading)()
    assert [read_service(host).version for host in ("cn1", "cn2")] == [74, 66]
    assert follower.compare().differing == 0


def test_service_keeps_the_creation_time_of_nova(follower, nova, read_service):
    nova.add_host("cn1")
    created = utcnow() - timedelta(days=400)
    cell = nova.cells["one"]
    cell.change("services", {"host": "cn1"}, created_at=created)
    follower.sync_all()
    assert read_service("cn1").created_at == created
    cell.change("services", {"host": "cn1"}, disabled=True)
    follower.sync_all()
    assert read_service("cn1").created_at == created


def test_service_recorded_without_a_version_is_completed_by_a_full_sync(
    follower, nova, database, read_service
):
    nova.add_host("cn1")
    follower.sync_all()
    execute_statements(database, "UPDATE sched_services SET version = NULL")
    follower.sync_all()
    assert read_service("cn1").version == 66


def test_rows_from_a_clock_two_minutes_behind_are_read(follower, nova, database):
    node = nova.add_host("cn1")
    nova.add_host("cn2")
    uuid = nova.add_instance("cn1")
    follower.sync_all()
    follower.sync_changes()
    behind = utcnow() - timedelta(seconds=120)
    cell = nova.cells["one"]
    cell.change("compute_nodes", {"uuid": node}, vcpus=99, updated_at=behind)
    cell.change("instances", {"uuid": uuid}, host="cn2", node="cn2", updated_at=behind)
    follower.sync_changes()
    with database.read() as connection:
        assert compute_nodes.get_by_uuid(connection, node).vcpus == 99
        assert instances.get_by_uuid(connection, uuid).host == "cn2"
