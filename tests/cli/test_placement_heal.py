# SPDX-License-Identifier: Apache-2.0
"""``placement heal_allocations`` creates the allocations that flavors require."""

from uuid import UUID

import pytest
from sqlalchemy import delete

from placement_sched.cli.main import main
from placement_sched.db.tables import consumers
from placement_sched.operations import repair as operation
from tests.operations.repairs import (
    CELL_UUID,
    FLAVOR,
    FLAVOR_RESOURCES,
    RepairCloud,
    build_consumer_uuid,
)
from tests.support.openstack_databases import NEWEST_REVISION, stamp_revision
from tests.support.reports import node_uuid
from tests.support.statements import execute_statements

pytestmark = pytest.mark.slow

CN1_UUID, CN2_UUID = node_uuid(1), node_uuid(2)
INCOMPLETE_PROJECT_ID = "00000000-0000-0000-0000-000000000000"


@pytest.fixture
def cloud(app, capsys, database_url, monkeypatch):
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", database_url)
    return RepairCloud(app, capsys)


@pytest.fixture
def sqlite_cloud(sqlite_app, capsys, sqlite_url, monkeypatch):
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", sqlite_url)
    return RepairCloud(sqlite_app, capsys)


def heal_and_get_status(cloud, *arguments: str) -> int:
    return cloud.run("heal_allocations", *arguments)[0]


def heal_and_get_outcomes(cloud, *arguments: str) -> dict[str, str]:
    rows = cloud.document("heal_allocations", *arguments)["instances"]
    return {result["uuid"]: result["outcome"] for result in rows}


def test_heal_allocations_claims_resources_of_the_flavor(cloud):
    cloud.record(1)
    cloud.record(2, 2)
    cloud.allocate(2, {CN2_UUID: {"VCPU": 1}})
    assert heal_and_get_status(cloud) == 0
    assert cloud.read_allocations(1) == {CN1_UUID: FLAVOR_RESOURCES}
    assert cloud.read_allocations(2) == {CN2_UUID: {"VCPU": 1}}
    assert heal_and_get_status(cloud) == 4


def test_healed_allocations_belong_to_the_instance_and_its_project(cloud):
    cloud.record(1)
    heal_and_get_status(cloud)
    response = cloud.app.get(
        f"/placement/allocations/{build_consumer_uuid(1)}",
        headers={"OpenStack-API-Version": "placement 1.38"},
    ).json
    assert (response["project_id"], response["user_id"], response["consumer_type"]) == (
        "p",
        "u",
        "INSTANCE",
    )


def test_healed_allocations_have_amounts_of_the_extra_specs(sqlite_cloud):
    specs = {"resources:VCPU": "0", "resources:MEMORY_MB": "4", "trait:HW_CPU_X86_AVX": "required"}
    sqlite_cloud.record(1, flavor={**FLAVOR, "extra_specs": specs})
    assert heal_and_get_status(sqlite_cloud) == 0
    assert sqlite_cloud.read_allocations(1) == {CN1_UUID: {"MEMORY_MB": 4, "DISK_GB": 6}}


@pytest.mark.parametrize(("swap", "disk"), [(0, 8), (1, 9), (1024, 9), (1025, 10), (4096, 12)])
def test_healed_disk_has_root_ephemeral_and_swap_in_whole_gb(sqlite_cloud, swap, disk):
    flavor = {**FLAVOR, "root_gb": 5, "ephemeral_gb": 3, "swap": swap}
    sqlite_cloud.record(1, flavor=flavor)
    assert heal_and_get_status(sqlite_cloud) == 0
    assert sqlite_cloud.read_allocations(1)[CN1_UUID]["DISK_GB"] == disk


@pytest.mark.parametrize("key", ["resources:VGPU", "accel:device_profile"])
def test_heal_allocations_fails_for_devices_as_nova_manage(sqlite_cloud, key):
    sqlite_cloud.record(1, flavor={**FLAVOR, "extra_specs": {key: "1"}})
    (result,) = sqlite_cloud.document("heal_allocations")["instances"]
    assert result["outcome"] == "failed"
    assert f"its flavor has {key}, and the devices" in result["reason"]
    assert sqlite_cloud.read_allocations(1) == {}


