# SPDX-License-Identifier: Apache-2.0
"""Runs nova's NUMATopologyFilter, its fit and what it takes away, instance after instance.

An answer is a list of rounds, the last of which may be a refusal (``{"passes": false}``). One that
passes has the ``candidates`` that are left by number, the ``cells`` that the instance gets, and the
``host`` as it is then, or is ``lost``: nova cannot take away the CPUs that it gave. ``{"error":
class}`` is anything else that was raised.
"""

from types import SimpleNamespace

import nova.conf
from nova import exception, objects
from nova.scheduler.filters.numa_topology_filter import NUMATopologyFilter
from nova.virt import hardware

CONF = nova.conf.CONF
INSTANCE = "5a5a5a5a-0000-4000-8000-000000000001"
_PACKING = "packing_host_numa_cells_allocation_strategy"


class Devices:
    """PCI devices that are near where the case says."""

    def __init__(self, told):
        self.pools = told["pools"]
        self._near = told["near"]

    def support_requests(self, _requests, mapping, cells=None):
        return sorted(cell.id for cell in cells) in self._near[mapping["device"][0]]


class Nova:
    """Nova's functions, each case under its own options."""

    def __init__(self):
        CONF([], project="nova", default_config_files=[])
        objects.register_all()
        self._filter = NUMATopologyFilter()

    def answer(self, case):
        CONF.set_override(_PACKING, case["packing"], "compute")
        state, rounds = _host_state(case), []
        for _ in range(case["instances"]):
            try:
                rounds.append(self._round(case, state))
            except Exception as failure:  # noqa: BLE001 - whatever nova raises is what is asked
                rounds.append({"error": f"{type(failure).__name__}: {failure}"})
            if "host" not in rounds[-1]:
                break
        return rounds

    def _round(self, case, state):
        if not self._filter.host_passes(state, _request_spec(case)):
            return {"passes": False}
        spec = _request_spec(case)  # anew, because nova writes into the one that it is asked about
        requests = spec.pci_requests and spec.pci_requests.requests
        fitted = hardware.numa_fit_instance_to_host(
            state.numa_topology,
            spec.numa_topology,
            state.allocation_candidates[0]["mappings"],
            limits=state.limits["numa_topology"],
            pci_requests=requests,
            pci_stats=state.pci_stats,
        )
        told = {
            "passes": True,
            "candidates": [one["number"] for one in state.allocation_candidates],
            "cells": [_instance_cell_document(cell) for cell in fitted.cells],
        }
        try:
            host = hardware.numa_usage_from_instance_numa(state.numa_topology, fitted)
        except exception.CPUPinningInvalid:
            return {**told, "lost": True}
        state.numa_topology = host
        return {**told, "host": [_host_cell_document(cell) for cell in host.cells]}


def _host_state(case):
    return SimpleNamespace(
        host="cn1",
        nodename="cn1",
        numa_topology=objects.NUMATopology(cells=[_host_cell(one) for one in case["host"]]),
        pci_stats=case["devices"] and Devices(case["devices"]),
        allocation_candidates=list(case["candidates"]),
        cpu_allocation_ratio=case["cpu_allocation_ratio"],
        ram_allocation_ratio=case["ram_allocation_ratio"],
        limits={},
    )


def _host_cell(told):
    pages = [objects.NUMAPagesTopology(**one) for one in told["mempages"]]
    sets = {name: set(told[name]) for name in ("cpuset", "pcpuset", "pinned_cpus")}
    return objects.NUMACell(
        **{
            **told,
            **sets,
            "siblings": [set(one) for one in told["siblings"]],
            "mempages": pages,
            "network_metadata": _network_metadata(told["network_metadata"]),
        }
    )


def _network_metadata(told):
    return objects.NetworkMetadata(physnets=set(told["physnets"]), tunneled=told["tunneled"])


def _request_spec(case):
    asked = case["instance"]
    flavor = objects.Flavor(
        id=1, flavorid="1", name="m1", vcpus=1, memory_mb=1, root_gb=0, ephemeral_gb=0, swap=0,
        extra_specs=case["extra_specs"],
    )  # fmt: skip
    image = objects.ImageMeta.from_dict({"name": "image", "properties": case["properties"]})
    spec = objects.RequestSpec(
        flavor=flavor,
        image=image,
        numa_topology=objects.InstanceNUMATopology(
            cells=[
                objects.InstanceNUMACell(
                    **{**one, "cpuset": set(one["cpuset"]), "pcpuset": set(one["pcpuset"])}
                )
                for one in asked["cells"]
            ],
            emulator_threads_policy=asked["emulator_threads_policy"],
        ),
        pci_requests=None,
        instance_uuid=INSTANCE,
    )
    if case["network_metadata"] is not None:
        spec.network_metadata = _network_metadata(case["network_metadata"])
    if case["asks_devices"]:
        request = objects.InstancePCIRequest(count=1, spec=[{"vendor_id": "8086"}], request_id=None)
        spec.pci_requests = objects.InstancePCIRequests(requests=[request])
    return spec


def _instance_cell_document(cell):
    return {
        "id": cell.id,
        "pinning": sorted((cell.cpu_pinning or {}).items()),
        "reserved": sorted(cell.cpuset_reserved or ()) if "cpuset_reserved" in cell else [],
        "pagesize": cell.pagesize,
        "memory": cell.memory,
        "cpuset": sorted(cell.cpuset),
        "pcpuset": sorted(cell.pcpuset),
    }


def _host_cell_document(cell):
    return {
        "id": cell.id,
        "cpu_usage": cell.cpu_usage,
        "memory_usage": cell.memory_usage,
        "pinned_cpus": sorted(cell.pinned_cpus),
        "mempages": [[pages.size_kb, pages.used] for pages in cell.mempages],
    }
