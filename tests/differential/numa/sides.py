# SPDX-License-Identifier: Apache-2.0
"""Both sides: nova's fit in another interpreter, and ours in this process."""

from pathlib import Path
from typing import Any

from placement_sched.explain.phrases import describe_rejection
from placement_sched.model.hardware.numa import FittedNUMACell, NUMACell, NUMATopology
from placement_sched.model.hardware.numa_fit import fit_to_host
from placement_sched.model.hardware.pci_devices import build_devices
from placement_sched.model.rejection import Rejection
from placement_sched.scheduler.filters.numa_topology_filter import NUMATopologyFilter
from placement_sched.scheduler.host_state import HostState
from placement_sched.schemas.node_report import parse_numa_topology
from tests.differential.comparison import PEER_PYTHON
from tests.differential.lines import SERVE_NOVA_PROGRAM, JsonLineProgram
from tests.differential.numa.generate import NumaCase
from tests.support.states import build_host_state, build_settings, build_spec

NOVA_FITTING_MODULE = Path(__file__).parent / "peer" / "fitting.py"

#: The result for each instance of a case, up to the first rejected instance.
ResultsByInstance = list[dict[str, Any]]


class NovaNumaFilter(JsonLineProgram):
    """Nova's filter and fit."""

    def __init__(self, python: Path = PEER_PYTHON) -> None:
        super().__init__(python, SERVE_NOVA_PROGRAM, NOVA_FITTING_MODULE)

    def fit_instances(self, case: NumaCase) -> ResultsByInstance:
        return self.exchange_json_line(case)


class FakePciStats:
    """Fake PCI devices with the locations of a case."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.pools = document["pools"]
        self._near = document["near"]

    def support_requests(self, _requests, mapping, cells):
        return sorted(cell.id for cell in cells) in self._near[mapping["device"][0]]

    def apply_requests(self, requests, mapping, cells):
        assert self.support_requests(requests, mapping, cells)


class OwnNumaFilter:
    """Our NUMATopologyFilter, and the host state after an instance."""

    def __init__(self) -> None:
        settings = build_settings()
        option = "compute.packing_host_numa_cells_allocation_strategy"
        self._filters = {
            packing: NUMATopologyFilter.with_settings(settings.with_overrides({option: packing}))
            for packing in (False, True)
        }

    def fit_instances(self, case: NumaCase) -> ResultsByInstance:
        state, plugin = _build_host_state(case), self._filters[case["packing"]]
        spec = build_spec(
            case["extra_specs"],
            case["properties"],
            numa_topology=case["instance"],
            network_metadata=case["network_metadata"],
            pci_requests={"requests": [{"count": 1}]} if case["asks_devices"] else None,
        )
        rounds: ResultsByInstance = []
        for _ in range(case["instances"]):
            verdict = plugin.prepare(spec)(state)
            if isinstance(verdict, Rejection):
                return [*rounds, {"passes": False, "reason": describe_rejection(verdict)}]
            verdict.apply_to(state)
            rounds.append(_consume_and_describe(state, spec))
        return rounds


def _build_host_state(case: NumaCase) -> HostState:
    state = build_host_state(
        numa_topology=parse_numa_topology({"cells": case["host"]}).topology,
        pci_stats=case["devices"] and FakePciStats(case["devices"]),
        cpu_allocation_ratio=case["cpu_allocation_ratio"],
        ram_allocation_ratio=case["ram_allocation_ratio"],
    )
    state.allocation_candidates = list(case["candidates"])
    return state


def _consume_and_describe(state: HostState, spec: Any) -> dict[str, Any]:
    candidates = state.allocation_candidates
    devices = build_devices(state.pci_stats, spec.pci_requests, candidates[0]["mappings"])
    limits = state.limits["numa_topology"]
    fitted = fit_to_host(state.numa_topology, spec.numa_topology, limits, devices)
    state.consume_from_request(spec)
    assert isinstance(state.numa_topology, NUMATopology)
    return {
        "passes": True,
        "candidates": [item["number"] for item in candidates],
        "cells": [_describe_instance_cell(cell) for cell in fitted],
        "host": [_describe_host_cell(cell) for cell in state.numa_topology.cells],
    }


def _describe_instance_cell(cell: FittedNUMACell) -> dict[str, Any]:
    return {
        "id": cell.id,
        "pinning": [list(pair) for pair in sorted(cell.cpu_pinning.items())],
        "reserved": sorted(cell.cpuset_reserved),
        "pagesize": cell.pagesize,
        "memory": cell.memory,
        "cpuset": sorted(cell.cpuset),
        "pcpuset": sorted(cell.pcpuset),
    }


def _describe_host_cell(cell: NUMACell) -> dict[str, Any]:
    return {
        "id": cell.id,
        "cpu_usage": cell.cpu_usage,
        "memory_usage": cell.memory_usage,
        "pinned_cpus": sorted(cell.pinned_cpus),
        "mempages": [[pages.size_kb, pages.used] for pages in cell.mempages],
    }