def test_healed_allocations_of_a_volume_backed_instance_have_no_root_disk(
    sqlite_cloud, sqlite_database
):
    sqlite_cloud.app.post_json(
        "/scheduler/v1/select_destinations",
        {
            "request_spec": {
                "flavor": FLAVOR,
                "is_bfv": True,
                "instance_uuids": [build_consumer_uuid(1)],
            }
        },
    )
    sqlite_cloud.app.delete(f"/placement/allocations/{build_consumer_uuid(1)}")
    execute_statements(sqlite_database, "DELETE FROM sched_decisions")
    assert heal_and_get_status(sqlite_cloud) == 0
    ((_, amounts),) = sqlite_cloud.read_allocations(1).items()
    assert amounts == {**FLAVOR_RESOURCES, "DISK_GB": 1}


def test_heal_allocations_dry_run_writes_nothing(cloud):
    cloud.record(1)
    document = cloud.document("heal_allocations", "--dry-run")
    assert document == {
        "code": 4,
        "instances": [
            {
                "uuid": build_consumer_uuid(1),
                "outcome": "created",
                "allocations": {CN1_UUID: FLAVOR_RESOURCES},
                "reason": None,
            }
        ],
    }
    assert cloud.read_allocations(1) == {}


@pytest.mark.parametrize(
    "changes",
    [{"task_state": "resize_prep"}, {"host": None}, {"node": None}],
    ids=["in a task", "without host", "without node"],
)
def test_heal_allocations_skips_an_instance_in_a_task_or_without_a_node(sqlite_cloud, changes):
    sqlite_cloud.record(1, **changes)
    assert heal_and_get_outcomes(sqlite_cloud) == {build_consumer_uuid(1): "skipped"}
    assert heal_and_get_status(sqlite_cloud) == 4


def test_max_count_of_heal_allocations_limits_instances_and_exits_with_1(cloud):
    for number in range(1, 6):
        cloud.record(number)
    assert heal_and_get_status(cloud, "--max-count", "2") == 1
    assert [bool(cloud.read_allocations(number)) for number in range(1, 6)] == [True] * 2 + [
        False
    ] * 3
    assert heal_and_get_status(cloud, "--max-count", "2") == 1
    assert heal_and_get_status(cloud, "--max-count", "1") == 0
    assert heal_and_get_status(cloud, "--max-count", "1") == 4


def test_max_count_of_heal_allocations_excludes_skipped_instances(sqlite_cloud, monkeypatch):
    monkeypatch.setattr(operation, "BATCH", 2)
    for number in range(1, 5):
        sqlite_cloud.record(number, task_state="spawning")
    sqlite_cloud.record(5)
    sqlite_cloud.record(6, task_state="spawning")
    assert heal_and_get_status(sqlite_cloud, "--max-count", "1") == 0
    assert sqlite_cloud.read_allocations(5) == {CN1_UUID: FLAVOR_RESOURCES}


def test_heal_allocations_of_an_unknown_node_exits_with_2_after_other_instances(cloud):
    cloud.record(1, 7)
    cloud.record(2)
    found = heal_and_get_outcomes(cloud)
    assert found == {build_consumer_uuid(1): "no compute node", build_consumer_uuid(2): "created"}
    assert heal_and_get_status(cloud) == 2


def test_heal_allocations_dry_run_with_an_unknown_node_exits_with_2(sqlite_cloud):
    sqlite_cloud.record(1, flavor={**FLAVOR, "vcpus": 33})
    assert heal_and_get_status(sqlite_cloud, "--dry-run") == 4
    sqlite_cloud.record(2, 7)
    assert heal_and_get_status(sqlite_cloud, "--dry-run") == 2
    assert heal_and_get_status(sqlite_cloud) == 3


