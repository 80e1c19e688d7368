# SPDX-License-Identifier: Apache-2.0
"""Host filter by image properties, as nova 34 decides."""

import pytest

from placement_sched.scheduler.filters.image_props_filter import ImagePropertiesFilter
from tests.support.states import build_host_state, build_settings, build_spec, find_rejection


def find_filter_rejection(properties, host=None, **options):
    plugin = ImagePropertiesFilter.with_settings(build_settings(**options))
    host, spec = host or build_host_state(), build_spec(properties=properties)
    return find_rejection(plugin, host, spec)


@pytest.mark.parametrize(
    ("properties", "combination"),
    [
        ({}, None),
        ({"hw_architecture": "x86_64"}, None),
        ({"architecture": "AMD64"}, None),
        ({"hypervisor_type": "KVM"}, None),
        ({"vm_mode": "hvm"}, None),
        ({"architecture": "i686", "hypervisor_type": "qemu", "vm_mode": "hvm"}, None),
        ({"hypervisor_type": "kvm", "hypervisor_version_requires": ">=1.5"}, None),
        ({"architecture": "x86_64", "img_hv_requested_version": ">=1.0,<2"}, None),
        ({"hw_emulation_architecture": "aarch64"}, None),
        ({"img_hv_requested_version": "<1.5"}, None),
        ({"architecture": "aarch64"}, "aarch64/any/any"),
        ({"hypervisor_type": "xen"}, "any/xen/any"),
        ({"vm_mode": "xen"}, "any/any/xen"),
        ({"architecture": "i686", "hypervisor_type": "kvm"}, "i686/kvm/any"),
    ],
)
def test_host_without_the_architecture_hypervisor_and_vm_mode_is_rejected(properties, combination):
    supported = "x86_64/kvm/hvm, i686/qemu/hvm supported"
    reason = combination and f"{combination} requested, {supported}"
    assert find_filter_rejection(properties) == reason


def test_host_without_supported_instances_is_rejected():
    host = build_host_state(supported_instances=None)
    reason = find_filter_rejection({"vm_mode": "hvm"}, host)
    assert reason == "any/any/hvm requested, nothing supported"
    assert find_filter_rejection({}, host) is None


def test_hypervisor_version_is_compared_if_reported():
    request = {"hypervisor_type": "kvm", "img_hv_requested_version": ">=6"}
    assert find_filter_rejection(request) == "hypervisor version >=6 requested, 1.5.3 found"
    assert find_filter_rejection(request, build_host_state(hypervisor_version=6000000)) is None
    assert find_filter_rejection(request, build_host_state(hypervisor_version=0)) is None
    assert find_filter_rejection(request, build_host_state(hypervisor_version=None)) is None


@pytest.mark.parametrize(
    ("cpu_info", "reason"),
    [
        ('{"maxphysaddr": {"bits": 42}}', None),
        ('{"maxphysaddr": {"bits": 40}}', "42 bits of physical addresses requested, 40 found"),
        ("{}", None),
        (None, None),
    ],
    ids=["enough bits", "too few bits", "no bits reported", "no cpu_info"],
)
def test_host_that_reports_too_few_physical_address_bits_is_rejected(cpu_info, reason):
    request = {"hw_architecture": "x86_64", "hw_maxphysaddr_bits": 42}
    assert find_filter_rejection(request, build_host_state(cpu_info=cpu_info)) == reason
    other = find_filter_rejection({"hw_maxphysaddr_bits": 42}, build_host_state(cpu_info=cpu_info))
    assert other is None


def test_default_architecture_applies_to_images_without_an_architecture():
    option = {"filter_scheduler__image_properties_default_architecture": "aarch64"}
    assert find_filter_rejection({}, **option).startswith("aarch64/any/any requested")
    assert find_filter_rejection({"architecture": "x86_64"}, **option) is None
