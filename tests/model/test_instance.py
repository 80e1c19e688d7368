# SPDX-License-Identifier: Apache-2.0
"""Instances of a host with the attribute names of nova."""

import pytest

from placement_sched.model.flavor import Flavor
from placement_sched.model.instance import HostInstance, Instance, InstanceMetadata

SIZE_ATTRIBUTES = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb")


def test_instance_has_the_sizes_of_its_flavor():
    flavor = Flavor(name="m1", vcpus=2, memory_mb=4096, root_gb=20, ephemeral_gb=1)
    built = HostInstance(uuid="u", flavor=flavor)
    assert [getattr(built, name) for name in SIZE_ATTRIBUTES] == [2, 4096, 20, 1]
    assert [built[name] for name in SIZE_ATTRIBUTES] == [
        built.get(name) for name in SIZE_ATTRIBUTES
    ]
    assert built.get_flavor() is flavor
    assert flavor.obj_attr_is_set("vcpus")
    assert not flavor.obj_attr_is_set("hw_firmware")


def test_instance_without_a_flavor_has_no_sizes():
    built = HostInstance(uuid="u")
    assert [getattr(built, name) for name in SIZE_ATTRIBUTES] == [0, 0, 0, 0]
    assert built.get_flavor() is None


IMAGE = {"id": "i1", "min_ram": 512, "disk_format": "raw", "properties": {"os_type": "linux"}}


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        (
            {"a": "1"},
            {
                "a": "1",
                "image_base_image_ref": "i1",
                "image_disk_format": "raw",
                "image_min_ram": "512",
                "image_os_type": "linux",
            },
        ),
        ({"image_os_type": "windows"}, {"image_os_type": "windows"}),
    ],
)
def test_system_metadata_of_an_instance_have_the_keys_of_its_image(recorded, expected):
    record = Instance(uuid="u1", display_name="u1", image=IMAGE)
    instance = HostInstance.from_record(record, lambda _uuid: InstanceMetadata({}, recorded))
    assert instance.system_metadata == expected
