# SPDX-License-Identifier: Apache-2.0
"""Hosts, nodes and instances in two cells: the rows of the mapped cell count."""

import pytest

from placement_sched.model.clock import utcnow
from placement_sched.operations.checks import CloudFault, check_cloud
from placement_sched.store.placement import resource_providers
from placement_sched.store.placement.resource_providers import NewProvider
from tests.support.nova_clouds import seconds_ago

#: The mapped cell is the newer or the older cell.
parametrize_stale_and_healthy_cell = pytest.mark.parametrize(
    ("stale", "healthy"), [("one", "two"), ("two", "one")]
)


@pytest.fixture
def read_host_of_instance(read_instances):
    return lambda uuid: getattr(read_instances().get(uuid), "host", None)


def add_host_to_both_cells(two_cell_cloud, stale, healthy, **node):
    first = two_cell_cloud.add_host(
        "cn1", stale, disabled=True, last_seen_up=seconds_ago(9000), **node
    )
    two_cell_cloud.api.remove("host_mappings", host="cn1")
    return first, two_cell_cloud.add_host("cn1", healthy, **node)


def get_issue_reasons_by_place(findings):
    return {issue.place: issue.reason for issue in findings.issues}


@parametrize_stale_and_healthy_cell
def test_rows_of_the_mapped_cell_are_used(
    make_follower, two_cell_cloud, read_node_uuids, read_service, stale, healthy
):
    first, second = add_host_to_both_cells(two_cell_cloud, stale, healthy)
    follower = make_follower(two_cell_cloud)
    reasons = get_issue_reasons_by_place(follower.sync_all())
    for _ in range(2):
        assert read_node_uuids() == {"cn1": second}
        assert not read_service("cn1").disabled
        assert read_service("cn1").last_seen_up >= seconds_ago(60)
        follower.refresh()
        follower.sync_changes()
    left_out = f"nova maps its host to cell {healthy}"
    assert reasons[f"compute node cn1 ({first}) of cell {stale}"] == f"it is left out: {left_out}"
    assert reasons[f"nova-compute of host cn1 (cell {stale})"] == left_out


@parametrize_stale_and_healthy_cell
def test_records_of_the_wrong_cell_are_corrected(
    make_follower, two_cell_cloud, read_node_uuids, read_service, stale, healthy
):
    first = two_cell_cloud.add_host("cn1", stale, last_seen_up=seconds_ago(9000))
    follower = make_follower(two_cell_cloud)
    follower.sync_all()
    assert read_node_uuids() == {"cn1": first}
    two_cell_cloud.api.remove("host_mappings", host="cn1")
    second = two_cell_cloud.add_host("cn1", healthy)
    assert follower.compare().differing
    follower.sync_changes()
    assert read_node_uuids() == {"cn1": second}
    assert read_service("cn1").last_seen_up >= seconds_ago(60)
    settled = follower.compare()
    assert settled.differing == 0
    assert f"compute node cn1 ({first}) of cell {stale}" in get_issue_reasons_by_place(settled)


def test_process_without_background_sync_reads_the_newly_mapped_cell_of_a_host(
    make_follower, two_cell_cloud, read_node_uuids, read_service
):
    two_cell_cloud.add_host("cn1", "one", last_seen_up=seconds_ago(9000))
    keeper, worker = make_follower(two_cell_cloud), make_follower(two_cell_cloud)
    keeper.sync_all()
    worker.refresh()
    two_cell_cloud.api.remove("host_mappings", host="cn1")
    second = two_cell_cloud.add_host("cn1", "two")
    for step in (keeper.sync_changes, worker.refresh, keeper.sync_changes, worker.refresh):
        step()
        assert read_node_uuids() == {"cn1": second}
        assert read_service("cn1").last_seen_up >= seconds_ago(60)


def test_unmapped_host_in_two_cells_is_read_from_the_older_cell(
    make_follower, two_cell_cloud, read_node_uuids
):
    first, _ = add_host_to_both_cells(two_cell_cloud, "one", "two")
    two_cell_cloud.api.remove("host_mappings", host="cn1")
    follower = make_follower(two_cell_cloud)
    follower.sync_all()
    assert read_node_uuids() == {"cn1": first}
    compared = follower.compare()
    assert compared.differing == 0
    assert any("cell two" in issue.place for issue in compared.issues)


