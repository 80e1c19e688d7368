"""Neutron asked over its API: ports, and the segments of routed networks."""

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any
from urllib.parse import quote

from keystoneauth1.adapter import Adapter

from placement_sched.clients.session import RemoteService, ServiceResponse
from placement_sched.model.request_spec import NORMAL, Port

#: The only version of the Networking API; a catalogue's address may end with it or not.
_VERSION = "/v2.0"
#: The extension that puts subnets on segments (Networking API, "Segments").
_SEGMENTS = "segment"


class Neutron:
    """Reads what request filters need of ports, subnets and networks.

    Every method raises :class:`~placement_sched.errors.ServiceFailed` where neutron does not
    answer as its API says.
    """

    def __init__(
        self, adapter: Adapter, *, remembered: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Ask through ``adapter``; for ``remembered`` seconds extensions stay as they are."""
        self._service = RemoteService(adapter, "network")
        self._remembered = remembered
        self._clock = clock
        self._segmented: tuple[float, bool] | None = None

    def port(self, port_id: str) -> Port | None:
        """Return a port, or None where there is none of this id."""
        path = f"/ports/{quote(port_id, safe='')}"
        found = self._shown(path, "port")
        if found is None:
            return None
        with self._service.reading(path):
            return Port(
                network_id=str(found["network_id"]),
                vnic_type=str(found.get("binding:vnic_type") or NORMAL),
                subnet_ids=tuple(str(ip["subnet_id"]) for ip in found.get("fixed_ips") or ()),
            )

    def segments_of_subnet(self, subnet_id: str) -> tuple[str, ...] | None:
        """Return the segment that a subnet is on, if it is on one; None: there is no such subnet.

        As in nova no subnet is on one where neutron has not the segment extension.
        """
        if not self._knows_segments():
            return ()
        path = f"/subnets/{quote(subnet_id, safe='')}"
        found = self._shown(path, "subnet")
        return None if found is None else self._segments(path, [found])

    def segments_of_network(self, network_id: str) -> tuple[str, ...]:
        """Return the segments that the subnets of a network are on.

        None are, where the network is not routed, is not there, or neutron has not the segment
        extension.
        """
        if not self._knows_segments():
            return ()
        path = "/subnets"
        return self._segments(path, self._list(path, "subnets", network_id=network_id))

    def _knows_segments(self) -> bool:
        now = self._clock()
        if self._segmented is None or now - self._segmented[0] >= self._remembered:
            path = "/extensions"
            found = self._list(path, "extensions")
            with self._service.reading(path):
                aliases = {one["alias"] for one in found}
            self._segmented = (now, _SEGMENTS in aliases)
        return self._segmented[1]

    def _segments(self, path: str, subnets: list[Mapping[str, Any]]) -> tuple[str, ...]:
        with self._service.reading(path):
            found = [str(one["segment_id"]) for one in subnets if one.get("segment_id")]
        return tuple(dict.fromkeys(found))

    def _shown(self, path: str, key: str) -> Mapping[str, Any] | None:
        answer = self._ask(path, {}, taken=(200, 404))
        if answer.status == 404:
            # Only neutron itself, and no proxy, says that there is nothing.
            document = answer.document
            if isinstance(document, dict) and "NeutronError" in document:
                return None
            raise self._service.failed(
                f"{self._service.place} answered {answer.text} to GET {path}; is the address "
                "that of neutron?"
            )
        with self._service.reading(path):
            found: Mapping[str, Any] = answer.document[key]
            if not isinstance(found, dict):
                raise TypeError
        return found

    def _list(self, path: str, key: str, **params: str) -> list[Any]:
        found: list[Any] = []
        after: dict[str, str] = {}
        while True:
            answer = self._ask(path, {**params, **after})
            with self._service.reading(path):
                document = answer.document
                page = list(document[key])
                found += page
                more = any(one["rel"] == "next" for one in document.get(f"{key}_links") or ())
                if not (more and page):
                    return found
                after = {"marker": str(page[-1]["id"])}

    def _ask(
        self, path: str, params: Mapping[str, str], *, taken: Collection[int] = (200,)
    ) -> ServiceResponse:
        prefix = "" if self._service.place.endswith(_VERSION) else _VERSION
        return self._service.ask("GET", prefix + path, params=params, taken=taken)
