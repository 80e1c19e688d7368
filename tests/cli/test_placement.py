# SPDX-License-Identifier: Apache-2.0
"""``placement audit``: orphaned allocations, and their deletion."""

import pytest

from placement_sched.cli.main import main
from tests.operations.repairs import RepairCloud, build_consumer_uuid
from tests.operations.repairs import cloud as cloud  # noqa: PLC0414 - a fixture
from tests.operations.repairs import cloud_without_instances as cloud_without_instances  # noqa: PLC0414 - a fixture
from tests.operations.repairs import sqlite_cloud as sqlite_cloud  # noqa: PLC0414 - a fixture
from tests.support.openstack_databases import NEWEST_REVISION, stamp_revision
from tests.support.reports import build_report, node_uuid
from tests.support.versions import LATEST_HEADERS

pytestmark = pytest.mark.slow

CN1_UUID, CN2_UUID = node_uuid(1), node_uuid(2)


def create_provider_with_inventories(cloud, number, **fields):
    """Create a provider with four units of VGPU and VCPU each, and return its uuid."""
    provider = node_uuid(number)
    body = {"uuid": provider, "name": f"cn{number}", **fields}
    cloud.app.post_json("/placement/resource_providers", body, headers=LATEST_HEADERS)
    inventories = {name: {"total": 4} for name in ("VGPU", "VCPU")}
    body = {"resource_provider_generation": 0, "inventories": inventories}
    path = f"/placement/resource_providers/{provider}/inventories"
    cloud.app.put_json(path, body, headers=LATEST_HEADERS)
    return provider


def test_placement_audit_of_a_consistent_cloud_finds_nothing(cloud):
    cloud.record(1)
    cloud.allocate(1)
    assert cloud.document("audit") == {"code": 0, "orphaned": [], "consumers": 0, "deleted": 0}
    assert cloud.run("audit", "--delete")[:2] == (0, "no orphaned allocations\n")


def test_placement_audit_lists_orphaned_allocations_without_deleting(cloud):
    cloud.record(1)
    cloud.allocate(1)
    gone = cloud.allocate(2, {CN1_UUID: {"VCPU": 1, "MEMORY_MB": 512}, CN2_UUID: {"DISK_GB": 3}})
    document = cloud.document("audit")
    assert (document["code"], document["consumers"], document["deleted"]) == (3, 1, 0)
    assert [
        (orphan["consumer"], orphan["resource_provider"], orphan["resources"])
        for orphan in document["orphaned"]
    ] == [(gone, CN1_UUID, {"VCPU": 1, "MEMORY_MB": 512}), (gone, CN2_UUID, {"DISK_GB": 3})]
    assert cloud.read_allocations(2) != {}


def test_placement_audit_delete_option_removes_only_orphaned_allocations(cloud):
    cloud.record(1)
    cloud.allocate(1)
    cloud.allocate(2)
    cloud.allocate(3, kind="MIGRATION")
    assert cloud.document("audit", "--delete")["code"] == 4
    assert [cloud.read_allocations(number) for number in (1, 2, 3)] == [
        {CN1_UUID: {"VCPU": 1}},
        {},
        {CN1_UUID: {"VCPU": 1}},
    ]
    assert cloud.document("audit", "--delete")["code"] == 0


@pytest.mark.all_databases
def test_placement_audit_deletes_only_allocations_of_the_named_provider(cloud):
    cloud.allocate(2, {CN1_UUID: {"VCPU": 1}, CN2_UUID: {"DISK_GB": 3}})
    assert cloud.document("audit", "--resource_provider", CN2_UUID, "--delete")["code"] == 4
    assert cloud.read_allocations(2) == {CN1_UUID: {"VCPU": 1}}
    assert cloud.document("audit", "--resource_provider", CN2_UUID)["code"] == 0
    assert cloud.document("audit")["code"] == 3


def test_placement_audit_checks_only_provider_trees_of_compute_nodes(cloud):
    child, storage = (
        create_provider_with_inventories(cloud, 11, parent_provider_uuid=CN1_UUID),
        create_provider_with_inventories(cloud, 12),
    )
    # Allocations on a provider without a host are audited only if it is a sharing provider.
    body = {"resource_provider_generation": 1, "traits": ["MISC_SHARES_VIA_AGGREGATE"]}
    path = f"/placement/resource_providers/{storage}/traits"
    cloud.app.put_json(path, body, headers=LATEST_HEADERS)
    cloud.allocate(2, {child: {"VGPU": 1}})
    cloud.allocate(3, {storage: {"VGPU": 1}})
    (orphan,) = cloud.document("audit")["orphaned"]
    assert orphan["resource_provider"] == child
    assert cloud.document("audit", "--resource-provider", storage)["consumers"] == 1


