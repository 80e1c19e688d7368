# SPDX-License-Identifier: Apache-2.0
"""Change counters rise with each change, and stay unchanged while they are locked.

Changes of nodes and services raise the change counters that they affect.

Each host has a counter. The counter of enabled nodes rises only with changes of these nodes or of
their names.
"""

from functools import partial
from threading import Event, Thread

import pytest

from placement_sched.model.compute_node import Service
from placement_sched.store import change_counters
from placement_sched.store.compute import compute_nodes, host_aggregates, services
from placement_sched.store.compute.compute_nodes import NodeNames
from tests.store.reported_nodes import HALF_MINUTE_LATER, build_reported_node
from tests.support.concurrency import run_concurrently
from tests.support.reports import NOW, node_uuid
from tests.support.statements import record_statements, run_query

pytestmark = pytest.mark.all_databases

#: A subject whose counter can be locked.
LOCKABLE_COUNTER = host_aggregates.SUBJECT


def increment_counter(database, subject="things"):
    database.write(lambda connection: change_counters.bump(connection, subject))


def read_counter_version(database, subject="things"):
    return run_query(database, change_counters.get_version, subject)


def test_each_committed_increment_raises_the_version_of_the_counter(database):
    versions = [read_counter_version(database)]
    for _ in range(2):
        increment_counter(database)
        versions.append(read_counter_version(database))
    with database.writer.connect() as connection:
        change_counters.bump(connection, "things")
        connection.rollback()
    assert [*versions, read_counter_version(database)] == [0, 1, 2, 2]
    assert read_counter_version(database, "others") == 0


def test_concurrent_increments_of_a_counter_are_not_lost(database):
    run_concurrently(*[partial(increment_counter, database)] * 8)
    assert read_counter_version(database) == 8


def test_increment_of_a_locked_counter_waits_for_the_lock(database):
    bumped = Event()

    def increment_counter_and_set_event():
        increment_counter(database, LOCKABLE_COUNTER)
        bumped.set()

    waiting_thread = Thread(target=increment_counter_and_set_event)

    def lock_counter_while_thread_starts(connection):
        held = change_counters.hold_version(connection, LOCKABLE_COUNTER)
        waiting_thread.start()
        assert not bumped.wait(0.2)
        return held

    held = database.write(lock_counter_while_thread_starts)
    waiting_thread.join(timeout=60)
    assert read_counter_version(database, LOCKABLE_COUNTER) > held


def read_change_counters(database, host="cn1"):
    with database.read() as connection:
        of_host = change_counters.map_host_versions(connection).get(
            change_counters.compute_host_part(host), 0
        )
        return of_host, change_counters.get_version(connection, services.ENABLED_NODES)


@pytest.fixture
def database_with_two_hosts(database):
    """A database with the nodes and services of cn1, and of cn2, which is disabled."""
    assert change_counters.compute_host_part("cn1") != change_counters.compute_host_part("cn2")

    def write_nodes_and_services(connection):
        services_by_host = services.record_heartbeats(connection, {"cn1": NOW, "cn2": NOW}, NOW)
        services.set_disabled(connection, [services_by_host["cn2"].id], disabled=True, reason="fan")
        compute_nodes.write(connection, [build_reported_node(1), build_reported_node(2)], NOW)

    database.write(write_nodes_and_services)
    return database


def list_service_ids(connection, host="cn1"):
    return [services.map_by_host(connection, [host])[host].id]


def make_node_write(*nodes):
    return lambda connection: compute_nodes.write(connection, nodes, HALF_MINUTE_LATER)


def make_heartbeat_write(*hosts, at=HALF_MINUTE_LATER):
    return lambda connection: services.record_heartbeats(connection, dict.fromkeys(hosts, at), at)


def make_service_disabling_write(host, reason=None):
    return lambda connection: services.set_disabled(
        connection, list_service_ids(connection, host), disabled=reason is not None, reason=reason
    )


def make_service_write(*hosts):
    rows = [
        Service(0, node_uuid(70 + index), host, "nova-compute", last_seen_up=NOW)
        for index, host in enumerate(hosts)
    ]
    return lambda connection: services.put(connection, rows, HALF_MINUTE_LATER)


