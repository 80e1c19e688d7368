# SPDX-License-Identifier: Apache-2.0
"""A fake neutron: ports, subnets and extensions, over HTTP on the loopback address."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs

from keystoneauth1.adapter import Adapter
from keystoneauth1.noauth import NoAuth
from keystoneauth1.session import Session

from placement_sched.clients.neutron import Neutron
from tests.support.loopback import FakeService, run_fake_service

JsonObject = dict[str, Any]


#: An address without a service: port 1 is never handed out as a free port.
UNREACHABLE_URL = "http://127.0.0.1:1"


class FakeNeutron(FakeService):
    """Networking API v2.0, as far as request filters need it (its API reference)."""

    def __init__(self) -> None:
        super().__init__()
        #: Target of each request, without the version's prefix.
        self.seen: list[str] = []
        self.tokens: list[str | None] = []
        self.extensions = ["router", "segment"]
        self.page = 1000
        #: Called for each request.
        self.watch: Callable[[], None] = lambda: None
        self._ports: dict[str, JsonObject] = {}
        self._subnets: dict[str, JsonObject] = {}

    def add_subnet(self, subnet: str, network: str, segment: str | None = None) -> None:
        """Add a subnet of a network, on a segment if the network is routed."""
        self._subnets[subnet] = {"id": subnet, "network_id": network, "segment_id": segment}

    def add_port(self, port: str, network: str, *subnets: str, **fields: Any) -> None:
        """Add a port of a network, with a fixed IP of each of these subnets."""
        fixed_ips = [{"subnet_id": each, "ip_address": "192.0.2.1"} for each in subnets]
        self._ports[port] = {
            "id": port,
            "network_id": network,
            "fixed_ips": fixed_ips,
            "binding:vnic_type": "normal",
            **fields,
        }

    def respond(self, environ: dict[str, Any]) -> tuple[str, Any]:
        path, query = environ["PATH_INFO"].removeprefix("/v2.0"), environ["QUERY_STRING"]
        self.seen.append(path + (f"?{query}" if query else ""))
        self.tokens.append(environ.get("HTTP_X_AUTH_TOKEN"))
        self.watch()
        return self._build_response(path, parse_qs(query))

    def _build_response(self, path: str, query: dict[str, list[str]]) -> tuple[str, Any]:
        if path == "/extensions":
            return "200 OK", {"extensions": [{"alias": each} for each in self.extensions]}
        if path == "/subnets":
            return "200 OK", self._list_objects(query)
        if path == "/ports":
            devices = query["device_id"]
            ports = [port for port in self._ports.values() if port.get("device_id") in devices]
            return "200 OK", {"ports": ports}
        kind, _, name = path.strip("/").partition("/")
        resource = {"ports": self._ports, "subnets": self._subnets}.get(kind, {}).get(name)
        if resource is None:
            message = f"{kind[:-1].capitalize()} {name} could not be found."
            error = {"type": "NotFound", "message": message, "detail": ""}
            return "404 Not Found", {"NeutronError": error}
        return "200 OK", {kind[:-1]: resource}

    def _list_objects(self, query: dict[str, list[str]]) -> JsonObject:
        (network,) = query["network_id"]
        subnets = [each for each in self._subnets.values() if each["network_id"] == network]
        names = [subnet["id"] for subnet in subnets]
        start = names.index(query["marker"][0]) + 1 if "marker" in query else 0
        page = subnets[start : start + self.page]
        if start + self.page >= len(subnets):
            return {"subnets": page}
        return {"subnets": page, "subnets_links": [{"rel": "next", "href": "elsewhere"}]}


@contextmanager
def run_neutron() -> Iterator[FakeNeutron]:
    neutron = FakeNeutron()
    with run_fake_service(neutron):
        yield neutron


def build_neutron_client(
    url: str, *, clock: Callable[[], float] = lambda: 0.0, retries: int = 0, timeout: float = 10
) -> Neutron:
    """Return a client of the neutron at ``url``, without a login."""
    adapter = Adapter(
        Session(auth=NoAuth(), timeout=timeout),
        endpoint_override=url,
        connect_retries=retries,
        status_code_retries=retries,
    )
    return Neutron(adapter, cache_seconds=600, clock=clock)
