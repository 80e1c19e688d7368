# SPDX-License-Identifier: Apache-2.0
"""Parsing of the aggregates and instances that nova-api and nova-compute announce."""

from datetime import datetime

import pytest

from placement_sched.model.instance import HostInstance
from placement_sched.nova.objects import (
    UnknownVersion,
    UnreadableObject,
    aggregate_of,
    aggregates_of,
    primitive_of,
)
from placement_sched.nova.rpc import host_of, image_of, instances_of, uuid_of, uuids_of
from tests.nova.wire.recorded import paths_in, recorded_object, with_changed

UUID = "AAAAAAAA-0000-4000-8000-000000000001"
INSTANCES, AGGREGATE = recorded_object("instances"), recorded_object("aggregate")


def build_instance(**data):
    listed = primitive_of("InstanceList", {"objects": [primitive_of("Instance", data)]})
    (one,) = instances_of(listed)
    return one


def test_aggregate_keeps_novas_id_and_uuid():
    data = AGGREGATE["nova_object.data"]
    aggregate = aggregate_of(AGGREGATE)
    for name in ("id", "uuid", "name"):
        assert getattr(aggregate, name) == data[name]
    assert (aggregate.hosts, aggregate.metadata) == (frozenset(data["hosts"]), data["metadata"])


def test_aggregates_are_read_from_a_list_or_a_single_object():
    assert aggregates_of([AGGREGATE]) == aggregates_of(AGGREGATE) == [aggregate_of(AGGREGATE)]


def test_an_aggregate_without_hosts_metadata_and_times_is_empty():
    aggregate = aggregate_of(primitive_of("Aggregate", {"id": 1, "uuid": UUID, "name": "a"}))
    assert (aggregate.uuid, aggregate.created_at) == (UUID.lower(), None)
    assert (aggregate.hosts, aggregate.metadata) == (set(), {})


def test_aggregate_without_uuid_is_rejected():
    with pytest.raises(UnreadableObject, match=r"^aggregates\[0\]: Aggregate has no uuid$"):
        aggregates_of([primitive_of("Aggregate", {"id": 1, "name": "a"})])


def test_times_are_naive_utc():
    data = {"id": 1, "uuid": UUID, "name": "a", "created_at": "2026-01-02T03:04:05Z"}
    assert aggregate_of(primitive_of("Aggregate", data)).created_at == datetime(2026, 1, 2, 3, 4, 5)


def test_instances_of_a_compute_are_recorded():
    one, other = instances_of(INSTANCES)
    assert {one.host, other.host} == {"cn1"}
    assert HostInstance.recorded(one).node == "node1"


def test_instance_with_only_a_uuid_is_recorded():
    instance = build_instance(uuid=UUID)
    assert (instance.uuid, instance.display_name) == (UUID.lower(), UUID.lower())
    assert (instance.flavor, instance.image, instance.host) == (None, None, None)


def test_instance_without_flavor_has_the_sizes_of_its_columns():
    instance = build_instance(uuid=UUID, instance_type_id=3, vcpus=2, memory_mb=512, root_gb=1)
    assert HostInstance.recorded(instance).flavor.memory_mb == 512
    assert HostInstance.recorded(instance).flavor.ephemeral_gb == 0


def test_deleted_instances_are_skipped():
    deleted = primitive_of("Instance", {"uuid": UUID, "deleted": True})
    assert instances_of(primitive_of("InstanceList", {"objects": [deleted]})) == []


def test_unknown_major_version_of_instance_is_rejected_with_its_path():
    old = with_changed(INSTANCES, ("nova_object.data", "objects", 1, "nova_object.version"), "1.23")
    with pytest.raises(UnknownVersion, match=r"^instance_info\.objects\[1\]: version 1\.23 of Ins"):
        instances_of(old)


def test_image_is_the_boot_image():
    kept = {"image_hw_disk_bus": "virtio", "image_min_ram": "512", "image_disk_format": "raw"}
    assert image_of("i", {**kept, "owner_project_name": "p", "image_none": None}) == {
        "id": "i",
        "min_ram": 512,
        "disk_format": "raw",
        "properties": {"hw_disk_bus": "virtio"},
    }
    assert image_of("", {}) is None


@pytest.mark.parametrize("wrong", [None, 7, "x", [None, "x"], {"x": 1}])
def test_random_wrong_values_are_parsed_or_rejected(wrong):
    for path in paths_in(INSTANCES):
        try:
            instances_of(with_changed(INSTANCES, path, wrong))
        except UnreadableObject:
            continue
    for path in paths_in(AGGREGATE):
        try:
            aggregate_of(with_changed(AGGREGATE, path, wrong))
        except UnreadableObject:
            continue


def test_uuids_of_a_notification_are_normalized():
    assert (host_of("cn1"), uuids_of([UUID])) == ("cn1", [UUID.lower()])


@pytest.mark.parametrize(
    ("read", "sent", "reason"),
    [
        (host_of, None, "host_name is missing"),
        (host_of, "", "host_name is missing"),
        (host_of, ["cn1"], "host_name must be a string, not a list"),
        (uuid_of, None, "instance_uuid is missing"),
        (uuid_of, [UUID], "instance_uuid must be a string, not a list"),
        (uuids_of, "abc", "instance_uuids must be a list, not a string"),
        (uuids_of, {UUID: 1}, "instance_uuids must be a list, not an object"),
        (uuids_of, [UUID, 7], "instance_uuids[1] must be a string, not an integer"),
        (uuids_of, [None], "instance_uuids[0] must not be null"),
    ],
)
def test_notification_with_invalid_host_or_uuids_is_rejected(read, sent, reason):
    with pytest.raises(UnreadableObject) as refused:
        read(sent)
    assert refused.value.detail == reason
