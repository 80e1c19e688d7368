# SPDX-License-Identifier: Apache-2.0
"""Largest requests: a request for each limit."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import os_traits

from placement_sched.limits import (
    MAX_AGGREGATE_METADATA,
    MAX_ALLOCATION_AMOUNTS,
    MAX_CAPACITY_FLAVORS,
    MAX_CHANGES,
    MAX_CPU_SET_CHARACTERS,
    MAX_EXTRA_SPECS,
    MAX_FITTED,
    MAX_HOST_COPIES,
    MAX_INSTANCES,
    MAX_JSON_VALUES,
    MAX_NUMA_NODES,
    MAX_OPTION_ENTRIES,
    MAX_PCI_REQUESTS,
    MAX_PROVIDER_ITEMS,
    MAX_REPORTS,
    MAX_RESHAPER_CONSUMERS,
)
from placement_sched.model.aggregates import POLICIES
from tests.support.clouds import uuid_of
from tests.support.scheduling import make_flavor, make_report, make_spec

#: Bytes of the longest query string below ``[api] max_query_string_size``.
MAX_QUERY_BYTES = 64_000
#: Maximum number of names in a list of a request, and of characters of an extra spec.
MAX_LISTED_NAMES, MAX_SPEC_LENGTH = 10_000, 255
#: NUMA nodes of a host with hardware, dedicated CPUs of each node, and names of its PCI devices.
NUMA_CELLS, CELL_CPUS = 8, 32
PCI_ALIASES = [f"a{number}" for number in range(48)]
_PROVIDERS_PATH, _SCHEDULER_PATH = "/placement/resource_providers", "/scheduler/v1"
_COMPUTE_PATH = "/compute/v2.1"


class LargeRequest(NamedTuple):
    """A request, named by its large part. ``build`` returns its body for a turn.

    A write must succeed, and names other objects in each turn.
    """

    name: str
    method: str
    path: str
    build: Callable[[int], Any] = lambda _turn: None
    is_write: bool = False


def build_large_bodies(most: int, path: str) -> Iterator[LargeRequest]:
    """Yield JSON of at most ``most`` bytes that no route expects."""
    bodies = {
        "lists that are parsed": b"[[]" + b",[]" * min(most // 4, MAX_JSON_VALUES // 2 - 10) + b"]",
        "keys": b"{" + join_texts_up_to_length('"k{:x}":1'.format, ",", most).encode() + b"}",
        "numbers": b"[1" + b",1" * (most // 2 - 2) + b"]",
        "nested lists": b"[" * 1000 + b"1" + b"]" * 1000,
        "a long key": b'{"' + b"x" * (most - 12) + b'":1}',
        "escapes": b'["' + b"\\u00e9" * (most // 6 - 2) + b'"]',
        "digits": b"[" + b"9" * (most - 2) + b"]",
    }
    for name, body in bodies.items():
        yield LargeRequest(f"{name} to {path}", "POST", path, lambda _, body=body: body)


def build_large_queries() -> Iterator[LargeRequest]:
    groups = "&".join(f"resources{n}=CUSTOM_{n % 4}:1" for n in range(10))
    aggregates = (
        "member_of=in:" + ",".join(uuid_of(f"m{n}.{each}") for each in range(40)) for n in range(40)
    )
    queries = {
        "ten groups": f"{groups}&group_policy=isolate",
        "two thousand groups": "&".join(f"resources{n}=VCPU:1" for n in range(2000)),
        "aggregates": f"resources=VCPU:1&{'&'.join(aggregates)}",
        "traits": "resources=VCPU:1&required=" + ",".join(f"!CUSTOM_{n}" for n in range(4000)),
        "names": join_texts_up_to_length("n{}=1".format, "&", MAX_QUERY_BYTES),
    }
    yield from _build_candidate_queries(queries)
    names = join_texts_up_to_length("n{}".format, ",", MAX_QUERY_BYTES)
    for path in (
        f"/image/v2/images?name=in:{names}",
        f"{_COMPUTE_PATH}/servers?name=%28.%2B%29%2B%21",
    ):
        yield LargeRequest(f"query of {path[:25]}", "GET", path)


def _build_candidate_queries(queries: Mapping[str, str]) -> Iterator[LargeRequest]:
    for name, query in queries.items():
        yield LargeRequest(f"query: {name}", "GET", f"/placement/allocation_candidates?{query}")


def build_network_card_tree(cards: int = 60, shared: int = 8) -> Iterator[tuple[str, str, object]]:
    """Yield requests for a host with many network cards, some with virtual functions."""
    root = uuid_of("nested host")
    yield "POST", _PROVIDERS_PATH, {"name": "nested host", "uuid": root}
    for number in range(cards):
        uuid = uuid_of(f"card {number}")
        yield (
            "POST",
            _PROVIDERS_PATH,
            {"name": f"card {number}", "uuid": uuid, "parent_provider_uuid": root},
        )
        amounts = {"PCI_DEVICE": {"total": 1}}
        amounts |= {"SRIOV_NET_VF": {"total": shared}} if number < shared else {}
        stock = {"resource_provider_generation": 0, "inventories": amounts}
        yield "PUT", f"{_PROVIDERS_PATH}/{uuid}/inventories", stock


def build_network_card_queries(shared: int = 8) -> Iterator[LargeRequest]:
    """Yield queries for the tree with very many candidates or none."""

    def repeat_group(number: int, resources: str) -> str:
        return "&".join(f"resources_{each}={resources}" for each in range(number))

    every = ",".join(f"_{number}" for number in range(shared))
    yield from _build_candidate_queries(
        {
            "functions": f"{repeat_group(shared, 'SRIOV_NET_VF:1')}&group_policy=none&limit=1000",
            "functions apart": f"{repeat_group(shared, 'SRIOV_NET_VF:1')}&group_policy=isolate",
            "functions of one card that has too few": (
                f"{repeat_group(shared, 'SRIOV_NET_VF:5')}&same_subtree={every}&group_policy=none"
            ),
            "cards apart": f"{repeat_group(6, 'PCI_DEVICE:1')}&group_policy=isolate",
            "too many functions apart": (
                f"{repeat_group(shared + 1, 'SRIOV_NET_VF:1')}&group_policy=isolate"
            ),
        }
    )


def _build_explain_request(name: str, request_spec: Any, **more: Any) -> LargeRequest:
    body = {"request_spec": request_spec, **more}
    return LargeRequest(f"explain: {name}", "POST", f"{_SCHEDULER_PATH}/explain", lambda _: body)


def build_large_explain_requests() -> Iterator[LargeRequest]:
    names = [f"q{number}" for number in range(MAX_LISTED_NAMES)]
    members = [uuid_of(name) for name in names]
    condition = ["or", *(["<", "$free_ram_mb", number] for number in range(20_000))]
    hosts = [f"cn{number}" for number in range(300)]
    yield _build_explain_request("forced hosts", make_spec(force_hosts=names))
    yield _build_explain_request("ignored hosts", make_spec(ignore_hosts=names), hosts=names)
    yield _build_explain_request(
        "hosts of a group", make_spec(instance_group={"policy": "affinity", "hosts": names})
    )
    yield _build_explain_request(
        "a condition", make_spec(scheduler_hints={"query": json.dumps(condition)})
    )
    yield _build_explain_request(
        "instances to avoid", make_spec(scheduler_hints={"different_host": members})
    )
    yield _build_explain_request(
        "groups",
        make_spec(flavor=_build_flavor_with_extra_specs("resources{}:CUSTOM_1", "1", 20_000)),
    )
    yield _build_explain_request(
        "misspelt keys",
        make_spec(flavor=_build_flavor_with_extra_specs("hw:cpu_polic{}", "1", 20_000)),
    )
    many = [uuid_of(f"instance {number}") for number in range(MAX_INSTANCES)]
    for policy in POLICIES:
        group = {"policy": policy, "members": members[:MAX_INSTANCES]}
        small = make_flavor(memory_mb=1, root_gb=0)
        yield _build_explain_request(
            f"instances of a group: {policy}", make_spec(*many, flavor=small, instance_group=group)
        )
    # Without traits with other effects: pinned CPUs and disabled hosts.
    kinds = ("COMPUTE_", "HW_CPU_X86", "HW_GPU", "HW_NIC", "STORAGE_")
    traits = set(os_traits.get_traits()) - {os_traits.COMPUTE_STATUS_DISABLED}
    traits = sorted(trait for trait in traits if trait.startswith(kinds))[:495]
    required = make_flavor(memory_mb=10**7, extra_specs={f"trait:{t}": "required" for t in traits})
    either = "<or> " + " <or> ".join(["abc"] * 25)
    yield _build_explain_request(
        "all rejections of all hosts", make_spec(flavor=required), hosts=hosts
    )
    capabilities = _build_flavor_with_extra_specs("capabilities:cpu_info:x{}", either, 495)
    yield _build_explain_request(
        "capabilities of all hosts", make_spec(flavor=capabilities), hosts=hosts
    )
    for option, entries in {
        "metrics.weight_setting": [f"{name}=1.0" for name in names[:MAX_OPTION_ENTRIES]],
        "filter_scheduler.isolated_hosts": names[:MAX_OPTION_ENTRIES],
        "scheduler.request_filters": ["forbidden_aggregates"] * MAX_OPTION_ENTRIES,
    }.items():
        yield _build_explain_request(
            option, make_spec(), overrides={option: entries, "metrics.required": False}
        )


def _build_flavor_with_extra_specs(key: str, value: str, number: int) -> dict[str, object]:
    return make_flavor(extra_specs={key.format(each): value for each in range(number)})


def build_large_write_requests() -> Iterator[LargeRequest]:
    """Yield the largest requests for other routes, in order."""
    copies = {"changes": [{"add": {"like": "cn0", "count": MAX_HOST_COPIES}}]}
    yield LargeRequest("hosts to add", "POST", f"{_SCHEDULER_PATH}/plan", lambda _: copies)
    aggregate = {"aggregate": {"name": "most", "metadata": {"k": "v"}, "add_hosts": ["cn0"]}}
    yield _build_explain_request(
        "aggregates to change", make_spec(), changes=[aggregate] * MAX_CHANGES
    )
    yield LargeRequest("moves", "POST", f"{_SCHEDULER_PATH}/rebalance", lambda _: {"goal": "pack"})
    flavors = [make_flavor(name=f"f{n}", memory_mb=n + 1) for n in range(MAX_CAPACITY_FLAVORS)]
    counted = {"request_spec": {}, "flavors": flavors, "per": "host"}
    yield LargeRequest("flavors to count", "POST", f"{_SCHEDULER_PATH}/capacity", lambda _: counted)
    size = {"id": "most", "name": "most", "ram": 1, "vcpus": 1, "disk": 1}
    yield LargeRequest("a flavor", "POST", f"{_COMPUTE_PATH}/flavors", lambda _: {"flavor": size})
    specs = {"extra_specs": {f"k{n}": "v" * MAX_SPEC_LENGTH for n in range(MAX_EXTRA_SPECS)}}
    yield LargeRequest(
        "extra specs", "POST", f"{_COMPUTE_PATH}/flavors/most/os-extra_specs", lambda _: specs
    )
    path = f"{_COMPUTE_PATH}/os-aggregates"
    yield LargeRequest("an aggregate", "POST", path, lambda _: {"aggregate": {"name": "most"}})
    values = {f"k{n}": "v" * MAX_SPEC_LENGTH for n in range(MAX_AGGREGATE_METADATA)}
    metadata = {"set_metadata": {"metadata": values}}
    yield LargeRequest("metadata", "POST", f"{path}/1/action", lambda _: metadata)
    provider = {"uuid": uuid_of("provider of most"), "name": "provider of most"}
    yield LargeRequest("a provider", "POST", _PROVIDERS_PATH, lambda _: provider)
    uuids = [uuid_of(f"aggregate {number}") for number in range(MAX_PROVIDER_ITEMS)]
    aggregates = {"aggregates": uuids, "resource_provider_generation": 0}
    path = f"{_PROVIDERS_PATH}/{provider['uuid']}/aggregates"
    yield LargeRequest("aggregates of a provider", "PUT", path, lambda _: aggregates)
    path = f"{_SCHEDULER_PATH}/select_destinations"
    yield LargeRequest("claimed instances", "POST", path, _build_instance_claim, is_write=True)
    path = "/placement/allocations"
    yield LargeRequest("consumers", "POST", path, _build_consumer_allocations, is_write=True)
    yield LargeRequest("amounts", "POST", "/placement/reshaper", _build_reshaper_body)
    path = f"{_SCHEDULER_PATH}/compute_nodes"  # last, because it adds hosts
    yield LargeRequest("reports", "POST", path, _build_host_reports, is_write=True)


def _build_instance_claim(turn: int) -> object:
    uuids = [uuid_of(f"claimed {index} of {turn}") for index in range(MAX_INSTANCES)]
    image = {"properties": {f"p{index}": "x" * 1000 for index in range(9)}}
    small = make_flavor(vcpus=0, memory_mb=1, root_gb=0)
    return {"request_spec": make_spec(*uuids, flavor=small, image=image)}


def _build_host_reports(turn: int) -> object:
    return [make_report(f"more of {turn} {number}") for number in range(MAX_REPORTS)]


def _build_consumer_allocations(turn: int) -> dict[str, dict[str, object]]:
    """Return consumers, each with a small allocation on a host of 30."""
    return {
        uuid_of(f"consumer {index} of {turn}"): {
            "allocations": {
                str(make_report(f"cn{index % 30}")["uuid"]): {"resources": {"MEMORY_MB": 1}}
            },
            "project_id": "p1",
            "user_id": "u1",
            "consumer_generation": None,
            "consumer_type": "INSTANCE",
        }
        for index in range(MAX_RESHAPER_CONSUMERS)
    }


def _build_reshaper_body(turn: int) -> object:
    """Return new allocations of unknown classes for many consumers."""
    classes = [f"CUSTOM_MOST_{number}" for number in range(100)]
    provider = uuid_of("provider of most")
    held = {provider: {"resources": dict.fromkeys(classes, 1)}}
    consumers = list(_build_consumer_allocations(turn).items())[: MAX_ALLOCATION_AMOUNTS // 100]
    stock = {name: {"total": MAX_ALLOCATION_AMOUNTS} for name in classes}
    return {
        "inventories": {provider: {"inventories": stock, "resource_provider_generation": 1}},
        "allocations": {uuid: {**consumer, "allocations": held} for uuid, consumer in consumers},
    }


def build_hardware_filter_configuration() -> str:
    """Return the configuration of a server with filters that read hardware."""
    aliases = (json.dumps({"name": name, **_build_pci_device_spec(name)}) for name in PCI_ALIASES)
    filters = "JsonFilter,PciPassthroughFilter,NUMATopologyFilter"
    return f"[filter_scheduler]\nenabled_filters = ComputeFilter,{filters}\n[pci]\n" + "".join(
        f"alias = {alias}\n" for alias in aliases
    )


def build_hardware_reports(number: int) -> list[dict[str, object]]:
    """Return reports of hosts with NUMA nodes and devices, each with other CPUs in use."""
    pools = [
        {**_build_pci_device_spec(name), "numa_node": at % NUMA_CELLS, "count": 4}
        for at, name in enumerate(PCI_ALIASES)
    ]
    sizes = {
        "vcpus": NUMA_CELLS * CELL_CPUS,
        "memory_mb": NUMA_CELLS * 65_536,
        "pci_device_pools": pools,
    }
    return [
        make_report(
            f"cn{host}",
            **sizes,
            numa_topology={"cells": [_build_numa_cell(host, cell) for cell in range(NUMA_CELLS)]},
        )
        for host in range(number)
    ]


def _build_pci_device_spec(name: str) -> dict[str, str]:
    return {"vendor_id": "8086", "product_id": f"{PCI_ALIASES.index(name):04x}"}


def _build_numa_cell(host: int, cell: int) -> dict[str, object]:
    cpus = list(range(cell * CELL_CPUS, (cell + 1) * CELL_CPUS))
    return {
        "id": cell,
        "cpuset": [],
        "pcpuset": cpus,
        "pinned_cpus": cpus[: 2 * ((host + cell) % NUMA_CELLS)],
        "siblings": [[cpu, cpu + 1] for cpu in cpus[::2]],
        "memory": 65_536,
        "network_metadata": {"physnets": [f"net{cell % 4}"], "tunneled": cell == 0},
        "socket": cell // 4,
    }


def build_hardware_requests() -> Iterator[LargeRequest]:
    nodes = {"hw:numa_nodes": str(MAX_NUMA_NODES)}
    for node in range(MAX_NUMA_NODES):
        nodes[f"hw:numa_cpus.{node}"] = (f"{node}" + f",{node}" * MAX_SPEC_LENGTH)[
            :MAX_SPEC_LENGTH
        ].rstrip(",")
        nodes[f"hw:numa_mem.{node}"] = "8"
    yield _build_explain_request(
        "numbered nodes", make_spec(flavor=make_flavor(vcpus=MAX_NUMA_NODES, extra_specs=nodes))
    )
    text = "0-65535," * (MAX_CPU_SET_CHARACTERS // 8)
    dedicated = make_flavor(vcpus=2, extra_specs={"hw:cpu_policy": "dedicated"})
    for name in ("hw_numa_cpus.0", "hw_cpu_dedicated_mask", "hw_mem_page_size", "hw_numa_nodes"):
        image = {"id": None, "name": "large", "properties": {name: text}}
        yield _build_explain_request(
            f"image property {name}", make_spec(flavor=dedicated, image=image)
        )
    # The last two nodes fit only on the same node of a host.
    least = CELL_CPUS - 2 * (NUMA_CELLS - 1)
    growing = [*(least + 2 * node for node in range(NUMA_CELLS - 2)), CELL_CPUS, CELL_CPUS]
    yield _build_explain_request("nodes that nearly fit", _build_numa_request(growing))
    yield _build_explain_request(
        "nodes on whole cores", _build_numa_request(growing, cpu_thread_policy="require")
    )
    first = [name for at, name in enumerate(PCI_ALIASES) if at % NUMA_CELLS < NUMA_CELLS // 2]
    names = [first[at % len(first)] for at in range(MAX_PCI_REQUESTS - 2)]
    devices = {"requests": [_build_pci_request(name) for name in (*names, *PCI_ALIASES[4:6])]}
    yield _build_explain_request(
        "nodes near devices", {**_build_numa_request([2] * 4), "pci_requests": devices}
    )
    every = ",".join(f"{name}:3" for name in PCI_ALIASES)[:MAX_SPEC_LENGTH].rpartition(",")[0]
    yield _build_explain_request(
        "aliases", make_spec(flavor=make_flavor(extra_specs={"pci_passthrough:alias": every}))
    )
    last = [_build_pci_request(name) for name in PCI_ALIASES[NUMA_CELLS // 2 : NUMA_CELLS]]
    many = {**_build_numa_request([1] * len(last)), "pci_requests": {"requests": last}}
    number = min(MAX_FITTED // (2 * len(last)), MAX_INSTANCES)
    yield _build_explain_request(
        "many instances", {**many, "instance_uuids": None, "num_instances": number}
    )


def _build_numa_request(sizes: list[int], **more: object) -> dict[str, object]:
    """Return a request for NUMA nodes with the given numbers of dedicated CPUs."""
    starts = [sum(sizes[:node]) for node in range(len(sizes))]
    cells = [
        {
            "id": node,
            "cpuset": [],
            "pcpuset": list(range(start, start + size)),
            "memory": 1024,
            "cpu_policy": "dedicated",
            **more,
        }
        for node, (start, size) in enumerate(zip(starts, sizes, strict=True))
    ]
    whole = make_flavor(vcpus=sum(sizes), memory_mb=1024 * len(cells), root_gb=0)
    return make_spec(flavor=whole, numa_topology={"cells": cells})


def _build_pci_request(name: str) -> dict[str, object]:
    device = {"count": 1, "alias_name": name, "spec": [_build_pci_device_spec(name)]}
    return {**device, "numa_policy": "required"}


def join_texts_up_to_length(build: Callable[[int], str], between: str, most: int) -> str:
    """Join numbered texts up to ``most`` characters."""
    texts: list[str] = []
    while (most := most - len(text := build(len(texts))) - 1) > 0:
        texts.append(text)
    return between.join(texts)
