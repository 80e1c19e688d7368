# SPDX-License-Identifier: Apache-2.0
"""Extra specs and properties about CPUs, NUMA nodes and pages."""

from tests.differential.generate.dice import Dice
from tests.differential.nova.generate.draft import FALSE, TRUE, Draft


def pinned(dice: Dice, draft: Draft) -> None:
    draft.either(dice, "cpu_policy", "dedicated")
    if dice.chance(0.5):
        draft.either(dice, "cpu_thread_policy", dice.one(["prefer", "isolate", "require"]))
    if dice.chance(0.3):
        draft.extra_specs["hw:emulator_threads_policy"] = dice.one(["isolate", "share"])


def mixed(dice: Dice, draft: Draft) -> None:
    draft.extra_specs["hw:cpu_policy"] = "mixed"
    if dice.chance(0.7):
        draft.extra_specs["hw:cpu_dedicated_mask"] = _mask(dice, draft)
    else:
        real_time(dice, draft)
    if dice.chance(0.3):
        draft.extra_specs["hw:emulator_threads_policy"] = dice.one(["isolate", "share"])
    if dice.chance(0.3):
        draft.extra_specs["hw:cpu_thread_policy"] = dice.one(["prefer", "isolate", "require"])


def shared(dice: Dice, draft: Draft) -> None:
    draft.either(dice, "cpu_policy", "shared")
    if dice.chance(0.1):
        draft.extra_specs["hw:cpu_thread_policy"] = dice.one(["prefer", "require"])
    if dice.chance(0.1):
        draft.extra_specs["hw:emulator_threads_policy"] = dice.one(["isolate", "share"])


def real_time(dice: Dice, draft: Draft) -> None:
    draft.extra_specs["hw:cpu_realtime"] = dice.one(TRUE if dice.chance(0.85) else FALSE)
    if dice.chance(0.3):
        draft.properties["hw_cpu_realtime_mask"] = _mask(dice, draft)
    else:
        draft.extra_specs["hw:cpu_realtime_mask"] = _mask(dice, draft)
    if dice.chance(0.7):
        draft.extra_specs.setdefault("hw:cpu_policy", "dedicated")


def hyperthreading(dice: Dice, draft: Draft) -> None:
    word = dice.one(["required", "forbidden"])
    if dice.chance(0.7):
        draft.extra_specs["trait:HW_CPU_HYPERTHREADING"] = word
    else:
        draft.properties["trait:HW_CPU_HYPERTHREADING"] = "required"
    if dice.chance(0.8):
        draft.extra_specs["resources:PCPU"] = str(draft.vcpus)


def topology_told(dice: Dice, draft: Draft) -> None:
    cell = {"id": 0, "cpuset": list(range(draft.vcpus)), "memory": draft.flavor["memory_mb"]}
    draft.spec["numa_topology"] = dice.one([None, {"cells": [cell]}])


def numa_of_the_image(dice: Dice, draft: Draft) -> None:
    nodes = dice.one([1, 2])
    draft.properties["hw_numa_nodes"] = str(nodes)
    for cell in range(nodes if dice.chance(0.5) else 0):
        cpus = range(cell * draft.vcpus // nodes, (cell + 1) * draft.vcpus // nodes)
        memory = draft.flavor["memory_mb"] // nodes
        draft.properties[f"hw_numa_cpus.{cell}"] = ",".join(map(str, cpus)) or "0"
        draft.properties[f"hw_numa_mem.{cell}"] = str(memory if dice.chance(0.9) else memory + 1)


def numa(dice: Dice, draft: Draft) -> None:
    nodes = dice.one([1, 2, 2, 4])
    if dice.chance(0.9):
        draft.extra_specs["hw:numa_nodes"] = str(nodes)
    else:
        draft.either(dice, "numa_nodes", str(nodes))
    if nodes == 1 or dice.chance(0.6):
        return
    for cell in range(nodes):
        cpus = range(cell * draft.vcpus // nodes, (cell + 1) * draft.vcpus // nodes)
        memory = draft.flavor["memory_mb"] // nodes
        draft.extra_specs[f"hw:numa_cpus.{cell}"] = ",".join(map(str, cpus)) or "0"
        draft.extra_specs[f"hw:numa_mem.{cell}"] = str(memory)


def pages(dice: Dice, draft: Draft) -> None:
    draft.extra_specs["hw:mem_page_size"] = dice.one(
        ["small", "large", "any", "2048", "2MB", "1GB"]
    )
    if dice.chance(0.2):
        draft.properties["hw_mem_page_size"] = dice.one(["large", "2048"])


def locked_memory(dice: Dice, draft: Draft) -> None:
    draft.either(dice, "locked_memory", dice.one(TRUE))
    if dice.chance(0.8):
        draft.extra_specs.setdefault("hw:mem_page_size", "large")


def pages_of_the_image(dice: Dice, draft: Draft) -> None:
    draft.properties["hw_mem_page_size"] = "large"


def _mask(dice: Dice, draft: Draft) -> str:
    last = draft.vcpus - 1
    return dice.one(["^0", "^0", f"^{last}", "0", f"0-{last}", f"0-{last},^0", "^0-1", "99"])