def test_heal_allocations_without_capacity_exits_with_3_after_other_instances(cloud):
    cloud.record(1)
    cloud.record(2, flavor={**FLAVOR, "vcpus": 33})
    cloud.record(3)
    status, printed, _ = cloud.run("heal_allocations")
    assert status == 3
    assert (
        f"instance {build_consumer_uuid(2)}: failed: Unable to allocate inventory: Unable to create"
        " allocation" in printed
    )
    assert printed.endswith("2 instances healed, 1 failed\n")
    assert [cloud.read_allocations(number) for number in (1, 2, 3)] == [
        {CN1_UUID: FLAVOR_RESOURCES},
        {},
        {CN1_UUID: FLAVOR_RESOURCES},
    ]


@pytest.mark.parametrize(
    ("flavor", "reason"),
    [
        (None, "its flavor is unknown"),
        ("gone", "its flavor is unknown"),
        ({"name": "none", "vcpus": 0, "memory_mb": 0}, "its flavor requests no resources"),
        ({**FLAVOR, "extra_specs": {"trait:low": "required"}}, "flavor extra spec 'trait:low'"),
        ({**FLAVOR, "extra_specs": {"resources:CUSTOM_NO": "1"}}, "No such resource class"),
    ],
    ids=["none", "only named", "empty", "wrong", "unknown class"],
)
def test_heal_allocations_without_flavor_amounts_exits_with_3(sqlite_cloud, flavor, reason):
    sqlite_cloud.record(1, flavor=flavor)
    status, printed, _ = sqlite_cloud.run("heal_allocations")
    assert status == 3
    assert reason in printed


def test_force_option_of_heal_allocations_replaces_allocations(cloud):
    cloud.record(1)
    cloud.allocate(1)
    assert heal_and_get_status(cloud, "--instance", build_consumer_uuid(1)) == 4
    assert cloud.read_allocations(1) == {CN1_UUID: {"VCPU": 1}}
    assert (
        heal_and_get_status(cloud, "--instance", build_consumer_uuid(1), "--force", "--dry-run")
        == 4
    )
    assert heal_and_get_status(cloud, "--instance", build_consumer_uuid(1), "--force") == 0
    assert cloud.read_allocations(1) == {CN1_UUID: FLAVOR_RESOURCES}


def test_force_option_of_heal_allocations_does_not_exceed_capacity(sqlite_cloud):
    sqlite_cloud.record(1, flavor={**FLAVOR, "vcpus": 33})
    sqlite_cloud.allocate(1)
    assert heal_and_get_status(sqlite_cloud, "--instance", build_consumer_uuid(1), "--force") == 3
    assert sqlite_cloud.read_allocations(1) == {CN1_UUID: {"VCPU": 1}}


def test_instance_option_of_heal_allocations_heals_only_this_instance(sqlite_cloud):
    sqlite_cloud.record(1)
    sqlite_cloud.record(2)
    assert (
        heal_and_get_status(
            sqlite_cloud, "--instance", build_consumer_uuid(2).upper(), "--max-count", "1"
        )
        == 0
    )
    assert [sqlite_cloud.read_allocations(1), sqlite_cloud.read_allocations(2)] == [
        {},
        {CN1_UUID: FLAVOR_RESOURCES},
    ]


def test_cell_option_of_heal_allocations_heals_only_instances_of_the_cell(cloud):
    cloud.record(1, 1)
    cloud.record(2, 2)
    assert heal_and_get_status(cloud, "--cell", CELL_UUID, "--skip-port-allocations") == 0
    assert [cloud.read_allocations(1), cloud.read_allocations(2)] == [
        {},
        {CN2_UUID: FLAVOR_RESOURCES},
    ]


def test_incomplete_project_of_allocations_is_replaced_by_that_of_the_instance(cloud):
    cloud.record(1)
    cloud.allocate(1, project=INCOMPLETE_PROJECT_ID)
    assert heal_and_get_outcomes(cloud) == {build_consumer_uuid(1): "updated"}
    assert heal_and_get_outcomes(cloud) == {}
    usages = cloud.app.get(
        "/placement/usages?project_id=p", headers={"OpenStack-API-Version": "placement 1.37"}
    )
    assert usages.json["usages"] == {"VCPU": 1}


