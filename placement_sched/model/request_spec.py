"""The request spec: what is to be placed, under the attribute names that nova's plugins know."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, Self, TypeVar

from placement_sched.errors import Invalid, NotFound
from placement_sched.model.aggregates import ServerGroup
from placement_sched.model.document import Document, NovaObject
from placement_sched.model.flavor import Flavor, SizedByFlavor
from placement_sched.model.hardware.numa import InstanceNUMATopology
from placement_sched.model.hardware.pci_requests import InstancePCIRequests
from placement_sched.model.hardware.request import RequestedHardware
from placement_sched.model.image import Image
from placement_sched.model.names import canonical


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
            **{name: document.get(name) for name in _REQUESTED_PLAIN},
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


_REQUESTED_PLAIN = (
    "network_id",
    "address",
    "port_id",
    "pci_request_id",
    "tag",
    "arq_uuid",
    "device_profile",
)


def _once(segments: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(canonical, segments)))


T = TypeVar("T")
RequestPart = TypeVar("RequestPart")
#: Scheduler hint that marks a rebuild in nova's requests.
REBUILD_HINT = "_nova_check_type"
#: So many results of :meth:`RequestSpec.read_once` are kept.
_MOST_KEPT = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSpec(SizedByFlavor):
    """One request, of one or several equal instances.

    ``instance_uuid`` is the current instance, see :meth:`for_instance`. ``instance_uuids``, in
    lower case with hyphens, is empty where the caller named none. ``scheduler_hints`` has lists of
    strings. It can be read like ``filter_properties``, the dictionary of filters from before there
    were request specs: ``filter_properties.get("instance_type")["memory_mb"]`` is what filters of
    Icehouse to Liberty do. Keys that stood for what a filter cannot have here (``context``,
    ``config_options``) are not there. Source: nova's developer documentation of those days, and
    nova 34 observed.
    """

    flavor: Flavor
    image: Image = field(default_factory=Image)
    project_id: str | None = None
    user_id: str | None = None
    num_instances: int = 1
    instance_uuid: str | None = None
    instance_uuids: tuple[str, ...] = ()
    is_bfv: bool = False
    availability_zone: str | None = None
    ignore_hosts: tuple[str, ...] = ()
    force_hosts: tuple[str, ...] = ()
    force_nodes: tuple[str, ...] = ()
    requested_destination: Destination | None = None
    retry: Retry | None = None
    limits: Limits | None = None
    instance_group: ServerGroup | None = None
    scheduler_hints: Mapping[str, list[str]] = field(default_factory=dict)
    requested_resources: tuple[RequestedGroup, ...] = ()
    request_level_params: RequestLevelParams = field(default_factory=RequestLevelParams)
    requested_networks: tuple[NetworkRequest, ...] = ()
    security_groups: tuple[str, ...] = ()
    network_metadata: Any = None
    numa_topology: InstanceNUMATopology | None = None
    pci_requests: InstancePCIRequests | None = None
    _hardware: RequestedHardware | None = field(default=None, repr=False, compare=False)
    _kept: dict[Any, tuple[object, Any]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def hardware(self) -> RequestedHardware:
        """Return what flavor and image request of the hardware, read once for all copies."""
        kept = self._hardware
        if kept is None or kept.flavor is not self.flavor or kept.image is not self.image:
            kept = RequestedHardware(self.flavor, self.image)
            object.__setattr__(self, "_hardware", kept)
        return kept

    def read_once(self, part: RequestPart, read: Callable[[RequestPart], T]) -> T:
        """Return what ``read`` makes of a part of the request, the first time for all copies.

        So that a list of thousands is not read again for each host, each instance or each question
        about one host.
        """
        place = read, id(part)
        known = self._kept.get(place)
        if known is None or known[0] is not part:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            known = self._kept[place] = part, read(part)
        found: T = known[1]
        return found

    def read_again(self) -> None:
        """Forget what :meth:`read_once` has read, because parts of the request may have changed."""
        self._kept.clear()

    def get_scheduler_hint(self, name: str, default: Any = None) -> Any:
        """Return the hint: its only value where it has one, its list where it has several."""
        values = self.scheduler_hints.get(name)
        if values is None:
            return default
        return values[0] if len(values) == 1 else values

    def get(self, name: str, default: Any = None) -> Any:
        """Return a value under the key of the dictionary that old plugins read."""
        make = _HANDED.get(name)
        found = None if make is None else make(self)
        return default if found is None else found

    def __getitem__(self, name: str) -> Any:
        found = self.get(name)
        if found is None:
            raise KeyError(name)
        return found

    def __contains__(self, name: str) -> bool:
        return self.obj_attr_is_set(name) or self.get(name) is not None

    def obj_clone(self) -> Self:
        """Return a request that may be changed without this one, as nova's objects do."""
        return deepcopy(self)

    def obj_attr_is_set(self, name: str) -> bool:
        """Return whether there is an attribute of this name, as on nova's objects."""
        return hasattr(self, name)

    def to_legacy_request_spec_dict(self) -> dict[str, Any]:
        """Return the dictionary that was ``filter_properties["request_spec"]``."""
        image = {name: getattr(self.image, name) for name in _OF_IMAGE}
        return {
            "num_instances": self.num_instances,
            "instance_uuids": list(self.instance_uuids),
            "instance_type": self.flavor,
            "image": {**image, "properties": self.image.properties.to_dict()},
            "instance_properties": {
                "uuid": self.instance_uuid,
                **{name: getattr(self, name) for name in _OF_INSTANCE},
            },
        }

    def to_legacy_filter_properties_dict(self) -> dict[str, Any]:
        """Return the part of the old dictionary that nova's request spec of today has."""
        found = {name: make(self) for name, make in _LEGACY.items()}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def is_rebuild(self) -> bool:
        """Return whether an instance is rebuilt where it is, as nova's hint says."""
        return self.scheduler_hints.get(REBUILD_HINT) == ["rebuild"]

    def in_group_on(self, host: str) -> Self:
        """Return this request with the current instance in its group, if any, on ``host``."""
        group = self.instance_group
        if group is None:
            return self
        new = () if self.instance_uuid is None else (self.instance_uuid,)
        members = tuple(dict.fromkeys((*group.members, *new)))
        hosts = tuple(dict.fromkeys((*group.hosts, host)))
        return replace(self, instance_group=replace(group, members=members, hosts=hosts))

    def for_instance(self, uuid: str | None) -> Self:
        """Return this request with another current instance."""
        return replace(self, instance_uuid=uuid)

    @property
    def destination(self) -> Destination:
        """Return where the request may go; anywhere, where it names nothing."""
        return self.requested_destination or Destination()

    @property
    def _sizes(self) -> Flavor:
        return self.flavor

    @property
    def swap(self) -> int:
        """Return the flavor's swap in MB."""
        return self.flavor.swap

    @property
    def root_required(self) -> frozenset[str]:
        """Return the traits that the root provider must have."""
        return self.request_level_params.root_required

    @property
    def root_forbidden(self) -> frozenset[str]:
        """Return the traits that the root provider must not have."""
        return self.request_level_params.root_forbidden

    @property
    def same_subtree(self) -> tuple[tuple[str, ...], ...]:
        """Return the groups of suffixes whose providers must lie in one subtree."""
        return self.request_level_params.same_subtree


