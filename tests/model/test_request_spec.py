# SPDX-License-Identifier: Apache-2.0
"""Request specs with the names of nova."""

from dataclasses import replace

import pytest

from placement_sched.errors import Invalid, NotFound
from placement_sched.model.flavor import Flavor
from placement_sched.model.request_spec import Destination, TriedHost, parse_request_spec
from tests.support.scheduling import make_uuid

SMALL_FLAVOR = {
    "name": "m1",
    "vcpus": 2,
    "memory_mb": 512,
    "root_gb": 10,
    "ephemeral_gb": 1,
    "swap": 5,
}


def build_request_spec(**document):
    return parse_request_spec({"flavor": SMALL_FLAVOR, **document})


def test_request_spec_of_a_flavor_only_has_the_defaults_of_nova():
    spec = build_request_spec()
    assert (spec.num_instances, spec.instance_uuid, spec.instance_uuids) == (1, None, ())
    assert (spec.ignore_hosts, spec.force_hosts, spec.force_nodes) == ((), (), ())
    assert spec.requested_destination is spec.retry is spec.limits is spec.instance_group is None
    assert (spec.is_bfv, spec.availability_zone, spec.scheduler_hints) == (False, None, {})
    assert spec.destination == Destination()


def test_flavor_and_project_fields_are_read_from_the_request_spec():
    spec = build_request_spec(project_id="p", user_id="u", is_bfv=True, availability_zone="az1")
    assert (spec.vcpus, spec.memory_mb, spec.root_gb) == (2, 512, 10)
    assert (spec.ephemeral_gb, spec.swap) == (1, 5)
    assert (spec.project_id, spec.user_id) == ("p", "u")
    assert (spec.is_bfv, spec.availability_zone) == (True, "az1")


@pytest.mark.parametrize(
    ("document", "number", "first"),
    [
        ({"num_instances": 3}, 3, None),
        ({"num_instances": 3, "instance_uuids": ["a", "b"]}, 2, "a"),
        ({"instance_uuids": ["a"]}, 1, "a"),
        ({"instance_uuids": []}, 1, None),
    ],
)
def test_number_of_instance_uuids_overrides_num_instances(document, number, first):
    spec = build_request_spec(**document)
    assert (spec.num_instances, spec.instance_uuid) == (number, first)


INSTANCE_UUID = "0f0e0d0c-0b0a-0908-0706-050403020100"


@pytest.mark.parametrize("spelling", [INSTANCE_UUID.upper(), INSTANCE_UUID.replace("-", "")])
def test_instance_uuids_are_normalized(spelling):
    spec = build_request_spec(instance_uuids=["b", spelling]).with_instance(INSTANCE_UUID)
    assert spec.instance_uuid == INSTANCE_UUID
    spec = build_request_spec(instance_uuids=[spelling])
    assert (spec.instance_uuid, spec.instance_uuids) == (INSTANCE_UUID, (INSTANCE_UUID,))
    with pytest.raises(
        Invalid, match=rf"{INSTANCE_UUID} is repeated .*\$\.request_spec\.instance_uuids"
    ):
        build_request_spec(instance_uuids=[INSTANCE_UUID, spelling])


OPTIONAL_FIELDS = ["project_id", "availability_zone", "ignore_hosts", "force_hosts", "retry"]
OPTIONAL_FIELDS += ["requested_destination", "limits", "scheduler_hints", "requested_resources"]
OPTIONAL_FIELDS += ["request_level_params", "instance_group", "image", "num_instances"]


@pytest.mark.parametrize("field", OPTIONAL_FIELDS)
def test_null_field_of_a_request_spec_counts_as_absent(field):
    assert build_request_spec(**{field: None}) == build_request_spec()


def test_scheduler_hints_are_lists_and_single_hints_are_unpacked():
    spec = build_request_spec(
        scheduler_hints={"one": "a", "single": ["b"], "two": ["c", "d"], "none": []}
    )
    assert spec.scheduler_hints["one"] == ["a"]
    hints = [spec.get_scheduler_hint(name) for name in ("one", "single", "two", "none", "absent")]
    assert hints == ["a", "b", ["c", "d"], [], None]
    assert spec.get_scheduler_hint("absent", "default") == "default"


