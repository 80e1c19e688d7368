# SPDX-License-Identifier: Apache-2.0
"""Owners of root providers that are no compute nodes, by their classes.

Sources: the segments of Neutron (routed provider networks), the bandwidth of its agents (QoS with
minimum guarantees), the classes of bare metal nodes (Ironic, "Configure Nova flavors"), and the
device classes of Cyborg ("Cyborg placement reporting").
"""

from collections.abc import Sequence

import os_resource_classes as orc
import os_traits

from placement_sched.model.names import shorten_names
from placement_sched.model.provider import CUSTOM_PREFIX
from placement_sched.store.compute.hosts import ProviderInTree

#: Classes in the inventories of Neutron's agents.
_NETWORK_PREFIXES = ("NET_BW_", "NET_PACKET_RATE_")
_DEVICES = frozenset({orc.FPGA, orc.PGPU})
#: Classes that nova reports of a compute node, and prefixes of its custom classes.
_NOVA = frozenset(
    {orc.VCPU, orc.PCPU, orc.MEMORY_MB, orc.DISK_GB, orc.VGPU, orc.MEM_ENCRYPTION_CONTEXT}
)
_NOVA_PREFIXES = ("CUSTOM_PCI_", "CUSTOM_PMEM_NAMESPACE_")


def find_owner(tree: Sequence[ProviderInTree]) -> str | None:
    """Return the likely owner of a tree, or None if nova may have made it.

    Hosts of Zun have the same classes as hosts of nova, and have no owner here.
    """
    classes = {each.resource_class for provider in tree for each in provider.inventories}
    traits = {trait for provider in tree for trait in provider.traits}
    if orc.IPV4_ADDRESS in classes:
        return "a segment of Neutron"
    foreign = sorted(name for name in classes - _NOVA if not name.startswith(_NOVA_PREFIXES))
    if os_traits.OWNER_CYBORG in traits or not _DEVICES.isdisjoint(foreign):
        return "devices of Cyborg"
    if any(name.startswith(_NETWORK_PREFIXES) for name in foreign):
        return "an agent of Neutron"
    if len(foreign) == len(classes) == 1 and foreign[0].startswith(CUSTOM_PREFIX):
        return f"a node of Ironic, with {foreign[0]}"
    return f"with {shorten_names(foreign)}, not of nova" if foreign else None
