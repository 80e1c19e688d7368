# SPDX-License-Identifier: Apache-2.0
"""Every change of a node or service of a host raises the change counter of the host."""

from datetime import timedelta

import pytest

from placement_sched.schemas.node_report import Defaults, parse
from placement_sched.store.compute import compute_nodes, host_changes, services
from tests.support.reports import NOW, build_report, node_uuid

pytestmark = pytest.mark.all_databases

LATER = NOW + timedelta(seconds=30)


def report_node(number=1, now=NOW, **changes):
    return parse(build_report(number, **changes), Defaults(now=now)).node


def change_version(database, host):
    with database.read() as connection:
        return host_changes.versions(connection).get(host_changes.part_of(host), 0)


@pytest.fixture
def cloud(database):
    """A database with the nodes and services of cn1 and cn2, which have different counters."""
    assert host_changes.part_of("cn1") != host_changes.part_of("cn2")

    def write_rows(connection):
        services.record_heartbeats(connection, {"cn1": NOW, "cn2": NOW}, NOW)
        compute_nodes.write(connection, [report_node(1), report_node(2)], NOW)

    database.write(write_rows)
    return database


def service_ids(connection):
    return [services.by_hosts(connection, ["cn1"])["cn1"].id]


def write_nodes(*nodes):
    return lambda connection: compute_nodes.write(connection, nodes, LATER)


def put_service(connection):
    row = {"uuid": node_uuid(70), "host": "cn1", "binary": "nova-compute", "disabled": 1}
    more = {"disabled_reason": "fan", "forced_down": 0, "last_seen_up": NOW}
    services.put(connection, [{**row, **more}], LATER)


CHANGES = {
    "other amounts": write_nodes(report_node(1, vcpus=9)),
    "heartbeat of a node": write_nodes(report_node(1, now=LATER)),
    "node moved to another host": write_nodes(report_node(1, host="cn9")),
    "node moved from another host": write_nodes(
        report_node(2, host="cn1", hypervisor_hostname="other")
    ),
    "node removed": lambda connection: compute_nodes.remove(connection, report_node(1)),
    "nodes removed": lambda connection: compute_nodes.remove_many(connection, [node_uuid(1)]),
    "nodes of a host removed": lambda connection: compute_nodes.remove_of_host(connection, "cn1"),
    "node seen": lambda connection: compute_nodes.record_seen(connection, {"cn1": LATER}, LATER),
    "heartbeat of a service": lambda connection: services.record_heartbeats(
        connection, {"cn1": LATER}, LATER
    ),
    "service seen": lambda connection: services.record_seen(connection, {"cn1": LATER}, LATER),
    "service seen with its state": lambda connection: services.note_seen(
        connection, dict.fromkeys(service_ids(connection), LATER), LATER
    ),
    "service disabled": lambda connection: services.set_disabled(
        connection, service_ids(connection), disabled=True, reason="fan"
    ),
    "service forced down": lambda connection: services.set_forced_down(
        connection, service_ids(connection), forced_down=True
    ),
    "service written": put_service,
    "service removed": lambda connection: services.remove(connection, service_ids(connection)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_change_raises_the_counter_of_its_host(cloud, change):
    before = change_version(cloud, "cn1")
    cloud.write(change)
    assert change_version(cloud, "cn1") > before


def test_new_node_and_new_service_raise_the_counters_of_their_hosts(cloud):
    before = change_version(cloud, "cn3")
    cloud.write(write_nodes(report_node(3)))
    between = change_version(cloud, "cn3")
    cloud.write(lambda connection: services.record_heartbeats(connection, {"cn3": NOW}, NOW))
    assert before < between < change_version(cloud, "cn3")


def test_change_counters_of_other_parts_are_unchanged(cloud):
    before = change_version(cloud, "cn2")
    for change in (write_nodes(report_node(1, vcpus=9)), put_service):
        cloud.write(change)
    assert change_version(cloud, "cn2") == before


def test_unchanged_report_raises_no_counter(cloud):
    before = change_version(cloud, "cn1")
    cloud.write(write_nodes(report_node(1, now=NOW), report_node(2, now=NOW)))
    assert change_version(cloud, "cn1") == before


def test_many_hosts_raise_all_counters_in_one_transaction(cloud):
    hosts = {f"host{number}": NOW for number in range(500)}
    cloud.write(lambda connection: services.record_heartbeats(connection, hosts, NOW))
    with cloud.read() as connection:
        assert set(host_changes.versions(connection)) == set(range(host_changes.PARTS))
