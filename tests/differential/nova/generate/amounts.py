# SPDX-License-Identifier: Apache-2.0
"""Random extra specs with resource classes, traits and request groups."""

from tests.differential.generate.random_values import RandomSource
from tests.differential.nova.generate.draft import TRAITS, RequestDraft

GROUP_SUFFIXES = ("1", "2", "_NET", "-a", "GPU1")
_DEVICE_CLASSES = ("VGPU", "PGPU", "FPGA", "SRIOV_NET_VF", "CUSTOM_GOLD", "CUSTOM_A100")
_TRAIT_VALUES = ("required", "required", "required", "forbidden")


def add_resources(rng: RandomSource, draft: RequestDraft) -> None:
    for name in rng.sample(("MEMORY_MB", "DISK_GB", "CUSTOM_GOLD", "VGPU"), 1, 2):
        draft.extra_specs[f"resources:{name}"] = rng.choice(["1", "2", "0", "64"])


def add_cpus_as_resources(rng: RandomSource, draft: RequestDraft) -> None:
    name = rng.choice(["VCPU", "PCPU", "PCPU"])
    amount = draft.vcpus if rng.chance(0.8) else draft.vcpus + 1
    draft.extra_specs[f"resources:{name}"] = str(amount)
    if rng.chance(0.1):
        draft.extra_specs["hw:emulator_threads_policy"] = "isolate"


def add_bare_metal_resources(rng: RandomSource, draft: RequestDraft) -> None:
    for name in ("VCPU", "MEMORY_MB", "DISK_GB"):
        draft.extra_specs[f"resources:{name}"] = "0"
    if rng.chance(0.9):
        draft.extra_specs["resources:CUSTOM_BAREMETAL"] = "1"


def add_traits(rng: RandomSource, draft: RequestDraft) -> None:
    for name in rng.sample(TRAITS, 1, 3):
        draft.extra_specs[f"trait:{name}"] = rng.choice(_TRAIT_VALUES)


def add_request_groups(rng: RandomSource, draft: RequestDraft) -> None:
    chosen = rng.sample(GROUP_SUFFIXES, 1, 3)
    for suffix in chosen:
        if rng.chance(0.95):
            amount = rng.choice(["1", "1", "2", "0"])
            draft.extra_specs[f"resources{suffix}:{rng.choice(_DEVICE_CLASSES)}"] = amount
        if rng.chance(0.4):
            draft.extra_specs[f"trait{suffix}:{rng.choice(TRAITS)}"] = rng.choice(_TRAIT_VALUES)
    if rng.chance(0.85 if len(chosen) > 1 else 0.2):
        draft.extra_specs["group_policy"] = rng.choice(["none", "isolate"])


def add_vcpus_in_group(rng: RandomSource, draft: RequestDraft) -> None:
    name = rng.choice(["VCPU", "PCPU", "MEMORY_MB", "DISK_GB"])
    amount = {"VCPU": draft.vcpus, "PCPU": draft.vcpus}.get(name, 128)
    draft.extra_specs[f"resources{rng.choice(GROUP_SUFFIXES)}:{name}"] = str(amount)
