# SPDX-License-Identifier: Apache-2.0
"""Extra specs of virtual hardware and quotas."""

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
}


def test_valid_value_is_accepted():
    for key, value in GOOD.items():
        check(key, value)


@pytest.mark.parametrize(("key", "value"), BAD.items())
def test_invalid_value_is_reported(key, value):
    with pytest.raises(Invalid, match=f"^Validation failed; '{value}' is "):
        check(key, value)