def test_requested_destination_is_parsed():
    document = {"host": "h", "node": "n", "cell": "c", "allow_cross_cell_move": True}
    destination = build_request_spec(
        requested_destination={
            **document,
            "aggregates": ["a,b", "c"],
            "forbidden_aggregates": ["d"],
        }
    ).requested_destination
    expected = Destination(**document, aggregates=("a,b", "c"), forbidden_aggregates=("d",))
    assert destination == expected


def test_destination_with_further_aggregates_is_a_copy():
    before = Destination(aggregates=("a",), forbidden_aggregates=("x",))
    after = before.requiring(["b", "c"]).forbidding(["x", "y"])
    assert (after.aggregates, after.forbidden_aggregates) == (("a", "b,c"), ("x", "y"))
    assert (before.aggregates, before.forbidden_aggregates) == (("a",), ("x",))


def test_retry_hosts_of_a_request_have_the_attributes_of_nova():
    retry = build_request_spec(retry={"num_attempts": 2, "hosts": [["h", "n"]]}).retry
    assert (retry.num_attempts, retry.hosts) == (2, (TriedHost("h", "n"),))
    assert (retry.hosts[0].host, retry.hosts[0].hypervisor_hostname) == ("h", "n")


def test_limits_and_request_level_params_are_attributes_of_the_request_spec():
    spec = build_request_spec(
        limits={"memory_mb": 5},
        request_level_params={"root_required": ["A"], "same_subtree": [["_1", "_2"]]},
    )
    assert (spec.limits.memory_mb, spec.limits.vcpu) == (5, None)
    assert (spec.root_required, spec.root_forbidden) == (frozenset({"A"}), frozenset())
    assert spec.same_subtree == (("_1", "_2"),)


@pytest.mark.parametrize("noun", ["flavor", "image"])
def test_name_of_a_stored_flavor_or_image_is_rejected(noun):
    with pytest.raises(NotFound, match=f"no stored {noun} 'x'"):
        build_request_spec(**{noun: "x"})


def test_request_with_an_invalid_image_property_is_rejected():
    with pytest.raises(Invalid, match="hw_cpu_policy"):
        build_request_spec(image={"properties": {"hw_cpu_policy": "some"}})


def test_requested_hardware_is_shared_by_copies_of_a_request_spec():
    spec = build_request_spec()
    hardware = spec.hardware
    assert replace(spec, user_id="u").hardware is spec.hardware is hardware
    assert replace(spec, flavor=Flavor()).hardware is not hardware
    assert build_request_spec() == spec


CIRROS_IMAGE = {
    "id": make_uuid(1),
    "name": "cirros",
    "disk_format": "qcow2",
    "container_format": "bare",
    "properties": {"architecture": "x86_64"},
}
SERVER_GROUP = {
    "uuid": make_uuid(3),
    "policy": "affinity",
    "hosts": ["h1"],
    "members": [make_uuid(4)],
}
FULL_SPEC = parse_request_spec(
    {
        "flavor": SMALL_FLAVOR,
        "image": CIRROS_IMAGE,
        "project_id": "p1",
        "user_id": "u1",
        "availability_zone": "az1",
        "ignore_hosts": ["h1"],
        "scheduler_hints": {"rack": ["r1"], "m": ["a", "b"]},
        "instance_uuids": [make_uuid(2), make_uuid(5)],
        "retry": {"num_attempts": 1, "hosts": [["h9", "n9"]]},
        "instance_group": SERVER_GROUP,
        "limits": {"vcpu": 1, "memory_mb": 2},
    }
)
MINIMAL_REQUEST_SPEC = parse_request_spec({"flavor": SMALL_FLAVOR})


