# SPDX-License-Identifier: Apache-2.0
"""Typed ImageMetaProps are read as glance's raw properties."""

import pytest

from placement_sched.model.image import READERS, properties_from
from placement_sched.nova.objects import UnreadableObject, primitive_of
from placement_sched.nova.request_spec import raw_properties
from tests.nova.wire.recorded import recorded_object

IMAGE = recorded_object("spec")["nova_object.data"]["image"]["nova_object.data"]


def read_properties(newer: bool = False, **typed):
    primitive = primitive_of("ImageMetaProps", typed)
    if newer:
        primitive["nova_object.version"] = "1.99"
    return properties_from(raw_properties(primitive, "image.properties")).to_dict()


def test_typed_properties_are_read_unchanged():
    typed = IMAGE["properties"]["nova_object.data"]
    ours = properties_from(raw_properties(IMAGE["properties"], "properties")).to_dict()
    if "hw_numa_cpus" in ours:
        ours["hw_numa_cpus"] = [sorted(cpus) for cpus in ours["hw_numa_cpus"]]
    assert ours == typed


def test_cpus_and_memory_of_numa_nodes_are_read_in_order():
    document = read_properties(hw_numa_cpus=[[1, 0], [], [2, 3]], hw_numa_mem=[512, 0, 1024])
    assert document == {"hw_numa_cpus": [{0, 1}, set(), {2, 3}], "hw_numa_mem": [512, 0, 1024]}


def test_required_traits_keep_order():
    traits = ["HW_CPU_X86_AVX2", "CUSTOM_A"]
    assert read_properties(traits_required=traits) == {"traits_required": traits}


@pytest.mark.parametrize("name", ["hw_mem_encryption", "img_bdm_v2"])
@pytest.mark.parametrize("value", [True, False])
def test_boolean_properties_are_read(name, value):
    assert read_properties(**{name: value}) == {name: value}


def test_unknown_properties_are_ignored():
    assert read_properties(hw_of_the_future="x", newer=True) == {}


def test_values_of_a_newer_nova_are_ignored():
    assert read_properties(newer=True, hw_video_model="hologram", hw_disk_bus="virtio") == {
        "hw_disk_bus": "virtio"
    }


def test_supported_properties_exist_in_nova():
    typed = dict.fromkeys(READERS)
    primitive = primitive_of("ImageMetaProps", typed)
    assert raw_properties(primitive, "properties") == typed


def test_non_numeric_numa_nodes_are_rejected():
    primitive = primitive_of("ImageMetaProps", {"hw_numa_cpus": [["0-3"]]})
    with pytest.raises(UnreadableObject, match=r"^p\.hw_numa_cpus\[0\]\[0\] must be an integer"):
        raw_properties(primitive, "p")
