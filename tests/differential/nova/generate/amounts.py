# SPDX-License-Identifier: Apache-2.0
"""Random extra specs with resource classes, traits and request groups."""

from tests.differential.generate.dice import Dice
from tests.differential.nova.generate.draft import TRAITS, RequestDraft

SUFFIXES = ("1", "2", "_NET", "-a", "GPU1")
_DEVICES = ("VGPU", "PGPU", "FPGA", "SRIOV_NET_VF", "CUSTOM_GOLD", "CUSTOM_A100")
_WORDS = ("required", "required", "required", "forbidden")


def add_resources(dice: Dice, draft: RequestDraft) -> None:
    for name in dice.sample(("MEMORY_MB", "DISK_GB", "CUSTOM_GOLD", "VGPU"), 1, 2):
        draft.extra_specs[f"resources:{name}"] = dice.choice(["1", "2", "0", "64"])


def add_cpus_as_resources(dice: Dice, draft: RequestDraft) -> None:
    name = dice.choice(["VCPU", "PCPU", "PCPU"])
    amount = draft.vcpus if dice.chance(0.8) else draft.vcpus + 1
    draft.extra_specs[f"resources:{name}"] = str(amount)
    if dice.chance(0.1):
        draft.extra_specs["hw:emulator_threads_policy"] = "isolate"


def add_bare_metal_resources(dice: Dice, draft: RequestDraft) -> None:
    for name in ("VCPU", "MEMORY_MB", "DISK_GB"):
        draft.extra_specs[f"resources:{name}"] = "0"
    if dice.chance(0.9):
        draft.extra_specs["resources:CUSTOM_BAREMETAL"] = "1"


def add_traits(dice: Dice, draft: RequestDraft) -> None:
    for name in dice.sample(TRAITS, 1, 3):
        draft.extra_specs[f"trait:{name}"] = dice.choice(_WORDS)


def add_request_groups(dice: Dice, draft: RequestDraft) -> None:
    chosen = dice.sample(SUFFIXES, 1, 3)
    for suffix in chosen:
        if dice.chance(0.95):
            amount = dice.choice(["1", "1", "2", "0"])
            draft.extra_specs[f"resources{suffix}:{dice.choice(_DEVICES)}"] = amount
        if dice.chance(0.4):
            draft.extra_specs[f"trait{suffix}:{dice.choice(TRAITS)}"] = dice.choice(_WORDS)
    if dice.chance(0.85 if len(chosen) > 1 else 0.2):
        draft.extra_specs["group_policy"] = dice.choice(["none", "isolate"])


def add_vcpus_in_group(dice: Dice, draft: RequestDraft) -> None:
    name = dice.choice(["VCPU", "PCPU", "MEMORY_MB", "DISK_GB"])
    amount = {"VCPU": draft.vcpus, "PCPU": draft.vcpus}.get(name, 128)
    draft.extra_specs[f"resources{dice.choice(SUFFIXES)}:{name}"] = str(amount)
