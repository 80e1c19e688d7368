"""Neutron asked over its API: ports, and the segments of routed networks."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from keystoneauth1.adapter import Adapter

from placement_sched.model.network_request import NORMAL, Port
from placement_sched.remote.service import Answer, Service

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
        self._service = Service(adapter, "network")
        self._remembered = remembered
        self._clock = clock
        self._segmented: tuple[float, bool] | None = None

    def port(self, port_id: str) -> Port | None:
        """Return a port, or None where there is none of this id."""
        path = f"/ports/{quote(port_id, safe='')}"
        found = self._shown(path, "port")
        if found is None:
            return None
        try:
            return Port(
                network_id=str(found["network_id"]),
                vnic_type=str(found.get("binding:vnic_type") or NORMAL),
                subnet_ids=tuple(str(ip["subnet_id"]) for ip in found.get("fixed_ips") or ()),
            )
        except (LookupError, TypeError):
            raise self._strange(path) from None

    def segments_of_subnet(self, subnet_id: str) -> tuple[str, ...] | None:
        """Return the segment that a subnet is on, if it is on one; None: there is no such subnet.

        As in nova no subnet is on one where neutron has not the segment extension.
        """
        if not self._knows_segments():
            return ()
        path = f"/subnets/{quote(subnet_id, safe='')}"
        found = self._shown(path, "subnet")
        return None if found is None else tuple(self._segments(path, [found]))

    def segments_of_network(self, network_id: str) -> tuple[str, ...]:
        """Return the segments that the subnets of a network are on.

        None are, where the network is not routed, is not there, or neutron has not the segment
        extension.
        """
        if not self._knows_segments():
            return ()
        path = "/subnets"
        found = self._list(path, "subnets", network_id=network_id)
        return tuple(dict.fromkeys(self._segments(path, found)))

    def _knows_segments(self) -> bool:
        """Return whether neutron has the segment extension, asked anew when that is long ago."""
        now = self._clock()
        if self._segmented is None or now - self._segmented[0] >= self._remembered:
            path = "/extensions"
            try:
                aliases = {one["alias"] for one in self._list(path, "extensions")}
            except (LookupError, TypeError):
                raise self._strange(path) from None
            self._segmented = (now, _SEGMENTS in aliases)
        return self._segmented[1]

    def _segments(self, path: str, subnets: list[Mapping[str, Any]]) -> Iterator[str]:
        try:
            yield from [str(one["segment_id"]) for one in subnets if one.get("segment_id")]
        except AttributeError:
            raise self._strange(path) from None

    def _shown(self, path: str, key: str) -> Mapping[str, Any] | None:
        """Return what is at a path; None where neutron itself, and no proxy, says: nothing."""
        answer = self._ask(path, {}, taken=(200, 404))
        if answer.status == 404:
            if isinstance(answer.document, dict) and "NeutronError" in answer.document:
                return None
            raise self._service.failed(
                f"{self._service.place} answered {answer.text} to GET {path}; is the address that "
                "of neutron?"
            )
        found = answer.document.get(key) if isinstance(answer.document, dict) else None
        if not isinstance(found, dict):
            raise self._strange(path)
        return found

    def _list(self, path: str, key: str, **params: str) -> list[Any]:
        """Return a list whole, page by page where neutron's operator limits pages."""
        found: list[Any] = []
        after: dict[str, str] = {}
        while True:
            document = self._ask(path, {**params, **after}).document
            try:
                page = list(document[key])
                found += page
                more = any(one["rel"] == "next" for one in document.get(f"{key}_links") or ())
                if not (more and page):
                    return found
                after = {"marker": str(page[-1]["id"])}
            except (LookupError, TypeError):
                raise self._strange(path) from None

    def _ask(
        self, path: str, params: Mapping[str, str], *, taken: Collection[int] = (200,)
    ) -> Answer:
        prefix = "" if self._service.place.endswith(_VERSION) else _VERSION
        return self._service.ask("GET", prefix + path, params=params, taken=taken)

    def _strange(self, path: str) -> Exception:
        return self._service.failed(
            f"{self._service.place} did not answer GET {path} as the networking API says"
        )
