# SPDX-License-Identifier: Apache-2.0
"""Nova's fit of an instance, computed from its fits of single NUMA nodes.

nova 34 changes the request while it tries nodes. It replaces the number of the instance's node by
the number of the host's node, and a word for the page size by a size. With several nodes it
therefore confuses nodes and forgets the word. This cannot happen with a single node of an instance
on a single node of a host. The correct fit of all nodes follows from these results.
"""

from itertools import permutations
from typing import Any

from placement_sched.model.hardware.numa import InstanceNUMATopology
from placement_sched.model.hardware.numa_fit import sort_cells
from placement_sched.model.hardware.pci_devices import Devices
from placement_sched.schemas.node_report import parse_numa_topology
from tests.differential.numa.generate import NumaCase
from tests.differential.numa.sides import FakePciStats, NovaNumaFilter, ResultsByInstance


def may_nova_confuse_nodes(case: NumaCase) -> bool:
    cells = case["instance"]["cells"]
    return len(case["host"]) > 1 and (len(cells) > 1 or (cells[0]["pagesize"] or 0) < 0)


def fit_instance_cell_by_cell(
    theirs: NovaNumaFilter, case: NumaCase, number: int, ours: ResultsByInstance
) -> dict[str, Any]:
    """Return the verdict on an instance, and its cells.

    ``ours`` has the earlier instances, which both sides have placed equally.
    """
    host = _build_host_before_instance(case, number, ours)
    cells_of_instance = case["instance"]["cells"]
    alone = {
        (index, cell["id"]): _fit_single_cell(theirs, case, index, cell)
        for index in range(len(cells_of_instance))
        for cell in host
    }
    order = [cell.id for cell in _order_cells(case, host)]
    left, cells = [], None
    for candidate in case["candidates"]:
        fits = (
            nodes
            for nodes in permutations(order, len(cells_of_instance))
            if all(alone[pair] for pair in enumerate(nodes))
            and _is_node_set_near_devices_and_networks(case, candidate, nodes)
        )
        nodes = next(fits, None)
        if nodes is not None:
            left.append(candidate["number"])
            cells = cells or [alone[pair] for pair in enumerate(nodes)]
    return {"passes": True, "candidates": left, "cells": cells} if left else {"passes": False}


def _build_host_before_instance(
    case: NumaCase, number: int, ours: ResultsByInstance
) -> list[dict[str, Any]]:
    if number == 0:
        return case["host"]
    after = {cell["id"]: cell for cell in ours[number - 1]["host"]}
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
    theirs: NovaNumaFilter, case: NumaCase, index: int, host: dict[str, Any]
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
    (result,) = theirs.fit_instances(piece)
    return result["cells"][0] if result.get("passes") else None


def _order_cells(case: NumaCase, host: list[dict[str, Any]]) -> Any:
    topology = parse_numa_topology({"cells": host}).topology
    stats = case["devices"] and FakePciStats(case["devices"])
    requests = [None] if case["asks_devices"] else []
    return sort_cells(
        topology,
        InstanceNUMATopology.from_document(case["instance"]),
        stats and Devices(stats, requests),
        packing=case["packing"],
    )


def _is_node_set_near_devices_and_networks(
    case: NumaCase, candidate: dict[str, Any], nodes: tuple[int, ...]
) -> bool:
    provider = candidate["mappings"]["device"][0]
    devices = case["devices"] if case["asks_devices"] else None
    if devices and sorted(nodes) not in devices["near"][provider]:
        return False
    required = _list_network_names([case["network_metadata"]] if case["network_metadata"] else [])
    on_host = _list_network_names([cell["network_metadata"] for cell in case["host"]])
    chosen = _list_network_names(
        [cell["network_metadata"] for cell in case["host"] if cell["id"] in nodes]
    )
    return required & on_host <= chosen


def _list_network_names(networks: list[dict[str, Any]]) -> set[str]:
    return {name for network in networks for name in network["physnets"]} | {
        "tunnels" for network in networks if network["tunneled"]
    }