def test_legacy_filter_properties_have_the_keys_of_nova():
    assert FULL_SPEC.to_legacy_filter_properties_dict() == {
        "group_hosts": {"h1"},
        "group_members": {make_uuid(4)},
        "group_policies": {"affinity"},
        "group_updated": True,
        "group_uuid": make_uuid(3),
        "ignore_hosts": ["h1"],
        "limits": {"memory_mb": 2, "vcpu": 1},
        "retry": {"hosts": [["h9", "n9"]], "num_attempts": 1},
        "scheduler_hints": {"m": ["a", "b"], "rack": "r1"},
    }
    assert MINIMAL_REQUEST_SPEC.to_legacy_filter_properties_dict() == {}


def test_request_spec_dict_has_the_keys_of_nova():
    properties = FULL_SPEC.to_legacy_request_spec_dict()
    assert properties == FULL_SPEC["request_spec"]
    assert properties["instance_type"] is FULL_SPEC.flavor
    instances = (properties["num_instances"], properties["instance_uuids"])
    assert instances == (2, [make_uuid(2), make_uuid(5)])
    assert properties["image"] == {
        "id": make_uuid(1),
        "name": "cirros",
        "disk_format": "qcow2",
        "container_format": "bare",
        "min_ram": 0,
        "min_disk": 0,
        "properties": {"hw_architecture": "x86_64"},
    }
    assert properties["instance_properties"] == {
        "uuid": make_uuid(2),
        "project_id": "p1",
        "user_id": "u1",
        "availability_zone": "az1",
        "host": None,
        "vcpus": 2,
        "memory_mb": 512,
        "root_gb": 10,
        "ephemeral_gb": 1,
        "numa_topology": None,
        "pci_requests": None,
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [("instance_type", FULL_SPEC.flavor), ("project_id", "p1"), ("group_policies", {"affinity"})],
)
def test_filter_property_of_a_request_spec_is_read_by_name(name, value):
    assert FULL_SPEC.get(name) == FULL_SPEC[name] == value
    assert name in FULL_SPEC


@pytest.mark.parametrize("name", ["force_hosts", "group_hosts", "os_type"])
def test_missing_filter_properties_of_a_request_spec_are_absent(name):
    assert MINIMAL_REQUEST_SPEC.get(name) is None
    assert MINIMAL_REQUEST_SPEC.get(name, "other") == "other"
    with pytest.raises(KeyError, match=name):
        MINIMAL_REQUEST_SPEC[name]


@pytest.mark.parametrize("name", ["scheduler_hints", "limits"])
def test_optional_filter_properties_of_a_request_spec_are_empty(name):
    assert MINIMAL_REQUEST_SPEC[name] == MINIMAL_REQUEST_SPEC.get(name) == {}


def test_request_spec_supports_the_in_operator_and_obj_attr_is_set():
    assert "requested_destination" in MINIMAL_REQUEST_SPEC
    assert MINIMAL_REQUEST_SPEC.obj_attr_is_set("retry")
    assert "nonsense" not in MINIMAL_REQUEST_SPEC
    assert not MINIMAL_REQUEST_SPEC.obj_attr_is_set("nonsense")


@pytest.mark.parametrize(
    ("part", "present", "absent"),
    [
        ("image", "properties", "id"),
        ("instance_group", "policy", "uuid"),
        ("requested_destination", "host", "cell"),
        ("retry", "hosts", "cookies"),
        ("limits", "vcpu", "disk_gb"),
    ],
)
def test_objects_of_a_request_spec_support_the_in_operator_as_in_nova(part, present, absent):
    spec = build_request_spec(
        image={"properties": {}},
        instance_group={"policy": "affinity"},
        requested_destination={"host": "cn1"},
        retry={"num_attempts": 1, "hosts": []},
        limits={"vcpu": 4},
    )
    assert present in getattr(spec, part)
    assert absent not in getattr(spec, part)
    assert "affinity" in spec.instance_group.policies
    clone = spec.obj_clone()
    assert clone == spec
    assert clone.flavor.extra_specs is not spec.flavor.extra_specs
