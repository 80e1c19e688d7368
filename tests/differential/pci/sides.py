# SPDX-License-Identifier: Apache-2.0
"""The two sides: nova's PCI pools, filter and weigher in their own interpreter, and ours."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from placement_sched.errors import Conflict
from placement_sched.model.hardware.numa import InstanceNUMACell
from placement_sched.model.hardware.pci_devices import PciPools
from placement_sched.model.hardware.pci_requests import InstancePCIRequest
from placement_sched.scheduler.filters.pci_passthrough_filter import PciPassthroughFilter
from placement_sched.scheduler.weights.pci import PCIWeigher
from tests.differential.duel import PEER_PYTHON
from tests.differential.lines import Lines
from tests.differential.pci.generate import PciCase
from tests.support.states import build_host_state, build_spec

SERVE = Path(__file__).parents[1] / "nova" / "peer" / "serve_pools.py"


@dataclass(frozen=True)
class Answer:
    """What a side says of one host and one request.

    ``left`` are the pools after the devices were taken, ``candidates`` the numbers of those that
    the filter left on the host; ``failed`` is the class of what was raised in place of all this.
    """

    supports: bool = False
    applies: bool = False
    left: list[dict[str, Any]] = field(default_factory=list)
    weight: float = 0
    passes: bool = False
    candidates: list[int] = field(default_factory=list)
    failed: str = ""


class Theirs:
    """Nova's classes."""

    def __init__(self, python: Path = PEER_PYTHON) -> None:
        self._nova = Lines(python, SERVE)

    def ask(self, asked: PciCase) -> Answer:
        return Answer(**self._nova.ask(asked.as_json()))

    def close(self) -> None:
        self._nova.close()


class Ours:
    """Our classes, in process."""

    def __init__(self) -> None:
        self._filter = PciPassthroughFilter()
        self._weigher = PCIWeigher()

    def ask(self, asked: PciCase) -> Answer:
        requests = [InstancePCIRequest.from_document(one) for one in asked.requests]
        cells = None
        if asked.numa_cells is not None:
            cells = [
                InstanceNUMACell(id=one, cpuset=frozenset(), memory=1) for one in asked.numa_cells
            ]
        pools = _pci_pools(asked)
        supports = pools.support_requests(requests, asked.mappings, cells)
        assert (pools.why_not(requests, asked.mappings, cells) is None) is supports
        try:
            pools.apply_requests(requests, asked.mappings, cells)
            applies = True
        except Conflict:
            applies = False
        host = build_host_state(pci_stats=_pci_pools(asked))
        host.allocation_candidates = [
            {"number": number, "mappings": one} for number, one in enumerate(asked.candidates)
        ]
        spec = build_spec(pci_requests={"requests": asked.requests})
        weight = self._weigher._weigh_object(host, spec)
        passes = self._filter.host_passes(host, spec)
        return Answer(
            supports=supports,
            applies=applies,
            left=[dict(sorted(pool.items())) for pool in pools.pools],
            weight=weight,
            passes=passes,
            candidates=[one["number"] for one in host.allocation_candidates if passes],
        )


def _pci_pools(asked: PciCase) -> PciPools:
    topology = None
    if asked.sockets is not None:
        topology = {"cells": [{"id": cell, "socket": one} for cell, one in asked.sockets]}
    return PciPools.of(asked.pools, topology)
