# SPDX-License-Identifier: Apache-2.0
"""Parsing of RequestSpec primitives of nova 34, and of the properties of their images."""

from functools import reduce
from operator import getitem
from typing import Any

import pytest

from placement_sched.errors import Invalid
from placement_sched.model.image import READERS, parse_properties
from placement_sched.model.request_spec import parse_request_spec
from placement_sched.nova import objects
from placement_sched.nova.objects import (
    UnknownObject,
    UnknownVersion,
    UnreadableObject,
    build_primitive,
)
from placement_sched.nova.request_spec import build_document, read_raw_properties
from tests.nova.wire.comparison import unify_empty_values
from tests.nova.wire.documents import convert_spec_to_document
from tests.nova.wire.recorded import (
    build_path_of_field,
    list_paths,
    read_recorded_object,
    remove_value,
    replace_value,
)

VERSION_KEY, NAME_KEY, NAMESPACE_KEY, DATA_KEY = (
    f"nova_object.{key}" for key in ("version", "name", "namespace", "data")
)
REQUEST_SPEC = read_recorded_object("spec")
INSTANCE_UUIDS = ["11111111-0000-4000-8000-000000000001", "11111111-0000-4000-8000-000000000002"]


def test_request_spec_is_parsed_like_nova():
    held = read_recorded_object("spec_held")
    assert unify_empty_values(convert_spec_to_document(REQUEST_SPEC), held) == held


def test_instance_uuids_come_from_the_call():
    assert build_document(REQUEST_SPEC, INSTANCE_UUIDS)["instance_uuids"] == INSTANCE_UUIDS


@pytest.mark.parametrize("sent", ["abc", ["abc"], [{}], [None], {"a": 1}, 7])
def test_invalid_instance_uuids_of_the_call_are_rejected(sent):
    with pytest.raises(UnreadableObject, match=r"^instance_uuids "):
        build_document(REQUEST_SPEC, sent)


def test_instance_uuid_of_the_request_is_the_default():
    one = replace_value(REQUEST_SPEC, build_path_of_field(REQUEST_SPEC, "num_instances"), 1)
    assert build_document(one)["instance_uuids"] == [REQUEST_SPEC[DATA_KEY]["instance_uuid"]]


def test_several_instances_without_uuids_are_only_counted():
    three = replace_value(REQUEST_SPEC, build_path_of_field(REQUEST_SPEC, "num_instances"), 3)
    assert "instance_uuids" not in build_document(three)
    assert parse_request_spec(build_document(three)).num_instances == 3


@pytest.mark.parametrize("name", ["numa_topology", "pci_requests", "image", "instance_group"])
def test_null_and_absent_fields_stay_distinct(name):
    path = build_path_of_field(REQUEST_SPEC, name)
    assert build_document(replace_value(REQUEST_SPEC, path, None))[name] is None
    assert name not in build_document(remove_value(REQUEST_SPEC, path))


def test_request_spec_with_only_a_flavor_is_parsed():
    bare = {**REQUEST_SPEC, DATA_KEY: {"flavor": REQUEST_SPEC[DATA_KEY]["flavor"]}}
    assert (
        parse_request_spec(build_document(bare)).flavor.vcpus
        == REQUEST_SPEC[DATA_KEY]["flavor"][DATA_KEY]["vcpus"]
    )


def test_sets_with_another_order_of_members_are_parsed_equally():
    path = build_path_of_field(REQUEST_SPEC, "network_metadata", "physnets")
    orders = (["a", "b"], ["b", "a"])
    first, second = (build_document(replace_value(REQUEST_SPEC, path, order)) for order in orders)
    assert first == second


def test_only_the_uuid_of_a_cell_is_read():
    document = build_document(REQUEST_SPEC)
    cell = REQUEST_SPEC[DATA_KEY]["requested_destination"][DATA_KEY]["cell"]
    assert document["requested_destination"]["cell"] == cell[DATA_KEY]["uuid"]
    assert "SECRET" not in str(document)


def test_old_group_without_policy_field_is_parsed():
    old = {DATA_KEY: {"policies": ["anti-affinity"], "members": INSTANCE_UUIDS, "hosts": None}}
    group = {**REQUEST_SPEC[DATA_KEY]["instance_group"], **old}
    read = parse_request_spec(
        build_document(
            replace_value(REQUEST_SPEC, build_path_of_field(REQUEST_SPEC, "instance_group"), group)
        )
    )
    assert (read.instance_group.policy, dict(read.instance_group.rules)) == ("anti-affinity", {})