#: Changes of cn1 with an effect on enabled nodes or their names, and without it.
CHANGES_OF_ENABLED_NODES = {
    "node moved": make_node_write(build_reported_node(1, host="cn9")),
    "node moved here": make_node_write(
        build_reported_node(2, host="cn1", hypervisor_hostname="other")
    ),
    "another name": make_node_write(build_reported_node(1, hypervisor_hostname="other")),
    "nodes removed": lambda connection: compute_nodes.remove_many(connection, [node_uuid(1)]),
    "nodes of a host removed": lambda connection: compute_nodes.remove_of_host(connection, "cn1"),
    "service disabled": make_service_disabling_write("cn1", "fan"),
    "services written": make_service_write("cn1", "cn3"),
    "service removed": lambda connection: services.remove(connection, list_service_ids(connection)),
}
CHANGES_WITHOUT_NEW_NAMES = {
    "other amounts": make_node_write(
        build_reported_node(1, vcpus=9), build_reported_node(2, local_gb=0)
    ),
    "report with a heartbeat": make_node_write(
        build_reported_node(1, now=HALF_MINUTE_LATER), build_reported_node(2, now=HALF_MINUTE_LATER)
    ),
    "node seen": lambda connection: compute_nodes.record_seen(
        connection, {"cn1": HALF_MINUTE_LATER}, HALF_MINUTE_LATER
    ),
    "heartbeat": make_heartbeat_write("cn1", "cn2"),
    "service seen": lambda connection: services.record_seen(
        connection, {"cn1": HALF_MINUTE_LATER}, HALF_MINUTE_LATER
    ),
    "service seen with its state": lambda connection: services.set_last_seen(
        connection,
        dict.fromkeys(list_service_ids(connection), HALF_MINUTE_LATER),
        HALF_MINUTE_LATER,
    ),
    "forced down": lambda connection: services.set_forced_down(
        connection, list_service_ids(connection), forced_down=True
    ),
    "enabled again": make_service_disabling_write("cn1"),
}
#: Changes of other hosts, and writes without a change.
CHANGES_OF_OTHER_HOSTS = {
    "new node": make_node_write(build_reported_node(3)),
    "new service": make_heartbeat_write("cn3"),
    "service enabled": make_service_disabling_write("cn2"),
}
WRITES_WITHOUT_CHANGE = {
    "same reports": make_node_write(build_reported_node(1), build_reported_node(2)),
    "no report": make_node_write(),
    "no nodes of a host": lambda connection: compute_nodes.remove_of_host(connection, "cn9"),
    "disabled again": make_service_disabling_write("cn2", "another fan"),
    "no services put": make_service_write(),
    "no services removed": lambda connection: services.remove(connection, []),
}
CHANGES_AND_AFFECTED_COUNTERS = [
    pytest.param(change, of_host, of_nodes, id=name)
    for changes, of_host, of_nodes in (
        (CHANGES_OF_ENABLED_NODES, True, True),
        (CHANGES_WITHOUT_NEW_NAMES, True, False),
        (CHANGES_OF_OTHER_HOSTS, False, True),
        (WRITES_WITHOUT_CHANGE, False, False),
    )
    for name, change in changes.items()
]


@pytest.mark.parametrize(("change", "of_host", "of_nodes"), CHANGES_AND_AFFECTED_COUNTERS)
def test_change_of_a_host_increments_only_the_affected_counters(
    database_with_two_hosts, change, of_host, of_nodes
):
    names = NodeNames()
    with database_with_two_hosts.read() as connection:
        names.get_current(connection)
    before = read_change_counters(database_with_two_hosts)
    database_with_two_hosts.write(change)
    after = read_change_counters(database_with_two_hosts)
    assert (after[0] > before[0], after[1] > before[1]) == (of_host, of_nodes)
    with database_with_two_hosts.read() as connection:
        assert names.get_current(connection) == compute_nodes.map_names_by_uuid(connection)


def test_new_node_and_new_service_raise_the_counter_of_their_host(database_with_two_hosts):
    before = read_change_counters(database_with_two_hosts, "cn3")
    database_with_two_hosts.write(make_node_write(build_reported_node(3)))
    between = read_change_counters(database_with_two_hosts, "cn3")
    database_with_two_hosts.write(make_heartbeat_write("cn3"))
    assert before[0] < between[0] < read_change_counters(database_with_two_hosts, "cn3")[0]


def test_rolled_back_change_of_a_node_keeps_the_change_counters(database_with_two_hosts):
    before = read_change_counters(database_with_two_hosts)
    with database_with_two_hosts.writer.connect() as connection:
        compute_nodes.write(connection, [build_reported_node(1, host="cn9")], HALF_MINUTE_LATER)
        connection.rollback()
    assert read_change_counters(database_with_two_hosts) == before


def test_heartbeats_of_five_hundred_hosts_increment_all_host_counters(database_with_two_hosts):
    database_with_two_hosts.write(make_heartbeat_write(*(f"host{number}" for number in range(500))))
    with database_with_two_hosts.read() as connection:
        assert set(change_counters.map_host_versions(connection)) == set(
            range(change_counters.HOST_PARTS)
        )


def test_node_names_are_not_read_again_after_changes_of_amounts(database_with_two_hosts):
    names = NodeNames()
    with database_with_two_hosts.read() as connection:
        names.get_current(connection)
    database_with_two_hosts.write(CHANGES_WITHOUT_NEW_NAMES["other amounts"])
    with (
        record_statements(database_with_two_hosts) as statements,
        database_with_two_hosts.read() as connection,
    ):
        assert len(names.get_current(connection)) == 2
    assert len(statements) == 1