@pytest.mark.all_databases
def test_missing_consumer_of_allocations_is_created_from_the_instance(cloud, database):
    cloud.record(1)
    cloud.allocate(1)
    database.write(lambda connection: connection.execute(delete(consumers)))
    assert heal_and_get_outcomes(cloud) == {build_consumer_uuid(1): "updated"}
    assert cloud.read_allocations(1) == {CN1_UUID: {"VCPU": 1}}


def test_incomplete_project_of_allocations_remains_if_the_instance_has_none(sqlite_cloud):
    sqlite_cloud.record(1, project_id=None)
    sqlite_cloud.allocate(1, project=INCOMPLETE_PROJECT_ID)
    assert heal_and_get_outcomes(sqlite_cloud) == {build_consumer_uuid(1): "skipped"}


@pytest.mark.parametrize(
    "arguments",
    [
        ("--max-count", "0"),
        ("--max-count", "-1"),
        ("--max-count", "many"),
        ("--instance", build_consumer_uuid(1), "--cell", CELL_UUID),
        ("--force",),
        ("--instance", "no-uuid"),
        ("--instance", build_consumer_uuid(9)),
        ("--cell", "no-uuid"),
        ("--cell", str(UUID(int=98))),
        ("--no-such-option",),
    ],
    ids=" ".join,
)
def test_invalid_option_of_heal_allocations_exits_with_127(sqlite_cloud, arguments):
    status, printed, error = sqlite_cloud.run("heal_allocations", *arguments)
    assert (status, printed) == (127, "")
    assert error.startswith("placement-sched")
    assert error.count("\n") == 1


def test_heal_allocations_without_a_database_exits_with_255(monkeypatch, capsys):
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", "postgresql://127.0.0.1:1/none")
    assert main(["placement", "heal_allocations"]) == 255
    assert capsys.readouterr().err.count("\n") == 1


def test_verbose_heal_allocations_prints_skipped_instances(sqlite_cloud):
    sqlite_cloud.record(1, task_state="spawning")
    sqlite_cloud.record(2)
    _, printed, _ = sqlite_cloud.run("heal_allocations", "--dry-run", "--verbose")
    assert printed.splitlines() == [
        f"instance {build_consumer_uuid(1)}: skipped: it is in the task state spawning",
        (
            f"instance {build_consumer_uuid(2)}: would be created: 6 DISK_GB, 1024 MEMORY_MB, "
            f"2 VCPU of {CN1_UUID}"
        ),
        "1 instance would be healed, 0 failed",
    ]


def test_database_of_openstack_placement_is_healed_only_by_option(sqlite_cloud, sqlite_database):
    """An instance without allocations may have been deleted by nova since it was recorded."""
    sqlite_cloud.record(1)
    sqlite_cloud.record(2)
    sqlite_database.write(lambda connection: stamp_revision(connection, NEWEST_REVISION))
    status, printed, error = sqlite_cloud.run("heal_allocations")
    assert (status, printed, error.count("\n")) == (9, "", 1)
    assert "--instances-are-all-recorded" in error
    assert (sqlite_cloud.read_allocations(1), sqlite_cloud.read_allocations(2)) == ({}, {})
    assert heal_and_get_status(sqlite_cloud, "--dry-run") == 4
    assert heal_and_get_status(sqlite_cloud, "--instance", build_consumer_uuid(1)) == 0
    assert (sqlite_cloud.read_allocations(1), sqlite_cloud.read_allocations(2)) == (
        {CN1_UUID: FLAVOR_RESOURCES},
        {},
    )
    assert heal_and_get_status(sqlite_cloud, "--instances-are-all-recorded") == 0
    assert sqlite_cloud.read_allocations(2) == {CN1_UUID: FLAVOR_RESOURCES}
