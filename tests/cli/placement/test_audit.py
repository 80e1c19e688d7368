# SPDX-License-Identifier: Apache-2.0
"""``placement audit`` finds what no recorded instance holds, and deletes it if asked."""

import pytest

from placement_sched.cli.main import main
from tests.support.openstack_databases import NEWEST, stamp
from tests.support.repairs import Cloud, uuid
from tests.support.reports import build_report, node_uuid

pytestmark = pytest.mark.slow

CN1, CN2 = node_uuid(1), node_uuid(2)


@pytest.fixture
def cloud(app, capsys, database_url, monkeypatch):
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", database_url)
    return recording(Cloud(app, capsys))


@pytest.fixture
def small(sqlite_app, capsys, sqlite_url, monkeypatch):
    """The cloud on SQLite alone."""
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", sqlite_url)
    return recording(Cloud(sqlite_app, capsys))


def recording(cloud):
    """Record an instance: where none is, no consumer can be judged."""
    cloud.record(99)
    return cloud


def test_a_cloud_in_order_is_clean(cloud):
    cloud.record(1)
    cloud.allocate(1)
    assert cloud.document("audit") == {"code": 0, "orphaned": [], "consumers": 0, "deleted": 0}
    assert cloud.run("audit", "--delete")[:2] == (0, "no orphaned allocations\n")


def test_what_no_instance_holds_is_found_and_left(cloud):
    cloud.record(1)
    cloud.allocate(1)
    gone = cloud.allocate(2, {CN1: {"VCPU": 1, "MEMORY_MB": 512}, CN2: {"DISK_GB": 3}})
    found = cloud.document("audit")
    assert (found["code"], found["consumers"], found["deleted"]) == (3, 1, 0)
    assert [
        (one["consumer"], one["resource_provider"], one["resources"]) for one in found["orphaned"]
    ] == [(gone, CN1, {"VCPU": 1, "MEMORY_MB": 512}), (gone, CN2, {"DISK_GB": 3})]
    assert cloud.held(2) != {}


def test_delete_frees_orphans_and_nothing_else(cloud):
    cloud.record(1)
    cloud.allocate(1)
    cloud.allocate(2)
    cloud.allocate(3, kind="MIGRATION")
    assert cloud.document("audit", "--delete")["code"] == 4
    assert [cloud.held(number) for number in (1, 2, 3)] == [
        {CN1: {"VCPU": 1}},
        {},
        {CN1: {"VCPU": 1}},
    ]
    assert cloud.document("audit", "--delete")["code"] == 0


@pytest.mark.all_databases
def test_of_one_provider_only_what_is_held_there_is_deleted(cloud):
    cloud.allocate(2, {CN1: {"VCPU": 1}, CN2: {"DISK_GB": 3}})
    assert cloud.document("audit", "--resource_provider", CN2, "--delete")["code"] == 4
    assert cloud.held(2) == {CN1: {"VCPU": 1}}
    assert cloud.document("audit", "--resource_provider", CN2)["code"] == 0
    assert cloud.document("audit")["code"] == 3


def test_children_of_compute_nodes_are_looked_at_and_foreign_providers_are_not(cloud):
    child, storage = node_uuid(11), node_uuid(12)
    for body in (
        {"uuid": child, "name": "cn1-gpu", "parent_provider_uuid": CN1},
        {"uuid": storage, "name": "storage"},
    ):
        cloud.app.post_json(
            "/placement/resource_providers",
            body,
            headers={"OpenStack-API-Version": "placement 1.38"},
        )
    for provider in (child, storage):
        cloud.app.put_json(
            f"/placement/resource_providers/{provider}/inventories",
            {"resource_provider_generation": 0, "inventories": {"VGPU": {"total": 4}}},
            headers={"OpenStack-API-Version": "placement 1.38"},
        )
    # Of a provider that neither is a host's nor shares it is not known whose it is.
    cloud.app.put_json(
        f"/placement/resource_providers/{storage}/traits",
        {"resource_provider_generation": 1, "traits": ["MISC_SHARES_VIA_AGGREGATE"]},
        headers={"OpenStack-API-Version": "placement 1.38"},
    )
    cloud.allocate(2, {child: {"VGPU": 1}})
    cloud.allocate(3, {storage: {"VGPU": 1}})
    assert [one["resource_provider"] for one in cloud.document("audit")["orphaned"]] == [child]
    assert cloud.document("audit", "--resource-provider", storage)["consumers"] == 1


