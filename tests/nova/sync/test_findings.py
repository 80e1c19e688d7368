# SPDX-License-Identifier: Apache-2.0
"""Report of a sync: differences, and hosts with missing rows in nova."""

import pytest

from placement_sched.model.clock import utcnow
from placement_sched.operations.checks import CloudFault, check_cloud
from placement_sched.store.compute import cells, compute_nodes, instances, services
from placement_sched.store.placement import resource_providers
from placement_sched.store.placement.resource_providers import NewProvider


def get_issue_reasons_by_place(findings):
    return {issue.place: issue.reason for issue in findings.issues}


def read_recorded_nodes(database):
    with database.read() as connection:
        return {host for host, _ in compute_nodes.map_names_by_uuid(connection).values()}


def find_cloud_faults(database, settings, findings):
    with database.read() as connection:
        problems = check_cloud(connection, settings, utcnow, unread=findings.unread)
    return {problem.kind: problem.names for problem in problems}


def add_provider(database, uuid, name):
    rows = [NewProvider(uuid, name)]
    database.write(lambda connection: resource_providers.create_many(connection, rows, utcnow()))


def test_node_without_free_disk_is_skipped_and_reported(follower, nova, database):
    half = nova.add_host("cn1", free_disk_gb=None)
    nova.add_host("cn2")
    reasons = get_issue_reasons_by_place(follower.sync_all())
    assert read_recorded_nodes(database) == {"cn2"}
    (reason,) = [text for place, text in reasons.items() if f"cn1 ({half})" in place]
    assert "free_disk_gb is not reported yet" in reason
    nova.cells["one"].change("compute_nodes", {"uuid": half}, free_disk_gb=100)
    follower.sync_changes()
    assert read_recorded_nodes(database) == {"cn1", "cn2"}


def test_no_advice_to_delete_the_provider_of_an_unreadable_node(follower, nova, database, settings):
    half = nova.add_host("cn1", free_disk_gb=None)
    broken = nova.add_host("cn2", cpu_info="{", stats="{")
    add_provider(database, half, "cn1")
    add_provider(database, broken, "cn2")
    findings = follower.sync_all()
    assert CloudFault.PROVIDER_WITHOUT_NODE not in find_cloud_faults(database, settings, findings)


def test_node_without_uuid_is_reported(follower, nova):
    nova.add_host("cn1")
    nova.cells["one"].change("compute_nodes", {"host": "cn1"}, uuid=None)
    reasons = get_issue_reasons_by_place(follower.sync_all())
    (reason,) = [text for place, text in reasons.items() if "of host cn1" in place]
    assert "it has no uuid" in reason


def test_service_without_node_and_unknown_aggregate_host_are_reported(
    follower, nova, database, settings
):
    nova.add_host("cn1")
    nova.add_host("cn2")
    nova.cells["one"].remove("compute_nodes", host="cn2")
    nova.add_aggregate("racks", ("cn1", "cn9"))
    problems = find_cloud_faults(database, settings, follower.sync_all())
    assert problems[CloudFault.SERVICE_WITHOUT_NODE] == ("cn2",)
    assert problems[CloudFault.AGGREGATE_OF_NO_HOST] == ("cn9 of racks",)


@pytest.mark.all_databases
def test_sync_comparison_writes_nothing_and_names_each_difference(follower, nova, database):
    nova.add_host("cn1")
    uuid = nova.add_instance("cn1")
    nova.add_aggregate("racks", ("cn1",))
    first = follower.compare()
    with database.read() as connection:
        assert services.search(connection) == ()
        assert instances.search(connection) == ()
        assert cells.list_cells(connection) == ()
    assert {
        (difference.noun, difference.kind, difference.name) for difference in first.differences
    } == {
        ("cells", "new", "one"),
        ("services", "new", "cn1"),
        ("compute nodes", "new", "cn1"),
        ("host aggregates", "new", "racks"),
        ("instances", "new", uuid),
    }
    follower.sync_all()
    nova.cells["one"].change("instances", {"uuid": uuid}, host="cn2")
    (unlike,) = follower.compare().differences
    assert (unlike.kind, unlike.name, unlike.fields) == ("changed", uuid, ("host",))
