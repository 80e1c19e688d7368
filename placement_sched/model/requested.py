"""What a request spec asks for besides flavor and image: destination, request groups, networks."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from placement_sched.errors import Invalid
from placement_sched.model.document import NovaObject
from placement_sched.model.naming import canonical


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination(NovaObject):
    """A wanted host, node or cell, and provider aggregates.

    Each item of ``aggregates`` is a comma-joined list of uuids, of which a host must be in one;
    items are ANDed. A host must be in none of ``forbidden_aggregates``.
    """

    host: str | None = None
    node: str | None = None
    cell: str | None = None
    aggregates: tuple[str, ...] = ()
    forbidden_aggregates: tuple[str, ...] = ()
    allow_cross_cell_move: bool = False

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Return the destination that a request's JSON object describes; null counts as absent."""
        return cls(
            **{name: document.get(name) for name in ("host", "node", "cell")},
            aggregates=tuple(document.get("aggregates") or ()),
            forbidden_aggregates=tuple(document.get("forbidden_aggregates") or ()),
            allow_cross_cell_move=bool(document.get("allow_cross_cell_move")),
        )

    @property
    def only_cell(self) -> str | None:
        """Return the cell to which this confines, as cells are kept; None where there is none.

        Where a move to another cell is allowed, the cell named is only the preferred one.
        """
        return canonical(self.cell) if self.cell and not self.allow_cross_cell_move else None

    @property
    def preferred_cell(self) -> str | None:
        """Return the cell to stay in where others are allowed, as cells are kept, or None."""
        return canonical(self.cell) if self.cell and self.allow_cross_cell_move else None

    def requiring(self, uuids: Iterable[str]) -> Self:
        """Return this, confined to hosts in at least one of the aggregates of these uuids."""
        return replace(self, aggregates=(*self.aggregates, ",".join(uuids)))

    def forbidding(self, uuids: Iterable[str]) -> Self:
        """Return this without hosts in any of these aggregates; earlier ones stay forbidden."""
        known = self.forbidden
        added = [uuid for uuid in uuids if uuid not in known]
        return replace(self, forbidden_aggregates=(*self.forbidden_aggregates, *added))

    @property
    def forbidden(self) -> frozenset[str]:
        """Return each forbidden aggregate, spelled as aggregates are kept.

        Items of ``forbidden_aggregates`` may be joined by commas, and spelled as a caller likes.
        """
        return frozenset(
            canonical(uuid) for joined in self.forbidden_aggregates for uuid in joined.split(",")
        )


@dataclass(frozen=True, slots=True)
class TriedHost(NovaObject):
    """A host that was tried before, named as nova's compute node objects name it."""

    host: str
    hypervisor_hostname: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry(NovaObject):
    """Earlier tries of this request."""

    num_attempts: int = 0
    hosts: tuple[TriedHost, ...] = ()

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Return the tries that a request's JSON object lists."""
        hosts = tuple(TriedHost(host, node) for host, node in document.get("hosts") or ())
        return cls(num_attempts=document.get("num_attempts") or 0, hosts=hosts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits(NovaObject):
    """Limits that a chosen host is to be held to: memory in MB, disk in GB."""

    vcpu: float | None = None
    memory_mb: float | None = None
    disk_gb: float | None = None
    numa_topology: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLevelParams:
    """Traits of the root provider, and groups of suffixes that must lie in one subtree."""

    root_required: frozenset[str] = frozenset()
    root_forbidden: frozenset[str] = frozenset()
    same_subtree: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Return what a request's JSON object asks; raises :class:`Invalid` for a contradiction."""
        required = frozenset(document.get("root_required") or ())
        forbidden = frozenset(document.get("root_forbidden") or ())
        for trait in sorted(required & forbidden):
            place = "$.request_spec.request_level_params"
            raise Invalid(
                f"trait {trait} is both required (at {place}.root_required) and forbidden",
                at=f"{place}.root_forbidden",
            )
        subtrees = tuple(map(tuple, document.get("same_subtree") or ()))
        return cls(root_required=required, root_forbidden=forbidden, same_subtree=subtrees)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedGroup(NovaObject):
    """Resources that are needed together, under nova's RequestGroup names.

    ``requester_id`` becomes the suffix of the group. A provider must be in one aggregate of each
    tuple of ``aggregates`` and in none of ``forbidden_aggregates``.
    """

    requester_id: str | None = None
    resources: Mapping[str, int] = field(default_factory=dict)
    required_traits: frozenset[str] = frozenset()
    forbidden_traits: frozenset[str] = frozenset()
    aggregates: tuple[tuple[str, ...], ...] = ()
    forbidden_aggregates: frozenset[str] = frozenset()
    in_tree: str | None = None
    use_same_provider: bool = True
    #: Where in the request, or in the flavor, it came from, if not from ``requested_resources``.
    source: str | None = None

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """Return the group that an item of a request's ``requested_resources`` describes."""
        return cls(
            requester_id=document.get("requester_id"),
            resources=dict(document.get("resources") or {}),
            required_traits=frozenset(document.get("required_traits") or ()),
            forbidden_traits=frozenset(document.get("forbidden_traits") or ()),
            # Those of which one will do are joined by commas or listed.
            aggregates=tuple(
                tuple(one.split(",") if isinstance(one, str) else one)
                for one in document.get("aggregates") or ()
            ),
            forbidden_aggregates=frozenset(document.get("forbidden_aggregates") or ()),
            in_tree=document.get("in_tree"),
            use_same_provider=document.get("use_same_provider", True),
        )

    @property
    def is_empty(self) -> bool:
        """Return whether it asks for nothing."""
        return not (
            self.resources
            or self.required_traits
            or self.forbidden_traits
            or self.aggregates
            or self.forbidden_aggregates
        )

    def requiring(self, trait: str) -> Self:
        """Return this group with one more required trait."""
        return replace(self, required_traits=self.required_traits | {trait})


#: The default type of a port (Networking API, "Port binding").
NORMAL = "normal"
#: The type of ports that are served by another processor, such as that of a SmartNIC.
REMOTE_MANAGED = "remote-managed"
#: What nova's API has in place of a network's id: let neutron choose, or attach to none.
_CHOOSING = frozenset({"auto", "none"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A port of neutron: its network, its type, and the subnets of its fixed IPs."""

    network_id: str
    vnic_type: str = NORMAL
    subnet_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkRequest:
    """A network, or a port that exists.

    The last three are facts from the caller or from neutron; None is not known. ``subnet_ids`` are
    those of the port's fixed IPs. ``segments`` are the ids of segments of a routed network, one of
    which a host must reach; a network that is not routed has none.
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
            segments=None if segments is None else _once(segments),
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

    def with_port(self, port: Port) -> Self:
        """Return this with the facts of neutron about the port; those of the caller stay."""
        return replace(
            self,
            network_id=port.network_id,
            vnic_type=self.vnic_type or port.vnic_type,
            subnet_ids=port.subnet_ids if self.subnet_ids is None else self.subnet_ids,
        )

    def reaching(self, segments: tuple[str, ...]) -> Self:
        """Return this with its segments known."""
        return replace(self, segments=_once(segments))


_PLAIN = ("network_id", "address", "port_id", "pci_request_id", "tag", "arq_uuid", "device_profile")


def _once(segments: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(canonical, segments)))
