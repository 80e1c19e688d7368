# SPDX-License-Identifier: Apache-2.0
"""Creation, reading, changes and removal of a cloud through the HTTP APIs."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from tests.checker.cloud import (
    FAST_TRAIT,
    FORBIDDEN_TRAIT,
    LICENSED_TRAIT,
    Aggregate,
    Cloud,
    HostReport,
    Inventory,
    Provider,
)

#: Sends a method, path, headers and body. Returns the status and the body.
RequestSender = Callable[[str, str, dict[str, str], bytes], tuple[int, bytes]]

_REQUEST_HEADERS = {
    "Content-Type": "application/json",
    "X-Auth-Token": "admin",
    "OpenStack-API-Version": "placement 1.39, compute 2.96",
}
_PROVIDERS_PATH = "/placement/resource_providers"
_AGGREGATES_PATH = "/compute/v2.1/os-aggregates"
_CONSUMER_OWNER = {"project_id": "checker", "user_id": "checker", "consumer_type": "INSTANCE"}


class UnexpectedStatusError(Exception):
    """The API answered with an unexpected status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Api:
    """The HTTP APIs of a service."""

    send: RequestSender

    def send_json(self, method: str, path: str, body: Any = None) -> Any:
        content = b"" if body is None else json.dumps(body).encode()
        status, response = self.send(method, path, _REQUEST_HEADERS, content)
        if status >= 300:
            message = f"{method} {path} {body}: {status} {response.decode()}"
            raise UnexpectedStatusError(status, message)
        return json.loads(response) if response else None

    # Create, read, remove

    def create_cloud(self, cloud: Cloud) -> None:
        for name in (FAST_TRAIT, FORBIDDEN_TRAIT, LICENSED_TRAIT):
            self.send_json("PUT", f"/placement/traits/{name}")
        for name, root in cloud.hosts.items():
            node = {"host": name, "hypervisor_hostname": name, "inventories": False}
            report = asdict(cloud.reports[name])
            stats = {key: report.pop(key) for key in ("num_instances", "io_workload")}
            ratio = report.pop("allocation_ratio")
            ratios = {f"{key}_allocation_ratio": ratio for key in ("cpu", "ram", "disk")}
            size = {**report, **ratios, "stats": stats}
            last = {"last_seen_up": "2099-01-01T00:00:00Z"}
            self.send_json(
                "PUT", f"/scheduler/v1/compute_nodes/{root.uuid}", {**node, **size, **last}
            )
        for provider in sorted(
            cloud.providers.values(), key=lambda provider: provider.parent or ""
        ):
            body = {"name": provider.name, "uuid": provider.uuid}
            body |= {"parent_provider_uuid": provider.parent} if provider.parent else {}
            self.send_json("POST", _PROVIDERS_PATH, body)
        aggregates = cloud.aggregates.values()
        uuids = {aggregate.uuid: self._create_aggregate(aggregate) for aggregate in aggregates}
        for provider in cloud.providers.values():
            self.set_inventories(provider.uuid, provider.inventories)
            self.set_traits(provider.uuid, provider.traits - {"COMPUTE_STATUS_DISABLED"})
            joined = frozenset(uuids.get(uuid, uuid) for uuid in provider.aggregates)
            self.set_aggregates(provider.uuid, joined)
        for name in cloud.disabled:
            self.set_service_status(name, enabled=False)
        for consumer, held in cloud.allocations.items():
            self.set_allocations(consumer, held)

    def _create_aggregate(self, aggregate: Aggregate) -> str:
        body = {"name": aggregate.name, "availability_zone": aggregate.zone}
        created = self.send_json("POST", _AGGREGATES_PATH, {"aggregate": body})["aggregate"]
        metadata = {f"trait:{name}": "required" for name in aggregate.required}
        if metadata:
            action = {"set_metadata": {"metadata": metadata}}
            self.send_json("POST", f"{_AGGREGATES_PATH}/{created['id']}/action", action)
        for host in aggregate.hosts:
            self.send_json(
                "POST", f"{_AGGREGATES_PATH}/{created['id']}/action", {"add_host": {"host": host}}
            )
        return str(created["uuid"])

    def read_cloud(self, consumers: frozenset[str]) -> Cloud:
        rows = self.send_json("GET", _PROVIDERS_PATH)["resource_providers"]
        providers = {row["uuid"]: self._read_provider(row) for row in rows}
        aggregates = {
            row["uuid"]: Aggregate(
                row["uuid"],
                row["name"],
                row["availability_zone"],
                frozenset(
                    key.removeprefix("trait:")
                    for key, value in row["metadata"].items()
                    if key.startswith("trait:") and value == "required"
                ),
                frozenset(row["hosts"]),
            )
            for row in self.send_json("GET", _AGGREGATES_PATH)["aggregates"]
        }
        services = self.send_json("GET", "/compute/v2.1/os-services")["services"]
        disabled = frozenset(row["host"] for row in services if row["status"] == "disabled")
        allocations = {consumer: self.read_allocations(consumer) for consumer in sorted(consumers)}
        nodes = self.send_json("GET", "/scheduler/v1/compute_nodes")["compute_nodes"]
        reports = {row["host"]: _read_report(row) for row in nodes}
        return Cloud(providers, aggregates, disabled, allocations, reports)

    def _read_provider(self, row: dict[str, Any]) -> Provider:
        path = f"{_PROVIDERS_PATH}/{row['uuid']}"
        inventories = self.send_json("GET", f"{path}/inventories")["inventories"]
        return Provider(
            row["uuid"],
            row["name"],
            row["parent_provider_uuid"],
            {name: Inventory(**fields) for name, fields in inventories.items()},
            frozenset(self.send_json("GET", f"{path}/traits")["traits"]),
            frozenset(self.send_json("GET", f"{path}/aggregates")["aggregates"]),
        )

    def read_allocations(self, consumer: str) -> dict[str, dict[str, int]]:
        held = self.send_json("GET", f"/placement/allocations/{consumer}")["allocations"]
        return {uuid: allocation["resources"] for uuid, allocation in held.items()}

    def remove_cloud(self, consumers: frozenset[str]) -> None:
        for consumer in consumers:
            self.set_allocations(consumer, {})
        for row in self.send_json("GET", _AGGREGATES_PATH)["aggregates"]:
            for host in row["hosts"]:
                action = {"remove_host": {"host": host}}
                self.send_json("POST", f"{_AGGREGATES_PATH}/{row['id']}/action", action)
            self.send_json("DELETE", f"{_AGGREGATES_PATH}/{row['id']}")
        for service in self.send_json("GET", "/compute/v2.1/os-services")["services"]:
            self.send_json("DELETE", f"/compute/v2.1/os-services/{service['id']}")
        rows = self.send_json("GET", _PROVIDERS_PATH)["resource_providers"]
        for row in sorted(rows, key=lambda row: row["parent_provider_uuid"] is None):
            self.send_json("DELETE", f"{_PROVIDERS_PATH}/{row['uuid']}")

    def restore_cloud(self, now: Cloud, before: Cloud) -> None:
        for name in now.disabled ^ before.disabled:
            self.set_service_status(name, enabled=name not in before.disabled)
        for aggregate in before.aggregates.values():
            for host in sorted(now.aggregates[aggregate.uuid].hosts ^ aggregate.hosts):
                self.set_aggregate_membership(
                    aggregate.uuid, host, is_member=host in aggregate.hosts
                )
        for consumer in now.allocations:
            if now.allocations[consumer] != before.allocations.get(consumer, {}):
                self.set_allocations(consumer, before.allocations.get(consumer, {}))
        for uuid, provider in before.providers.items():
            current = now.providers[uuid]
            if current.inventories != provider.inventories:
                self.set_inventories(uuid, provider.inventories)
            if current.traits != provider.traits:
                self.set_traits(uuid, provider.traits)
            if current.aggregates != provider.aggregates:
                self.set_aggregates(uuid, provider.aggregates)

    # Changes

    def set_inventories(self, uuid: str, inventories: dict[str, Inventory]) -> None:
        rows = {name: asdict(inventory) for name, inventory in inventories.items()}
        self._put_provider_field(uuid, "inventories", rows)

    def set_traits(self, uuid: str, traits: frozenset[str]) -> None:
        self._put_provider_field(uuid, "traits", sorted(traits))

    def set_aggregates(self, uuid: str, aggregates: frozenset[str]) -> None:
        self._put_provider_field(uuid, "aggregates", sorted(aggregates))

    def _put_provider_field(self, uuid: str, field: str, value: object) -> None:
        path = f"{_PROVIDERS_PATH}/{uuid}"
        generation = self.send_json("GET", path)["generation"]
        body = {field: value, "resource_provider_generation": generation}
        self.send_json("PUT", f"{path}/{field}", body)

    def set_allocations(self, consumer: str, held: dict[str, dict[str, int]]) -> None:
        path = f"/placement/allocations/{consumer}"
        current = self.send_json("GET", path)
        body = {
            "allocations": {uuid: {"resources": amounts} for uuid, amounts in held.items()},
            "consumer_generation": current.get("consumer_generation"),
        }
        if held or current["allocations"]:
            self.send_json("PUT", path, {**body, **_CONSUMER_OWNER})

    def set_service_status(self, host: str, *, enabled: bool) -> None:
        services = self.send_json("GET", f"/compute/v2.1/os-services?host={host}")["services"]
        status = {"status": "enabled" if enabled else "disabled"}
        self.send_json("PUT", f"/compute/v2.1/os-services/{services[0]['id']}", status)

    def set_aggregate_membership(self, aggregate: str, host: str, *, is_member: bool) -> None:
        rows = self.send_json("GET", _AGGREGATES_PATH)["aggregates"]
        number = next(row["id"] for row in rows if row["uuid"] == aggregate)
        action = {"add_host" if is_member else "remove_host": {"host": host}}
        self.send_json("POST", f"{_AGGREGATES_PATH}/{number}/action", action)


def _read_report(row: dict[str, Any]) -> HostReport:
    names = ("vcpus", "memory_mb", "local_gb")
    amounts = {key: row[key] for name in names for key in (name, f"{name}_used")}
    counts = {key: int(row["stats"][key]) for key in ("num_instances", "io_workload")}
    return HostReport(**amounts, **counts, allocation_ratio=row["cpu_allocation_ratio"])