def test_verbose_placement_audit_prints_consumers_and_their_allocations(sqlite_cloud):
    sqlite_cloud.allocate(2, {CN1_UUID: {"VCPU": 1, "MEMORY_MB": 512}})
    status, printed, _ = sqlite_cloud.run("audit", "--delete", "--verbose")
    assert status == 4
    held = "512 MEMORY_MB, 1 VCPU"
    assert printed.splitlines() == [
        "checked every compute node",
        (
            f"consumer {build_consumer_uuid(2)} is not a recorded instance and holds {held} of cn1 "
            f"({CN1_UUID})"
        ),
        "orphaned: the allocations of 1 consumer; deleted: 1",
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--resource_provider", "no-uuid"),
        ("--resource_provider", node_uuid(7)),
        ("--no-such-option",),
        ("--format", "xml"),
    ],
    ids=" ".join,
)
def test_invalid_option_of_placement_audit_exits_with_127(sqlite_cloud, arguments):
    status, printed, error = sqlite_cloud.run("audit", *arguments)
    assert (status, printed) == (127, "")
    assert error.startswith("placement-sched")
    assert error.count("\n") == 1


def test_placement_audit_without_a_database_exits_with_1(monkeypatch, capsys):
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", "postgresql://127.0.0.1:1/none")
    assert main(["placement", "audit"]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def set_forced_down_of_host(cloud, host, *, is_down=True):
    version = {"OpenStack-API-Version": "compute 2.11"}
    body = {"host": host, "binary": "nova-compute", "forced_down": is_down}
    cloud.app.put_json("/compute/v2.1/os-services/force-down", body, headers=version)


def test_placement_audit_deletes_allocations_left_by_an_evacuation(cloud):
    cloud.record(1, on=2)
    cloud.allocate(1, {CN1_UUID: {"VCPU": 1}, CN2_UUID: {"VCPU": 1}})
    assert cloud.document("audit")["orphaned"] == []  # a host that is up deletes them itself
    set_forced_down_of_host(cloud, "cn1")
    (orphan,) = cloud.document("audit")["orphaned"]
    assert (orphan["consumer"], orphan["resource_provider"]) == (build_consumer_uuid(1), CN1_UUID)
    assert orphan["runs_on"] == "cn2"
    printed = cloud.run("audit")[1]
    assert f"instance {build_consumer_uuid(1)} is on cn2 now and holds 1 VCPU of cn1" in printed
    assert cloud.document("audit", "--resource_provider", CN2_UUID)["orphaned"] == []
    assert cloud.document("audit", "--delete")["deleted"] == 1
    assert cloud.read_allocations(1) == {CN2_UUID: {"VCPU": 1}}
    assert cloud.document("audit")["code"] == 0


def test_placement_audit_keeps_allocations_of_an_evacuating_instance(cloud):
    """Until the evacuation ends, it is recorded on the host that is down."""
    cloud.record(1, on=1)
    cloud.allocate(1, {CN1_UUID: {"VCPU": 1}, CN2_UUID: {"VCPU": 1}})
    set_forced_down_of_host(cloud, "cn1")
    assert cloud.document("audit", "--delete")["code"] == 0
    assert len(cloud.read_allocations(1)) == 2


def get_skip_reasons_by_consumer(document):
    return {row["consumer"]: (row["reason"], row["about"]) for row in document["not_verified"]}


def test_placement_audit_deletes_nothing_if_no_instance_is_recorded(cloud_without_instances):
    cloud_without_instances.allocate(1)
    cloud_without_instances.allocate(2, {CN1_UUID: {"VCPU": 1}, CN2_UUID: {"DISK_GB": 3}})
    document = cloud_without_instances.document("audit")
    assert (document["code"], document["orphaned"], document["consumers"]) == (6, [], 0)
    assert get_skip_reasons_by_consumer(document) == {
        build_consumer_uuid(1): ("no_instance_recorded", ["cn1"]),
        build_consumer_uuid(2): ("no_instance_recorded", ["cn1", "cn2"]),
    }
    assert cloud_without_instances.document("audit", "--delete")["code"] == 6
    assert (
        cloud_without_instances.document("audit", "--resource_provider", CN1_UUID, "--delete")[
            "code"
        ]
        == 6
    )
    assert [cloud_without_instances.read_allocations(number) for number in (1, 2)] == [
        {CN1_UUID: {"VCPU": 1}},
        {CN1_UUID: {"VCPU": 1}, CN2_UUID: {"DISK_GB": 3}},
    ]


def test_orphans_are_deleted_without_recorded_instances_only_by_option(cloud_without_instances):
    cloud_without_instances.allocate(1)
    assert cloud_without_instances.document("audit", "--instances-are-all-recorded")["code"] == 3
    document = cloud_without_instances.document("audit", "--delete", "--instances-are-all-recorded")
    assert (document["code"], document["deleted"]) == (4, 1)
    assert cloud_without_instances.read_allocations(1) == {}


def test_allocations_left_by_the_last_instance_of_a_host_are_deleted(cloud):
    """The recorded instance is on another host."""
    cloud.allocate(2, {CN2_UUID: {"VCPU": 1}})
    assert cloud.document("audit", "--delete")["code"] == 4
    assert cloud.read_allocations(2) == {}


def allocate_vcpu_without_consumer_type(cloud, number, provider):
    body = {"project_id": "p", "user_id": "u", "consumer_generation": None}
    body["allocations"] = {provider: {"resources": {"VCPU": 1}}}
    headers = {"OpenStack-API-Version": "placement 1.36"}
    cloud.app.put_json(
        f"/placement/allocations/{build_consumer_uuid(number)}", body, headers=headers
    )


@pytest.mark.parametrize(
    "provider", [CN1_UUID, CN2_UUID], ids=["instances recorded", "none recorded"]
)
@pytest.mark.parametrize("options", [(), ("--instances-are-all-recorded",)], ids=["", "vouched"])
def test_consumer_without_consumer_type_is_reported_and_kept(cloud, provider, options):
    """For example nova's instances, and migrations such as an unconfirmed resize."""
    allocate_vcpu_without_consumer_type(cloud, 2, provider)
    cloud.allocate(3)
    document = cloud.document("audit", "--delete", *options)
    assert (document["code"], document["deleted"]) == (6, 1)
    host = "cn1" if provider == CN1_UUID else "cn2"
    assert get_skip_reasons_by_consumer(document) == {
        build_consumer_uuid(2): ("no_consumer_type", [host])
    }
    assert (cloud.read_allocations(2), cloud.read_allocations(3)) == ({provider: {"VCPU": 1}}, {})


def test_error_about_consumers_without_type_names_the_consumer_option(sqlite_cloud):
    allocate_vcpu_without_consumer_type(sqlite_cloud, 2, CN1_UUID)
    status, printed, error = sqlite_cloud.run("audit", "--delete")
    assert status == 6
    assert "not verified: 1 consumer of cn1: they have no consumer type" in printed
    assert "--consumer" in error
    assert "--instances-are-all-recorded" not in error


def test_consumer_option_restricts_the_audit_to_a_consumer(sqlite_cloud):
    for number in (1, 2, 3):
        allocate_vcpu_without_consumer_type(sqlite_cloud, number, CN1_UUID)
    sqlite_cloud.allocate(4)  # an orphan
    named = ("--consumer", build_consumer_uuid(2), "--consumer", build_consumer_uuid(1).upper())
    assert sqlite_cloud.document("audit", *named)["consumers"] == 2
    status, printed, _ = sqlite_cloud.run("audit", "--delete", "--verbose", *named)
    assert status == 4
    checked = f"checked consumer {build_consumer_uuid(2)}, consumer {build_consumer_uuid(1)}\n"
    assert printed.startswith(checked)
    assert [bool(sqlite_cloud.read_allocations(number)) for number in (1, 2, 3, 4)] == [
        False,
        False,
        True,
        True,
    ]
    assert sqlite_cloud.run("audit", "--consumer", "cn1")[0] == 127


def test_consumer_option_rejects_the_deletion_of_a_recorded_instance(sqlite_cloud):
    for number in (1, 2):
        allocate_vcpu_without_consumer_type(sqlite_cloud, number, CN1_UUID)
    sqlite_cloud.record(1)
    named = ("--consumer", build_consumer_uuid(1), "--consumer", build_consumer_uuid(2))
    status, printed, error = sqlite_cloud.run("audit", "--delete", *named)
    assert (status, printed) == (127, "")
    assert f"consumer {build_consumer_uuid(1)} is the instance" in error
    assert "nothing was deleted" in error
    assert sqlite_cloud.read_allocations(1)
    assert sqlite_cloud.read_allocations(2)
    printed = sqlite_cloud.run("audit", *named)[1]
    assert f"consumer {build_consumer_uuid(1)} is a recorded instance" in printed


def test_consumer_without_orphaned_allocations_is_listed_with_the_reason(sqlite_cloud):
    sqlite_cloud.record(1)
    sqlite_cloud.allocate(2, kind="MIGRATION")
    provider = {"uuid": node_uuid(9), "name": "no node"}
    headers = {"OpenStack-API-Version": "placement 1.38"}
    sqlite_cloud.app.post_json("/placement/resource_providers", provider, headers=headers)
    inventories = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 8}}}
    path = f"/placement/resource_providers/{node_uuid(9)}/inventories"
    sqlite_cloud.app.put_json(path, inventories, headers=headers)
    sqlite_cloud.allocate(3, {node_uuid(9): {"VCPU": 1}})
    reasons = (
        "is a recorded instance",
        "has the type MIGRATION",
        "has no allocations from the audited providers",
        "has no allocations",
    )
    lines = [f"consumer {build_consumer_uuid(n)} {text}" for n, text in enumerate(reasons, 1)]
    named = [word for n in (1, 2, 3, 4) for word in ("--consumer", build_consumer_uuid(n))]
    status, printed, _ = sqlite_cloud.run("audit", *named)
    assert (status, printed.splitlines()) == (0, [*lines, "no orphaned allocations"])


