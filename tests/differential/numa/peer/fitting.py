# SPDX-License-Identifier: Apache-2.0
"""Runs nova's NUMATopologyFilter, its fit and its consumption for instances in turn.

A result is a list of rounds. A round is ``{"passes": false}``, ``{"error": class}``, or has the
numbers of the remaining ``candidates``, the ``cells`` of the instance, and the ``host`` afterwards.
In place of the host it has ``lost`` if nova cannot subtract the CPUs that it assigned.
"""

from types import SimpleNamespace

import nova.conf
from nova import exception, objects
from nova.scheduler.filters.numa_topology_filter import NUMATopologyFilter
from nova.virt import hardware

CONF = nova.conf.CONF
INSTANCE_UUID = "5a5a5a5a-0000-4000-8000-000000000001"
_PACKING_OPTION = "packing_host_numa_cells_allocation_strategy"


class FakeDevices:
    """Fake PCI devices with the locations of a case."""

    def __init__(self, document):
        self.pools = document["pools"]
        self._near = document["near"]

    def support_requests(self, _requests, mapping, cells=None):
        return sorted(cell.id for cell in cells) in self._near[mapping["device"][0]]


class NovaCaller:
    """Nova's functions, with the options of each case."""

    def __init__(self):
        self._filter = NUMATopologyFilter()

    def run_case(self, case):
        CONF.set_override(_PACKING_OPTION, case["packing"], "compute")
        state, rounds = _build_host_state(case), []
        for _ in range(case["instances"]):
            try:
                rounds.append(self._fit_next_instance(case, state))
            except Exception as failure:  # noqa: BLE001 - any exception of nova is a result
                rounds.append({"error": f"{type(failure).__name__}: {failure}"})
            if "host" not in rounds[-1]:
                break
        return rounds

    def _fit_next_instance(self, case, state):
        if not self._filter.host_passes(state, _build_request_spec(case)):
            return {"passes": False}
        spec = _build_request_spec(case)  # a new spec, because nova changes its argument
        requests = spec.pci_requests and spec.pci_requests.requests
        fitted = hardware.numa_fit_instance_to_host(
            state.numa_topology,
            spec.numa_topology,
            state.allocation_candidates[0]["mappings"],
            limits=state.limits["numa_topology"],
            pci_requests=requests,
            pci_stats=state.pci_stats,
        )
        fit = {
            "passes": True,
            "candidates": [item["number"] for item in state.allocation_candidates],
            "cells": [_describe_instance_cell(cell) for cell in fitted.cells],
        }
        try:
            host = hardware.numa_usage_from_instance_numa(state.numa_topology, fitted)
        except exception.CPUPinningInvalid:
            return {**fit, "lost": True}
        state.numa_topology = host
        return {**fit, "host": [_describe_host_cell(cell) for cell in host.cells]}


def _build_host_state(case):
    return SimpleNamespace(
        host="cn1",
        nodename="cn1",
        numa_topology=objects.NUMATopology(cells=[_build_host_cell(cell) for cell in case["host"]]),
        pci_stats=case["devices"] and FakeDevices(case["devices"]),
        allocation_candidates=list(case["candidates"]),
        cpu_allocation_ratio=case["cpu_allocation_ratio"],
        ram_allocation_ratio=case["ram_allocation_ratio"],
        limits={},
    )


def _build_host_cell(document):
    pages = [objects.NUMAPagesTopology(**page) for page in document["mempages"]]
    sets = {name: set(document[name]) for name in ("cpuset", "pcpuset", "pinned_cpus")}
    return objects.NUMACell(
        **{
            **document,
            **sets,
            "siblings": [set(core) for core in document["siblings"]],
            "mempages": pages,
            "network_metadata": _build_network_metadata(document["network_metadata"]),
        }
    )


def _build_network_metadata(document):
    physnets = set(document["physnets"])
    return objects.NetworkMetadata(physnets=physnets, tunneled=document["tunneled"])


def _build_request_spec(case):
    instance = case["instance"]
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
                    **{**cell, "cpuset": set(cell["cpuset"]), "pcpuset": set(cell["pcpuset"])}
                )
                for cell in instance["cells"]
            ],
            emulator_threads_policy=instance["emulator_threads_policy"],
        ),
        pci_requests=None,
        instance_uuid=INSTANCE_UUID,
    )
    if case["network_metadata"] is not None:
        spec.network_metadata = _build_network_metadata(case["network_metadata"])
    if case["asks_devices"]:
        request = objects.InstancePCIRequest(count=1, spec=[{"vendor_id": "8086"}], request_id=None)
        spec.pci_requests = objects.InstancePCIRequests(requests=[request])
    return spec


def _describe_instance_cell(cell):
    return {
        "id": cell.id,
        "pinning": sorted((cell.cpu_pinning or {}).items()),
        "reserved": sorted(cell.cpuset_reserved or ()) if "cpuset_reserved" in cell else [],
        "pagesize": cell.pagesize,
        "memory": cell.memory,
        "cpuset": sorted(cell.cpuset),
        "pcpuset": sorted(cell.pcpuset),
    }


def _describe_host_cell(cell):
    return {
        "id": cell.id,
        "cpu_usage": cell.cpu_usage,
        "memory_usage": cell.memory_usage,
        "pinned_cpus": sorted(cell.pinned_cpus),
        "mempages": [[pages.size_kb, pages.used] for pages in cell.mempages],
    }
