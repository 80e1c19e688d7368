# SPDX-License-Identifier: Apache-2.0
"""Both sides: nova's PCI pools, filter and weigher in another interpreter, and ours."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from placement_sched.errors import Conflict
from placement_sched.model.hardware.numa import InstanceNUMACell
from placement_sched.model.hardware.pci_devices import PciPools
from placement_sched.model.hardware.pci_requests import InstancePCIRequest
from placement_sched.scheduler.filters.pci_passthrough_filter import PciPassthroughFilter
from placement_sched.scheduler.weights.pci import PCIWeigher
from tests.differential.comparison import PEER_PYTHON
from tests.differential.lines import SERVE_NOVA_PROGRAM, JsonLineProgram
from tests.differential.pci.generate import PciCase
from tests.support.states import build_host_state, build_spec

NOVA_POOLS_MODULE = Path(__file__).parents[1] / "nova" / "peer" / "pools.py"


@dataclass(frozen=True)
class PciResult:
    """The result of a side for a host and a request.

    ``left`` has the pools after the devices are taken, and ``candidates`` the numbers of the
    candidates that the filter keeps. ``failed`` is the class of an exception.
    """

    supports: bool = False
    applies: bool = False
    left: list[dict[str, Any]] = field(default_factory=list)
    weight: float = 0
    passes: bool = False
    candidates: list[int] = field(default_factory=list)
    failed: str = ""


class NovaPciClasses:
    """Nova's classes."""

    def __init__(self, python: Path = PEER_PYTHON) -> None:
        self._nova = JsonLineProgram(python, SERVE_NOVA_PROGRAM, NOVA_POOLS_MODULE)

    def fit_pci_devices(self, case: PciCase) -> PciResult:
        return PciResult(**self._nova.exchange_json_line(case.as_json()))

    def close(self) -> None:
        self._nova.close()


class OwnPciClasses:
    """Our classes, in process."""

    def __init__(self) -> None:
        self._filter = PciPassthroughFilter()
        self._weigher = PCIWeigher()

    def fit_pci_devices(self, case: PciCase) -> PciResult:
        requests = [InstancePCIRequest.from_document(request) for request in case.requests]
        cells = None
        if case.numa_cells is not None:
            cells = [
                InstanceNUMACell(id=cell, cpuset=frozenset(), memory=1) for cell in case.numa_cells
            ]
        pools = _build_pci_pools(case)
        supports = pools.support_requests(requests, case.mappings, cells)
        try:
            pools.apply_requests(requests, case.mappings, cells)
            applies = True
        except Conflict:
            applies = False
        host = build_host_state(pci_stats=_build_pci_pools(case))
        host.allocation_candidates = [
            {"number": number, "mappings": mappings}
            for number, mappings in enumerate(case.candidates)
        ]
        spec = build_spec(pci_requests={"requests": case.requests})
        weight = self._weigher._weigh_object(host, spec)
        passes = self._filter.host_passes(host, spec)
        return PciResult(
            supports=supports,
            applies=applies,
            left=[dict(sorted(pool.items())) for pool in pools.pools],
            weight=weight,
            passes=passes,
            candidates=[item["number"] for item in host.allocation_candidates if passes],
        )


def _build_pci_pools(case: PciCase) -> PciPools:
    topology = None
    if case.sockets is not None:
        topology = {"cells": [{"id": cell, "socket": socket} for cell, socket in case.sockets]}
    return PciPools.from_report(case.pools, topology)