def test_uuid_without_an_option_is_answered_with_the_options(sqlite_cloud):
    for command, options in (
        ("audit", "--resource_provider, --consumer"),
        ("heal_allocations", "--instance"),
    ):
        status, _, error = sqlite_cloud.run(command, build_consumer_uuid(1))
        assert (status, f"(a uuid needs an option: {options}) (see" in error) == (127, True)


@pytest.mark.parametrize(("reported", "code"), [("1", 4), ("2", 6)])
def test_consumer_on_a_host_that_reports_more_instances_than_recorded_is_skipped(
    sqlite_cloud, reported, code
):
    sqlite_cloud.app.post_json(
        "/scheduler/v1/compute_nodes", [build_report(1, stats={"num_instances": 1})]
    )
    sqlite_cloud.app.post_json(
        "/scheduler/v1/compute_nodes", [build_report(2, stats={"num_instances": reported})]
    )
    sqlite_cloud.record(1, on=2)
    sqlite_cloud.allocate(2, {CN2_UUID: {"VCPU": 1}})
    sqlite_cloud.allocate(3)
    document = sqlite_cloud.document("audit", "--delete")
    assert document["code"] == code
    assert bool(sqlite_cloud.read_allocations(2)) is (code == 6)
    assert sqlite_cloud.read_allocations(3) == {}
    if code == 6:
        assert get_skip_reasons_by_consumer(document) == {
            build_consumer_uuid(2): ("host_reports_more", ["cn2"])
        }


