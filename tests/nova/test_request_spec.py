# SPDX-License-Identifier: Apache-2.0
"""RequestSpec primitives that nova 34 made, read here."""

from typing import Any

import pytest

from placement_sched.errors import Invalid
from placement_sched.model.request_spec import request_spec_from
from placement_sched.nova import objects
from placement_sched.nova.objects import UnknownObject, UnknownVersion, UnreadableObject
from placement_sched.nova.request_spec import document_of
from tests.nova.wire.alike import alike
from tests.nova.wire.recorded import changed, object_at, places, recorded, without
from tests.nova.wire.understood import understood

VERSION, NAME, NAMESPACE, DATA = (
    f"nova_object.{key}" for key in ("version", "name", "namespace", "data")
)
SPEC = recorded("spec")
UUIDS = ["11111111-0000-4000-8000-000000000001", "11111111-0000-4000-8000-000000000002"]


def test_a_request_is_understood_as_nova_holds_it():
    held = recorded("spec_held")
    assert alike(understood(SPEC), held) == held


def test_instances_are_those_of_the_call():
    assert document_of(SPEC, UUIDS)["instance_uuids"] == UUIDS


@pytest.mark.parametrize("sent", ["abc", ["abc"], [{}], [None], {"a": 1}, 7])
def test_instances_of_the_call_that_are_no_uuids_are_refused(sent):
    with pytest.raises(UnreadableObject, match=r"^instance_uuids "):
        document_of(SPEC, sent)


def test_without_instances_in_the_call_it_is_that_of_the_request():
    one = changed(SPEC, object_at(SPEC, "num_instances"), 1)
    assert document_of(one)["instance_uuids"] == [SPEC[DATA]["instance_uuid"]]


def test_several_instances_without_uuids_are_only_counted():
    three = changed(SPEC, object_at(SPEC, "num_instances"), 3)
    assert "instance_uuids" not in document_of(three)
    assert request_spec_from(document_of(three)).num_instances == 3


@pytest.mark.parametrize("name", ["numa_topology", "pci_requests", "image", "instance_group"])
def test_what_is_null_is_null_and_what_is_absent_is_absent(name):
    path = object_at(SPEC, name)
    assert document_of(changed(SPEC, path, None))[name] is None
    assert name not in document_of(without(SPEC, path))


def test_a_request_of_a_flavor_alone_is_read():
    bare = {**SPEC, DATA: {"flavor": SPEC[DATA]["flavor"]}}
    assert request_spec_from(document_of(bare)).flavor.vcpus == SPEC[DATA]["flavor"][DATA]["vcpus"]


def test_sets_in_another_order_are_the_same_request():
    path = object_at(SPEC, "network_metadata", "physnets")
    orders = (["a", "b"], ["b", "a"])
    first, second = (document_of(changed(SPEC, path, one)) for one in orders)
    assert first == second


def test_of_a_cell_only_the_uuid_is_taken():
    document = document_of(SPEC)
    cell = SPEC[DATA]["requested_destination"][DATA]["cell"]
    assert document["requested_destination"]["cell"] == cell[DATA]["uuid"]
    assert "SECRET" not in str(document)


def test_a_group_of_before_it_had_a_policy_of_its_own_is_read():
    old = {DATA: {"policies": ["anti-affinity"], "members": UUIDS, "hosts": None}}
    group = {**SPEC[DATA]["instance_group"], **old}
    read = request_spec_from(document_of(changed(SPEC, object_at(SPEC, "instance_group"), group)))
    assert (read.instance_group.policy, dict(read.instance_group.rules)) == ("anti-affinity", {})


def test_pinned_cpus_of_before_they_had_a_field_of_their_own_are_pinned():
    path = object_at(SPEC, "numa_topology", "cells", 0)
    cell = {"id": 0, "cpuset": [1, 0], "memory": 512, "cpu_policy": "dedicated"}
    old = {**SPEC[DATA]["numa_topology"][DATA]["cells"][0], VERSION: "1.4", DATA: cell}
    (read, *_) = request_spec_from(document_of(changed(SPEC, path, old))).numa_topology.cells
    assert (read.cpuset, read.pcpuset) == (frozenset(), {0, 1})


OBJECTS = [path[:-1] for path in places(SPEC) if path[-1:] == (VERSION,)]


def as_fields(path) -> str:
    names = [f"[{one}]" if isinstance(one, int) else f".{one}" for one in path if one != DATA]
    return "spec_obj" + "".join(names)


def at(path) -> Any:
    value = SPEC
    for step in path:
        value = value[step]
    return value


#: Objects that are looked into.
READ = [path for path in OBJECTS if at(path)[NAME] in objects.NEWEST]


def test_every_object_of_the_recorded_request_is_known():
    assert READ == OBJECTS


