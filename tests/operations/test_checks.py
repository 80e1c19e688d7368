# SPDX-License-Identifier: Apache-2.0
"""Output and exit status of ``placement audit --invariants``."""

from datetime import datetime

import pytest
from sqlalchemy import delete, select, text, update

from placement_sched.db import tables
from tests.operations.repairs import RepairCloud, build_consumer_uuid
from tests.support.statements import execute_without_foreign_keys

pytestmark = pytest.mark.slow


@pytest.fixture
def cloud(app, capsys, database_url, monkeypatch):
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", database_url)
    return add_instance_with_allocations(RepairCloud(app, capsys))


@pytest.fixture
def sqlite_cloud(sqlite_app, capsys, sqlite_url, monkeypatch):
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", sqlite_url)
    return add_instance_with_allocations(RepairCloud(sqlite_app, capsys))


def add_instance_with_allocations(cloud: RepairCloud) -> RepairCloud:
    cloud.record(1)
    cloud.allocate(1)
    return cloud


def test_invariants_audit_exits_with_0_if_all_invariants_hold(cloud):
    assert cloud.run("audit", "--invariants") == (0, "all invariants hold\n", "")
    document = cloud.document("audit", "--invariants")
    assert document == {
        "code": 0,
        "checked": {
            "providers": 2,
            "inventories": 6,
            "allocations": 1,
            "consumers": 1,
            "aggregates": 0,
        },
        "violations": [],
        "allowed": [],
        "more_of": [],
    }


def test_invariants_audit_exits_with_7_and_prints_violations(cloud, database):
    execute_without_foreign_keys(database, delete(tables.consumers))
    expected = f"consumer {build_consumer_uuid(1)} has allocations but no record"
    assert cloud.run("audit", "--invariants") == (
        7,
        f"allocation_without_consumer: {expected}\n1 broken invariant of 1 kind\n",
        "",
    )
    document = cloud.document("audit", "--invariants")
    assert document["violations"] == [
        {"invariant": "allocation_without_consumer", "detail": expected}
    ]


def test_invariants_audit_prints_a_shrunk_inventory_as_allowed(sqlite_cloud, sqlite_database):
    classes = tables.resource_classes.c
    vcpu = select(classes.id).where(classes.name == "VCPU").scalar_subquery()
    shrunk = update(tables.inventories).where(tables.inventories.c.resource_class_id == vcpu)
    later = datetime.fromisoformat("2038-01-01T12:00:00")
    execute_without_foreign_keys(
        sqlite_database, shrunk.values(total=1, allocation_ratio=0.5, updated_at=later)
    )
    status, printed, _ = sqlite_cloud.run("audit", "--invariants", "--verbose")
    assert status == 0
    first, *allowed, last = printed.splitlines()
    assert first == (
        "checked in a single snapshot: 2 providers, 6 inventories, 1 allocations, 1 consumers, "
        "0 aggregates"
    )
    assert last == "all invariants hold"
    assert [line.split(" cn1")[0] for line in allowed] == [
        "allowed: over_capacity: 1 VCPU of provider"
    ]
    assert (
        sqlite_cloud.document("audit", "--invariants")["allowed"][0]["invariant"] == "over_capacity"
    )


@pytest.mark.parametrize(
    "option",
    [
        ("--delete",),
        ("--resource_provider", "00000000-0000-0000-0000-000000000001"),
        ("--instances-are-all-recorded",),
    ],
    ids=lambda option: option[0],
)
def test_invariants_audit_rejects_options_of_the_orphan_audit(sqlite_cloud, option):
    status, printed, complaint = sqlite_cloud.run("audit", "--invariants", *option)
    assert (status, printed) == (127, "")
    assert complaint == f"placement-sched: --invariants and {option[0]} exclude each other\n"


def test_invariants_audit_reports_an_invalid_time_in_one_line(sqlite_cloud, sqlite_database):
    broken = text(
        "UPDATE inventories SET total = 1, allocation_ratio = 0.5, updated_at = 'yesterday'"
    )
    execute_without_foreign_keys(sqlite_database, broken)
    status, printed, complaint = sqlite_cloud.run("audit", "--invariants")
    assert (status, printed) == (127, "")
    assert complaint.startswith("placement-sched: the database has a time that cannot be read: ")
    assert complaint.count("\n") == 1
