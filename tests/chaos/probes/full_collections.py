# SPDX-License-Identifier: Apache-2.0
"""Requests that fill flavors, aggregates and providers up to their limits, and beyond."""

from collections.abc import Iterable, Iterator, Mapping

from placement_sched.limits import MAX_AGGREGATE_METADATA, MAX_EXTRA_SPECS, MAX_PROVIDER_ITEMS
from tests.support.clouds import uuid_of


def flavor_and_aggregate_requests(
    many: Mapping[str, str],
) -> Iterator[tuple[str, str, str, object]]:
    """Yield requests that set the maximum of extra specs and metadata, and more."""
    specs = "/compute/v2.1/flavors/most/os-extra_specs"
    yield "too many extra specs", "POST", specs, {"extra_specs": many}
    most = dict.fromkeys(list(many)[:MAX_EXTRA_SPECS], "v" * 255)
    yield "extra specs", "POST", specs, {"extra_specs": most}
    action = "/compute/v2.1/os-aggregates/1/action"
    yield "too much metadata", "POST", action, {"set_metadata": {"metadata": many}}
    most = dict.fromkeys(list(many)[:MAX_AGGREGATE_METADATA], "v" * 255)
    yield "metadata", "POST", action, {"set_metadata": {"metadata": most}}


def many_aggregates_requests(hosts: Iterable[str]) -> Iterator[tuple[str, str, object]]:
    """Yield requests that put hosts into ten aggregates with maximal metadata."""
    names = tuple(hosts)
    for number in range(1, 11):
        path = "/compute/v2.1/os-aggregates"
        yield "POST", path, {"aggregate": {"name": f"full {number}"}}
        metadata = {f"k{number}_{key}": "v" * 200 for key in range(MAX_AGGREGATE_METADATA)}
        action = f"{path}/{number}/action"
        yield "POST", action, {"set_metadata": {"metadata": metadata}}
        for name in names:
            yield "POST", action, {"add_host": {"host": name}}


def provider_requests() -> Iterator[tuple[str, str, str, object]]:
    """Yield requests that create a provider and set its maximal collections."""
    provider = uuid_of("provider of most")
    path = f"/placement/resource_providers/{provider}"
    body = {"uuid": provider, "name": "provider of most"}
    yield "another provider", "POST", "/placement/resource_providers", body
    for generation in range(2):
        uuids = [uuid_of(f"{generation} {number}") for number in range(MAX_PROVIDER_ITEMS)]
        body = {"aggregates": uuids, "resource_provider_generation": generation}
        yield f"aggregates of a provider {generation}", "PUT", f"{path}/aggregates", body
    traits = [f"CUSTOM_{number}" for number in range(MAX_PROVIDER_ITEMS)]
    body = {"traits": traits, "resource_provider_generation": 2}
    yield "unknown traits of a provider", "PUT", f"{path}/traits", body
    stock = {name: {"total": 1} for name in traits}
    body = {"inventories": stock, "resource_provider_generation": 2}
    yield "unknown inventories of a provider", "PUT", f"{path}/inventories", body


def repeat_names(most: int) -> str:
    """Return a query string of at most ``most`` bytes that repeats a name after many others."""
    names = "&".join(f"{number:x}" for number in range(8000))
    return names + "&a" * ((most - len(names)) // 2)
