# SPDX-License-Identifier: Apache-2.0
"""ImagePropertiesFilter, as nova 34 decides the same cases."""

import pytest

from placement_sched.scheduler.filters.image_props_filter import ImagePropertiesFilter
from tests.support.states import a_host, a_spec, settings_with


def refusal(properties, host=None, **options):
    plugin = ImagePropertiesFilter.with_settings(settings_with(**options))
    host, spec = host or a_host(), a_spec(properties=properties)
    found = plugin.refusal(host, spec)
    assert plugin.host_passes(host, spec) is (found is None)
    return found and found.reason


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"hw_architecture": "x86_64"},
        {"architecture": "AMD64"},
        {"hypervisor_type": "KVM"},
        {"vm_mode": "hvm"},
        {"architecture": "i686", "hypervisor_type": "qemu", "vm_mode": "hvm"},
        {"hypervisor_type": "kvm", "hypervisor_version_requires": ">=1.5"},
        {"architecture": "x86_64", "img_hv_requested_version": ">=1.0,<2"},
        {"hw_emulation_architecture": "aarch64"},
        {"img_hv_requested_version": "<1.5"},
    ],
)
def test_host_that_can_run_the_image_passes(properties):
    assert refusal(properties) is None


@pytest.mark.parametrize(
    ("properties", "asked"),
    [
        ({"architecture": "aarch64"}, "aarch64/any/any"),
        ({"hypervisor_type": "xen"}, "any/xen/any"),
        ({"vm_mode": "xen"}, "any/any/xen"),
        ({"architecture": "i686", "hypervisor_type": "kvm"}, "i686/kvm/any"),
    ],
)
def test_host_without_the_combination_is_refused_with_what_it_supports(properties, asked):
    assert refusal(properties) == f"{asked} requested, x86_64/kvm/hvm, i686/qemu/hvm supported"


def test_host_that_tells_nothing_of_itself_supports_nothing():
    host = a_host(supported_instances=None)
    assert refusal({"vm_mode": "hvm"}, host) == "any/any/hvm requested, nothing supported"
    assert refusal({}, host) is None


def test_hypervisor_version_is_compared_where_the_host_tells_it():
    wanted = {"hypervisor_type": "kvm", "img_hv_requested_version": ">=6"}
    assert refusal(wanted) == "hypervisor version >=6 requested, 1.5.3 found"
    assert refusal(wanted, a_host(hypervisor_version=6000000)) is None
    assert refusal(wanted, a_host(hypervisor_version=0)) is None
    assert refusal(wanted, a_host(hypervisor_version=None)) is None


@pytest.mark.parametrize(
    ("cpu_info", "reason"),
    [
        ('{"maxphysaddr": {"bits": 42}}', None),
        ('{"maxphysaddr": {"bits": 40}}', "42 bits of physical addresses requested, 40 found"),
        ("{}", None),
        (None, None),
    ],
    ids=["enough", "too few", "not told", "nothing told"],
)
def test_bits_of_addresses_are_compared_where_the_host_tells_them(cpu_info, reason):
    wanted = {"hw_architecture": "x86_64", "hw_maxphysaddr_bits": 42}
    assert refusal(wanted, a_host(cpu_info=cpu_info)) == reason
    assert refusal({"hw_maxphysaddr_bits": 42}, a_host(cpu_info=cpu_info)) is None


def test_default_architecture_is_that_of_images_that_name_none():
    option = {"filter_scheduler__image_properties_default_architecture": "aarch64"}
    assert refusal({}, **option).startswith("aarch64/any/any requested")
    assert refusal({"architecture": "x86_64"}, **option) is None


def test_filter_runs_on_rebuild():
    assert ImagePropertiesFilter.RUN_ON_REBUILD