@pytest.mark.parametrize("path", READ, ids=as_fields)
def test_newer_minor_versions_are_read_as_far_as_they_are_known(path):
    major = at(path)[VERSION].partition(".")[0]
    newer = changed(SPEC, (*path, VERSION), f"{major}.999")
    newer = changed(newer, (*path, DATA, "of_the_future"), {"a": 1})
    assert document_of(newer) == document_of(SPEC)


@pytest.mark.parametrize("path", READ, ids=as_fields)
def test_a_third_number_of_a_version_says_nothing(path):
    third = changed(SPEC, (*path, VERSION), f"{at(path)[VERSION]}.7")
    assert document_of(third) == document_of(SPEC)


@pytest.mark.parametrize("path", READ, ids=as_fields)
@pytest.mark.parametrize("version", ["99.0", "0.9"])
def test_unknown_major_versions_are_refused_with_their_place(path, version):
    with pytest.raises(UnknownVersion) as refused:
        document_of(changed(SPEC, (*path, VERSION), version))
    name = at(path)[NAME]
    newest = objects.NEWEST[name]
    assert str(refused.value) == (
        f"{as_fields(path)}: version {version} of {name} is not supported, the newest supported "
        f"version is {newest}"
    )


@pytest.mark.parametrize("path", READ, ids=as_fields)
def test_unknown_names_and_namespaces_are_refused_with_their_place(path):
    with pytest.raises(UnknownObject, match=r"unsupported object type nova\.Strange"):
        document_of(changed(SPEC, (*path, NAME), "Strange"))
    with pytest.raises(UnknownObject) as refused:
        document_of(changed(SPEC, (*path, NAMESPACE), "cinder"))
    assert str(refused.value) == (
        f"{as_fields(path)}: unsupported object type cinder.{at(path)[NAME]}"
    )


def test_another_object_in_a_field_is_refused():
    with pytest.raises(UnreadableObject, match=r"^spec_obj\.flavor must be Flavor, not ImageMeta$"):
        document_of(changed(SPEC, object_at(SPEC, "flavor"), SPEC[DATA]["image"]))


@pytest.mark.parametrize("broken", [17, "RequestSpec", [], {}, {NAME: "RequestSpec"}])
def test_what_is_not_a_versioned_object_is_refused(broken):
    with pytest.raises(UnreadableObject, match=r"^spec_obj must be RequestSpec, not "):
        document_of(broken)


def test_calls_without_an_object_are_refused_with_the_option_that_makes_them():
    with pytest.raises(UnreadableObject, match=r"\[upgrade_levels\] scheduler"):
        document_of(None)


@pytest.mark.parametrize(
    ("fields", "value", "words"),
    [
        (("flavor", "vcpus"), "four", "spec_obj.flavor.vcpus must be an integer, not a string"),
        (("flavor", "vcpus"), True, "spec_obj.flavor.vcpus must be an integer, not a boolean"),
        (("flavor", "vcpus"), None, "spec_obj.flavor: Flavor has no vcpus"),
        (("flavor",), None, "spec_obj: RequestSpec has no flavor"),
        (("ignore_hosts",), "cn1", "spec_obj.ignore_hosts must be a list, not a string"),
        (("ignore_hosts",), [7], "spec_obj.ignore_hosts[0] must be a string, not an integer"),
        (
            ("scheduler_hints",),
            {"group": "x"},
            "spec_obj.scheduler_hints.group must be a list, not a string",
        ),
        (
            ("instance_group", "_rules"),
            {"max_server_per_host": "many"},
            "spec_obj.instance_group._rules: a rule is not an integer",
        ),
        (
            ("requested_resources", 0, "resources"),
            {"VCPU": "1"},
            "spec_obj.requested_resources[0].resources.VCPU must be an integer, not a string",
        ),
    ],
)
def test_wrong_values_are_refused_with_their_place(fields, value, words):
    with pytest.raises(UnreadableObject) as refused:
        document_of(changed(SPEC, object_at(SPEC, *fields), value))
    assert str(refused.value) == words


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [None, 7, 1.5, True, "x", ["x"], [None, "x"], {"x": 1}])
def test_wrong_values_anywhere_are_read_or_refused_without_secrets(wrong):
    said = []
    for path in places(SPEC):
        try:
            request_spec_from(document_of(changed(SPEC, path, wrong)))
        except Invalid as refused:
            said.append(str(refused))
    assert [one for one in said if "SECRET" in one or "\n" in one] == []


def test_a_size_that_no_database_holds_is_refused_with_its_place():
    path = object_at(SPEC, "flavor", "memory_mb")
    with pytest.raises(UnreadableObject, match=r"flavor\.memory_mb must be an integer of 64 bits"):
        document_of(changed(SPEC, path, 2**70))
