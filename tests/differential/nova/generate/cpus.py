# SPDX-License-Identifier: Apache-2.0
"""Random extra specs and image properties about CPUs, NUMA nodes and pages."""

from tests.differential.generate.random_values import RandomSource
from tests.differential.nova.generate.draft import FALSE_VALUES, TRUE_VALUES, RequestDraft


def add_pinned_cpus(rng: RandomSource, draft: RequestDraft) -> None:
    draft.set_in_flavor_or_image(rng, "cpu_policy", "dedicated")
    if rng.chance(0.5):
        draft.set_in_flavor_or_image(
            rng, "cpu_thread_policy", rng.choice(["prefer", "isolate", "require"])
        )
    if rng.chance(0.3):
        draft.extra_specs["hw:emulator_threads_policy"] = rng.choice(["isolate", "share"])


def add_mixed_cpus(rng: RandomSource, draft: RequestDraft) -> None:
    draft.extra_specs["hw:cpu_policy"] = "mixed"
    if rng.chance(0.7):
        draft.extra_specs["hw:cpu_dedicated_mask"] = _random_cpu_mask(rng, draft)
    else:
        add_real_time_cpus(rng, draft)
    if rng.chance(0.3):
        draft.extra_specs["hw:emulator_threads_policy"] = rng.choice(["isolate", "share"])
    if rng.chance(0.3):
        draft.extra_specs["hw:cpu_thread_policy"] = rng.choice(["prefer", "isolate", "require"])


def add_shared_cpus(rng: RandomSource, draft: RequestDraft) -> None:
    draft.set_in_flavor_or_image(rng, "cpu_policy", "shared")
    if rng.chance(0.1):
        draft.extra_specs["hw:cpu_thread_policy"] = rng.choice(["prefer", "require"])
    if rng.chance(0.1):
        draft.extra_specs["hw:emulator_threads_policy"] = rng.choice(["isolate", "share"])


def add_real_time_cpus(rng: RandomSource, draft: RequestDraft) -> None:
    draft.extra_specs["hw:cpu_realtime"] = rng.choice(
        TRUE_VALUES if rng.chance(0.85) else FALSE_VALUES
    )
    if rng.chance(0.3):
        draft.properties["hw_cpu_realtime_mask"] = _random_cpu_mask(rng, draft)
    else:
        draft.extra_specs["hw:cpu_realtime_mask"] = _random_cpu_mask(rng, draft)
    if rng.chance(0.7):
        draft.extra_specs.setdefault("hw:cpu_policy", "dedicated")


def add_thread_policy(rng: RandomSource, draft: RequestDraft) -> None:
    word = rng.choice(["required", "forbidden"])
    if rng.chance(0.7):
        draft.extra_specs["trait:HW_CPU_HYPERTHREADING"] = word
    else:
        draft.properties["trait:HW_CPU_HYPERTHREADING"] = "required"
    if rng.chance(0.8):
        draft.extra_specs["resources:PCPU"] = str(draft.vcpus)


def add_numa_topology_of_request(rng: RandomSource, draft: RequestDraft) -> None:
    cell = {"id": 0, "cpuset": list(range(draft.vcpus)), "memory": draft.flavor["memory_mb"]}
    draft.spec["numa_topology"] = rng.choice([None, {"cells": [cell]}])


def add_numa_nodes_of_image(rng: RandomSource, draft: RequestDraft) -> None:
    nodes = rng.choice([1, 2])
    draft.properties["hw_numa_nodes"] = str(nodes)
    for cell in range(nodes if rng.chance(0.5) else 0):
        cpus = range(cell * draft.vcpus // nodes, (cell + 1) * draft.vcpus // nodes)
        memory = draft.flavor["memory_mb"] // nodes
        draft.properties[f"hw_numa_cpus.{cell}"] = ",".join(map(str, cpus)) or "0"
        draft.properties[f"hw_numa_mem.{cell}"] = str(memory if rng.chance(0.9) else memory + 1)


def add_numa_nodes(rng: RandomSource, draft: RequestDraft) -> None:
    nodes = rng.choice([1, 2, 2, 4])
    if rng.chance(0.9):
        draft.extra_specs["hw:numa_nodes"] = str(nodes)
    else:
        draft.set_in_flavor_or_image(rng, "numa_nodes", str(nodes))
    if nodes == 1 or rng.chance(0.6):
        return
    for cell in range(nodes):
        cpus = range(cell * draft.vcpus // nodes, (cell + 1) * draft.vcpus // nodes)
        memory = draft.flavor["memory_mb"] // nodes
        draft.extra_specs[f"hw:numa_cpus.{cell}"] = ",".join(map(str, cpus)) or "0"
        draft.extra_specs[f"hw:numa_mem.{cell}"] = str(memory)


def add_page_size(rng: RandomSource, draft: RequestDraft) -> None:
    draft.extra_specs["hw:mem_page_size"] = rng.choice(
        ["small", "large", "any", "2048", "2MB", "1GB"]
    )
    if rng.chance(0.2):
        draft.properties["hw_mem_page_size"] = rng.choice(["large", "2048"])


def add_locked_memory(rng: RandomSource, draft: RequestDraft) -> None:
    draft.set_in_flavor_or_image(rng, "locked_memory", rng.choice(TRUE_VALUES))
    if rng.chance(0.8):
        draft.extra_specs.setdefault("hw:mem_page_size", "large")


def add_page_size_of_image(rng: RandomSource, draft: RequestDraft) -> None:
    draft.properties["hw_mem_page_size"] = "large"


def _random_cpu_mask(rng: RandomSource, draft: RequestDraft) -> str:
    last = draft.vcpus - 1
    return rng.choice(["^0", "^0", f"^{last}", "0", f"0-{last}", f"0-{last},^0", "^0-1", "99"])
