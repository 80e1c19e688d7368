# SPDX-License-Identifier: Apache-2.0
"""Request filter that requires traits of image properties."""

import logging

import pytest

from placement_sched.scheduler.request_filters.transform_image_metadata import (
    TransformImageMetadata,
)
from tests.scheduler.fake_cloud import find_added_root_traits, run_request_filter
from tests.support.states import build_spec


@pytest.mark.parametrize(
    ("properties", "traits"),
    [
        ({"hw_disk_bus": "virtio"}, ["COMPUTE_STORAGE_BUS_VIRTIO"]),
        ({"hw_cdrom_bus": "sata"}, ["COMPUTE_STORAGE_BUS_SATA"]),
        (
            {"hw_disk_bus": "scsi", "hw_cdrom_bus": "ide"},
            ["COMPUTE_STORAGE_BUS_IDE", "COMPUTE_STORAGE_BUS_SCSI"],
        ),
        ({"hw_disk_bus": "usb", "hw_cdrom_bus": "usb"}, ["COMPUTE_STORAGE_BUS_USB"]),
        ({"hw_video_model": "qxl"}, ["COMPUTE_GRAPHICS_MODEL_QXL"]),
        ({"hw_video_model": "none"}, ["COMPUTE_GRAPHICS_MODEL_NONE"]),
        ({"hw_vif_model": "e1000e"}, ["COMPUTE_NET_VIF_MODEL_E1000E"]),
        ({"hw_vif_model": "VirtualE1000"}, ["COMPUTE_NET_VIF_MODEL_E1000"]),
        ({"hw_vif_model": "spapr-vlan"}, ["COMPUTE_NET_VIF_MODEL_SPAPR_VLAN"]),
        ({"hw_architecture": "aarch64"}, ["HW_ARCH_AARCH64"]),
        ({"architecture": "amd64"}, ["HW_ARCH_X86_64"]),
        ({"hw_emulation_architecture": "s390x"}, ["COMPUTE_ARCH_S390X"]),
        (
            {
                "hw_architecture": "x86_64",
                "hw_disk_bus": "virtio",
                "hw_vif_model": "virtio",
                "hw_video_model": "vga",
                "os_distro": "windows",
            },
            [
                "COMPUTE_GRAPHICS_MODEL_VGA",
                "COMPUTE_NET_VIF_MODEL_VIRTIO",
                "COMPUTE_STORAGE_BUS_VIRTIO",
                "HW_ARCH_X86_64",
            ],
        ),
    ],
    ids=lambda value: ",".join(value.values()) if isinstance(value, dict) else "",
)
def test_each_image_property_becomes_the_trait_of_its_value(properties, traits):
    added = find_added_root_traits(TransformImageMetadata, build_spec(properties=properties))
    assert added == traits


@pytest.mark.parametrize("properties", [{}, {"os_distro": "windows"}, {"hw_rng_model": "virtio"}])
def test_other_image_properties_and_the_flavor_require_no_trait(properties):
    request = build_spec({"hw:viommu_model": "intel", "hw:video_model": "qxl"}, properties)
    assert run_request_filter(TransformImageMetadata, request) is None


@pytest.mark.parametrize(
    ("property_", "trait"),
    [
        ({"hw_emulation_architecture": "sparc"}, "COMPUTE_ARCH_SPARC"),
        # nova 34 uses this name, although os-traits has COMPUTE_VIOMMU_MODEL_INTEL.
        ({"hw_viommu_model": "intel"}, "COMPUTE_VIOMMU_INTEL"),
    ],
)
def test_image_property_value_without_a_trait_disables_the_filter_and_is_logged(
    property_, trait, caplog
):
    properties = property_ | {"hw_disk_bus": "virtio"}
    with caplog.at_level(logging.WARNING):
        assert run_request_filter(TransformImageMetadata, build_spec(properties=properties)) is None
    assert trait in caplog.text