def test_audit_skips_a_consumer_on_a_provider_without_node_report(sqlite_cloud):
    """For example an instance that nova evacuates to another host."""
    other = create_provider_with_inventories(sqlite_cloud, 11)
    sqlite_cloud.allocate(2, {CN1_UUID: {"VCPU": 1}, other: {"VCPU": 1}})
    document = sqlite_cloud.document("audit", "--delete")
    assert get_skip_reasons_by_consumer(document) == {
        build_consumer_uuid(2): ("provider_not_reported", ["cn11"])
    }
    assert len(sqlite_cloud.read_allocations(2)) == 2


def test_placement_audit_prints_the_fix_for_skipped_consumers(
    sqlite_app, capsys, sqlite_url, monkeypatch
):
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", sqlite_url)
    cloud = RepairCloud(sqlite_app, capsys)
    cloud.allocate(1)
    status, printed, error = cloud.run("audit", "--delete", "--verbose")
    assert status == 6
    assert printed.splitlines() == [
        "checked every compute node",
        f"consumer {build_consumer_uuid(1)} cannot be verified (cn1)",
        "not verified: 1 consumer of cn1: no instance is recorded in this database",
    ]
    assert error.count("\n") == 1
    assert "not deleted: the allocations of 1 consumer" in error
    assert "--instances-are-all-recorded" in error
    status, printed, error = cloud.run("audit")
    assert (status, error) == (6, "")
    assert printed.startswith("not verified: 1 consumer of cn1: ")
    assert printed.count("\n") == 1


def test_audit_deletes_nothing_in_an_openstack_database_without_an_option(
    sqlite_cloud, sqlite_database
):
    """The database also has instances that are not recorded."""
    sqlite_cloud.record(1)
    sqlite_cloud.allocate(1)
    sqlite_cloud.allocate(2)
    sqlite_database.write(lambda connection: stamp_revision(connection, NEWEST_REVISION))
    document = sqlite_cloud.document("audit", "--delete")
    assert get_skip_reasons_by_consumer(document) == {
        build_consumer_uuid(2): ("adopted_database", ["cn1"])
    }
    assert sqlite_cloud.read_allocations(2) != {}
    assert (
        sqlite_cloud.document("audit", "--delete", "--instances-are-all-recorded")["deleted"] == 1
    )
