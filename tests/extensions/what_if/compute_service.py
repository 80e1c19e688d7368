# SPDX-License-Identifier: Apache-2.0
"""A compute API of our own, over HTTP: moves of servers, and services."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs

from keystoneauth1.adapter import Adapter
from keystoneauth1.noauth import NoAuth
from keystoneauth1.session import Session

from placement_sched.extensions.what_if.nova_api import Nova
from tests.support.loopback import serve_application

JsonObject = dict[str, Any]
_OK, _ACCEPTED, _NO_CONTENT = "200 OK", "202 Accepted", "204 No Content"
#: The vm state of each status of a server.
_VM_STATES = {
    "ACTIVE": "active",
    "ERROR": "error",
    "PAUSED": "paused",
    "RESCUE": "rescued",
    "SHELVED": "shelved",
    "SHUTOFF": "stopped",
    "SUSPENDED": "suspended",
    "VERIFY_RESIZE": "resized",
}
#: The statuses of servers that nova migrates, by action.
_MOVABLE = {
    "os-migrateLive": ("ACTIVE", "PAUSED"),
    "migrate": ("ACTIVE", "SHUTOFF"),
    "evacuate": ("ACTIVE", "SHUTOFF", "ERROR"),
}
_MIGRATION_TYPES = {
    "os-migrateLive": "live-migration",
    "migrate": "migration",
    "evacuate": "evacuation",
}
#: Since these microversions, as numbers after 2, evacuated servers arrive stopped and servers have
#: file shares.
_STOPPING, _WITH_SHARES = 95, 97
_BAD_REQUEST, _NOT_FOUND, _CONFLICT = "400 Bad Request", "404 Not Found", "409 Conflict"
_NOT_ACCEPTABLE = "406 Not Acceptable"


class FakeNova:
    """Compute API of executed plans, by its API reference.

    A server arrives at its target after ``polls`` requests that show it.
    """

    def __init__(self) -> None:
        self.url = ""
        #: Each request: method, path without query, and body.
        self.seen: list[tuple[str, str, Any]] = []
        self.servers: dict[str, JsonObject] = {}
        self.services: dict[str, JsonObject] = {}
        self.polls = 1
        #: Servers whose migrations fail after nova has accepted them.
        self.failing: set[str] = set()
        #: Servers whose migrations do not end until they are removed here.
        self.held: set[str] = set()
        #: Messages of rejected actions, by server.
        self.rejecting: dict[str, str] = {}
        #: Servers that get a fault during their migration, with its message.
        self.breaking: dict[str, str] = {}
        #: Called with server, source and target when a server has arrived.
        self.arrived: Callable[[str, str, str], None] = lambda *_: None
        #: Called with method and path of each request.
        self.watch: Callable[[str, str], None] = lambda *_: None
        #: Status and document of every response, if set.
        self.failure: tuple[str, Any] | None = None
        #: The microversion of every response, by default as requested.
        self.version: str | None = None
        #: The newest microversion, as a number after 2.
        self.newest = 100
        #: Servers with file shares.
        self.shared: set[str] = set()
        self.is_admin = True
        self.max_moving = 0
        self._moves: dict[str, list[Any]] = {}
        self._migrations: list[JsonObject] = []
        self._minor = 0
        self._lock = threading.Lock()

    def add_server(self, uuid: str, host: str, status: str = "ACTIVE") -> None:
        self.servers[uuid] = {
            "id": uuid,
            "status": status,
            "locked": False,
            "OS-EXT-SRV-ATTR:host": host,
            "OS-EXT-STS:task_state": None,
        }

    def add_service(self, host: str, *, reason: str | None = None) -> None:
        """Add the compute service of a host, disabled with ``reason``."""
        self.services[host] = {
            "id": f"service of {host}",
            "binary": "nova-compute",
            "host": host,
            "status": "enabled" if reason is None else "disabled",
            "disabled_reason": reason,
            "state": "up",
        }

    def force_down(self, host: str) -> None:
        self.services[host]["state"] = "down"

    def _show_server(self, uuid: str) -> JsonObject:
        server = self.servers[uuid]
        return {**server, "OS-EXT-STS:vm_state": _VM_STATES[server["status"]]}

    def host(self, uuid: str) -> str:
        return str(self.servers[uuid]["OS-EXT-SRV-ATTR:host"])

    def count_migrations(self, uuid: str | None = None) -> int:
        """Return the number of migrations that began, of a server or of all."""
        return sum(uuid in {None, each["instance_uuid"]} for each in self._migrations)

    def list_actions(self) -> list[tuple[str, str]]:
        """Return server and name of each action, in order."""
        return [
            (path.split("/")[2], next(iter(body)))
            for method, path, body in self.seen
            if method == "POST"
        ]

    def finish(self, uuid: str) -> None:
        """End the migration of a server, whether or not a request shows it."""
        self.held.discard(uuid)
        self._advance_migration(uuid, at_once=True)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        length = int(environ.get("CONTENT_LENGTH") or 0)
        body = json.loads(environ["wsgi.input"].read(length)) if length else None
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"].removeprefix("/v2.1")
        with self._lock:
            self.seen.append((method, path, body))
            self.watch(method, path)
            query = parse_qs(environ["QUERY_STRING"])
            version = environ["HTTP_OPENSTACK_API_VERSION"]
            self._minor = int(version.rpartition(".")[2])
            if self._minor > self.newest:
                status, document = _NOT_ACCEPTABLE, _build_error("computeFault", 406, "unknown")
            else:
                status, document = self.failure or self._build_response(method, path, query, body)
        content = b"" if document is None else json.dumps(document).encode()
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(content)))]
        start_response(status, [*headers, ("OpenStack-API-Version", self.version or version)])
        return [content]

    def _build_response(
        self, method: str, path: str, query: dict[str, list[str]], body: Any
    ) -> tuple[str, Any]:
        kind, _, rest = path.strip("/").partition("/")
        uuid, _, action = rest.partition("/")
        if kind == "os-migrations":
            instance = query["instance_uuid"][0]
            rows = [each for each in self._migrations if each["instance_uuid"] == instance]
            return _OK, {"migrations": rows}
        if kind == "os-services":
            if method == "PUT":
                service = next(each for each in self.services.values() if each["id"] == uuid)
                service.update({"disabled_reason": None, **body})
                return _OK, {"service": service}
            # nova ignores an empty host, and its database ignores case.
            (host,) = query.get("host", [""])
            rows = [each for each in self.services.values() if host.lower() in {"", each["host"]}]
            return _OK, {"services": rows}
        if uuid == "detail":
            assert query["all_tenants"] == ["1"]
            (host,) = query["host"]
            rows = [self._show_server(each) for each in self.servers if self.host(each) == host]
            return _OK, {"servers": rows}
        if uuid not in self.servers:
            return _NOT_FOUND, _build_error(
                "itemNotFound", 404, f"Instance {uuid} could not be found."
            )
        if action == "shares":
            assert self._minor >= _WITH_SHARES
            return _OK, {"shares": [{"share_id": "s1"}] if uuid in self.shared else []}
        if action:
            return self._perform_action(uuid, body)
        self._advance_migration(uuid)
        server = self._show_server(uuid)
        if not self.is_admin:
            del server["OS-EXT-SRV-ATTR:host"]
        return _OK, {"server": server}

    def _perform_action(self, uuid: str, body: JsonObject) -> tuple[str, Any]:
        ((name, details),) = body.items()
        server = self.servers[uuid]
        if message := self.rejecting.get(uuid):
            return _CONFLICT, _build_error("conflictingRequest", 409, message)
        if name == "confirmResize":
            if server["status"] != "VERIFY_RESIZE":
                return _CONFLICT, _build_error("conflictingRequest", 409, "not resized")
            server["status"] = server.pop("status before", "ACTIVE")
            return _NO_CONTENT, None
        is_evacuation = name == "evacuate"
        is_busy = server["OS-EXT-STS:task_state"] and not is_evacuation
        if is_busy or server["status"] not in _MOVABLE[name]:
            return _CONFLICT, _build_error("conflictingRequest", 409, f"Cannot {name!r} it now.")
        if is_evacuation and self.services[self.host(uuid)]["state"] == "up":
            message = f"Compute service of {self.host(uuid)} is still in use."
            return _BAD_REQUEST, _build_error("badRequest", 400, message)
        assert "force" not in details
        assert uuid not in self._moves
        server["OS-EXT-STS:task_state"] = "rebuilding" if is_evacuation else "migrating"
        self._migrations.append(
            {
                "id": len(self._migrations) + 1,
                "instance_uuid": uuid,
                "status": "accepted" if is_evacuation else "running",
                "migration_type": _MIGRATION_TYPES[name],
            }
        )
        if is_evacuation and self._minor >= _STOPPING and server["status"] == "ACTIVE":
            server["status at arrival"] = "SHUTOFF"
        self._moves[uuid] = [name, details["host"], self.polls]
        self.max_moving = max(self.max_moving, len(self._moves))
        return (_OK if is_evacuation else _ACCEPTED), None

    def _advance_migration(self, uuid: str, *, at_once: bool = False) -> None:
        """Bring a migration a poll nearer to its end."""
        if uuid not in self._moves or uuid in self.held:
            return
        name, target, remaining = self._moves[uuid]
        server, source = self.servers[uuid], self.host(uuid)
        newest = [each for each in self._migrations if each["instance_uuid"] == uuid][-1]
        if remaining and not at_once:
            self._moves[uuid][2] -= 1
            if name == "evacuate":
                # The task ends before the server has its new host.
                newest["status"], server["OS-EXT-STS:task_state"] = "pre-migrating", None
            return
        del self._moves[uuid]
        server["OS-EXT-STS:task_state"] = None
        if uuid in self.breaking:
            server.update({"status": "ERROR", "fault": {"message": self.breaking[uuid]}})
        if uuid in self.failing or uuid in self.breaking:
            newest["status"] = "error"
            return
        newest["status"] = "done" if name == "evacuate" else "completed"
        server["OS-EXT-SRV-ATTR:host"] = target
        if name == "evacuate":
            arrived = "ACTIVE" if server["status"] == "ERROR" else server["status"]
            server["status"] = server.pop("status at arrival", arrived)
        if name == "migrate":
            server["status before"] = server["status"]
            server["status"] = "VERIFY_RESIZE"
        self.arrived(uuid, source, target)


def _build_error(name: str, code: int, message: str) -> JsonObject:
    return {name: {"code": code, "message": message}}


@contextmanager
def run_nova() -> Iterator[FakeNova]:
    nova = FakeNova()
    with serve_application(nova) as url:
        nova.url = f"{url}/v2.1"
        yield nova


def build_nova_client(url: str) -> Nova:
    """Return the client of a nova, without a login."""
    return Nova(Adapter(Session(auth=NoAuth(), timeout=10), endpoint_override=url))