_OF_IMAGE = ("id", "name", "disk_format", "container_format", "min_ram", "min_disk")
_SIZES = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb")
_OWNER = ("project_id", "user_id", "availability_zone")
_OF_INSTANCE = (*_OWNER, *_SIZES, "numa_topology", "pci_requests")
_Maker = Callable[[RequestSpec], Any]


def _hints(spec: RequestSpec) -> dict[str, Any]:
    return {name: spec.get_scheduler_hint(name) for name in spec.scheduler_hints}


def _limits(spec: RequestSpec) -> dict[str, Any]:
    names = ("vcpu", "memory_mb", "disk_gb", "numa_topology")
    found = {name: getattr(spec.limits, name, None) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def _retry(spec: RequestSpec) -> dict[str, Any] | None:
    if spec.retry is None:
        return None
    hosts = [[tried.host, tried.hypervisor_hostname] for tried in spec.retry.hosts]
    return {"num_attempts": spec.retry.num_attempts, "hosts": hosts}


def _of_group(make: Callable[[ServerGroup], Any]) -> _Maker:
    return lambda spec: None if spec.instance_group is None else make(spec.instance_group)


def _list_of(name: str) -> _Maker:
    return lambda spec: list(getattr(spec, name)) or None


#: What nova's request spec has of ``filter_properties`` today; what is None is not there.
_LEGACY: Mapping[str, _Maker] = {
    "scheduler_hints": lambda spec: _hints(spec) or None,
    **{name: _list_of(name) for name in ("ignore_hosts", "force_hosts", "force_nodes")},
    "retry": _retry,
    "limits": lambda spec: _limits(spec) or None,
    "group_updated": _of_group(lambda _: True),
    "group_uuid": _of_group(lambda group: group.uuid),
    "group_hosts": _of_group(lambda group: set(group.hosts)),
    "group_members": _of_group(lambda group: set(group.members)),
    "group_policies": _of_group(lambda group: set(group.policies)),
    "requested_destination": attrgetter("requested_destination"),
}
#: What filters received in addition.
_HANDED: Mapping[str, _Maker] = {
    **_LEGACY,
    # There in any case: filters wrote limits, and did not ask whether there were hints.
    "scheduler_hints": _hints,
    "limits": _limits,
    "request_spec": RequestSpec.to_legacy_request_spec_dict,
    "instance_type": attrgetter("flavor"),
    "instance_uuids": _list_of("instance_uuids"),
    "os_type": lambda spec: spec.image.properties.get("os_type"),
    **{name: attrgetter(name) for name in (*_OWNER, "num_instances", "pci_requests")},
}


def request_spec_from(document: Document) -> RequestSpec:
    """Return the request that a JSON object (contract §4, already of its schema) describes.

    Raises :class:`Invalid` naming an image property that cannot be or an instance named twice,
    and :class:`NotFound` where a flavor or image, or :class:`Invalid` where a server group, is
    only named: the caller looks stored ones up.
    """
    uuids = tuple(map(canonical, document.get("instance_uuids") or ()))
    if twice := next((uuid for uuid, number in Counter(uuids).items() if number > 1), None):
        raise Invalid(f"instance {twice} is named twice", at="$.request_spec.instance_uuids")
    group = document.get("instance_group")
    if isinstance(group, str):
        raise Invalid(f"There is no server group {group}", at="$.request_spec.instance_group")
    hints = document.get("scheduler_hints") or {}
    plain = {name: document[name] for name in _PLAIN if document.get(name) is not None}
    lists: dict[str, Any] = {name: tuple(document.get(name) or ()) for name in _LISTS}
    if ":" in plain.get("availability_zone", ""):
        _force_by_zone(plain, lists)
    return RequestSpec(
        **plain,
        **lists,
        flavor=Flavor.from_document(_described(document, "flavor") or {}),
        image=Image.from_document(_described(document, "image")),
        num_instances=len(uuids) or document.get("num_instances") or 1,
        instance_uuids=uuids,
        instance_uuid=uuids[0] if uuids else document.get("instance_uuid"),
        requested_destination=_made(
            Destination.from_document, document.get("requested_destination") or None
        ),
        retry=_made(Retry.from_document, document.get("retry")),
        limits=Limits(**document["limits"]) if document.get("limits") else None,
        instance_group=_made(ServerGroup.from_document, group),
        # Lists of strings, as nova keeps them, whether given so or single.
        scheduler_hints={
            name: [hint] if isinstance(hint, str) else list(hint) for name, hint in hints.items()
        },
        requested_resources=tuple(
            map(RequestedGroup.from_document, document.get("requested_resources") or ())
        ),
        numa_topology=_made(InstanceNUMATopology.from_document, document.get("numa_topology")),
        pci_requests=_made(InstancePCIRequests.from_document, document.get("pci_requests")),
        requested_networks=tuple(
            map(NetworkRequest.from_document, document.get("requested_networks") or ())
        ),
        request_level_params=RequestLevelParams.from_document(
            document.get("request_level_params") or {}
        ),
    )


_PLAIN = ("project_id", "user_id", "is_bfv", "availability_zone", "network_metadata")
_LISTS = ("ignore_hosts", "force_hosts", "force_nodes", "security_groups")


def _force_by_zone(plain: dict[str, Any], lists: dict[str, Any]) -> None:
    """Read ``ZONE:HOST``, ``ZONE:HOST:NODE`` or ``ZONE::NODE`` as nova's API does.

    A forced host or node replaces the zone.
    """
    text = plain["availability_zone"]
    zone, host, *nodes = text.split(":")
    if len(nodes) > 1:
        place = "$.request_spec.availability_zone"
        raise Invalid(f"{text!r} is not of the form ZONE:HOST:NODE", at=place)
    forced = {"force_hosts": (host,), "force_nodes": tuple(nodes)}
    lists |= {name: names for name, names in forced.items() if any(names)}
    plain["availability_zone"] = None if host or any(nodes) else zone


def _described(document: Document, noun: str) -> Document | None:
    given = document.get(noun)
    if isinstance(given, str):
        raise NotFound(f"There is no stored {noun} {given!r}; give the {noun} as an object.")
    return given


def _made(make: Callable[[Document], T], document: Document | None) -> T | None:
    return None if document is None else make(document)
