# SPDX-License-Identifier: Apache-2.0
"""Flavors, NUMA cells and GPUs for tests of stranded resources."""

from placement_sched.model.flavor import Flavor
from placement_sched.model.hardware.numa import NUMACell, NUMAPagesTopology
from placement_sched.model.hardware.pci_devices import PciPools
from placement_sched.model.hardware.pci_requests import parse_aliases

GPU_ALIAS = '{"name": "gpu", "vendor_id": "10de", "product_id": "20b0", "device_type": "type-PCI"}'
GPU_ALIASES = parse_aliases((GPU_ALIAS,), in_placement=False)
HUGE_PAGE_KB = 1024 * 1024


def build_flavor(vcpus=1, memory_mb=1024, disk=0, **fields):
    return Flavor(vcpus=vcpus, memory_mb=memory_mb, root_gb=disk, **fields)


def build_pinned_flavor(vcpus, gigabytes, **extra_specs):
    specs = {"hw:cpu_policy": "dedicated", "hw:mem_page_size": str(HUGE_PAGE_KB)}
    specs |= {name.replace("__", ":"): value for name, value in extra_specs.items()}
    return build_flavor(vcpus, 1024 * gigabytes, extra_specs=specs)


def build_numa_cell(number, cpus, pages, *, shared=0, used=0):
    first = 100 * number
    return NUMACell(
        id=number,
        cpuset=frozenset(range(first + 50, first + 50 + shared)),
        pcpuset=frozenset(range(first, first + cpus)),
        pinned_cpus=frozenset(range(first, first + used)),
        memory=1024 * (pages + 8),
        mempages=(
            NUMAPagesTopology(size_kb=4, total=8 * 256 * 1024),
            NUMAPagesTopology(size_kb=HUGE_PAGE_KB, total=pages),
        ),
    )


def build_gpu_pools(*counts):
    ids = {"vendor_id": "10de", "product_id": "20b0", "dev_type": "type-PCI"}
    return PciPools.from_report(
        [{**ids, "numa_node": node, "count": count} for node, count in counts]
    )
