# SPDX-License-Identifier: Apache-2.0
"""The clouds of the Placement documents' examples, and candidates in a form to read.

Sources: "Modeling with Provider Trees" (user guide) and the specs on granular requests, nested
providers, ``in_tree``, ``root_required``, ``same_subtree``, any-traits and forbidden aggregates.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from tests.candidates.reference import SHARING_TRAIT
from tests.support.clouds import Cloud, Host, build_inventory, uuid_of


def provider(
    name: str,
    inventories: Mapping[str, int] | None = None,
    *,
    under: str | None = None,
    traits: Iterable[str] = (),
    aggregates: Iterable[str] = (),
) -> Host:
    """Return a provider with these totals per resource class."""
    built_inventories = {}
    for resource_class, total in (inventories or {}).items():
        built_inventories |= build_inventory(resource_class, total)
    return Host(name, built_inventories, frozenset(traits), frozenset(aggregates), under)


def build_cloud(*providers: Host) -> Cloud:
    """Return a cloud of these providers, parents before their children."""
    return Cloud(providers)


def format_candidates(response: Mapping[str, Any], cloud: Cloud) -> set[str]:
    """Return each candidate as ``CN1 MEMORY_MB:512 VCPU:1 + SS1 DISK_GB:500``."""
    names = {host.uuid: host.name for host in cloud.hosts}
    return {
        " + ".join(
            sorted(
                " ".join([names[uuid], *sorted(f"{k}:{v}" for k, v in part["resources"].items())])
                for uuid, part in request["allocations"].items()
            )
        )
        for request in response["allocation_requests"]
    }


def list_providers_of_group(response: Mapping[str, Any], cloud: Cloud, suffix: str) -> set[str]:
    """Return the providers that serve a group, over all candidates."""
    names = {host.uuid: host.name for host in cloud.hosts}
    return {
        names[uuid]
        for request in response["allocation_requests"]
        for uuid in request["mappings"][suffix]
    }


COMPUTE_INVENTORIES = {"VCPU": 8, "MEMORY_MB": 1024, "DISK_GB": 1000}
DISK_INVENTORY = {"DISK_GB": 1000}
AGGREGATE_A, AGGREGATE_B, AGGREGATE_C = (uuid_of(name) for name in ("aggA", "aggB", "aggC"))

#: Two sharing storage providers. SS1 shares with CN1, SS2 with no provider.
SHARED_DISK_CLOUD = build_cloud(
    provider("SS1", DISK_INVENTORY, traits=[SHARING_TRAIT], aggregates=["aggA"]),
    provider("SS2", DISK_INVENTORY, traits=[SHARING_TRAIT]),
    provider("CN1", COMPUTE_INVENTORIES, aggregates=["aggA"]),
    provider("CN2", COMPUTE_INVENTORIES),
)

#: Compute nodes with NUMA nodes, and a storage provider that shares with both trees.
NUMA_CLOUD_WITH_SHARED_DISK = build_cloud(
    provider("SS1", DISK_INVENTORY, traits=[SHARING_TRAIT], aggregates=["aggA"]),
    provider("CN1", {"MEMORY_MB": 1024, **DISK_INVENTORY}, aggregates=["aggA", "aggB"]),
    provider("NUMA1_1", {"VCPU": 8}, under="CN1"),
    provider("NUMA1_2", {"VCPU": 8}, under="CN1"),
    provider("CN2", {"MEMORY_MB": 1024, **DISK_INVENTORY}, aggregates=["aggA"]),
    provider("NUMA2_1", {"VCPU": 8}, under="CN2", aggregates=["aggB"]),
    provider("NUMA2_2", {"VCPU": 8}, under="CN2"),
)

#: A compute node with two network cards. NIC1_1 accelerates SSL.
NIC_CLOUD = build_cloud(
    provider("CN1", COMPUTE_INVENTORIES),
    provider("NIC1_1", {"SRIOV_NET_VF": 8}, under="CN1", traits=["HW_NIC_ACCEL_SSL"]),
    provider("NIC1_2", {"SRIOV_NET_VF": 8}, under="CN1"),
)

#: Two storage providers that share with two compute nodes. The NUMA nodes have the CPUs.
TWO_SHARED_DISKS_CLOUD = build_cloud(
    *(
        provider(name, DISK_INVENTORY, traits=[SHARING_TRAIT], aggregates=["aggA"])
        for name in ("SS1", "SS2")
    ),
    provider("CN1", DISK_INVENTORY, aggregates=["aggA"]),
    provider("NUMA1_1", {"VCPU": 4}, under="CN1"),
    provider("NUMA1_2", {"VCPU": 4}, under="CN1"),
    provider("CN2", DISK_INVENTORY, aggregates=["aggA"]),
    provider("NUMA2_1", {"VCPU": 4}, under="CN2"),
    provider("NUMA2_2", {"VCPU": 4}, under="CN2"),
)

#: A host without and a host with NUMA nodes. The root has the traits of the whole host.
ROOT_TRAIT_CLOUD = build_cloud(
    provider(
        "NON_NUMA_CN",
        COMPUTE_INVENTORIES,
        traits=[
            "HW_CPU_X86_AVX2",
            "STORAGE_DISK_SSD",
            "COMPUTE_VOLUME_MULTI_ATTACH",
            "CUSTOM_WINDOWS_LICENSE_POOL",
        ],
    ),
    provider("NUMA_CN", DISK_INVENTORY, traits=["STORAGE_DISK_SSD", "COMPUTE_VOLUME_MULTI_ATTACH"]),
    provider("NUMA1", {"VCPU": 4, "MEMORY_MB": 1024}, under="NUMA_CN"),
    provider("NUMA2", {"VCPU": 4, "MEMORY_MB": 1024}, under="NUMA_CN", traits=["HW_CPU_X86_AVX2"]),
)

#: NUMA nodes with programmable devices below them.
FPGA_CLOUD = build_cloud(
    provider("CN"),
    provider("NUMA0", {"VCPU": 4, "MEMORY_MB": 2048}, under="CN", traits=["HW_NUMA_ROOT"]),
    provider("NUMA1", {"VCPU": 4, "MEMORY_MB": 2048}, under="CN", traits=["HW_NUMA_ROOT"]),
    provider("FPGA0_0", {"FPGA": 1}, under="NUMA0", traits=["CUSTOM_TYPE1"]),
    provider("FPGA1_0", {"FPGA": 1}, under="NUMA1", traits=["CUSTOM_TYPE1"]),
    provider("FPGA1_1", {"FPGA": 1}, under="NUMA1", traits=["CUSTOM_TYPE2"]),
)


#: A card, if the other card has no functions.
SRIOV_CARD_CLOUD = build_cloud(
    provider("CN"),
    provider("NIC1", under="CN", traits=["HW_NIC_ROOT"]),
    provider("NIC2", under="CN", traits=["HW_NIC_ROOT"]),
    provider("PF1_1", {"SRIOV_NET_VF": 4}, under="NIC1"),
    provider("PF1_2", {"SRIOV_NET_VF": 4}, under="NIC1"),
)

BANDWIDTH = "NET_BW_EGR_KILOBIT_PER_SEC"


def _build_network_function(name: str, bandwidth: int, *traits: str, free: int = 16) -> Host:
    inventories = {"SRIOV_NET_VF": free, BANDWIDTH: bandwidth}
    return provider(name, inventories, under="CN1", traits=traits)


def build_cloud_with_network_functions(free: int = 16) -> Cloud:
    """Return functions on two networks. RP1 and RP2 are faster and accelerate SSL."""
    return build_cloud(
        provider("CN1"),
        _build_network_function("RP1", 10_000_000, "CUSTOM_NET1", "HW_NIC_ACCEL_SSL", free=free),
        _build_network_function("RP2", 10_000_000, "CUSTOM_NET2", "HW_NIC_ACCEL_SSL", free=free),
        _build_network_function("RP3", 1_000_000, "CUSTOM_NET1", free=free),
        _build_network_function("RP4", 1_000_000, "CUSTOM_NET2", free=free),
    )


#: Trees and storage providers in aggregates that requests forbid.
FORBIDDEN_AGGREGATES_CLOUD = build_cloud(
    provider("SS1", DISK_INVENTORY, traits=[SHARING_TRAIT], aggregates=["aggB"]),
    provider("SS2", DISK_INVENTORY, traits=[SHARING_TRAIT], aggregates=["aggC"]),
    provider("CN1", {"MEMORY_MB": 1024}, aggregates=["aggA"]),
    provider("NUMA1_1", {"VCPU": 4}, under="CN1", aggregates=["aggC"]),
    provider("NUMA1_2", {"VCPU": 4}, under="CN1"),
    provider("CN2", {"MEMORY_MB": 1024}, aggregates=["aggB"]),
    provider("NUMA2_1", {"VCPU": 4}, under="CN2"),
    provider("NUMA2_2", {"VCPU": 4}, under="CN2"),
)

#: A host with ports on three networks, for direct or normal VNICs.
NETWORK_PORTS_CLOUD = build_cloud(
    provider("CN1", {"VCPU": 8}),
    *(
        provider(f"ETH{number}", {BANDWIDTH: 2000}, under="CN1", traits=traits)
        for number, traits in enumerate(
            [
                ("CUSTOM_PHYSNET_FOO", "CUSTOM_VNIC_TYPE_DIRECT"),
                ("CUSTOM_PHYSNET_BAR", "CUSTOM_VNIC_TYPE_DIRECT"),
                ("CUSTOM_PHYSNET_BAR", "CUSTOM_VNIC_TYPE_NORMAL"),
                ("CUSTOM_PHYSNET_BAZ", "CUSTOM_VNIC_TYPE_DIRECT"),
            ]
        )
    ),
)
CLOUD_OF_THREE_HOSTS = Cloud(tuple(provider(f"CN{number}", {"VCPU": 4}) for number in range(3)))
