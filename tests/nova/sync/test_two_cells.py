# SPDX-License-Identifier: Apache-2.0
"""Hosts, nodes and instances in two cells: the rows of the mapped cell count."""

import pytest

from placement_sched.model.clock import utcnow
from placement_sched.operations.cloud_check import CloudFault, check_cloud
from placement_sched.store.placement import resource_providers
from placement_sched.store.placement.resource_providers import NewProvider
from tests.support.nova_clouds import seconds_ago

#: The mapped cell is the newer or the older cell.
both_ways = pytest.mark.parametrize(("stale", "healthy"), [("one", "two"), ("two", "one")])


@pytest.fixture
def cloud(two_cell_cloud):
    return two_cell_cloud


@pytest.fixture
def read_host_of(read_instances):
    return lambda uuid: getattr(read_instances().get(uuid), "host", None)


def add_host_to_both_cells(cloud, stale, healthy, **node):
    first = cloud.add_host("cn1", stale, disabled=True, last_seen_up=seconds_ago(9000), **node)
    cloud.api.remove("host_mappings", host="cn1")
    return first, cloud.add_host("cn1", healthy, **node)


def get_issue_reasons_by_place(findings):
    return {issue.place: issue.reason for issue in findings.issues}


@both_ways
def test_rows_of_the_mapped_cell_are_used(
    make_follower, cloud, read_node_uuids, read_service, stale, healthy
):
    first, second = add_host_to_both_cells(cloud, stale, healthy)
    follower = make_follower(cloud)
    reasons = get_issue_reasons_by_place(follower.full())
    for _ in range(2):
        assert read_node_uuids() == {"cn1": second}
        assert not read_service("cn1").disabled
        assert read_service("cn1").last_seen_up >= seconds_ago(60)
        follower.refresh()
        follower.round()
    left_out = f"nova maps its host to cell {healthy}"
    assert reasons[f"compute node cn1 ({first}) of cell {stale}"] == f"it is left out: {left_out}"
    assert reasons[f"nova-compute of host cn1 (cell {stale})"] == left_out


@both_ways
def test_records_of_the_wrong_cell_are_corrected(
    make_follower, cloud, read_node_uuids, read_service, stale, healthy
):
    first = cloud.add_host("cn1", stale, last_seen_up=seconds_ago(9000))
    follower = make_follower(cloud)
    follower.full()
    assert read_node_uuids() == {"cn1": first}
    cloud.api.remove("host_mappings", host="cn1")
    second = cloud.add_host("cn1", healthy)
    assert follower.compare().differing
    follower.round()
    assert read_node_uuids() == {"cn1": second}
    assert read_service("cn1").last_seen_up >= seconds_ago(60)
    settled = follower.compare()
    assert settled.differing == 0
    assert f"compute node cn1 ({first}) of cell {stale}" in get_issue_reasons_by_place(settled)


def test_process_without_background_sync_reads_the_newly_mapped_cell_of_a_host(
    make_follower, cloud, read_node_uuids, read_service
):
    cloud.add_host("cn1", "one", last_seen_up=seconds_ago(9000))
    keeper, worker = make_follower(cloud), make_follower(cloud)
    keeper.full()
    worker.refresh()
    cloud.api.remove("host_mappings", host="cn1")
    second = cloud.add_host("cn1", "two")
    for step in (keeper.round, worker.refresh, keeper.round, worker.refresh):
        step()
        assert read_node_uuids() == {"cn1": second}
        assert read_service("cn1").last_seen_up >= seconds_ago(60)


def test_unmapped_host_in_two_cells_is_read_from_the_older_cell(
    make_follower, cloud, read_node_uuids
):
    first, _ = add_host_to_both_cells(cloud, "one", "two")
    cloud.api.remove("host_mappings", host="cn1")
    follower = make_follower(cloud)
    follower.full()
    assert read_node_uuids() == {"cn1": first}
    compared = follower.compare()
    assert compared.differing == 0
    assert any("cell two" in issue.place for issue in compared.issues)


def test_host_without_a_row_in_its_mapped_cell_is_skipped(make_follower, cloud, read_node_uuids):
    add_host_to_both_cells(cloud, "one", "two")
    for table in ("compute_nodes", "services"):
        cloud.cells["two"].remove(table, host="cn1")
    make_follower(cloud).full()
    assert read_node_uuids() == {}


def test_no_advice_to_delete_providers_of_a_host_in_two_cells(
    make_follower, cloud, database, settings
):
    first, second = add_host_to_both_cells(cloud, "one", "two")
    rows = [NewProvider(second, "cn1"), NewProvider(first, "cn1 before")]
    database.write(lambda connection: resource_providers.create_many(connection, rows, utcnow()))
    unread = make_follower(cloud).full().unread
    with database.read() as connection:
        problems = check_cloud(connection, settings, utcnow, unread=unread)
    assert CloudFault.PROVIDER_WITHOUT_NODE not in {problem.kind for problem in problems}


