# SPDX-License-Identifier: Apache-2.0
"""Client of neutron's API for ports and the segments of routed networks."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from keystoneauth1.adapter import Adapter

from placement_sched.clients.session import RemoteService, ServiceResponse
from placement_sched.model.document import Json
from placement_sched.model.request_spec import NORMAL, Port

#: The version of the Networking API. The URL in the service catalogue may end with it.
_VERSION = "/v2.0"
#: The alias of neutron's extension for segments (Networking API, "Segments").
_SEGMENTS = "segment"
#: Maximum number of instances in the URL of a list of ports.
_MAX_DEVICES = 50


class Neutron:
    """Reader of neutron, whose methods raise :class:`ServiceFailed`."""

    def __init__(
        self, adapter: Adapter, *, cache_seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Set the adapter. Extensions are cached for ``cache_seconds`` seconds."""
        self._service = RemoteService(adapter, "network")
        self._cache_seconds = cache_seconds
        self._clock = clock
        self._extension_check: tuple[float, bool] | None = None

    def find_port(self, port_id: str) -> Port | None:
        """Return a port, or None if it does not exist."""
        path = f"/ports/{quote(port_id, safe='')}"
        port = self._show(path, "port")
        if port is None:
            return None
        with self._service.translate_shape_errors(path):
            return Port(
                network_id=str(port["network_id"]),
                vnic_type=str(port.get("binding:vnic_type") or NORMAL),
                subnet_ids=tuple(str(ip["subnet_id"]) for ip in port.get("fixed_ips") or ()),
            )

    def map_port_resources(self, instance_uuids: Sequence[str]) -> dict[str, list[Json]]:
        """Map instances to the request groups of their ports.

        The groups have the keys of ``requested_resources`` of a request spec. Source: Networking
        API, "Port resource request" and "Port resource request groups".
        """
        groups: dict[str, list[Json]] = {uuid: [] for uuid in instance_uuids}
        for start in range(0, len(instance_uuids), _MAX_DEVICES):
            devices = instance_uuids[start : start + _MAX_DEVICES]
            path = f"/ports?{'&'.join(f'device_id={quote(uuid)}' for uuid in devices)}"
            for port in self._list(path, "ports"):
                with self._service.translate_shape_errors(path):
                    request = port.get("resource_request") or {}
                    default = [{"id": port["id"], **request}] if "resources" in request else []
                    groups[port["device_id"]] += [
                        {
                            "requester_id": str(group["id"]),
                            "resources": dict(group["resources"]),
                            "required_traits": list(group.get("required") or ()),
                        }
                        for group in request.get("request_groups", default)
                    ]
        return groups

    def find_subnet_segments(self, subnet_id: str) -> tuple[str, ...] | None:
        """Return the segments of a subnet, or None for an unknown subnet."""
        if not self._has_segments():
            return ()
        path = f"/subnets/{quote(subnet_id, safe='')}"
        subnet = self._show(path, "subnet")
        return None if subnet is None else self._read_segments(path, [subnet])

    def list_network_segments(self, network_id: str) -> tuple[str, ...]:
        """Return the segments of all subnets of a network, if it is routed."""
        if not self._has_segments():
            return ()
        path = "/subnets"
        return self._read_segments(path, self._list(path, "subnets", network_id=network_id))

    def _has_segments(self) -> bool:
        now = self._clock()
        if self._extension_check is None or now - self._extension_check[0] >= self._cache_seconds:
            path = "/extensions"
            extensions = self._list(path, "extensions")
            with self._service.translate_shape_errors(path):
                aliases = {extension["alias"] for extension in extensions}
            self._extension_check = (now, _SEGMENTS in aliases)
        return self._extension_check[1]

    def _read_segments(self, path: str, subnets: list[Mapping[str, Any]]) -> tuple[str, ...]:
        with self._service.translate_shape_errors(path):
            segments = [str(subnet["segment_id"]) for subnet in subnets if subnet.get("segment_id")]
        return tuple(dict.fromkeys(segments))

    def _show(self, path: str, key: str) -> Mapping[str, Any] | None:
        response = self._get(path, {}, accepted_statuses=(200, 404))
        if response.status == 404:
            # Only neutron's own 404, not a proxy's, means that the resource does not exist.
            document = response.document
            if isinstance(document, dict) and "NeutronError" in document:
                return None
            raise self._service.build_failure(
                f"{self._service.url} answered {response.text} to GET {path}. Check that it is "
                "the address of neutron"
            )
        with self._service.translate_shape_errors(path):
            resource: Mapping[str, Any] = response.document[key]
            if not isinstance(resource, dict):
                raise TypeError
        return resource

    def _list(self, path: str, key: str, **params: str) -> list[Any]:
        items: list[Any] = []
        marker: dict[str, str] = {}
        while True:
            response = self._get(path, {**params, **marker})
            with self._service.translate_shape_errors(path):
                document = response.document
                page = list(document[key])
                items += page
                has_more = any(link["rel"] == "next" for link in document.get(f"{key}_links") or ())
                if not (has_more and page):
                    return items
                marker = {"marker": str(page[-1]["id"])}

    def _get(
        self, path: str, params: Mapping[str, str], *, accepted_statuses: Collection[int] = (200,)
    ) -> ServiceResponse:
        prefix = "" if self._service.url.endswith(_VERSION) else _VERSION
        return self._service.get_json(
            "GET", prefix + path, params=params, accepted_statuses=accepted_statuses
        )