def test_it_tells_in_words_who_holds_what(small):
    small.allocate(2, {CN1: {"VCPU": 1, "MEMORY_MB": 512}})
    status, printed, _ = small.run("audit", "--delete", "--verbose")
    assert status == 4
    held = "512 MEMORY_MB, 1 VCPU"
    assert printed.splitlines() == [
        "checked every compute node",
        f"consumer {uuid(2)} is not a recorded instance and holds {held} of cn1 ({CN1})",
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
def test_wrong_input_is_127_and_one_line(small, arguments):
    status, printed, told = small.run("audit", *arguments)
    assert (status, printed) == (127, "")
    assert told.startswith("placement-sched")
    assert told.count("\n") == 1


def test_what_was_not_expected_is_1(monkeypatch, capsys):
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", "postgresql://127.0.0.1:1/none")
    assert main(["placement", "audit"]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def force_down(cloud, host, *, down=True):
    version = {"OpenStack-API-Version": "compute 2.11"}
    body = {"host": host, "binary": "nova-compute", "forced_down": down}
    cloud.app.put_json("/compute/v2.1/os-services/force-down", body, headers=version)


def test_allocations_that_an_evacuated_instance_left_are_found_and_deleted(cloud):
    cloud.record(1, on=2)
    cloud.allocate(1, {CN1: {"VCPU": 1}, CN2: {"VCPU": 1}})
    assert cloud.document("audit")["orphaned"] == []  # a host that is up deletes them itself
    force_down(cloud, "cn1")
    (found,) = cloud.document("audit")["orphaned"]
    assert (found["consumer"], found["resource_provider"]) == (uuid(1), CN1)
    assert found["runs_on"] == "cn2"
    printed = cloud.run("audit")[1]
    assert f"instance {uuid(1)} is on cn2 now and holds 1 VCPU of cn1" in printed
    assert cloud.document("audit", "--resource_provider", CN2)["orphaned"] == []
    assert cloud.document("audit", "--delete")["deleted"] == 1
    assert cloud.held(1) == {CN2: {"VCPU": 1}}
    assert cloud.document("audit")["code"] == 0


def test_instance_that_is_being_evacuated_keeps_its_allocations(cloud):
    """It is recorded on the host that is down until the evacuation is done."""
    cloud.record(1, on=1)
    cloud.allocate(1, {CN1: {"VCPU": 1}, CN2: {"VCPU": 1}})
    force_down(cloud, "cn1")
    assert cloud.document("audit", "--delete")["code"] == 0
    assert len(cloud.held(1)) == 2


def reasons(document):
    return {one["consumer"]: (one["reason"], one["about"]) for one in document["not_judged"]}


@pytest.fixture
def unrecorded(app, capsys, database_url, monkeypatch):
    """A cloud in which no instance is recorded."""
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", database_url)
    return Cloud(app, capsys)


def test_where_no_instance_is_recorded_nothing_is_deleted(unrecorded):
    unrecorded.allocate(1)
    unrecorded.allocate(2, {CN1: {"VCPU": 1}, CN2: {"DISK_GB": 3}})
    found = unrecorded.document("audit")
    assert (found["code"], found["orphaned"], found["consumers"]) == (6, [], 0)
    assert reasons(found) == {
        uuid(1): ("no_instance_recorded", ["cn1"]),
        uuid(2): ("no_instance_recorded", ["cn1", "cn2"]),
    }
    assert unrecorded.document("audit", "--delete")["code"] == 6
    assert unrecorded.document("audit", "--resource_provider", CN1, "--delete")["code"] == 6
    assert [unrecorded.held(number) for number in (1, 2)] == [
        {CN1: {"VCPU": 1}},
        {CN1: {"VCPU": 1}, CN2: {"DISK_GB": 3}},
    ]


def test_an_operator_may_vouch_for_the_records(unrecorded):
    unrecorded.allocate(1)
    assert unrecorded.document("audit", "--instances-are-all-recorded")["code"] == 3
    document = unrecorded.document("audit", "--delete", "--instances-are-all-recorded")
    assert (document["code"], document["deleted"]) == (4, 1)
    assert unrecorded.held(1) == {}


def test_what_the_last_instance_of_a_host_left_is_found(cloud):
    """An instance is recorded elsewhere, so instances are recorded in this database."""
    cloud.allocate(2, {CN2: {"VCPU": 1}})
    assert cloud.document("audit", "--delete")["code"] == 4
    assert cloud.held(2) == {}


def allocate_without_type(cloud, number, provider):
    cloud.app.put_json(
        f"/placement/allocations/{uuid(number)}",
        {
            "allocations": {provider: {"resources": {"VCPU": 1}}},
            "project_id": "p",
            "user_id": "u",
            "consumer_generation": None,
        },
        headers={"OpenStack-API-Version": "placement 1.36"},
    )


@pytest.mark.parametrize("provider", [CN1, CN2], ids=["instances recorded", "none recorded"])
@pytest.mark.parametrize("more", [(), ("--instances-are-all-recorded",)], ids=["", "vouched"])
def test_consumer_without_a_type_is_reported_and_kept(cloud, provider, more):
    """Nova's instances and migrations have no type, such as a resize that is not confirmed."""
    allocate_without_type(cloud, 2, provider)
    cloud.allocate(3)
    document = cloud.document("audit", "--delete", *more)
    assert (document["code"], document["deleted"]) == (6, 1)
    host = "cn1" if provider == CN1 else "cn2"
    assert reasons(document) == {uuid(2): ("no_consumer_type", [host])}
    assert (cloud.held(2), cloud.held(3)) == ({provider: {"VCPU": 1}}, {})


def test_hint_for_a_consumer_without_a_type_does_not_vouch_for_it(small):
    allocate_without_type(small, 2, CN1)
    status, printed, told = small.run("audit", "--delete")
    assert status == 6
    assert "not verified: 1 consumer of cn1: they have no consumer type" in printed
    assert "--consumer" in told
    assert "--instances-are-all-recorded" not in told


def test_consumer_that_is_named_is_deleted_unless_it_is_an_instance(small):
    for number in (1, 2, 3):
        allocate_without_type(small, number, CN1)
    small.record(1)
    named = ("--consumer", uuid(1), "--consumer", uuid(2))
    status, printed, _ = small.run("audit", "--delete", *named)
    assert status == 6
    assert f"consumer {uuid(1)} is a recorded instance" in printed
    assert [bool(small.held(number)) for number in (1, 2, 3)] == [True, False, True]
    assert small.run("audit", "--consumer", "cn1")[0] == 127


@pytest.mark.parametrize(("reported", "code"), [("1", 4), ("2", 6)])
def test_a_host_that_reports_more_instances_than_are_recorded_is_not_judged(small, reported, code):
    small.app.post_json(
        "/scheduler/v1/compute_nodes", [build_report(1, stats={"num_instances": 1})]
    )
    small.app.post_json(
        "/scheduler/v1/compute_nodes", [build_report(2, stats={"num_instances": reported})]
    )
    small.record(1, on=2)
    small.allocate(2, {CN2: {"VCPU": 1}})
    small.allocate(3)
    document = small.document("audit", "--delete")
    assert document["code"] == code
    assert bool(small.held(2)) is (code == 6)
    assert small.held(3) == {}
    if code == 6:
        assert reasons(document) == {uuid(2): ("host_reports_more", ["cn2"])}


def test_what_also_holds_of_a_host_that_does_not_report_is_not_judged(small):
    """As an instance that nova evacuates from one host to the other."""
    other = node_uuid(11)
    headers = {"OpenStack-API-Version": "placement 1.38"}
    small.app.post_json(
        "/placement/resource_providers", {"uuid": other, "name": "cn11"}, headers=headers
    )
    small.app.put_json(
        f"/placement/resource_providers/{other}/inventories",
        {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 4}}},
        headers=headers,
    )
    small.allocate(2, {CN1: {"VCPU": 1}, other: {"VCPU": 1}})
    document = small.document("audit", "--delete")
    assert reasons(document) == {uuid(2): ("provider_not_reported", ["cn11"])}
    assert len(small.held(2)) == 2


