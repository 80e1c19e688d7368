# SPDX-License-Identifier: Apache-2.0
"""Hosts that nova has in part only: they are named, and nothing is placed there."""

import pytest

from placement_sched.model.clock import utcnow
from placement_sched.operations.cloud_check import CloudFault, check_cloud
from placement_sched.store.compute import compute_nodes
from placement_sched.store.placement import resource_providers
from placement_sched.store.placement.resource_providers import NewProvider

pytestmark = pytest.mark.all_databases


def reasons(findings):
    return {misfit.place: misfit.reason for misfit in findings.misfits}


def recorded(database):
    with database.read() as connection:
        return set(compute_nodes.cells_of_all_hosts(connection))


def unfit(database, settings, findings):
    with database.read() as connection:
        found = check_cloud(connection, settings, utcnow, unread=findings.unread)
    return {one.kind: one.names for one in found}


def provide(database, uuid, name):
    rows = [NewProvider(uuid, name)]
    database.write(lambda connection: resource_providers.create_many(connection, rows, utcnow()))


def test_node_without_free_disk_is_not_recorded_and_named(follower, nova, database):
    half = nova.add_host("cn1", free_disk_gb=None)
    nova.add_host("cn2")
    found = reasons(follower.full())
    assert recorded(database) == {"cn2"}
    (reason,) = [text for place, text in found.items() if f"cn1 ({half})" in place]
    assert "free_disk_gb is not reported yet" in reason
    nova.cells["one"].change("compute_nodes", {"uuid": half}, free_disk_gb=100)
    follower.round()
    assert recorded(database) == {"cn1", "cn2"}


def test_provider_of_a_node_that_could_not_be_read_is_not_advised_to_be_deleted(
    follower, nova, database, settings
):
    half = nova.add_host("cn1", free_disk_gb=None)
    broken = nova.add_host("cn2", cpu_info="{", stats="{")
    provide(database, half, "cn1")
    provide(database, broken, "cn2")
    findings = follower.full()
    assert CloudFault.PROVIDER_WITHOUT_NODE not in unfit(database, settings, findings)


def test_node_without_uuid_is_named(follower, nova):
    nova.add_host("cn1")
    nova.cells["one"].change("compute_nodes", {"host": "cn1"}, uuid=None)
    found = reasons(follower.full())
    (reason,) = [text for place, text in found.items() if "of host cn1" in place]
    assert "it has no uuid" in reason


def test_service_without_node_and_member_that_is_no_host_are_named(
    follower, nova, database, settings
):
    nova.add_host("cn1")
    nova.add_host("cn2")
    nova.cells["one"].remove("compute_nodes", host="cn2")
    nova.add_aggregate("racks", ("cn1", "cn9"))
    found = unfit(database, settings, follower.full())
    assert found[CloudFault.SERVICE_WITHOUT_NODE] == ("cn2",)
    assert found[CloudFault.AGGREGATE_OF_NO_HOST] == ("cn9 of racks",)
