# SPDX-License-Identifier: Apache-2.0
"""Validators of extra specs for the scheduler.

``resources:``, ``trait:`` and ``group_policy`` become part of the candidates query. Filters compare
``capabilities:`` and ``aggregate_instance_extra_specs:`` with hosts. ``scheduler:`` has preferences
that only this service has.
"""

import os_resource_classes
import os_traits

from placement_sched.scheduler.extra_specs.validator import (
    TEXT,
    ExtraSpecValidator,
    like,
    number,
    one_of,
    validators,
)

_PART = {"name": "part", "pattern": r"(:\w+)*", "description": "The path of the part."}
_KEY = {"name": "key", "pattern": ".+", "description": "The key of the metadata."}

#: Attributes with a number or a text.
_ATTRIBUTES = (
    "aggregates cell_uuid cpu_allocation_ratio current_workload disk_allocation_ratio"
    " disk_available_least disk_mb_used failed_builds free_disk_gb free_disk_mb free_ram_mb host"
    " host_ip hypervisor_hostname hypervisor_type hypervisor_version id local_gb local_gb_used"
    " mapped memory_mb memory_mb_used num_instances num_io_ops ram_allocation_ratio running_vms"
    " service_id total_usable_disk_gb total_usable_ram_mb updated uuid vcpus vcpus_total"
    " vcpus_used"
)
#: Attributes with parts, which are separated by colons.
_ATTRIBUTES_WITH_PARTS = (
    "cpu_info instances limits metrics nodename numa_topology pci_device_pools pci_stats stats"
    " supported_hv_specs supported_instances"
)
_GROUP = {
    "name": "group",
    "pattern": "[a-zA-Z0-9_-]{0,64}",
    "description": "The suffix of the request group; empty for the unsuffixed group.",
}
_CUSTOM = "CUSTOM_[A-Z0-9_]+"
_TRAITS = like(r"[A-Z][A-Z0-9_]*(\s*,\s*[A-Z][A-Z0-9_]*)*")
#: Extra specs of this service.
_PREFERENCES = {
    "scheduler:prefer_traits": ("Traits of preferred hosts, separated by commas.", _TRAITS),
    "scheduler:avoid_traits": ("Traits of avoided hosts, separated by commas.", _TRAITS),
    "scheduler:spread_by": (
        "The metadata key of aggregates. The server group is spread over its values.",
        like(r".*\S.*"),
    ),
    "scheduler:max_skew": ("The largest difference of members between two domains.", number(1)),
    "scheduler:spread_mode": (
        "Whether hosts beyond the largest difference are rejected.",
        one_of("hard", "soft"),
    ),
}


def register() -> list[ExtraSpecValidator]:
    """Return the validators of resources, traits, host states and aggregates."""
    prefix = "The value, or the comparison, that"
    attributes = {
        f"capabilities:{name}": (f"{prefix} a host's {name} must meet.", TEXT)
        for name in _ATTRIBUTES.split()
    }
    with_parts = {
        f"capabilities:{name}{{part}}": (f"{prefix} a part of {name} must meet.", TEXT)
        for name in _ATTRIBUTES_WITH_PARTS.split()
    }
    metadata = {
        "aggregate_instance_extra_specs:{key}": (
            f"{prefix} this key of the metadata must meet.",
            TEXT,
        )
    }
    amounts = {
        "resources{group}:{class}": (
            "The amount of this class, which replaces the amount of the flavor.",
            {"type": int},
        )
    }
    traits = {
        "trait{group}:{trait}": (
            "Whether a provider must have this trait, or must not have it.",
            one_of("required", "forbidden"),
        )
    }
    policy = {
        "group_policy": (
            "Whether groups with a suffix may use the same provider.",
            one_of("isolate", "none"),
        )
    }
    names = "|".join([*os_resource_classes.STANDARDS, _CUSTOM])
    a_class = {"name": "class", "pattern": names, "description": "A resource class."}
    names = "|".join([*os_traits.get_traits(), _CUSTOM])
    a_trait = {"name": "trait", "pattern": names, "description": "A trait."}
    return [
        *validators(attributes),
        *validators(with_parts, _PART),
        *validators(metadata, _KEY),
        *validators(amounts, _GROUP, a_class),
        *validators(traits, _GROUP, a_trait),
        *validators(policy),
        *validators(_PREFERENCES),
    ]
