# SPDX-License-Identifier: Apache-2.0
"""Advice of ``explain``, carried out on the cloud or on the request."""

import math
import re
from dataclasses import dataclass, replace
from typing import Any

from tests.checker.api import Api
from tests.checker.cloud import Cloud, Inventory, Provider
from tests.checker.expected_hosts import find_usable_providers
from tests.checker.requests import CloudRequest


class UnknownActionError(Exception):
    """The checker cannot carry out an action."""


@dataclass(frozen=True)
class HostRejection:
    """A rejection of a host in ``explain``, and its stage."""

    host: str
    stage: str
    #: The stage's name, such as ``resources VGPU:1 (group 1)``.
    name: str
    changes: list[dict[str, Any]]

    @property
    def group_suffix(self) -> str:
        match = re.search(r" \(group (\S+)\)$", self.name)
        return match[1] if match else ""

    @property
    def detail(self) -> str:
        return re.sub(r" \(group \S+\)$", "", self.name).partition(" ")[2]

    @property
    def constraint(self) -> tuple[str, str]:
        return self.name.partition(" ")[0], self.detail.partition(":")[0]


def carry_out_advice(
    api: Api, cloud: Cloud, request: CloudRequest, rejection: HostRejection, change: dict[str, Any]
) -> CloudRequest:
    """Carry out a change and return the changed request.

    Raises UnknownAdviceError for an unsupported action, and UnexpectedStatusError if the API
    rejects the change.
    """
    action = change["action"]
    if action in ("change_request", "require_traits", "drop_constraint"):
        return build_changed_request(request, rejection.group_suffix, change)
    provider = _find_rejecting_provider(cloud, rejection, change)
    if action in ("free", "make_room"):
        _make_room_on_provider(api, cloud, provider, change)
    elif action in ("add_capacity", "set_inventory", "add_inventory"):
        _set_provider_inventory(api, provider, change)
    elif action == "add_trait":
        api.set_traits(provider.uuid, provider.traits | {*change["traits"]})
    elif action == "remove_trait":
        api.set_traits(provider.uuid, provider.traits - {*change["traits"]})
    elif action in ("join_aggregate", "leave_aggregate"):
        joins = action == "join_aggregate"
        for aggregate in change["aggregates"]:
            _set_aggregate_membership(api, cloud, provider, aggregate["uuid"], is_member=joins)
    elif action == "enable_service":
        api.set_service_status(rejection.host, enabled=True)
    else:
        raise UnknownActionError(action)
    return request


def build_changed_request(
    request: CloudRequest, suffix: str, change: dict[str, Any]
) -> CloudRequest:
    if change["action"] == "drop_constraint":
        return drop_constraint(request, suffix, change["constraint"], change["detail"])
    group = request.groups[suffix]
    if change["action"] == "change_request":
        amounts = {**group.resources, change["resource_class"]: change["amount"]}
        group = replace(group, resources=amounts)
    else:
        group = replace(group, required=group.required | {*change["traits"]})
    return replace(request, groups={**request.groups, suffix: group})


def drop_constraint(
    request: CloudRequest, suffix: str, constraint: str, detail: str
) -> CloudRequest:
    if constraint == "member_of" and detail.startswith("in:"):
        return replace(request, zone=None)
    if constraint == "group_policy":
        return replace(request, isolate=False)
    name, group = detail.partition(":")[0], request.groups[suffix]
    if constraint == "resources":
        resources = {key: amount for key, amount in group.resources.items() if key != name}
        group = replace(group, resources=resources)
    elif constraint == "required" and name.startswith("!"):
        group = replace(group, forbidden=group.forbidden - {name[1:]})
    elif constraint == "required":
        group = replace(group, required=group.required - {name})
    else:
        raise UnknownActionError(f"drop {constraint} {detail}")
    return replace(request, groups={**request.groups, suffix: group})


def _find_rejecting_provider(
    cloud: Cloud, rejection: HostRejection, change: dict[str, Any]
) -> Provider:
    """Return the provider that a change names, or else the root of the host."""
    root = cloud.hosts[rejection.host]
    by_name = {provider.name: provider for provider in find_usable_providers(cloud, root)}
    return by_name[change["provider"]] if "provider" in change else root


def _make_room_on_provider(
    api: Api, cloud: Cloud, provider: Provider, change: dict[str, Any]
) -> None:
    name, missing = change["resource_class"], change["amount"]
    for consumer, held in cloud.allocations.items():
        amounts = held.get(provider.uuid, {})
        freed = min(missing, amounts.get(name, 0))
        if freed:
            missing -= freed
            rest = {key: amount - (freed if key == name else 0) for key, amount in amounts.items()}
            rest = {key: amount for key, amount in rest.items() if amount}
            others = {uuid: amounts for uuid, amounts in held.items() if uuid != provider.uuid}
            api.set_allocations(consumer, {**others, provider.uuid: rest} if rest else others)
    _set_provider_inventory(api, provider, {**change, "amount": missing})


def _set_provider_inventory(api: Api, provider: Provider, change: dict[str, Any]) -> None:
    name = change["resource_class"]
    inventory = provider.inventories.get(name, Inventory(1))
    added = math.ceil(change.get("amount", 0) / inventory.allocation_ratio)
    fields = {
        key: change[key]
        for key in ("total", "min_unit", "max_unit", "step_size")
        if change.get(key) is not None
    }
    inventory = replace(inventory, **{"total": inventory.total + added, **fields})
    api.set_inventories(provider.uuid, {**provider.inventories, name: inventory})


def _set_aggregate_membership(
    api: Api, cloud: Cloud, provider: Provider, aggregate: str, *, is_member: bool
) -> None:
    if aggregate in cloud.aggregates and provider.name in cloud.hosts:
        api.set_aggregate_membership(aggregate, provider.name, is_member=is_member)
    else:
        joined = (
            provider.aggregates | {aggregate} if is_member else provider.aggregates - {aggregate}
        )
        api.set_aggregates(provider.uuid, joined)
