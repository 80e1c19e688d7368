# SPDX-License-Identifier: Apache-2.0
"""Deletion of compute nodes, their services and providers."""

import pytest

from placement_sched.errors import InUse, NotFound
from placement_sched.operations import aggregates, reports
from placement_sched.store.compute import compute_nodes, services
from placement_sched.store.placement import provider_trees, resource_providers
from tests.operations.test_reports import allocate_amounts, read_provider, record_report
from tests.support.reports import NOW, build_report, node_uuid


def remove_node(database, number=1):
    database.write(lambda connection: reports.remove_node(connection, node_uuid(number)))


def hosts_with_service(database):
    with database.read() as connection:
        return [service.host for service in services.search(connection)]


def test_node_is_removed_with_its_provider(database, settings):
    record_report(database, settings, build_report(1), build_report(2))
    uuid = database.write(
        lambda connection: aggregates.create(connection, node_uuid(70), "a", None, NOW)
    )
    database.write(
        lambda connection: aggregates.add_hosts(connection, uuid.id, ["cn1", "cn2"], NOW)
    )
    remove_node(database)
    assert read_provider(database) is None
    assert read_provider(database, 2) is not None
    assert hosts_with_service(database) == ["cn2"]
    with database.read() as connection:
        assert [node.host for node in compute_nodes.search(connection)] == ["cn2"]


def test_service_stays_while_its_host_has_another_node(database, settings):
    record_report(database, settings, build_report(1, host="rack"), build_report(2, host="rack"))
    remove_node(database, 1)
    assert hosts_with_service(database) == ["rack"]
    remove_node(database, 2)
    assert hosts_with_service(database) == []


def test_node_with_allocations_is_not_removed(database, settings):
    record_report(database, settings, build_report())
    allocate_amounts(database, VCPU=1)
    with pytest.raises(InUse, match="allocations"):
        remove_node(database)
    assert read_provider(database) is not None
    assert hosts_with_service(database) == ["cn1"]


def test_node_with_child_providers_is_not_removed(database, settings):
    record_report(database, settings, build_report())
    database.write(
        lambda connection: provider_trees.create(
            connection, uuid=node_uuid(9), name="numa0", parent_uuid=node_uuid(1), now=NOW
        )
    )
    with pytest.raises(InUse, match="child"):
        remove_node(database)


def test_node_without_provider_is_removed(database, settings):
    record_report(database, settings, build_report(inventories=False))
    remove_node(database)
    assert hosts_with_service(database) == []


def test_unknown_node_is_not_found(database):
    with pytest.raises(NotFound) as missing:
        remove_node(database)
    assert missing.value.code == "scheduler.not_found"


def test_provider_without_node_is_not_found(database):
    stray = resource_providers.NewProvider(node_uuid(1), "stray")
    database.write(lambda connection: resource_providers.create_many(connection, [stray], NOW))
    with pytest.raises(NotFound):
        remove_node(database)
    assert read_provider(database) is not None
