# SPDX-License-Identifier: Apache-2.0
"""What nova would do with an instance if it were asked of each NUMA node alone.

nova 34 writes what it found for one node into the request that it asks about the next: the host's
node in place of the instance's, and a size in place of a word for pages. So it takes one node for
another where an instance has several, and forgets the word. Asked about one node of an instance on
one of a host it cannot, and all else follows from the answers.
"""

from itertools import permutations
from typing import Any

from placement_sched.model.hardware.numa import InstanceNUMATopology
from placement_sched.model.hardware.numa_fit import in_order
from placement_sched.model.hardware.pci_devices import Devices
from placement_sched.schemas.node_report import numa_topology
from tests.differential.numa.generate import Case
from tests.differential.numa.sides import FakeStats, Rounds, Theirs


def may_be_mixed_up(case: Case) -> bool:
    cells = case["instance"]["cells"]
    return len(case["host"]) > 1 and (len(cells) > 1 or (cells[0]["pagesize"] or 0) < 0)


def fit_cell_by_cell(theirs: Theirs, case: Case, number: int, ours: Rounds) -> dict[str, Any]:
    """Return the verdict on the instance of this number, and the cells it gets.

    Those before it are where ours put them, which is where nova did, too.
    """
    host = _host_before_instance(case, number, ours)
    asked = case["instance"]["cells"]
    alone = {
        (index, one["id"]): _fit_single_cell(theirs, case, index, one)
        for index in range(len(asked))
        for one in host
    }
    order = [cell.id for cell in _cells_in_order(case, host)]
    left, cells = [], None
    for candidate in case["candidates"]:
        ways = (
            way
            for way in permutations(order, len(asked))
            if all(alone[pair] for pair in enumerate(way)) and _is_near(case, candidate, way)
        )
        way = next(ways, None)
        if way is not None:
            left.append(candidate["number"])
            cells = cells or [alone[pair] for pair in enumerate(way)]
    return {"passes": True, "candidates": left, "cells": cells} if left else {"passes": False}


def _host_before_instance(case: Case, number: int, ours: Rounds) -> list[dict[str, Any]]:
    if number == 0:
        return case["host"]
    after = {one["id"]: one for one in ours[number - 1]["host"]}
    return [
        {
            **cell,
            **after[cell["id"]],
            "mempages": [
                {**pages, "used": used}
                for pages, (_, used) in zip(
                    cell["mempages"], after[cell["id"]]["mempages"], strict=True
                )
            ],
        }
        for cell in case["host"]
    ]


def _fit_single_cell(
    theirs: Theirs, case: Case, index: int, host: dict[str, Any]
) -> dict[str, Any] | None:
    instance = {
        "cells": [case["instance"]["cells"][index]],
        "emulator_threads_policy": case["instance"]["emulator_threads_policy"]
        if not index
        else None,
    }
    piece = {
        **case,
        "host": [host],
        "instance": instance,
        "extra_specs": {},
        "properties": {},
        "network_metadata": None,
        "devices": None,
        "asks_devices": False,
        "instances": 1,
    }
    (told,) = theirs.ask(piece)
    return told["cells"][0] if told.get("passes") else None


def _cells_in_order(case: Case, host: list[dict[str, Any]]) -> Any:
    topology = numa_topology({"cells": host}).topology
    stats = case["devices"] and FakeStats(case["devices"])
    asked = [None] if case["asks_devices"] else []
    return in_order(
        topology,
        InstanceNUMATopology.from_document(case["instance"]),
        stats and Devices(stats, asked),
        packing=case["packing"],
    )


def _is_near(case: Case, candidate: dict[str, Any], way: tuple[int, ...]) -> bool:
    provider = candidate["mappings"]["device"][0]
    devices = case["devices"] if case["asks_devices"] else None
    if devices and sorted(way) not in devices["near"][provider]:
        return False
    wanted = _required_networks([case["network_metadata"]] if case["network_metadata"] else [])
    there = _required_networks([cell["network_metadata"] for cell in case["host"]])
    chosen = _required_networks(
        [cell["network_metadata"] for cell in case["host"] if cell["id"] in way]
    )
    return wanted & there <= chosen


def _required_networks(told: list[dict[str, Any]]) -> set[str]:
    return {name for one in told for name in one["physnets"]} | {
        "tunnels" for one in told if one["tunneled"]
    }
