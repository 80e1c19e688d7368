"""``capabilities:``: what ComputeCapabilitiesFilter compares with the state of a host."""

from placement_sched.scheduler.extra_specs.validator import ExtraSpecValidator

#: Attributes that are a number or a text.
_PLAIN = (
    "aggregates",
    "cell_uuid",
    "cpu_allocation_ratio",
    "current_workload",
    "disk_allocation_ratio",
    "disk_available_least",
    "disk_mb_used",
    "failed_builds",
    "free_disk_gb",
    "free_disk_mb",
    "free_ram_mb",
    "host",
    "host_ip",
    "hypervisor_hostname",
    "hypervisor_type",
    "hypervisor_version",
    "id",
    "local_gb",
    "local_gb_used",
    "mapped",
    "memory_mb",
    "memory_mb_used",
    "num_instances",
    "num_io_ops",
    "ram_allocation_ratio",
    "running_vms",
    "service_id",
    "total_usable_disk_gb",
    "total_usable_ram_mb",
    "updated",
    "uuid",
    "vcpus",
    "vcpus_total",
    "vcpus_used",
)
#: Attributes that have parts, named behind further colons.
_PARTED = (
    "cpu_info",
    "instances",
    "limits",
    "metrics",
    "nodename",
    "numa_topology",
    "pci_device_pools",
    "pci_stats",
    "stats",
    "supported_hv_specs",
    "supported_instances",
)


def register() -> list[ExtraSpecValidator]:
    """Return the extra specs about what a host is and has."""
    plain = [
        ExtraSpecValidator(
            name=f"capabilities:{name}",
            description=f"The value, or the comparison, that a host's {name} must meet.",
            value={"type": str},
        )
        for name in _PLAIN
    ]
    parted = [
        ExtraSpecValidator(
            name=f"capabilities:{name}{{part}}",
            description=f"The value, or the comparison, that a part of {name} must meet.",
            value={"type": str},
            parameters=[
                {"name": "part", "pattern": r"(:\w+)*", "description": "The way to the part."}
            ],
        )
        for name in _PARTED
    ]
    return plain + parted
