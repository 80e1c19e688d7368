# SPDX-License-Identifier: Apache-2.0
"""The store of services: heartbeats, and settings of operators."""

from datetime import timedelta

import pytest

from placement_sched.errors import Duplicate
from placement_sched.model.compute_node import Service
from placement_sched.store.compute import services
from tests.support.clouds import uuid_of
from tests.support.reports import NOW
from tests.support.statements import record_statements, run_query

pytestmark = pytest.mark.all_databases

HALF_MINUTE_LATER = NOW + timedelta(seconds=30)


def record_heartbeats(database, heartbeats, now=NOW):
    return database.write(
        lambda connection: services.record_heartbeats(connection, heartbeats, now)
    )


def read_services_by_host(database, *hosts):
    return run_query(database, services.map_by_host, hosts)


def test_first_heartbeat_of_a_host_creates_an_enabled_service(database):
    assert not record_heartbeats(database, {"cn1": NOW})["cn1"].disabled
    service = read_services_by_host(database, "cn1")["cn1"]
    assert (service.binary, service.disabled, service.forced_down) == ("nova-compute", False, False)
    assert (service.disabled_reason, service.last_seen_up) == (None, NOW)
    assert service.is_up(NOW, 60)


def test_heartbeat_updates_last_seen_up_but_not_uuid_and_disabled_reason(database):
    first = record_heartbeats(database, {"cn1": NOW, "cn2": NOW})
    database.write(
        lambda connection: services.set_disabled(
            connection, [first["cn1"].id], disabled=True, reason="broken fan"
        )
    )
    assert record_heartbeats(
        database, {"cn1": HALF_MINUTE_LATER, "cn3": HALF_MINUTE_LATER}, HALF_MINUTE_LATER
    )["cn1"].disabled
    services_by_host = read_services_by_host(database, "cn1", "cn2", "cn3")
    assert [services_by_host[host].last_seen_up for host in ("cn1", "cn2", "cn3")] == [
        HALF_MINUTE_LATER,
        NOW,
        HALF_MINUTE_LATER,
    ]
    assert (services_by_host["cn1"].uuid, services_by_host["cn1"].disabled_reason) == (
        first["cn1"].uuid,
        "broken fan",
    )
    with database.read() as connection:
        assert [service.host for service in services.search(connection)] == ["cn1", "cn2", "cn3"]
        assert [service.host for service in services.search(connection, host="cn2")] == ["cn2"]
        assert services.search(connection, binary="nova-conductor") == ()


def test_enabled_service_has_no_disabled_reason_and_can_be_forced_down(database):
    number = record_heartbeats(database, {"cn1": NOW})["cn1"].id

    def enable_service_and_force_down(connection):
        for disabled in (True, False):
            services.set_disabled(connection, [number], disabled=disabled, reason="broken fan")
        services.set_forced_down(connection, [number], forced_down=True)

    database.write(enable_service_and_force_down)
    service = read_services_by_host(database, "cn1")["cn1"]
    assert (service.disabled, service.disabled_reason) == (False, None)
    assert not service.is_up(NOW, 60)


def test_heartbeat_statement_count_is_independent_of_hosts(database):
    record_heartbeats(database, {"first": NOW})  # the first heartbeat also writes shared rows
    counts = {}
    for size in (20, 600):
        hosts = {f"h{size}-{number}": NOW + timedelta(seconds=number) for number in range(size)}
        with record_statements(database) as seen:
            record_heartbeats(database, hosts)
            record_heartbeats(database, dict.fromkeys(hosts, HALF_MINUTE_LATER), HALF_MINUTE_LATER)
        counts[size] = len(seen)
    assert counts[20] == counts[600]


def test_service_with_a_duplicate_uuid_is_not_overwritten(database):
    rows = [
        Service(0, uuid_of("one"), host, "nova-compute", True, host, last_seen_up=NOW)
        for host in ("cn1", "cn2")
    ]
    database.write(lambda connection: services.put(connection, rows[:1], NOW))
    for batch in (rows[1:], rows):
        with pytest.raises(Duplicate):
            database.write(lambda connection, batch=batch: services.put(connection, batch, NOW))
    services_by_host = read_services_by_host(database, "cn1", "cn2")
    assert {host: each.disabled_reason for host, each in services_by_host.items()} == {"cn1": "cn1"}