def test_host_without_a_row_in_its_mapped_cell_is_skipped(
    make_follower, two_cell_cloud, read_node_uuids
):
    add_host_to_both_cells(two_cell_cloud, "one", "two")
    for table in ("compute_nodes", "services"):
        two_cell_cloud.cells["two"].remove(table, host="cn1")
    make_follower(two_cell_cloud).sync_all()
    assert read_node_uuids() == {}


def test_no_advice_to_delete_providers_of_a_host_in_two_cells(
    make_follower, two_cell_cloud, database, settings
):
    first, second = add_host_to_both_cells(two_cell_cloud, "one", "two")
    rows = [NewProvider(second, "cn1"), NewProvider(first, "cn1 before")]
    database.write(lambda connection: resource_providers.create_many(connection, rows, utcnow()))
    unread = make_follower(two_cell_cloud).sync_all().unread
    with database.read() as connection:
        problems = check_cloud(connection, settings, utcnow, unread=unread)
    assert CloudFault.PROVIDER_WITHOUT_NODE not in {problem.kind for problem in problems}


@parametrize_stale_and_healthy_cell
def test_node_uuid_in_two_cells_belongs_to_the_mapped_cell(
    make_follower, two_cell_cloud, read_compute_nodes, stale, healthy
):
    uuid, _ = add_host_to_both_cells(
        two_cell_cloud, stale, healthy, uuid="6d0b2d6e-0000-4000-8000-000000000001"
    )
    two_cell_cloud.cells[healthy].change("compute_nodes", {"uuid": uuid}, vcpus_used=7)
    follower = make_follower(two_cell_cloud)
    for step in (follower.sync_all, follower.sync_changes, follower.sync_all):
        step()
        assert [node.vcpus_used for node in read_compute_nodes().values()] == [7]
    assert follower.compare().differing == 0


def test_node_uuid_of_two_hosts_belongs_to_the_recorded_host_until_deleted(
    make_follower, two_cell_cloud, read_node_uuids
):
    uuid = two_cell_cloud.add_host("cn2", "two")
    follower = make_follower(two_cell_cloud)
    follower.sync_all()
    two_cell_cloud.add_host("cn1", "one", uuid=uuid)
    reasons = get_issue_reasons_by_place(follower.sync_all())
    assert read_node_uuids() == {"cn2": uuid}
    reason = "it is left out: cell two has a node of the same uuid"
    assert reasons[f"compute node cn1 ({uuid}) of cell one"] == reason
    assert follower.compare().differing == 0
    two_cell_cloud.cells["two"].remove("compute_nodes", uuid=uuid)
    for _ in range(2):
        follower.sync_all()
    assert read_node_uuids() == {"cn1": uuid}


def test_node_uuid_of_two_mapped_hosts_belongs_to_the_host_that_is_up(
    make_follower, two_cell_cloud, read_node_uuids
):
    uuid = two_cell_cloud.add_host("cn2", "two")
    follower = make_follower(two_cell_cloud)
    follower.sync_all()
    two_cell_cloud.add_host("cn1", "one", uuid=uuid)
    for up, down in (("cn1", "cn2"), ("cn2", "cn1")):
        for host, age in ((up, 0), (down, 9000)):
            cell = two_cell_cloud.cells[{"cn1": "one", "cn2": "two"}[host]]
            cell.change("services", {"host": host}, last_seen_up=seconds_ago(age))
        for _ in range(2):
            follower.sync_all()
            assert read_node_uuids() == {up: uuid}
        assert follower.compare().differing == 0


def test_node_that_moves_to_another_cell_is_updated(make_follower, two_cell_cloud, read_node_uuids):
    uuid = two_cell_cloud.add_host("cn1", "two")
    follower = make_follower(two_cell_cloud)
    follower.sync_all()
    for table in ("compute_nodes", "services"):
        two_cell_cloud.cells["two"].remove(table, host="cn1")
    two_cell_cloud.api.remove("host_mappings", host="cn1")
    two_cell_cloud.add_host("cn1", "one", uuid=uuid)
    follower.sync_changes()
    assert read_node_uuids() == {"cn1": uuid}
    assert follower.compare().differing == 0