def test_old_pinned_cpus_without_pcpuset_are_parsed():
    path = build_path_of_field(REQUEST_SPEC, "numa_topology", "cells", 0)
    cell = {"id": 0, "cpuset": [1, 0], "memory": 512, "cpu_policy": "dedicated"}
    old = {
        **REQUEST_SPEC[DATA_KEY]["numa_topology"][DATA_KEY]["cells"][0],
        VERSION_KEY: "1.4",
        DATA_KEY: cell,
    }
    (read, *_) = parse_request_spec(
        build_document(replace_value(REQUEST_SPEC, path, old))
    ).numa_topology.cells
    assert (read.cpuset, read.pcpuset) == (frozenset(), {0, 1})


#: Paths of all objects in the recorded request.
KEY_PATHS_OF_SPEC_OBJECTS = [
    path[:-1] for path in list_paths(REQUEST_SPEC) if path[-1:] == (VERSION_KEY,)
]


def format_object_path(path) -> str:
    names = [f"[{key}]" if isinstance(key, int) else f".{key}" for key in path if key != DATA_KEY]
    return "spec_obj" + "".join(names)


def read_value_at(path) -> Any:
    return reduce(getitem, path, REQUEST_SPEC)


def test_newer_minor_versions_are_parsed_with_known_fields():
    for path in KEY_PATHS_OF_SPEC_OBJECTS:
        version = read_value_at(path)[VERSION_KEY]
        for newer in (f"{version.partition('.')[0]}.999", f"{version}.7"):
            spec = replace_value(REQUEST_SPEC, (*path, VERSION_KEY), newer)
            spec = replace_value(spec, (*path, DATA_KEY, "of_the_future"), {"a": 1})
            assert build_document(spec) == build_document(REQUEST_SPEC), path


@pytest.mark.parametrize("version", ["99.0", "0.9"])
def test_unknown_major_version_is_rejected_with_its_path(version):
    for path in KEY_PATHS_OF_SPEC_OBJECTS:
        with pytest.raises(UnknownVersion) as refused:
            build_document(replace_value(REQUEST_SPEC, (*path, VERSION_KEY), version))
        name = read_value_at(path)[NAME_KEY]
        assert str(refused.value) == (
            f"{format_object_path(path)}: version {version} of {name} is not supported, the newest "
            f"supported version is {objects.NEWEST[name]}"
        )


def test_unknown_object_or_namespace_is_rejected_with_its_path():
    for path in KEY_PATHS_OF_SPEC_OBJECTS:
        with pytest.raises(UnknownObject, match=r"unsupported object type nova\.Strange"):
            build_document(replace_value(REQUEST_SPEC, (*path, NAME_KEY), "Strange"))
        with pytest.raises(UnknownObject) as refused:
            build_document(replace_value(REQUEST_SPEC, (*path, NAMESPACE_KEY), "cinder"))
        unsupported = f"unsupported object type cinder.{read_value_at(path)[NAME_KEY]}"
        assert str(refused.value) == f"{format_object_path(path)}: {unsupported}"


def test_field_with_the_wrong_object_is_rejected():
    with pytest.raises(UnreadableObject, match=r"^spec_obj\.flavor must be Flavor, not ImageMeta$"):
        build_document(
            replace_value(
                REQUEST_SPEC,
                build_path_of_field(REQUEST_SPEC, "flavor"),
                REQUEST_SPEC[DATA_KEY]["image"],
            )
        )


@pytest.mark.parametrize("broken", [17, "RequestSpec", [], {}, {NAME_KEY: "RequestSpec"}])
def test_value_without_an_object_version_is_rejected(broken):
    with pytest.raises(UnreadableObject, match=r"^spec_obj must be RequestSpec, not "):
        build_document(broken)


def test_dictionary_call_is_rejected_with_the_responsible_option():
    with pytest.raises(UnreadableObject, match=r"\[upgrade_levels\] scheduler"):
        build_document(None)


