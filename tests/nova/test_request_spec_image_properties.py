# SPDX-License-Identifier: Apache-2.0
"""ImageMetaProps, typed, as glance's raw properties."""

import pytest

from placement_sched.model.image import READERS, properties_from
from placement_sched.nova.objects import UnreadableObject, primitive_of
from placement_sched.nova.request_spec import raw_properties
from tests.nova.wire.recorded import recorded

IMAGE = recorded("spec")["nova_object.data"]["image"]["nova_object.data"]


def read(newer: bool = False, **typed):
    primitive = primitive_of("ImageMetaProps", typed)
    if newer:
        primitive["nova_object.version"] = "1.99"
    return properties_from(raw_properties(primitive, "image.properties")).to_dict()


def test_what_nova_typed_is_read_as_it_is():
    typed = IMAGE["properties"]["nova_object.data"]
    ours = properties_from(raw_properties(IMAGE["properties"], "properties")).to_dict()
    if "hw_numa_cpus" in ours:
        ours["hw_numa_cpus"] = [sorted(cpus) for cpus in ours["hw_numa_cpus"]]
    assert ours == typed


def test_sets_of_cpus_and_memory_are_those_of_the_nodes_in_their_order():
    found = read(hw_numa_cpus=[[1, 0], [], [2, 3]], hw_numa_mem=[512, 0, 1024])
    assert found == {"hw_numa_cpus": [{0, 1}, set(), {2, 3}], "hw_numa_mem": [512, 0, 1024]}


def test_required_traits_keep_their_names_and_order():
    traits = ["HW_CPU_X86_AVX2", "CUSTOM_A"]
    assert read(traits_required=traits) == {"traits_required": traits}


@pytest.mark.parametrize("name", ["hw_mem_encryption", "img_bdm_v2"])
@pytest.mark.parametrize("value", [True, False])
def test_booleans_are_read(name, value):
    assert read(**{name: value}) == {name: value}


def test_unknown_properties_are_left_out():
    assert read(hw_of_the_future="x", newer=True) == {}


def test_values_that_only_a_newer_nova_knows_are_left_out():
    assert read(newer=True, hw_video_model="hologram", hw_disk_bus="virtio") == {
        "hw_disk_bus": "virtio"
    }


def test_every_property_of_ours_is_asked_of_nova():
    typed = dict.fromkeys(READERS)
    primitive = primitive_of("ImageMetaProps", typed)
    assert raw_properties(primitive, "properties") == typed


def test_numa_nodes_that_are_not_numbers_are_refused():
    primitive = primitive_of("ImageMetaProps", {"hw_numa_cpus": [["0-3"]]})
    with pytest.raises(UnreadableObject, match=r"^p\.hw_numa_cpus\[0\]\[0\] must be an integer"):
        raw_properties(primitive, "p")
