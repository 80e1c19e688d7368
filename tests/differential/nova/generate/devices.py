# SPDX-License-Identifier: Apache-2.0
"""Random requests for PCI devices by alias."""

import json

from tests.differential.generate.dice import Dice
from tests.differential.nova.generate.draft import RequestDraft

_NIC = {"name": "nic", "vendor_id": "8086", "product_id": "1502"}
_GPU = {"name": "gpu", "vendor_id": "10de", "product_id": "1eb8", "device_type": "type-PCI"}
_BY_CLASS = {"name": "a100", "resource_class": "a100", "traits": "GPU_BIG,HW_GPU_API_VULKAN"}
_WITH_POLICY = {
    "name": "far",
    "vendor_id": "8086",
    "product_id": "1502",
    "resource_class": "CUSTOM_GOLD",
    "traits": "custom_gpu_big",
    "numa_policy": "preferred",
}
_LIVELY = {**_NIC, "name": "lively", "live_migratable": "yes"}
_OTHER_NIC = {**_NIC, "product_id": "1503"}
_ALIASES = (_NIC, _GPU, _WITH_POLICY, _LIVELY)


def add_pci_alias(dice: Dice, draft: RequestDraft) -> None:
    aliases = list(_ALIASES)
    if dice.chance(0.9):
        draft.options["filter_scheduler.pci_in_placement"] = True
        aliases.append(_BY_CLASS)
    if dice.chance(0.05):
        aliases.append(_OTHER_NIC)
    draft.options["pci.alias"] = [json.dumps(alias) for alias in aliases]
    if dice.chance(0.15):
        _add_pci_requests_to_request_spec(dice, draft)
        return
    if dice.chance(0.05):
        return
    names = dice.sample([alias["name"] for alias in aliases], 1, 2)
    if dice.chance(0.04):
        names.append("nobody")
    value = ",".join(f"{name}:{dice.choice([1, 1, 2])}" for name in names)
    draft.extra_specs["pci_passthrough:alias"] = value


def add_pci_affinity_policy(dice: Dice, draft: RequestDraft) -> None:
    policy = dice.choice(["socket", "socket", "required", "preferred", "legacy"])
    draft.set_in_flavor_or_image(dice, "pci_numa_affinity_policy", policy)


def _add_pci_requests_to_request_spec(dice: Dice, draft: RequestDraft) -> None:
    spec = {"vendor_id": "8086", "product_id": "1502"}
    if dice.chance(0.3):
        spec = {"resource_class": "CUSTOM_A100", "traits": "CUSTOM_GPU_BIG"}
    draft.spec["pci_requests"] = {
        "requests": [
            {
                "count": dice.choice([1, 2]),
                "spec": [spec],
                "alias_name": "nic",
                "request_id": f"f0000000-0000-4000-8000-00000000000{number}",
            }
            for number in range(dice.choice([0, 1, 1, 2]))
        ]
    }
