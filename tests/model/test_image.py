# SPDX-License-Identifier: Apache-2.0
"""Image properties with the names and values of nova (nova 34 observed)."""

import copy

import pytest

from placement_sched.errors import Invalid
from placement_sched.model.image import LEGACY_NAMES, READERS, Image, parse_properties

RAW_AND_NOVA_PROPERTIES = [
    ({"architecture": "AMD64"}, {"hw_architecture": "x86_64"}),
    ({"architecture": "x86_32"}, {"hw_architecture": "i686"}),
    ({"hypervisor_type": "QEMU"}, {"img_hv_type": "qemu"}),
    ({"hypervisor_type": "xapi"}, {"img_hv_type": "xen"}),
    ({"vm_mode": "pv"}, {"hw_vm_mode": "xen"}),
    ({"os_type": "Windows"}, {"os_type": "windows"}),
    ({"hw_boot_menu": "yes"}, {"hw_boot_menu": True}),
    ({"hw_boot_menu": "junk"}, {"hw_boot_menu": False}),
    ({"hw_cpu_cores": "4"}, {"hw_cpu_cores": 4}),
    ({"hw_mem_page_size": 4}, {"hw_mem_page_size": "4"}),
    ({"hypervisor_version_requires": ">=1.0,<2"}, {"img_hv_requested_version": ">=1.0,<2"}),
    ({"vmware_adaptertype": "ide"}, {"hw_disk_bus": "ide"}),
    ({"vmware_adaptertype": "lsiLogic"}, {"hw_disk_bus": "scsi", "hw_scsi_model": "lsilogic"}),
    ({"vmware_adaptertype": "lsiLogicsas"}, {"hw_disk_bus": "scsi", "hw_scsi_model": "lsisas1068"}),
    ({"vmware_adaptertype": ""}, {}),
    ({"hw_vif_model": "VirtualE1000e"}, {"hw_vif_model": "e1000e"}),
    ({"vmware_ostype": "win"}, {"os_distro": "win"}),
    ({"mappings": [{"a": "b"}]}, {"img_mappings": [{"a": "b"}]}),
    ({"architecture": "i686", "hw_architecture": "x86_64"}, {"hw_architecture": "x86_64"}),
    ({"trait:A": "required", "trait:B": "forbidden"}, {"traits_required": ["A"]}),
    ({"trait:A": "Required", "traits_required": ["Q"]}, {}),
    ({"hw_numa_mem.0": "1", "hw_numa_mem.1": 2, "hw_numa_mem.3": "4"}, {"hw_numa_mem": [1, 2]}),
    ({"hw_numa_cpus.0": "0-2,^1", "hw_numa_cpus.1": "1"}, {"hw_numa_cpus": [{0, 2}, {1}]}),
    ({"hw_numa_cpus.1": "junk", "hw_numa_mem": "junk"}, {}),
    ({"unknown": "x", "os_version": "1", "instance_uuid": "u"}, {}),
]


@pytest.mark.parametrize(("raw", "expected"), RAW_AND_NOVA_PROPERTIES)
def test_image_properties_get_the_names_and_values_of_nova(raw, expected):
    assert parse_properties(raw).to_dict() == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hw_architecture", "x86"),
        ("architecture", " x86_64 "),
        ("architecture", 3),
        ("os_type", "bsd"),
        ("hw_disk_bus", "IDE"),
        ("hw_cpu_policy", "DEDICATED"),
        ("hw_cpu_cores", "4.0"),
        ("hw_numa_mem.0", "1GB"),
        ("hw_numa_cpus.0", "1-"),
        ("hw_numa_cpus.0", "0-999999999999"),
        ("os_distro", ["x"]),
        ("vmware_adaptertype", "foo"),
        ("img_hv_requested_version", "1.0"),
        ("block_device_mapping", '[{"device_name": "vda"}]'),
        ("img_signature_hash_method", "sha-224"),
    ],
)
def test_invalid_image_property_is_rejected_with_its_original_name(name, value):
    with pytest.raises(Invalid, match=f"image property '{name}'|hw_scsi_model"):
        parse_properties({name: value})


@pytest.mark.parametrize("name", sorted(READERS))
def test_image_properties_may_not_be_null(name):
    with pytest.raises(Invalid, match=name):
        parse_properties({name: None})


def test_each_legacy_image_property_name_maps_to_a_property():
    assert set(LEGACY_NAMES.values()) <= set(READERS)


def test_image_properties_have_the_interface_of_nova():
    properties = parse_properties({"hw_vm_mode": "hvm"})
    assert properties.get("hw_vm_mode") == properties.hw_vm_mode == "hvm"
    assert properties.get("hw_architecture") is None
    assert properties.get("hw_architecture", "x") == properties.get("nope", "x") == "x"
    assert "hw_vm_mode" in properties
    assert properties.obj_attr_is_set("hw_vm_mode")
    assert not properties.obj_attr_is_set("hw_architecture")
    assert list(properties) == ["hw_vm_mode"]
    with pytest.raises(AttributeError):
        _ = properties.hw_architecture


def test_image_properties_are_compared_by_value():
    properties = parse_properties({"hw_vm_mode": "hvm"})
    assert copy.deepcopy(properties) == properties
    assert properties == parse_properties({"vm_mode": "hv"})
    assert hash(properties) == hash(parse_properties({"vm_mode": "hv"}))
    assert properties != parse_properties({})


def test_null_image_has_no_properties():
    image = Image.from_document(None)
    assert (image.id, image.properties.to_dict(), image.required_traits) == (None, {}, frozenset())


def test_image_document_is_parsed():
    image = Image.from_document(
        {
            "id": "i",
            "disk_format": "qcow2",
            "container_format": "bare",
            "min_ram": 5,
            "min_disk": None,
            "tags": ["a"],
            "properties": {"trait:A": "required"},
        }
    )
    assert (image.id, image.disk_format, image.container_format) == ("i", "qcow2", "bare")
    assert (image.min_ram, image.min_disk, image.tags) == (5, 0, ("a",))
    assert image.required_traits == {"A"}


def test_image_properties_with_a_cpu_on_two_numa_nodes_are_rejected():
    raw = {f"hw_numa_cpus.{node}": "0-65535" for node in range(128)}
    with pytest.raises(Invalid, match=r"'hw_numa_cpus\.1': a CPU is on two nodes"):
        parse_properties(raw)
