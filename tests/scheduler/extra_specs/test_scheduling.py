# SPDX-License-Identifier: Apache-2.0
"""Extra specs of resources, traits, aggregates and host states."""

import os_resource_classes
import os_traits
import pytest

from placement_sched.errors import Invalid
from placement_sched.scheduler.extra_specs import check

#: Values that fit, by key.
GOOD = {
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
    "group_policy": "both",
    "resources:VCPU": "some",
    "scheduler:avoid_traits": "CUSTOM_A CUSTOM_B",
    "scheduler:max_skew": "0",
    "scheduler:prefer_traits": "fast",
    "scheduler:spread_by": " ",
    "scheduler:spread_mode": "firm",
    "trait:CUSTOM_A": "preferred",
}


def test_valid_value_is_accepted():
    for key, value in GOOD.items():
        check(key, value)


@pytest.mark.parametrize(("key", "value"), BAD.items())
def test_invalid_value_is_reported(key, value):
    with pytest.raises(Invalid, match=f"^Validation failed; '{value}' is "):
        check(key, value)


def test_every_standard_trait_and_resource_class_is_valid():
    for trait in os_traits.get_traits():
        check(f"trait:{trait}", "required")
    for name in os_resource_classes.STANDARDS:
        check(f"resources:{name}", "1")