@parametrize_stale_and_healthy_cell
@pytest.mark.parametrize("name", ["cn1", "cn1.example.org"])
def test_sync_round_applies_a_changed_mapping(
    make_follower, two_cell_cloud, read_node_uuids, stale, healthy, name
):
    two_cell_cloud.add_host("cn1", stale)
    follower = make_follower(two_cell_cloud)
    follower.sync_all()
    two_cell_cloud.api.change(
        "host_mappings", {"host": "cn1"}, cell_id=two_cell_cloud.numbers[healthy]
    )
    follower.sync_changes()
    assert read_node_uuids() == {}
    uuid = two_cell_cloud.add_host("cn1", healthy, hypervisor_hostname=name)
    follower.sync_changes()
    assert read_node_uuids() == {name: uuid}


@parametrize_stale_and_healthy_cell
def test_unavailable_cell_keeps_no_node_of_a_host_mapped_elsewhere(
    make_follower, two_cell_cloud, read_compute_nodes, stale, healthy
):
    uuid = two_cell_cloud.add_host("cn1", stale)
    follower = make_follower(two_cell_cloud)
    follower.sync_all()
    two_cell_cloud.api.remove("host_mappings", host="cn1")
    two_cell_cloud.add_host("cn1", healthy, uuid=uuid, vcpus_used=7)
    away = "sqlite:////nonexistent/x.db"
    two_cell_cloud.api.change("cell_mappings", {"name": stale}, database_connection=away)
    for step in (follower.sync_changes, follower.sync_all, follower.refresh):
        step()
        assert [node.vcpus_used for node in read_compute_nodes().values()] == [7]


@parametrize_stale_and_healthy_cell
def test_instance_deleted_in_its_mapped_cell_is_removed(
    make_follower, two_cell_cloud, read_host_of_instance, stale, healthy
):
    two_cell_cloud.add_host("cn1", stale)
    two_cell_cloud.add_host("cn2", healthy)
    uuid = two_cell_cloud.add_instance("cn1", stale)
    two_cell_cloud.api.remove("instance_mappings", instance_uuid=uuid)
    two_cell_cloud.add_instance("cn2", healthy, uuid=uuid)
    follower = make_follower(two_cell_cloud)
    follower.sync_all()
    assert read_host_of_instance(uuid) == "cn2"
    two_cell_cloud.cells[healthy].change("instances", {"uuid": uuid}, vm_state="deleted")
    two_cell_cloud.cells[healthy].delete_softly("instances", uuid=uuid)
    for step in (follower.sync_changes, follower.sync_all, follower.sync_changes):
        step()
        assert read_host_of_instance(uuid) is None


@parametrize_stale_and_healthy_cell
def test_instance_in_two_cells_is_read_from_its_mapped_cell(
    make_follower, two_cell_cloud, read_host_of_instance, stale, healthy
):
    two_cell_cloud.add_host("cn1", stale)
    two_cell_cloud.add_host("cn2", healthy)
    uuid = two_cell_cloud.add_instance("cn1", stale)
    follower = make_follower(two_cell_cloud)
    follower.sync_all()
    two_cell_cloud.api.remove("instance_mappings", instance_uuid=uuid)
    two_cell_cloud.add_instance("cn2", healthy, uuid=uuid)
    findings = follower.sync_all()
    assert read_host_of_instance(uuid) == "cn2"
    reason = "several cells have it: the cell that nova maps it to counts"
    assert get_issue_reasons_by_place(findings)[f"instance {uuid}"] == reason
    two_cell_cloud.cells[stale].change("instances", {"uuid": uuid}, display_name="stale")
    follower.sync_changes()
    assert read_host_of_instance(uuid) == "cn2"
    assert follower.compare().differing == 0


def test_instance_missing_in_its_mapped_cell_stays_in_its_cell(
    make_follower, two_cell_cloud, read_host_of_instance
):
    two_cell_cloud.add_host("cn1", "one")
    uuid = two_cell_cloud.add_instance("cn1", "one")
    two_cell_cloud.api.change(
        "instance_mappings", {"instance_uuid": uuid}, cell_id=two_cell_cloud.numbers["two"]
    )
    follower = make_follower(two_cell_cloud)
    for step in (follower.sync_all, follower.sync_changes):
        step()
        assert read_host_of_instance(uuid) == "cn1"
