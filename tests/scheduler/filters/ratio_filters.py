# SPDX-License-Identifier: Apache-2.0
"""Hosts and requests for filters of allocation ratios."""

from placement_sched.scheduler.filters.core_filter import AggregateCoreFilter, CoreFilter
from placement_sched.scheduler.filters.disk_filter import AggregateDiskFilter, DiskFilter
from placement_sched.scheduler.filters.ram_filter import AggregateRamFilter, RamFilter
from tests.support.states import (
    build_aggregates,
    build_host_state,
    build_settings,
    build_spec,
    find_rejection,
)

CPU_RATIO, DISK_RATIO, RAM_RATIO = (
    "cpu_allocation_ratio",
    "disk_allocation_ratio",
    "ram_allocation_ratio",
)
#: The ratio, and the name of the limit, of each filter.
RATIO_AND_LIMIT_BY_FILTER = {
    CoreFilter: (CPU_RATIO, "vcpu"),
    DiskFilter: (DISK_RATIO, "disk_gb"),
    RamFilter: (RAM_RATIO, "memory_mb"),
    AggregateCoreFilter: (CPU_RATIO, "vcpu"),
    AggregateDiskFilter: (DISK_RATIO, "disk_gb"),
    AggregateRamFilter: (RAM_RATIO, "memory_mb"),
}
#: The resource class and the unit of a rejection, by ratio.
CLASS_AND_UNIT = {
    CPU_RATIO: ("VCPU", "VCPU"),
    DISK_RATIO: ("DISK_GB", "MB"),
    RAM_RATIO: ("MEMORY_MB", "MB"),
}


def build_host_with_usage(kind, total, left, ratio, *metadata):
    """Return a host. ``left`` is the used amount of CPUs, or the free amount of others."""
    name, _ = RATIO_AND_LIMIT_BY_FILTER[kind]
    fields = {
        CPU_RATIO: {"vcpus_total": total, "vcpus_used": left},
        DISK_RATIO: {"total_usable_disk_gb": total, "free_disk_mb": left},
        RAM_RATIO: {"total_usable_ram_mb": total, "free_ram_mb": left},
    }[name]
    return build_host_state(aggregates=build_aggregates(*metadata), **fields, **{name: ratio})


def build_request_for_amounts(kind, *amounts):
    """Return a request for CPUs, for MB, or for GB of root and ephemeral disk and MB of swap."""
    names = {
        CPU_RATIO: ["vcpus"],
        DISK_RATIO: ["root_gb", "ephemeral_gb", "swap"],
        RAM_RATIO: ["memory_mb"],
    }
    return build_spec(
        flavor={
            "name": "f",
            **dict(
                zip(names[RATIO_AND_LIMIT_BY_FILTER[kind][0]], (*amounts, 0, 0, 0), strict=False)
            ),
        }
    )


def find_filter_rejection(kind, host, *amounts, **options):
    """Return requested amount, free amount, total and ratio, or None."""
    plugin = kind.with_settings(build_settings(**options))
    request = build_request_for_amounts(kind, *amounts) if amounts else build_spec()
    find_rejection(plugin, host, request)
    rejection = plugin.rejection(host, request)
    if rejection is None:
        return None
    class_and_unit = rejection.values["resource_class"], rejection.values["unit"]
    assert class_and_unit == CLASS_AND_UNIT[RATIO_AND_LIMIT_BY_FILTER[kind][0]]
    return read_shortage(rejection)


def read_shortage(rejection):
    """Return the amounts of a rejection."""
    values = rejection.as_json()
    assert values["kind"] == "capacity"
    names = ("requested", "free", "total", "allocation_ratio")
    return tuple(round(values[name], 6) for name in names)
