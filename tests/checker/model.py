# SPDX-License-Identifier: Apache-2.0
"""A model of the hosts that fit a request. It tries every combination of providers."""

from collections import Counter
from dataclasses import dataclass, field
from itertools import product

from tests.checker.cloud import DISABLED_TRAIT, SHARING_TRAIT, Cloud, Provider, ResourceAmounts


@dataclass(frozen=True)
class RequestGroup:
    """Request group: resources and traits, all on the same provider if the group has a suffix."""

    resources: ResourceAmounts
    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()


@dataclass(frozen=True)
class CloudRequest:
    """A request: groups by suffix ("" for the flavor without suffixes), and a zone."""

    groups: dict[str, RequestGroup] = field(default_factory=dict)
    zone: str | None = None
    isolate: bool = False


def find_fitting_hosts(cloud: Cloud, request: CloudRequest) -> set[str]:
    return {name for name in cloud.hosts if can_fit_on_host(cloud, request, name)}


def can_fit_on_host(cloud: Cloud, request: CloudRequest, host: str) -> bool:
    root = cloud.hosts[host]
    if DISABLED_TRAIT in root.traits or host in cloud.disabled:
        return False
    parts = [
        (suffix, group, resources)
        for suffix, group in request.groups.items()
        for resources in (
            [group.resources]
            if suffix
            else [{name: amount} for name, amount in group.resources.items()]
        )
    ]
    usable = [
        [
            provider
            for provider in find_usable_providers(cloud, root)
            if _can_provider_serve_group(cloud, request, provider, root, suffix, group)
        ]
        for suffix, group, _ in parts
    ]
    return any(
        _can_providers_serve_request(cloud, request, parts, chosen) for chosen in product(*usable)
    )


def find_usable_providers(cloud: Cloud, root: Provider) -> list[Provider]:
    tree = cloud.list_tree(root)
    joined = frozenset().union(*(provider.aggregates for provider in tree))
    pools = [
        provider
        for provider in cloud.providers.values()
        if SHARING_TRAIT in provider.traits and provider.aggregates & joined
    ]
    return [*tree, *pools]


def _can_provider_serve_group(
    cloud: Cloud,
    request: CloudRequest,
    provider: Provider,
    root: Provider,
    suffix: str,
    group: RequestGroup,
) -> bool:
    if provider.traits & group.forbidden or (suffix and not group.required <= provider.traits):
        return False
    if suffix:  # request filters constrain the group without a suffix
        return True
    is_pool = SHARING_TRAIT in provider.traits
    own = provider.aggregates
    spanning = own | root.aggregates
    aggregates = cloud.aggregates.values()
    zones = {aggregate.uuid for aggregate in aggregates if aggregate.zone == request.zone}
    if request.zone and not (own if is_pool else spanning) & zones:
        return False
    required = frozenset().union(*(part.required for part in request.groups.values()))
    reserved = {aggregate.uuid for aggregate in aggregates if not aggregate.required <= required}
    return not spanning & reserved


def _can_providers_serve_request(
    cloud: Cloud,
    request: CloudRequest,
    parts: list[tuple[str, RequestGroup, ResourceAmounts]],
    chosen: tuple[Provider, ...],
) -> bool:
    unsuffixed = request.groups.get("")
    contributing = [
        provider.traits
        for (suffix, _, _), provider in zip(parts, chosen, strict=True)
        if not suffix
    ]
    if unsuffixed and not unsuffixed.required <= frozenset().union(*contributing):
        return False
    suffixed = [
        provider.uuid for (suffix, _, _), provider in zip(parts, chosen, strict=True) if suffix
    ]
    if request.isolate and len(set(suffixed)) < len(suffixed):
        return False
    return all(
        name in cloud.providers[uuid].inventories
        and cloud.providers[uuid]
        .inventories[name]
        .can_allocate(cloud.sum_used_amounts(uuid, name), amount)
        for uuid, amounts in _sum_chosen_allocations(parts, chosen).items()
        for name, amount in amounts.items()
    )


def _sum_chosen_allocations(
    parts: list[tuple[str, RequestGroup, ResourceAmounts]], chosen: tuple[Provider, ...]
) -> dict[str, ResourceAmounts]:
    allocations: dict[str, Counter[str]] = {}
    for (_, _, resources), provider in zip(parts, chosen, strict=True):
        allocations.setdefault(provider.uuid, Counter()).update(resources)
    return {uuid: dict(amounts) for uuid, amounts in allocations.items()}
