# SPDX-License-Identifier: Apache-2.0
"""The cache of node names for explanations has the current names."""

import pytest

from placement_sched.schemas.node_report import Defaults, parse
from placement_sched.store.compute import compute_nodes
from placement_sched.store.compute.compute_nodes import NodeNames
from tests.support.reports import NOW, build_report, node_uuid
from tests.support.statements import record_statements

pytestmark = pytest.mark.all_databases


def report_node(number=1, **changes):
    return parse(build_report(number, **changes), Defaults(now=NOW)).node


def write_nodes(*nodes):
    return lambda connection: compute_nodes.write(connection, nodes, NOW)


@pytest.fixture
def cloud(database):
    database.write(write_nodes(report_node(1), report_node(2)))
    return database


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (write_nodes(report_node(1, hypervisor_hostname="other")), ("cn1", "other")),
        (write_nodes(report_node(1, host="cn9")), ("cn9", "cn1")),
        (lambda connection: compute_nodes.remove(connection, report_node(1)), None),
        (lambda connection: compute_nodes.remove_many(connection, [node_uuid(1)]), None),
        (lambda connection: compute_nodes.remove_of_host(connection, "cn1"), None),
    ],
)
def test_changed_node_names_are_visible_at_once(cloud, change, expected):
    names = NodeNames()
    with cloud.read() as connection:
        before = names.current(connection)
    assert before[node_uuid(1)] == ("cn1", "cn1")
    cloud.write(change)
    with cloud.read() as connection:
        assert names.current(connection).get(node_uuid(1)) == expected


def test_node_names_are_cached_until_they_change(cloud):
    names = NodeNames()
    with cloud.read() as connection:
        names.current(connection)
    cloud.write(write_nodes(report_node(1, vcpus=9)))
    with record_statements(cloud) as statements, cloud.read() as connection:
        assert len(names.current(connection)) == 2
    assert len(statements) == 1
