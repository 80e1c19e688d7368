# SPDX-License-Identifier: Apache-2.0
"""Extra specs that ask placement for classes and traits by name, in groups."""

from tests.differential.generate.dice import Dice
from tests.differential.nova.generate.draft import TRAITS, Draft

SUFFIXES = ("1", "2", "_NET", "-a", "GPU1")
_DEVICES = ("VGPU", "PGPU", "FPGA", "SRIOV_NET_VF", "CUSTOM_GOLD", "CUSTOM_A100")
_WORDS = ("required", "required", "required", "forbidden")


def resources(dice: Dice, draft: Draft) -> None:
    for name in dice.some(("MEMORY_MB", "DISK_GB", "CUSTOM_GOLD", "VGPU"), 1, 2):
        draft.extra_specs[f"resources:{name}"] = dice.one(["1", "2", "0", "64"])


def vcpus_by_name(dice: Dice, draft: Draft) -> None:
    name = dice.one(["VCPU", "PCPU", "PCPU"])
    many = draft.vcpus if dice.chance(0.8) else draft.vcpus + 1
    draft.extra_specs[f"resources:{name}"] = str(many)
    if dice.chance(0.1):
        draft.extra_specs["hw:emulator_threads_policy"] = "isolate"


def bare_metal(dice: Dice, draft: Draft) -> None:
    for name in ("VCPU", "MEMORY_MB", "DISK_GB"):
        draft.extra_specs[f"resources:{name}"] = "0"
    if dice.chance(0.9):
        draft.extra_specs["resources:CUSTOM_BAREMETAL"] = "1"


def traits(dice: Dice, draft: Draft) -> None:
    for name in dice.some(TRAITS, 1, 3):
        draft.extra_specs[f"trait:{name}"] = dice.one(_WORDS)


def groups(dice: Dice, draft: Draft) -> None:
    chosen = dice.some(SUFFIXES, 1, 3)
    for suffix in chosen:
        if dice.chance(0.95):
            amount = dice.one(["1", "1", "2", "0"])
            draft.extra_specs[f"resources{suffix}:{dice.one(_DEVICES)}"] = amount
        if dice.chance(0.4):
            draft.extra_specs[f"trait{suffix}:{dice.one(TRAITS)}"] = dice.one(_WORDS)
    if dice.chance(0.85 if len(chosen) > 1 else 0.2):
        draft.extra_specs["group_policy"] = dice.one(["none", "isolate"])


def grouped_vcpus(dice: Dice, draft: Draft) -> None:
    name = dice.one(["VCPU", "PCPU", "MEMORY_MB", "DISK_GB"])
    amount = {"VCPU": draft.vcpus, "PCPU": draft.vcpus}.get(name, 128)
    draft.extra_specs[f"resources{dice.one(SUFFIXES)}:{name}"] = str(amount)