@both_ways
def test_node_uuid_in_two_cells_belongs_to_the_mapped_cell(
    make_follower, cloud, read_nodes, stale, healthy
):
    uuid, _ = add_host_to_both_cells(
        cloud, stale, healthy, uuid="6d0b2d6e-0000-4000-8000-000000000001"
    )
    cloud.cells[healthy].change("compute_nodes", {"uuid": uuid}, vcpus_used=7)
    follower = make_follower(cloud)
    for step in (follower.full, follower.round, follower.full):
        step()
        assert [node.vcpus_used for node in read_nodes().values()] == [7]
    assert follower.compare().differing == 0


def test_node_uuid_of_two_hosts_belongs_to_the_recorded_host_until_deleted(
    make_follower, cloud, read_node_uuids
):
    uuid = cloud.add_host("cn2", "two")
    follower = make_follower(cloud)
    follower.full()
    cloud.add_host("cn1", "one", uuid=uuid)
    reasons = get_issue_reasons_by_place(follower.full())
    assert read_node_uuids() == {"cn2": uuid}
    reason = "it is left out: cell two has a node of the same uuid"
    assert reasons[f"compute node cn1 ({uuid}) of cell one"] == reason
    assert follower.compare().differing == 0
    cloud.cells["two"].remove("compute_nodes", uuid=uuid)
    for _ in range(2):
        follower.full()
    assert read_node_uuids() == {"cn1": uuid}


def test_node_that_moves_to_another_cell_is_updated(make_follower, cloud, read_node_uuids):
    uuid = cloud.add_host("cn1", "two")
    follower = make_follower(cloud)
    follower.full()
    for table in ("compute_nodes", "services"):
        cloud.cells["two"].remove(table, host="cn1")
    cloud.api.remove("host_mappings", host="cn1")
    cloud.add_host("cn1", "one", uuid=uuid)
    follower.round()
    assert read_node_uuids() == {"cn1": uuid}
    assert follower.compare().differing == 0


@both_ways
@pytest.mark.parametrize("name", ["cn1", "cn1.example.org"])
def test_sync_round_applies_a_changed_mapping(
    make_follower, cloud, read_node_uuids, stale, healthy, name
):
    cloud.add_host("cn1", stale)
    follower = make_follower(cloud)
    follower.full()
    cloud.api.change("host_mappings", {"host": "cn1"}, cell_id=cloud.numbers[healthy])
    follower.round()
    assert read_node_uuids() == {}
    uuid = cloud.add_host("cn1", healthy, hypervisor_hostname=name)
    follower.round()
    assert read_node_uuids() == {name: uuid}


@both_ways
def test_unavailable_cell_keeps_no_node_of_a_host_mapped_elsewhere(
    make_follower, cloud, read_nodes, stale, healthy
):
    uuid = cloud.add_host("cn1", stale)
    follower = make_follower(cloud)
    follower.full()
    cloud.api.remove("host_mappings", host="cn1")
    cloud.add_host("cn1", healthy, uuid=uuid, vcpus_used=7)
    away = "sqlite:////nonexistent/x.db"
    cloud.api.change("cell_mappings", {"name": stale}, database_connection=away)
    for step in (follower.round, follower.full, follower.refresh):
        step()
        assert [node.vcpus_used for node in read_nodes().values()] == [7]


@both_ways
def test_instance_deleted_in_its_mapped_cell_is_removed(
    make_follower, cloud, read_host_of, stale, healthy
):
    cloud.add_host("cn1", stale)
    cloud.add_host("cn2", healthy)
    uuid = cloud.add_instance("cn1", stale)
    cloud.api.remove("instance_mappings", instance_uuid=uuid)
    cloud.add_instance("cn2", healthy, uuid=uuid)
    follower = make_follower(cloud)
    follower.full()
    assert read_host_of(uuid) == "cn2"
    cloud.cells[healthy].change("instances", {"uuid": uuid}, vm_state="deleted")
    cloud.cells[healthy].delete_softly("instances", uuid=uuid)
    for step in (follower.round, follower.full, follower.round):
        step()
        assert read_host_of(uuid) is None


@both_ways
def test_instance_in_two_cells_is_read_from_its_mapped_cell(
    make_follower, cloud, read_host_of, stale, healthy
):
    cloud.add_host("cn1", stale)
    cloud.add_host("cn2", healthy)
    uuid = cloud.add_instance("cn1", stale)
    follower = make_follower(cloud)
    follower.full()
    cloud.api.remove("instance_mappings", instance_uuid=uuid)
    cloud.add_instance("cn2", healthy, uuid=uuid)
    findings = follower.full()
    assert read_host_of(uuid) == "cn2"
    reason = "several cells have it: the cell that nova maps it to counts"
    assert get_issue_reasons_by_place(findings)[f"instance {uuid}"] == reason
    cloud.cells[stale].change("instances", {"uuid": uuid}, display_name="stale")
    follower.round()
    assert read_host_of(uuid) == "cn2"
    assert follower.compare().differing == 0


def test_instance_missing_in_its_mapped_cell_stays_in_its_cell(make_follower, cloud, read_host_of):
    cloud.add_host("cn1", "one")
    uuid = cloud.add_instance("cn1", "one")
    cloud.api.change("instance_mappings", {"instance_uuid": uuid}, cell_id=cloud.numbers["two"])
    follower = make_follower(cloud)
    for step in (follower.full, follower.round):
        step()
        assert read_host_of(uuid) == "cn1"
