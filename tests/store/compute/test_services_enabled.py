# SPDX-License-Identifier: Apache-2.0
"""The change counter of enabled nodes rises only with changes of them or their names."""

from datetime import timedelta

import pytest

from placement_sched.schemas.node_report import Defaults, parse
from placement_sched.store import change_counters
from placement_sched.store.compute import compute_nodes, services
from tests.support.reports import NOW, build_report, node_uuid

pytestmark = pytest.mark.all_databases

LATER = NOW + timedelta(seconds=30)


def report_node(number=1, now=NOW, **changes):
    return parse(build_report(number, **changes), Defaults(now=now)).node


def enabled_version(database):
    with database.read() as connection:
        return change_counters.version(connection, services.ENABLED_NODES)


@pytest.fixture
def cloud(database):
    """A database with the nodes and services of cn1, and of cn2, which is disabled."""

    def write_rows(connection):
        found = services.record_heartbeats(connection, {"cn1": NOW, "cn2": NOW}, NOW)
        services.set_disabled(connection, [found["cn2"].id], disabled=True, reason="fan")
        compute_nodes.write(connection, [report_node(1), report_node(2)], NOW)

    database.write(write_rows)
    return database


def service_id(connection, host):
    return services.by_hosts(connection, [host])[host].id


def write_nodes(*nodes, now=LATER):
    return lambda connection: compute_nodes.write(connection, nodes, now)


def remove_node(connection):
    compute_nodes.remove(connection, compute_nodes.by_uuid(connection, node_uuid(1), lock=True))


def record_heartbeats(*hosts):
    return lambda connection: services.record_heartbeats(
        connection, dict.fromkeys(hosts, LATER), LATER
    )


def set_disabled(host, *, disabled, reason=None):
    return lambda connection: services.set_disabled(
        connection, [service_id(connection, host)], disabled=disabled, reason=reason
    )


def force_down(connection):
    services.set_forced_down(connection, [service_id(connection, "cn1")], forced_down=True)


def put_services(*hosts):
    rows = [
        {
            "uuid": node_uuid(70 + index),
            "host": host,
            "binary": "nova-compute",
            "disabled": 0,
            "disabled_reason": None,
            "forced_down": 0,
            "last_seen_up": NOW,
        }
        for index, host in enumerate(hosts)
    ]
    return lambda connection: services.put(connection, rows, LATER)


CHANGES = {
    "new node": write_nodes(report_node(3)),
    "node moved to another host": write_nodes(report_node(1, host="cn9")),
    "another name on the same host": write_nodes(report_node(1, hypervisor_hostname="other")),
    "node removed": remove_node,
    "nodes of a host removed": lambda connection: compute_nodes.remove_of_host(connection, "cn1"),
    "new service": record_heartbeats("cn1", "cn3"),
    "service disabled": set_disabled("cn1", disabled=True, reason="fan"),
    "service enabled": set_disabled("cn2", disabled=False),
    "services written": put_services("cn2", "cn3"),
    "service removed": lambda connection: services.remove(
        connection, [service_id(connection, "cn1")]
    ),
}

NO_CHANGES = {
    "the same report": write_nodes(report_node(1, now=LATER), report_node(2, now=LATER)),
    "other amounts": write_nodes(report_node(1, vcpus=9), report_node(2, local_gb=0)),
    "no report": write_nodes(),
    "no nodes of a host": lambda connection: compute_nodes.remove_of_host(connection, "cn9"),
    "a heartbeat": record_heartbeats("cn1", "cn2"),
    "disabled again": set_disabled("cn2", disabled=True, reason="another fan"),
    "enabled again": set_disabled("cn1", disabled=False),
    "forced down": force_down,
    "no services put": put_services(),
    "no services removed": lambda connection: services.remove(connection, []),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_change_of_enabled_nodes_raises_the_counter(cloud, change):
    before = enabled_version(cloud)
    cloud.write(change)
    assert enabled_version(cloud) > before


@pytest.mark.parametrize("change", NO_CHANGES.values(), ids=NO_CHANGES)
def test_change_without_effect_on_enabled_nodes_keeps_the_counter(cloud, change):
    before = enabled_version(cloud)
    cloud.write(change)
    assert enabled_version(cloud) == before


def test_rolled_back_change_keeps_the_counter(cloud):
    before = enabled_version(cloud)
    with cloud.writer.connect() as connection:
        compute_nodes.write(connection, [report_node(3)], LATER)
        connection.rollback()
    assert enabled_version(cloud) == before
