# SPDX-License-Identifier: Apache-2.0
"""Largest requests for hardware: NUMA nodes, PCI devices, extra specs, image properties.

They need hosts with several NUMA nodes and many pools of PCI devices, and filters that are not
enabled by default.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from placement_sched.limits import (
    MAX_CPU_SET_CHARACTERS,
    MAX_EXTRA_SPECS,
    MAX_FITTED,
    MAX_INSTANCES,
    MAX_NUMA_NODES,
    MAX_PCI_REQUESTS,
    MAX_PCI_SPEC_KEYS,
)
from tests.support.scheduling import flavor, report, spec

#: Characters of an extra spec's value, and of an image property.
VALUE, PROPERTY = 255, 65_535
#: Aliases of PCI devices, a name for each pool of a host.
ALIASES = [f"a{number}" for number in range(48)]
#: NUMA nodes of a host, and dedicated CPUs of each node, with two threads per core.
CELLS, CPUS = 8, 32
#: Entries of a JSON document that each host reports as text.
ROWS = 4000
#: Nested lists, values and characters of a query of JsonFilter.
_DEEPEST, _MOST, _LONGEST = 50, 200, 4096

_FILTERS = """[filter_scheduler]
enabled_filters = ComputeFilter,ComputeCapabilitiesFilter,ImagePropertiesFilter,\
AggregateInstanceExtraSpecsFilter,JsonFilter,PciPassthroughFilter,NUMATopologyFilter
[pci]
"""


def server_configuration() -> str:
    """Return the configuration of the server."""
    aliases = (json.dumps({"name": name, **_build_device(name)}) for name in ALIASES)
    return _FILTERS + "".join(f"alias = {alias}\n" for alias in aliases)


def host_reports(number: int) -> list[dict[str, object]]:
    """Return reports of ``number`` hosts, each with other CPUs in use."""
    pools = [
        {**_build_device(name), "numa_node": at % CELLS, "count": 4}
        for at, name in enumerate(ALIASES)
    ]
    return [
        report(
            f"cn{host}",
            vcpus=CELLS * CPUS,
            memory_mb=CELLS * 65_536,
            numa_topology={"cells": [_build_cell(host, cell) for cell in range(CELLS)]},
            pci_device_pools=pools,
            stats={"arch": "x86_64", "table": _build_json_text(host)},
        )
        for host in range(number)
    ]


def explain_requests() -> Mapping[str, dict[str, Any]]:
    """Return the largest bodies of requests for an explanation, by name."""
    specs = {
        **{
            name: spec(flavor=flavor(extra_specs=extra))
            for name, extra in _large_extra_specs().items()
        },
        **{name: _request_with_query(query) for name, query in _large_conditions().items()},
        **{
            f"image property {name}": _request_with_image({name: text})
            for name, text in _large_properties().items()
        },
        **_unfitting_topologies(),
        **_many_instances(),
        **_request_many_devices(),
        "numbered nodes": _request_many_nodes(),
        "nodes of an image": _request_with_image(
            {"hw_numa_nodes": "128"}
            | {f"hw_numa_cpus.{node}": "0-1," * 1500 for node in range(MAX_NUMA_NODES)}
        ),
    }
    return {name: {"request_spec": request_spec} for name, request_spec in specs.items()}


def _build_device(name: str) -> dict[str, str]:
    return {"vendor_id": "8086", "product_id": f"{ALIASES.index(name):04x}"}


def _build_json_text(host: int) -> str:
    """Return a long JSON text, different for each host."""
    return json.dumps({"host": host} | {f"x{number}": number for number in range(ROWS)})


def _build_cell(host: int, cell: int) -> dict[str, object]:
    """Return a NUMA node. Each node of a host has another number of free CPUs."""
    first = cell * CPUS
    cpus = list(range(first, first + CPUS))
    used = 2 * ((host + cell) % CELLS)
    return {
        "id": cell,
        "cpuset": [],
        "pcpuset": cpus,
        "pinned_cpus": cpus[:used],
        "siblings": [[cpu, cpu + 1] for cpu in cpus[::2]],
        "memory": 65_536,
        "mempages": [
            {"size_kb": 4, "total": 8 * 2**20},
            {"size_kb": 2048, "total": 8 * 2**10},
            {"size_kb": 2**20, "total": 16},
        ],
        "network_metadata": {"physnets": [f"net{cell % 4}"], "tunneled": cell == 0},
        "socket": cell // 4,
    }


def _large_extra_specs() -> Mapping[str, Mapping[str, str]]:
    """Return large extra specs by name."""
    either = "<or> " + " <or> ".join(str(number) for number in range(30))
    many = range(MAX_EXTRA_SPECS)
    return {
        "long extra specs": {f"capabilities:arch{n}": "x" * VALUE for n in many},
        "alternatives": _request_with_extra_specs(
            {f"capabilities:stats:arch{n}": either for n in many}
        ),
        "alternatives that hold": {
            ("capabilities:arch" + " " * n)[:255]: "<or> " + "x86_64 <or> " * 19 + "x" for n in many
        },
        "entries of what is reported": {f"capabilities:table:x{n}": str(n) for n in many},
        "all in": _request_with_extra_specs({f"s{n}": "<all-in> " + "x " * 120 for n in many}),
        "numbers": _request_with_extra_specs({f"n{n}": ">= " + "9" * 250 for n in many}),
        "traits of long names": {
            f"trait{n}:CUSTOM_{'T' * (230 - len(str(n)))}{n}": "required" for n in many
        },
        "resources of long names": {
            f"resources:CUSTOM_{'R' * (230 - len(str(n)))}{n}": "1" for n in many
        },
        "misspelt keys": {f"hw:{'cpu_policy' * 20}{n}": "1" for n in many},
        "masks of real time": {
            "hw:cpu_policy": "dedicated",
            "hw:cpu_realtime": "yes",
            "hw:cpu_realtime_mask": _build_text("^0-65535", ",^0-65535", VALUE),
        },
        "dedicated CPUs": {
            "hw:cpu_policy": "mixed",
            "hw:cpu_dedicated_mask": _build_text("0-65535", ",0-65535", VALUE),
        },
    }


def _request_with_extra_specs(extra_specs: Mapping[str, str]) -> dict[str, str]:
    return {key: value[:VALUE] for key, value in extra_specs.items()}


def _large_conditions() -> Mapping[str, object]:
    """Return conditions of JsonFilter of the maximal size."""
    deep: list[object] = ["=", "$host", "no"]
    for _ in range(_DEEPEST - 1):
        deep = ["or", deep]
    wide = ["or", *(["<", "$free_ram_mb", -1] for _ in range((_MOST - 2) // 4))]
    names = ["in", "$host", *(f"{number:018}" for number in range(_MOST - 10))]
    return {
        "deep condition": deep,
        "wide condition": wide,
        "long condition": names,
        "condition of variables": ["and", *(f"$stats.k{n}" for n in range(_MOST - 10)), ["="]],
        "condition of all devices": [
            "=",
            "no",
            *(["$pci_device_pools", "$numa_topology"] * ((_MOST - 10) // 2)),
        ],
        "condition of all candidates": ["=", *(["$allocation_candidates"] * 160), "no"],
    }


def _request_with_query(query: object) -> dict[str, object]:
    text = json.dumps(query, separators=(",", ":"))
    assert len(text) <= _LONGEST, text[:50]
    return spec(scheduler_hints={"query": text})


def _large_properties() -> Mapping[str, str]:
    """Return image properties of the maximal length by name."""
    return {
        "hw_numa_cpus.0": "0-65535," * (MAX_CPU_SET_CHARACTERS // 8),
        "hw_cpu_dedicated_mask": "^1," * (PROPERTY // 3),
        "hw_mem_page_size": "9" * PROPERTY,
        "hw_numa_nodes": "9" * PROPERTY,
        "img_hv_requested_version": ">=1," * (PROPERTY // 4 - 1) + "<9",
        "hw_pci_numa_affinity_policy": "x" * PROPERTY,
        "hypervisor_type": "q" * PROPERTY,
        "os_shutdown_timeout": "9" * PROPERTY,
        "hw_cpu_max_sockets": "1" * PROPERTY,
        "trait:CUSTOM_X": "required" + " " * (PROPERTY - 8),
        "hw_emulation_architecture": "x" * PROPERTY,
    }


def _request_with_image(properties: Mapping[str, str]) -> dict[str, object]:
    dedicated = {"hw:cpu_policy": "dedicated", "hw:mem_page_size": "any"}
    image = {"id": None, "name": "large", "properties": dict(properties)}
    return spec(flavor=flavor(vcpus=2, extra_specs=dedicated), image=image)


def _request_many_nodes() -> dict[str, object]:
    """Return a request for the maximum of NUMA nodes, each with a long set of CPUs."""
    extra = {"hw:numa_nodes": str(MAX_NUMA_NODES)}
    for node in range(MAX_NUMA_NODES):
        extra[f"hw:numa_cpus.{node}"] = _build_text(f"{node}", f",{node}", VALUE)
        extra[f"hw:numa_mem.{node}"] = "8"
    return spec(
        flavor=flavor(
            vcpus=MAX_NUMA_NODES, memory_mb=8 * MAX_NUMA_NODES, root_gb=0, extra_specs=extra
        )
    )


def _unfitting_topologies() -> Mapping[str, dict[str, object]]:
    """Return requests for NUMA nodes that fit singly, but not all on a host."""
    least = CPUS - 2 * (CELLS - 1)
    fitting = [least + 2 * node for node in range(CELLS)]
    # The last two nodes fit only on the same node of a host.
    growing = [*fitting[:-2], CPUS, CPUS]
    unequal = [2, *fitting[1:-2], CPUS - 2, CPUS - 2]
    networks = {"physnets": ["net0", "net1", "net2", "net3"], "tunneled": True}
    devices = {"requests": [_pci_request(name, 4, "required") for name in ALIASES[:4]]}
    # All devices but the last two are on the nodes that the search tries first.
    first = [name for at, name in enumerate(ALIASES) if at % CELLS < CELLS // 2]
    names = [first[at % len(first)] for at in range(MAX_PCI_REQUESTS - 2)]
    most = [_pci_request(name, 1, "required") for name in (*names, *ALIASES[CELLS // 2 :][:2])]
    pages = [{"pagesize": -3}, {"pagesize": 2**20}] * (CELLS // 2)
    return {
        "nodes that nearly fit": _request_nodes(growing),
        "nodes, two of them too large": _request_nodes(unequal),
        "nodes that fit one way": _request_nodes(fitting),
        "nodes on whole cores": _request_nodes(growing, {"cpu_thread_policy": "require"}),
        "nodes with pages": _request_nodes(growing, *pages),
        "nodes near networks": {**_request_nodes(fitting[:4]), "network_metadata": networks},
        "nodes near devices": {**_request_nodes(fitting[:4]), "pci_requests": devices},
        "nodes near all devices but two": {
            **_request_nodes([2] * 4),
            "pci_requests": {"requests": most},
        },
    }


def _many_instances() -> Mapping[str, dict[str, object]]:
    """Return requests for the maximum of instances with nodes, with devices and with both.

    Devices on the last nodes of a host make the search try all sets of nodes.
    """
    last = [_pci_request(name, 1, "required") for name in ALIASES[CELLS // 2 : CELLS]]
    every = [_pci_request(name, 1, "required") for name in ALIASES[:: len(ALIASES) // CELLS - 1]]
    networks = {"physnets": ["net0", "net1", "net2", "net3"], "tunneled": True}
    requests: Mapping[str, tuple[dict[str, object], int]] = {
        "a node": (_request_nodes([1]), 1),
        "nodes": (_request_nodes([2, 4, 6, 8]), 4),
        "nodes near networks": ({**_request_nodes([1] * 4), "network_metadata": networks}, 4),
        "devices": (spec(pci_requests={"requests": every}), len(every)),
        "nodes and devices": (
            {**_request_nodes([1] * CELLS), "pci_requests": {"requests": every}},
            CELLS + len(every),
        ),
        "the last nodes": (
            {**_request_nodes([1] * len(last)), "pci_requests": {"requests": last}},
            2 * len(last),
        ),
    }
    return {
        f"instances with {name}": {
            **request_spec,
            "instance_uuids": None,
            "num_instances": min(MAX_FITTED // each, MAX_INSTANCES),
        }
        for name, (request_spec, each) in requests.items()
    }


def _request_nodes(sizes: Iterable[int], *more: Mapping[str, object]) -> dict[str, object]:
    """Return a request for NUMA nodes with the given numbers of dedicated CPUs."""
    cells: list[dict[str, object]] = []
    begin = 0
    for node, size in enumerate(sizes):
        cpus = list(range(begin, begin := begin + size))
        own = more[node % len(more)] if more else {}
        cell = {"id": node, "cpuset": [], "pcpuset": cpus, "memory": 1024}
        cells.append({**cell, "cpu_policy": "dedicated", **own})
    size = flavor(vcpus=begin, memory_mb=1024 * len(cells), root_gb=0)
    return spec(flavor=size, numa_topology={"cells": cells})


def _request_many_devices() -> Mapping[str, dict[str, object]]:
    """Return requests for many devices, by alias and as PCI requests of nova."""
    short = "a47:1," * (VALUE // 6)
    every = ",".join(f"{name}:3" for name in ALIASES)[:VALUE].rpartition(",")[0]
    devices = [_pci_request(name, 1, "preferred") for name in ALIASES]
    many = [
        _pci_request(ALIASES[at % len(ALIASES)], 1, "preferred") for at in range(MAX_PCI_REQUESTS)
    ]
    others = [
        {"vendor_id": "ffff", "product_id": f"{n:04x}"} for n in range(MAX_PCI_SPEC_KEYS // 2 - 1)
    ]
    keys = [{f"key{n}": "ffff"} for n in range(MAX_PCI_SPEC_KEYS // MAX_PCI_REQUESTS - 1)]
    return {
        "aliases": spec(flavor=flavor(extra_specs={"pci_passthrough:alias": every})),
        "one alias many times": spec(
            flavor=flavor(extra_specs={"pci_passthrough:alias": short.rstrip(",")})
        ),
        "many devices": spec(flavor=flavor(extra_specs={"pci_passthrough:alias": "a0:4096"})),
        "devices": spec(pci_requests={"requests": devices}),
        "more devices": spec(pci_requests={"requests": many}),
        "too many devices": spec(pci_requests={"requests": many * 70}),
        "kinds of device": spec(pci_requests={"requests": [{"count": 1, "spec": [*others, {}]}]}),
        "keys of devices": spec(
            pci_requests={"requests": [{"count": 1, "spec": [*keys, {}]}] * MAX_PCI_REQUESTS}
        ),
        "keys of one device": spec(
            pci_requests={
                "requests": [
                    {"count": 1, "spec": [{f"key{n}": "f"} for n in range(MAX_PCI_SPEC_KEYS)]}
                ]
            }
        ),
        "too many kinds of device": spec(
            pci_requests={"requests": [{"count": 1, "spec": others * 15}]}
        ),
    }


def _pci_request(name: str, count: int, policy: str) -> dict[str, object]:
    return {
        "count": count,
        "alias_name": name,
        "spec": [_build_device(name)],
        "numa_policy": policy,
    }


def _build_text(first: str, further: str, most: int) -> str:
    """Return ``first`` and repetitions of ``further``, in at most ``most`` characters."""
    return first + further * ((most - len(first)) // len(further))
