"""A network or port that an instance is to be attached to (nova's NetworkRequest names)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from placement_sched.model.allocation import canonical

#: What neutron takes a port's type for where nobody says (Networking API, "Port binding").
NORMAL = "normal"
#: The type of ports that are served by another processor, such as that of a SmartNIC.
REMOTE_MANAGED = "remote-managed"
#: What nova's API has in place of a network's id: let neutron choose, or attach to none.
_CHOOSING = frozenset({"auto", "none"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """What neutron tells of a port: its network, its type, and the subnets of its fixed IPs."""

    network_id: str
    vnic_type: str = NORMAL
    subnet_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkRequest:
    """A network, or a port that exists.

    The last three are facts that the caller may give, or neutron tells; None is not known.
    ``subnet_ids`` are those of the port's fixed IPs. ``segments`` are the ids of segments of a
    routed network, one of which a host must reach; a network that is not routed has none.
    """

    network_id: str | None = None
    address: str | None = None
    port_id: str | None = None
    pci_request_id: str | None = None
    tag: str | None = None
    arq_uuid: str | None = None
    device_profile: str | None = None
    vnic_type: str | None = None
    subnet_ids: tuple[str, ...] | None = None
    segments: tuple[str, ...] | None = None

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Return what an item of a request's ``requested_networks`` asks for.

        A port's facts may be spelled as neutron spells them; null counts as absent.
        """
        fixed_ips, segments = document.get("fixed_ips"), document.get("segments")
        return cls(
            **{name: document.get(name) for name in _PLAIN},
            vnic_type=document.get("vnic_type") or document.get("binding:vnic_type"),
            subnet_ids=None if fixed_ips is None else tuple(ip["subnet_id"] for ip in fixed_ips),
            segments=None if segments is None else _once(map(canonical, segments)),
        )

    @property
    def subnet_id(self) -> str | None:
        """Return the subnet that the port is bound to: as in nova that of its first fixed IP."""
        return self.subnet_ids[0] if self.subnet_ids else None

    @property
    def named_network(self) -> str | None:
        """Return the id of the network; None where neutron is to choose one, or there is none."""
        return None if self.network_id in _CHOOSING else self.network_id

    @property
    def is_open(self) -> bool:
        """Return whether neither a network nor a port is named: any host will do."""
        return not (self.named_network or self.port_id or self.subnet_id)

    @property
    def label(self) -> str:
        """Return what is asked for, in words: the subnet, else the network, else the port."""
        if self.subnet_id:
            return f"subnet {self.subnet_id}"
        return f"network {self.named_network}" if self.named_network else f"port {self.port_id}"

    def told(self, port: Port) -> Self:
        """Return this with what neutron tells of the port; what the caller gave stays."""
        return replace(
            self,
            network_id=port.network_id,
            vnic_type=self.vnic_type or port.vnic_type,
            subnet_ids=port.subnet_ids if self.subnet_ids is None else self.subnet_ids,
        )

    def reaching(self, segments: tuple[str, ...]) -> Self:
        """Return this with its segments known."""
        return replace(self, segments=_once(map(canonical, segments)))


_PLAIN = (
    "network_id",
    "address",
    "port_id",
    "pci_request_id",
    "tag",
    "arq_uuid",
    "device_profile",
)


def _once(segments: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(segments))