@pytest.mark.parametrize(
    ("fields", "value", "words"),
    [
        (("flavor", "vcpus"), "four", "spec_obj.flavor.vcpus must be an integer, not a string"),
        (("flavor", "vcpus"), True, "spec_obj.flavor.vcpus must be an integer, not a boolean"),
        (("flavor", "vcpus"), 2**70, "spec_obj.flavor.vcpus must be an integer of 64 bits at most"),
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
        (
            ("numa_topology", "cells", 0, "cpu_policy"),
            "pinned",
            (
                "spec_obj.numa_topology.cells[0].cpu_policy: unknown policy 'pinned'. "
                "Valid policies: dedicated, shared, mixed"
            ),
        ),
        (
            ("numa_topology", "cells", 0, "cpu_thread_policy"),
            "alone",
            (
                "spec_obj.numa_topology.cells[0].cpu_thread_policy: unknown policy 'alone'. "
                "Valid policies: prefer, isolate, require"
            ),
        ),
        (
            ("numa_topology", "emulator_threads_policy"),
            "alone",
            (
                "spec_obj.numa_topology.emulator_threads_policy: unknown policy 'alone'. "
                "Valid policies: isolate, share"
            ),
        ),
        (
            ("pci_requests", "requests", 0, "numa_policy"),
            "near",
            (
                "spec_obj.pci_requests.requests[0].numa_policy: unknown policy 'near'. "
                "Valid policies: required, legacy, preferred, socket"
            ),
        ),
    ],
)
def test_wrong_value_in_request_spec_is_rejected_with_its_path(fields, value, words):
    with pytest.raises(UnreadableObject) as refused:
        build_document(
            replace_value(REQUEST_SPEC, build_path_of_field(REQUEST_SPEC, *fields), value)
        )
    assert str(refused.value) == words


@pytest.mark.parametrize(
    "wrong",
    [
        {"x": 1},
        *(
            pytest.param(value, marks=pytest.mark.exhaustive)
            for value in (None, 7, 1.5, True, "x", ["x"], [None, "x"])
        ),
    ],
)
def test_random_wrong_values_are_parsed_or_rejected_without_secrets(wrong):
    messages = []
    for path in list_paths(REQUEST_SPEC):
        try:
            parse_request_spec(build_document(replace_value(REQUEST_SPEC, path, wrong)))
        except Invalid as refused:
            messages.append(str(refused))
    assert [message for message in messages if "SECRET" in message or "\n" in message] == []


def read_image_properties(newer: bool = False, **typed):
    primitive = build_primitive("ImageMetaProps", typed)
    if newer:
        primitive["nova_object.version"] = "1.99"
    return parse_properties(read_raw_properties(primitive, "image.properties")).to_dict()


def test_typed_properties_are_read_unchanged():
    primitive = REQUEST_SPEC[DATA_KEY]["image"][DATA_KEY]["properties"]
    ours = parse_properties(read_raw_properties(primitive, "properties")).to_dict()
    if "hw_numa_cpus" in ours:
        ours["hw_numa_cpus"] = [sorted(cpus) for cpus in ours["hw_numa_cpus"]]
    assert ours == primitive[DATA_KEY]


def test_cpus_and_memory_of_numa_nodes_are_read_in_order():
    document = read_image_properties(hw_numa_cpus=[[1, 0], [], [2, 3]], hw_numa_mem=[512, 0, 1024])
    assert document == {"hw_numa_cpus": [{0, 1}, set(), {2, 3}], "hw_numa_mem": [512, 0, 1024]}


@pytest.mark.parametrize(
    "typed",
    [
        {"traits_required": ["HW_CPU_X86_AVX2", "CUSTOM_A"]},
        {"hw_mem_encryption": True, "img_bdm_v2": False},
    ],
)
def test_traits_keep_their_order_and_flags_their_value(typed):
    assert read_image_properties(**typed) == typed


def test_properties_and_values_of_a_newer_nova_are_ignored():
    newer = {"hw_of_the_future": "x", "hw_video_model": "hologram"}
    assert read_image_properties(newer=True, **newer, hw_disk_bus="virtio") == {
        "hw_disk_bus": "virtio"
    }


def test_every_supported_image_property_is_read_from_typed_properties():
    typed = dict.fromkeys(READERS)
    primitive = build_primitive("ImageMetaProps", typed)
    assert read_raw_properties(primitive, "properties") == typed


def test_non_numeric_numa_nodes_are_rejected():
    primitive = build_primitive("ImageMetaProps", {"hw_numa_cpus": [["0-3"]]})
    with pytest.raises(UnreadableObject, match=r"^p\.hw_numa_cpus\[0\]\[0\] must be an integer"):
        read_raw_properties(primitive, "p")
