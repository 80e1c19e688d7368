# SPDX-License-Identifier: Apache-2.0
"""Largest request bodies and query strings, by name."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import os_traits

from placement_sched.limits import (
    MAX_ALLOCATION_AMOUNTS,
    MAX_CAPACITY_FLAVORS,
    MAX_CHANGES,
    MAX_HOST_COPIES,
    MAX_INSTANCES,
    MAX_JSON_VALUES,
    MAX_OPTION_ENTRIES,
    MAX_REPORTS,
    MAX_RESHAPER_CONSUMERS,
)
from placement_sched.model.aggregates import POLICIES
from tests.chaos.probes import full_collections
from tests.support.clouds import uuid_of
from tests.support.scheduling import flavor, report, spec

#: Bytes of the longest query string below ``[api] max_query_string_size``.
QUERY = 64_000
#: Maximum number of names in a list of a request.
NAMES = 10_000
#: Accepted writes of :func:`other_requests`. A second request with the same body costs less.
ACCEPTED = {
    "claimed instances",
    "claimed instances with images",
    "consumers",
    "consumers to reshape",
    "amounts to reshape",
    "a few amounts to reshape",
    "amounts to free",
    "reports",
}
#: Accepted writes that :func:`build_renewed_request` builds with other names.
RENEWED = {"claimed instances", "claimed instances with images", "consumers", "reports"}


def large_json_bodies(most: int) -> Mapping[str, bytes]:
    """Return JSON of at most ``most`` bytes that no route expects, by name."""
    keys = fill_length(lambda number: f'"k{number:x}":1', ",", most)
    parsed = ",".join(f'"k{number:x}":1' for number in range(min(most // 10, MAX_JSON_VALUES - 10)))
    return {
        "keys that are parsed": f"{{{parsed}}}".encode(),
        "lists that are parsed": b"[[]" + b",[]" * min(most // 4, MAX_JSON_VALUES // 2 - 10) + b"]",
        "keys": f"{{{keys}}}".encode(),
        "numbers": b"[1" + b",1" * (most // 2 - 2) + b"]",
        "empty lists": b"[[]" + b",[]" * (most // 3 - 2) + b"]",
        "empty objects": b"[{}" + b",{}" * (most // 3 - 2) + b"]",
        "nested lists": b"[" * 1000 + b"1" + b"]" * 1000,
        "a long text": b'{"name":"' + b"x" * (most - 12) + b'"}',
        "a long key": b'{"' + b"x" * (most - 12) + b'":1}',
        "escapes": b'["' + b"\\u00e9" * (most // 6 - 2) + b'"]',
        "digits": b"[" + b"9" * (most - 2) + b"]",
        "fractions": b"[1e308" + b",1e308" * (most // 6 - 2) + b"]",
    }


def large_queries() -> Mapping[str, str]:
    """Return the largest candidates queries by name."""
    groups = "&".join(f"resources{n}=CUSTOM_{n % 4}:1" for n in range(10))
    aggregates = (
        "member_of=in:" + ",".join(uuid_of(f"m{n}.{each}") for each in range(40)) for n in range(40)
    )
    return {
        "ten groups": f"{groups}&group_policy=none",
        "ten groups apart": f"{groups}&group_policy=isolate",
        "two thousand groups": "&".join(f"resources{n}=VCPU:1" for n in range(2000)),
        "aggregates": f"resources=VCPU:1&{'&'.join(aggregates)}",
        "traits": "resources=VCPU:1&required=" + ",".join(f"!CUSTOM_{n}" for n in range(4000)),
        "digits": "resources=VCPU:" + "9" * 4000,
        "limit": "resources=VCPU:1&limit=" + "9" * 60_000,
        "names": fill_length(lambda number: f"n{number}=1", "&", QUERY),
    }


def explain_requests() -> Mapping[str, dict[str, Any]]:
    """Return the largest bodies of requests for an explanation, by name."""
    names = [f"q{number}" for number in range(NAMES)]
    members = [uuid_of(name) for name in names]
    condition = ["or", *(["<", "$free_ram_mb", number] for number in range(20_000))]
    specs = {
        "forced hosts": spec(force_hosts=names),
        "ignored hosts": spec(ignore_hosts=names),
        "members": spec(instance_group={"policy": "anti-affinity", "members": members}),
        "hosts of a group": spec(instance_group={"policy": "affinity", "hosts": names}),
        "a condition": spec(scheduler_hints={"query": json.dumps(condition)}),
        "instances to avoid": spec(scheduler_hints={"different_host": members}),
        "instances to join": spec(scheduler_hints={"same_host": [m.upper() for m in members]}),
        "too many instances to join": spec(scheduler_hints={"same_host": members * 2}),
        "hosts of long names of a group": spec(
            instance_group={"policy": "affinity", "hosts": [name.ljust(90, "x") for name in names]}
        ),
        "traits": spec(flavor=_build_numbered("trait:CUSTOM_{}", "required", 20_000)),
        "misspelt extra specs": spec(flavor=_build_numbered("hw:cpu_polic{}", "1", 20_000)),
        "groups": spec(flavor=_build_numbered("resources{}:CUSTOM_1", "1", 20_000)),
        "items of two kinds": spec(instance_uuids=[1, "a"] * 450),
    }
    many = [uuid_of(f"instance {number}") for number in range(MAX_INSTANCES)]
    small = flavor(memory_mb=1, root_gb=0)
    specs["instances"] = spec(*many, flavor=small)
    for policy in POLICIES:
        group = {"policy": policy, "members": members[:MAX_INSTANCES]}
        specs[f"instances of a group: {policy}"] = spec(*many, flavor=small, instance_group=group)
    requests = {name: {"request_spec": request} for name, request in specs.items()}
    tried = spec(retry={"num_attempts": 1, "hosts": [[name, name] for name in names]})
    requests["tries"] = {"request_spec": tried, "overrides": _explain_with_filter("RetryFilter")}
    unknown = {"unknown hosts": {"request_spec": spec(), "hosts": names}}
    return requests | _explain_with_overrides(names) | unknown | _explain_every_host()


def _explain_every_host() -> Mapping[str, dict[str, Any]]:
    """Return requests for all rejections of all hosts with the most rejections."""
    hosts = [f"cn{number}" for number in range(300)]
    # Without traits with other effects: pinned CPUs and disabled hosts.
    kinds = ("COMPUTE_", "HW_CPU_X86", "HW_GPU", "HW_NIC", "STORAGE_")
    traits = set(os_traits.get_traits()) - {os_traits.COMPUTE_STATUS_DISABLED}
    traits = sorted(trait for trait in traits if trait.startswith(kinds))[:495]
    required = flavor(memory_mb=10**7, extra_specs={f"trait:{t}": "required" for t in traits})
    either = "<or> " + " <or> ".join(["abc"] * 25)
    ignored = [*(f"q{number}" for number in range(NAMES - len(hosts))), *hosts]
    specs = {
        "traits": spec(flavor=required),
        "capabilities": spec(
            flavor=_build_numbered("capabilities:cpu_info:x{}:y:z", "<in> x", 495)
        ),
        "either capability": spec(flavor=_build_numbered("capabilities:cpu_info:x{}", either, 495)),
        "ignored hosts": spec(ignore_hosts=ignored),
    }
    requests = {
        f"all refusals of all hosts: {name}": {"request_spec": request, "hosts": hosts}
        for name, request in specs.items()
    }
    mixed = [*hosts, *(f"q{number}" for number in range(NAMES - len(hosts)))]
    return requests | {"hosts and unknown hosts": {"request_spec": spec(), "hosts": mixed}}


def _explain_with_overrides(names: Sequence[str]) -> Mapping[str, dict[str, Any]]:
    """Return requests with the maximum of entries in an override, and with more."""
    ratios = [f"{name}=1.0" for name in names[:MAX_OPTION_ENTRIES]]
    options: dict[str, dict[str, Any]] = {
        "metrics": {"metrics.weight_setting": ratios, "metrics.required": False},
        "metrics of long names": {
            **_explain_with_filter("MetricsFilter"),
            "metrics.weight_setting": [f"{ratio[:-4]}{'x' * 900}=1" for ratio in ratios],
        },
        "too many metrics": {"metrics.weight_setting": [f"m{n}=1.0" for n in range(50_000)]},
        "isolated hosts": {
            **_explain_with_filter("IsolatedHostsFilter"),
            "filter_scheduler.isolated_hosts": names[:MAX_OPTION_ENTRIES],
        },
    }
    repeated = {
        "filter_scheduler.available_filters": "nova.scheduler.filters.all_filters",
        "filter_scheduler.weight_classes": "nova.scheduler.weights.all_weighers",
        "scheduler.request_filters": "forbidden_aggregates",
    }
    options |= {name: {name: [value] * MAX_OPTION_ENTRIES} for name, value in repeated.items()}
    return {name: {"request_spec": spec(), "overrides": values} for name, values in options.items()}


def _explain_with_filter(name: str) -> dict[str, Any]:
    return {"filter_scheduler.enabled_filters": [name]}


def large_claims(turn: int = 0) -> Iterator[tuple[str, str, str, object]]:
    """Yield claims of many instances: without images, with large and with too large images.

    Each ``turn`` has other instances.
    """
    path = "/scheduler/v1/select_destinations"
    for name, number, properties, size in (
        ("claimed instances", MAX_INSTANCES, 0, 0),
        ("claimed instances with images", MAX_INSTANCES, 9, 1_000),
        ("claimed instances with too large images", 300, 15, 60_000),
    ):
        # A few hosts have CPUs for a thousand instances only in the first turn.
        small = flavor(vcpus=0 if size or turn else 1, memory_mb=1, root_gb=0)
        uuids = [uuid_of(f"{name} {index} of {turn}") for index in range(number)]
        image = {"properties": {f"p{index}": "x" * size for index in range(properties)}}
        yield name, "POST", path, {"request_spec": spec(*uuids, flavor=small, image=image)}


def other_requests() -> Iterator[tuple[str, str, str, object]]:
    """Yield name, method, path and body of the largest requests for other routes, in order."""
    compute, image, scheduler = "/compute/v2.1", "/image/v2", "/scheduler/v1"
    many = {f"k{number}": "v" for number in range(20_000)}
    small = {"id": "most", "name": "most", "ram": 1, "vcpus": 1, "disk": 1}
    yield "a flavor", "POST", f"{compute}/flavors", {"flavor": small}
    yield "an aggregate", "POST", f"{compute}/os-aggregates", {"aggregate": {"name": "most"}}
    copies = {"add": {"like": "cn0", "count": MAX_HOST_COPIES}}
    yield "hosts to add", "POST", f"{scheduler}/plan", {"changes": [copies]}
    stock = {"host": "cn0", "resource_class": "VCPU"}
    stocks = [{"inventory": {**stock, "total": n + 1}} for n in range(MAX_CHANGES)]
    yield "inventories to change", "POST", f"{scheduler}/plan", {"changes": stocks}
    joined = {"name": "most", "metadata": {"k": "v"}}
    aggregates = [{"aggregate": {**joined, "add_hosts": ["cn0"]}} for _ in range(MAX_CHANGES)]
    changed = {"request_spec": spec(), "changes": aggregates}
    yield "aggregates to change", "POST", f"{scheduler}/explain", changed
    yield "moves", "POST", f"{scheduler}/rebalance", {"goal": "pack"}
    page = f"/console/ask?vcpus=1&change=add%3Dcn0*{MAX_HOST_COPIES}"
    yield "a page with hosts to add", "GET", page, None
    yield from full_collections.flavor_and_aggregate_requests(many)
    yield from full_collections.provider_requests()
    yield from large_claims()
    yield (
        "servers by many names",
        "GET",
        f"{compute}/servers?{full_collections.repeat_names(QUERY)}",
        None,
    )
    yield "all flavors", "GET", f"{compute}/flavors/detail", None
    statuses = "&".join(["status=ACTIVE"] * 4500)
    yield "servers by status", "GET", f"{compute}/servers?{statuses}", None
    yield "servers by name", "GET", f"{compute}/servers?name={quote('(.+)+!')}", None
    tags = {"name": "most", "tags": [f"t{number}" for number in range(20_000)]}
    yield "tags", "POST", f"{image}/images", tags
    yield "properties", "POST", f"{image}/images", {"name": "most", **many}
    yield (
        "images by property",
        "GET",
        f"{image}/images?{fill_length('p{}=v'.format, '&', QUERY)}",
        None,
    )
    names = fill_length("n{}".format, ",", QUERY)
    yield "images by name", "GET", f"{image}/images?name=in:{names}", None
    devices = [
        {
            "product_id": "a",
            "vendor_id": "b",
            "numa_node": 0,
            "tags": {"x": str(number)},
            "count": 1,
        }
        for number in range(6000)
    ]
    large = report("large", stats=many, pci_device_pools=devices)
    yield "a report", "PUT", f"{scheduler}/compute_nodes/{large['uuid']}", large
    flavors = [flavor(name=f"f{n}", memory_mb=n + 1) for n in range(MAX_CAPACITY_FLAVORS)]
    counted = {"request_spec": {}, "flavors": flavors, "per": "host"}
    yield "flavors to count", "POST", f"{scheduler}/capacity", counted
    yield _build_consumer_request()
    provider = str(report("reshaped")["uuid"])
    made = {"uuid": provider, "name": "reshaped"}
    yield "a provider", "POST", "/placement/resource_providers", made
    stock = {"inventories": {"VCPU": {"total": 1}}, "resource_provider_generation": 0}
    body = {
        "inventories": {provider: stock},
        "allocations": _consumers("reshaped", MAX_RESHAPER_CONSUMERS),
    }
    yield "consumers to reshape", "POST", "/placement/reshaper", body
    yield from _amounts_to_reshape()
    yield _amounts_to_free()
    yield _build_report()  # last, because it adds hosts


def build_renewed_request(name: str, turn: int) -> tuple[str, str, str, object]:
    """Return a request of :data:`RENEWED` with the instances or hosts of a later turn."""
    requests = (*large_claims(turn), _build_consumer_request(turn), _build_report(turn))
    return next(request for request in requests if request[0] == name)


def _build_consumer_request(turn: int = 0) -> tuple[str, str, str, object]:
    consumers = _consumers(f"consumer of {turn}", MAX_RESHAPER_CONSUMERS)
    return "consumers", "POST", "/placement/allocations", consumers


def _build_report(turn: int = 0) -> tuple[str, str, str, object]:
    reports = [report(f"more of {turn} {number}") for number in range(MAX_REPORTS)]
    return "reports", "POST", "/scheduler/v1/compute_nodes", reports


def _amounts_to_reshape() -> Iterator[tuple[str, str, str, object]]:
    """Yield maximal reshapes for few and for many consumers, and the requests they depend on."""
    classes = [f"CUSTOM_MOST_{number}" for number in range(100)]
    for name in classes:
        yield f"class {name}", "PUT", f"/placement/resource_classes/{name}", None
    stock = {name: {"total": MAX_ALLOCATION_AMOUNTS} for name in classes}
    for name, each in (("amounts to reshape", 100), ("a few amounts to reshape", 3)):
        provider = str(report(name)["uuid"])
        made = {"uuid": provider, "name": name}
        yield f"a provider of {name}", "POST", "/placement/resource_providers", made
        held = {provider: {"resources": dict.fromkeys(classes[:each], 1)}}
        consumers = _consumers(name, min(MAX_ALLOCATION_AMOUNTS // each, MAX_RESHAPER_CONSUMERS))
        body = {
            "inventories": {provider: {"inventories": stock, "resource_provider_generation": 0}},
            "allocations": {
                uuid: {**consumer, "allocations": held} for uuid, consumer in consumers.items()
            },
        }
        yield name, "POST", "/placement/reshaper", body


def _amounts_to_free() -> tuple[str, str, str, object]:
    """Return a request that frees all allocations of both reshapes."""
    few = _consumers("a few amounts to reshape", MAX_RESHAPER_CONSUMERS)
    consumers = {**_consumers("amounts to reshape", MAX_ALLOCATION_AMOUNTS // 100), **few}
    nothing = {"allocations": {}, "consumer_generation": 1}
    body = {uuid: {**consumer, **nothing} for uuid, consumer in consumers.items()}
    return "amounts to free", "POST", "/placement/allocations", body


def _consumers(name: str, number: int) -> dict[str, dict[str, object]]:
    """Return ``number`` consumers, each with a small allocation on a host of 30."""
    held = {"MEMORY_MB": 1}
    return {
        uuid_of(f"{name} {index}"): {
            "allocations": {str(report(f"cn{index % 30}")["uuid"]): {"resources": held}},
            "project_id": "p1",
            "user_id": "u1",
            "consumer_generation": None,
            "consumer_type": "INSTANCE",
        }
        for index in range(number)
    }


def _build_numbered(key: str, value: str, number: int) -> dict[str, object]:
    return flavor(extra_specs={key.format(each): value for each in range(number)})


def fill_length(build: Callable[[int], str], between: str, most: int) -> str:
    """Join numbered texts up to ``most`` characters."""
    texts: list[str] = []
    while (most := most - len(text := build(len(texts))) - 1) > 0:
        texts.append(text)
    return between.join(texts)
