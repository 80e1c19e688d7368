"""Extra specs that the scheduler reads: of providers, host states and aggregates.

``resources:``, ``trait:`` and ``group_policy`` are asked of placement; ``capabilities:`` and
``aggregate_instance_extra_specs:`` are what filters compare with a host.
"""

import os_resource_classes
import os_traits

from placement_sched.scheduler.extra_specs.validator import (
    TEXT,
    ExtraSpecValidator,
    one_of,
    validators,
)

_PART = {"name": "part", "pattern": r"(:\w+)*", "description": "The way to the part."}
_KEY = {"name": "key", "pattern": ".+", "description": "The key of the metadata."}

#: Attributes that are a number or a text.
_PLAIN = (
    "aggregates cell_uuid cpu_allocation_ratio current_workload disk_allocation_ratio"
    " disk_available_least disk_mb_used failed_builds free_disk_gb free_disk_mb free_ram_mb host"
    " host_ip hypervisor_hostname hypervisor_type hypervisor_version id local_gb local_gb_used"
    " mapped memory_mb memory_mb_used num_instances num_io_ops ram_allocation_ratio running_vms"
    " service_id total_usable_disk_gb total_usable_ram_mb updated uuid vcpus vcpus_total"
    " vcpus_used"
)
#: Attributes that have parts, named after further colons.
_WITH_PARTS = (
    "cpu_info instances limits metrics nodename numa_topology pci_device_pools pci_stats stats"
    " supported_hv_specs supported_instances"
)
_GROUP = {
    "name": "group",
    "pattern": "[a-zA-Z0-9_-]{0,64}",
    "description": "The suffix of the request group; empty for the one without.",
}
_CUSTOM = "CUSTOM_[A-Z0-9_]+"


def register() -> list[ExtraSpecValidator]:
    """Return the extra specs about providers, and about the state and aggregates of a host."""
    compared = "The value, or the comparison, that"
    plain = {
        f"capabilities:{name}": (f"{compared} a host's {name} must meet.", TEXT)
        for name in _PLAIN.split()
    }
    with_parts = {
        f"capabilities:{name}{{part}}": (f"{compared} a part of {name} must meet.", TEXT)
        for name in _WITH_PARTS.split()
    }
    metadata = {
        "aggregate_instance_extra_specs:{key}": (
            f"{compared} this key of the metadata must meet.",
            TEXT,
        )
    }
    amounts = {
        "resources{group}:{class}": (
            "How much of this class is wanted, in place of what the flavor says.",
            {"type": int},
        )
    }
    traits = {
        "trait{group}:{trait}": (
            "Whether a provider must have this trait, or must not.",
            one_of("required", "forbidden"),
        )
    }
    policy = {
        "group_policy": (
            "Whether groups with a suffix may be served by the same provider.",
            one_of("isolate", "none"),
        )
    }
    names = "|".join([*os_resource_classes.STANDARDS, _CUSTOM])
    a_class = {"name": "class", "pattern": names, "description": "A resource class."}
    names = "|".join([*os_traits.get_traits(), _CUSTOM])
    a_trait = {"name": "trait", "pattern": names, "description": "A trait."}
    return [
        *validators(plain),
        *validators(with_parts, _PART),
        *validators(metadata, _KEY),
        *validators(amounts, _GROUP, a_class),
        *validators(traits, _GROUP, a_trait),
        *validators(policy),
    ]
