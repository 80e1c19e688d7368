# SPDX-License-Identifier: Apache-2.0
"""Extra specs of virtual hardware, quotas, resources, traits, aggregates and host states."""

import os_resource_classes
import os_traits
import pytest

from placement_sched.errors import Invalid
from placement_sched.scheduler.extra_specs import check

#: Values that fit, by key.
GOOD = {
    "accel:device_profile": "gpu",
    "hide_hypervisor_id": "yes",
    "hw:boot_menu": "true",
    "hw:cpu_dedicated_mask": "^0,1-3",
    "hw:cpu_policy": "mixed",
    "hw:cpu_sockets": "2",
    "hw:mem_page_size": "2MiB",
    "hw:numa_cpus.0": "0-3",
    "hw:numa_mem.12": "512",
    "hw:numa_nodes": "2",
    "hw:pmem": "A,B",
    "hw:redirected_usb_ports": "15",
    "hw_rng:allowed": "true",
    "hw_video:ram_max_mb": "0",
    "os:secure_boot": "required",
    "pci_passthrough:alias": "a1:2, b1:1",
    "quota:cpu_quota": "-1",
    "quota:cpu_shares": "10",
    "quota:vif_shares_level": "custom",
    "vmware:hw_version": "vmx-13",
    "aggregate_instance_extra_specs:ssd": "true",
    "aggregate_instance_extra_specs:a:b": "s== x",
    "capabilities:cpu_info:features": "<in> avx",
    "capabilities:stats": "x",
    "capabilities:vcpus": "> 1",
    "group_policy": "isolate",
    "resources:VCPU": "2",
    "resources:CUSTOM_GOLD": "1",
    "resources1:PCPU": "1",
    "resources_NET-1:SRIOV_NET_VF": "1",
    "trait:HW_CPU_X86_AVX2": "required",
    "trait:CUSTOM_WINDOWS_LICENSED": "forbidden",
    f"trait{'x' * 64}:CUSTOM_A": "required",
    "scheduler:prefer_traits": "HW_CPU_X86_AVX2, CUSTOM_A",
    "scheduler:avoid_traits": "CUSTOM_A",
    "scheduler:spread_by": "rack",
    "scheduler:max_skew": "1",
    "scheduler:spread_mode": "soft",
}
#: Values that do not fit, by key.
BAD = {
    "hide_hypervisor_id": "x",
    "hw:boot_menu": "maybe",
    "hw:cpu_dedicated_mask": "all",
    "hw:cpu_policy": "Shared",
    "hw:cpu_sockets": "0",
    "hw:mem_page_size": "huge",
    "hw:numa_mem.1": "0",
    "hw:redirected_usb_ports": "16",
    "os:secure_boot": "optional",
    "pci_passthrough:alias": "a1",
    "quota:cpu_shares": "-1",
    "quota:vif_shares_level": "most",
    "group_policy": "both",
    "resources:VCPU": "some",
    "scheduler:avoid_traits": "CUSTOM_A CUSTOM_B",
    "scheduler:max_skew": "0",
    "scheduler:prefer_traits": "fast",
    "scheduler:spread_by": " ",
    "scheduler:spread_mode": "firm",
    "trait:CUSTOM_A": "preferred",
}
UNKNOWN = (
    "accel:x",
    "hw:",
    "hw:cpu_polcy",
    "hw:numa_cpus.x",
    "hw_rng:x",
    "os:x",
    "pci_passthrough:x",
    "quota:x",
    "vmware:x",
    "aggregate_instance_extra_specs:",
    "capabilities:cpu_info:",
    "capabilities:nonsense",
    "capabilities:stats:x-y",
    "resources:vcpu",
    "resources:NO_SUCH",
    "scheduler:prefer_trait",
    "trait:CUSTOM_a",
    "trait:NO_SUCH",
    "trait:",
)


def test_valid_value_is_accepted():
    for key, value in GOOD.items():
        check(key, value)


@pytest.mark.parametrize(("key", "value"), BAD.items())
def test_invalid_value_is_reported(key, value):
    with pytest.raises(Invalid, match=f"^Validation failed; '{value}' is "):
        check(key, value)


@pytest.mark.parametrize("key", UNKNOWN)
def test_unknown_key_is_reported(key):
    with pytest.raises(Invalid) as error:
        check(key, "1")
    expected = f"Validation failed; extra spec '{key}' does not appear to be a valid extra spec."
    assert error.value.detail == expected


def test_every_standard_trait_and_resource_class_is_valid():
    for trait in os_traits.get_traits():
        check(f"trait:{trait}", "required")
    for name in os_resource_classes.STANDARDS:
        check(f"resources:{name}", "1")
