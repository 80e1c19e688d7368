# SPDX-License-Identifier: Apache-2.0
"""Random hosts, and instances that barely fit or barely do not.

A case has the NUMA cells of the ``host``, the topology of the ``instance``, ``extra_specs`` and
``properties`` about CPUs, both allocation ratios, ``network_metadata``, ``devices`` (their number
on each node, and the sets of nodes near each provider), allocation ``candidates``, the option
``packing``, and the number of ``instances`` that are placed in turn.
"""

from itertools import combinations
from typing import Any

from tests.differential.generate.random_values import RandomSource

NumaCase = dict[str, Any]

_PHYSNETS = ("net-a", "net-b", "net-c")
_PROVIDER_NAMES = ("p0", "p1")
_MEMORY_SIZES = (512, 1024, 2048, 3000)


def random_case(rng: RandomSource) -> NumaCase:
    pins = rng.chance(0.7)
    host = _random_host(rng)
    instance = _random_instance(rng, pins=pins)
    asks_devices = rng.chance(0.2)
    ids = [cell["id"] for cell in host]
    return {
        "host": host,
        "instance": instance,
        **_random_cpu_settings(rng, instance),
        "cpu_allocation_ratio": rng.choice([0.5, 1.0, 1.3, 2.0, 4.0, 4.0, 16.0]),
        "ram_allocation_ratio": rng.choice([0.5, 0.9, 1.0, 1.0, 1.5, 1.5, 3.0]),
        "network_metadata": _random_networks(rng) if rng.chance(0.2) else None,
        "devices": _random_devices(rng, ids) if asks_devices or rng.chance(0.2) else None,
        "asks_devices": asks_devices,
        "candidates": [
            {"number": number, "allocations": {}, "mappings": {"device": [provider]}}
            for number, provider in enumerate(
                rng.sample([*_PROVIDER_NAMES, *_PROVIDER_NAMES], least=1)
            )
        ],
        "packing": rng.chance(0.4),
        "instances": 4,
    }


def _random_host(rng: RandomSource) -> list[dict[str, Any]]:
    cells, cores = rng.choice([1, 2, 2, 3, 4]), rng.choice([1, 2, 4, 4, 6])
    threads = rng.choice([1, 1, 2, 2, 2, 4])
    near_by = rng.chance(0.5)
    numbers = list(range(cells))
    if rng.chance(0.1):
        rng.random.shuffle(numbers)
    memory = rng.choice(_MEMORY_SIZES)
    split = rng.choice(["pinned", "pinned", "shared", "cores", "cores", "threads", "both"])
    every = cells * cores
    return [
        _random_host_cell(
            rng,
            number,
            [
                [core * threads + n if near_by else core + n * every for n in range(threads)]
                for core in range(place * cores, (place + 1) * cores)
            ],
            memory if rng.chance(0.8) else rng.choice(_MEMORY_SIZES),
            split if rng.chance(0.9) else rng.choice(["pinned", "shared", "none"]),
        )
        for place, number in enumerate(numbers)
    ]


def _random_host_cell(
    rng: RandomSource, number: int, siblings: list[list[int]], memory: int, split: str
) -> dict[str, Any]:
    every = sorted(cpu for core in siblings for cpu in core)
    if split == "cores":
        pinned = sorted(cpu for core in siblings[len(siblings) // 2 :] for cpu in core)
    elif split == "threads":
        pinned = sorted(core[0] for core in siblings)
    else:
        pinned = every if split in {"pinned", "both"} else []
    shared = every if split == "both" else sorted(set(every) - set(pinned))
    if split == "none":
        shared = []
    return {
        "id": number,
        "cpuset": shared,
        "pcpuset": pinned,
        "memory": memory,
        "cpu_usage": rng.choice([0, 0, 1, 2, len(shared)]),
        "memory_usage": rng.choice([0, 0, 0, 100, 512, memory]),
        "pinned_cpus": rng.sample(pinned, most=4) if rng.chance(0.5) else [],
        "siblings": siblings,
        "mempages": _random_pages(rng, memory),
        "network_metadata": _random_networks(rng),
        "socket": number % 2,
    }


def _random_pages(rng: RandomSource, memory: int) -> list[dict[str, int]]:
    small = memory * 256 - rng.choice([0, 0, 0, 1, 1000, memory * 128])
    pages = [(4, small)]
    if rng.chance(0.6):
        pages.append((2048, rng.choice([memory // 2, 64, 256])))
    if rng.chance(0.3):
        pages.append((1048576, rng.choice([1, 2, memory // 1024])))
    if rng.chance(0.1):
        pages.reverse()
    if rng.chance(0.05):
        pages = pages[-1:]
    return [
        {
            "size_kb": size,
            "total": total,
            "used": rng.choice([0, 0, 0, total // 2, total]),
            "reserved": rng.choice([0, 0, 0, total // 4, 1]),
        }
        for size, total in pages
    ]


def _random_networks(rng: RandomSource) -> dict[str, Any]:
    return {"physnets": sorted(rng.sample(_PHYSNETS, most=2)), "tunneled": rng.chance(0.3)}


def _random_devices(rng: RandomSource, ids: list[int]) -> dict[str, Any]:
    every = [sorted(nodes) for size in (1, 2, 3) for nodes in combinations(ids, size)]
    return {
        "pools": [
            {"numa_node": rng.choice([*ids, None]), "count": rng.integer(0, 3)}
            for _ in range(rng.integer(0, 3))
        ],
        "near": {name: [nodes for nodes in every if rng.chance(0.5)] for name in _PROVIDER_NAMES},
    }


def _random_instance(rng: RandomSource, *, pins: bool) -> dict[str, Any]:
    policy = (
        rng.choice(["dedicated", "dedicated", "mixed"]) if pins else rng.choice([None, "shared"])
    )
    threads = rng.choice([None, None, "prefer", "isolate", "require"]) if pins else None
    pagesize = rng.choice([None, None, None, None, 0, 4, 2048, 1048576, -1, -2, -3, 8])
    emulator = rng.choice([None, None, "isolate", "share"])
    cells, first = [], 0
    for number in range(rng.choice([1, 1, 1, 2, 2, 3])):
        cpus = list(range(first, first + rng.choice([1, 1, 1, 2, 2, 2, 3, 3, 4, 5, 8, 0])))
        first += len(cpus)
        pinned = {"dedicated": cpus, "mixed": rng.sample(cpus)}.get(policy, [])
        cells.append(
            {
                "id": number,
                "cpuset": sorted(set(cpus) - set(pinned)),
                "pcpuset": sorted(pinned),
                "memory": rng.choice([0, 3, 128, 256, 256, 500, 512, 512, 1024, 2048]),
                "pagesize": pagesize,
                "cpu_policy": policy,
                "cpu_thread_policy": threads,
            }
        )
    return {"cells": cells, "emulator_threads_policy": emulator}


def _random_cpu_settings(rng: RandomSource, instance: dict[str, Any]) -> dict[str, Any]:
    first = instance["cells"][0]
    policies = {name: first[name] for name in ("cpu_policy", "cpu_thread_policy") if first[name]}
    if not rng.chance(0.3):
        return {"extra_specs": {}, "properties": {}}
    by_flavor = rng.sample(sorted(policies))
    return {
        "extra_specs": {f"hw:{name}": policies[name] for name in by_flavor},
        "properties": {f"hw_{name}": policies[name] for name in policies if name not in by_flavor},
    }
