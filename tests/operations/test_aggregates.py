# SPDX-License-Identifier: Apache-2.0
"""Changes of many hosts of a host aggregate in a transaction."""

import pytest

from placement_sched.errors import Conflict, NotFound
from placement_sched.operations import aggregates
from tests.support.hosts import NOW, add_instance, add_node
from tests.support.statements import record_statements


@pytest.fixture
def zone(database):
    """The id of an aggregate that is a zone without hosts."""
    return database.write(
        lambda connection: aggregates.create(connection, "uuid", "a", "z", NOW)
    ).id


def add_hosts(database, number, hosts):
    return database.write(lambda connection: aggregates.add_hosts(connection, number, hosts, NOW))


def test_statement_count_is_independent_of_hosts(database, zone):
    hosts = [f"h{index}" for index in range(30)]
    for host in hosts:
        add_node(database, host)
    with record_statements(database) as few:
        add_hosts(database, zone, hosts[:2])
    with record_statements(database) as many:
        assert add_hosts(database, zone, hosts[2:]).hosts == set(hosts)
    assert len(many) <= len(few)


def test_one_invalid_host_rejects_all(database, zone):
    for host in ("h1", "h2", "busy"):
        add_node(database, host)
    add_instance(database, "busy")
    with pytest.raises(NotFound, match="nope"):
        add_hosts(database, zone, ["h1", "nope"])
    with pytest.raises(Conflict, match="busy"):
        add_hosts(database, zone, ["h1", "busy"])
    assert add_hosts(database, zone, ["h2"]).hosts == {"h2"}


def test_long_lists_of_conflicting_hosts_are_shortened(database, zone):
    for index in range(8):
        add_node(database, f"h{index}")
        add_instance(database, f"h{index}")
    with pytest.raises(Conflict, match="h0, h1, h2, h3, h4 and 3 more"):
        add_hosts(database, zone, [f"h{index}" for index in range(8)])
