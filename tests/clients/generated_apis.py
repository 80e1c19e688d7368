# SPDX-License-Identifier: Apache-2.0
"""APIs of a generated cloud, without a network."""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

from placement_sched.clients.api_reader import ApiReader, CallPool
from tests.clients.in_process import FunctionTransport, build_adapter

BASES = {"placement": "/placement", "compute": "/compute/v2.1", "image": "/image/v2"}
GB = 1024


def build_uuid(kind: int, number: int) -> str:
    return str(UUID(int=(kind << 96) + number))


#: A response: status, document (or text), headers.
Reply = tuple[int, Any, Mapping[str, str]]


@dataclass
class GeneratedCloud:
    """A cloud of hosts with children, whose servers are spread over the hosts.

    ``faults`` maps paths to functions that get the number of earlier calls of the path and return
    a reply, or None for the right reply. The newest microversions can be set.
    """

    hosts: int = 3
    children: int = 0
    servers: int = 6
    traits: int = 5
    aggregates: int = 2
    newest: dict[str, str] = field(
        default_factory=lambda: {"placement": "1.39", "compute": "2.100"}
    )
    faults: dict[str, Callable[[int], Reply | None]] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    server_changes: dict[int, dict[str, Any]] = field(default_factory=dict)
    extra_consumers: dict[str, dict[str, Any]] = field(default_factory=dict)
    generations: dict[str, int] = field(default_factory=dict)
    migrations: list[dict[str, Any]] = field(default_factory=list)
    hidden_servers: dict[str, dict[str, Any]] = field(default_factory=dict)
    max_limit: int = 1000

    def open_readers(self, pool: CallPool) -> tuple[ApiReader, ApiReader, ApiReader]:
        transport = FunctionTransport(self.answer)
        placement, compute, image = (
            ApiReader(build_adapter(transport, f"http://cloud{path}"), kind, pool)
            for kind, path in BASES.items()
        )
        return placement, compute, image

    def answer(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        url = urlsplit(request["target"])
        version = dict(request["headers"]).get("OpenStack-API-Version", "")
        assert request["method"] == "GET"
        fault = self.faults.get(url.path)
        reply = fault(sum(path == url.path for path in self.paths)) if fault else None
        self.paths.append(url.path)
        self.versions[url.path] = version
        query = {key: values[-1] for key, values in parse_qs(url.query).items()}
        status, document, headers = reply or (*self._route(url.path, query), {})
        text = document if isinstance(document, str) else json.dumps(document)
        return {
            "status": status,
            "headers": [["OpenStack-API-Version", version], *headers.items()],
            "body": base64.b64encode(text.encode()).decode(),
        }

    def _route(self, path: str, query: Mapping[str, str]) -> tuple[int, Any]:
        kind, base = next((k, b) for k, b in BASES.items() if path.startswith(b))
        path = path.removeprefix(base)
        if path in {"", "/"}:
            return 200, self._describe_version(kind)
        parts = path.strip("/").split("/")
        name = f"_get_{kind}_{parts[0].replace('-', '_')}"
        document = getattr(self, name)(parts[1:], query)
        return (404, {"itemNotFound": {"message": "none"}}) if document is None else (200, document)

    def _describe_version(self, kind: str) -> Any:
        link = [{"rel": "self", "href": f"http://cloud{BASES[kind]}"}]
        oldest = "1.0" if kind == "placement" else "2.1"
        version = {"status": "CURRENT", "min_version": oldest, "links": link}
        if kind == "placement":
            newest = {"id": "v1.0", "max_version": self.newest[kind]}
            return {"versions": [{**version, **newest}]}
        return {"version": {**version, "id": "v2.1", "version": self.newest[kind]}}

    # Placement.

    def list_providers(self) -> list[dict[str, Any]]:
        rows = []
        for host in range(self.hosts):
            root = build_uuid(1, host)
            names = [(root, f"cn{host}", None)]
            names += [
                (build_uuid(2, host * 100 + child), f"cn{host}_{child}", root)
                for child in range(self.children)
            ]
            rows += [
                {
                    "uuid": uuid,
                    "name": name,
                    "parent_provider_uuid": parent,
                    "root_provider_uuid": root,
                    "generation": self.generations.get(uuid, 1),
                }
                for uuid, name, parent in names
            ]
        return rows

    def _get_placement_resource_providers(self, parts: list[str], query: Any) -> Any:
        rows = self.list_providers()
        if not parts:
            if "required" in query:
                number = int(query["required"].rpartition("_")[2])
                rows = [row for index, row in enumerate(rows) if index % (number + 1) == 0]
            if "member_of" in query:
                rows = [row for row in rows if row["parent_provider_uuid"] is None][::2]
            return {"resource_providers": rows}
        uuid, part = parts
        row = next((row for row in rows if row["uuid"] == uuid), None)
        if row is None:
            return None
        generation = {"resource_provider_generation": row["generation"]}
        return {**generation, part: getattr(self, f"_read_{part}")(row)}

    def _read_inventories(self, row: Any) -> Any:
        sizes = {"CUSTOM_CHILD": 8}
        if row["parent_provider_uuid"] is None:
            sizes = {"VCPU": 64, "MEMORY_MB": 256 * GB, "DISK_GB": 1000}
        return {
            name: {
                "total": total, "reserved": 0, "min_unit": 1, "max_unit": total, "step_size": 1,
                "allocation_ratio": 4.0 if name == "VCPU" else 1.0,
            }
            for name, total in sizes.items()
        }  # fmt: skip

    def _read_allocations(self, row: Any) -> Any:
        if row["parent_provider_uuid"] is not None:
            return {}
        rows = {
            uuid: {"resources": consumer["allocations"][row["uuid"]]["resources"]}
            for uuid, consumer in self.extra_consumers.items()
            if row["uuid"] in consumer["allocations"]
        }
        host = int(row["name"].removeprefix("cn"))
        return rows | {
            build_uuid(3, number): {"resources": {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1}}
            for number in range(host, self.servers, self.hosts)
        }

    def _read_traits(self, row: Any) -> Any:
        index = [each["uuid"] for each in self.list_providers()].index(row["uuid"])
        return [f"CUSTOM_T_{number}" for number in range(self.traits) if index % (number + 1) == 0]

    def _read_aggregates(self, row: Any) -> Any:
        host = int(row["name"].partition("_")[0].removeprefix("cn"))
        is_member = row["parent_provider_uuid"] is None and host % 2 == 0
        return [build_uuid(4, number) for number in range(self.aggregates)] if is_member else []

    def _get_placement_traits(self, _parts: Any, _query: Any) -> Any:
        return {"traits": [f"CUSTOM_T_{number}" for number in range(self.traits)]}

    def _get_placement_resource_classes(self, _parts: Any, _query: Any) -> Any:
        return {"resource_classes": [{"name": "VCPU"}, {"name": "CUSTOM_CHILD"}]}

    def _get_placement_allocations(self, parts: list[str], _query: Any) -> Any:
        if parts[0] in self.extra_consumers:
            return self.extra_consumers[parts[0]]
        number = UUID(parts[0]).int & (2**96 - 1)
        if parts[0] != build_uuid(3, number) or number >= self.servers:
            return {"allocations": {}}
        resources = {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1}
        root = build_uuid(1, number % self.hosts)
        return {
            "allocations": {root: {"resources": resources}}, "project_id": "p", "user_id": "u",
            "consumer_type": "INSTANCE",
        }  # fmt: skip

    # Nova.

    def build_server(self, number: int) -> dict[str, Any]:
        host = f"cn{number % self.hosts}"
        minor = int(self.newest["compute"].partition(".")[2])
        flavor = {"original_name": "tiny", "vcpus": 1, "ram": 512, "disk": 1, "ephemeral": 0}
        image = {"id": build_uuid(5, 0)}
        if minor >= 98:
            image["properties"] = {"hw_disk_bus": "virtio"}
        return {
            "id": build_uuid(3, number), "name": f"s{number}", "tenant_id": "p", "user_id": "u",
            "OS-EXT-SRV-ATTR:host": host, "OS-EXT-SRV-ATTR:hypervisor_hostname": host,
            "OS-EXT-STS:vm_state": "active", "OS-EXT-STS:task_state": None, "metadata": {},
            "flavor": {**flavor, "swap": 0, "extra_specs": {}}, "image": image,
            "updated": "2026-01-01T00:00:00Z",
            **({"pinned_availability_zone": "az1"} if minor >= 96 else {}),
            **({"scheduler_hints": {"key": ["value"]}} if minor >= 100 else {}),
            **self.server_changes.get(number, {}),
        }  # fmt: skip

    def _get_compute_servers(self, parts: list[str], query: Any) -> Any:
        if parts != ["detail"]:
            server = self.hidden_servers.get(parts[0])
            return server and {"server": server}
        numbers = range(self.servers)
        if "changes-since" in query:
            numbers = sorted(self.server_changes)
        return self._page("servers", [self.build_server(number) for number in numbers], query)

    def _page(self, key: str, items: list[Any], query: Any, marker: str = "id") -> Any:
        ids = [item[marker] for item in items]
        start = ids.index(query["marker"]) + 1 if "marker" in query else 0
        start = int(query.get("offset", start))
        end = start + min(int(query.get("limit", self.max_limit)), self.max_limit)
        page = items[start:end]
        has_next = len(page) == end - start and key != "server_groups"
        return {key: page, **({f"{key}_links": [{"rel": "next", "href": "x"}]} if has_next else {})}

    def _get_compute_os_hypervisors(self, _parts: Any, query: Any) -> Any:
        rows = [
            {
                "id": build_uuid(1, host), "hypervisor_hostname": f"cn{host}", "host_ip": None,
                "hypervisor_type": "QEMU", "hypervisor_version": 1, "cpu_info": {"arch": "x86_64"},
                "vcpus": 64, "memory_mb": 256 * GB, "local_gb": 1000, "vcpus_used": 0,
                "memory_mb_used": 0, "local_gb_used": 0, "free_ram_mb": 256 * GB,
                "free_disk_gb": 1000, "disk_available_least": None, "running_vms": 2,
                "current_workload": 0, "service": {"id": build_uuid(6, host), "host": f"cn{host}"},
            }
            for host in range(self.hosts)
        ]  # fmt: skip
        return self._page("hypervisors", rows, query)

    def _get_compute_os_services(self, _parts: Any, _query: Any) -> Any:
        return {
            "services": [
                {
                    "id": build_uuid(6, host), "host": f"cn{host}", "binary": "nova-compute",
                    "status": "enabled", "disabled_reason": None, "forced_down": False,
                    "state": "up", "updated_at": "2026-01-01T00:00:00.000000",
                }
                for host in range(self.hosts)
            ]
        }  # fmt: skip

    def _get_compute_os_aggregates(self, _parts: Any, _query: Any) -> Any:
        hosts = [f"cn{host}" for host in range(0, self.hosts, 2)]
        return {
            "aggregates": [
                {"uuid": build_uuid(4, n), "name": f"agg{n}", "hosts": hosts, "metadata": {}}
                for n in range(self.aggregates)
            ]
        }

    def _get_compute_os_server_groups(self, _parts: Any, query: Any) -> Any:
        group = {
            "id": build_uuid(7, 0), "name": "g", "policy": "anti-affinity", "project_id": "p",
            "rules": {"max_server_per_host": 2}, "user_id": "u", "members": [build_uuid(3, 0)],
        }  # fmt: skip
        return self._page("server_groups", [group], query)

    def _get_compute_os_migrations(self, _parts: Any, query: Any) -> Any:
        return self._page("migrations", self.migrations, query, "uuid")

    def _get_compute_flavors(self, parts: list[str], query: Any) -> Any:
        if parts[1:] == ["os-flavor-access"]:
            return {"flavor_access": [{"flavor_id": parts[0], "tenant_id": "p"}]}
        flavors = [
            {
                "id": str(number), "name": name, "vcpus": 1, "ram": 512, "disk": 1, "swap": 0,
                "OS-FLV-EXT-DATA:ephemeral": 0, "rxtx_factor": 1.0, "description": None,
                "os-flavor-access:is_public": number == 0, "extra_specs": {},
            }
            for number, name in enumerate(("tiny", "private"))
        ]  # fmt: skip
        return self._page("flavors", flavors, query)

    # Glance.

    def _get_image_images(self, _parts: Any, _query: Any) -> Any:
        image = {
            "id": build_uuid(5, 0), "name": "cirros", "status": "active", "visibility": "public",
            "tags": [], "min_ram": 0, "min_disk": 0, "owner": "p", "hw_disk_bus": "virtio",
            "disk_format": "qcow2", "container_format": "bare", "os_hash_algo": "sha512",
            "size": 1, "protected": False, "os_hidden": False, "stores": "a,b", "kernel_id": None,
        }  # fmt: skip
        return {"images": [image]}