def test_it_says_in_words_why_it_does_not_judge_and_what_can_be_done(
    sqlite_app, capsys, sqlite_url, monkeypatch
):
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", sqlite_url)
    cloud = Cloud(sqlite_app, capsys)
    cloud.allocate(1)
    status, printed, told = cloud.run("audit", "--delete", "--verbose")
    assert status == 6
    assert printed.splitlines() == [
        "checked every compute node",
        f"consumer {uuid(1)} cannot be verified (cn1)",
        "not verified: 1 consumer of cn1: no instance is recorded in this database",
    ]
    assert told.count("\n") == 1
    assert "not deleted: the allocations of 1 consumer" in told
    assert "--instances-are-all-recorded" in told
    status, printed, told = cloud.run("audit")
    assert (status, told) == (6, "")
    assert printed.startswith("not verified: 1 consumer of cn1: ")
    assert printed.count("\n") == 1


def test_a_database_that_openstack_placement_made_is_not_judged(small, sqlite_database):
    """Though some of its instances are recorded here: others are nova's."""
    small.record(1)
    small.allocate(1)
    small.allocate(2)
    sqlite_database.write(lambda connection: stamp(connection, NEWEST))
    document = small.document("audit", "--delete")
    assert reasons(document) == {uuid(2): ("adopted_database", ["cn1"])}
    assert small.held(2) != {}
    assert small.document("audit", "--delete", "--instances-are-all-recorded")["deleted"] == 1
