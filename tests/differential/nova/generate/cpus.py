# SPDX-License-Identifier: Apache-2.0
"""Random extra specs and image properties about CPUs, NUMA nodes and pages."""

from tests.differential.generate.dice import Dice
from tests.differential.nova.generate.draft import FALSE, TRUE, RequestDraft


def add_pinned_cpus(dice: Dice, draft: RequestDraft) -> None:
    draft.set_in_flavor_or_image(dice, "cpu_policy", "dedicated")
    if dice.chance(0.5):
        draft.set_in_flavor_or_image(
            dice, "cpu_thread_policy", dice.choice(["prefer", "isolate", "require"])
        )
    if dice.chance(0.3):
        draft.extra_specs["hw:emulator_threads_policy"] = dice.choice(["isolate", "share"])


def add_mixed_cpus(dice: Dice, draft: RequestDraft) -> None:
    draft.extra_specs["hw:cpu_policy"] = "mixed"
    if dice.chance(0.7):
        draft.extra_specs["hw:cpu_dedicated_mask"] = _random_cpu_mask(dice, draft)
    else:
        add_real_time_cpus(dice, draft)
    if dice.chance(0.3):
        draft.extra_specs["hw:emulator_threads_policy"] = dice.choice(["isolate", "share"])
    if dice.chance(0.3):
        draft.extra_specs["hw:cpu_thread_policy"] = dice.choice(["prefer", "isolate", "require"])


def add_shared_cpus(dice: Dice, draft: RequestDraft) -> None:
    draft.set_in_flavor_or_image(dice, "cpu_policy", "shared")
    if dice.chance(0.1):
        draft.extra_specs["hw:cpu_thread_policy"] = dice.choice(["prefer", "require"])
    if dice.chance(0.1):
        draft.extra_specs["hw:emulator_threads_policy"] = dice.choice(["isolate", "share"])


def add_real_time_cpus(dice: Dice, draft: RequestDraft) -> None:
    draft.extra_specs["hw:cpu_realtime"] = dice.choice(TRUE if dice.chance(0.85) else FALSE)
    if dice.chance(0.3):
        draft.properties["hw_cpu_realtime_mask"] = _random_cpu_mask(dice, draft)
    else:
        draft.extra_specs["hw:cpu_realtime_mask"] = _random_cpu_mask(dice, draft)
    if dice.chance(0.7):
        draft.extra_specs.setdefault("hw:cpu_policy", "dedicated")


def add_thread_policy(dice: Dice, draft: RequestDraft) -> None:
    word = dice.choice(["required", "forbidden"])
    if dice.chance(0.7):
        draft.extra_specs["trait:HW_CPU_HYPERTHREADING"] = word
    else:
        draft.properties["trait:HW_CPU_HYPERTHREADING"] = "required"
    if dice.chance(0.8):
        draft.extra_specs["resources:PCPU"] = str(draft.vcpus)


def add_numa_topology_of_request(dice: Dice, draft: RequestDraft) -> None:
    cell = {"id": 0, "cpuset": list(range(draft.vcpus)), "memory": draft.flavor["memory_mb"]}
    draft.spec["numa_topology"] = dice.choice([None, {"cells": [cell]}])


def add_numa_nodes_of_image(dice: Dice, draft: RequestDraft) -> None:
    nodes = dice.choice([1, 2])
    draft.properties["hw_numa_nodes"] = str(nodes)
    for cell in range(nodes if dice.chance(0.5) else 0):
        cpus = range(cell * draft.vcpus // nodes, (cell + 1) * draft.vcpus // nodes)
        memory = draft.flavor["memory_mb"] // nodes
        draft.properties[f"hw_numa_cpus.{cell}"] = ",".join(map(str, cpus)) or "0"
        draft.properties[f"hw_numa_mem.{cell}"] = str(memory if dice.chance(0.9) else memory + 1)


def add_numa_nodes(dice: Dice, draft: RequestDraft) -> None:
    nodes = dice.choice([1, 2, 2, 4])
    if dice.chance(0.9):
        draft.extra_specs["hw:numa_nodes"] = str(nodes)
    else:
        draft.set_in_flavor_or_image(dice, "numa_nodes", str(nodes))
    if nodes == 1 or dice.chance(0.6):
        return
    for cell in range(nodes):
        cpus = range(cell * draft.vcpus // nodes, (cell + 1) * draft.vcpus // nodes)
        memory = draft.flavor["memory_mb"] // nodes
        draft.extra_specs[f"hw:numa_cpus.{cell}"] = ",".join(map(str, cpus)) or "0"
        draft.extra_specs[f"hw:numa_mem.{cell}"] = str(memory)


def add_page_size(dice: Dice, draft: RequestDraft) -> None:
    draft.extra_specs["hw:mem_page_size"] = dice.choice(
        ["small", "large", "any", "2048", "2MB", "1GB"]
    )
    if dice.chance(0.2):
        draft.properties["hw_mem_page_size"] = dice.choice(["large", "2048"])


def add_locked_memory(dice: Dice, draft: RequestDraft) -> None:
    draft.set_in_flavor_or_image(dice, "locked_memory", dice.choice(TRUE))
    if dice.chance(0.8):
        draft.extra_specs.setdefault("hw:mem_page_size", "large")


def add_page_size_of_image(dice: Dice, draft: RequestDraft) -> None:
    draft.properties["hw_mem_page_size"] = "large"


def _random_cpu_mask(dice: Dice, draft: RequestDraft) -> str:
    last = draft.vcpus - 1
    return dice.choice(["^0", "^0", f"^{last}", "0", f"0-{last}", f"0-{last},^0", "^0-1", "99"])
