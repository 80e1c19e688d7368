# SPDX-License-Identifier: Apache-2.0
"""Client of nova's compute API, for migrations, evacuations and services.

The client never forces the target of an instance, so that nova's scheduler always checks it.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from keystoneauth1.adapter import Adapter

from placement_sched.clients.session import RemoteService
from placement_sched.errors import ServiceFailed

#: The microversion of requests, and its release. ``block_migration`` may be auto since 2.25, the
#: scheduler checks the target of evacuations since 2.29 and of live migrations since 2.30,
#: services have uuids since 2.53, and cold migrations have a target since 2.56 ("Microversion
#: history" of the reference).
VERSION = ("2.56", "Queens")
#: Since this microversion evacuated instances arrive stopped, unless their state was error.
STOPPING_VERSION = ("2.95", "2023.1 Antelope")
#: The microversion that added file shares.
_SHARES_VERSION = ("2.97", "2025.1 Epoxy")

#: Statuses of a rejected request. The response has a sentence for the caller.
_REJECTED = (400, 403, 404, 409)
_BINARY = "nova-compute"


@dataclass(frozen=True, slots=True)
class NovaServer:
    """An instance as nova shows it: host, status, vm state and current task.

    ``fault`` is the message of an instance in ERROR. A locked instance moves all the same, because
    a lock binds only users who are not administrators.
    """

    uuid: str
    host: str | None
    status: str
    vm_state: str | None = None
    task_state: str | None = None
    is_locked: bool = False
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class ComputeService:
    """The nova-compute service of a host."""

    uuid: str
    host: str
    is_disabled: bool
    disabled_reason: str | None = None
    is_up: bool = True


class Nova:
    """Client of nova, with the rights of an administrator.

    ``version`` is the microversion of its requests and the release that added it.

    Every method raises :class:`~placement_sched.errors.ServiceFailed` if nova does not answer
    according to its API. No request is repeated, because nova could start a migration twice.
    """

    def __init__(
        self, adapter: Adapter, timeout: float | None = None, version: tuple[str, str] = VERSION
    ) -> None:
        adapter.connect_retries = adapter.status_code_retries = 0
        self._adapter, self._timeout = adapter, timeout
        self._service = RemoteService(adapter, "compute", timeout, version=version)
        #: URL of the compute API.
        self.url = self._service.url

    def with_version(self, version: tuple[str, str]) -> "Nova":
        """Return this client with another microversion."""
        return Nova(self._adapter, self._timeout, version)

    def find_server(self, uuid: str) -> NovaServer | None:
        """Return an instance, or None if nova has no such instance."""
        path = f"/servers/{quote(uuid, safe='')}"
        response = self._service.get_json("GET", path, accepted_statuses=(200, 404))
        if response.status == 404 and isinstance(response.document, dict):
            return None
        with self._service.translate_shape_errors(path):
            return _read_server(response.document["server"])

    def list_servers_on(self, host: str) -> list[NovaServer]:
        """Return instances on a host, of all projects: nova's first page."""
        path = "/servers/detail"
        servers = self._service.read_list(path, "servers", _read_server, all_tenants=1, host=host)
        return [server for server in servers if server.host == host]

    def live_migrate(self, uuid: str, host: str) -> str | None:
        """Start a live migration, and return why nova rejects it, or None."""
        body = {"host": host, "block_migration": "auto"}
        return self._act(uuid, {"os-migrateLive": body}, 202)

    def cold_migrate(self, uuid: str, host: str) -> str | None:
        """Start a cold migration, and return why nova rejects it, or None."""
        return self._act(uuid, {"migrate": {"host": host}}, 202)

    def confirm(self, uuid: str) -> str | None:
        """Confirm a cold migration, and return why nova rejects it, or None."""
        return self._act(uuid, {"confirmResize": None}, 204)

    def evacuate(self, uuid: str, host: str) -> str | None:
        """Start an evacuation, and return why nova rejects it, or None."""
        return self._act(uuid, {"evacuate": {"host": host}}, 200)

    def list_with_shares(self, uuids: Iterable[str]) -> list[str]:
        """Return the instances with file shares, none if nova shows no shares."""
        service = RemoteService(self._adapter, "compute", self._timeout, version=_SHARES_VERSION)
        paths = {uuid: f"/servers/{quote(uuid, safe='')}/shares" for uuid in uuids}
        with suppress(ServiceFailed):
            return [uuid for uuid, path in paths.items() if service.read_list(path, "shares", dict)]
        return []

    def find_migration_status(self, uuid: str, kind: str | None = None) -> str | None:
        """Return the status of the newest migration (None: no migration).

        ``kind`` is the type of the migration, by default any type.
        """
        path = "/os-migrations"
        response = self._service.get_json("GET", path, params={"instance_uuid": uuid})
        with self._service.translate_shape_errors(path):
            rows = [
                row
                for row in response.document["migrations"]
                if kind is None or row["migration_type"] == kind
            ]
            newest = max(rows, key=lambda row: row["id"], default=None)
            return None if newest is None else str(newest["status"])

    def find_compute_service(self, host: str) -> ComputeService | None:
        """Return the compute service of a host, or None if the host has none.

        nova ignores an empty host, and its database may ignore case: only the exact name counts.
        """
        services = self.list_compute_services(host=host)
        return next((service for service in services if service.host == host), None)

    def list_compute_services(self, **filters: str) -> list[ComputeService]:
        """Return the compute services that match query parameters of nova."""
        params = {"binary": _BINARY, **filters}
        return self._service.read_list("/os-services", "services", _read_service, **params)

    def disable(self, service: ComputeService, reason: str) -> None:
        """Disable a compute service."""
        self._change(service, {"status": "disabled", "disabled_reason": reason})

    def enable(self, service: ComputeService) -> None:
        """Enable a compute service."""
        self._change(service, {"status": "enabled"})

    def _change(self, service: ComputeService, body: Mapping[str, str]) -> None:
        path = f"/os-services/{quote(service.uuid, safe='')}"
        self._service.get_json("PUT", path, body=body)

    def _act(self, uuid: str, body: Mapping[str, Any], success: int) -> str | None:
        path = f"/servers/{quote(uuid, safe='')}/action"
        statuses = (success, *_REJECTED)
        response = self._service.get_json("POST", path, body=body, accepted_statuses=statuses)
        return None if response.status == success else f"nova answered {response.text}"


def _read_server(server: Mapping[str, Any]) -> NovaServer:
    fault = server.get("fault") or {}
    return NovaServer(
        uuid=str(server["id"]),
        # Only an administrator sees the host.
        host=server["OS-EXT-SRV-ATTR:host"],
        status=str(server["status"]),
        vm_state=server["OS-EXT-STS:vm_state"],
        task_state=server["OS-EXT-STS:task_state"],
        is_locked=bool(server["locked"]),
        fault=fault.get("message"),
    )


def _read_service(service: Mapping[str, Any]) -> ComputeService:
    return ComputeService(
        uuid=str(service["id"]),
        host=str(service["host"]),
        is_disabled=service["status"] == "disabled",
        disabled_reason=service.get("disabled_reason"),
        is_up=service["state"] == "up",
    )
