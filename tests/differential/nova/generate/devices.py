# SPDX-License-Identifier: Apache-2.0
"""Random requests for PCI devices by alias."""

import json

from tests.differential.generate.random_values import RandomSource
from tests.differential.nova.generate.draft import RequestDraft

_NIC_ALIAS = {"name": "nic", "vendor_id": "8086", "product_id": "1502"}
_GPU_ALIAS = {"name": "gpu", "vendor_id": "10de", "product_id": "1eb8", "device_type": "type-PCI"}
_ALIAS_WITH_RESOURCE_CLASS = {
    "name": "a100",
    "resource_class": "a100",
    "traits": "GPU_BIG,HW_GPU_API_VULKAN",
}
_ALIAS_WITH_NUMA_POLICY = {
    "name": "far",
    "vendor_id": "8086",
    "product_id": "1502",
    "resource_class": "CUSTOM_GOLD",
    "traits": "custom_gpu_big",
    "numa_policy": "preferred",
}
_LIVE_MIGRATABLE_ALIAS = {**_NIC_ALIAS, "name": "lively", "live_migratable": "yes"}
_NIC_ALIAS_OF_OTHER_PRODUCT = {**_NIC_ALIAS, "product_id": "1503"}
_PCI_ALIASES = (_NIC_ALIAS, _GPU_ALIAS, _ALIAS_WITH_NUMA_POLICY, _LIVE_MIGRATABLE_ALIAS)


def add_pci_alias(rng: RandomSource, draft: RequestDraft) -> None:
    aliases = list(_PCI_ALIASES)
    if rng.chance(0.9):
        draft.options["filter_scheduler.pci_in_placement"] = True
        aliases.append(_ALIAS_WITH_RESOURCE_CLASS)
    if rng.chance(0.05):
        aliases.append(_NIC_ALIAS_OF_OTHER_PRODUCT)
    draft.options["pci.alias"] = [json.dumps(alias) for alias in aliases]
    if rng.chance(0.15):
        _add_pci_requests_to_request_spec(rng, draft)
        return
    if rng.chance(0.05):
        return
    names = rng.sample([alias["name"] for alias in aliases], 1, 2)
    if rng.chance(0.04):
        names.append("nobody")
    value = ",".join(f"{name}:{rng.choice([1, 1, 2])}" for name in names)
    draft.extra_specs["pci_passthrough:alias"] = value


def add_pci_affinity_policy(rng: RandomSource, draft: RequestDraft) -> None:
    policy = rng.choice(["socket", "socket", "required", "preferred", "legacy"])
    draft.set_in_flavor_or_image(rng, "pci_numa_affinity_policy", policy)


def _add_pci_requests_to_request_spec(rng: RandomSource, draft: RequestDraft) -> None:
    spec = {"vendor_id": "8086", "product_id": "1502"}
    if rng.chance(0.3):
        spec = {"resource_class": "CUSTOM_A100", "traits": "CUSTOM_GPU_BIG"}
    draft.spec["pci_requests"] = {
        "requests": [
            {
                "count": rng.choice([1, 2]),
                "spec": [spec],
                "alias_name": "nic",
                "request_id": f"f0000000-0000-4000-8000-00000000000{number}",
            }
            for number in range(rng.choice([0, 1, 1, 2]))
        ]
    }
